"""The `compare` command: one job on every instance type, and GPU against Trainium including the port."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding
from launcher.model.plan import Place
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.pricing import reasoning
from launcher.pricing.own_cluster import OWN_CLUSTER
from launcher.pricing.port import Port, port
from launcher.pricing.priced import NEURON, NVIDIA, Priced
from launcher.pricing.training import TrainingPriced
from launcher.pricing.verdict import Choice, Verdict, ending, one_sided, recommend
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import load_request, price_request

NEAR = 0.25
"""The largest discount of a measurement, as a logarithm, at which the measurement decides: three node doublings."""

if TYPE_CHECKING:
    from launcher.workflow.quote.compare_serving import ServingComparison


Candidates_co = TypeVar("Candidates_co", bound=Priced, covariant=True)


@record(slots=False)
class Opened(Generic[Candidates_co]):
    """The candidates of a plan with its choices open, and those of the plan as written."""

    priced: Candidates_co
    pinned: Candidates_co
    request: PlanRequest

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the plan as written."""
        return self.pinned.findings


def both_priced(
    request: PlanRequest, wide: PlanRequest, price: Callable[[PlanRequest], Candidates_co]
) -> tuple[Candidates_co, Candidates_co]:
    """The candidates of the opened plan and of the plan as written; the latter twice if the opened plan has none.

    Raises:
        ImpossibleError: no candidate remains; the error has every finding.
    """
    pinned = price(request)
    if wide == request:
        return pinned, pinned
    try:
        return price(wide), pinned
    except ImpossibleError:
        return pinned, pinned


@record(slots=False)
class Comparison(Opened[Priced]):
    """A comparison of GPUs and Trainium: the best candidate of each, and the verdict."""

    @cached_property
    def gpu(self) -> Quote | None:
        """The cheapest GPU candidate; among the types that the plan pins, if it pins any."""
        return self._best(NVIDIA)

    @cached_property
    def trainium(self) -> Quote | None:
        """The cheapest Trainium candidate; among the types that the plan pins, if it pins any."""
        return self._best(NEURON)

    @cached_property
    def port(self) -> Port | None:
        """The calculation of the port; None if no port is needed."""
        train = self.request.workload.train
        if train is None or train.hours is not None or self.gpu is None or self.trainium is None:
            return None
        if self.gpu.usd is None or self.trainium.usd is None:
            return None
        return port(train, self.gpu.usd, self.trainium.usd, self.priced.now.date())

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
        if train.hours is not None:
            text = "Hours of progress do not apply to other instance types: give tokens_b and a model to compare them."
            if self.gpu is not None:
                return one_sided(Choice.GPU, text)
            return one_sided(Choice.TRAINIUM if self.trainium is not None else Choice.NONE, text)
        if self.port is not None and self.trainium is not None:
            chip = self.priced.catalog.instance_types[self.trainium.plan.place.instance_type].chip
            stack = chip.training_stack if chip is not None else None
            run_h = self.trainium.hours.mid
            return recommend(self.request, train, self.port, stack, run_h, measured=not self.unmeasured)
        return self._of_one_side()

    @cached_property
    def unmeasured(self) -> tuple[str, ...]:
        """The types of the two sides without an own measurement that counts."""
        sides = [quote.plan.place for quote in (self.gpu, self.trainium) if quote is not None]
        return tuple(side.instance_type for side in sides if not self._is_measured(side))

    @cached_property
    def simulated(self) -> tuple[str, ...]:
        """Those that were measured in the sandbox, which says nothing about the instances."""
        if not isinstance(self.priced, TrainingPriced):
            return ()
        measured = self.priced.resolution.estimator.facts.measured
        names = {measurement.instance_type for measurement in measured if measurement.simulated}
        return tuple(name for name in self.unmeasured if name in names)

    def _is_measured(self, place: Place) -> bool:
        if not isinstance(self.priced, TrainingPriced):
            return False
        learned = self.priced.resolution.estimator.learned(place.instance_type, place.nodes)
        return learned is not None and min(cell.discount for cell in learned.cells) <= NEAR

    def _of_one_side(self) -> Verdict:
        if self.gpu is not None:
            return one_sided(Choice.GPU, "Train on GPUs: no Trainium candidate that fits the job has a price here.")
        if self.trainium is not None:
            text = "Train on Trainium: no GPU candidate that fits the job has a price here."
            return one_sided(Choice.TRAINIUM, text, (reasoning.CAPACITY,))
        return one_sided(Choice.NONE, "No candidate has a price: there is nothing to compare.")

    def outside(self, family: str) -> Quote | None:
        """The cheapest of a family if the plan leaves out its type or purchase option; else None."""
        mine, rank = self.pinned.cheapest_of(family), self.priced.cheapest_of(family)
        if mine is None or rank is None:
            return None
        pinned, other = self.pinned.quote(mine), self.priced.quote(rank)
        cheaper = pinned.usd is not None and other.usd is not None and other.usd.mid < pinned.usd.mid
        return other if cheaper else None

    def _best(self, family: str) -> Quote | None:
        for priced in (self.pinned, self.priced):
            rank = priced.cheapest_of(family)
            if rank is not None:
                return priced.quote(rank)
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
    priced, pinned = both_priced(
        request, opened(request), lambda plan: price_request(path, plan, catalog, now, options)
    )
    return Comparison(priced=priced, pinned=pinned, request=request)


def opened(request: PlanRequest) -> PlanRequest:
    """The request with type, count, zone and purchase option open; a job given in hours keeps its type.

    Settings of one type are left out: a measured throughput, a reservation, an owned commitment.
    """
    train = request.workload.train
    purchase = replace(
        request.purchase, option=None, plan_kind=None, term_years=None, reservation=None, training_plan=None
    )
    target = replace(request.target, cluster=None, fallback_types=())
    if not (train is not None and train.hours is not None):
        target = replace(target, instance_type=None, nodes=None, az_id=None)
    workload = request.workload
    if train is not None and train.throughput_tokens_per_s is not None:
        workload = replace(workload, train=replace(train, throughput_tokens_per_s=None))
    return replace(request, target=target, purchase=purchase, workload=workload)
