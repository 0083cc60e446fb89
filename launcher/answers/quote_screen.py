"""The first screen of `slipway quote`: the total, its limits, the gate's decision, the bill."""

import shlex
from collections.abc import Container, Iterator
from decimal import ROUND_CEILING, Decimal
from itertools import groupby

from launcher.answers import ranges, words
from launcher.answers.lines import finding_line, fold
from launcher.model.budget_stop import spending_limit, stop_text
from launcher.model.enums import PREPAID, Basis, CheckpointMode, Level, PurchaseOption
from launcher.model.finding import Finding
from launcher.model.money import CostComponent, Price, sum_usd
from launcher.model.overhead import SHARE_CODE
from launcher.model.quote import Quote
from launcher.model.serving import ServingOutlook
from launcher.model.target import Runs
from launcher.model.units import HOUR_S, duration_text, number_of
from launcher.planning.checks import NOT_OFFERED
from launcher.planning.job_command import WASTE
from launcher.planning.nat import AUTO_CODE, OWN_NAT_CODE
from launcher.planning.optimizers import TIGHT
from launcher.planning.own_prices import SEVERAL_SERVICES
from launcher.pricing.priced import Priced
from launcher.pricing.refusals import MAY_BE_LATE
from launcher.pricing.standing import Standing
from launcher.pricing.stop_findings import LIMIT_NEEDED, STOPPED_BY_QUOTA
from launcher.pricing.trust import UNLISTED
from launcher.targets.registry import target_of
from launcher.workflow.quote.commands import command, command_for, refresh_command, spike_command
from launcher.workflow.quote.fallback import FALLBACK_CODE
from launcher.workflow.quote.trainer import REFUSED

GROUPS = ("compute", "storage", "network", "other")
NAMED, MIN_NAMED = 1, Decimal("0.1")
"""Lines of a group that are named, and the share of the group from which one is."""
LABEL, VALUE = 15, 9
"""Columns of a fact's label and value."""
DECISIVE = (
    NOT_OFFERED,
    UNLISTED,
    "compiler-memory",
    TIGHT,
    *WASTE,
    MAY_BE_LATE,
    STOPPED_BY_QUOTA,
    LIMIT_NEEDED,
    "far-published-run",
    "int4-unmeasured",
    "announced-end",
    "zero-price",
    SEVERAL_SERVICES,
    "other-weights",
    "no-checkpoints-to-retry-from",
    "ttl-too-short",
    "time-limit-too-short",
    "stop-exempt",
    "stop-below-estimate",
    "stop-within-estimate",
    "trainer-cannot-resume",
)
"""Warnings that can change the decision, beside what the gate says; first those of a start that fails."""
NAT_CODES = (AUTO_CODE, OWN_NAT_CODE)
SHOWN = (SHARE_CODE, FALLBACK_CODE, *NAT_CODES)
"""Notes that have a line of their own."""
MAX_GRAVE = 2


def page(quoted: Quote, rank: int, width: int, priced: Priced) -> list[str]:
    """The screen, at most about 16 lines of 80 columns."""
    lines = ["", *fold(f"  {title(quoted, priced.short_id(rank))}", width), ""]
    lines += fact_lines(quoted, priced, width)
    lines += ["", *_bill(quoted, width), *_notes(quoted, priced, width)]
    return [*lines, f"  next: {_next(quoted, rank, priced)}"]


def title(quoted: Quote, short_id: str) -> str:
    """The quoted candidate in one line."""
    place = quoted.plan.place
    purchase = () if place.option is PurchaseOption.BEDROCK else (words.option(place),)
    parts = (words.place_instances(place), *purchase, place.az_id or place.region, short_id)
    return " · ".join((quoted.plan.name, *parts))


def fact_lines(quoted: Quote, priced: Priced, width: int, labels: Container[str] | None = None) -> list[str]:
    """The facts, or those with some labels: the label and the value in columns, the explanation wrapped beside them."""
    chosen = (fact for fact in facts(quoted, priced) if labels is None or fact[0] in labels)
    return [line for fact in chosen for line in _fact(*fact, width)]


