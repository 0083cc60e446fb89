"""Why the dollars of a training candidate are uncertain, and the answer or action that narrows them most."""

import math
from collections.abc import Iterator
from dataclasses import replace

from launcher.model.enums import Basis
from launcher.model.money import Price, Range, UsdRange, cents
from launcher.model.range_causes import Narrowing, RangeCauses, Stress
from launcher.planning.questions import measured_width, open_answers
from launcher.planning.work import Estimator
from launcher.pricing.hazard import WORST_PER_NODE_HOUR, worst
from launcher.pricing.offers import own_price_name
from launcher.pricing.totals import range_shares, total_usd
from launcher.pricing.training_candidate import TrainingCandidate, training_candidate
from launcher.targets.registry import target_of

RATES = "purchase.price_overrides"
NARROWS = 0.8
"""Slipway names an answer or action that leaves at most this share of high over low: that narrows it by a fifth."""


def range_causes(candidate: TrainingCandidate, estimator: Estimator) -> RangeCauses | None:
    """The causes of a candidate's range; None without a range.

    Args:
        candidate: a priced candidate.
        estimator: of its request, to estimate the job with one more answer.
    """
    usd, shares = total_usd(candidate), range_shares(candidate)
    if usd is None or not shares:
        return None
    return RangeCauses(shares=shares, narrows=narrowing(candidate, estimator, usd), stress=_stress(candidate))


def _stress(candidate: TrainingCandidate) -> Stress | None:
    """The total under the worst published trace; None without interruptions, or with the plan's own rate."""
    if candidate.hazard is None or candidate.hazard.from_plan:
        return None
    usd = candidate.under(worst(candidate.place.nodes)).usd
    return None if usd is None else Stress(per_node_hour=WORST_PER_NODE_HOUR, usd=usd)


def narrowing(candidate: TrainingCandidate, estimator: Estimator, usd: UsdRange) -> Narrowing | None:
    """What narrows the dollars most; None if nothing narrows them by a fifth.

    Answers and current prices cost nothing. A measurement costs a node for minutes, so it is named only where they do
    not help; a rate of one's own needs a finished job, and comes last.
    """
    free = [*_current_prices(candidate), *_answers(candidate, estimator)]
    for found in (free, _measurement(candidate, estimator), _own_rate(candidate)):
        best = min(found, key=lambda each: _width(each.usd), default=None)
        if best is not None and _width(best.usd) <= NARROWS * _width(usd):
            return best
    return None


def _current_prices(candidate: TrainingCandidate) -> Iterator[Narrowing]:
    """The job at a price of its own zone, read today, if today's middle holds."""
    forecast = candidate.forecast
    if forecast is None or not (forecast.days or forecast.alike < 1.0):
        return
    today = replace(forecast, usd=forecast.middle, days=0, alike=1.0)
    fresh = replace(candidate, forecast=today)
    if candidate.hazard is not None:
        fresh = fresh.under(candidate.hazard)
    usd = total_usd(fresh)
    if usd is not None:
        yield Narrowing(path="", action=candidate.context.rules.changes.refresh, usd=usd)


def _answers(candidate: TrainingCandidate, estimator: Estimator) -> Iterator[Narrowing]:
    """The job with one more key of the plan file stated, as Slipway assumes it."""
    request, place = candidate.context.request, candidate.place
    train = request.workload.train
    if train is None or not train.by_tokens or train.throughput_tokens_per_s is not None or not place.instance_type:
        return
    facts = candidate.context.catalog.instance_types[place.instance_type]
    for answer in open_answers(train, estimator.shape(train, facts, place.nodes)):
        answered = replace(request, workload=replace(request.workload, train=answer.train))
        other = estimator.answering(answered)
        work = other.work(place.instance_type, place.nodes)
        usd = total_usd(training_candidate(place, work, candidate.context))
        if usd is not None:
            path = f"workload.train.{answer.key}"
            yield Narrowing(path=path, action=f"{path}: {answer.value}, if that is what it is", usd=usd)


def _measurement(candidate: TrainingCandidate, estimator: Estimator) -> Iterator[Narrowing]:
    """The job at a rate measured on one of its nodes, if the middle holds."""
    work, facts = candidate.work, estimator.facts
    train = candidate.context.request.workload.train
    if train is None or work.training is None or train.throughput_tokens_per_s is not None:
        return
    width = math.exp(math.hypot(measured_width(facts), facts.quantile * facts.run_scale))
    hours = work.hours
    known = Range(low=max(hours.low, hours.mid / width), mid=hours.mid, high=min(hours.high, hours.mid * width))
    usd = total_usd(training_candidate(candidate.place, replace(work, hours=known), candidate.context))
    if usd is not None:
        yield Narrowing(path="", action="slipway spike FILE", usd=usd)


def _own_rate(candidate: TrainingCandidate) -> Iterator[Narrowing]:
    """The job on managed spot at a rate of a finished job, if the middle holds: AWS publishes none."""
    price, place = candidate.offer.price, candidate.place
    if candidate.hazard is None or not target_of(place.target).managed_spot or not isinstance(price, Price):
        return
    own = candidate.offer._replace(price=replace(price, basis=Basis.USER))
    usd = total_usd(replace(candidate, offer=own).under(candidate.hazard))
    if usd is not None and price.basis is not Basis.USER:
        own_price = f'{{"{own_price_name(place)}": "{cents(price.usd)}"}}'
        yield Narrowing(path=RATES, action=f"{RATES} {own_price}, if a finished job paid that", usd=usd)


def _width(usd: UsdRange) -> float:
    return float(usd.high / usd.low) if usd.low > 0 else math.inf
