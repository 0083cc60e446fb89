"""The ledger entry of one run, from its run folder."""

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from launcher.agent.metrics import figures_in
from launcher.agent.shape import amount, moment, read
from launcher.model.errors import UnreadableInputError
from launcher.model.ledger import ALONE, LedgerEntry, Shared
from launcher.model.report import Attempt, EndedBy, Report, RunStatus, usd_of_types
from launcher.model.run_cost import RunCost, RunRates
from launcher.records.bill_document import BILLED
from launcher.records.command_record import CommandRecord, read_command
from launcher.records.report_document import stored_report
from launcher.records.run_folder import DRY_RUN, JOB_FOLDER, METRICS, STAMP, RunFolder
from launcher.records.stored_quote import stored_quote
from launcher.workflow.history.attempts import attempts, interrupted_attempts, job_events, read_events

NOT_SUBMITTED = "not-submitted"
_LOSSES = (EndedBy.SPOT_INTERRUPTION, EndedBy.NODE_LOST, EndedBy.FAILURE, EndedBy.TIME_LIMIT)
DIGITS = 6
"""Decimal digits of hours: six are four milliseconds."""


def entry_of(name: str, folder: RunFolder) -> LedgerEntry:
    """The ledger entry of a run folder in its current state.

    Raises:
        UnreadableInputError: the folder has no quote, or a file in it is damaged.
    """
    try:
        return _entry(name, folder)
    except (ArithmeticError, KeyError, TypeError, ValueError) as problem:
        raise UnreadableInputError(f"{folder.path} is not a run: {problem}") from problem


def _entry(name: str, folder: RunFolder) -> LedgerEntry:
    quote = stored_quote(folder)
    report = stored_report(folder) if (folder.path / "report.json").is_file() else None
    created = datetime.strptime(folder.path.name, STAMP).replace(tzinfo=UTC)
    command = read_command(folder)
    plan = folder.read_json("plan.json") if (folder.path / "plan.json").is_file() else {}
    # What the launcher kept while it followed, or what was copied from the cluster afterwards: whichever is longer
    local, copied = read_events(folder.events), job_events(folder)
    events = copied if len(attempts(copied)) > len(attempts(local)) else local
    ran = _attempts_with_ends(attempts(events), report)
    last = ran[-1] if ran else None
    trained = _trained_totals(folder.path / JOB_FOLDER / METRICS)
    monthly = quote.serving is not None
    cost = None if monthly or report is None else quote.cost
    hours = report.actual_hours if report is not None else 0.0
    return LedgerEntry(
        name=name,
        run=folder.path.name,
        origin=hashlib.sha256(f"{platform.node()}:{folder.path.parent.resolve()}".encode()).hexdigest()[:12],
        started_at=ran[0].started_at.astimezone(UTC) if ran else created,
        ended_at=_end_time(report, ran),
        status=report.status.value if report is not None else _status_without_report(command),
        simulated=report.simulated if report is not None else command is not None and command.sandbox,
        monthly=monthly,
        target=quote.target or "",
        instance_type=quote.instance_type or "",
        nodes=quote.nodes,
        region=quote.region,
        purchase_option=quote.purchase_option,
        quoted_usd=quote.usd,
        usd_per_hour=quote.usd_per_hour,
        hours=round(hours, DIGITS),
        usd_at_quoted_rate=report.usd_at_quoted_rate if report is not None and not monthly else None,
        billed_usd=amount(folder.read_json(BILLED)["billed_usd"]) if (folder.path / BILLED).is_file() else None,
        tokens=trained.get("tokens"),
        epochs=trained.get("epoch"),
        interruptions=len(interrupted_attempts(ran)),
        lost_h=round(lost_hours(events, last), DIGITS),
        tags=read(dict[str, str], plan.get("tags") or {}, "tags"),
        usd_used=None if cost is None else _usd_of_hours(cost, ran, hours),
        shared=ALONE if cost is None else _shared_resources(name, plan, cost.rates),
        ended_by=None if last is None else last.ended_by,
        guard_reason=None if report is None else _first_line(report.guard_reason),
        places=tuple(attempt.place for attempt in ran) if any(attempt.place for attempt in ran) else (),
    )


def _usd_of_hours(cost: RunCost, ran: Sequence[Attempt], hours: float) -> Decimal:
    """The cost of a run's hours; each attempt at the rate of its own types."""
    if not hours:
        return Decimal(0)
    return cost.used_usd(hours) + usd_of_types(ran, cost.usd_per_hour, cost.rates, over=True)


