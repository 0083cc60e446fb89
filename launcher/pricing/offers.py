"""What a place costs: the price of one instance-hour there, or why there is none."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.model.enums import Availability, Basis, Market, PlanKind, PurchaseOption, TargetKind
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.pricing.blocks import bought

MANAGED = (TargetKind.HYPERPOD_SLURM, TargetKind.SAGEMAKER_ENDPOINT)
"""Targets whose machines SageMaker bills, under names that begin with `ml.`."""
COMPONENT = {TargetKind.HYPERPOD_SLURM: "cluster", TargetKind.SAGEMAKER_ENDPOINT: "hosting"}
"""What it bills the machines of each as."""

_NOT_MANAGED = {
    PurchaseOption.SAVINGS_PLAN: "EC2 and Compute Savings Plans do not cover ml. instances",
    PurchaseOption.RESERVED: "Reserved Instances do not cover ml. instances",
    PurchaseOption.SPOT: "AWS publishes no rate of spot instances in SageMaker",
}


class Offer(NamedTuple):
    """A place with its price and what is known about getting it."""

    price: Price | Unpriced
    availability: Availability


def offer(place: Place, request: PlanRequest, catalog: Catalog, today: date) -> Offer:
    """The offer at a place: the user's own price first, then the catalog's, less the plan's discount."""
    own = _override(place, request, today)
    if own is not None:
        return Offer(price=own, availability=Availability.UNKNOWN)
    price = _listed(place, request, catalog)
    availability = Availability.UNKNOWN
    if isinstance(price, Price):
        availability = Availability.OFFERED
        if place.option in (PurchaseOption.CAPACITY_BLOCK, PurchaseOption.TRAINING_PLAN):
            availability = Availability.LEAD_TIME
        if price.market is not Market.OPEN:
            availability = Availability.NO_MARKET
            if not asked_for(place.instance_type, place.region, request):
                price = Unpriced(reason=_no_market(price), seen=price)
    if bought(request.purchase, place.option) is not None:
        availability = Availability.OFFERED
    return Offer(price=_discounted(price, request), availability=availability)


def billed_name(target: TargetKind, instance_type: str) -> str:
    """What the bill calls a type.

    >>> billed_name(TargetKind.HYPERPOD_SLURM, "p5.48xlarge"), billed_name(TargetKind.PARALLELCLUSTER, "p5.48xlarge")
    ('ml.p5.48xlarge', 'p5.48xlarge')
    """
    return f"ml.{instance_type}" if target in MANAGED else instance_type


def _override(place: Place, request: PlanRequest, today: date) -> Price | None:
    """The user's price for a place; the one that names the region goes before the one that does not."""
    key = f"{billed_name(place.target, place.instance_type)}/{place.option.value}"
    overrides = request.purchase.price_overrides
    for name in (f"{key}/{place.region}", key):
        if name in overrides:
            source = f"user (purchase.price_overrides {name})"
            return Price(usd=overrides[name], source=source, basis=Basis.USER, as_of=today)
    return None


def _listed(place: Place, request: PlanRequest, catalog: Catalog) -> Price | Unpriced:
    """The catalog's price for a place."""
    if place.target in MANAGED:
        return _managed(place, request, catalog)
    name, region = place.instance_type, place.region
    payment, term = request.purchase.payment, place.term_years or 1
    match place.option:
        case PurchaseOption.ON_DEMAND:
            price = catalog.on_demand(name, region)
        case PurchaseOption.SPOT:
            known = catalog.spot(name, region).get(place.az_id or "")
            price = known or Unpriced(reason=f"no spot price of {name} in {place.az_id or region} is known")
        case PurchaseOption.CAPACITY_BLOCK:
            price = catalog.capacity_block(name, region)
        case PurchaseOption.TRAINING_PLAN:
            price = catalog.training_plan(name, region)
        case PurchaseOption.SAVINGS_PLAN if place.plan_kind is PlanKind.SAGEMAKER:
            price = Unpriced(reason="a SageMaker Savings Plan does not cover EC2 instances")
        case PurchaseOption.SAVINGS_PLAN:
            price = catalog.savings_plan(name, region, place.plan_kind or PlanKind.COMPUTE, term, payment)
        case PurchaseOption.RESERVED:
            price = catalog.reserved(name, region, "standard", term, payment)
        case _:
            price = Unpriced(reason=f"no {place.option.value} price of {name} is known")
    return price


def _managed(place: Place, request: PlanRequest, catalog: Catalog) -> Price | Unpriced:
    """The catalog's price for a machine that SageMaker bills."""
    name, region = billed_name(place.target, place.instance_type), place.region
    match place.option:
        case PurchaseOption.ON_DEMAND:
            return catalog.sagemaker(name, region, COMPONENT[place.target])
        case PurchaseOption.TRAINING_PLAN:
            return catalog.training_plan(place.instance_type, region)
        case PurchaseOption.SAVINGS_PLAN if place.plan_kind is PlanKind.SAGEMAKER:
            return catalog.savings_plan(
                name, region, PlanKind.SAGEMAKER, place.term_years or 1, request.purchase.payment
            )
    return Unpriced(reason=_NOT_MANAGED.get(place.option, f"no {place.option.value} price of {name} is known"))


def asked_for(instance_type: str, region: str, request: PlanRequest) -> bool:
    """Whether the user asked for spot at this very place, market or not."""
    target = request.target
    return (
        request.purchase.option == (PurchaseOption.SPOT,)
        and target.instance_type == (instance_type,)
        and target.region == (region,)
    )


def _no_market(price: Price) -> str:
    """Why a spot row is no offer."""
    if price.market is Market.FLOOR:
        return f"no spot market: ${price.usd:f} is the floor of 10 % of on demand"
    return f"no spot market: ${price.usd:f} equals on demand"


def _discounted(price: Price | Unpriced, request: PlanRequest) -> Price | Unpriced:
    """The price less the plan's discount; the note says so."""
    percent = request.purchase.discount_percent
    if isinstance(price, Unpriced) or percent == 0:
        return price
    factor = Decimal(1) - Decimal(str(percent)) / 100
    note = f"${price.usd:f} less {percent:g} % (purchase.discount_percent)"
    return replace(price, usd=price.usd * factor, note=f"{price.note}; {note}" if price.note else note)
