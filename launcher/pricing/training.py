"""The candidates of a training job, or of a cluster without one, and their quotes."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property, lru_cache, partial

from launcher.model.candidate_group import CandidateGroup
from launcher.model.finding import Finding, info, warning
from launcher.model.money import cents
from launcher.model.plan import Place
from launcher.model.quote import Quote
from launcher.model.range_causes import RangeCauses
from launcher.model.record import record
from launcher.model.work import Work
from launcher.model.workload import ModelDimensions
from launcher.planning.limits import lack
from launcher.planning.optimizers import LEANER_CODE, TIGHT
from launcher.planning.resolve import Resolution
from launcher.planning.targets import place_findings
from launcher.pricing.candidate import cheapest_fixed, order
from launcher.pricing.compute import Charge
from launcher.pricing.context import PricingContext
from launcher.pricing.first_rows import FEW, FirstRows
from launcher.pricing.narrowing import narrowing, range_causes
from launcher.pricing.priced import Alternative, PricedRequest
from launcher.pricing.quoting import outline, quote
from launcher.pricing.screening import all_candidates, all_places, best_candidates
from launcher.pricing.standing import COMPLETE, Standing, rank_candidates, standing
from launcher.pricing.stop_findings import longest_run_h
from launcher.pricing.totals import total_usd
from launcher.pricing.training_candidate import (
    TrainingCandidate,
    candidate_charged,
    chosen_before,
    plan_of,
    training_candidate,
)
from launcher.targets.registry import billed_name

MEASURES_IT = "slipway spike FILE measures it"
"""The hint of findings on hours without a published run."""


@record(slots=False)
class TrainingPriced(PricedRequest[TrainingCandidate]):
    """A training job, or a cluster without one, with its candidates; `resolution` is the input that produced them."""

    resolution: Resolution

    def _quote(self, rank: int) -> Quote:
        candidate = self.candidates[rank - 1]
        quoted = quote(candidate, self.resolution.estimator.explain(candidate.work), self._rival_usd)
        return replace(
            quoted,
            range_causes=self.range_causes(rank),
            findings=(
                *quoted.findings,
                *self._job_findings(candidate),
                *self._contradiction(candidate),
            ),
        )

    def _contradiction(self, candidate: TrainingCandidate) -> Iterator[Finding]:
        """A warning if the user's own measurements contradict each other, with the effect of each on the estimate."""
        place, work = candidate.place, candidate.work
        hint = "measure again, or delete the wrong lines of measurements.jsonl"
        learned_hours = (
            ("start-up", work.boot),
            ("restarts", work.restart),
            ("the idle tail", candidate.charge.tail if candidate.charge else None),
            ("interruptions", candidate.hazard.learned if candidate.hazard else None),
        )
        for subject, known in learned_hours:
            if known is not None and known.contradiction:
                message = f"own runs contradict each other on {subject}, so the range is wider: {known.contradiction}"
                yield warning("measurements-contradict", "", message, hint)
        learned = (
            self.resolution.estimator.learn_rate(place.instance_type, place.nodes) if place.instance_type else None
        )
        if learned is None or not learned.contradiction:
            return
        factors = "; ".join(
            f"{cell.description} ({', '.join(cell.runs)}): {math.exp(cell.error):.2f}" for cell in learned.cells
        )
        message = f"own measurements contradict each other, so the range is wider; times the estimate: {factors}"
        yield warning("measurements-contradict", "", message, hint)

    def range_causes(self, rank: int) -> RangeCauses | None:
        """The causes of a rank's range, without its quote; None without a range."""
        return range_causes(self.candidates[rank - 1], self.resolution.estimator)

    def _outline(self, rank: int, *, break_even: bool) -> Quote:
        candidate = self.candidates[rank - 1]
        remarks = tuple(self._job_findings(candidate))
        rival_usd = self._rival_usd if break_even else None
        plan = plan_of(candidate.place, candidate.work, self.context, self._digests.get(rank, ""))
        return outline(candidate, rival_usd, remarks, self._hint_at_allowed, plan=plan)

    def _job_findings(self, candidate: TrainingCandidate) -> Iterator[Finding]:
        """What the row and the quote of a candidate say about its estimate."""
        yield from self._beyond_published(candidate)
        yield from self._mixture()
        yield from self._unseen(candidate)
        yield from _tight(candidate)

    def _mixture(self) -> Iterator[Finding]:
        """A warning if the hours are estimated for a mixture of experts, whose recipe changes them most."""
        train = self.request.workload.train
        measured = train is not None and train.throughput_tokens_per_s is not None
        if train is None or not train.by_tokens or measured or not self.resolution.estimator.is_mixture:
            return
        message = "the hours of a mixture of experts are known within 3 x: experts, top-k and recipe move them"
        hint = "workload.train.throughput_tokens_per_s as slipway spike FILE measures it"
        yield warning("mixture-of-experts", "workload.train.model", message, hint)

    def _unseen(self, candidate: TrainingCandidate) -> Iterator[Finding]:
        """A note if no published run of this kind is known on the instances, a warning if one is far off."""
        if candidate.work.training is None or not self.resolution.estimator.unseen(candidate.place.instance_type):
            return
        if report := self.resolution.estimator.adapter_report(candidate.place.instance_type):
            message = f"{report}: the range of the hours is wide for it"
            yield warning("far-published-run", "workload.train", message, MEASURES_IT)
        else:
            yield _unpublished_family_note(candidate.place.instance_type.partition(".")[0])

    def _beyond_published(self, candidate: TrainingCandidate) -> Iterator[Finding]:
        """A warning for a batch above those of published runs of this size, with hours and dollars at the largest."""
        smaller = self.resolution.estimator.at_largest_batch
        largest = None if smaller is None else smaller.largest_batch
        if smaller is None or largest is None:
            return
        place = candidate.place
        bound = training_candidate(place, smaller.work(place.instance_type, place.nodes), self.context)
        usd = "unpriced" if bound.usd is None else f"${bound.usd:,.0f}"
        message = (
            f"published runs of this size used batches of up to {largest.tokens / 1e6:.3g} million tokens"
            f" ({largest.source}): with that it takes {bound.hours:,.1f} h and {usd}"
        )
        hint = "a larger batch can need more tokens for the same loss"
        yield warning("batch-beyond-published", "workload.train.global_batch_tokens", message, hint)

    def _standing_of(self, candidate: TrainingCandidate) -> Standing:
        return standing_of(candidate)

    @cached_property
    def _rival_usd(self) -> Decimal | None:
        return cheapest_fixed(self.candidates)

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """Other hardware for the job, priced but not deployed; empty for a cluster without a job."""
        train, named = self.request.workload.train, self.request.target.instance_type
        kinds = self.request.target.kind
        if train is None or kinds is not None:
            return ()
        # What pages and documents with every row alone need.
        from launcher.pricing.alternatives import alternatives

        types = self.catalog.instance_types
        tried = [types[name] for name in named] if named is not None else list(types.values())
        chips = [
            instance_type
            for instance_type in tried
            if instance_type.chip is not None and instance_type.chip.trains and lack(instance_type.chip, train) is None
        ]
        return alternatives(chips, self.resolution.estimator, self.context)

    @property
    def params_b(self) -> float | None:
        """Billions of parameters of the model; None without a model."""
        train = self.request.workload.train
        if train is None or train.model is None:
            return None
        if isinstance(train.model, ModelDimensions):
            return train.model.params_b
        spec = self.catalog.find_model(train.model)
        return spec.params_b if spec else None


