"""The page of `slipway commit`: the demand, the commitment that pays, the others, and the command that buys it."""

from launcher.cli import words
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, align_points, render
from launcher.model.commitment_choice import CommitmentChoice, CommitmentOption
from launcher.model.enums import Payment

SHOWN = 10
UPFRONT = {Payment.NO_UPFRONT: "none", Payment.PARTIAL_UPFRONT: "partial", Payment.ALL_UPFRONT: "all"}
"""How much of a commitment is paid when it is made."""


def page(found: CommitmentChoice, width: int, *, everything: bool) -> list[str]:
    """The whole page; the best few commitments unless everything is asked for."""
    lines = ["", *[piece for text in _answer(found) for piece in wrapped(f"  {text}", width)]]
    shown = found.options if everything else found.options[:SHOWN]
    if shown:
        lines += ["", *_table(shown, width)]
        hidden = len(found.options) - len(shown)
        lines += [f"  {hidden} more; --all shows them."] if hidden else []
    if found.choice is not None:
        lines += _chosen(found.choice, width)
    for plan, reason in found.left_out:
        lines += wrapped(f"  not counted: {plan}: {reason}", width)
    return [*lines, "", *wrapped("  Nothing was bought. A commitment is paid in every hour of its term.", width)]


def _answer(found: CommitmentChoice) -> list[str]:
    floor, mean = words.dollars(found.floor_usd_per_hour), words.dollars(found.mean_usd_per_hour)
    demand = f"Demand that a commitment covers: ${floor} in every hour, ${mean} an hour on average, on demand."
    choice = found.choice
    if choice is None:
        why = "nothing runs in every hour" if not found.floor_usd_per_hour else "no commitment to it saves anything"
        more = " The table shows what a bet on the average would bring." if found.options else ""
        return [demand, f"Commit to nothing: {why}.{more}"]
    saved = words.dollars(choice.saving_usd)
    term = f"{choice.term_years} year{'s' if choice.term_years > 1 else ''}"
    article = "an" if choice.instrument.startswith("ec2") else "a"
    instrument = "a reservation" if choice.instrument == "reserved" else f"{article} {choice.instrument}"
    what = f"{instrument} of ${words.dollars(choice.usd_per_hour)} an hour for {term}"
    return [demand, f"Commit to {what}, 75 % of the floor: it saves ${saved} over the term."]


def _table(shown: tuple[CommitmentOption, ...], width: int) -> list[str]:
    columns = [
        Column(title="#", right=True),
        Column(title="instrument"),
        Column(title="covers", yields=1),
        Column(title="years", right=True),
        Column(title="upfront"),
        Column(title="level", yields=4),
        Column(title="$/h", right=True),
        Column(title="commitment $", right=True),
        Column(title="saves $", right=True),
        Column(title="used", right=True, yields=2),
        Column(title="even at", right=True, yields=3),
    ]
    rows = [_row(number, each) for number, each in enumerate(shown, start=1)]
    for column in (6, 7, 8):
        for row, text in zip(rows, align_points([row[column] for row in rows]), strict=True):
            row[column] = text
    return render(columns, rows, width)


def _row(number: int, each: CommitmentOption) -> list[str]:
    return [
        str(number),
        each.instrument,
        each.covers,
        str(each.term_years),
        UPFRONT[each.payment],
        each.level,
        words.dollars(each.usd_per_hour),
        words.dollars(each.commitment_usd),
        words.dollars(each.saving_usd),
        f"{each.utilisation:.0%}",
        f"{each.break_even:.0%}",
    ]


def _chosen(choice: CommitmentOption, width: int) -> list[str]:
    """The choice's risks, what one more dollar would bring, and the commands; a command is pasted, so not broken."""
    lines = ["", "  what can go wrong"]
    lines += [piece for each in choice.risks for piece in wrapped(f"    {each}", width)]
    lines += ["", "  one more dollar an hour, where so much is committed already"]
    for level, value in choice.marginal:
        lines.append(f"    at ${words.dollars(level)}: {'+' if value > 0 else ''}{value:.2f} an hour")
    return [*lines, "", "  to buy it", f"    {choice.command}"]
