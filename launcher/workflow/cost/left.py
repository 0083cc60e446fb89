"""What stands in AWS, and is paid, when a launch or a deployment ends early: looked up, not guessed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.model.errors import SlipwayError
from launcher.model.plan import Plan
from launcher.model.spending import StackCost, hourly
from launcher.rendering.names import stack_name
from launcher.workflow.cost.survey import NOT_STARTED, PARTS, costs

IN_PROGRESS = "_IN_PROGRESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftStanding:
    """Lines for a person, none where there is nothing, and the stacks with their states."""

    lines: tuple[str, ...]
    stacks: tuple[tuple[str, str], ...] = ()


def left_standing(plan: Plan, session: Session, catalog: Catalog, now: datetime) -> LeftStanding:
    """Look at the stacks of a plan: what there is, what it costs an hour, and the command that removes it.

    A look that fails says so.
    """
    command = f"slipway down {plan.cluster_name} --region {plan.place.region}"
    try:
        states = [stacks.find(session, stack_name(plan, part)) for part in PARTS]
        found = [each for each in states if each is not None and each.status != NOT_STARTED]
        paid = costs(session, catalog, now, found)
    except SlipwayError as problem:
        said = f"AWS cannot be asked what stands and is paid ({problem.message}): {command} looks, and removes it"
        return LeftStanding(lines=(said,))
    if not found:
        return LeftStanding(lines=("nothing stands in AWS for this plan",))
    status = {each.name: each.status for each in found}
    lines = [f"{each.name}: {status[each.name]}, {_rate(each)}" for each in paid]
    total = f"${_usd(hourly(paid))} an hour" + (
        " and what is not known" if any(_unknown(each) for each in paid) else ""
    )
    goes_on = " (CloudFormation goes on by itself)" if any(each.status.endswith(IN_PROGRESS) for each in found) else ""
    summary = f"{len(found)} stacks stand and cost {total}{goes_on}: {command} removes them"
    return LeftStanding(lines=(summary, *lines), stacks=tuple(status.items()))


@contextmanager
def telling_what_stands(
    plan: Plan,
    environment: Mapping[str, str],
    catalog: Catalog,
    tell: Callable[[str], None],
    keep: Callable[[tuple[tuple[str, str], ...]], None] = lambda _: None,
) -> Iterator[None]:
    """A part of a story after which something may stand: where it ends early, that is told, and kept for its report.

    Args:
        plan: whose stacks are looked for.
        environment: the credentials.
        catalog: prices.
        tell: is told each line.
        keep: is given the stacks with their states.
    """
    try:
        yield
    except (KeyboardInterrupt, SlipwayError):
        session = Session(environment=environment, region=plan.place.region)
        left = left_standing(plan, session, catalog, datetime.now(UTC))
        for line in left.lines:
            tell(line)
        keep(left.stacks)
        raise


def _unknown(cost: StackCost) -> bool:
    return cost.usd_per_hour is None


def _usd(amount: Decimal) -> str:
    """Dollars an hour; an address alone costs half a cent.

    >>> _usd(Decimal("38.32")), _usd(Decimal("0.005"))
    ('38.32', '0.005')
    """
    return f"{amount:.2f}" if amount >= Decimal("0.1") or not amount else f"{amount:.2g}"


def _rate(cost: StackCost) -> str:
    """Dollars an hour with what they are of, or why nobody knows."""
    if cost.usd_per_hour is None:
        return f"at a rate that is not known: {cost.note}"
    return f"${_usd(cost.usd_per_hour)} an hour" + (f" ({cost.note})" if cost.note else "")
