"""The comparison of `report --billed`: the bill of a run with its quote."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from launcher.aws.clients import FALLBACK_REGION
from launcher.aws.cost_explorer import HOME, billed_rows
from launcher.aws.session import Session
from launcher.catalog.billed import is_usage_type
from launcher.model.bill import (
    APART,
    DAY,
    BilledRow,
    BilledRun,
    ChargeKind,
    ComparedLine,
    Period,
    QuotedLine,
    Unquoted,
    Upfront,
    floor,
)
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.tags import CLUSTER_TAG
from launcher.model.units import number_of
from launcher.records.bill_document import BILLED, BilledDocument
from launcher.records.bill_rows import RowReader
from launcher.records.codec import as_json
from launcher.records.report_document import stored_report
from launcher.records.run_folder import STAMP, RunFolder, all_runs
from launcher.records.stored_quote import stored_quote
from launcher.workflow.history.bill_exports import export_files, open_lines, refuse_several
from launcher.workflow.history.ledger_entries import bought_ids
from launcher.workflow.quote.quoted_lines import quoted_lines

PLACES = Decimal("0.000001")
"""The precision for products of quantities and rates; their sum equals the difference exactly."""
LATE_H = (8, 24)
"""The delay of AWS's billing, in hours: from and to."""


class Reconciled(NamedTuple):
    """The lines of the quote, billed rows without a line, and separately reported rows."""

    lines: tuple[ComparedLine, ...]
    unquoted: tuple[Unquoted, ...]
    credits_usd: Decimal
    tax_usd: Decimal

    @property
    def usd(self) -> Decimal:
        """The total without credits and taxes."""
        return sum((line.usd for line in self.lines), sum((line.usd for line in self.unquoted), Decimal(0)))


def reconcile(lines: Sequence[QuotedLine], rows: Iterable[BilledRow], upfront: Upfront) -> Reconciled:
    """Compare a quote with a bill; every dollar of the rows is in exactly one place of the result.

    A row belongs to the line of its service and usage type, else to a line defined by its service alone. A fee belongs
    to the line that is paid as a total. Only usage has a quantity: a discount or a refund changes the rate.
    """
    taken: dict[int, list[BilledRow]] = {}
    known: dict[tuple[str, str, ChargeKind], int | None] = {}
    bare: dict[tuple[str, str, str], list[BilledRow]] = {}
    apart = dict.fromkeys(APART, Decimal(0))
    for row in rows:
        # Credits and taxes belong to the account, not to a line.
        if row.kind in apart:
            apart[row.kind] += row.dollars(upfront)
            continue
        # A bill has thousands of rows of few kinds: the line of each kind is found once.
        of = row.service, row.usage_type, row.kind
        if of not in known:
            known[of] = _line_of(row, lines)
        number = known[of]
        if number is None:
            description = "" if row.usage_type else row.what
            bare.setdefault(
                (row.service, row.usage_type, description or ("" if row.kind is ChargeKind.USAGE else row.kind.value)),
                [],
            ).append(row)
        else:
            taken.setdefault(number, []).append(row)
    compared = tuple(_compare_line(line, taken.get(number, ()), upfront) for number, line in enumerate(lines))
    unquoted = [_unquoted_line(key, group, upfront) for key, group in bare.items()]
    billed = (line for line in unquoted if line.usd or line.quantity)
    ordered = sorted(billed, key=lambda line: (-abs(line.usd), line.service or "", line.usage_type or "", line.what))
    return Reconciled(compared, tuple(ordered), apart[ChargeKind.CREDIT], apart[ChargeKind.TAX])


def split(line: QuotedLine, quantity: Decimal | None, usd: Decimal) -> tuple[Decimal, Decimal] | None:
    """The difference between billed and quoted as quantity x quoted rate and rate x billed quantity.

    Δ$ = Δquantity x quoted rate + billed quantity x Δrate. None if one side has no quantity or no price.

    >>> line = QuotedLine(
    ...     names=("x",), services=("y",), usage_type="z", unit="hour", quantity=Decimal(10), usd=Decimal(20)
    ... )
    >>> split(line, Decimal(12), Decimal(30))
    (Decimal('4.000000'), Decimal('6.000000'))
    """
    if line.usd is None or not line.quantity or quantity is None:
        return None
    at_quoted_rate = (line.usd * quantity / line.quantity).quantize(PLACES)
    return at_quoted_rate - line.usd, usd - at_quoted_rate


