"""The page of `slipway quote`."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import groupby
from operator import itemgetter

from launcher.answers import quote_screen, words
from launcher.answers.lines import finding_line, fold
from launcher.answers.plan_table import missing_text
from launcher.answers.range_causes import on_average, why_wide
from launcher.answers.table import Column, render
from launcher.model.enums import Availability, PurchaseOption
from launcher.model.finding import Finding
from launcher.model.money import CostComponent, Price
from launcher.model.quote import Quote
from launcher.model.serving import ServingOutlook
from launcher.model.units import duration_text, number_of
from launcher.pricing.blocks import bought_capacity
from launcher.pricing.gate import UNPRICED
from launcher.pricing.hazard import STRESS
from launcher.pricing.priced import Priced
from launcher.workflow.quote.commands import command, command_for

MIN_SMALL, SMALL = Decimal("0.05"), tuple(map(Decimal, ("0.002", "0.01", "0.03")))
"""Minimum dollars, and shares of the total, below which a group's small lines become one: the next share if the page
is longer than MAX_LINES."""
MAX_LINES = 45
MIN_QUANTITY = 0.1
GROUPS = ("compute", "storage", "network", "other")
AVAILABLE = {
    Availability.OFFERED: "AWS sells it there; the capacity is known only at the request",
    Availability.LEAD_TIME: "it begins when AWS offers one; the wait is not in the hours",
    Availability.NO_MARKET: "the price shows no market: it may never start",
    Availability.UNKNOWN: "nothing is known about capacity there",
}


def page(
    quoted: Quote, rank: int, width: int, priced: Priced, *, explained: bool = False, verbose: bool = False
) -> list[str]:
    """The quote: the first screen, in MAX_LINES lines (`verbose`), or with every line and assumption and its source."""
    if explained:
        return _page(quoted, rank, width, priced, small=None)
    if not verbose:
        return quote_screen.page(quoted, rank, width, priced)
    lines: list[str] = []
    for share in SMALL:
        small = MIN_SMALL if quoted.usd is None else max(MIN_SMALL, quoted.usd.mid * share)
        lines = _page(quoted, rank, width, priced, small=small)
        if len(lines) <= MAX_LINES:
            break
    return lines


def _page(quoted: Quote, rank: int, width: int, priced: Priced, *, small: Decimal | None) -> list[str]:
    """The page; `small` combines lines of fewer dollars; None shows all lines."""
    hours, explained = quoted.hours, small is None
    lines = ["", title(quoted), "", *(piece for line in answer_lines(quoted) for piece in fold(f"  {line}", width))]
    causes = (on_average(quoted.usd), why_wide(quoted))
    lines += [piece for line in causes if line for piece in fold(f"  {line}", width)]
    refused = not quoted.gate.allows_launch or bool(priced.blocking)
    lines += gate_lines(quoted, priced, width) if refused else []
    lines += ["", *_bill(quoted, width, small=small or Decimal(0)), ""]
    if quoted.serving is None:
        lines += fold(
            f"  {words.hours(hours.mid)} h of the job ({words.hours(hours.low)} to {words.hours(hours.high)})", width
        )
    else:
        lines += _serving(quoted.serving, width)
    lines += _price(quoted, priced.now.date(), width, explained=explained)
    lines += _available(quoted, width)
    lines += _spot(quoted, width)
    if explained:
        lines += ["", "  assumptions"]
        for assumption in quoted.assumptions:
            lines += fold(f"    {assumption.name}: {assumption.amount} — {assumption.source}", width)
        lines += ["", "  safety"]
        for policy in [f"    on: {policy.name} {policy.value}" for policy in quoted.policies if policy.on]:
            lines += fold(policy, width, hanging=4)
        lines += fold(f"  {safety(quoted)[1]}", width, hanging=5)
        lines += [""]
    else:
        lines += [piece for line in safety(quoted) for piece in fold(line, width)]
    lines += [] if refused else gate_lines(quoted, priced, width)
    findings = [finding for finding in quoted.findings if explained or not _is_in_summary(finding, quoted)]
    shown = [finding for finding in findings if explained or quote_screen.without_asking(finding)]
    lines += [piece for finding in shown for piece in fold(f"  {finding_line(finding)}", width)]
    if more := len(findings) - len(shown):
        lines.append(f"  {number_of(more, 'remark')}: --explain shows {'them' if more > 1 else 'it'}")
    # Of a price that is too old already the day it ends is the moment of the quote, and the gate says what is wrong.
    lasts = quoted.expires_at is not None and quoted.expires_at > priced.now
    expiry = f", good until {quoted.expires_at:%Y-%m-%d %H:%M} UTC" if lasts else ""
    lines += [
        "",
        f"  digest {quoted.digest[:12]}{expiry}",
        "",
        *([] if explained else [f"  next: {command_for(priced, 'quote', rank, '--explain')}"]),
        f"  next: {command_for(priced, 'render', rank, '-o', 'rendered')}"
        if quoted.serving is None
        else f"  next: {command(priced, 'compare')}",
    ]
    return lines


def _is_in_summary(finding: Finding, quoted: Quote) -> bool:
    """Whether the total or the gate already reports a finding."""
    if quoted.usd is None:
        return False
    return finding.code == "unpriced-line" or (finding.code == "old-price" and quoted.gate.exit_code == UNPRICED)


def title(quoted: Quote) -> str:
    """The quoted candidate, in one line."""
    place = quoted.plan.place
    purchase = "" if place.option is PurchaseOption.BEDROCK else f", {words.option(place)}"
    return f"  {quoted.plan.name} · {words.place_instances(place)}{purchase} in {place.az_id or place.region}"


def answer_lines(quoted: Quote) -> list[str]:
    """The total in a sentence."""
    if quoted.usd is None:
        return [f"No total: {quoted.no_price_reason}."]
    label = "Total to finish" if quoted.serving is None else "A month"
    lines = [f"{label}: {words.quoted_cost(quoted)}" + (", incomplete" if quoted.incomplete else "")]
    if quoted.incomplete:
        lines.append(missing_text(quoted))
    if quoted.commitment_usd is not None:
        lines.append(f"Cash that has to be committed: ${words.dollars(quoted.commitment_usd)}")
    if quoted.cash_after_credits_usd is not None:
        lines.append(f"Cash after credits: ${words.dollars(quoted.cash_after_credits_usd)}")
    if quoted.left_up_usd_per_hour and quoted.serving is None:
        least = "at least " if quoted.incomplete else ""
        lines.append(f"While nodes run {least}{quote_screen.running_text(quoted)}; {quote_screen.afterwards(quoted)}.")
    return lines


def safety(quoted: Quote) -> tuple[str, str]:
    """The policies that guard a launch, and those that are off."""
    on = "; ".join(f"{policy.name} {policy.value}" for policy in quoted.policies if policy.on)
    off = ", ".join(policy.name for policy in quoted.policies if not policy.on)
    return f"  on: {on or 'nothing'}", f"  off: {off or 'nothing'}"


def _serving(outlook: ServingOutlook, width: int) -> list[str]:
    lines = []
    million = outlook.usd_per_million_output_tokens
    if million is not None:
        lines.append(f"${words.dollars(million)} per million output tokens, all of the bill in it")
    if outlook.usd_per_million_tokens is not None:
        lines.append(f"${words.dollars(outlook.usd_per_million_tokens)} per million tokens, in and out")
    if outlook.utilisation is not None and outlook.idle_usd_per_month is not None:
        lines.append(f"{outlook.utilisation:.0%} utilization; ${words.dollars(outlook.idle_usd_per_month)} idle")
    if outlook.instances is not None:
        count = outlook.instances
        lines.append(f"{count.mean:.3g} instances on average, {count.least:.3g} to {count.most} over the day")
    if outlook.ttft_ms is not None and outlook.tpot_ms is not None:
        lines.append(
            f"first token after {outlook.ttft_ms:,.0f} ms, {outlook.tpot_ms:,.1f} ms a token, when they are full"
        )
    return [piece for line in lines for piece in fold(f"  {line}", width)]


def _bill(quoted: Quote, width: int, *, small: Decimal) -> list[str]:
    """The lines by group, each group with its subtotal.

    If `small` is not 0, lines below this amount become one line, and so do the lines without a price.
    """
    columns: list[Column[tuple[str, ...]]] = [
        Column("line", itemgetter(0), wraps=True),
        Column("quantity", itemgetter(1), "point"),
        Column("unit", itemgetter(2)),
        Column("$/unit", itemgetter(3), "right", yields=1),
        Column("$", itemgetter(4), "point"),
        Column("basis", itemgetter(5), yields=2),
    ]
    rows: list[tuple[str, ...]] = []
    ordered = sorted(quoted.components, key=lambda component: GROUPS.index(component.group))
    for group, members in groupby(ordered, key=lambda component: component.group):
        lines = list(members)
        total, last = _subtotal(lines), []
        for section_title, folded in (
            ("small lines", [line for line in lines if line.usd is not None and line.usd < small]),
            ("lines without a price", [line for line in lines if line.usd is None and small]),
        ):
            if len(folded) > 1:
                lines = [line for line in lines if line not in folded]
                last.append((f"  {len(folded)} {section_title}", "", "", "", _subtotal(folded), ""))
        if not lines and len(last) == 1:
            rows.append((f"{group}: {last[0][0].strip()}", "", "", "", total, ""))
        else:
            rows += [*(_row(line) for line in lines), *last, (group, "", "", "", total, "")]
    return render(columns, rows, width)


def _row(component: CostComponent) -> tuple[str, ...]:
    few = 0 < component.quantity < MIN_QUANTITY
    return (
        f"  {component.name}",
        f"{component.quantity:.2g}" if few else f"{component.quantity:,.2f}",
        component.unit,
        words.exact(component.unit_price_usd) if component.unit_price_usd is not None else "",
        words.cents(component.usd, "unpriced"),
        component.unpriced or (f"{component.basis.value}, {component.as_of}" if component.basis else ""),
    )


def _subtotal(lines: Sequence[CostComponent]) -> str:
    known = [line.usd for line in lines if line.usd is not None]
    return f"{sum(known, Decimal(0)):,.2f}" if known else "unpriced"


def _price(quoted: Quote, today: date, width: int, *, explained: bool) -> list[str]:
    if not isinstance(quoted.price, Price):
        return []
    price = quoted.price
    note = f"; {price.note}" if price.note and explained else ""
    source = price.source if explained else price.basis.value
    origin = f"{words.origin(source, price.basis.value, price.as_of)}, {words.age(price.as_of, today)}{note}"
    bedrock = quoted.plan.place.option is PurchaseOption.BEDROCK
    unit = "tokens" if bedrock else f"${words.exact(price.usd)} an instance-hour"
    return fold(f"  {unit}: {origin}", width)


def _available(quoted: Quote, width: int) -> list[str]:
    """The availability of the instances; capacity that is already bought counts as available."""
    if quoted.serving is not None:
        return []
    purchase, place = quoted.plan.request.purchase, quoted.plan.place
    text = AVAILABLE[quoted.availability]
    if bought_capacity(purchase, place.option):
        text = "it is bought already"
    elif quoted.availability is Availability.OFFERED and place.option is PurchaseOption.SPOT:
        text = "spot had spare capacity there on that day; it may have none now"
    return fold(f"  availability: {text}", width)


def _spot(quoted: Quote, width: int) -> list[str]:
    spot = quoted.spot
    if spot is None:
        return []
    every = spot.checkpoint_interval_s
    saves = "never saves" if every is None else f"saves every {duration_text(every)}"
    text = (
        f"  {words.interruptions(spot.interruptions_expected)}; {saves}; "
        f"{spot.overhead_fraction:.1%} more hours than without"
    )
    lines = fold(text, width)
    edge = spot.break_even_interruptions_per_hour
    if edge is not None:
        now = f"{spot.interruptions_per_hour:.2g}"
        text = (
            f"  spot stops paying at {edge:.2g} interruptions an hour"
            if edge
            else "  spot already costs more than the next option"
        )
        lines += fold(f"{text}; {now} are assumed", width)
    causes = quoted.range_causes
    if causes is not None and causes.stress is not None:
        lines += fold(f"  {STRESS}: ${words.dollars(causes.stress.usd)}", width)
    return lines


def gate_lines(quoted: Quote, priced: Priced, width: int) -> list[str]:
    """The gate's decision on a launch, and what of the plan prevents one whichever row it takes."""
    gate = quoted.gate
    if gate.allows_launch and priced.blocking:
        return fold(f"  gate: a launch is refused: {quote_screen.blocking_text(priced.blocking[0])}", width)
    if gate.allows_launch:
        return ["  gate: a launch is allowed"]
    fix = f" ({gate.hint})" if gate.hint else ""
    return fold(f"  gate: a launch is refused, exit {gate.exit_code}: {gate.reason}{fix}", width)