@lru_cache(maxsize=256)
def _unpublished_family_note(family: str) -> Finding:
    """The note of a family without a published run, computed once for all of its rows."""
    message = f"no published run of this kind of job on {family} is known: the range of the hours is wider for it"
    return info("no-published-run", "workload.train", message, MEASURES_IT)


def standing_of(candidate: TrainingCandidate) -> Standing:
    """What the gate says of a candidate, and whether a quota may stop the job before its end."""
    said, charged = standing(candidate, lambda: outline(candidate, None).gate), candidate.charge
    if said is Standing.ALLOWED and charged is not None:
        longest_h = longest_run_h(candidate.place, candidate.context.request, candidate.context.quotas)
        return Standing.STOPPED if charged.may_exceed(longest_h) else said
    return said


def price_training(
    path: str,
    resolution: Resolution,
    context: PricingContext,
    *,
    everything: bool = False,
    picked: str = "",
    first_rows: int | None = None,
) -> TrainingPriced:
    """The candidates of a resolved request, best first: the best of each type and purchase option, or all of them.

    `picked` is the beginning of a digest: its candidate is among them, whether or not it is the best of its kind. With
    `first_rows`, the best ones may lack those that a screen with so many rows cannot show.
    """
    most = first_rows if resolution.considered > FEW else None
    found, leaner = _by_optimizer(resolution, context, everything=everything, first_rows=most)
    if picked and not everything and not any(candidate.plan.digest.startswith(picked) for candidate in found):
        found = (*found, *_picked_candidates(picked, resolution, context))
    candidates = rank_candidates(found, standing_of)
    return TrainingPriced(
        path=path,
        context=context,
        candidates=candidates,
        findings=(*resolution.findings, *_narrows(candidates[:1], resolution), *_with_leaner(candidates, leaner)),
        considered=max(resolution.considered, len(candidates)),
        resolution=resolution,
    )


