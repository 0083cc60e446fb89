"""The page of `slipway ledger`: what the runs came to, and the runs or what they add up to."""

from collections.abc import Sequence
from decimal import Decimal

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, align_points, render
from launcher.model.ledger import Grouping, Ledger, LedgerEntry, LedgerTotal, grouped, total

SHOWN = 40


def page(found: Ledger, width: int, *, by: Grouping | None, everything: bool) -> list[str]:
    """The whole page: the newest runs, all of them, or groups."""
    if not found.entries:
        lines = ["", "  No runs here.", "", "  next: slipway plan FILE"]
    else:
        lines = ["", *(piece for text in answer(total(found.entries)) for piece in wrapped(f"  {text}", width)), ""]
        shown = found.entries if everything else found.entries[:SHOWN]
        lines += _groups(grouped(found.entries, by), by, width) if by is not None else _runs(shown, width)
        hidden = len(found.entries) - len(shown) if by is None else 0
        lines += wrapped(f"  {hidden:,} older runs are not shown; --all shows them, --by adds up.", width) * bool(
            hidden
        )
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
    used, quoted = words.dollars(whole.usd_at_quoted_rate), words.dollars(whole.quoted_usd)
    first = f"{_count(real, 'run')}: ${used} at the quoted rates, quoted ${quoted}"
    lines = [f"{first}, billed ${words.dollars(whole.billed_usd)}." if whole.billed_usd else f"{first}."]
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


def _runs(shown: Sequence[LedgerEntry], width: int) -> list[str]:
    columns = [
        Column(title="run"),
        Column(title="began (UTC)", yields=1),
        Column(title="how it ended"),
        Column(title="machines", yields=3),
        Column(title="hours", right=True),
        Column(title="quoted $", right=True),
        Column(title="used $", right=True),
        Column(title="billed $", right=True, yields=2),
        Column(title="$/M tokens", right=True, yields=4),
        Column(title="lost h", right=True, yields=5),
    ]
    return _table(columns, [_run(each) for each in shown], (5, 6, 7, 8), width)


def _run(each: LedgerEntry) -> list[str]:
    quoted = words.dollars(each.quoted_usd.mid) if each.quoted_usd is not None else "unpriced"
    return [
        each.name,
        f"{each.started_at:%Y-%m-%d %H:%M}",
        ended(each),
        f"{each.nodes} × {each.instance_type} {each.option.replace('-', ' ')}" if each.instance_type else "Bedrock",
        words.hours(each.hours),
        f"{quoted}/month" if each.monthly else quoted,
        words.dollars(each.usd_at_quoted_rate),
        _blank(each.billed_usd),
        _blank(each.usd_per_million_tokens),
        words.hours(each.lost_h) if each.lost_h else "",
    ]


def ended(each: LedgerEntry) -> str:
    """How a run ended."""
    return each.status.replace("-", " ") + (", sandbox" if each.simulated else "")


def _groups(groups: Sequence[LedgerTotal], by: Grouping, width: int) -> list[str]:
    columns = [
        Column(title=by.value),
        Column(title="runs", right=True),
        Column(title="hours", right=True),
        Column(title="quoted $", right=True),
        Column(title="used $", right=True),
        Column(title="billed $", right=True, yields=2),
        Column(title="$/M tokens", right=True, yields=3),
        Column(title="stopped", right=True, yields=4),
        Column(title="lost $", right=True, yields=5),
    ]
    return _table(columns, [_group(each) for each in groups], (3, 4, 5, 6, 8), width)


def _group(each: LedgerTotal) -> list[str]:
    return [
        each.key,
        f"{each.runs:,}",
        words.hours(each.hours),
        words.dollars(each.quoted_usd),
        words.dollars(each.usd_at_quoted_rate),
        _blank(each.billed_usd or None),
        _blank(each.usd_per_million_tokens),
        f"{each.interruptions:,}" if each.interruptions else "",
        _blank(each.usd_lost or None),
    ]


def _blank(amount: Decimal | None) -> str:
    """Dollars, and nothing where there are none."""
    return "" if amount is None else words.dollars(amount)


def _table(columns: Sequence[Column], rows: list[list[str]], money: Sequence[int], width: int) -> list[str]:
    for column in money:
        for row, text in zip(rows, align_points([row[column] for row in rows]), strict=True):
            row[column] = text
    return render(columns, rows, width)
