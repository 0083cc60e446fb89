"""The report of a run: its attempts, its quote, its usage, and the result of the read-back."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import field, replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from itertools import zip_longest

from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import Reply
from launcher.model.job import BillableTime
from launcher.model.record import INTERNAL, record
from launcher.model.run_cost import NO_RATES, PLACES, RunCost, RunRates, run_cost

NO_SCHEDULER = "none"
"""The scheduler of an endpoint, in reports."""


def instances_text(types: Sequence[str], zones: Sequence[str]) -> str:
    """Instances in words, by their types and zones; empty without any.

    >>> instances_text(("g6.xlarge", "g6.xlarge"), ("us-east-2b", "us-east-2b"))
    '2 × g6.xlarge us-east-2b'
    >>> instances_text(("g5.xlarge", "g6.xlarge"), ("us-east-2a", "us-east-2a"))
    'g5.xlarge us-east-2a, g6.xlarge us-east-2a'
    """
    counts = Counter(" ".join(pair) for pair in zip_longest(types, zones, fillvalue=""))
    return ", ".join(f"{count} × {text}" if count > 1 else text for text, count in counts.items()).strip()


class RunStatus(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"
    INTERRUPTED = "interrupted"

    @property
    def text(self) -> str:
        """The result of a job in words: failed, cancelled or interrupted, or stopped at its budget."""
        texts = {status: f"was {status.value}" for status in (RunStatus.CANCELLED, RunStatus.INTERRUPTED)}
        texts[RunStatus.STOPPED] = "was stopped at its budget"
        return texts.get(self, self.value)


class EndedBy(StrEnum):
    """Why an attempt ended; the same loss has the same name on every target.

    SPOT_INTERRUPTION: its instances or pods were taken away with a notice; NODE_LOST: without one. TIME_LIMIT: the
    scheduler's limit, the end of the reserved capacity, or the guard's stop at the time to live. BUDGET and FAILURE:
    also the guard's stop of nodes at the budget, and of a hung job.
    """

    COMPLETED = "completed"
    SPOT_INTERRUPTION = "spot-interruption"
    NODE_LOST = "node-lost"
    FAILURE = "failure"
    CANCEL = "cancel"
    TIME_LIMIT = "time-limit"
    BUDGET = "budget"


@record(described=False)
class Attempt:
    """One start of the job."""

    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    # None while it runs.
    ended_by: EndedBy | None
    # The step of the restored checkpoint, 0 for a start from nothing.
    resumed_from_step: int
    # The last step that the trainer reported, None when it reported none.
    last_step: int | None
    # Only the end of its pod shows the end, as after a cancel.
    by_pod_end: bool = field(default=False, metadata=INTERNAL)
    # Those of its nodes, in the order of the ranks; empty where the scheduler alone chooses the nodes.
    instance_types: tuple[str, ...] = ()
    zones: tuple[str, ...] = ()
    # The action of `slipway nodes` that ended it, with its node; empty if none did.
    node_action: str = ""

    @property
    def hours(self) -> float:
        """Wall hours, 0 while it runs."""
        return 0.0 if self.ended_at is None else (self.ended_at - self.started_at).total_seconds() / 3600

    @property
    def place(self) -> str:
        """The types and zones of its nodes in words; empty if they are unknown."""
        return instances_text(self.instance_types, self.zones)


def usd_of_types(
    ran: Sequence[Attempt], usd_per_hour: Decimal, rates: RunRates, running_h: float = 0.0, *, over: bool
) -> Decimal:
    """What attempts cost more than at the quoted rate, because EC2 chose other types; below 0: less.

    Args:
        ran: the attempts, in order.
        usd_per_hour: the quoted rate of all nodes.
        rates: those of the quote.
        running_h: hours of the running attempt so far.
        over: the job has ended, so its idle tail counts too.
    """
    if not ran:
        return Decimal(0)
    hours = [attempt.hours for attempt in ran]
    hours[-1] += running_h + (rates.tail_h if over else 0.0)
    hours[0] += rates.start_h
    more = [rates.for_types(attempt.instance_types, usd_per_hour) - usd_per_hour for attempt in ran]
    return sum((Decimal(repr(each)) * usd for each, usd in zip(hours, more, strict=True)), Decimal(0)).quantize(PLACES)


@record
class BudgetStop:
    """A job that was stopped because its spending limit was reached: the reason, and the newest complete checkpoint."""

    reason: str
    checkpoint_step: int | None

    @property
    def text(self) -> str:
        """The stop and the next step, in words."""
        saved = "no checkpoint" if self.checkpoint_step is None else f"checkpoint of step {self.checkpoint_step}"
        return f"stopped at the budget: {self.reason}, {saved}; {self.next}"

    @property
    def next(self) -> str:
        """The next step for the user."""
        where = "it starts again" if self.checkpoint_step is None else f"it resumes from step {self.checkpoint_step}"
        return f"raise budget.stop_at_usd and launch again: {where}"


@record
class StoredCheckpoints:
    """The checkpoints that a job stored: their number, their layout, and the problems that the agent reported."""

    count: int
    layout: str | None = None
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The number and layout in words."""
        if not self.count:
            return "none stored"
        return f"{self.count:,} stored" + (f", layout {self.layout}" if self.layout else "")


