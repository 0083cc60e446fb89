"""The page of `slipway report`."""

from collections.abc import Sequence
from decimal import Decimal

from launcher.answers import words
from launcher.answers.endpoint import endpoint_lines
from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.aws.stacks import REMOVED
from launcher.model.job import JobState
from launcher.model.report import (
    NO_SCHEDULER,
    Attempt,
    Billable,
    Report,
    RunStatus,
    StoredCheckpoints,
    instances_text,
)
from launcher.model.target import INSTANCES, TRAINING_JOBS
from launcher.model.units import HOUR_S, duration_text, number_of
from launcher.rendering.names import STORE_STACK

_MAY_RUN = (RunStatus.RUNNING.value, RunStatus.CANCELLED.value, JobState.PENDING.value)
"""States of a run that may have a running attempt: a cancelled one may save until its grace time is over."""


_TAIL_ENDS = {INSTANCES: "the idle tail", TRAINING_JOBS: "the warm pool"}
"""What ends the nodes' time after the job where no guard measures how long they have been idle."""
_WITHOUT_SCHEDULER = {INSTANCES: "plain instances", TRAINING_JOBS: "instances of SageMaker"}
"""What runs a job by its own API, in place of a scheduler."""


def attempt_columns(status: str) -> Sequence[Column[Attempt]]:
    """Columns of an attempt, as text and as HTML, after its start; `status` is that of its run."""
    # Nobody records the end of an attempt that ends with the sandbox of its launch.
    without = "running" if status in _MAY_RUN else "not known"
    return (
        Column(
            "took",
            lambda attempt: duration_text(attempt.hours * HOUR_S) if attempt.ended_at else without,
            "right",
            value=lambda attempt: attempt.hours,
        ),
        Column("ended by", lambda attempt: attempt.ended_by or ""),
        Column("exit", lambda attempt: "" if attempt.exit_code is None else str(attempt.exit_code), "right"),
        Column("from step", lambda attempt: str(attempt.resumed_from_step), "right"),
        Column("to step", lambda attempt: "" if attempt.last_step is None else str(attempt.last_step), "right"),
    )


def page(report: Report, width: int, *, everything: bool = False) -> list[str]:
    """The report; with `everything`, each verified fact."""
    if report.endpoint is not None:
        head = endpoint_lines(report, report.endpoint)
        return [
            *head,
            *stop_lines(report, width),
            *(piece for line in _month(report) for piece in fold(line, width)),
            *left_up_lines(report, width),
            *_check_lines(report, width, everything=everything),
        ]
    place = _WITHOUT_SCHEDULER.get(report.scheduler, f"a {report.scheduler} scheduler")
    # An endpoint that did not come into service has no scheduler.
    where = f" on {place}" if report.scheduler != NO_SCHEDULER else ""
    where += ", simulated" if report.simulated else ""
    count = len(report.attempts)
    lines = ["", f"  {report.name}: {report.status.value} after {number_of(count, 'attempt')}{where}", ""]
    lines += attempt_rows(report.attempts, width, report.status.value)
    if why := stop_lines(report, width):
        lines += ["", *why]
    if report.stored is not None:
        lines += ["", *stored_lines(report.stored, width)]
    lines += [piece for text in slow_texts(report) for piece in fold(f"  {text}", width)]
    lines += ["", *(piece for line in _money(report) for piece in fold(line, width))]
    lines += left_up_lines(report, width)
    return lines + _check_lines(report, width, everything=everything)


def stop_texts(report: Report) -> list[str]:
    """Why the guard stopped the nodes or the endpoint, or the job at its budget; empty if it did neither."""
    what = "nodes" if report.endpoint is None else "endpoint"
    why = [f"the guard stopped the {what}: {report.guard_reason}"] if report.guard_reason else []
    return why + ([report.stopped.text] if report.stopped is not None else [])


def slow_texts(report: Report) -> list[str]:
    """The nodes that slowed the job down."""
    return [f"slow node: {sentence}" for sentence in report.slow_nodes]


def stop_lines(report: Report, width: int) -> list[str]:
    """The lines of `stop_texts`, wrapped to a width; a node's own lines stay lines."""
    return [piece for text in stop_texts(report) for line in text.splitlines() for piece in fold(f"  {line}", width)]


