"""Results of the runs, single or summed up: `slipway ledger`, slipway.ledger/1, its CSV."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import fold
from launcher.answers.report import places_text
from launcher.answers.table import Column, dollars, hours, render
from launcher.model.ledger import (
    Grouping,
    Ledger,
    LedgerEntry,
    LedgerTotal,
    ReservationUse,
    group_totals,
    reservations,
    total,
)
from launcher.model.money import UsdRange
from launcher.model.report import EndedBy, RunStatus
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import OMITTED, UnreadRun, fill_record, json_object

SHOWN = 40
_NOT_OF_THE_COMMAND = (EndedBy.SPOT_INTERRUPTION, EndedBy.NODE_LOST, EndedBy.TIME_LIMIT)


@json_object
class ListedRun:
    """One run: its quote, its duration and its cost, with the figures that follow from them."""

    name: str
    run: str
    origin: str
    started_at: datetime
    ended_at: datetime | None
    status: str
    simulated: bool
    monthly: bool
    target: str
    instance_type: str
    nodes: int
    region: str
    purchase_option: str
    quoted_usd: UsdRange | None
    usd_per_hour: Decimal | None
    hours: float | None
    usd_at_quoted_rate: Decimal | None
    billed_usd: Decimal | None
    tokens: int | None
    epochs: float | None
    interruptions: int
    lost_h: float
    tags: Mapping[str, str]
    usd_used: Decimal | None
    usd: Decimal | None
    usd_per_million_tokens: Decimal | None
    usd_per_epoch: Decimal | None
    usd_lost: Decimal | None
    ended_by: EndedBy | None
    guard_reason: str | None
    places: tuple[str, ...]


@json_object
class LedgerDocument:
    """The results of the runs. Only a grouped ledger has `groups`."""

    schema: Literal["slipway.ledger/1"] = "slipway.ledger/1"
    source: str
    runs: tuple[ListedRun, ...]
    total: LedgerTotal
    reservations: tuple[ReservationUse, ...]
    unread: tuple[UnreadRun, ...]
    groups: tuple[LedgerTotal, ...] | None = field(default=None, metadata=OMITTED)


def document(ledger: Ledger, by: Grouping | None = None) -> Json:
    """slipway.ledger/1; `groups` if a grouping was requested."""
    return as_json(
        LedgerDocument(
            source=ledger.source,
            runs=tuple(fill_record(ListedRun, entry) for entry in ledger.entries),
            total=total(ledger.entries),
            reservations=reservations(ledger.entries),
            unread=tuple(UnreadRun(run=run, reason=reason) for run, reason in ledger.unread),
            groups=None if by is None else group_totals(ledger.entries, by),
        )
    )


def rows(entries: Iterable[LedgerEntry]) -> tuple[list[str], list[list[str]]]:
    """The columns of `ledger --csv` and its rows: as in the JSON, ranges in separate columns, tags as key=value."""
    first = ("name", "run", "started_at", "ended_at", "status", "simulated", "target", "instance_type", "nodes")
    columns = [*first, "region", "purchase_option", "quoted_usd_low", "quoted_usd_mid", "quoted_usd_high"]
    columns += ["usd_per_hour", "hours", "usd_at_quoted_rate", "usd_used", "billed_usd", "usd", "tokens"]
    columns += [
        "usd_per_million_tokens",
        "epochs",
        "usd_per_epoch",
        "interruptions",
        "lost_h",
        "usd_lost",
        "tags",
        "places",
        "ended_by",
        "guard_reason",
    ]
    flat_rows = []
    for entry in entries:
        flat = as_json(fill_record(ListedRun, entry))
        span = flat.pop("quoted_usd") or {}
        flat |= {f"quoted_usd_{name}": span.get(name) for name in ("low", "mid", "high")}
        flat["tags"] = ";".join(f"{key}={value}" for key, value in entry.tags.items())
        flat["places"] = ";".join(entry.places)
        flat_rows.append(["" if flat[name] is None else str(flat[name]) for name in columns])
    return columns, flat_rows


def page(ledger: Ledger, width: int, *, by: Grouping | None, everything: bool) -> list[str]:
    """The complete page: the newest runs, all of them, or groups."""
    if not ledger.entries:
        lines = ["", "  No runs here.", "", "  next: slipway plan FILE"]
    else:
        lines = ["", *(piece for text in answer(total(ledger.entries)) for piece in fold(f"  {text}", width)), ""]
        shown = ledger.entries if everything else ledger.entries[:SHOWN]
        lines += (
            render(group_columns(by), group_totals(ledger.entries, by), width)
            if by is not None
            else render(RUNS, shown, width)
        )
        hidden = len(ledger.entries) - len(shown) if by is None else 0
        lines += fold(f"  not shown: {number_of(hidden, 'older run')}; --all shows them, --by adds up.", width) * bool(
            hidden
        )
        for entry in shown if by is None else ():
            if entry.guard_reason:
                what = "endpoint" if entry.monthly else "nodes"
                why = f"the guard stopped its {what}: {entry.guard_reason}"
                lines += fold(f"  {entry.name}, {entry.started_at:%Y-%m-%d %H:%M}: {why}", width)
            if entry.other_types:
                began = f"{entry.started_at:%Y-%m-%d %H:%M}"
                lines += fold(f"  {entry.name}, {began}: {places_text(entry.places)}", width)
        for use in reservations(ledger.entries) if by is None else ():
            unused, fee = words.dollars(use.unused_usd), words.dollars(use.fee_usd)
            lines += fold(f"  {use.name}: ${unused} of its fee of ${fee} was used by no run", width)
        lines += fold(f"  {ledger.source}", width)
    for run, reason in ledger.unread:
        lines += fold(f"  ? {run}: {reason}", width)
    return lines


def answer(whole: LedgerTotal) -> list[str]:
    """The totals in a sentence or two."""
    real = whole.runs - whole.simulated
    sandbox = f"{number_of(whole.simulated, 'run')} in the sandbox, where nothing is spent."
    if not real:
        return [sandbox]
    used, quoted = words.dollars(whole.usd_used), words.dollars(whole.quoted_usd)
    first = f"{number_of(real, 'run')}: ${used} used, quoted ${quoted}"
    lines = [f"{first}, billed ${words.dollars(whole.billed_usd)}." if whole.billed_usd else f"{first}."]
    if whole.usd_unused:
        paid = words.dollars(whole.usd_used + whole.usd_unused)
        lines.append(f"No run used ${words.dollars(whole.usd_unused)} of the prepaid capacity: ${paid} in all.")
    if whole.usd_per_million_tokens is not None:
        lines.append(f"${words.dollars(whole.usd_per_million_tokens)} a million tokens of the runs that counted them.")
    if whole.interruptions or whole.lost_h:
        losses = f"{number_of(whole.interruptions, 'interruption')}; {words.hours(whole.lost_h)} h of work was lost"
        lines.append(f"{losses} (${words.dollars(whole.usd_lost)}).")
    if whole.incomplete:
        lines.append(f"The dollars of {number_of(whole.incomplete, 'run')} are unknown and not in the totals.")
    return [*lines, sandbox] if whole.simulated else lines


def run_instances(entry: LedgerEntry) -> str:
    """The instances of a run, and their purchase option."""
    option = entry.purchase_option.replace("-", " ")
    return f"{entry.nodes} × {entry.instance_type} {option}" if entry.instance_type else "Bedrock"


def _quoted_text(entry: LedgerEntry) -> str:
    text = words.middle(entry.quoted_usd, "unpriced")
    return f"{text}/month" if entry.monthly else text


def ending_text(entry: LedgerEntry) -> str:
    """How a run ended; of a failed run also why, if that was not the job's command; the cause of a guard's stop."""
    words_of_end = [entry.status.replace("-", " ")]
    failed = entry.status == RunStatus.FAILED and entry.ended_by in _NOT_OF_THE_COMMAND
    guarded = entry.status == RunStatus.CANCELLED and entry.guard_reason and entry.ended_by != EndedBy.CANCEL
    if entry.ended_by is not None and (failed or guarded):
        words_of_end.append(entry.ended_by.replace("-", " "))
    return ", ".join([*words_of_end, *(["sandbox"] if entry.simulated else [])])


def group_columns(by: Grouping) -> list[Column[LedgerTotal]]:
    """The columns of groups, as text and, except the last two, as HTML."""
    return [
        Column(by.value, lambda ledger_total: ledger_total.key or ""),
        Column(
            "runs", lambda ledger_total: f"{ledger_total.runs:,}", "right", value=lambda ledger_total: ledger_total.runs
        ),
        hours("hours", lambda ledger_total: ledger_total.hours),
        dollars("quoted $", lambda ledger_total: ledger_total.quoted_usd),
        dollars("used $", lambda ledger_total: ledger_total.usd_used),
        dollars("billed $", lambda ledger_total: ledger_total.billed_usd or None, "", 2),
        dollars("$/M tokens", lambda ledger_total: ledger_total.usd_per_million_tokens, "", 3),
        Column(
            "stopped",
            lambda ledger_total: f"{ledger_total.interruptions:,}" if ledger_total.interruptions else "",
            "right",
            yields=4,
        ),
        dollars("lost $", lambda ledger_total: ledger_total.usd_lost or None, "", 5),
    ]


RUNS: Sequence[Column[LedgerEntry]] = (
    Column("run", lambda entry: entry.name),
    Column("began (UTC)", lambda entry: f"{entry.started_at:%Y-%m-%d %H:%M}", yields=1),
    Column("how it ended", ending_text),
    Column("instances", run_instances, yields=3),
    hours("hours", lambda entry: entry.hours, "–"),
    Column("quoted $", _quoted_text, "point", value=lambda entry: entry.quoted_usd.mid if entry.quoted_usd else None),
    dollars("used $", lambda entry: entry.usd_used),
    dollars("billed $", lambda entry: entry.billed_usd, "", 2),
    dollars("$/M tokens", lambda entry: entry.usd_per_million_tokens, "", 4),
    Column(
        "lost h",
        lambda entry: words.hours(entry.lost_h) if entry.lost_h else "",
        "right",
        yields=5,
        value=lambda entry: entry.lost_h,
    ),
)
"""The columns of a run, as text and as HTML."""