def facts(quoted: Quote, priced: Priced) -> Iterator[tuple[str, str, str]]:
    """The label, the value and the explanation of each fact, in the order of the screen."""
    usd = quoted.usd
    if usd is None:
        yield "Total", "unpriced", quoted.no_price_reason or ""
    else:
        label = "Total" if quoted.serving is None else "A month"
        yield label, words.total(quoted), "; ".join(part for part in _total(quoted) if part)
    yield from _work(quoted) if quoted.serving is None else _traffic(quoted, quoted.serving)
    yield from _limits(quoted)
    if priced.request.workload.train is not None:
        yield "Node lost", "", _node_lost(quoted)
    yield "Launch" if quoted.serving is None else "Deployment", *_launch(quoted, priced)


def _work(quoted: Quote) -> Iterator[tuple[str, str, str]]:
    hours, step = quoted.hours, quoted.hours_to_first_step
    first = "" if step is None else f"; first step after {duration_text(step * HOUR_S)}"
    span = f"{words.hours(hours.low)} to {words.hours(hours.high)} h"
    yield "Finished in", f"{words.hours(hours.mid)} h", f"{span}{first}"
    if quoted.usd_per_hour is not None:
        yield "While nodes run", running_text(quoted), afterwards(quoted)


def _traffic(quoted: Quote, outlook: ServingOutlook) -> Iterator[tuple[str, str, str]]:
    if (million := outlook.usd_per_million_output_tokens) is not None:
        yield "A million", f"{words.usd(million)}", "output tokens, with all of the bill"
    elif (million := outlook.usd_per_million_tokens) is not None:
        yield "A million", f"{words.usd(million)}", "tokens, in and out"
    if outlook.utilisation is not None and outlook.idle_usd_per_month is not None:
        yield "Used", f"{outlook.utilisation:.0%}", f"{words.usd(outlook.idle_usd_per_month)} a month is idle"
    if outlook.instances is not None:
        count = outlook.instances
        yield "Instances", f"{count.mean:.3g}", f"on average; {count.least:.3g} to {count.most} over the day"
    if outlook.ttft_ms is not None and outlook.tpot_ms is not None:
        yield "First token", f"{outlook.ttft_ms:,.0f} ms", f"then {outlook.tpot_ms:,.1f} ms a token, when they are full"
    if quoted.usd_per_hour is not None and _is_deployed(quoted):
        name, rate = shlex.quote(quoted.plan.name), quoted.usd_per_hour
        if quoted.plan.place.option in PREPAID and quoted.left_up_usd_per_hour is not None:
            name, rate = f"{name}; the plan's instances are prepaid", quoted.left_up_usd_per_hour
        yield "While it is up", f"{words.usd(rate)}/h", f"until slipway down {name}"


def _total(quoted: Quote) -> Iterator[str]:
    if quoted.usd is not None:
        certain = quoted.usd.low == quoted.usd.high
        ends = ranges.ends(quoted.usd) if quoted.serving is None else f"{words.usd_bounds(quoted.usd)} by the estimate"
        yield "" if certain else ends
        yield ranges.average(quoted.usd)
    if quoted.commitment_usd is not None:
        yield f"a commitment of {words.usd(quoted.commitment_usd)}"
    if quoted.cash_after_credits_usd is not None:
        yield f"{words.usd(quoted.cash_after_credits_usd)} in cash after credits"


def running_text(quoted: Quote) -> str:
    """What an hour costs while the nodes run."""
    return f"${words.dollars(quoted.running_usd_per_hour or quoted.usd_per_hour)}/h"


def afterwards(quoted: Quote) -> str:
    """What stays billed after the job."""
    left, name = quoted.left_up_usd_per_hour, shlex.quote(quoted.plan.name)
    if quoted.plan.place.option in PREPAID:
        return "the whole term is paid"
    if left is None:
        return f"the nodes stay until slipway down {name}"
    if not left:
        own = quoted.plan.request.target.cluster is None and quoted.plan.request.target.ssh_host is None
        return "nothing stays billed after the job" if own else "the cluster stays as it was"
    per_job = target_of(quoted.plan.place.target).per_job
    when = "after the job" if per_job else "after the idle stop"
    stays = left == quoted.running_usd_per_hour
    when = "after the job the nodes stay:" if stays else when
    return f"{when} {words.usd(left)}/h until slipway down {name}"