def _check_lines(report: Report, width: int, *, everything: bool) -> list[str]:
    """The stacks, the facts that were verified in them, and those that could not be; shortened without `everything`."""
    facts, unchecked = report.verified_resources, report.not_emulated
    lines = ["", "  stacks"]
    lines += [f"    {name}  {status}" for name, status in report.stacks] or ["    none"]
    if not everything:
        counted = [f"{number_of(len(facts), 'fact')} as planned"] if facts else []
        counted += [f"{len(unchecked)} not emulated, so not checked here"] if unchecked else []
        return [*lines, "", *fold(f"  read back: {'; '.join(counted)}; -v lists them", width)] if counted else lines
    lines += ["", f"  read back and as planned ({len(facts)})"]
    lines += [piece for fact in facts for piece in fold(f"    {fact}", width)]
    if unchecked:
        lines += ["", "  not emulated, so not checked here"]
        lines += [piece for resource in unchecked for piece in fold(f"    {resource}", width)]
    return lines


def _month(report: Report) -> list[str]:
    quoted = words.dollars(report.quoted_usd)
    lines = ["", f"  quoted ${quoted} a month, prices of {report.prices_as_of or 'no date'}"]
    if report.simulated and report.endpoint is not None and report.endpoint.reply is not None:
        text = "An emulator answered: its tokens per second are not a model's, and nothing was spent."
        lines.append(f"  {text}")
    elif report.simulated:
        lines.append("  The endpoint was emulated, and nothing was spent.")
    return lines


def stored_lines(stored: StoredCheckpoints, width: int) -> list[str]:
    """The state of the stored checkpoints, and the agent's warnings about them."""
    texts = [f"  checkpoints: {stored.text}", *(f"  warning: {problem}" for problem in stored.problems)]
    return [piece for text in texts for piece in fold(text, width)]


def attempt_rows(attempts: Sequence[Attempt], width: int, status: str) -> list[str]:
    """One row per attempt."""
    if not attempts:
        return ["  no attempt has started"]
    began: Column[Attempt] = Column("began (UTC)", lambda attempt: f"{attempt.started_at:%H:%M:%S}")
    rows = render([began, *attempt_columns(status)], attempts, width, number="attempt")
    return [*rows, *place_lines(attempts, width), *_action_lines(attempts, width)]


def _action_lines(attempts: Sequence[Attempt], width: int) -> list[str]:
    """The attempts that a person ended by an action on a node."""
    texts = (
        f"  attempt {number} was ended by a node action: {attempt.node_action}"
        for number, attempt in enumerate(attempts, start=1)
        if attempt.node_action
    )
    return [piece for text in texts for piece in fold(text, width)]


def place_lines(attempts: Sequence[Attempt], width: int) -> list[str]:
    """The instance types and zones of the attempts, where EC2 chose them; empty elsewhere."""
    text = places_text([attempt.place for attempt in attempts])
    return fold(f"  {text}", width) if text else []


def places_text(places: Sequence[str]) -> str:
    """The places of the attempts, in order; an unknown one is empty.

    >>> places_text(["g5.xlarge us-east-2a", "", "g6.xlarge us-east-2b"])
    'attempt 1 on g5.xlarge us-east-2a; attempt 3 on g6.xlarge us-east-2b'
    """
    numbered = enumerate(places, start=1)
    return "; ".join(f"attempt {number} on {place}" for number, place in numbered if place)


def _money(report: Report) -> list[str]:
    quoted = words.dollars(report.quoted_usd)
    hours = duration_text(report.quoted_hours * HOUR_S)
    lines = [f"  quoted ${quoted} for {hours}, prices of {report.prices_as_of or 'no date'}"]
    lines += [f"  {line}" for line in used_lines(report)]
    if report.billable is not None:
        lines.append(f"  {_billed_line(report.billable)}")
    if report.simulated:
        lines.append("  The nodes were emulated: their hours do not compare with the quote, and nothing was spent.")
    return lines


