"""The `compare` command: one job on every instance type, and GPU against Trainium including the port."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.model.enums import PurchaseOption
from launcher.model.finding import Finding
from launcher.model.plan import Place
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.workload import TrainingWorkload
from launcher.planning.limits import lack
from launcher.pricing import reasoning
from launcher.pricing.candidate import Candidate
from launcher.pricing.compute import is_new_commitment
from launcher.pricing.own_cluster import OWN_CLUSTER
from launcher.pricing.pairs import (
    SIDES,
    Pair,
    capacity_reasons,
    guides_reason,
    may_never_start,
    option_name,
    other_options,
    side_of,
    stack_end,
    stale,
    without_on_demand,
)
from launcher.pricing.port import DAYS_PER_MONTH, Port, port
from launcher.pricing.priced import LACKING, NEURON, NVIDIA, Priced
from launcher.pricing.standing import COMPLETE, Standing
from launcher.pricing.totals import outcomes
from launcher.pricing.training import TrainingPriced
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.pricing.verdict import Choice, Terms, Verdict, ending, one_sided, recommend
from launcher.workflow.quote.opened import Opened, both_priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import load_request, price_request

NEAR = 0.25
"""The largest discount of a measurement, as a logarithm, at which the measurement decides: three node doublings."""

GPU_AND_TRAINIUM = dict(zip(SIDES, (NVIDIA, NEURON), strict=True))

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison


@record(slots=False)
class Comparison(Opened[Priced]):
    """A comparison of GPUs and Trainium: both sides under each purchase option, and the verdict.

    `despite_verdict` recommends a port to software whose support has ended, if it is cheaper. `any_option` has the
    candidates of the plan with only its purchase option open.
    """

    any_option: Priced

    despite_verdict: bool = False

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Both sides under each purchase option: candidates of the plan's own types and nodes before all others.

        Of Trainium, a chip whose training software is supported comes before one whose software is not.
        """
        sides: dict[str, dict[str, tuple[Priced, int]]] = {}
        for ended in (False, True):
            for priced in (self.pinned, self.any_option, self.priced):
                for rank, candidate in enumerate(priced.candidates, start=1):
                    family = priced.family(candidate)
                    if self._is_side(candidate, family) and self._has_ended(candidate) is ended:
                        sides.setdefault(option_name(candidate.place), {}).setdefault(family, (priced, rank))
        return tuple(_pair(name, found.get(NVIDIA), found.get(NEURON)) for name, found in sides.items())

    def _has_ended(self, candidate: Candidate) -> bool:
        """Whether the support of the training software that a candidate needs has ended."""
        chip = self.priced.catalog.instance_types[candidate.place.instance_type].chip
        stack = chip.training_stack if chip is not None else None
        end = None if stack is None else self.priced.catalog.announced_ends.get(f"stack/{stack.name}")
        return end is not None and end.ends <= self.priced.now.date()

    def _is_side(self, candidate: Candidate, family: str) -> bool:
        """Whether a candidate may stand for its family: possible, of a pinned type if any is, no new commitment."""
        if candidate.usd is None or candidate.refusals or family not in (NVIDIA, NEURON):
            return False
        if is_new_commitment(candidate.place, self.request) and not self.request.purchase.option:
            return False
        pinned = self._pinned_types.get(family) if self.request.target.instance_type is not None else None
        return not pinned or candidate.place.instance_type in pinned

    @cached_property
    def _pinned_types(self) -> dict[str, set[str]]:
        """The possible instance types of the plan as written that have a price, by family."""
        types: dict[str, set[str]] = {}
        for candidate in self.pinned.candidates:
            if candidate.usd is None or candidate.refusals:
                continue
            types.setdefault(self.pinned.family(candidate), set()).add(candidate.place.instance_type)
        return types

    @cached_property
    def decisive_pair(self) -> Pair | None:
        """The pair that decides: both sides, of the plan's options, launchable if one is, then the cheapest."""
        options = [option.value.replace("-", " ") for option in self.request.purchase.option or ()]
        whole = [pair for pair in self.pairs if pair.totals is not None]
        asked = [pair for pair in whole if any(pair.name.endswith(option) for option in options)]
        return min(asked or whole, key=_first, default=None)

    @cached_property
    def gpu(self) -> Quote | None:
        """The GPU side of the decision: the cheapest of its family where no option has both sides."""
        return self._apart.gpu if self.decisive_pair is None else self.decisive_pair.gpu

    @cached_property
    def trainium(self) -> Quote | None:
        """The Trainium side of the decision."""
        return self._apart.trainium if self.decisive_pair is None else self.decisive_pair.trainium

    @property
    def shortfalls(self) -> tuple[Finding, ...]:
        """What each side of the decision lacks for the job as planned: memory, time, work for all of its chips."""
        sides = [side for side in (self.gpu, self.trainium) if side is not None]
        return tuple(finding for side in sides for finding in side.findings if finding.code in LACKING)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the plan as written, and what the sides lack."""
        return (*self.pinned.findings, *self.shortfalls)

    @cached_property
    def _apart(self) -> Pair:
        """The cheapest of each family, whatever its purchase option."""
        return _pair("", self._best(NVIDIA), self._best(NEURON))

    @cached_property
    def port(self) -> Port | None:
        """The calculation of the port; None if no port is needed."""
        return self.port_of(self.decisive_pair or self._apart)

    def port_of(self, pair: Pair) -> Port | None:
        """The calculation of the port between the sides of a pair; None if a side is missing, or for hours."""
        train, totals = self.request.workload.train, pair.totals
        if train is None or not train.by_tokens or totals is None:
            return None
        return port(train, *totals, self.priced.now.date(), pair.outcomes)

    @cached_property
    def verdict(self) -> Verdict:
        """The recommendation; it expires when the chosen instance types are withdrawn."""
        chosen = {Choice.TRAINIUM: self.trainium, Choice.GPU: self.gpu, Choice.GPU_WHILE_PORTING: self.trainium}
        sides = [quote for quote in (self.gpu, self.trainium) if quote is not None]
        own_cluster = dict.fromkeys(
            finding.message for side in sides for finding in side.findings if finding.code == OWN_CLUSTER
        )
        return ending(self._verdict(), chosen, own_cluster)

    def _verdict(self) -> Verdict:
        train = self.request.workload.train
        if train is None:
            return one_sided(Choice.NONE, "There is no job to compare: the plan is a cluster only.")
        if not train.by_tokens:
            text = "Hours and rates do not apply to other instance types: give tokens_b and a model to compare them."
            if self.gpu is not None:
                return one_sided(Choice.GPU, text)
            return one_sided(Choice.TRAINIUM if self.trainium is not None else Choice.NONE, text)
        if self.port is not None and self.trainium is not None:
            chip = self.priced.catalog.instance_types[self.trainium.plan.place.instance_type].chip
            stack = chip.training_stack if chip is not None else None
            run_h = self.trainium.hours.mid
            measured = not self.unmeasured_types
            return recommend(self.request, train, self.port, stack, run_h, measured=measured, terms=self._terms(train))
        return self._one_side_verdict()

    @cached_property
    def _unavailable(self) -> str:
        """The side that has no instances on demand, which the plan allows, and no row that can be launched; or ""."""
        missing = without_on_demand(self.pairs)
        if PurchaseOption.ON_DEMAND not in (self.request.purchase.option or (PurchaseOption.ON_DEMAND,)):
            return ""
        return "" if missing and self._can_be_launched(GPU_AND_TRAINIUM[missing]) else missing

    def _can_be_launched(self, family: str) -> bool:
        """Whether a candidate of a family can be launched now."""
        return any(
            priced.family(candidate) == family and priced.standing(rank) is Standing.ALLOWED
            for priced in (self.pinned, self.any_option, self.priced)
            for rank, candidate in enumerate(priced.candidates, start=1)
            if self._is_side(candidate, family)
        )

    def _missing(self) -> tuple[str, str]:
        """The side that cannot be had and decides so, with the reason; "" and "" where both or neither can be had."""
        pair, calculated = self.decisive_pair, self.port
        cheaper = "" if calculated is None else side_of(calculated.chance)
        missing = without_on_demand(self.pairs)
        never = may_never_start(pair, cheaper)
        regions = ", ".join(self.request.target.region or ()) or "any region"
        if missing and self.request.purchase.option == (PurchaseOption.ON_DEMAND,):
            return missing, f"no {missing} instance that fits the job can be had on demand in {regions}"
        if never:
            return cheaper, f"{cheaper} is cheaper, but {never}"
        if missing and missing == cheaper and self._unavailable == missing:
            return missing, f"{missing}, the cheaper side, cannot be had on demand in {regions}, and no row of it now"
        return "", ""

    def _other_options(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the other purchase options say, the port over all runs included: what agrees, and what differs."""
        ports = ((pair, self.port_of(pair)) for pair in self.pairs)
        return other_options([(pair, found.chance) for pair, found in ports if found is not None], self.decisive_pair)

    def _terms(self, train: TrainingWorkload) -> Terms:
        pair, today = self.decisive_pair, self.priced.now.date()
        end = stack_end(self.trainium)
        months = train.runs / train.runs_per_month
        until = today + timedelta(days=min(months, 120.0) * DAYS_PER_MONTH)
        near = ""
        if end is not None and end.ends <= until and (end.ends > today or self.despite_verdict):
            sentence = end.sentence(today)
            near = f" {sentence[0].upper()}{sentence[1:]}."
        guides = guides_reason(pair) if pair is not None else ""
        where = "No purchase option has both sides" if pair is None else pair.place
        missing, why_missing = self._missing()
        same, differing = self._other_options()
        return Terms(
            where=where,
            missing=missing,
            why_missing=why_missing,
            unavailable=self._unavailable,
            stale=("" if pair is None else stale(pair, self.priced.context)) + near,
            end=end,
            today=today,
            despite_verdict=self.despite_verdict,
            reasons=(*capacity_reasons(self.pairs, pair), *((guides,) if guides else ()), *same),
            flips=differing,
        )

    @cached_property
    def unmeasured_types(self) -> tuple[str, ...]:
        """The types of the two sides without an own measurement that counts."""
        sides = [quote.plan.place for quote in (self.gpu, self.trainium) if quote is not None]
        return tuple(side.instance_type for side in sides if not self._is_measured(side))

    @cached_property
    def simulated_types(self) -> tuple[str, ...]:
        """Those that were measured in the sandbox, which says nothing about the instances."""
        if not isinstance(self.priced, TrainingPriced):
            return ()
        measured = self.priced.resolution.estimator.facts.measured
        names = {measurement.instance_type for measurement in measured if measurement.simulated}
        return tuple(name for name in self.unmeasured_types if name in names)

    def _is_measured(self, place: Place) -> bool:
        if not isinstance(self.priced, TrainingPriced):
            return False
        learned = self.priced.resolution.estimator.learn_rate(place.instance_type, place.nodes)
        return learned is not None and min(cell.discount for cell in learned.cells) <= NEAR

    @property
    def _without_trainium(self) -> str:
        """Why there is no candidate on Trainium."""
        train = self.priced.request.workload.train
        chips = [chip for chip in self.priced.catalog.accelerators.values() if chip.family == "neuron" and chip.trains]
        lacking = [] if train is None else [missing for chip in chips if (missing := lack(chip, train)) is not None]
        if lacking and len(lacking) == len(chips):
            return f"Trainium {lacking[0].message}"
        return "no Trainium candidate that fits the job has a price here"

    def _one_side_verdict(self) -> Verdict:
        if self.gpu is not None:
            return one_sided(Choice.GPU, f"Train on GPUs: {self._without_trainium}.")
        if self.trainium is not None:
            text = "Train on Trainium: no GPU candidate that fits the job has a price here."
            return one_sided(Choice.TRAINIUM, text, (reasoning.CAPACITY,))
        return one_sided(Choice.NONE, "No candidate has a price: there is nothing to compare.")

    def outside(self, family: str) -> Quote | None:
        """The cheapest of a family, launchable or not, if it is cheaper than that of the plan as written; else None."""
        totals: dict[int, Decimal] = {}
        mine = self.pinned.cheapest_of(family)
        for number, candidate in enumerate(self.priced.candidates, start=1):
            tied = is_new_commitment(candidate.place, self.request)
            if self.priced.family(candidate) == family and candidate.usd is not None:
                totals |= {} if candidate.refusals or tied else {number: candidate.usd}
        if mine is None or not totals:
            return None
        rank = min(totals, key=lambda number: totals[number])
        pinned, other = self.pinned.quote(mine), self.priced.quote(rank)
        cheaper = pinned.usd is not None and other.usd is not None and other.usd.mid < pinned.usd.mid
        return other if cheaper else None

    def _best(self, family: str) -> tuple[Priced, int] | None:
        for priced in (self.pinned, self.priced):
            rank = priced.cheapest_of(family)
            if rank is not None:
                return priced, rank
        return None


