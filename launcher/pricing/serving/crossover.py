"""Instances against Bedrock: the utilisation and the monthly volume at which they cost the same.

    crossover utilisation = instance $/h / (requests/s of a full instance x 3600 x Bedrock's $ per request)

counts full hours of an instance, used or not. Slipway searches the volume on a full month: whole instances,
hour by hour, filled to the autoscaler's target, with all other costs.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import NamedTuple

from launcher.model.endpoint import FILLED
from launcher.model.enums import BedrockMode
from launcher.model.fleet import SECONDS_PER_HOUR, fleet
from launcher.model.money import Price, sum_usd
from launcher.model.record import INTERNAL, record
from launcher.model.workload import ServingWorkload
from launcher.pricing.serving.candidate import ServingCandidate, layout_requests_per_s
from launcher.pricing.serving.traffic import requests_per_month

GRID = 1.04
"""The ratio between tried volumes, small enough to find a narrow range in which instances win."""
CLOSE = 1.002
BY_TIME = (BedrockMode.PROVISIONED, BedrockMode.CUSTOM_IMPORT)
"""Bedrock modes whose cost does not depend on the number of requests."""
MAX_INSTANCES = 200
"""With this many instances the steps are too small to matter: a candidate that has not won by then never does."""


def usd_per_request(hosted: ServingCandidate | None) -> Decimal | None:
    """Bedrock's price of one request of the plan; None without a price, and for modes billed by time."""
    if hosted is None or hosted.usd is None or hosted.bedrock is None:
        return None
    if hosted.bedrock.mode in BY_TIME:
        return None
    requests = requests_per_month(hosted.serve)
    return hosted.usd / Decimal(repr(requests)) if requests else _request_price(hosted)


def _request_price(hosted: ServingCandidate) -> Decimal | None:
    """The price of a request if the plan has no requests in a month."""
    terms = hosted.bedrock
    if terms is None or terms.input_usd_per_million is None or terms.output_usd_per_million is None:
        return None
    inputs = terms.input_usd_per_million * hosted.serve.input_tokens
    return (inputs + terms.output_usd_per_million * hosted.serve.output_tokens) / 1_000_000


def utilisation(candidate: ServingCandidate, per_request: Decimal | None) -> float | None:
    """The share of its hours that an instance must be full to cost as much as Bedrock; above 1 this never happens.

    None if either has no price.
    """
    price = candidate.offer.price
    if candidate.estimate is None or not isinstance(price, Price) or not per_request:
        return None
    full = Decimal(repr(candidate.estimate.requests_per_s * SECONDS_PER_HOUR))
    return float(price.usd / (full * per_request))


@record(described=False)
class Turn:
    """Requests a month, with the same daily shape, at which the cheaper of instances and Bedrock changes.

    The nearest such volume on the side where the answer changes: above the plan's volume if Bedrock is cheaper now,
    below it if instances are. None: the answer never changes. `low` and `high` are the volumes at the high and the
    low end of the throughput estimate.
    """

    requests: float | None = field(metadata=INTERNAL)
    low: float | None
    high: float | None


def turn(candidates: Sequence[ServingCandidate], per_request: Decimal | None, maintenance_usd: Decimal) -> Turn | None:
    """The volume at which the answer changes; None without anything to compare.

    The cost of instances grows in steps, so beyond that volume the answer may change back. `maintenance_usd` is the
    cost of operating the nodes, per month.
    """
    shape = _shape(candidates)
    if per_request is None or shape is None:
        return None
    requests, low, high = (
        _turn(_Contest(candidates, per_request, maintenance_usd, shape, end)) for end in ("mid", "high", "low")
    )
    return Turn(requests=requests, low=low, high=high)


class _Contest(NamedTuple):
    """Instances against Bedrock for one traffic shape; `end` selects the end of the throughput range."""

    candidates: Sequence[ServingCandidate]
    per_request: Decimal
    maintenance_usd: Decimal
    shape: ServingWorkload
    end: str

    @property
    def base(self) -> float:
        return requests_per_month(self.shape)

    def instances_win(self, factor: float) -> bool:
        """Whether some candidate costs less than Bedrock when the traffic is `factor` times the shape's."""
        serve = scale_requests(self.shape, factor)
        bedrock = self.per_request * Decimal(repr(requests_per_month(serve)))
        return any(month(candidate, serve, self.end) + self.maintenance_usd < bedrock for candidate in self.candidates)