@record
class EndpointReport:
    """An endpoint that is in service as requested, and its answer, None if no request was sent.

    `url` is the base URL of OpenAI clients, None if the endpoint supports no chat.
    """

    name: str
    region: str
    mode: EndpointMode
    status: str
    config: str
    instances: int
    url: str | None
    reply: Reply | None


@record
class Billable:
    """The billing of a run by its service, next to the quote: seconds per instance at the on-demand rate, and dollars.

    `usd` and `quoted_seconds` are None if the quote has no on-demand rate, or capacity was prepaid.
    """

    seconds: int
    trained_seconds: int
    quoted_seconds: int | None
    usd: Decimal | None


@record
class Report:
    """The report of one run."""

    name: str
    status: RunStatus
    scheduler: str
    # The nodes were emulated, so their hours are not comparable with the quote.
    simulated: bool
    attempts: tuple[Attempt, ...]
    quoted_usd: Decimal | None
    quoted_hours: float
    prices_as_of: str | None
    # The quoted rate of all nodes.
    usd_per_hour: Decimal | None
    stacks: tuple[tuple[str, str], ...]
    verified_resources: tuple[str, ...]
    not_emulated: tuple[str, ...]
    # The deployed endpoint of a serving plan; None for a cluster, or if none came into service.
    endpoint: EndpointReport | None = None
    # The budget ended the run.
    stopped: BudgetStop | None = None
    # Why the guard stopped the nodes of a cancelled job, or of one that waits for them, or the endpoint; empty if it
    # did not.
    guard_reason: str = ""
    # None if the plan requests no checkpoints.
    stored: StoredCheckpoints | None = None
    rates: RunRates = NO_RATES
    # Billed until `slipway down`.
    left_up_usd_per_hour: Decimal | None = None
    # The time that the job's service bills, None without such a service or before the job has ended.
    billable_time: BillableTime | None = None
    # The agents' sentences on nodes that slowed an attempt down.
    slow_nodes: tuple[str, ...] = ()
    # The time that the current attempt has run at the moment of the query; it is never stored.
    running_h: float = 0.0

    @property
    def actual_hours(self) -> float:
        """Wall hours of all attempts, including the current one so far."""
        return sum(attempt.hours for attempt in self.attempts) + self.running_h

    @property
    def usd_at_quoted_rate(self) -> Decimal | None:
        """The used hours at the quoted rate of all nodes, those of each attempt at the rate of its types."""
        if self.usd_per_hour is None:
            return None
        only_hours = replace(self.rates, start_h=0.0, tail_h=0.0)
        more = usd_of_types(self.attempts, self.usd_per_hour, only_hours, self.running_h, over=True)
        return (self.usd_per_hour * Decimal(repr(self.actual_hours)) + more).quantize(Decimal("0.0001"))

    @property
    def billable(self) -> Billable | None:
        """The billed time of the service, compared with the quote's start-up and job hours."""
        time = self.billable_time
        if time is None:
            return None
        rate, rates = self.usd_per_hour, self.rates
        listed = rate if rates.list_usd_per_hour is None else rates.list_usd_per_hour
        known = rate is not None and listed and rates.prepaid_usd is None
        quoted_h = Decimal(repr(self.quoted_hours + rates.start_h))
        return Billable(
            seconds=time.billed_s,
            trained_seconds=time.trained_s,
            quoted_seconds=round(quoted_h * 3600 * rate / listed) if known and rate and listed else None,
            usd=(listed * time.billed_s / 3600).quantize(PLACES) if known and listed else None,
        )

    @property
    def cost(self) -> RunCost | None:
        """The cost by the quote as a function of hours; None without a total, for an endpoint, and before any hours."""
        if self.endpoint is not None or not self.actual_hours:
            return None
        return run_cost(self.quoted_usd, self.quoted_hours, self.usd_per_hour, self.rates)

    @property
    def usd_used(self) -> Decimal | None:
        """The cost of the run, or of a running one its cost so far; 0 before its first attempt.

        None without a rate, and if the guard stopped nodes on which no attempt started: each was billed from its start,
        and no event has the hours.
        """
        if self.cost is not None:
            hours, over = self.actual_hours, not self.running_h
            more = usd_of_types(self.attempts, self.cost.usd_per_hour, self.rates, self.running_h, over=over)
            return more + (self.cost.used_usd(hours) if over else self.cost.usd_so_far(hours))
        return None if self.usd_per_hour is None or self.guard_reason else Decimal(0)

    @property
    def usd_unused(self) -> Decimal:
        """The part of a prepaid fee that the run leaves to other runs of the same reservation."""
        return Decimal(0) if self.cost is None else self.cost.unused_usd(self.actual_hours)