def compare(path: Path, now: datetime, options: PriceOptions) -> "Comparison | ServingComparison":
    """The comparison of a plan file: its job on every instance type that fits, whatever type and option it pins.

    A pinned region stays pinned. A pinned type selects its accelerator family.

    Raises:
        ImpossibleError: no candidate is left; the error has every finding.
    """
    request, catalog = load_request(path, now, options)
    if request.workload.serve is not None:
        # Loaded for serving alone: a plan for training pays nothing for it.
        from launcher.workflow.quote.compare_serving import compare_serving

        return compare_serving(path, request, catalog, now, options)

    def price_plan(plan: PlanRequest) -> Priced:
        return price_request(path, plan, catalog, now, options)

    priced, pinned = both_priced(request, open_choices(request), price_plan)
    any_option, _ = both_priced(
        request, _open_option(request), lambda plan: pinned if plan == request else price_plan(plan)
    )
    return Comparison(
        priced=priced,
        pinned=pinned,
        request=request,
        any_option=any_option,
        despite_verdict=options.despite_verdict,
    )


def _pair(name: str, gpu: tuple[Priced, int] | None, trainium: tuple[Priced, int] | None) -> Pair:
    """A pair from the ranks of its sides."""
    sides = [side for side in (gpu, trainium) if side is not None]
    return Pair(
        name=name,
        gpu=None if gpu is None else gpu[0].quote(gpu[1]),
        trainium=None if trainium is None else trainium[0].quote(trainium[1]),
        allowed=all(priced.standing(rank) in COMPLETE for priced, rank in sides),
        to_buy=any(priced.standing(rank) is Standing.UNNAMED for priced, rank in sides),
        outcomes=(_outcomes(gpu), _outcomes(trainium)),
    )


