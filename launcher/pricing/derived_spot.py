"""Spot prices of services that publish none.

HyperPod: EC2's spot price in the zone, times the ratio of HyperPod's on-demand rate to EC2's. Managed spot training: a
share of the on-demand rate. The maximum is the service's on-demand rate, because spot above on demand makes no sense.
If one of the prices is unknown, the spot price is unknown too.
"""

from dataclasses import replace
from decimal import Decimal

from launcher.catalog.load import Catalog
from launcher.catalog.selector import SAGEMAKER, Key, RowSelector
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.money import Price, Unpriced
from launcher.model.plan import Place
from launcher.pricing.bill_lines import CENT_FRACTION
from launcher.targets.registry import billed_name, target_of

MANAGED_SPOT = (Decimal("0.10"), Decimal("0.35"), Decimal(1))
"""Of the rate on demand: the least, "up to 90 %" off (SageMaker developer guide, Managed Spot Training); the middle, of
63 to 70 % off in public logs of 2019 to 2024, none of p4d or later; the most, no discount at all."""


def is_derived(place: Place) -> bool:
    """Whether a place is bought on spot from a service that publishes no rate for it."""
    target = target_of(place.target)
    return place.option is PurchaseOption.SPOT and (target.spot_like_ec2 or target.managed_spot)


def own_key(place: Place) -> Key:
    """The catalog key of the service's on-demand rate."""
    return Key(SAGEMAKER, billed_name(place), place.region, detail=target_of(place.target).sagemaker or "")


def _ec2_key(place: Place) -> Key:
    """The catalog key of EC2's on-demand rate."""
    return Key(PurchaseOption.ON_DEMAND.value, place.instance_type, place.region)


def factor(place: Place, selector: RowSelector) -> float | None:
    """The factor for a spot price's row, as a plain number; None if a rate is unknown."""
    if target_of(place.target).managed_spot:
        return float(MANAGED_SPOT[1])
    rows = [selector.row(key) for key in (own_key(place), _ec2_key(place))]
    if any(row is None or not row.usd for row in rows):
        return None
    service_rate, plain = (float(row.usd) for row in rows if row is not None)
    return service_rate / plain if plain > 0 else None


def derived_price(price: Price | Unpriced, place: Place, catalog: Catalog) -> Price | Unpriced:
    """The service's spot price of an instance-hour.

    Args:
        price: EC2's spot price in the zone; for managed spot the service's on-demand rate.
        place: the place.
        catalog: has both on-demand rates.
    """
    if isinstance(price, Unpriced):
        return price
    if target_of(place.target).managed_spot:
        return managed_price(price)
    service_rate, plain = (catalog.price(key) for key in (own_key(place), _ec2_key(place)))
    if isinstance(service_rate, Unpriced) or isinstance(plain, Unpriced) or not plain.usd:
        return Unpriced(reason=f"AWS publishes no rate of spot in HyperPod, and {billed_name(place)} has none to go by")
    ratio = service_rate.usd / plain.usd
    source = f"{price.source}; {service_rate.source}; {plain.source}"
    note = (
        f"AWS publishes no rate of spot in HyperPod: ${price.usd:f} of EC2's spot times {ratio:.2f}, its rate on demand"
        f" (${service_rate.usd:f}) over EC2's (${plain.usd:f})"
    )
    return replace(
        price,
        usd=(price.usd * ratio).quantize(CENT_FRACTION),
        basis=Basis.DERIVED,
        as_of=min(price.as_of, service_rate.as_of, plain.as_of),
        source=source,
        note="; ".join(filter(None, (note, price.note, service_rate.note))),
    )


def managed_price(price: Price, share: Decimal = MANAGED_SPOT[1]) -> Price:
    """A price of managed spot from the on-demand rate; the default share is the middle one."""
    note = (
        f"AWS publishes no rate of managed spot: {share:.0%} of ${price.usd:f} on demand; public logs of 2019 to 2024"
        " have 30 to 37 % for older types, and at most it is the rate on demand"
    )
    return replace(
        price,
        usd=(price.usd * share).quantize(CENT_FRACTION),
        basis=Basis.DERIVED,
        note=f"{note}; {price.note}" if price.note else note,
    )
