"""The story of `report --billed`: what AWS billed for a run, beside its quote."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from launcher.aws.clients import FALLBACK_REGION
from launcher.aws.cost_explorer import HOME, billed_rows
from launcher.aws.session import Session
from launcher.model.bill import DAY, BilledRow, BilledRun, ChargeKind, Period, QuotedLine, Upfront, floor
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.records.bill_document import BILLED, billed_document
from launcher.records.bill_rows import RowReader
from launcher.records.documents import parse_report
from launcher.records.run_folder import STAMP, RunFolder, all_runs
from launcher.workflow.history.bill_exports import export_files, opened, refuse_several
from launcher.workflow.history.bill_reconciliation import reconcile
from launcher.workflow.history.ledger_entries import bought_ids
from launcher.workflow.quote.quoted_lines import quoted_lines

TAG = "slipway:cluster"
"""The tag that everything of a run's cluster carries, and that outlives a change of its plan."""
COST_EXPLORER = "Cost Explorer"
LATE_H = (8, 24)
"""Hours after which AWS bills what was used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillOptions:
    """Where the bill is read: an export's place, None for Cost Explorer; and whether fees are spread."""

    root: Path
    environment: Mapping[str, str]
    export: str | None = None
    upfront: Upfront = Upfront.PAID


def bill_of(name: str, folder: RunFolder, options: BillOptions, now: datetime) -> BilledRun:
    """The bill of a run; it is kept in the run's folder, where the ledger finds it.

    Raises:
        ImpossibleError: the run was one of the sandbox, or the export cannot say what is of it.
        UnreadableInputError: the run's files, or those of the export, cannot be read.
        AwsError: AWS could not be asked.
    """
    report = parse_report(folder.read_json("report.json"))
    if report.simulated:
        raise ImpossibleError(f"{name} ran in the sandbox: AWS billed nothing for it")
    plan, quote = folder.read_json("plan.json"), folder.read_json("quote.json")
    cluster = _cluster(plan)
    period = _period(folder, cluster, options.root, now)
    hours = Decimal(repr(max(0.0, (min(period.end, now) - period.begin).total_seconds()))) / 3600
    try:
        lines = quoted_lines(quote, hours)
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path / 'quote.json'} is no quote: {problem}") from problem
    tag = (TAG, cluster)
    rows = _from_export(options, tag, plan, period) if options.export else _from_cost_explorer(options, tag, period)
    told = reconcile(lines, rows, options.upfront)
    arrived = max((row.end for row in rows if row.kind is ChargeKind.USAGE), default=None)
    ended = max((each.ended_at for each in report.attempts if each.ended_at is not None), default=None)
    states = {row.closed for row in rows}
    found = BilledRun(
        name=name,
        source=options.export or COST_EXPLORER,
        tag=tag,
        period=period,
        as_of=now,
        upfront=options.upfront,
        lines=told.lines,
        unquoted=told.unquoted,
        usd=told.usd if rows else None,
        credits_usd=told.credits_usd,
        tax_usd=told.tax_usd,
        arrived_until=arrived,
        missing=missing(arrived, ended, now),
        final=None if None in states or not states else states == {True},
        notes=tuple(_notes(lines, plan, options, period)),
    )
    if found.usd is not None:
        folder.write_json(BILLED, billed_document(found))
    return found


def missing(arrived: datetime | None, ended: datetime | None, now: datetime) -> str | None:
    """What of a run has not arrived yet, in words; None where the newest row is after its end.

    >>> from datetime import timedelta
    >>> day = datetime(2026, 11, 20, tzinfo=UTC)
    >>> missing(day, day + timedelta(hours=5), day + timedelta(hours=9))
    'what was used from 2026-11-20 00:00 to 05:00 UTC has not arrived: AWS bills 8 to 24 hours late'
    """
    late = f"AWS bills {LATE_H[0]} to {LATE_H[1]} hours late"
    until = min(ended, now) if ended is not None else now
    if arrived is None:
        if ended is not None and now - ended > 2 * DAY:
            return (
                f"nothing has been billed under this tag, {(now - ended).days} days after the run:"
                " the tag may not be active (slipway doctor --billing)"
            )
        return f"nothing has arrived yet: {late}, and a new tag shows a day after it was made active"
    if arrived >= until:
        return None
    end = f"{until:%H:%M}" if until.date() == arrived.date() else f"{until:%Y-%m-%d %H:%M}"
    return f"what was used from {arrived:%Y-%m-%d %H:%M} to {end} UTC has not arrived: {late}"


