"""The part of `slipway quote --verify-with-aws`: the result of AWS's calculator for each line."""

from decimal import Decimal

from launcher.answers import words
from launcher.answers.bill import signed_usd
from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.model.units import number_of
from launcher.model.verification import MAX_APART, Verification, VerifiedLine

SMALL = Decimal("0.005")


def verification_lines(verification: Verification, width: int) -> list[str]:
    """The answer, the lines, and why some of them were not compared."""
    texts = [*(piece for text in _answer(verification) for piece in fold(f"  {text}", width))]
    reasons = [piece for text in _reasons(verification) for piece in fold(f"  {text}", width)]
    return ["", *texts, "", *_table(verification, width), *reasons]


def _reasons(verification: Verification) -> list[str]:
    names: dict[str, list[str]] = {}
    for line in verification.lines:
        if line.difference_usd is None:
            names.setdefault(line.reason or "", []).append(line.names[0])
    return [f"not compared, {reason}: {', '.join(listed)}" for reason, listed in names.items()]


def _answer(verification: Verification) -> list[str]:
    rates = verification.rate_type.lower().replace("_", " ")
    if verification.apart is None:
        return [f"AWS's calculator ({rates}) priced no line of this quote."]
    sums = f"${words.dollars(verification.aws_usd)} where the quote has ${words.dollars(verification.quoted_usd)}"
    verdict = "holds" if verification.holds else f"does not hold: more than {MAX_APART:.0%} apart"
    text = (
        f"AWS's calculator ({rates}) makes it {sums}: the quote {verdict} ({verification.apart:.2%}, lines added up)."
    )
    uncompared = len(verification.lines) - len(verification.compared_lines)
    return [text, *([f"not compared: {number_of(uncompared, 'line')}, for the reasons below."] if uncompared else [])]


def _table(verification: Verification, width: int) -> list[str]:
    columns: list[Column[VerifiedLine]] = [
        Column("line", lambda line: words.first_of(line.names)),
        Column("quoted $", lambda line: words.cents(line.quoted_usd, "unpriced"), "point"),
        Column("AWS $", lambda line: words.cents(line.aws_usd), "point"),
        Column("change", lambda line: _change(line.difference_usd), "right"),
    ]
    return render(columns, verification.lines, width)


def _change(difference: Decimal | None) -> str:
    return "" if difference is None or abs(difference) < SMALL else signed_usd(difference)
