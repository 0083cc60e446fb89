"""A quote in the few lines before a confirmation: the choice, its total, its guardrails, its warnings."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from launcher.answers import words
from launcher.answers.lines import finding_line, wrapped
from launcher.answers.quote import GROUPS, answer_lines, gate_lines, safety, title
from launcher.model.enums import Level
from launcher.model.finding import Finding
from launcher.model.money import CostComponent, Price, sum_usd
from launcher.model.quote import Quote
from launcher.model.units import HOUR_S, spoken
from launcher.pricing.priced import Priced
from launcher.pricing.trust import DOUBTFUL_PRICE
from launcher.workflow.quote.commands import command_for

MAX_FINDINGS = 3
HANGING = 4
"""Indentation in columns of the policies' continuation lines, from their heading."""


def page(quoted: Quote, rank: int, width: int, priced: Priced) -> list[str]:
    """A quote in at most twenty lines of eighty columns; `slipway quote` shows the rest."""
    lines = [title(quoted)]
    lines += [piece for line in answer_lines(quoted) for piece in wrapped(f"  {line}", width)]
    lines += [piece for line in _facts(quoted) for piece in wrapped(f"  {line}", width)]
    on, off = safety(quoted)
    lines += [*wrapped(on, width, HANGING), *wrapped(off, width, HANGING)]
    lines += [] if quoted.gate.allowed else gate_lines(quoted, width)
    lines += _findings([finding for finding in quoted.findings if finding.level is not Level.INFO], width)
    return [*lines, *wrapped(f"  -v shows the rest, and so does {command_for(priced, 'quote', rank)}", width)]


def _facts(quoted: Quote) -> Iterator[str]:
    price, hours = quoted.price, quoted.hours
    facts = []
    if quoted.serving is None:
        span = f"{spoken(hours.low * HOUR_S)} to {spoken(hours.high * HOUR_S)}"
        facts.append(f"{spoken(hours.mid * HOUR_S)} of the job ({span})")
    if isinstance(price, Price) and quoted.usd_per_hour is not None:
        facts.append(f"${words.exact(quoted.usd_per_hour)} an hour, {price.basis.value} {price.as_of}")
    if facts:
        yield " at ".join(facts)
    yield "; ".join(_groups(quoted.components))


def _groups(components: Sequence[CostComponent]) -> Iterator[str]:
    ordered = sorted(components, key=lambda component: GROUPS.index(component.group))
    for group, members in groupby(ordered, key=lambda component: component.group):
        lines = list(members)
        usd = sum_usd(line.usd for line in lines)
        yield f"{group} ${words.dollars(usd)}" + (" and more" if any(line.usd is None for line in lines) else "")


def _findings(findings: Sequence[Finding], width: int) -> list[str]:
    """The most severe findings, doubts about the price first, each complete; and the number of others."""
    order = list(Level)
    ranked = sorted(findings, key=lambda finding: (-order.index(finding.level), finding.code not in DOUBTFUL_PRICE))
    more = len(ranked) - MAX_FINDINGS
    lines: list[str] = []
    for finding in ranked[:MAX_FINDINGS]:
        lines += wrapped(f"  {finding_line(finding)}", width)
    return lines + ([f"  and {more} more remark{'s' if more > 1 else ''}"] if more > 0 else [])