def _line_of(row: BilledRow, lines: Sequence[QuotedLine]) -> int | None:
    candidates = [number for number, line in enumerate(lines) if not row.service or row.service in line.services]
    if row.kind is ChargeKind.FEE:
        return next((number for number in candidates if lines[number].takes_fees), None)
    exact = [number for number in candidates if _is_of(lines[number], row.usage_type)]
    if exact:
        # Several lines can have a usage type of the same name: without its service a row belongs to none of them.
        return exact[0] if len(exact) == 1 or row.service else None
    by_service = [
        number for number in candidates if row.service and not lines[number].usage_type and not lines[number].takes_fees
    ]
    return by_service[0] if len(by_service) == 1 else None


def _is_of(line: QuotedLine, usage_type: str) -> bool:
    known = (line.usage_type, *line.also) if line.usage_type else ()
    return any(is_usage_type(usage, usage_type) for usage in known)


def _compare_line(line: QuotedLine, rows: Sequence[BilledRow], upfront: Upfront) -> ComparedLine:
    usd = sum((row.dollars(upfront) for row in rows), Decimal(0))
    fees = any(row.kind is ChargeKind.FEE for row in rows)
    used = [row.quantity for row in rows if row.kind is ChargeKind.USAGE]
    # A fee pays a whole term: its rows have no hours that could be compared.
    comparable = bool(line.usage_type) and not fees
    quantity = sum(used, Decimal(0)) if comparable else None
    parts = split(line, quantity, usd)
    return ComparedLine(
        line=line,
        quantity=quantity,
        usd=usd,
        of_quantity_usd=None if parts is None else parts[0],
        of_rate_usd=None if parts is None else parts[1],
    )


