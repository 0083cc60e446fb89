"""The `compare` command for a serving plan: instances against Bedrock, Inferentia against GPU, and the verdict."""

from dataclasses import replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.pricing.candidate import Candidate
from launcher.pricing.priced import NEURON, NVIDIA
from launcher.pricing.serving.candidate import ServingCandidate
from launcher.pricing.serving.crossover import turn, usd_per_request, utilisation
from launcher.pricing.serving.quoting import ServingPriced
from launcher.pricing.serving.totals import outcomes
from launcher.pricing.serving.verdict import Sides, cheaper_instances, recommend, sides
from launcher.pricing.verdict import ServingChoice, Verdict
from launcher.workflow.quote.opened import Opened, both_priced
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.serving import price_serving


class Crossover(NamedTuple):
    """The break-even of one candidate with Bedrock: the share of its hours at full load, and requests per month.

    A utilisation above 1 is unreachable; None if no comparison is possible, or no volume reaches the break-even.
    """

    rank: int
    candidate: ServingCandidate
    utilisation: float | None


@record(slots=False)
class ServingComparison(Opened[ServingPriced]):
    """A comparison of instances with Bedrock, and its conclusions."""

    @cached_property
    def hosted_candidate(self) -> ServingCandidate | None:
        """The cheapest priced Bedrock candidate."""
        candidates = (
            candidate
            for candidate in self.priced.candidates
            if candidate.usd is not None and candidate.bedrock is not None
        )
        return next(candidates, None)

    @cached_property
    def crossovers(self) -> tuple[Crossover, ...]:
        """Every priced candidate with instances, in the order of rank."""
        rate = usd_per_request(self.hosted_candidate)
        crossings = []
        for rank, candidate in enumerate(self.priced.candidates, start=1):
            if candidate.estimate is not None and candidate.usd is not None:
                crossings.append(Crossover(rank, candidate, utilisation(candidate, rate)))
        return tuple(crossings)

    @cached_property
    def sides(self) -> Sides:
        """The cheapest of each kind; among the types that the plan pins, if it pins any."""
        hosted = (
            None
            if self.hosted_candidate is None
            else self.priced.quote(self.priced.candidates.index(self.hosted_candidate) + 1)
        )
        gpu, neuron = self._best(NVIDIA), self._best(NEURON)
        own_sides = sides(
            self.pinned.serve,
            neuron=None if neuron is None else neuron[0],
            gpu=None if gpu is None else gpu[0],
            hosted=hosted,
            closed=self.priced.closed,
            unpriced=self.hosted_candidate is None and any(candidate.bedrock for candidate in self.priced.candidates),
            outcomes=(() if gpu is None else gpu[1], () if neuron is None else neuron[1]),
        )
        _, choice = cheaper_instances(own_sides)
        cheapest = self.best_of(NEURON if choice is ServingChoice.NEURON else NVIDIA)
        return replace(
            own_sides, turn=turn(cheapest, usd_per_request(self.hosted_candidate), own_sides.maintenance_usd)
        )

    @cached_property
    def verdict(self) -> Verdict:
        """The recommendation."""
        return recommend(self.sides)

    def best_of(self, family: str) -> list[ServingCandidate]:
        """The best candidate for a verdict of each type of a family; only of pinned types, if they have one."""
        priced, ranks = self._ranks(family)
        return [priced.candidates[rank - 1] for rank in ranks]

    def _best(self, family: str) -> tuple[Quote, tuple[float, ...]] | None:
        """The best candidate's quote with its equally likely months; None without a candidate."""
        priced, ranks = self._ranks(family)
        return (priced.quote(ranks[0]), outcomes(priced.candidates[ranks[0] - 1])) if ranks else None

    def _ranks(self, family: str) -> tuple[ServingPriced, list[int]]:
        """The ranks of each type's best candidate in a family, and their pricing: as written, else opened."""
        ranks: dict[str, int] = {}
        for priced in (self.pinned, self.priced):
            for rank, candidate in enumerate(priced.candidates, start=1):
                if self._is_usable(candidate) and priced.family(candidate) == family:
                    ranks.setdefault(candidate.place.instance_type, rank)
            if ranks:
                return priced, list(ranks.values())
        return self.priced, []

    def _is_usable(self, candidate: Candidate) -> bool:
        """Whether a verdict may use a candidate: priced, possible, and neither a commitment of years nor interruptible.

        Commitments and spot count if the plan requests them.
        """
        purchase = self.request.purchase
        options = tuple(PurchaseOption) if purchase.owned else purchase.option or ()
        open_ended = candidate.place.term_years is None and candidate.place.option is not PurchaseOption.SPOT
        return (
            candidate.usd is not None and not candidate.refusals and (open_ended or candidate.place.option in options)
        )


def compare_serving(
    path: Path, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions
) -> ServingComparison:
    """The comparison of a serving plan: its load on every instance type that fits and on Bedrock, whatever it pins.

    A pinned region and a pinned target stay pinned. A pinned type selects its accelerator family.

    Raises:
        ImpossibleError: no candidate is left; the error has every finding.
    """
    priced, pinned = both_priced(
        request, open_choices(request), lambda plan: price_serving(path, plan, catalog, now, options)
    )
    return ServingComparison(priced=priced, pinned=pinned, request=request)


def open_choices(request: PlanRequest) -> PlanRequest:
    """The request with type, layout, zone and purchase option open."""
    serve = request.workload.serve
    if serve is not None:
        serve = replace(serve, tensor_parallel=None, batch_size=None)
    purchase = replace(request.purchase, option=None, plan_kind=None, term_years=None)
    target = replace(request.target, instance_type=None, nodes=None, az_id=None)
    return replace(request, target=target, purchase=purchase, workload=replace(request.workload, serve=serve))