def _outcomes(side: tuple[Priced, int] | None) -> tuple[float, ...]:
    """Equally likely totals of a side."""
    candidate = None if side is None else side[0].candidates[side[1] - 1]
    return outcomes(candidate) if isinstance(candidate, TrainingCandidate) else ()


def _first(pair: Pair) -> tuple[bool, Decimal]:
    """The sort key of pairs with both sides."""
    return not pair.allowed, min((usd.mid for usd in pair.totals or ()), default=Decimal(0))


def open_choices(request: PlanRequest) -> PlanRequest:
    """The request with type, count, zone and purchase option open; a job given in hours keeps its type.

    Settings of one type are left out: a measured throughput, a reservation, an owned commitment.
    """
    train = request.workload.train
    opened = _open_option(request)
    target = replace(opened.target, cluster=None, fallback_types=())
    if train is None or train.by_tokens:
        target = replace(target, instance_type=None, nodes=None, az_id=None)
    workload = request.workload
    if train is not None and train.throughput_tokens_per_s is not None:
        workload = replace(workload, train=replace(train, throughput_tokens_per_s=None))
    return replace(opened, target=target, workload=workload)


def _open_option(request: PlanRequest) -> PlanRequest:
    """The request with its purchase option open, and without what was bought under it."""
    purchase = replace(
        request.purchase, option=None, plan_kind=None, term_years=None, reservation=None, training_plan=None
    )
    return replace(request, purchase=purchase)