def _from_cost_explorer(options: BillOptions, tag: tuple[str, str], period: Period) -> list[BilledRow]:
    session = Session(environment=options.environment, region=HOME)
    begin, end = period.begin.date(), period.end.date()
    return [row for row in billed_rows(session, tag, begin, max(end, begin + DAY)) if period.holds(row)]


def _from_export(
    options: BillOptions, tag: tuple[str, str], plan: Mapping[str, Any], period: Period
) -> list[BilledRow]:
    """The rows of the tag in the period, and the fee of what the run had bought before."""
    place = options.export or ""
    region = options.environment.get("AWS_REGION") or options.environment.get("AWS_DEFAULT_REGION") or FALLBACK_REGION
    files = export_files(place, options.environment, region)
    refuse_several(place, files)
    reader = RowReader(tag=tag, period=period, resources=bought_ids(plan))
    found: list[BilledRow] = []
    for each in files:
        with opened(each) as lines:
            found += reader.rows(lines, each.name)
    if not reader.knows_tag:
        raise ImpossibleError(
            f"{place} has no tags: none of its columns holds {tag[0]}",
            hint="activate the tag (slipway doctor --billing) and export the column resource_tags, or Tags",
        )
    return found


def _period(folder: RunFolder, cluster: str, root: Path, now: datetime) -> Period:
    """From when a run was made until the next run of the same cluster was, or until the end of today."""
    begin = _made(folder)
    made = ((_made_or_none(each), each) for _, each in all_runs(root))
    later = sorted(((at, each) for at, each in made if at is not None and at > begin), key=lambda each: each[0])
    following = (at for at, each in later if _cluster_or_none(each) == cluster)
    return Period(begin, next(following, floor(now, DAY) + DAY))


def _made(folder: RunFolder) -> datetime:
    try:
        return datetime.strptime(folder.path.name, STAMP).replace(tzinfo=UTC)
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path} is no run folder: its name is no moment") from problem


def _made_or_none(folder: RunFolder) -> datetime | None:
    """When a run was made; None of a folder that is no run's."""
    try:
        return _made(folder)
    except UnreadableInputError:
        return None


def _cluster_or_none(folder: RunFolder) -> str | None:
    try:
        return _cluster(folder.read_json("plan.json"))
    except UnreadableInputError:
        return None


def _cluster(plan: Mapping[str, Any]) -> str:
    """The cluster that a plan's job goes to."""
    target = plan.get("target")
    named = target.get("cluster") if isinstance(target, dict) else None
    found = named or plan.get("name")
    if not isinstance(found, str):
        raise UnreadableInputError("plan.json names no plan")
    return found


def _notes(lines: Sequence[QuotedLine], plan: Mapping[str, Any], options: BillOptions, period: Period) -> Iterable[str]:
    """What has to be known of the comparison."""
    if any(not each.confirmed for each in lines):
        yield "? usage types marked so are from memory, not read in a public source"
    if any(each.takes_fees for each in lines):
        yield "the line item of a prepaid fee is not confirmed; a fee is taken as the machines' by its reservation's id"
        if options.export is None:
            yield "Cost Explorer cannot report a fee by its reservation: use --export"
    target = plan.get("target")
    if isinstance(target, dict) and target.get("cluster"):
        yield f"the job went to {target['cluster']}, which is billed as a whole: other jobs of it are in these rows"
    if options.export is None and period.begin.date() == period.end.date():
        yield "Cost Explorer counts whole days: another run of the cluster began on this one and is in these rows"
