"""The part of `slipway quote --verify-with-aws`: what AWS's calculator says of each line."""

from decimal import Decimal

from launcher.cli import words
from launcher.cli.bill_page import signed
from launcher.cli.lines import wrapped
from launcher.cli.table import Column, align_points, render
from launcher.model.verification import MOST_APART, Verification, VerifiedLine

SMALL = Decimal("0.005")


def verification_lines(found: Verification, width: int) -> list[str]:
    """The answer, the lines, and why some of them were not compared."""
    told = [*(piece for text in _answer(found) for piece in wrapped(f"  {text}", width))]
    left = [piece for text in _reasons(found) for piece in wrapped(f"  {text}", width)]
    return ["", *told, "", *_table(found, width), *left]


def _reasons(found: Verification) -> list[str]:
    """The lines that were not compared, by why."""
    names: dict[str, list[str]] = {}
    for each in found.lines:
        if each.difference_usd is None:
            names.setdefault(each.reason, []).append(each.names[0])
    return [f"not compared, {reason}: {', '.join(listed)}" for reason, listed in names.items()]


def _answer(found: Verification) -> list[str]:
    rates = found.rate_type.lower().replace("_", " ")
    if found.apart is None:
        return [f"AWS's calculator ({rates}) priced no line of this quote."]
    sums = f"${words.dollars(found.aws_usd)} where the quote has ${words.dollars(found.quoted_usd)}"
    verdict = "holds" if found.holds else f"does not hold: more than {MOST_APART:.0%} apart"
    told = f"AWS's calculator ({rates}) makes it {sums}: the quote {verdict} ({found.apart:.2%}, lines added up)."
    left = len(found.lines) - len(found.compared)
    return [told, *([f"{left} lines were not compared; why is said below."] if left else [])]


def _table(found: Verification, width: int) -> list[str]:
    columns = [
        Column(title="line"),
        Column(title="quoted $", right=True),
        Column(title="AWS $", right=True),
        Column(title="change", right=True),
    ]
    rows = [_row(each) for each in found.lines]
    for index in (1, 2):
        for row, text in zip(rows, align_points([row[index] for row in rows]), strict=True):
            row[index] = text
    return render(columns, rows, width)


def _row(each: VerifiedLine) -> list[str]:
    more = f" +{len(each.names) - 1}" if len(each.names) > 1 else ""
    difference = each.difference_usd
    return [
        f"{each.names[0]}{more}",
        "unpriced" if each.quoted_usd is None else f"{each.quoted_usd:,.2f}",
        "" if each.aws_usd is None else f"{each.aws_usd:,.2f}",
        "" if difference is None or abs(difference) < SMALL else signed(difference),
    ]
