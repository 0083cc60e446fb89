"""The dollars of an endpoint's month: percentiles of one joint distribution of throughput and spot price."""

from collections.abc import Sequence
from decimal import Decimal

from launcher.model.enums import Basis
from launcher.model.fleet import fleet
from launcher.model.money import Price, UsdRange, sum_usd
from launcher.model.units import HOURS_PER_MONTH
from launcher.pricing.bill_lines import usd_range
from launcher.pricing.joint import (
    COARSE,
    FEW_CELLS,
    HIGH,
    LOW,
    Smooth,
    at_ends,
    spread_of,
    total_at,
)
from launcher.pricing.serving.candidate import ServingCandidate, layout_requests_per_s
from launcher.pricing.spot_prices import SpotPrice, forecast_at, random_price, spot_price


def month_usd(candidate: ServingCandidate) -> UsdRange | None:
    """Dollars of a month; None without a price. The median is the sum of the lines."""
    mid = candidate.usd
    if mid is None:
        return None
    low, high = (Decimal(repr(usd)) for usd in _totals(candidate, (LOW, HIGH)))
    return usd_range(low, mid, high)


def outcomes(candidate: ServingCandidate) -> tuple[float, ...]:
    """Equally likely months in dollars, the lowest first; empty without a price."""
    if candidate.usd is None:
        return ()
    return tuple(_totals(candidate, [(index + 0.5) / COARSE for index in range(COARSE)]))


def month_price(candidate: ServingCandidate) -> SpotPrice | None:
    """The spot price of an instance-hour during a month; None if the candidate is not on spot."""
    price, context = candidate.offer.price, candidate.context
    if candidate.hazard is None or not isinstance(price, Price):
        return None
    place = candidate.place
    forecast = forecast_at(place, context.catalog, context.rules.today)
    sure = price.basis is Basis.USER
    random = random_price(place, float(price.usd), forecast, HOURS_PER_MONTH, sure=sure)
    return spot_price(place, price, random, forecast)


def _totals(candidate: ServingCandidate, chances: Sequence[float]) -> list[float]:
    """The months not exceeded with these probabilities; a Bedrock month is certain."""
    if candidate.estimate is None:
        return [float(candidate.usd or 0)] * len(chances)
    tokens, span = candidate.estimate.tokens_per_s, month_price(candidate)
    # The slower an instance, the more of them: the spread of the time that a token takes.
    slowness = Smooth(1.0, spread_of(tokens.mid / tokens.high, 1.0, tokens.mid / tokens.low), 1.0)
    if span is None or not span.random.scale:
        return [sum(_bill(candidate, slowness.at(chance))) for chance in chances]
    bills = [_bill(candidate, factor) for factor in at_ends(slowness, FEW_CELLS)]
    paid = [(instances_usd / span.random.mid, other_usd) for instances_usd, other_usd in bills]
    return [total_at(span.random, paid, chance) for chance in chances]


def _bill(candidate: ServingCandidate, slowness: float) -> tuple[float, float]:
    """Dollars of the instances and of all other lines, if a token takes so many times the middle estimate."""
    load = fleet(candidate.serve, layout_requests_per_s(candidate) / slowness, candidate.hosting)
    lines = candidate.instance_lines(load), candidate.other_lines(load)
    instances_usd, other_usd = (float(sum_usd(line.usd for line in part)) for part in lines)
    return instances_usd, other_usd