def _limits(quoted: Quote) -> Iterator[tuple[str, str, str]]:
    budget, usd = quoted.plan.request.budget, quoted.usd
    if budget.stop_at_usd is not None:
        text = stop_text(quoted.plan, budget.stop_at_usd, quoted.usd_per_hour)
        yield "Limit", f"{words.usd(budget.stop_at_usd)}", text
    elif usd is not None and quoted.serving is None:
        limit = f"{_round_up(usd.high):,f}"
        yield "Limit", "none", f"budget.stop_at_usd: {limit.replace(',', '')} would stop it at ${limit}"
    allowed = spending_limit(budget, quoted.max_usd)
    if allowed is not None:
        allowed_usd, name = allowed
        over = usd is not None and usd.high > allowed_usd
        text = "a launch is refused where 1 run in 10 costs more"
        if allowed_usd != budget.max_usd:
            # The plan does not name the command's limit.
            text = f"{text} than {name}"
        yield "Budget", f"{words.usd(allowed_usd)}", f"exceeded: {text}" if over else text


def _round_up(usd: Decimal) -> Decimal:
    """An amount rounded up to two digits.

    >>> _round_up(Decimal("846.2")), _round_up(Decimal("7.3"))
    (Decimal('850'), Decimal('8'))
    """
    step = Decimal(10) ** max(0, usd.adjusted() - 1)
    return (usd / step).to_integral_value(rounding=ROUND_CEILING) * step


def _node_lost(quoted: Quote) -> str:
    saves, every = quoted.plan.request.checkpoint, quoted.checkpoint_interval_s
    if saves.mode is CheckpointMode.NONE:
        return "starts again at step 0: checkpoint.mode is none"
    if saves.own_uri is not None:
        return "resumes from the trainer's own checkpoints"
    age = "" if every is None else f" at most {duration_text(every)} old"
    losses = quoted.spot.interruptions_expected if quoted.spot is not None else None
    expected = "" if losses is None else f"; {words.interruptions(losses)}"
    return f"resumes from a checkpoint{age}{expected}"


def _launch(quoted: Quote, priced: Priced) -> tuple[str, str]:
    gate, price = quoted.gate, quoted.price
    if quoted.plan.place.option is PurchaseOption.BEDROCK:
        return "none", "Bedrock is called, not deployed"
    if quoted.serving is not None and not _is_deployed(quoted):
        return "by hand", "into a cluster that exists: slipway render FILE -o DIR writes the manifests for kubectl"
    if not gate.allows_launch:
        return "refused", f"{gate.reason}{f' ({gate.hint})' if gate.hint else ''}"
    if priced.blocking:
        return "refused", blocking_text(priced.blocking[0])
    dated = words.basis_and_day(price) if isinstance(price, Price) else ""
    lasts = quoted.expires_at is not None and quoted.expires_at > priced.now
    until = f"good until {quoted.expires_at:%Y-%m-%d}" if lasts else ""
    verdict = "" if quoted.serving is None else "the verdict of the comparison comes first"
    return "allowed", "; ".join(part for part in (dated, until, verdict) if part)


def blocking_text(finding: Finding) -> str:
    """What of the plan prevents a launch, and the fix."""
    return f"{finding.message.removesuffix(REFUSED)}{f' ({finding.hint})' if finding.hint else ''}"


def _is_deployed(quoted: Quote) -> bool:
    """Whether Slipway deploys an endpoint for the quote: Bedrock is called, and pods are applied by hand."""
    place = quoted.plan.place
    return place.option is not PurchaseOption.BEDROCK and Runs.SERVING in target_of(place.target).deployed


def _fact(label: str, value: str, text: str, width: int) -> list[str]:
    head = f"    {label:<{LABEL}}  {value:<{VALUE}}" if value else f"    {label:<{LABEL}}  "
    room = max(20, width - len(head) - 2) if value else max(20, width - len(head))
    first, *rest = fold(text, room) if text else [""]
    between = "  " if value else ""
    return [f"{head}{between}{first}".rstrip(), *(f"{' ' * len(head + between)}{line}" for line in rest)]


def _bill(quoted: Quote, width: int) -> list[str]:
    """The subtotal of each group with its largest lines."""
    ordered = sorted(quoted.components, key=lambda component: GROUPS.index(component.group))
    groups = [(name, list(members)) for name, members in groupby(ordered, key=lambda component: component.group)]
    totals = {name: words.cents(_sum(lines), "unpriced") for name, lines in groups}
    room = max(map(len, totals.values()), default=0)
    lines = []
    for name, members in groups:
        head = f"    {name:<8} {totals[name]:>{room}}   "
        first, *rest = fold("; ".join(_parts(quoted, name, members)), max(20, width - len(head)))
        lines += [f"{head}{first}".rstrip(), *(f"{' ' * len(head)}{line}" for line in rest)]
    return lines


