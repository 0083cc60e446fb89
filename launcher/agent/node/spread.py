"""The rates of a job's nodes as a summary of bounded size: a histogram, and the slowest nodes by name.

A job may have thousands of nodes, and their states go through a tree (`gathering`): a median needs all rates, and a
histogram with buckets of 0.5 % gives it to a quarter of a percent. Nodes of one job are nearly alike: few buckets.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_WIDTH = math.log(1.005)
_MAX_BUCKETS = 800
"""From the fastest node to one that is 50 times slower."""
_MAX_NAMED = 4


class NodeRate(NamedTuple):
    """The rate of one node: the higher, the faster."""

    rate: float
    part: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSpread:
    """Rates of nodes, all of one unit."""

    # The number of nodes in each bucket: `bucket_of` of their rates.
    counts: Mapping[int, int] = field(default_factory=dict)
    # The slowest nodes, the slowest first.
    slowest: tuple[NodeRate, ...] = ()

    @property
    def nodes(self) -> int:
        """The number of nodes with a rate."""
        return sum(self.counts.values())

    def median_of_others(self, slow: NodeRate) -> float | None:
        """The median rate of all nodes but one; None if there is no other."""
        counts = {**self.counts}
        counts[bucket_of(slow.rate)] = counts.get(bucket_of(slow.rate), 1) - 1
        others, seen = sum(counts.values()), 0
        for bucket, count in sorted(counts.items()):
            seen += count
            if count and 2 * seen >= others:
                return math.exp((bucket + 0.5) * _WIDTH)
        return None

    def to_json(self) -> list[Any]:
        """The JSON form, as a part of a node's state."""
        return [{str(bucket): count for bucket, count in self.counts.items()}, [list(slow) for slow in self.slowest]]


NO_RATES = RateSpread()


def bucket_of(rate: float) -> int:
    """The bucket of a rate.

    >>> bucket_of(1.0) == bucket_of(1.001), bucket_of(1.0) == bucket_of(1.1)
    (True, False)
    """
    return math.floor(math.log(rate) / _WIDTH)


def one(part: int, node: str, rate: Any) -> RateSpread:
    """The rate of one node; none if it is not a number above 0."""
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not math.isfinite(rate) or rate <= 0:
        return NO_RATES
    return RateSpread(counts={bucket_of(rate): 1}, slowest=(NodeRate(rate=float(rate), part=part, node=node),))


def join_rates(one: RateSpread, other: RateSpread) -> RateSpread:
    """Combine the rates of two groups of nodes; of too many buckets the slow end is kept."""
    if not other.counts or not one.counts:
        return one if one.counts else other
    counts = {**one.counts}
    for bucket, count in other.counts.items():
        counts[bucket] = counts.get(bucket, 0) + count
    kept = dict(sorted(counts.items())[:_MAX_BUCKETS])
    return RateSpread(counts=kept, slowest=tuple(sorted((*one.slowest, *other.slowest))[:_MAX_NAMED]))


def parse(document: Any) -> RateSpread:
    """Parse the JSON form.

    Raises:
        ValueError, TypeError, AttributeError: it is not that form.
    """
    counts, slowest = document
    rates = (NodeRate(rate=float(rate), part=int(part), node=str(node)) for rate, part, node in slowest)
    return RateSpread(
        counts={int(bucket): max(0, int(count)) for bucket, count in counts.items()},
        slowest=tuple(slow for slow in rates if math.isfinite(slow.rate) and slow.rate > 0),
    )
