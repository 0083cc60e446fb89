"""Resources that exist in AWS and are billed after a launch or deployment ends early, read from the account."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.catalog.load import Catalog
from launcher.model.errors import DeclinedError, InterruptedAtQuestionError, SecondJobError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.spending import StackCost, hourly, small
from launcher.model.stages import Notify
from launcher.rendering.names import stack_name
from launcher.workflow.doctor.running_costs import NOT_STARTED, PARTS, costs

IN_PROGRESS = "_IN_PROGRESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRunning:
    """Lines for the user, and the stacks with their states; `nothing`: the account has no stack of the plan."""

    lines: tuple[str, ...]
    stacks: tuple[tuple[str, str], ...] = ()
    nothing: bool = False


def left_running(
    plan: Plan, session: Session, catalog: Catalog, now: datetime, *, sandbox: bool = False
) -> LeftRunning:
    """Read the stacks of a plan: which exist, what they cost an hour, and the command that removes them.

    If reading fails, the lines say so.
    """
    command = _down(plan, sandbox=sandbox)
    try:
        states = [stacks.find(session, stack_name(plan, part)) for part in PARTS]
        running = [state for state in states if state is not None and state.status != NOT_STARTED]
        paid = costs(session, catalog, now, running)
    except SlipwayError as problem:
        message = (
            f"Slipway cannot read what exists in AWS and is billed ({problem.message}): {command} checks and removes it"
        )
        return LeftRunning(lines=(message,))
    if not running:
        where = "the sandbox" if sandbox else "AWS"
        return LeftRunning(lines=(f"nothing exists in {where} for this plan",), nothing=True)
    status = {stack.name: stack.status for stack in running}
    lines = [f"{cost.name}: {status[cost.name]}, {_rate(cost)}" for cost in paid]
    total = f"${small(hourly(paid))} an hour" + (
        " and what is not known" if any((cost.usd_per_hour is None) for cost in paid) else ""
    )
    goes_on = " (CloudFormation continues)" if any(stack.status.endswith(IN_PROGRESS) for stack in running) else ""
    single = len(running) == 1
    exist = "1 stack exists and costs" if single else f"{len(running)} stacks exist and cost"
    # The command has its own line: a wrapped command cannot be pasted.
    remove = f"to remove {'it' if single else 'them'}: {command}"
    return LeftRunning(lines=(f"{exist} {total}{goes_on}", *lines, remove), stacks=tuple(status.items()))


@contextmanager
def report_running_costs(
    plan: Plan,
    environment: Mapping[str, str],
    catalog: Catalog,
    notify: Notify,
    keep: Callable[[tuple[tuple[str, str], ...]], None] = lambda _: None,
    *,
    sandbox: bool = False,
) -> Iterator[None]:
    """A block that may create resources: if it ends early, its stacks are reported, and stored for its report.

    `keep` receives the stacks with their states.
    """
    try:
        yield
    except (DeclinedError, InterruptedAtQuestionError, SecondJobError):
        raise  # nothing was done: what exists is that of earlier launches, and may be in use
    except (KeyboardInterrupt, Exception):  # a full disk of this computer too leaves a cluster that is billed
        session = Session(environment=environment, region=plan.place.region)
        try:
            running = left_running(plan, session, catalog, datetime.now(UTC), sandbox=sandbox)
        except KeyboardInterrupt:
            notify(f"interrupted again before the check of what is billed: {_down(plan, sandbox=sandbox)} checks")
            raise
        except OSError as problem:
            running = LeftRunning(
                lines=(
                    f"cannot check what is billed ({problem}): {_down(plan, sandbox=sandbox)} checks and removes it",
                )
            )
        for line in running.lines:
            notify(line)
        keep(running.stacks)
        raise


def _down(plan: Plan, *, sandbox: bool) -> str:
    """The command that checks the stacks of a plan and removes them."""
    return f"slipway down {plan.cluster_name} --region {plan.place.region}" + (" --sandbox" if sandbox else "")


@contextmanager
def report_earlier_runs(
    earlier: Sequence[Plan], environment: Mapping[str, str], catalog: Catalog, notify: Notify
) -> Iterator[None]:
    """A block after which clusters of earlier attempts may be left: at its end, each of them is reported.

    Raises:
        DeclinedError: the user declined in the block; if an attempt was made, the error does not say that nothing was
        done.
    """
    try:
        yield
    except DeclinedError as answer:
        if not earlier:
            raise
        _report_plans(earlier, environment, catalog, notify)
        raise DeclinedError("nothing more was done") from answer
    except (KeyboardInterrupt, SlipwayError):
        _report_plans(earlier, environment, catalog, notify)
        raise
    _report_plans(earlier, environment, catalog, notify)


def _report_plans(plans: Sequence[Plan], environment: Mapping[str, str], catalog: Catalog, notify: Notify) -> None:
    """Read and report the stacks of each cluster, once even if several plans share it."""
    for plan in {(shared.cluster_name, shared.place.region): shared for shared in plans}.values():
        region = plan.place.region
        running = left_running(plan, Session(environment=environment, region=region), catalog, datetime.now(UTC))
        notify(f"cluster {plan.cluster_name} in {region}, which got no instances for the job: {running.lines[0]}")
        for line in running.lines[1:]:
            notify(line)


def _rate(cost: StackCost) -> str:
    if cost.usd_per_hour is None:
        return f"at an unknown rate: {cost.note}"
    return f"${small(cost.usd_per_hour)} an hour" + (f" ({cost.note})" if cost.note else "")
