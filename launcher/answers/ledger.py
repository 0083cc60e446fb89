"""Results of the runs, and the runs or what they add up to: `slipway ledger`, slipway.ledger/1, its CSV."""

from collections.abc import Iterable, Sequence

from launcher.answers import words
from launcher.answers.lines import wrapped
from launcher.answers.table import Column, dollars, hours, render
from launcher.model.ledger import Grouping, Ledger, LedgerEntry, LedgerTotal, grouped, reservations, total
from launcher.records.codec import Json, named, picked, plain
from launcher.records.ledger_document import KEYS

SHOWN = 40


def document(ledger: Ledger, by: Grouping | None = None) -> Json:
    """slipway.ledger/1; `groups` where it was asked for by something."""
    groups = {} if by is None else {"groups": [_total(ledger_total) for ledger_total in grouped(ledger.entries, by)]}
    return {
        "schema": "slipway.ledger/1",
        "source": ledger.source,
        "runs": [_listed(entry) for entry in ledger.entries],
        "total": _total(total(ledger.entries)),
        "reservations": [
            picked(reservation, "name fee_usd used_usd unused_usd") | {"runs": len(reservation.runs)}
            for reservation in reservations(ledger.entries)
        ],
        "unread": named(ledger.unread, "run", "reason"),
        **groups,
    }


def _listed(entry: LedgerEntry) -> Json:
    return picked(entry, f"{KEYS} usd usd_per_million_tokens usd_per_epoch usd_lost")


def _total(found: LedgerTotal) -> Json:
    return {**plain(found), "key": found.key or None}


def rows(entries: Iterable[LedgerEntry]) -> tuple[list[str], list[list[str]]]:
    """The columns of `ledger --csv` and its rows: as in the JSON, ranges spread, tags as key=value."""
    first = ("name", "run", "started_at", "ended_at", "status", "simulated", "target", "instance_type", "nodes")
    columns = [*first, "region", "purchase_option", "quoted_usd_low", "quoted_usd_mid", "quoted_usd_high"]
    columns += ["usd_per_hour", "hours", "usd_at_quoted_rate", "usd_used", "billed_usd", "usd", "tokens"]
    columns += ["usd_per_million_tokens", "epochs", "usd_per_epoch", "interruptions", "lost_h", "usd_lost", "tags"]
    found = []
    for entry in entries:
        flat = _listed(entry)
        span = flat.pop("quoted_usd") or {}
        flat |= {f"quoted_usd_{name}": span.get(name) for name in ("low", "mid", "high")}
        flat["tags"] = ";".join(f"{key}={value}" for key, value in entry.tags.items())
        found.append(["" if flat[name] is None else str(flat[name]) for name in columns])
    return columns, found


def page(found: Ledger, width: int, *, by: Grouping | None, everything: bool) -> list[str]:
    """The whole page: the newest runs, all of them, or groups."""
    if not found.entries:
        lines = ["", "  No runs here.", "", "  next: slipway plan FILE"]
    else:
        lines = ["", *(piece for text in answer(total(found.entries)) for piece in wrapped(f"  {text}", width)), ""]
        shown = found.entries if everything else found.entries[:SHOWN]
        lines += (
            render(group_columns(by), grouped(found.entries, by), width)
            if by is not None
            else render(RUNS, shown, width)
        )
        hidden = len(found.entries) - len(shown) if by is None else 0
        lines += wrapped(f"  {hidden:,} older runs are not shown; --all shows them, --by adds up.", width) * bool(
            hidden
        )
        for use in reservations(found.entries) if by is None else ():
            left, fee = words.dollars(use.unused_usd), words.dollars(use.fee_usd)
            lines += wrapped(f"  {use.name}: ${left} of its fee of ${fee} was used by no run", width)
        lines += wrapped(f"  {found.source}", width)
    for run, reason in found.unread:
        lines += wrapped(f"  ? {run}: {reason}", width)
    return lines


def answer(whole: LedgerTotal) -> list[str]:
    """The sum in a sentence or two."""
    real = whole.runs - whole.simulated
    sandbox = f"{_count(whole.simulated, 'run')} in the sandbox, where nothing is spent."
    if not real:
        return [sandbox]
    used, quoted = words.dollars(whole.usd_used), words.dollars(whole.quoted_usd)
    first = f"{_count(real, 'run')}: ${used} used, quoted ${quoted}"
    lines = [f"{first}, billed ${words.dollars(whole.billed_usd)}." if whole.billed_usd else f"{first}."]
    if whole.usd_unused:
        paid = words.dollars(whole.usd_used + whole.usd_unused)
        lines.append(f"No run used ${words.dollars(whole.usd_unused)} of the prepaid capacity: ${paid} in all.")
    if whole.usd_per_million_tokens is not None:
        lines.append(f"${words.dollars(whole.usd_per_million_tokens)} a million tokens of the runs that counted them.")
    if whole.interruptions or whole.lost_h:
        said = f"{_count(whole.interruptions, 'interruption')}; {words.hours(whole.lost_h)} h of work was lost"
        lines.append(f"{said} (${words.dollars(whole.usd_lost)}).")
    if whole.incomplete:
        lines.append(f"The dollars of {_count(whole.incomplete, 'run')} are not known and in no sum.")
    return [*lines, sandbox] if whole.simulated else lines


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def machines(each: LedgerEntry) -> str:
    """What a run had, and how it was bought."""
    option = each.option.replace("-", " ")
    return f"{each.nodes} × {each.instance_type} {option}" if each.instance_type else "Bedrock"


def _quoted(each: LedgerEntry) -> str:
    text = words.middle(each.quoted_usd, "unpriced")
    return f"{text}/month" if each.monthly else text


def ended(each: LedgerEntry) -> str:
    """How a run ended."""
    return each.status.replace("-", " ") + (", sandbox" if each.simulated else "")


def _lost(each: LedgerEntry) -> str:
    return words.hours(each.lost_h) if each.lost_h else ""


def group_columns(by: Grouping) -> list[Column[LedgerTotal]]:
    """The columns of groups, as text and, but for the last two, as HTML."""
    return [
        Column(by.value, lambda ledger_total: ledger_total.key),
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
    Column("run", lambda each: each.name),
    Column("began (UTC)", lambda each: f"{each.started_at:%Y-%m-%d %H:%M}", yields=1),
    Column("how it ended", ended),
    Column("machines", machines, yields=3),
    hours("hours", lambda each: each.hours),
    Column("quoted $", _quoted, "point", value=lambda each: each.quoted_usd.mid if each.quoted_usd else None),
    dollars("used $", lambda each: each.usd_used),
    dollars("billed $", lambda each: each.billed_usd, "", 2),
    dollars("$/M tokens", lambda each: each.usd_per_million_tokens, "", 4),
    Column("lost h", _lost, "right", yields=5, value=lambda each: each.lost_h),
)
"""Of a run, as text and as HTML."""
