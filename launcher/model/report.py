"""What a run came to: its attempts, what was quoted, what it used, and how far the deployment was checked."""

from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import Reply
from launcher.model.record import record


class RunStatus(StrEnum):
    """The state of a run."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STOPPED = "stopped"

    @property
    def words(self) -> str:
        """What a job did: it failed, was cancelled, or was stopped at its budget."""
        said = {RunStatus.CANCELLED: "was cancelled", RunStatus.STOPPED: "was stopped at its budget"}
        return said.get(self, self.value)


@record
class Attempt:
    """One start of the job.

    `ended_by` is completed, spot-interruption, node-lost, failure, cancel or budget; None while it runs.

    `resumed_from_step` is the step of the restored checkpoint, 0 for a start from nothing; `last_step` the last step
    that the trainer reported, None when it reported none.
    """

    started_at: datetime
    ended_at: datetime | None
    exit_code: int | None
    ended_by: str | None
    resumed_from_step: int
    last_step: int | None

    @property
    def hours(self) -> float:
        """Wall hours, 0 while it runs."""
        return 0.0 if self.ended_at is None else (self.ended_at - self.started_at).total_seconds() / 3600


@record
class BudgetStop:
    """A job that was stopped because its sum was used up: what was spent of what, and the newest whole checkpoint."""

    reason: str
    checkpoint_step: int | None

    @property
    def words(self) -> str:
        """What happened, and how to go on."""
        kept = "no checkpoint" if self.checkpoint_step is None else f"checkpoint of step {self.checkpoint_step}"
        return f"stopped at the budget: {self.reason}, {kept}; {self.next}"

    @property
    def next(self) -> str:
        """How to go on."""
        where = "it begins anew" if self.checkpoint_step is None else f"it resumes from step {self.checkpoint_step}"
        return f"raise budget.stop_at_usd and launch again: {where}"


@record
class EndpointReport:
    """An endpoint that came into service as it was asked for, and its answer, None where nobody asked.

    `url` is the base URL of OpenAI clients, None where it takes no chat.
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
class Report:
    """One run as it is reported.

    `usd_per_hour` is the quoted rate of all nodes; `usd_at_quoted_rate` is what the hours used would cost at it.
    `simulated` says that the machines were stand-ins, so that their hours say nothing of the quoted ones. `endpoint` is
    what a serving plan deployed; None for a cluster, and where none came into service. `stopped` says that the budget
    ended it.
    """

    name: str
    status: RunStatus
    scheduler: str
    simulated: bool
    attempts: tuple[Attempt, ...]
    quoted_usd: Decimal | None
    quoted_hours: float
    prices_as_of: str | None
    usd_per_hour: Decimal | None
    stacks: tuple[tuple[str, str], ...]
    verified_resources: tuple[str, ...]
    not_emulated: tuple[str, ...]
    endpoint: EndpointReport | None = None
    stopped: BudgetStop | None = None

    @property
    def actual_hours(self) -> float:
        """Wall hours of all attempts."""
        return sum(each.hours for each in self.attempts)

    @property
    def usd_at_quoted_rate(self) -> Decimal | None:
        """The hours used, at the quoted rate of all nodes."""
        if self.usd_per_hour is None:
            return None
        return (self.usd_per_hour * Decimal(repr(self.actual_hours))).quantize(Decimal("0.0001"))
