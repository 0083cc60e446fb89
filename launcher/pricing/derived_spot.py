"""Spot in HyperPod, of which AWS publishes no rate: EC2's in the zone, dearer as HyperPod's on demand is than EC2's.

The middle is derived, and the most is HyperPod's rate on demand: a spot instance that costs more would be nobody's
choice. Where one of the three prices is not known there is none.
"""

from dataclasses import replace
from decimal import Decimal

from launcher.catalog.load import Catalog
from launcher.catalog.selector import SAGEMAKER, Key, RowSelector
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.model.target import target_of
from launcher.pricing.bill_lines import CENT_FRACTION


def is_derived(place: Place) -> bool:
    """Whether a place is bought on spot from a service that publishes no rate for it."""
    return place.option is PurchaseOption.SPOT and target_of(place.target).spot_like_ec2


def _keys(place: Place) -> tuple[Key, Key]:
    """What the service's rate on demand, and EC2's, are under."""
    detail = target_of(place.target).sagemaker or ""
    return (
        Key(SAGEMAKER, place.billed_name, place.region, detail=detail),
        Key(PurchaseOption.ON_DEMAND.value, place.instance_type, place.region),
    )


def factor(place: Place, selector: RowSelector) -> float | None:
    """The service's rate on demand over EC2's, as a plain number; None where one of them is not known."""
    rows = [selector.row(each) for each in _keys(place)]
    if any(each is None or not each.usd for each in rows):
        return None
    own, plain = (float(each.usd) for each in rows if each is not None)
    return own / plain if plain > 0 else None


def derived_price(price: Price | Unpriced, place: Place, catalog: Catalog) -> Price | Unpriced:
    """A zone's EC2 spot price as that of the service.

    Args:
        price: of EC2's spot, in the zone.
        place: where.
        catalog: both rates on demand.
    """
    if isinstance(price, Unpriced):
        return price
    own, plain = (catalog.price(each) for each in _keys(place))
    if isinstance(own, Unpriced) or isinstance(plain, Unpriced) or not plain.usd:
        return Unpriced(reason=f"AWS publishes no rate of spot in HyperPod, and {place.billed_name} has none to go by")
    ratio = own.usd / plain.usd
    source = f"{price.source}; {own.source}; {plain.source}"
    note = (
        f"AWS publishes no rate of spot in HyperPod: ${price.usd:f} of EC2's spot times {ratio:.2f}, its rate on demand"
        f" (${own.usd:f}) over EC2's (${plain.usd:f})"
    )
    return replace(
        price,
        usd=(price.usd * ratio).quantize(CENT_FRACTION),
        basis=Basis.DERIVED,
        as_of=min(price.as_of, own.as_of, plain.as_of),
        source=source,
        note=f"{note}; {price.note}" if price.note else note,
    )


def ceiling(place: Place, catalog: Catalog) -> Decimal | None:
    """The most that an instance-hour is taken to cost: the service's rate on demand; None where none is known."""
    own = catalog.price(_keys(place)[0])
    return own.usd if isinstance(own, Price) else None
