"""Bedrock as a candidate: by token, by token in a batch, or by time for reserved capacity or imported weights."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.bedrock import BedrockCatalog
from launcher.model.bedrock import BedrockPrice, BedrockTerms
from launcher.model.enums import Availability, Basis, BedrockMode, PurchaseOption
from launcher.model.fleet import served_per_s
from launcher.model.money import CostComponent, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.serving import ServingChoices
from launcher.model.units import HOURS_PER_MONTH
from launcher.model.workload import HOURS_A_DAY, ServingWorkload
from launcher.pricing.bill_lines import component
from launcher.pricing.context import PricingContext
from launcher.pricing.offers import Offer
from launcher.pricing.serving.token_rates import MILLION, TokenRates, token_lines, token_rates
from launcher.pricing.serving.traffic import requests_per_month
from launcher.targets.registry import serving_targets

# Custom weights on Bedrock: custom model import, billed per custom model unit and minute.
#
# Billed are windows of 5 minutes from the first answered request on (Bedrock user guide, cost of a custom model), for
# every copy that runs. Requests that come at random keep a window open for the share r T / (1 + r T) of the time,
# with r requests a second and T = 300 s: a window, then the wait for the next request.


WINDOW_S = 300.0
MINUTES_PER_MONTH = HOURS_PER_MONTH * 60
PATH = "workload.serve.bedrock"
HOME = "us-east-1"
"""The region whose price list most rows cite; the default if the plan names none."""


def import_offer(
    serve: ServingWorkload, context: PricingContext, catalog: BedrockCatalog, region: str
) -> tuple[Price | Unpriced, BedrockTerms, tuple[CostComponent, ...]]:
    """The hourly rate over a month, the terms and the lines of imported weights; unpriced without the plan's figures.

    Args:
        serve: the plan's load.
        context: the request and the current date.
        catalog: Bedrock's prices.
        region: the region of the import.
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
    import_price = catalog.import_price(region)
    stored: Price | Unpriced = Unpriced(reason=f"no price of a stored unit in {region} is known")
    if import_price is not None:
        stored = Price(
            usd=import_price.usd_per_unit_month,
            source=import_price.source,
            basis=import_price.basis,
            as_of=import_price.as_of,
        )
    lines = (
        component(f"{name} imported, {copies} × {units} units", "compute", "unit-minute", minutes, rate),
        component("imported model kept", "storage", "unit-month", units, stored),
    )
    usd = sum((line.usd for line in lines if line.usd is not None), Decimal(0)) / Decimal(repr(HOURS_PER_MONTH))
    key = f"{rate.note}: " if rate.note else ""
    note = f"{key}${rate.usd:f} a unit and minute, {copies} × {units} units while there are requests"
    whole = Price(
        usd=usd.quantize(Decimal("0.000001")), source=rate.source, basis=rate.basis, as_of=rate.as_of, note=note
    )
    return whole, terms, lines


def _rate(
    serve: ServingWorkload, context: PricingContext, catalog: BedrockCatalog, region: str, units: int | None
) -> Price | Unpriced:
    """The price of a custom model unit and minute, or the missing input."""
    bedrock = serve.bedrock
    if bedrock.import_copies is None:
        return Unpriced(reason=f"AWS publishes no throughput of an imported copy: {PATH}.import_copies")
    if units is None:
        return Unpriced(reason=f"AWS names the units of a copy at its import: {PATH}.import_units")
    if bedrock.import_usd_per_unit_minute is not None:
        note, usd = f"{PATH}.import_usd_per_unit_minute", bedrock.import_usd_per_unit_minute
        return Price(usd=usd, source=Basis.USER.value, basis=Basis.USER, as_of=context.rules.today, note=note)
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
    return sum(rate * WINDOW_S / (1 + rate * WINDOW_S) for rate in load) / HOURS_A_DAY


class Hosted(NamedTuple):
    """One way to use Bedrock: its place, hourly rate over a month, terms, and every line of the month."""

    place: Place
    offer: Offer
    terms: BedrockTerms
    lines: tuple[CostComponent, ...]

    @property
    def cost(self) -> tuple[bool, Decimal]:
        """The order of regions: unpriced ones last."""
        price = self.offer.price
        return isinstance(price, Unpriced), price.usd if isinstance(price, Price) else Decimal(0)


def bedrock_candidates(
    choices: ServingChoices, context: PricingContext, *, everything: bool = False
) -> Iterator[Hosted]:
    """The Bedrock candidates of a plan; none if Bedrock lacks the model, or the plan does not allow Bedrock.

    Args:
        choices: the Bedrock choices that the plan leaves open.
        context: the request and the current date.
        everything: whether to return all regions that the plan names, not only the cheapest.
    """
    catalog = BedrockCatalog(prices_as_of=context.catalog.prices_as_of)
    regions = context.request.target.region or (HOME,)
    for mode in choices.bedrock_modes:
        options = [_in_region(choices, context, catalog, region, mode) for region in regions]
        yield from options if everything else [min(options, key=lambda option: option.cost)]


def _in_region(
    choices: ServingChoices, context: PricingContext, catalog: BedrockCatalog, region: str, mode: BedrockMode
) -> Hosted:
    if mode is BedrockMode.CUSTOM_IMPORT:
        price, terms, lines = import_offer(choices.serve, context, catalog, region)
        offer = Offer(price=price, availability=Availability.UNKNOWN)
        option = Hosted(place=_place(region), offer=offer, terms=terms, lines=lines)
    elif mode is BedrockMode.PROVISIONED:
        option = _provisioned_candidate(choices, context, region, _same(choices, catalog))
    else:
        option = _by_the_token(choices, context, catalog, region, mode=mode)
    return option._replace(terms=replace(option.terms, region_seen=region in catalog.regions))


