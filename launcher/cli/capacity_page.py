"""The page of `slipway capacity`: what can be had, when, for how much in all, and the commands that buy it."""

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, align_points, render
from launcher.model.capacity import BOUGHT, JudgedOffer
from launcher.workflow.capacity.offers import CapacityFound

HOURS_A_DAY = 24
SHOWN = 20


def page(found: CapacityFound, width: int, *, everything: bool) -> list[str]:
    """The whole page; the best few unless everything is asked for."""
    shown = found.offers if everything else found.offers[:SHOWN]
    lines = ["", f"  {found.priced.request.name}: what can be had now", ""]
    if not found.offers and found.unanswered:
        lines += wrapped("  Nothing in what AWS answered; it was also asked, in vain, for:", width)
    elif not found.offers:
        lines += wrapped("  Nothing: AWS offers none of these machines in these places.", width)
    else:
        lines += [*_answer(found, width), "", *_table(found, shown, width)]
    hidden = len(found.offers) - len(shown)
    if hidden:
        lines.append(f"  {hidden} more; --all shows them.")
    lines += _reasons(shown, width)
    lines += _commands(shown)
    for asked, reason in found.unanswered:
        lines += wrapped(f"  ? {asked}: {reason.removeprefix(f'{asked}: ')}", width)
    return [*lines, "", *wrapped("  Nothing was bought. What is bought ahead is never paid back.", width)]


def _answer(found: CapacityFound, width: int) -> list[str]:
    """The cheapest and the soonest, by their rows."""
    lines = []
    if found.cheapest is not None and found.cheapest.usd is not None:
        total = words.dollars(found.cheapest.usd.mid)
        lines += wrapped(f"  Cheapest: {_named(found, found.cheapest)}, ${total} to finish.", width)
    if found.soonest is not None:
        when = lead(found.soonest.lead_time_h)
        lines += wrapped(f"  Soonest that is for sale or held: {_named(found, found.soonest)}, {when}.", width)
    return lines


def _named(found: CapacityFound, judged: JudgedOffer) -> str:
    number = next(number for number, each in enumerate(found.offers, start=1) if each is judged)
    return f"row {number}, {judged.offer.kind.value.replace('-', ' ')}"


def _table(found: CapacityFound, shown: tuple[JudgedOffer, ...], width: int) -> list[str]:
    columns = [
        Column(title="#", right=True),
        Column(title="what"),
        Column(title="machines"),
        Column(title="where"),
        Column(title="begins"),
        Column(title="hours", right=True, yields=2),
        Column(title="fee $", right=True, yields=1),
        Column(title="total $", right=True),
        Column(title=""),
        Column(title="", yields=3),
    ]
    rows = [_row(found, number, each) for number, each in enumerate(shown, start=1)]
    for column in (6, 7):
        for row, text in zip(rows, align_points([row[column] for row in rows]), strict=True):
            row[column] = text
    return render(columns, rows, width)


def _row(found: CapacityFound, number: int, judged: JudgedOffer) -> list[str]:
    offer = judged.offer
    spread = "" if judged.usd is None else words.between(words.dollars(judged.usd.low), words.dollars(judged.usd.high))
    marks = [text for text, best in (("cheapest", found.cheapest), ("soonest", found.soonest)) if best is judged]
    if offer.score is not None:
        marks.append(f"score {offer.score} of 10")
    return [
        str(number),
        offer.kind.value.replace("-", " "),
        f"{offer.count} × {offer.instance_type}",
        offer.az_id or offer.region,
        lead(judged.lead_time_h),
        f"{offer.hours:,.0f}" if offer.hours is not None else "",
        words.dollars(offer.fee_usd) if offer.fee_usd else "",
        words.dollars(judged.usd.mid) if judged.usd is not None else "–",
        spread,
        ", ".join(marks),
    ]


def lead(hours: float) -> str:
    """How long until it begins.

    >>> lead(0), lead(7.2), lead(72.0)
    ('now', 'in 7 h', 'in 3 days')
    """
    if not hours:
        return "now"
    return f"in {hours:.0f} h" if hours < 2 * HOURS_A_DAY else f"in {hours / HOURS_A_DAY:.0f} days"


def _reasons(shown: tuple[JudgedOffer, ...], width: int) -> list[str]:
    """Why a row has no total, and what a score is of."""
    lines = []
    for number, each in enumerate(shown, start=1):
        if each.usd is None and each.note:
            lines += wrapped(f"  {number}: {each.note}", width)
    pools = dict.fromkeys(each.offer.pool for each in shown if each.offer.pool)
    for pool in pools:
        lines += wrapped(f"  score: how likely spot requests for any of {', '.join(pool)} are to succeed", width)
    return lines


def _commands(shown: tuple[JudgedOffer, ...]) -> list[str]:
    """What buys the rows that have to be bought; a command is pasted, so it is not broken."""
    found = [(number, each) for number, each in enumerate(shown, start=1) if each.offer.kind in BOUGHT]
    lines = ["", "  to buy one (paid at once, never paid back)"] if found else []
    return [*lines, *(f"    {number}: {each.purchase_command}" for number, each in found)]