def _sum(lines: list[CostComponent]) -> Decimal | None:
    known = [line.usd for line in lines if line.usd is not None]
    return sum(known, Decimal(0)) if known else None


def _parts(quoted: Quote, group: str, lines: list[CostComponent]) -> Iterator[str]:
    whole = _sum(lines) or Decimal(0)
    priced = sorted((line for line in lines if line.usd is not None), key=lambda line: -(line.usd or 0))
    named = [line for line in priced[:NAMED] if (line.usd or 0) >= whole * MIN_NAMED]
    if group == "compute" and priced:
        named = [line for line in lines[1:] if line.usd]
        yield _hourly(quoted, lines[0])
    yield from (f"{line.name.removesuffix(' of the nodes')} {words.cents(line.usd)}" for line in named)
    rest = len(lines) - len(named) - (group == "compute" and bool(priced))
    if rest:
        yield number_of(rest, "line") if not named else number_of(rest, "more line")


def _hourly(quoted: Quote, line: CostComponent) -> str:
    """The first compute line as hours times the hourly rate of all nodes."""
    rate, nodes = quoted.usd_per_hour, quoted.plan.place.nodes
    if rate is None or line.unit_price_usd is None or quoted.serving is not None:
        return f"{line.name} {words.cents(line.usd)}".strip()
    return f"{line.quantity / nodes:,.2f} h × {words.usd(rate)}"


def _notes(quoted: Quote, priced: Priced, width: int) -> list[str]:
    """Why the range is wide, then the warnings that concern the decision; the others are counted."""
    types = "; ".join(found.message for found in quoted.findings if found.code == FALLBACK_CODE)
    notes = [f"EC2 may choose another type: {types}"] if types else []
    notes += [*_overhead(quoted), *(f"nat: {found.message}" for found in quoted.findings if found.code in NAT_CODES)]
    if why := "; ".join(ranges.causes(quoted.range_causes, spike_command(priced, quoted))):
        notes.append(f"range {why}")
    counted = []
    if quoted.derived_lines:
        derived_usd = sum_usd(line.usd for line in quoted.components if line.basis is Basis.DERIVED)
        sign = "~: " if quoted.is_derived else ""
        prices = f"{number_of(quoted.derived_lines, 'price')} derived from other regions or rates"
        counted.append(f"{sign}{prices}, ${words.dollars(derived_usd)} of the total")
    others = [
        f for f in quoted.findings if f.level is not Level.ERROR and f not in priced.blocking and f.code not in SHOWN
    ]
    decisive = [f for f in others if f.code in DECISIVE and without_asking(f)]
    grave = sorted(decisive, key=lambda finding: DECISIVE.index(finding.code))[:MAX_GRAVE]
    notes += [finding_line(finding) for finding in grave]
    if more := len(others) - len(grave):
        counted.append(number_of(more, "note"))
    if counted:
        notes.append(f"{'; '.join(counted)}: --explain")
    return [piece for note in notes for piece in fold(f"  {note}", width)]


def without_asking(finding: Finding) -> bool:
    """Whether a screen shows a finding without an option: each warning, and of the others what is paid for nothing."""
    return finding.level is not Level.INFO or finding.code in WASTE


def _overhead(quoted: Quote) -> Iterator[str]:
    """The part of the total that is not the work, and the way with a lower one."""
    overhead = quoted.overhead
    if overhead is not None:
        hints = (finding.hint for finding in quoted.findings if finding.code == SHARE_CODE and finding.hint)
        yield "; ".join((overhead.text, *hints))


def _next(quoted: Quote, rank: int, priced: Priced) -> str:
    if quoted.plan.place.option is PurchaseOption.BEDROCK:
        return command(priced, "compare")
    if priced.standing(rank) in (Standing.OLD_PRICE, Standing.UNPRICED):
        return refresh_command(priced)
    if priced.standing(rank) is Standing.UNNAMED and not priced.blocking:
        return command(priced, "capacity" if quoted.serving is None else "compare")
    if not quoted.gate.allows_launch and len(priced.candidates) > 1:
        return command(priced, "plan")
    if priced.blocking or not quoted.gate.allows_launch:
        return command_for(priced, "quote", rank, "--explain")
    return command(priced, "compare") if quoted.serving is not None else command_for(priced, "launch", rank)