def _unquoted_line(key: tuple[str, str, str], rows: Sequence[BilledRow], upfront: Upfront) -> Unquoted:
    service, usage_type, description = key
    units = {row.unit for row in rows if row.kind is ChargeKind.USAGE}
    # Quantities of different units have no sum.
    same = len(units) == 1
    quantity = sum((row.quantity for row in rows if row.kind is ChargeKind.USAGE), Decimal(0)) if same else Decimal(0)
    usd = sum((row.dollars(upfront) for row in rows), Decimal(0))
    return Unquoted(
        service=service or None,
        usage_type=usage_type or None,
        what=description,
        quantity=float(quantity),
        unit=units.pop() if same else "",
        usd=usd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BillOptions:
    """The source of the bill: an export's place, None for Cost Explorer; and whether upfront fees are spread."""

    root: Path
    environment: Mapping[str, str]
    export: str | None = None
    upfront: Upfront = Upfront.PAID


def bill_of(name: str, folder: RunFolder, options: BillOptions, now: datetime) -> BilledRun:
    """The bill of a run, stored in the run's folder for the ledger.

    Raises:
        ImpossibleError: the run was in the sandbox, or the export has no tags to find its rows by.
        UnreadableInputError: the run's files, or those of the export, cannot be read.
    """
    report = stored_report(folder)
    if report.simulated:
        raise ImpossibleError(f"{name} ran in the sandbox: AWS billed nothing for this run")
    plan = folder.read_json("plan.json")
    cluster = _cluster(plan)
    period = _period(folder, cluster, options.root, now)
    hours = Decimal(repr(max(0.0, (min(period.end, now) - period.begin).total_seconds()))) / 3600
    lines = quoted_lines(stored_quote(folder), hours)
    tag = (CLUSTER_TAG, cluster)
    rows = _from_export(options, tag, plan, period) if options.export else _from_cost_explorer(options, tag, period)
    reconciled = reconcile(lines, rows, options.upfront)
    arrived = max((row.end for row in rows if row.kind is ChargeKind.USAGE), default=None)
    ended = max((attempt.ended_at for attempt in report.attempts if attempt.ended_at is not None), default=None)
    states = {row.closed for row in rows}
    billed_run = BilledRun(
        name=name,
        source=options.export or "Cost Explorer",
        tag=tag,
        period=period,
        as_of=now,
        upfront=options.upfront,
        lines=reconciled.lines,
        unquoted=reconciled.unquoted,
        usd=reconciled.usd if rows else None,
        credits_usd=reconciled.credits_usd,
        tax_usd=reconciled.tax_usd,
        arrived_until=arrived,
        missing=missing(arrived, ended, now),
        final=None if None in states or not states else states == {True},
        notes=tuple(_notes(lines, plan, options, period)),
    )
    if billed_run.usd is not None:
        folder.write_json(BILLED, as_json(BilledDocument.of(billed_run)))
    return billed_run


def missing(arrived: datetime | None, ended: datetime | None, now: datetime) -> str | None:
    """Billing of a run that has not arrived yet, in words; None if the newest row is after the run's end.

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
                f"{number_of((now - ended).days, 'day')} after the run, nothing has been billed under this tag:"
                " the tag may not be active (slipway doctor --billing)"
            )
        return f"nothing has arrived yet: {late}, and a new tag appears 1 day after its activation"
    if arrived >= until:
        return None
    end = f"{until:%H:%M}" if until.date() == arrived.date() else f"{until:%Y-%m-%d %H:%M}"
    return f"what was used from {arrived:%Y-%m-%d %H:%M} to {end} UTC has not arrived: {late}"


def _from_cost_explorer(options: BillOptions, tag: tuple[str, str], period: Period) -> list[BilledRow]:
    session = Session(environment=options.environment, region=HOME)
    begin, end = period.begin.date(), period.end.date()
    # The end of a query is exclusive, and its shortest period is one day (Cost Explorer API reference).
    return [row for row in billed_rows(session, tag, begin, max(end, begin + DAY)) if period.contains(row)]


def _from_export(
    options: BillOptions, tag: tuple[str, str], plan: Mapping[str, Any], period: Period
) -> list[BilledRow]:
    """The rows of the tag in the period, and the fee of capacity that the run had bought before."""
    place = options.export or ""
    region = options.environment.get("AWS_REGION") or options.environment.get("AWS_DEFAULT_REGION") or FALLBACK_REGION
    files = export_files(place, options.environment, region)
    refuse_several(place, files)
    reader = RowReader(tag=tag, period=period, resources=bought_ids(plan))
    rows: list[BilledRow] = []
    for file in files:
        with open_lines(file) as lines:
            rows += reader.rows(lines, file.name)
    if not reader.knows_tag:
        raise ImpossibleError(
            f"{place} has no tags: none of its columns holds {tag[0]}",
            hint="activate the tag (slipway doctor --billing) and export the column resource_tags, or Tags",
        )
    return rows


def _period(folder: RunFolder, cluster: str, root: Path, now: datetime) -> Period:
    """The period from a run's creation to the creation of the same cluster's next run, or to the end of today."""
    begin = _created_at(folder)
    dated = ((_created_at_or_none(run), run) for _, run in all_runs(root))
    later = sorted(
        ((at, run) for at, run in dated if at is not None and at > begin), key=lambda dated_run: dated_run[0]
    )
    following = (at for at, run in later if _cluster_or_none(run) == cluster)
    return Period(begin, next(following, floor(now, DAY) + DAY))


def _created_at(folder: RunFolder) -> datetime:
    try:
        return datetime.strptime(folder.path.name, STAMP).replace(tzinfo=UTC)
    except ValueError as problem:
        raise UnreadableInputError(f"{folder.path} is not a run folder: its name is not a time") from problem


def _created_at_or_none(folder: RunFolder) -> datetime | None:
    try:
        return _created_at(folder)
    except UnreadableInputError:
        return None


def _cluster_or_none(folder: RunFolder) -> str | None:
    try:
        return _cluster(folder.read_json("plan.json"))
    except UnreadableInputError:
        return None


def _cluster(plan: Mapping[str, Any]) -> str:
    target = plan.get("target")
    named = target.get("cluster") if isinstance(target, dict) else None
    cluster = named or plan.get("name")
    if not isinstance(cluster, str):
        raise UnreadableInputError("plan.json names no plan")
    return cluster


def _notes(lines: Sequence[QuotedLine], plan: Mapping[str, Any], options: BillOptions, period: Period) -> Iterable[str]:
    if any(not line.confirmed for line in lines):
        yield "? usage types with this mark are from memory, not from a public source"
    if any(line.takes_fees for line in lines):
        yield "the line item of a prepaid fee is not confirmed; a fee is assigned to the nodes by its reservation's ID"
        if options.export is None:
            yield "Cost Explorer cannot report a fee by its reservation: use --export"
    target = plan.get("target")
    if isinstance(target, dict) and target.get("cluster"):
        yield f"the job ran on {target['cluster']}, which is billed as a whole: these rows include its other jobs"
    if options.export is None and period.begin.date() == period.end.date():
        yield "Cost Explorer counts whole days: these rows include another run of the cluster on the same day"
