"""The effect of a plan change on its total: `slipway diff`, also as a comment on a pull request."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Literal

from launcher.answers import words
from launcher.answers.lines import finding_line, fold
from launcher.answers.table import Column, dollars, render
from launcher.model.errors import SlipwayError
from launcher.model.plan_diff import LineDiff, PlanDiff, PlansDiff
from launcher.model.units import number_of
from launcher.model.visible_text import visible
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object

MARK = "<!-- slipway diff -->"
"""The first line of the comment: the next comment finds the old one by this line and replaces it."""
NO_LINK = "\u200b"
"""A zero-width space within what a host of pull requests would make a link of."""
MAX_LINES = 6


@json_object
class DiffDocument:
    """The effect of a change; `refusal` is why it exceeds the policy, null if it does not."""

    schema: Literal["slipway.diff/1"] = "slipway.diff/1"
    old: str
    new: str
    looked_at: int
    usd_change: Decimal
    percent: float | None
    refusal: str | None
    plans: tuple[PlanDiff, ...]


def document(difference: PlansDiff, refusal: str | None) -> Json:
    """slipway.diff/1."""
    return as_json(fill_record(DiffDocument, difference, refusal=refusal))


def page(difference: PlansDiff, refusal: str | None, width: int) -> list[str]:
    """The change for a terminal of `width` columns."""
    lines = ["", *fold(f"  {headline(difference)}", width)]
    if difference.plans:
        columns: list[Column[PlanDiff]] = [
            Column("plan", lambda diff: diff.file, shrinks=True),
            Column("before", lambda diff: _totals(diff)[0], "right"),
            Column("after", lambda diff: _totals(diff)[1], "right"),
            Column("change", lambda diff: _totals(diff)[2], "right"),
            Column("", lambda diff: f"a {diff.unit}"),
        ]
        lines += ["", *render(columns, difference.plans, width)]
    for plan in difference.plans:
        lines += ["", f"  {plan.file}"]
        lines += [piece for reason in plan.why for piece in fold(f"    {reason}", width)]
        lines += _bill(plan, width)
    if refusal is not None:
        lines += ["", *fold(f"  refused: {refusal}", width)]
    return lines


def headline(difference: PlansDiff) -> str:
    """The change in a sentence."""
    plans = number_of(difference.looked_at, "plan")
    if not difference.plans:
        return f"No total changes between {_short(difference.old)} and {_short(difference.new)}: {plans} compared."
    percent = "" if difference.percent is None else f" ({difference.percent:+.1f} %)"
    count = (
        f"{len(difference.plans)} of {plans} changed"
        if difference.looked_at > len(difference.plans)
        else f"{plans} changed"
    )
    change = f"{signed_usd(difference.usd_change)}{percent}"
    return f"{change} from {_short(difference.old)} to {_short(difference.new)}; {count}."


def _short(name: str) -> str:
    """A name as entered, with a full commit hash shortened as in Git.

    >>> _short("417ac03efcc53355ea6efabd05a66bf8dffc1864"), _short("main")
    ('417ac03efc', 'main')
    """
    return name[:10] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", name) else name


def signed_usd(usd: Decimal) -> str:
    """Dollars with their sign.

    >>> signed_usd(Decimal("12.35")), signed_usd(Decimal("-1234")), signed_usd(Decimal(0))
    ('+$12.35', '-$1,234', '$0.00')
    """
    sign = "+" if usd > 0 else "-" if usd < 0 else ""
    return f"{sign}${words.dollars(abs(usd))}"


def _totals(plan: PlanDiff) -> list[str]:
    both = plan.old_usd is not None and plan.new_usd is not None
    percent = f" {float(plan.usd_change / plan.old_usd * 100):+.1f} %" if both and plan.old_usd else ""
    unknown = plan.unknown_now or (plan.new_usd is None and plan.old_usd is None)
    change = "unknown" if unknown else f"{signed_usd(plan.usd_change)}{percent}"
    return [_usd(plan.old_usd), _usd(plan.new_usd), change]


def _usd(usd: Decimal | None) -> str:
    return "–" if usd is None else f"${words.dollars(usd)}"


def _bill(plan: PlanDiff, width: int) -> list[str]:
    if not plan.lines:
        return []
    columns: list[Column[LineDiff]] = [
        Column("  line", lambda line: f"  {line.name}", shrinks=True),
        dollars("before", lambda line: line.old_usd),
        dollars("after", lambda line: line.new_usd),
        Column("because", lambda line: line.change.value.replace("-", " ")),
    ]
    hidden = len(plan.lines) - MAX_LINES
    more = [f"    {number_of(hidden, 'smaller line')}: --json has all"] if hidden > 0 else []
    return [*render(columns, plan.lines[:MAX_LINES], width), *more]


def comment(difference: PlansDiff, refusal: str | None) -> list[str]:
    """The change as one comment on a pull request, in GitHub's Markdown."""
    lines = [MARK, f"### {safe(headline(difference))}", ""]
    if refusal is not None:
        lines += [f"**Refused:** {safe(refusal)}", ""]
    if difference.plans:
        lines += ["| plan | before | after | change | a |", "|:--|--:|--:|--:|:--|"]
        lines += [
            f"| `{_code(plan.file)}` | {' | '.join(safe(cell) for cell in _totals(plan))} | {plan.unit} |"
            for plan in difference.plans
        ]
    for plan in difference.plans:
        lines += ["", *_details(plan)]
    return [*lines, "", "Middle estimates to finish; every number's source and date: `slipway quote FILE`."]


def failure_comment(mark: str, problem: SlipwayError) -> list[str]:
    """A comment that replaces an older one where nothing could be priced: the reason, and each finding with its fix."""
    lines = [mark, "### Slipway could not price this change", "", f"**{safe(problem.message)}**", ""]
    lines += [f"- {safe(finding_line(finding))}" for finding in problem.findings]
    return [*lines, "", f"Fix: {safe(problem.hint)}"] if problem.hint else lines


def _details(plan: PlanDiff) -> Iterator[str]:
    yield f"<details><summary>{safe(plan.file)}: what changed and why</summary>"
    yield ""
    yield from (f"- {safe(reason)}" for reason in plan.why)
    if plan.lines:
        yield ""
        yield "| line | before | after | because |"
        yield "|:--|--:|--:|:--|"
        for line in plan.lines:
            sums = f"{words.dollars(line.old_usd)} | {words.dollars(line.new_usd)}"
            yield f"| {safe(line.name)} | {sums} | {line.change.value.replace('-', ' ')} |"
    yield ""
    yield "</details>"


def safe(text: str) -> str:
    r"""Text escaped so that Markdown and HTML show it literally: a plan's text creates no markup and mentions no user.

    >>> print(safe("a|b <i> `x`"))
    a\|b &lt;i&gt; \`x\`
    """
    text = visible(" ".join(text.split())).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    for mark in ("\\", "`", "|", "*", "_", "[", "]"):
        text = text.replace(mark, f"\\{mark}")
    # Hosts of pull requests make links of addresses, and references of numbers.
    for mark in ("@", "#", "://", "www.", "GH-", "gh-", "Gh-", "gH-"):
        text = text.replace(mark, f"{mark[:-1]}{NO_LINK}{mark[-1]}" if len(mark) > 1 else f"{mark}{NO_LINK}")
    return text


def _code(text: str) -> str:
    return visible(" ".join(text.split())).replace("`", "'").replace("|", "\\|")