def _billed_line(billable: Billable) -> str:
    usd = f", {words.usd(billable.usd)}" if billable.usd is not None else ""
    quoted = f"; quoted {number_of(billable.quoted_seconds, 'second')}" if billable.quoted_seconds is not None else ""
    seconds = f"{number_of(billable.seconds, 'second')} of each instance at the rate on demand"
    return f"the service bills {seconds}{usd} (trained {billable.trained_seconds:,}){quoted}"


def used_lines(report: Report) -> list[str]:
    """The cost of the run: its job hours, the quoted hours next to them, and the unused part of a prepaid fee."""
    cost, used, rate = report.cost, report.usd_used, report.usd_per_hour
    if not report.attempts and report.endpoint is None and rate is not None:
        return ["used no job hours; AWS bills each node from its start, also a node on which the job never started"]
    if used is None or rate is None:
        return []
    took = duration_text(report.actual_hours * HOUR_S) + (" so far" if report.running_h else "")
    if cost is None:
        return [f"used {took}, {words.usd(used)}"]
    hourly = f"job hours at {_rates(report, rate)}"
    tail = bool(report.rates.tail_h)
    if report.running_h:
        later = "idle tail and storage are still to come" if tail else "storage is still to come"
        return [f"used {took}, {words.usd(used)}: {hourly}, start-up and the other hourly lines; {later}"]
    others = words.dollars(used - (report.usd_at_quoted_rate or Decimal(0)))
    hours_text = "start, idle tail" if tail else "start"
    breakdown = f"{hourly}, and ${others} for {hours_text}, storage, network and other"
    lines = [f"used {took}, {words.usd(used)}: {breakdown}"]
    if report.usd_unused:
        paid = words.dollars(used + report.usd_unused)
        lines.append(f"this run left {words.usd(report.usd_unused)} of the prepaid fee unused: ${paid} in all")
    return lines


def _rates(report: Report, rate: Decimal) -> str:
    """The hourly rate of all nodes; where EC2 chose among types, that of each attempt's types."""
    if not report.rates.type_usd_per_hour:
        return f"${words.exact(rate)} an hour"
    placed = [attempt for attempt in report.attempts if attempt.instance_types]
    texts = (
        f"${words.exact(report.rates.for_types(attempt.instance_types, rate))} an hour on"
        f" {instances_text(attempt.instance_types, ())}"
        for attempt in placed
    )
    return " and ".join(dict.fromkeys(texts)) or f"${words.exact(rate)} an hour"


def left_up_lines(report: Report, width: int) -> list[str]:
    """The sentence of `left_up`, wrapped to a width."""
    return [piece for sentence in left_up(report) for piece in fold(f"  {sentence}", width)]


def left_up(report: Report) -> list[str]:
    """The cluster's or endpoint's cost per hour until its removal; empty if its stacks are gone.

    Nodes with an idle tail are billed until the guard stops them; this function does not know whether it has.
    """
    rate = report.left_up_usd_per_hour
    standing = [name for name, status in report.stacks if status != REMOVED and not name.endswith(f"-{STORE_STACK}")]
    if not rate or not standing:
        return []
    nodes, types = report.usd_per_hour, report.attempts[-1].instance_types if report.attempts else ()
    nodes = None if nodes is None else report.rates.for_types(types, nodes)
    costs = "in AWS it would cost" if report.simulated else "it costs"
    amount = f"{words.usd(rate)}/h"
    if report.endpoint is not None:
        amount = f"about {amount} at the quoted load"
    elif report.rates.tail_h and nodes is not None:
        most = words.dollars(rate + nodes)
        end = _TAIL_ENDS.get(report.scheduler, "the idle stop")
        later = f"after {end} {amount} until slipway down {report.name}"
        shows = "" if report.simulated else " slipway cost shows the rate now."
        return [f"While nodes run, {costs} about ${most}/h; {later}.{shows}"]
    elif report.status is RunStatus.RUNNING and nodes is not None and rate < nodes:
        most, later = words.dollars(rate + nodes), f"{amount} until slipway down {report.name}"
        return [f"While the job runs, {costs} about ${most}/h; after the job {later}."]
    return [f"While it stays up, {costs} {amount} until slipway down {report.name}."]