def _same(choices: ServingChoices, catalog: BedrockCatalog) -> str:
    """The catalog's model with the same weights; "" for a closed one."""
    return catalog.same_weights.get(choices.bedrock_id or "", "")


def _place(region: str) -> Place:
    return Place(
        target=serving_targets()[0], instance_type="", nodes=1, region=region, az_id=None, option=PurchaseOption.BEDROCK
    )


def _by_the_token(
    choices: ServingChoices, context: PricingContext, catalog: BedrockCatalog, region: str, *, mode: BedrockMode
) -> Hosted:
    """On demand, or in a batch whose answers arrive within a day."""
    model_id, serve, profile = choices.bedrock_id or "", choices.serve, choices.serve.bedrock.profile
    row = catalog.price(model_id, region, profile, today=context.rules.today)
    if row is None:
        rates: TokenRates | Unpriced = Unpriced(reason=_absent(choices, context, catalog, region))
    else:
        rates = token_rates(row, mode, serve, context.rules.today)
    terms = BedrockTerms(
        model_id=model_id,
        profile=row.profile if row is not None else "",
        mode=mode,
        same_weights=_same(choices, catalog),
        input_usd_per_million=None,
        output_usd_per_million=None,
    )
    name = f"{terms.inference_id} {mode.value}"
    lines: tuple[CostComponent, ...]
    if isinstance(rates, Unpriced):
        millions = requests_per_month(serve) * serve.input_tokens / MILLION
        lines = (component(f"{name}, input", "compute", "million tokens", millions, rates),)
        price: Price | Unpriced = rates
    else:
        lines = tuple(token_lines(name, serve, rates))
        price = _hourly(lines, rates)
        terms = replace(
            terms,
            input_usd_per_million=rates.input.usd,
            output_usd_per_million=rates.output.usd,
            cached_usd_per_million=rates.cached.usd if rates.cached and serve.cached_input_fraction else None,
            cheaper=_cheaper(row, catalog, region) if row is not None and profile is None else "",
            end=row.end if row is not None else None,
        )
    return Hosted(
        place=_place(region), offer=Offer(price=price, availability=Availability.UNKNOWN), terms=terms, lines=lines
    )


def _cheaper(row: BedrockPrice, catalog: BedrockCatalog, region: str) -> str:
    """A profile of the region that costs less than the price in use, in words."""
    others = catalog.priced_profiles(row.model_id, region)
    less = [other for other in others if other.basis is not Basis.UNVERIFIED and other.input_usd < row.input_usd]
    if not less:
        return ""
    best = min(less, key=lambda bedrock_price: bedrock_price.input_usd)
    return f"{best.profile} at ${best.input_usd:f} in and ${best.output_usd:f} out per million tokens"


def _absent(choices: ServingChoices, context: PricingContext, catalog: BedrockCatalog, region: str) -> str:
    model_id, requested_profile, day = choices.bedrock_id, choices.serve.bedrock.profile, context.catalog.prices_as_of
    when = f" on or before {day}" if day is not None else ""
    if requested_profile is None or catalog.price(model_id or "", region) is None:
        return f"no price of {model_id} is known{when}"
    known = ", ".join(profile.profile for profile in catalog.priced_profiles(model_id or "", region)) or "none"
    lacking = f"no price of {model_id} is known in {region} with profile {requested_profile}{when}"
    return f"{lacking}; of profiles there: {known}"


def _hourly(lines: tuple[CostComponent, ...], rates: TokenRates) -> Price:
    usd = sum((line.usd for line in lines if line.usd is not None), Decimal(0)) / Decimal(repr(HOURS_PER_MONTH))
    note = f"${rates.input.usd:f} in and ${rates.output.usd:f} out per million tokens"
    if rates.cached is not None and len(lines) > 2:  # noqa: PLR2004 - input and output, and what the cache holds
        note += f", ${rates.cached.usd:f} from the cache"
    return Price(
        usd=usd.quantize(Decimal("0.000001")),
        source=rates.output.source,
        basis=rates.output.basis,
        as_of=rates.output.as_of,
        note=f"{note}; {rates.output.note}",
    )


def _provisioned_candidate(choices: ServingChoices, context: PricingContext, region: str, same: str) -> Hosted:
    bedrock = choices.serve.bedrock
    usd_per_hour = bedrock.provisioned_usd_per_hour
    model_id = choices.bedrock_id or ""
    price: Price | Unpriced
    if usd_per_hour is None:
        price = Unpriced(reason="AWS publishes no price of provisioned throughput: bedrock.provisioned_usd_per_hour")
    else:
        note = "workload.serve.bedrock.provisioned_usd_per_hour"
        price = Price(usd=usd_per_hour, source=Basis.USER.value, basis=Basis.USER, as_of=context.rules.today, note=note)
    hours = bedrock.provisioned_units * HOURS_PER_MONTH
    name = f"{model_id} provisioned, {bedrock.provisioned_units} units"
    whole = price
    if isinstance(price, Price):
        whole = Price(
            usd=price.usd * bedrock.provisioned_units,
            source=price.source,
            basis=price.basis,
            as_of=price.as_of,
            note=price.note,
        )
    return Hosted(
        place=_place(region),
        offer=Offer(price=whole, availability=Availability.UNKNOWN),
        terms=BedrockTerms(
            model_id=model_id,
            profile="",
            mode=BedrockMode.PROVISIONED,
            same_weights=same,
            input_usd_per_million=None,
            output_usd_per_million=None,
        ),
        lines=(component(name, "compute", "unit-hour", hours, price),),
    )