def _turn(contest: _Contest) -> float | None:
    """Requests a month at which the answer changes, searched from the traffic of the shape."""
    if contest.instances_win(1.0):
        return _below(contest)
    can_win = [candidate for candidate in contest.candidates if _can_win(candidate, contest)]
    return _above(contest._replace(candidates=can_win)) if can_win else None


def _below(contest: _Contest) -> float | None:
    """The highest volume below the shape's at which Bedrock is cheaper, because instances are idle."""
    idle = min(month(candidate, scale_requests(contest.shape, 0.0), contest.end) for candidate in contest.candidates)
    first = max(1.0, float((idle + contest.maintenance_usd) / contest.per_request)) / contest.base
    factor = 1.0
    while contest.instances_win(factor):
        if factor <= first:
            return None
        factor = max(first, factor / GRID)
    return _edge(contest, factor, min(1.0, factor * GRID)) * contest.base


def _above(contest: _Contest) -> float | None:
    """The lowest volume above the shape's at which instances are cheaper."""
    full = max(_full_per_s(candidate, contest.end) for candidate in contest.candidates)
    last = MAX_INSTANCES * full / max(contest.shape.hourly)
    idle = min(month(candidate, scale_requests(contest.shape, 0.0), contest.end) for candidate in contest.candidates)
    factor = max(1.0, float((idle + contest.maintenance_usd) / contest.per_request) / contest.base)
    while not contest.instances_win(factor):
        factor *= GRID
        if factor > last:
            return None
    return _edge(contest, max(1.0, factor / GRID), factor) * contest.base


def _can_win(candidate: ServingCandidate, contest: _Contest) -> bool:
    """Whether a candidate is cheaper than Bedrock when its instances are as full as possible.

    The limit is FILLED under an autoscaler, and 1 behind a queue.
    """
    share = utilisation(candidate, contest.per_request)
    if share is None or candidate.estimate is None:
        return False
    tokens = candidate.estimate.tokens_per_s
    fullest = 1.0 if contest.shape.asynchronous else FILLED
    return share * tokens.mid / float(getattr(tokens, contest.end)) < fullest


def _edge(contest: _Contest, low: float, high: float) -> float:
    """The factor between two grid points from which instances are cheaper."""
    while high / low > CLOSE:
        middle = (low + high) / 2
        if contest.instances_win(middle):
            high = middle
        else:
            low = middle
    return high


def _shape(candidates: Sequence[ServingCandidate]) -> ServingWorkload | None:
    """The workload whose traffic is scaled, without a limit on instances; a request a second if it has no traffic."""
    if not candidates:
        return None
    serve = replace(candidates[0].serve, max_instances=None)
    return serve if requests_per_month(serve) else replace(serve, requests_per_s=1.0, hourly_requests_per_s=None)


def scale_requests(serve: ServingWorkload, factor: float) -> ServingWorkload:
    """The workload with the same daily shape and `factor` times the requests."""
    if serve.hourly_requests_per_s is not None:
        return replace(serve, hourly_requests_per_s=tuple(rate * factor for rate in serve.hourly_requests_per_s))
    return replace(serve, requests_per_s=(serve.requests_per_s or 0.0) * factor)


def month(candidate: ServingCandidate, serve: ServingWorkload, end: str = "mid") -> Decimal:
    """Dollars of a candidate's month under other traffic, at one end of the throughput range."""
    load = fleet(serve, _full_per_s(candidate, end), candidate.hosting)
    place = replace(candidate.place, nodes=max(1, load.instances.most))
    whole = replace(candidate, place=place, serve=serve)
    lines = (*whole.instance_lines(load), *whole.other_lines(load))
    return sum_usd(line.usd for line in lines)


def _full_per_s(candidate: ServingCandidate, end: str) -> float:
    """Requests a second of a full instance at one end of its throughput range: low, mid or high."""
    assert candidate.estimate is not None  # noqa: S101 - machines alone are compared with Bedrock
    tokens = candidate.estimate.tokens_per_s
    return layout_requests_per_s(candidate) * float(getattr(tokens, end)) / tokens.mid
