"""The costs that a quote leaves out, and the amounts that AWS rounds up; every quote lists them."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.money import Assumption, CostComponent, Price, UsdRange
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.targets.registry import target_of

MIN_BILLED_S = 60
"""Minimum seconds that EC2 bills a Linux instance; by the second after that (EC2 price page, from memory)."""
NOT_COUNTED = "not counted"
UNKNOWN_WAIT = (
    "the Spot Advisor's bands, notices and placement scores say how often and how likely, never how long; "
    "a head node and a network are billed meanwhile; purchase.wait_for_capacity_minutes ends the first wait"
)


def uncounted_assumptions(
    place: Place, request: PlanRequest, catalog: Catalog, usd: UsdRange | None
) -> tuple[Assumption, ...]:
    """Taxes, the support plan, the minimum billing, and on spot the wait for capacity.

    Args:
        place: the place.
        request: the plan, which may state the percentage of the account's support plan.
        catalog: has the rate of a support plan if the request has none.
        usd: the total to which the support percentage applies; None without one.
    """
    lines = [
        Assumption(
            name="taxes",
            value=NOT_COUNTED,
            unit="",
            source="AWS adds value added or sales tax by the account's address",
        ),
        _support(place, request, catalog, usd),
    ]
    by_second = (
        place.option in (PurchaseOption.ON_DEMAND, PurchaseOption.SPOT) and not target_of(place.target).is_managed
    )
    if by_second and place.instance_type:
        source = "EC2's price page, from memory: an instance that fails immediately costs a minute"
        lines.append(Assumption(name="least billed", value=str(MIN_BILLED_S), unit="s an instance", source=source))
    if place.option is PurchaseOption.SPOT:
        lines.append(
            Assumption(
                name="waiting for spot capacity", value="unknown", unit="hours, not counted", source=UNKNOWN_WAIT
            )
        )
    return tuple(lines)


def _support(place: Place, request: PlanRequest, catalog: Catalog, usd: UsdRange | None) -> Assumption:
    """The cost of the support plan: dollars outside the total at the plan file's rate, or a support plan's rate."""
    percent = request.purchase.support_percent
    if percent is None:
        return Assumption(name="AWS Support", value=NOT_COUNTED, unit="", source=_cheapest(place, catalog))
    source = f"purchase.support_percent: {percent:g} % of this total; it is in no total and no budget"
    if usd is None:
        return Assumption(name="AWS Support", value=NOT_COUNTED, unit="", source=source)
    share = Decimal(repr(percent)) / 100
    value = f"{usd.low * share:.2f}, {usd.mid * share:.2f}, {usd.high * share:.2f}"
    return Assumption(
        name="AWS Support, low, mid, high", value=value, unit="dollars on top of the total", source=source
    )


def _cheapest(place: Place, catalog: Catalog) -> str:
    """The known rate of the cheapest paid support plan, in words."""
    rate = catalog.bill_item("support.business-rate", place.region)
    least = catalog.bill_item("support.business-minimum", place.region)
    if not isinstance(rate, Price) or not isinstance(least, Price):
        return "the account's plan takes a share of the bill"
    return (
        f"the Business plan takes {rate.usd:.0%} of the month's first dollars, at least ${least.usd:f}; {rate.source}; "
        "purchase.support_percent says your own"
    )


def unpriced_lines(missing: Sequence[CostComponent]) -> Iterator[Finding]:
    """One warning for all non-compute lines without a price; the bill gives the reason of each."""
    if len(missing) == 1:
        yield warning("unpriced-line", "", f"{missing[0].name}: {missing[0].unpriced}; the total is incomplete")
    elif missing:
        names = ", ".join(component.name for component in missing)
        yield warning("unpriced-line", "", f"{len(missing)} lines have no price, the total is incomplete: {names}")
