"""What decides of a quote, in the few lines before a question: the pick, its total, what guards it, what is wrong."""

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import groupby

from launcher.cli import words
from launcher.cli.lines import finding_line, wrapped
from launcher.cli.quote_page import GROUPS, answer_lines, gate_lines, title
from launcher.model.durations import HOUR_S, spoken
from launcher.model.enums import Level
from launcher.model.finding import Finding
from launcher.model.money import CostComponent, Price
from launcher.model.quote import Policy, Quote
from launcher.pricing.priced import Priced

MOST_FINDINGS = 3
LONGEST = 3
"""Lines of one finding that are shown."""


def page(quoted: Quote, rank: int, width: int, priced: Priced) -> list[str]:
    """A quote in at most twenty lines of eighty columns; `slipway quote` has the rest."""
    lines = ["", title(quoted), ""]
    lines += [piece for line in answer_lines(quoted) for piece in wrapped(f"  {line}", width)]
    lines += [piece for line in _facts(quoted, priced.now.date()) for piece in wrapped(f"  {line}", width)]
    lines += gate_lines(quoted, width)
    lines += _findings(quoted.findings, width)
    return [*lines, "", *wrapped(f"  Every line of it: {priced.command('quote', '--pick', str(rank))}", width)]


def _facts(quoted: Quote, today: date) -> Iterator[str]:
    """The rate, the hours, the groups of the bill, and the policies."""
    price, hours = quoted.price, quoted.hours
    if isinstance(price, Price) and quoted.usd_per_hour is not None:
        rate = f"${words.exact(quoted.usd_per_hour)} an hour for the machines, {price.basis.value} {price.as_of}"
        yield f"{rate}, {words.age(price.as_of, today)}"
    if quoted.serving is None:
        span = f"{spoken(hours.low * HOUR_S)} to {spoken(hours.high * HOUR_S)}"
        yield f"{spoken(hours.mid * HOUR_S)} of the job ({span})"
    yield "; ".join(_groups(quoted.components))
    yield f"on: {'; '.join(_policies(quoted.policies, on=True)) or 'nothing'}"
    yield f"off: {', '.join(_policies(quoted.policies, on=False)) or 'nothing'}"


def _groups(components: Sequence[CostComponent]) -> Iterator[str]:
    """What each group of the bill comes to."""
    ordered = sorted(components, key=lambda each: GROUPS.index(each.group))
    for group, members in groupby(ordered, key=lambda each: each.group):
        lines = list(members)
        usd = sum((each.usd for each in lines if each.usd is not None), Decimal(0))
        yield f"{group} ${words.dollars(usd)}" + (" and more" if any(each.usd is None for each in lines) else "")


def _policies(policies: Sequence[Policy], *, on: bool) -> Iterator[str]:
    """The policies that are on with what they are set to, or those that are off."""
    return (f"{each.name} {each.value}" if on else each.name for each in policies if each.on is on)


def _findings(findings: Sequence[Finding], width: int) -> list[str]:
    """The gravest findings, each in a few lines, and how many there are beside them."""
    order = list(Level)
    ranked = sorted(findings, key=lambda each: -order.index(each.level))
    lines: list[str] = []
    for each in ranked[:MOST_FINDINGS]:
        told = wrapped(f"  {finding_line(each)}", width)
        lines += told if len(told) <= LONGEST else [*told[: LONGEST - 1], f"{told[LONGEST - 1][: width - 2]} …"]
    more = len(ranked) - MOST_FINDINGS
    return lines + ([f"  {more} more remark{'s' if more > 1 else ''}: -v shows them"] if more > 0 else [])
