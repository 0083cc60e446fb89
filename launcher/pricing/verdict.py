"""The recommendation between GPU and Trainium: the action, the reasons, and the changes that would flip it."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Any

from launcher.model.announced_end import AnnouncedEnd
from launcher.model.enums import CustomKernels
from launcher.model.instance_type import TrainingStack
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.units import number_of
from launcher.model.workload import TrainingWorkload
from launcher.pricing import reasoning
from launcher.pricing.announced_ends import end_flips, until
from launcher.pricing.pairs import CLOSE, cases, is_close
from launcher.pricing.port import Port, weeks_text
from launcher.pricing.reasoning import Rule

HOURS_A_WEEK, HALF = 168.0, 0.5
BEYOND = 1.01
"""How far a change goes beyond the point at which the verdict turns: the outcomes are a few hundred values."""


class Choice(StrEnum):
    """The recommended action."""

    GPU = "gpu"
    TRAINIUM = "trainium"
    GPU_WHILE_PORTING = "gpu-while-porting"
    MEASURE_FIRST = "measure-first"
    NONE = "none"


class ServingChoice(StrEnum):
    """The recommended action for an endpoint."""

    BEDROCK = "bedrock"
    NEURON = "neuron"
    GPU = "gpu"
    MEASURE_FIRST = "measure-first"
    NONE = "none"


@record(described=False)
class Verdict:
    """A choice in a sentence, the reasons for it, and the changes that would flip it. It decides nothing else."""

    choice: Choice | ServingChoice
    text: str
    reasons: tuple[str, ...]
    flips: tuple[str, ...]


@record
class Terms:
    """What the comparison rests on, beside the port."""

    # Begins a sentence with the purchase option and the region.
    where: str = ""
    # The side (GPU, Trainium) that cannot be had, and the reason: it decides for the other side, unless another rule
    # decides for GPUs.
    missing: str = ""
    why_missing: str = ""
    # The side that would be missing if it were the cheaper one.
    unavailable: str = ""
    # A sentence on prices that a launch would refuse.
    stale: str = ""
    # The announced end of the software that Trainium needs.
    end: AnnouncedEnd | None = None
    today: date | None = None
    # Recommends a port to it after its end.
    despite_verdict: bool = False
    # Further ones: capacity, the guides' claims, the other options.
    reasons: tuple[str, ...] = ()
    flips: tuple[str, ...] = ()

    @property
    def past_end(self) -> AnnouncedEnd | None:
        """The end that has passed, unless the user decides otherwise."""
        passed = self.end is not None and self.today is not None and self.end.ends <= self.today
        return self.end if passed and not self.despite_verdict else None


def recommend(
    request: PlanRequest,
    train: TrainingWorkload,
    port: Port,
    stack: TrainingStack | None,
    run_h: float,
    *,
    measured: bool = False,
    terms: Terms | None = None,
) -> Verdict:
    """The verdict of a job that GPU and Trainium can both run at a known price.

    Args:
        request: the plan, for its deadline.
        train: the workload.
        port: the calculation of the port.
        stack: the training software of the Trainium candidate's chip, None if unknown.
        run_h: hours of one run on Trainium.
        measured: whether both sides' rates rest on the user's own measurements of such a job.
        terms: what the comparison rests on.
    """
    terms = terms or Terms()
    rules = tuple(_rules(request, train, port, run_h))
    hard, soft = [rule for rule in rules if rule.hard], [rule for rule in rules if not rule.hard]
    against = [rule for rule in soft if rule is not reasoning.MAINSTREAM]
    cost = _money(port)
    if hard or terms.past_end is not None:
        ended = () if terms.past_end is None else (f"{terms.past_end.what} ended on {terms.past_end.ends}",)
        why = (*(rule.reason for rule in hard), *ended)
        return Verdict(
            choice=Choice.GPU,
            text=f"Train on GPUs: {why[0]}.{_although(port, terms) if not hard else ''}{terms.stale}",
            reasons=(*why, *(rule.reason for rule in against), cost, *terms.reasons),
            flips=(_needed_changes(port, hard, terms), *terms.flips),
        )
    chance = port.chance
    reasons = (cost, *(rule.reason for rule in soft), *terms.reasons)
    flips = (*_price_flips(port, terms.unavailable), *terms.flips)
    if terms.missing:
        return _verdict_by_availability(terms, reasons, flips)
    if is_close(chance):
        if measured:
            text = f"Train on GPUs: both were measured, and {_difference(port)}: {_likely(chance)}."
            return Verdict(choice=Choice.GPU, text=text + terms.stale, reasons=reasons, flips=flips)
        text = f"Too close to call: measure both first. {_at(terms)}{_difference(port)} ({_likely(chance)})."
        return Verdict(
            choice=Choice.MEASURE_FIRST, text=text + terms.stale, reasons=(*reasons, *_caveat(stack)), flips=flips
        )
    if chance < CLOSE[0] or port.saving_usd <= 0:
        reasons = (cost, *(rule.reason for rule in against), *terms.reasons)
        text = f"Train on GPUs. {_at(terms)}{_why_not(port)} ({_likely(chance)}).{terms.stale}"
        return Verdict(choice=Choice.GPU, text=text, reasons=reasons, flips=flips)
    while_porting = port.best.name == Choice.GPU_WHILE_PORTING
    order = "Train on GPUs while porting, then on Trainium" if while_porting else "Port first, then train on Trainium"
    saves = f"it saves ${port.saving_usd:,.0f} over {number_of(port.runs, 'run')}, the port included"
    text = f"{order}. {_at(terms)}{saves} ({_likely(chance)}).{terms.stale}"
    choice = Choice.GPU_WHILE_PORTING if while_porting else Choice.TRAINIUM
    flips = (*_price_flips(port), *(rule.flip for rule in soft if rule.flip), *terms.flips)
    return Verdict(choice=choice, text=text, reasons=(*reasons, *_caveat(stack)), flips=flips)


def _needed_changes(port: Port, hard: Sequence[Rule], terms: Terms) -> str:
    """All that must change for Trainium, where rules or the end of its software decide against it."""
    cheaper = [next(_price_flips(port))] if port.chance < CLOSE[0] else []
    despite = [] if terms.past_end is None else ["accepting software without support (compare --despite-verdict)"]
    return ", and ".join([*cheaper, *(rule.flip for rule in hard), *despite])


def _verdict_by_availability(terms: Terms, reasons: tuple[str, ...], flips: tuple[str, ...]) -> Verdict:
    """The verdict for the side that can be had."""
    on_gpu = terms.missing != "GPU"
    choice, name = (Choice.GPU, "GPUs") if on_gpu else (Choice.TRAINIUM, "Trainium")
    capacity = reasoning.TRAINIUM_CAPACITY if on_gpu else reasoning.CAPACITY
    text = f"Train on {name}: {terms.why_missing}."
    return Verdict(choice=choice, text=text, reasons=(terms.why_missing, *reasons), flips=(capacity.flip, *flips))


def _although(port: Port, terms: Terms) -> str:
    """What the prices say beside the end of the software."""
    usd = f"${abs(port.saving_per_run.mid):,.0f}"
    text = (
        f"Trainium would cost {usd} more a run" if port.saving_per_run.mid <= 0 else f"Trainium would save {usd} a run"
    )
    return f" {_at(terms)}{text} ({_likely(port.chance)}, the port included)."


def _at(terms: Terms) -> str:
    """The option and region with which a sentence goes on."""
    return f"{terms.where}: " if terms.where else ""


def _likely(chance: float) -> str:
    """The chance that Trainium, the port included, is cheaper; in words."""
    return f"{'Trainium' if chance > HALF else 'GPU'} cheaper {cases(max(chance, 1 - chance))}"


def _caveat(stack: TrainingStack | None) -> tuple[str, ...]:
    """The caveat about the software, and what ends it: a reason and no flip, because the calculation stays."""
    return () if stack is None else (f"{stack.caveat}; until {stack.remedy}",)


def ending(verdict: Verdict, chosen: Mapping[Any, Quote | None], reasons: Iterable[str] = ()) -> Verdict:
    """The verdict, with further reasons and the dates on which the chosen option is withdrawn."""
    quoted = chosen.get(verdict.choice)
    if quoted is None:
        return replace(verdict, reasons=(*verdict.reasons, *reasons))
    later = end_flips(quoted.ends, quoted.as_of.date(), chips_only=isinstance(verdict.choice, Choice))
    return replace(
        verdict,
        text=until(verdict.text, quoted.ends),
        reasons=(*verdict.reasons, *reasons),
        flips=(*verdict.flips, *later),
    )


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
        return f"Trainium costs ${-port.saving_per_run.mid:,.0f} more a run"
    if port.break_even_run is None:
        return (
            f"${port.saving_per_run.mid:,.2f} saved a run does not even pay for the maintenance of a second "
            "software stack"
        )
    return f"the port is paid back after {number_of(port.break_even_run, 'run')}, and the plan has {port.runs:,}"


def _close_flips(port: Port, unavailable: str) -> Iterator[str]:
    """The run counts and prices at which the comparison is no longer too close to call."""
    low, high = CLOSE
    gpus, trainium = (
        f"then {words}, if {pronoun} can be had" if unavailable == side else f"then {words}"
        for side, words, pronoun in (("GPU", "GPUs", "they"), ("Trainium", "Trainium", "it"))
    )
    most, least = port.runs_at(high), port.runs_at(low)
    if most is not None and most > port.runs:
        yield f"{number_of(math.ceil(most * BEYOND), 'run')} or more: {trainium}"
    if least is not None and 1 <= least / BEYOND < port.runs:
        yield f"{number_of(math.floor(least / BEYOND), 'run')} or fewer: {gpus}"
    usd = float(port.trainium_run.mid)
    cheap, dear = port.share_at(high) / BEYOND * usd, port.share_at(low) * BEYOND * usd
    if cheap > 0:
        yield f"a run on Trainium at ${cheap:,.0f} or less (${usd:,.0f} here): {trainium}"
    if dear > 0:
        yield f"a run on Trainium at ${dear:,.0f} or more (${usd:,.0f} here): {gpus}"


def _price_flips(port: Port, unavailable: str = "") -> Iterator[str]:
    """The prices and run counts that would flip the verdict."""
    if is_close(port.chance):
        yield from _close_flips(port, unavailable)
        return
    if not port.pays and port.break_even_run is not None:
        yield f"{number_of(port.break_even_run, 'run')} or more"
    elif port.pays and port.break_even_run is not None and port.break_even_run > 1:
        yield f"fewer than {number_of(port.break_even_run, 'run')}"
    other = port.usd / port.runs + port.maintenance_usd_per_month / Decimal(repr(port.runs_per_month))
    even = port.gpu_run.mid - other
    if even > 0:
        end = f"above ${even:,.0f}" if port.trainium_run.mid <= even else f"at ${even:,.0f} or less"
        yield f"a run on Trainium {end} (${port.trainium_run.mid:,.0f} here)"
    else:
        yield f"a GPU run of ${port.trainium_run.mid + other:,.0f} (${port.gpu_run.mid:,.0f} here)"
