"""The price of an instance-hour in a place, or the reason why it has none."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.catalog.selector import NOT_LISTED, SPOT, Key
from launcher.catalog.store import Row
from launcher.model.enums import PREPAID, Availability, Basis, Market, Payment, PurchaseOption, SavingsPlanKind
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.pricing.ages import rests_on
from launcher.pricing.blocks import bought_capacity
from launcher.pricing.derived_spot import derived_price, is_derived, own_key
from launcher.pricing.spot_prices import forecast_at, forecast_price
from launcher.targets.registry import billed_name, target_of

RATE = Decimal("1e-10")
"""The precision to which a fee per instance-hour is rounded."""
_NOT_MANAGED = {
    PurchaseOption.SAVINGS_PLAN: "EC2 and Compute Savings Plans do not cover ml. instances",
    PurchaseOption.RESERVED: "Reserved Instances do not cover ml. instances",
    PurchaseOption.SPOT: "AWS publishes no rate of spot instances in SageMaker",
}


class Offer(NamedTuple):
    """A place's price and its known availability; `key` is the catalog key of the price."""

    price: Price | Unpriced
    availability: Availability
    key: Key | None = None


def offer(place: Place, request: PlanRequest, catalog: Catalog, today: date) -> Offer:
    """The offer at a place: the user's own price first, then the catalog's, less the plan's discount."""
    override = _override(place, request, today)
    if override is not None:
        return Offer(price=override, availability=Availability.UNKNOWN)
    key = price_key(place, request.purchase.payment)
    price = key if isinstance(key, Unpriced) else catalog.price(key)
    if isinstance(price, Price) and isinstance(key, Key) and key.kind == SPOT:
        forecast = forecast_at(place, catalog, today)
        price = price if forecast is None else forecast_price(price, forecast)
    if is_derived(place):
        price = derived_price(price, place, catalog)
    availability = Availability.UNKNOWN
    if isinstance(price, Price):
        managed_spot = is_derived(place) and key == own_key(place)
        availability = Availability.UNKNOWN if managed_spot or is_unlisted(price) else Availability.OFFERED
        if place.option in PREPAID:
            availability = Availability.LEAD_TIME
        if price.market is not Market.OPEN:
            availability = Availability.NO_MARKET
            if not is_requested_spot(place.instance_type, place.region, request):
                price = Unpriced(reason=_no_market(price), unverified=price)
    if bought_capacity(request.purchase, place.option) is not None:
        availability = Availability.OFFERED
    return Offer(_with_discount(price, request), availability, key if isinstance(key, Key) else None)


def is_unlisted(price: Price | Unpriced | Row | None) -> bool:
    """Whether a price follows from EC2's in a region where no source says that SageMaker sells the type."""
    return isinstance(price, Price | Row) and NOT_LISTED in price.note


def with_fee(priced: Offer, place: Place, request: PlanRequest, hours: float, today: date) -> Offer:
    """The offer at the fee of the purchased capacity over its instance-hours; unchanged if the fee is not known."""
    purchased = bought_capacity(request.purchase, place.option)
    if purchased is None or purchased.fee_usd is None or hours <= 0:
        return priced
    rate = Decimal(f"{(purchased.fee_usd / Decimal(repr(hours))).quantize(RATE).normalize():f}")
    key = "training_plan" if place.option is PurchaseOption.TRAINING_PLAN else "reservation"
    note = f"purchase.{key}.fee_usd: ${purchased.fee_usd:f} over {hours:g} instance-hours"
    return priced._replace(price=Price(usd=rate, source=Basis.USER.value, basis=Basis.USER, as_of=today, note=note))


def override_names(place: Place) -> tuple[str, ...]:
    """The names of a place in `purchase.price_overrides`, the one that takes precedence first.

    A name with the target is for its service alone: SageMaker bills training jobs, HyperPod and endpoints under the
    same names of types at rates of their own.
    """
    key = f"{billed_name(place)}/{place.option.value}"
    return f"{key}/{place.region}/{place.target.value}", f"{key}/{place.target.value}", f"{key}/{place.region}", key


def own_price_name(place: Place) -> str:
    """The name of a place in `purchase.price_overrides` that prices no other service."""
    _, with_target, _, key = override_names(place)
    return with_target if target_of(place.target).is_managed else key


def _override(place: Place, request: PlanRequest, today: date) -> Price | None:
    overrides = request.purchase.price_overrides
    for name in override_names(place) if overrides else ():
        if name in overrides:
            note = f"purchase.price_overrides {name}"
            return Price(usd=overrides[name], source=Basis.USER.value, basis=Basis.USER, as_of=today, note=note)
    return None


def price_key(place: Place, payment: Payment) -> Key | Unpriced:
    """The catalog key of a place's price, or the reason why AWS does not sell it this way."""
    option, region, target = place.option, place.region, target_of(place.target)
    name = billed_name(place)
    match option:
        case PurchaseOption.SAVINGS_PLAN:
            return _plan_key(place, payment)
        case PurchaseOption.TRAINING_PLAN:
            return Key(option.value, place.instance_type, region)
        case _ if target.is_managed and rests_on(place) is PurchaseOption.ON_DEMAND:
            return own_key(place)
        case _ if (target.is_managed and not is_derived(place)) or option is PurchaseOption.BEDROCK:
            return Unpriced(reason=_NOT_MANAGED.get(option, f"no {option.value} price of {name} is known"))
        case PurchaseOption.RESERVED:
            return Key(option.value, name, region, "", "standard", place.term_years or 1, payment.value)
    zone = place.az_id if option is PurchaseOption.SPOT else None
    return Key(option.value, place.instance_type, region, zone or "")


def _plan_key(place: Place, payment: Payment) -> Key | Unpriced:
    """The key of a Savings Plan's rate: a SageMaker plan covers SageMaker's instances, the others cover EC2's."""
    target = target_of(place.target)
    kind = place.plan_kind or SavingsPlanKind.COMPUTE
    if target.is_managed is not (kind is SavingsPlanKind.SAGEMAKER):
        reason = (
            _NOT_MANAGED[place.option] if target.is_managed else "a SageMaker Savings Plan does not cover EC2 instances"
        )
        return Unpriced(reason=reason)
    name = billed_name(place)
    return Key(place.option.value, name, place.region, "", kind.value, place.term_years or 1, payment.value)


def is_requested_spot(instance_type: str, region: str, request: PlanRequest) -> bool:
    """Whether the user requested spot for exactly this type and region, with or without a market."""
    target = request.target
    return (
        request.purchase.option == (PurchaseOption.SPOT,)
        and target.instance_type == (instance_type,)
        and target.region == (region,)
    )


def _no_market(price: Price) -> str:
    if price.market is Market.FLOOR:
        return f"no spot market: ${price.usd:f} is the floor of 10 % of on demand"
    return f"no spot market: ${price.usd:f} equals on demand"


def _with_discount(price: Price | Unpriced, request: PlanRequest) -> Price | Unpriced:
    percent = request.purchase.discount_percent
    if isinstance(price, Unpriced) or percent == 0:
        return price
    factor = Decimal(1) - Decimal(str(percent)) / 100
    note = f"${price.usd:f} less {percent:g} % (purchase.discount_percent)"
    return replace(price, usd=price.usd * factor, note=f"{price.note}; {note}" if price.note else note)
