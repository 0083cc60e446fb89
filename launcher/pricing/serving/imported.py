"""Weights of one's own on Bedrock: custom model import, by the custom model unit and the minute.

Billed are windows of 5 minutes from the first answered request on (Bedrock user guide, cost of a custom model), for
every copy that runs. Requests that come at random keep a window open for the share r T / (1 + r T) of the time, with r
requests a second and T = 300 s: a window, then the wait for the next request.
"""

from decimal import Decimal

from launcher.catalog.bedrock import BedrockCatalog
from launcher.model.calendar import HOURS_PER_MONTH
from launcher.model.enums import Basis, BedrockMode
from launcher.model.fleet import served_per_s
from launcher.model.money import CostComponent, Price, Unpriced
from launcher.model.serving import BedrockTerms
from launcher.model.workload import HOURS_A_DAY, ServingWorkload
from launcher.pricing.bill_lines import component
from launcher.pricing.context import PricingContext

WINDOW_S = 300.0
MINUTES_PER_MONTH = HOURS_PER_MONTH * 60
PATH = "workload.serve.bedrock"


def imported(
    serve: ServingWorkload, context: PricingContext, catalog: BedrockCatalog, region: str
) -> tuple[Price | Unpriced, BedrockTerms, tuple[CostComponent, ...]]:
    """The rate of an hour of the month, the terms and the lines of imported weights; unpriced without the figures.

    Args:
        serve: the plan's load.
        context: the request and its day.
        catalog: Bedrock's prices.
        region: where it is imported.
    """
    spec = context.catalog.find_model(serve.model) if isinstance(serve.model, str) else None
    name = spec.name if spec is not None else serve.model if isinstance(serve.model, str) else context.request.name
    terms = BedrockTerms(
        model_id=name,
        profile="",
        mode=BedrockMode.CUSTOM_IMPORT,
        same_weights="",
        input_usd_per_million=None,
        output_usd_per_million=None,
    )
    units = serve.bedrock.import_units or catalog.import_units.get(name)
    rate = _rate(serve, context, catalog, region, units)
    if isinstance(rate, Unpriced) or units is None:
        price = rate if isinstance(rate, Unpriced) else Unpriced(reason="no number of units is known")
        return price, terms, (component(f"{name} imported", "compute", "unit-minute", 0, price),)
    copies = serve.bedrock.import_copies or 1
    minutes = copies * units * open_share(serve) * MINUTES_PER_MONTH
    kept = catalog.import_price(region)
    stored: Price | Unpriced = Unpriced(reason=f"no price of a stored unit in {region} is known")
    if kept is not None:
        stored = Price(usd=kept.usd_per_unit_month, source=kept.source, basis=kept.basis, as_of=kept.as_of)
    lines = (
        component(f"{name} imported, {copies} × {units} units", "compute", "unit-minute", minutes, rate),
        component("imported model kept", "storage", "unit-month", units, stored),
    )
    usd = sum((each.usd for each in lines if each.usd is not None), Decimal(0)) / Decimal(repr(HOURS_PER_MONTH))
    key = f"{rate.note}: " if rate.note else ""
    note = f"{key}${rate.usd:f} a unit and minute, {copies} × {units} units while there are requests"
    whole = Price(
        usd=usd.quantize(Decimal("0.000001")), source=rate.source, basis=rate.basis, as_of=rate.as_of, note=note
    )
    return whole, terms, lines


def _rate(
    serve: ServingWorkload, context: PricingContext, catalog: BedrockCatalog, region: str, units: int | None
) -> Price | Unpriced:
    """The price of a custom model unit and minute, or what is missing for it to be of use."""
    wanted = serve.bedrock
    if wanted.import_copies is None:
        return Unpriced(reason=f"AWS publishes no throughput of an imported copy: {PATH}.import_copies")
    if units is None:
        return Unpriced(reason=f"AWS names the units of a copy at its import: {PATH}.import_units")
    if wanted.import_usd_per_unit_minute is not None:
        note, own = f"{PATH}.import_usd_per_unit_minute", wanted.import_usd_per_unit_minute
        return Price(usd=own, source=Basis.USER.value, basis=Basis.USER, as_of=context.rules.today, note=note)
    known = catalog.import_price(region)
    if known is None:
        return Unpriced(reason=f"no price of an import in {region} is known: {PATH}.import_usd_per_unit_minute")
    return Price(usd=known.usd_per_unit_minute, source=known.source, basis=known.basis, as_of=known.as_of)


def open_share(serve: ServingWorkload) -> float:
    """The share of the month in which a window is open.

    >>> open_share(ServingWorkload(requests_per_s=1 / 300)), open_share(ServingWorkload(requests_per_s=0))
    (0.5, 0.0)
    """
    load = served_per_s(serve)
    return sum(each * WINDOW_S / (1 + each * WINDOW_S) for each in load) / HOURS_A_DAY
