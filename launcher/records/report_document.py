"""slipway.report/1: the report of a run, as it is printed, stored in its folder, and read back."""

from collections.abc import Mapping
from dataclasses import field
from decimal import Decimal
from typing import Any, Literal

from launcher.agent.shape import read
from launcher.model.bill import BilledRun
from launcher.model.endpoint import EndpointMode
from launcher.model.endpoint_call import Reply
from launcher.model.errors import UnreadableInputError
from launcher.model.job import BillableTime
from launcher.model.record import formerly
from launcher.model.report import (
    Attempt,
    Billable,
    BudgetStop,
    EndpointReport,
    Report,
    RunStatus,
    StoredCheckpoints,
)
from launcher.model.run_cost import NO_RATES, RunRates
from launcher.records.bill_document import BilledDocument
from launcher.records.codec import Json, as_json
from launcher.records.document import OMITTED, NamedStatus, fill_record, json_object
from launcher.records.run_folder import RunFolder

REPORT_FILE = "report.json"


@json_object
class Quoted:
    """The quote of the run; reports of earlier versions have no `rates`."""

    usd: Decimal | None
    hours: float
    usd_per_hour: Decimal | None
    prices_as_of: str | None
    rates: RunRates = NO_RATES


@json_object
class Actual:
    """The used hours and dollars."""

    hours: float = 0.0
    usd_at_quoted_rate: Decimal | None = None
    usd_used: Decimal | None = None
    usd_unused: Decimal = Decimal(0)
    billable: Billable | None = None


@json_object
class ShownAnswer:
    """One answer of an endpoint, with its text; milliseconds, null if the answer has no such time."""

    kind: str
    input_tokens: int
    output_tokens: int
    ttft_ms: float | None
    latency_ms: float
    tokens_per_s: float | None = None
    shown: str | None


@json_object
class DeployedEndpoint:
    """The endpoint of a run, and its answer; null if no request was sent."""

    name: str
    region: str
    mode: EndpointMode
    status: str
    config: str
    instances: int
    url: str | None
    answer: ShownAnswer | None


@json_object
class Stopped:
    """The stop of a job by the budget: the reason, the stored checkpoint, and the next step for the user."""

    reason: str
    checkpoint_step: int | None
    next: str = ""


@json_object
class ReportDocument:
    """The report of a run. Only `slipway report --billed` writes the key `billed`."""

    schema: Literal["slipway.report/1"] = "slipway.report/1"
    name: str
    status: RunStatus
    scheduler: str
    simulated: bool
    checkpoints_stored: int | None = None
    layout: str | None = None
    checkpoint_problems: tuple[str, ...] = field(default=(), metadata=formerly("checkpoint_troubles"))
    slow_nodes: tuple[str, ...] = ()
    attempts: tuple[Attempt, ...]
    quoted: Quoted
    actual: Actual = Actual()
    left_up_usd_per_hour: Decimal | None = None
    stacks: tuple[NamedStatus, ...]
    verified_resources: tuple[str, ...]
    not_emulated: tuple[str, ...]
    endpoint: DeployedEndpoint | None = None
    stopped: Stopped | None = None
    guard_reason: str | None = None
    billed: BilledDocument | None = field(default=None, metadata=OMITTED)

    @classmethod
    def of(cls, report: Report, bill: BilledRun | None = None) -> "ReportDocument":
        """The document of a report."""
        stored, stopped = report.stored, report.stopped
        return fill_record(
            cls,
            report,
            checkpoints_stored=None if stored is None else stored.count,
            layout=None if stored is None else stored.layout,
            checkpoint_problems=() if stored is None else stored.problems,
            quoted=fill_record(Quoted, report, usd=report.quoted_usd, hours=report.quoted_hours),
            actual=fill_record(Actual, report, hours=report.actual_hours),
            stacks=tuple(NamedStatus(name=name, status=status) for name, status in report.stacks),
            endpoint=None if report.endpoint is None else _endpoint(report.endpoint),
            stopped=None if stopped is None else fill_record(Stopped, stopped),
            guard_reason=report.guard_reason or None,
            billed=None if bill is None else BilledDocument.of(bill),
        )

    def report(self) -> Report:
        """The report of the document; its bill is in a file of its own."""
        stored, billable = None, self.actual.billable
        if self.checkpoints_stored is not None:
            stored = StoredCheckpoints(
                count=self.checkpoints_stored, layout=self.layout, problems=self.checkpoint_problems
            )
        return fill_record(
            Report,
            self,
            quoted_usd=self.quoted.usd,
            quoted_hours=self.quoted.hours,
            prices_as_of=self.quoted.prices_as_of,
            usd_per_hour=self.quoted.usd_per_hour,
            rates=self.quoted.rates,
            stacks=tuple((stack.name, stack.status) for stack in self.stacks),
            endpoint=None if self.endpoint is None else _endpoint_report(self.endpoint),
            stopped=None if self.stopped is None else fill_record(BudgetStop, self.stopped),
            guard_reason=self.guard_reason or "",
            stored=stored,
            billable_time=None
            if billable is None
            else BillableTime(trained_s=billable.trained_seconds, billed_s=billable.seconds),
        )


def answer_figures(reply: Reply) -> Json:
    """The keys of an answer: tokens, milliseconds, tokens a second."""
    return {
        "kind": reply.kind,
        "input_tokens": reply.input_tokens,
        "output_tokens": reply.output_tokens,
        "ttft_ms": round(1000 * reply.first_s, 1) if reply.first_s is not None else None,
        "latency_ms": round(1000 * reply.whole_s, 1),
        "tokens_per_s": round(reply.tokens_per_s, 3) if reply.tokens_per_s is not None else None,
    }


def _endpoint(report: EndpointReport) -> DeployedEndpoint:
    reply = report.reply
    answer = None if reply is None else ShownAnswer(**answer_figures(reply), shown=reply.shown)
    return fill_record(DeployedEndpoint, report, answer=answer)


def _endpoint_report(endpoint: DeployedEndpoint) -> EndpointReport:
    answer = endpoint.answer
    if answer is None:
        return fill_record(EndpointReport, endpoint, reply=None)
    first = answer.ttft_ms
    reply = fill_record(
        Reply, answer, first_s=None if first is None else first / 1000, whole_s=answer.latency_ms / 1000
    )
    return fill_record(EndpointReport, endpoint, reply=reply)


def report_document(report: Report, bill: BilledRun | None = None) -> Json:
    """slipway.report/1."""
    return as_json(ReportDocument.of(report, bill))


def stored_report(folder: RunFolder) -> Report:
    """The report of a run.

    Raises:
        UnreadableInputError: the folder has no report, or the file is not a report.
    """
    document_ = folder.read_json(REPORT_FILE)
    try:
        return read_report(document_)
    except UnreadableInputError as problem:
        raise UnreadableInputError(f"cannot read {folder.path / REPORT_FILE}: {problem.message}") from problem


def read_report(data: Mapping[str, Any]) -> Report:
    """A report read back from its JSON.

    Raises:
        UnreadableInputError: the document is not a report.
    """
    try:
        return read(ReportDocument, data).report()
    except ValueError as problem:
        raise UnreadableInputError(f"this is not a report: {problem}") from problem
