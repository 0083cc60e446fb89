"""Bedrock as a candidate: by the token, by the token in a batch, or by the hour at a user's own price."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.bedrock import BedrockCatalog
from launcher.model.enums import Availability, Basis, BedrockMode, PurchaseOption
from launcher.model.fleet import HOURS_PER_MONTH
from launcher.model.money import CostComponent, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.serving import BedrockPrice, BedrockTerms, ServingChoices
from launcher.model.target import serving_targets
from launcher.pricing.bill_lines import component
from launcher.pricing.context import PricingContext
from launcher.pricing.offers import Offer
from launcher.pricing.serving.traffic import requests_per_month

MILLION = 1e6
HOME = "us-east-1"
"""The region whose price list most rows cite: taken where the plan names none."""


class Hosted(NamedTuple):
    """One way to use Bedrock: where, at what rate an hour of the month, on what terms, and every line of the month."""

    place: Place
    offer: Offer
    terms: BedrockTerms
    lines: tuple[CostComponent, ...]


def hosted(choices: ServingChoices, context: PricingContext) -> Iterator[Hosted]:
    """The Bedrock candidates of a plan; none where Bedrock does not have the model, or the plan does not allow it."""
    if choices.bedrock_id is None:
        return
    catalog = BedrockCatalog(prices_as_of=context.catalog.prices_as_of)
    region = (context.request.target.region or (HOME,))[0]
    row = catalog.price(choices.bedrock_id, region)
    same = catalog.same_weights.get(choices.bedrock_id, "")
    for mode in choices.bedrock_modes:
        if mode is BedrockMode.PROVISIONED:
            found = _provisioned(choices, context, region, same)
        else:
            found = _by_the_token(choices, context, region, row, mode=mode, same=same)
        yield found._replace(terms=replace(found.terms, region_seen=region in catalog.regions))


def _place(region: str) -> Place:
    """Where a Bedrock candidate is: a region and no machine."""
    return Place(
        target=serving_targets()[0],
        instance_type="",
        nodes=1,
        region=region,
        az_id=None,
        option=PurchaseOption.BEDROCK,
    )


def _by_the_token(
    choices: ServingChoices,
    context: PricingContext,
    region: str,
    row: BedrockPrice | None,
    *,
    mode: BedrockMode,
    same: str,
) -> Hosted:
    """On demand, or in a batch whose answers come within a day."""
    model_id = choices.bedrock_id or ""
    rates = _rates(row, mode, context.rules.today) if row is not None else Unpriced(reason=_absent(model_id, context))
    serve = choices.serve
    requests = requests_per_month(serve)
    millions = (requests * serve.input_tokens / MILLION, requests * serve.answer_tokens / MILLION)
    lines: tuple[CostComponent, ...]
    names = (f"{model_id} {mode.value}, input", f"{model_id} {mode.value}, output")
    if isinstance(rates, Unpriced):
        inputs = outputs = None
        lines = (component(names[0], "compute", "million tokens", millions[0], rates),)
        price: Price | Unpriced = rates
    else:
        inputs, outputs = rates
        lines = tuple(
            component(name, "compute", "million tokens", count, rate)
            for name, count, rate in zip(names, millions, rates, strict=True)
        )
        price = _hourly(lines, inputs, outputs)
    return Hosted(
        place=_place(region),
        offer=Offer(price=price, availability=Availability.UNKNOWN),
        terms=BedrockTerms(
            model_id=model_id,
            profile=row.profile if row is not None else "",
            mode=mode,
            same_weights=same,
            input_usd_per_million=inputs.usd if inputs is not None else None,
            output_usd_per_million=outputs.usd if outputs is not None else None,
        ),
        lines=lines,
    )


def _rates(row: BedrockPrice, mode: BedrockMode, today: date) -> tuple[Price, Price] | Unpriced:
    """Dollars per million tokens in and out, or why there are none."""
    batch = mode is BedrockMode.BATCH
    inputs = row.batch_input_usd if batch else row.input_usd
    outputs = row.batch_output_usd if batch else row.output_usd
    if inputs is None or outputs is None:
        return Unpriced(reason=f"no batch price of {row.model_id} is known")
    where = f"profile {row.profile}" if row.profile else row.region or "no region stated: taken for all"
    found = tuple(
        Price(usd=usd, source=row.source, basis=row.basis, as_of=row.as_of, note=where) for usd in (inputs, outputs)
    )
    if row.basis is Basis.UNVERIFIED:
        return Unpriced(reason=f"the only price of {row.model_id} has no source", seen=found[1])
    if row.deprecation is not None and row.deprecation <= today:
        return Unpriced(reason=f"AWS has withdrawn {row.model_id} on {row.deprecation}", seen=found[1])
    return found[0], found[1]


def _absent(model_id: str, context: PricingContext) -> str:
    day = context.catalog.prices_as_of
    return f"no price of {model_id} is known" + (f" on or before {day}" if day is not None else "")


def _hourly(lines: tuple[CostComponent, ...], inputs: Price, outputs: Price) -> Price:
    """What an hour of the month costs on the average, with the price of a token in the note."""
    usd = sum((each.usd for each in lines if each.usd is not None), Decimal(0)) / Decimal(repr(HOURS_PER_MONTH))
    note = f"${inputs.usd:f} in and ${outputs.usd:f} out per million tokens"
    return Price(
        usd=usd.quantize(Decimal("0.000001")),
        source=outputs.source,
        basis=outputs.basis,
        as_of=outputs.as_of,
        note=f"{note}; {outputs.note}" if outputs.note else note,
    )


def _provisioned(choices: ServingChoices, context: PricingContext, region: str, same: str) -> Hosted:
    """Model units by the hour, at the price the user was told."""
    wanted = choices.serve.bedrock
    own = wanted.provisioned_usd_per_hour
    model_id = choices.bedrock_id or ""
    price: Price | Unpriced
    if own is None:
        price = Unpriced(reason="AWS publishes no price of provisioned throughput: bedrock.provisioned_usd_per_hour")
    else:
        source = "user (workload.serve.bedrock.provisioned_usd_per_hour)"
        price = Price(usd=own, source=source, basis=Basis.USER, as_of=context.rules.today)
    hours = wanted.provisioned_units * HOURS_PER_MONTH
    name = f"{model_id} provisioned, {wanted.provisioned_units} units"
    whole = price
    if isinstance(price, Price):
        whole = Price(
            usd=price.usd * wanted.provisioned_units, source=price.source, basis=price.basis, as_of=price.as_of
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
