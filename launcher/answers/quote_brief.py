"""A quote in the few lines before a confirmation: the facts of its first screen, its guardrails, its warnings."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from launcher.answers import words
from launcher.answers.lines import finding_line, fold
from launcher.answers.quote import GROUPS, safety
from launcher.answers.quote_screen import fact_lines, title, without_asking
from launcher.model.enums import Level
from launcher.model.finding import Finding
from launcher.model.money import CostComponent, sum_usd
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.planning.quotas import DEFAULT_QUOTA
from launcher.pricing.priced import Priced
from launcher.pricing.trust import DOUBTFUL_PRICE

MAX_FINDINGS = 3
LABELS = ("Total", "Finished in", "While nodes run", "A month", "While it is up")
"""The facts to decide by; the policies below them have the limits and the checkpoints."""
HANGING = 4
"""Indentation in columns of the policies' continuation lines, from their heading."""


def page(quoted: Quote, rank: int, width: int, priced: Priced) -> list[str]:
    """A quote in at most twenty lines of eighty columns; `slipway quote` shows the rest."""
    refused = () if quoted.gate.allows_launch and not priced.blocking else ("Launch", "Deployment")
    lines = fold(f"  {title(quoted, priced.short_id(rank))}", width)
    lines += fact_lines(quoted, priced, width, labels=(*LABELS, *refused))
    lines += fold(f"    {'; '.join((*_groups(quoted.components), 'more: -v'))}", width)
    on, off = safety(quoted)
    lines += [*fold(on, width, HANGING), *fold(off, width, HANGING)]
    return lines + _findings([finding for finding in quoted.findings if without_asking(finding)], width)


def _groups(components: Sequence[CostComponent]) -> Iterator[str]:
    ordered = sorted(components, key=lambda component: GROUPS.index(component.group))
    for group, members in groupby(ordered, key=lambda component: component.group):
        lines = list(members)
        usd = sum_usd(line.usd for line in lines)
        yield f"{group} {words.usd(usd)}" + (" and more" if any(line.usd is None for line in lines) else "")


def _findings(findings: Sequence[Finding], width: int) -> list[str]:
    """Errors, then doubts about the price, then others; the number of those left out, and of too small quotas."""

    def rank(finding: Finding) -> tuple[bool, bool]:
        return finding.level is not Level.ERROR, finding.code not in DOUBTFUL_PRICE

    ranked = sorted((finding for finding in findings if finding.code != DEFAULT_QUOTA), key=rank)
    more, quotas = len(ranked) - MAX_FINDINGS, sum(finding.code == DEFAULT_QUOTA for finding in findings)
    lines: list[str] = []
    for finding in ranked[:MAX_FINDINGS]:
        lines += fold(f"  {finding_line(finding)}", width)
    counted = [number_of(more, "more remark")] if more > 0 else []
    counted += [f"{number_of(quotas, 'default quota')} below the plan's need"] if quotas else []
    return lines + ([f"  {', '.join(counted)}: -v"] if counted else [])