def _narrows(best: Sequence[TrainingCandidate], resolution: Resolution) -> Iterator[Finding]:
    """The open key of the plan file that narrows the dollars of the first candidate most."""
    for candidate in best:
        usd = total_usd(candidate)
        found = None if usd is None else narrowing(candidate, resolution.estimator, usd)
        if usd is not None and found is not None and found.path:
            message = (
                f"the dollars of the first row range from {cents(usd.low)} to {cents(usd.high)};"
                f" {found.action} takes them to about {cents(found.usd.low)} to {cents(found.usd.high)}"
            )
            yield info("narrows-the-range", found.path, message, f"say {found.path}")


def _picked_candidates(digest: str, resolution: Resolution, context: PricingContext) -> Iterator[TrainingCandidate]:
    """The candidates whose digest begins so, among all places."""
    for place in all_places(resolution.groups):
        work = chosen_before(place, _work(place, resolution), context, digest)
        if work is not None:
            yield training_candidate(place, work, context, place_findings(context.request, place, context.catalog))


def _work(place: Place, resolution: Resolution) -> Work:
    return resolution.estimator.work(place.instance_type, place.nodes)


def _at(place: Place, cost: Charge | None, *, resolution: Resolution, context: PricingContext) -> TrainingCandidate:
    known = context.of_places
    key = (place.target, place.instance_type, place.nodes, place.region, place.az_id, place.option, place.plan_kind)
    if key not in known:
        known[key] = place_findings(context.request, place, context.catalog)
    return candidate_charged(place, _work(place, resolution), context, cost, known[key])


def _by_optimizer(
    resolution: Resolution, context: PricingContext, *, everything: bool, first_rows: int | None
) -> tuple[tuple[TrainingCandidate, ...], tuple[TrainingCandidate, ...]]:
    """The candidates that run with the optimizer of the plan, and the best of those that need another one.

    A trainer with the default optimizer would run out of memory on these, so they are candidates only if the gate
    allows none of the others.
    """
    planned: list[CandidateGroup] = []
    leaner: list[CandidateGroup] = []
    known: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
    for group in resolution.groups:
        sizes = (group.instance_type, group.node_counts)
        if sizes not in known:
            works = {nodes: resolution.estimator.work(group.instance_type, nodes) for nodes in group.node_counts}
            known[sizes] = tuple(nodes for nodes, work in works.items() if work.leaner_optimizer is None)
        counts = known[sizes]
        (planned if counts else leaner).append(group._replace(node_counts=counts) if counts else group)
    candidates_of = partial(_candidates, context=context, first_rows=first_rows)
    if not leaner:
        return tuple(candidates_of(resolution, everything=everything)), ()
    found = tuple(candidates_of(replace(resolution, groups=tuple(planned)), everything=everything))
    if not any(standing_of(candidate) in COMPLETE for candidate in found):
        return tuple(candidates_of(resolution, everything=everything)), ()
    return found, tuple(candidates_of(replace(resolution, groups=tuple(leaner)), everything=False))


def _with_leaner(candidates: Sequence[TrainingCandidate], leaner: Iterable[TrainingCandidate]) -> Iterator[Finding]:
    """A note of the cheapest candidate that a leaner optimizer would allow, if it costs less than the first one."""
    allowed = (candidate for candidate in leaner if standing_of(candidate) in COMPLETE)
    cheapest = min(allowed, key=order, default=None)
    if cheapest is None or cheapest.usd is None or not candidates or cheapest.usd >= (candidates[0].usd or 0):
        return
    place, optimizer = cheapest.place, cheapest.work.leaner_optimizer
    nodes = f"{place.nodes} × {billed_name(place)} {place.option.value.replace('-', ' ')}"
    message = f"{nodes} at ${cents(cheapest.usd)} fits only with optimizer {optimizer}"
    hint = f"if the trainer uses it, say workload.train.optimizer: {optimizer}"
    yield info(LEANER_CODE, "workload.train.optimizer", message, hint)


def _candidates(
    resolution: Resolution, context: PricingContext, *, everything: bool, first_rows: int | None
) -> Iterable[TrainingCandidate]:
    candidate_of = partial(_at, resolution=resolution, context=context)

    if everything:
        yield from all_candidates(resolution.groups, resolution.estimator, context, candidate_of)
        return
    first = None if first_rows is None else FirstRows(first_rows, context, standing_of)
    yield from best_candidates(resolution.groups, resolution.estimator, context, candidate_of, first)


def _tight(candidate: TrainingCandidate) -> Iterator[Finding]:
    """A warning if the job fits the memory of the chips only with a leaner recipe than planned."""
    if candidate.work.tight is not None:
        hint = "say these keys of workload.train in the plan, or take more nodes or a chip with more memory"
        yield warning(TIGHT, "workload.train", f"the job {candidate.work.tight}", hint)
