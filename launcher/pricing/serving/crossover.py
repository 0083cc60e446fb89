"""Machines against Bedrock: the utilisation and the monthly volume at which they cost the same.

    crossover utilisation = instance $/h / (requests/s of a full instance x 3600 x Bedrock's $ per request)

counts full hours of an instance, used or not. The volume is searched on the whole month: instances in whole numbers,
hour by hour, filled to the autoscaler's target, with everything around them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from launcher.model.endpoint import FILLED
from launcher.model.enums import BedrockMode
from launcher.model.fleet import SECONDS_PER_HOUR, fleet
from launcher.model.money import Price
from launcher.model.workload import ServingWorkload
from launcher.pricing.serving.candidate import ServingCandidate, layout_requests_per_s
from launcher.pricing.serving.traffic import requests_per_month

GRID = 1.04
"""The step between volumes that are tried, so that a narrow range in which machines win is not passed over."""
CLOSE = 1.002
MOST_INSTANCES = 200
"""With so many the steps are too small to matter: what has not won by then never does."""


def usd_per_request(hosted: ServingCandidate | None) -> Decimal | None:
    """What Bedrock charges for one request of the plan; None without a price, and for provisioned throughput."""
    if hosted is None or hosted.usd is None or hosted.bedrock is None:
        return None
    if hosted.bedrock.mode is BedrockMode.PROVISIONED:
        return None
    requests = requests_per_month(hosted.serve)
    return hosted.usd / Decimal(repr(requests)) if requests else _of_one(hosted)


def _of_one(hosted: ServingCandidate) -> Decimal | None:
    """The price of a request where the plan has none in a month."""
    terms = hosted.bedrock
    if terms is None or terms.input_usd_per_million is None or terms.output_usd_per_million is None:
        return None
    inputs = terms.input_usd_per_million * hosted.serve.input_tokens
    return (inputs + terms.output_usd_per_million * hosted.serve.output_tokens) / 1_000_000


def utilisation(candidate: ServingCandidate, per_request: Decimal | None) -> float | None:
    """The share of its hours that an instance has to be full for to cost what Bedrock does; above 1 it never does.

    None where either has no price.
    """
    price = candidate.offer.price
    if candidate.estimate is None or not isinstance(price, Price) or not per_request:
        return None
    full = Decimal(repr(candidate.estimate.requests_per_s * SECONDS_PER_HOUR))
    return float(price.usd / (full * per_request))


def volume(candidates: Sequence[ServingCandidate], per_request: Decimal | None, upkeep_usd: Decimal) -> float | None:
    """Requests a month, of the same shape over the day, at which some candidate is first cheaper than Bedrock.

    None when none is at any volume, or there is nothing to compare. The cost of machines grows in steps, so a little
    above that volume Bedrock can be cheaper again; below it Bedrock always is. `upkeep_usd` is what running machines
    takes in people, a month.
    """
    if per_request is None:
        return None
    own = [each for each in candidates if not each.refusals and _can_win(each, per_request)]
    shape = _shape(own)
    if shape is None:
        return None
    base = requests_per_month(shape)
    idle = min(month(each, scaled(shape, 0.0)) for each in own) + upkeep_usd
    factor = max(1.0, float(idle / per_request)) / base
    last = max(MOST_INSTANCES * layout_requests_per_s(each) for each in own) / max(shape.hourly)

    def beats(factor: float) -> bool:
        serve = scaled(shape, factor)
        bedrock = per_request * Decimal(repr(requests_per_month(serve)))
        return any(month(each, serve) + upkeep_usd < bedrock for each in own)

    while not beats(factor):
        factor *= GRID
        if factor > last:
            return None
    return _edge(beats, factor / GRID, factor) * base


def _can_win(candidate: ServingCandidate, per_request: Decimal) -> bool:
    """Whether a candidate is cheaper than Bedrock when its instances are as full as the autoscaler lets them be."""
    share = utilisation(candidate, per_request)
    return share is not None and share < FILLED


def _edge(beats: Callable[[float], bool], low: float, high: float) -> float:
    """The factor between two of the grid from which machines are cheaper."""
    while high / low > CLOSE:
        middle = (low + high) / 2
        if beats(middle):
            high = middle
        else:
            low = middle
    return high


def _shape(candidates: Sequence[ServingCandidate]) -> ServingWorkload | None:
    """The workload whose traffic is scaled, without a limit on instances; one request a second where it has none."""
    if not candidates:
        return None
    serve = replace(candidates[0].serve, max_instances=None)
    return serve if requests_per_month(serve) else replace(serve, requests_per_s=1.0, hourly_requests_per_s=None)


def scaled(serve: ServingWorkload, factor: float) -> ServingWorkload:
    """The same shape of a day with more or fewer requests."""
    if serve.hourly_requests_per_s is not None:
        return replace(serve, hourly_requests_per_s=tuple(each * factor for each in serve.hourly_requests_per_s))
    return replace(serve, requests_per_s=(serve.requests_per_s or 0.0) * factor)


def month(candidate: ServingCandidate, serve: ServingWorkload) -> Decimal:
    """Dollars of a month of a candidate under another traffic."""
    load = fleet(serve, layout_requests_per_s(candidate), candidate.stand)
    place = replace(candidate.place, nodes=max(1, load.instances.most))
    whole = replace(candidate, place=place, serve=serve)
    lines = (*whole.machines(load), *whole.beside(load))
    return sum((each.usd for each in lines if each.usd is not None), Decimal(0))