def _trained_totals(path: Path) -> dict[str, Any]:
    """The tokens and epochs that the trainer reported, at their highest: a resumed attempt counts on."""
    totals: dict[str, Any] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        figures, _ = figures_in(line)
        for key in {"tokens", "epoch"} & figures.keys():
            totals[key] = max(figures[key], totals.get(key, 0))
    return totals | ({"tokens": int(totals["tokens"])} if "tokens" in totals else {})


def _attempts_with_ends(ran: tuple[Attempt, ...], report: Report | None) -> tuple[Attempt, ...]:
    """The attempts, with their ends of the report: the scheduler knows why an attempt without an ending event ended."""
    if report is None or not report.attempts or len(report.attempts) < len(ran):
        return ran
    by_pod_end = len(report.attempts) == len(ran) and ran[-1].by_pod_end
    return (*report.attempts[:-1], replace(report.attempts[-1], by_pod_end=by_pod_end))


def _first_line(text: str) -> str | None:
    """The first line of a text, None of an empty one: a ledger has one line for each run."""
    return next((" ".join(line.split()) for line in text.splitlines() if line.strip()), None)


def _status_without_report(command: CommandRecord | None) -> str:
    """The status of a run folder without a report."""
    return DRY_RUN if command is not None and command.ended == DRY_RUN else NOT_SUBMITTED


def _end_time(report: Report | None, ran: Iterable[Attempt]) -> datetime | None:
    """When the last attempt ended; None while the run may continue, or if no event says when it ended."""
    if report is None or report.status is RunStatus.RUNNING:
        return None
    ends = [attempt.ended_at.astimezone(UTC) for attempt in ran if attempt.ended_at is not None]
    return max(ends, default=None)


def _shared_resources(name: str, plan: Mapping[str, Any], rates: RunRates) -> Shared:
    """Resources that the run may share with others: its cluster, and the prepaid capacity that its plan names."""
    target = plan.get("target")
    cluster = target.get("cluster") if isinstance(target, dict) else None
    return Shared(
        cluster=cluster if isinstance(cluster, str) else name,
        reservation=next(iter(bought_ids(plan)), ""),
        prepaid_usd=rates.prepaid_usd,
        cluster_usd_per_hour=rates.cluster_usd_per_hour,
        start_h=rates.start_h,
        tail_h=rates.tail_h,
        list_usd_per_hour=rates.list_usd_per_hour,
    )


def bought_ids(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the reservation and of the training plan that a plan names."""
    purchase = plan.get("purchase")
    if not isinstance(purchase, dict):
        return ()
    ids: list[Any] = []
    for key, word in (("reservation", "id"), ("training_plan", "arn")):
        named = purchase.get(key)
        ids.append(named.get(word) if isinstance(named, dict) else named)
    return tuple(item for item in ids if isinstance(item, str) and item)


def lost_hours(events: Iterable[Mapping[str, Any]], last: Attempt | None = None) -> float:
    """Hours of work that no checkpoint had stored when an attempt ended early: billed, and done again.

    Counted for each attempt that was interrupted, lost or failed: from the moment its last checkpoint was complete in
    the store, or from its start without one, to its end, which `attempts` knows; `last` is the last attempt, whose end
    may be in the report alone. A cancelled attempt lost nothing of value.

    >>> day = "2026-11-20T12:{}:00Z"
    >>> began = {"event": "attempt-started", "attempt": 1, "time": day.format("00")}
    >>> saved = {"event": "checkpoint-uploaded", "attempt": 1, "step": 5, "time": day.format("30")}
    >>> ended = {"event": "interrupted", "attempt": 1, "time": day.format("45")}
    >>> lost_hours([began, saved, ended])
    0.25
    """
    lost, saved_at, ended_at, events = 0.0, None, None, list(events)
    ends = (attempt.ended_at for attempt in attempts(events))
    for event in events:
        kind, at = event.get("event"), event.get("time")
        if not isinstance(at, str):
            continue
        if kind == "attempt-started":
            lost += _hours(saved_at, ended_at.isoformat()) if ended_at is not None else 0.0
            ended_at = next(ends)
            saved_at = at
        elif kind == "checkpoint-uploaded":
            saved_at = at
        elif kind in ("interrupted", "failed"):
            lost += _hours(saved_at, at)
            saved_at = None
        elif kind in ("completed", "cancelled", "stopped"):
            saved_at = None
    if last is not None and last.ended_at is not None and last.ended_by in _LOSSES:
        lost += _hours(saved_at, last.ended_at.isoformat())
    return lost


def _hours(begin: str | None, end: str) -> float:
    return 0.0 if begin is None else max(0.0, (moment(end) - moment(begin)).total_seconds() / 3600)
