"""The facts of a run in progress, and its report at any moment."""

from dataclasses import dataclass

from launcher.model.job import JobFacts
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.model.report import NO_SCHEDULER, EndpointReport, Report, RunStatus
from launcher.model.run_cost import NO_RATES
from launcher.records.report_document import report_document
from launcher.records.run_folder import RunFolder
from launcher.workflow.history.attempts import (
    attempts,
    budget_stop,
    cancelled_attempts,
    close_last,
    explained_attempts,
    last_start,
    read_events,
    recorded_stop,
    slow_nodes,
)
from launcher.workflow.history.stored import asks_for_checkpoints, stored_checkpoints


@dataclass(slots=True, kw_only=True)
class LaunchLog:
    """One run."""

    folder: RunFolder
    quoted: Quote
    simulated: bool
    scheduler: str = NO_SCHEDULER
    status: RunStatus = RunStatus.FAILED
    # Names and states.
    stacks: tuple[tuple[str, str], ...] = ()
    # What was read back as planned, and what a sandbox left out.
    verified: tuple[str, ...] = ()
    not_emulated: tuple[str, ...] = ()
    # The endpoint in service, None for a job.
    endpoint: EndpointReport | None = None
    # Why a requested interruption did not happen in the sandbox.
    not_played: str = ""
    # What the scheduler said last of the job.
    facts: JobFacts | None = None

    def report(self) -> Report:
        """The report of the current state."""
        price, events = self.quoted.price, read_events(self.folder.events)
        ran = close_last(attempts(events), self.facts)
        ran = cancelled_attempts(ran) if self.status is RunStatus.CANCELLED else ran
        return Report(
            name=self.quoted.plan.name,
            status=self.status,
            scheduler=self.scheduler,
            simulated=self.simulated,
            attempts=explained_attempts(ran, events),
            quoted_usd=self.quoted.usd.mid if self.quoted.usd else None,
            quoted_hours=self.quoted.hours.mid,
            prices_as_of=price.as_of.isoformat() if isinstance(price, Price) else None,
            usd_per_hour=self.quoted.usd_per_hour,
            stacks=self.stacks,
            verified_resources=self.verified,
            not_emulated=self.not_emulated,
            endpoint=self.endpoint,
            stopped=budget_stop(events),
            guard_reason=recorded_stop(events, last_start(ran)),
            slow_nodes=slow_nodes(events),
            stored=stored_checkpoints(events) if asks_for_checkpoints(self.quoted.plan) else None,
            rates=self.quoted.rates or NO_RATES,
            left_up_usd_per_hour=self.quoted.left_up_usd_per_hour,
            billable_time=self.facts.billable if self.facts else None,
        )

    def write(self) -> Report:
        """Write the report into the run folder, and return it."""
        report = self.report()
        self.folder.write_json("report.json", report_document(report))
        return report
