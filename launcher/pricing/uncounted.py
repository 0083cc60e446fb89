"""What a quote leaves out, and what AWS rounds up: said with every quote, for nobody finds it in the lines."""

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption
from launcher.model.money import Assumption, Price
from launcher.model.plan import Place
from launcher.model.target import target_of

LEAST_BILLED_S = 60
"""Seconds that EC2 bills a Linux instance at the least; by the second after that (EC2 price page, from memory)."""
NOT_COUNTED = "not counted"


def uncounted_assumptions(place: Place, catalog: Catalog) -> tuple[Assumption, ...]:
    """Taxes, the support plan, the least that is billed, and on spot the wait for capacity."""
    found = [
        Assumption(
            name="taxes",
            value=NOT_COUNTED,
            unit="",
            source="AWS adds value added or sales tax by the account's address",
        ),
        Assumption(name="AWS Support", value=NOT_COUNTED, unit="", source=_support(place, catalog)),
    ]
    by_second = place.option in (PurchaseOption.ON_DEMAND, PurchaseOption.SPOT) and not target_of(place.target).managed
    if by_second and place.instance_type:
        source = "EC2's price page, from memory: an instance that fails at once costs a minute"
        found.append(Assumption(name="least billed", value=str(LEAST_BILLED_S), unit="s an instance", source=source))
    if place.option is PurchaseOption.SPOT:
        source = "nothing published says how long; purchase.wait_for_capacity_minutes ends the first wait"
        found.append(Assumption(name="waiting for spot capacity", value=NOT_COUNTED, unit="", source=source))
    return tuple(found)


def _support(place: Place, catalog: Catalog) -> str:
    """What the cheapest paid plan takes, as far as it is known."""
    rate = catalog.bill_item("support.business-rate", place.region)
    least = catalog.bill_item("support.business-minimum", place.region)
    if not isinstance(rate, Price) or not isinstance(least, Price):
        return "the account's plan takes a share of the bill"
    return (
        f"the Business plan takes {rate.usd:.0%} of the month's first dollars, at least ${least.usd:f}; {rate.source}"
    )
