"""The recommendation between GPU and Trainium: the action, the reasons, and the changes that would flip it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from enum import StrEnum
from typing import Any

from launcher.model.enums import CustomKernels
from launcher.model.instance_type import TrainingStack
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.workload import TrainingWorkload
from launcher.pricing import reasoning
from launcher.pricing.announced_ends import end_flips, until
from launcher.pricing.port import Port, weeks_text
from launcher.pricing.reasoning import Rule

HOURS_A_WEEK = 168.0


class Choice(StrEnum):
    """The recommended action."""

    GPU = "gpu"
    TRAINIUM = "trainium"
    GPU_WHILE_PORTING = "gpu-while-porting"
    MEASURE_FIRST = "measure-first"
    NONE = "none"


@record
class Verdict:
    """A choice in a sentence, the reasons for it, and the changes that would flip it. It decides nothing else."""

    choice: StrEnum
    text: str
    reasons: tuple[str, ...]
    flips: tuple[str, ...]


def recommend(
    request: PlanRequest,
    train: TrainingWorkload,
    port: Port,
    stack: TrainingStack | None,
    run_h: float,
    *,
    measured: bool = False,
) -> Verdict:
    """The verdict of a job that GPU and Trainium can both run at a known price.

    Args:
        request: the plan, for its deadline.
        train: the workload.
        port: the calculation of the port.
        stack: the training software of the Trainium candidate's chip, None if unknown.
        run_h: hours of one run on Trainium.
        measured: whether both sides' rates rest on the user's own measurements of such a job.
    """
    rules = tuple(_rules(request, train, port, run_h))
    hard = [rule for rule in rules if rule.hard]
    soft = tuple(rule for rule in rules if not rule.hard)
    money = _money(port)
    if hard:
        against = (*hard, *(rule for rule in soft if rule is not reasoning.MAINSTREAM))
        return Verdict(
            choice=Choice.GPU,
            text=f"Train on GPUs: {hard[0].reason}.",
            reasons=(*(rule.reason for rule in against), money),
            flips=tuple(rule.flip for rule in against),
        )
    total = port.paths[0].usd
    estimated = train.throughput_tokens_per_s is None and not measured
    close = reasoning.CLOSE if estimated else reasoning.CLOSE_WHEN_MEASURED
    against = tuple(rule for rule in soft if rule is not reasoning.MAINSTREAM)
    reasons = (money, *(rule.reason for rule in soft))
    flips = (*_price_flips(port), *(rule.flip for rule in against))
    if total > 0 and abs(port.saving_usd) / total < Decimal(repr(close)):
        if measured:
            text = f"Train on GPUs: both were measured, and {_difference(port)}: less than two runs of a job differ by."
            return Verdict(choice=Choice.GPU, text=text, reasons=reasons, flips=flips)
        text = (
            f"Too close to call: measure both first. {_difference(port)}, and the error of the estimates is as large."
        )
        return Verdict(choice=Choice.MEASURE_FIRST, text=text, reasons=(*reasons, *_caveat(stack)), flips=flips)
    if port.saving_usd <= 0:
        reasons = (money, *(rule.reason for rule in against))
        return Verdict(choice=Choice.GPU, text=f"Train on GPUs: {_why_not(port)}.", reasons=reasons, flips=flips)
    while_porting = port.best.name == Choice.GPU_WHILE_PORTING
    how = "Train on GPUs while porting, then on Trainium" if while_porting else "Port first, then train on Trainium"
    runs = f"{port.runs:,} run" + ("" if port.runs == 1 else "s")
    text = f"{how}: it saves ${port.saving_usd:,.0f} over {runs}, the port included."
    choice = Choice.GPU_WHILE_PORTING if while_porting else Choice.TRAINIUM
    flips = (*_price_flips(port), *(rule.flip for rule in soft), *(() if stack is None else (stack.way_out,)))
    return Verdict(choice=choice, text=text, reasons=(*reasons, *_caveat(stack)), flips=flips)


def _caveat(stack: TrainingStack | None) -> tuple[str, ...]:
    """The caveat about the software, independent of the calculation."""
    return () if stack is None else (stack.caveat,)


def ending(verdict: Verdict, chosen: Mapping[Any, Quote | None], more: Iterable[str] = ()) -> Verdict:
    """The verdict, with the date on which the chosen option is withdrawn; `more` adds changes that would flip it."""
    quoted = chosen.get(verdict.choice)
    ends = () if quoted is None else quoted.ends
    return replace(verdict, text=until(verdict.text, ends), flips=(*verdict.flips, *more, *end_flips(ends)))


def one_sided(choice: Choice, text: str, rules: tuple[Rule, ...] = ()) -> Verdict:
    """The verdict of a job that only one of GPU and Trainium can run at a known price, or neither."""
    return Verdict(
        choice=choice, text=text, reasons=tuple(rule.reason for rule in rules), flips=tuple(rule.flip for rule in rules)
    )


def _rules(request: PlanRequest, train: TrainingWorkload, port: Port, run_h: float) -> Iterator[Rule]:
    deadline_h = request.purchase.deadline_h
    if deadline_h is not None and deadline_h < port.weeks.mid * HOURS_A_WEEK + run_h:
        yield reasoning.DEADLINE
    if train.custom_kernels is CustomKernels.HEAVY and train.port_weeks is None:
        yield reasoning.HEAVY_KERNELS
    yield from (reasoning.TRAITS[trait] for trait in train.traits)
    if train.runs == 1:
        yield reasoning.ONE_OFF
    elif train.custom_kernels is CustomKernels.NONE and not train.traits:
        yield reasoning.MAINSTREAM


def _money(port: Port) -> str:
    saving = port.saving_per_run.mid
    effect = f"saves ${saving:,.2f} of the" if saving > 0 else f"costs ${-saving:,.2f} more than the"
    return (
        f"a run on Trainium {effect} ${port.gpu_run.mid:,.2f} on GPU; "
        f"the port takes {weeks_text(port.weeks.mid)} and ${port.usd:,.0f}, "
        f"its maintenance ${port.maintenance_usd_per_month:,.0f} a month"
    )


def _difference(port: Port) -> str:
    """The difference between the totals, in words."""
    side = "less" if port.saving_usd > 0 else "more"
    return f"Trainium would cost ${abs(port.saving_usd):,.0f} {side} over all runs"


def _why_not(port: Port) -> str:
    if port.saving_per_run.mid <= 0:
        return f"a run on Trainium costs ${port.trainium_run.mid:,.2f}, on GPU ${port.gpu_run.mid:,.2f}"
    if port.break_even_run is None:
        return (
            f"${port.saving_per_run.mid:,.2f} saved a run does not even pay for the maintenance of a second "
            "software stack"
        )
    return f"the port is paid back after {port.break_even_run:,} runs, and there are {port.runs:,}"


def _price_flips(port: Port) -> Iterator[str]:
    """The prices and run counts that would flip the verdict."""
    if not port.pays and port.break_even_run is not None:
        yield f"{port.break_even_run:,} runs or more"
    elif port.pays and port.break_even_run is not None and port.break_even_run > 1:
        yield f"fewer than {port.break_even_run:,} runs"
    other = port.usd / port.runs + port.maintenance_usd_per_month / Decimal(repr(port.runs_per_month))
    even = port.gpu_run.mid - other
    if even > 0:
        yield f"a run on Trainium at ${even:,.2f} against ${port.trainium_run.mid:,.2f} here: both would cost the same"
    else:
        yield f"a GPU run above ${other:,.2f}: below it, no Trainium price pays for the port and its maintenance"
