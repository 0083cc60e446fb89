"""The pools of an Auto Scaling group: in which order EC2 tries types and zones, and what it answers of each.

Emulated, after botocore 1.44.5 (autoscaling/2011-01-01 service-2.json, InstancesDistribution) and the EC2 Auto Scaling
user guide ("Allocation strategies for multiple instance types", "Add an Availability Zone": the zone with the fewest
instances first, then the others): `prioritized` and `lowest-price` on demand; `lowest-price` over SpotInstancePools,
`capacity-optimized`, `capacity-optimized-prioritized` and `price-capacity-optimized` on spot; SpotMaxPrice. A pool has
the capacity that `Capacity.free` gives it, else enough. Prices are those of the catalog, or `Capacity.spot_usd`.
Messages: of groups with a mixed instances policy as cortexlabs/cortex#1258 and buildkite/elastic-ci-stack-for-aws#851
show them; of one type as in aws-deepracer-community/deepracer-on-the-spot#55. Not emulated: weights, attributes instead
of types, shares of on-demand instances between 0 and 100 %, failed activities of zones before the one that starts.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from launcher.catalog.load import load
from launcher.model.money import Price
from launcher.sandbox.cluster.specification import EmulatedSubnet

STRATEGY, MOST_POOLS = "SpotAllocationStrategy", 20
LOWEST_PRICE = "lowest-price"
"""The default of groups on spot."""
POOLS = 2
"""SpotInstancePools by default."""
INSUFFICIENT = (
    "InsufficientInstanceCapacity",
    (
        "We currently do not have sufficient {type} capacity in the Availability Zone you requested ({zone}). Our"
        " system will be working on provisioning additional capacity. You can currently get {type} capacity by not"
        " specifying an Availability Zone in your request"
    ),
)
NO_SPOT = ("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request")
SPOT_QUOTA = ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
QUOTA = (
    "VcpuLimitExceeded",
    (
        "You have requested more vCPU capacity than your current vCPU limit of {limit} allows for the instance bucket"
        " that the specified instance type belongs to"
    ),
)
TOO_LOW = (
    "SpotMaxPriceTooLow",
    "Your Spot request price of {most} is lower than the minimum required Spot request fulfillment price of {usd}",
)


@dataclass(slots=True)
class Capacity:
    """What EC2 lacks: instance types, and pairs of a type and a zone; the quotas in vCPUs, on spot and on demand.

    `free` is how many further instances a type can have in a zone, as "g5.xlarge/us-east-2a" or with the zone's id;
    `spot_usd` are the prices of types on spot, in dollars an hour, that differ from the catalog's, also of one zone.
    """

    lacking: Collection[str] = frozenset()
    free: dict[str, int] = field(default_factory=dict)
    spot_vcpus: int | None = None
    vcpus: int | None = None
    spot_usd: Mapping[str, Decimal] = field(default_factory=dict)

    def free_instances(self, type_: str, facts: EmulatedSubnet) -> float:
        """How many further instances a pool can start."""
        names = (type_, *_names(type_, facts))
        if set(names) & set(self.lacking):
            return 0
        return min((self.free[name] for name in names if name in self.free), default=math.inf)

    def take(self, type_: str, facts: EmulatedSubnet) -> None:
        """Count an instance that a pool has started."""
        for name in _names(type_, facts):
            if name in self.free:
                self.free[name] -= 1

    def usd(self, type_: str, region: str, zone: str, zone_id: str) -> Decimal | None:
        """The spot price of a type in a zone; None without a rate."""
        for name in (f"{type_}/{zone}", f"{type_}/{zone_id}", type_):
            if name in self.spot_usd:
                return self.spot_usd[name]
        rates = load().spot(type_, region)
        # Some rates are those of the region.
        rate = rates.get(zone_id) or rates.get("")
        return None if rate is None else rate.usd


def _names(type_: str, facts: EmulatedSubnet) -> tuple[str, str]:
    return f"{type_}/{facts.zone}", f"{type_}/{facts.zone_id}"


class Pool(NamedTuple):
    """A type in a subnet, with its place in the order of the overrides."""

    type: str
    subnet: str
    facts: EmulatedSubnet
    priority: int


def order_pools(  # noqa: PLR0917  the facts of one request
    types: Sequence[str],
    subnets: Mapping[str, EmulatedSubnet],
    distribution: Mapping[str, Any],
    capacity: Capacity,
    region: str,
    wanted: int,
    running: Sequence[tuple[str, str]],
    *,
    spot: bool,
) -> Iterator[Pool]:
    """The pools in the order in which EC2 Auto Scaling asks for an instance.

    Args:
        types: the types of the overrides, in their order.
        subnets: the group's subnets by id.
        distribution: the InstancesDistribution of the group's policy; empty without one.
        capacity: EC2's capacity and prices.
        region: the region.
        wanted: how many instances the group starts now.
        running: type and zone of each instance of the group.
        spot: whether the instances are on spot.
    """
    zones = Counter(zone for _, zone in running)
    for subnet, facts in sorted(subnets.items(), key=lambda entry: zones[entry[1].zone]):
        pools = [Pool(type_, subnet, facts, priority) for priority, type_ in enumerate(types)]
        key = _spot_key(distribution, capacity, region, wanted) if spot else _on_demand_key(distribution, region)
        pools.sort(key=key)
        if spot and distribution.get(STRATEGY, LOWEST_PRICE) == LOWEST_PRICE:
            cheapest = pools[: int(distribution.get("SpotInstancePools", POOLS))]
            cheapest.sort(key=lambda pool: list(running).count((pool.type, pool.facts.zone)))
            pools[: len(cheapest)] = cheapest
        yield from pools


def _on_demand_key(distribution: Mapping[str, Any], region: str) -> Callable[[Pool], Any]:
    if distribution.get("OnDemandAllocationStrategy") != LOWEST_PRICE:
        return lambda pool: pool.priority

    def price(pool: Pool) -> tuple[Decimal, int]:
        known = load().on_demand(pool.type, region)
        return (known.usd if isinstance(known, Price) else Decimal("Infinity")), pool.priority

    return price


def _spot_key(
    distribution: Mapping[str, Any], capacity: Capacity, region: str, wanted: int
) -> Callable[[Pool], tuple[Any, ...]]:
    strategy = distribution.get(STRATEGY, LOWEST_PRICE)

    def key(pool: Pool) -> tuple[Any, ...]:
        left = capacity.free_instances(pool.type, pool.facts)
        known = capacity.usd(pool.type, region, pool.facts.zone, pool.facts.zone_id)
        usd = Decimal("Infinity") if known is None else known
        if strategy == "capacity-optimized":
            return -left, pool.priority
        if strategy == "capacity-optimized-prioritized":
            return left < wanted, pool.priority
        if strategy == "price-capacity-optimized":
            # The cheapest of the pools with the highest capacity for the number of instances.
            return left < wanted, 0 if left >= wanted else -left, usd, pool.priority
        return usd, pool.priority

    return key


def refusal_text(refusal: tuple[str, str], *, mixed: bool, spot: bool) -> str:
    """The message of an activity: a group with a mixed instances policy names the market and the error's code."""
    code, message = refusal
    if not mixed:
        return message
    code, message = NO_SPOT if spot and code == INSUFFICIENT[0] else (code, message)
    return f"Could not launch {'Spot' if spot else 'On-Demand'} Instances. {code} - {message}"


def distribution_rules(distribution: Mapping[str, Any]) -> Iterator[str]:
    """Problems of an InstancesDistribution that botocore's model cannot express."""
    share = int(distribution.get("OnDemandPercentageAboveBaseCapacity", 100))
    if not 0 <= share <= 100:  # noqa: PLR2004
        yield f"OnDemandPercentageAboveBaseCapacity must be between 0 and 100, got {share}"
    if "SpotInstancePools" in distribution:
        if distribution.get(STRATEGY, LOWEST_PRICE) != LOWEST_PRICE:
            yield "The SpotInstancePools option is only available with the lowest-price allocation strategy."
        elif not 1 <= int(distribution["SpotInstancePools"]) <= MOST_POOLS:
            yield f"SpotInstancePools must be between 1 and {MOST_POOLS}, got {distribution['SpotInstancePools']}"
    allowed = {
        STRATEGY: {LOWEST_PRICE, "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized"},
        "OnDemandAllocationStrategy": {LOWEST_PRICE, "prioritized"},
    }
    for name, values in allowed.items():
        if distribution.get(name) not in {None, *values}:
            yield f"{name} must be one of {', '.join(sorted(values))}, got {distribution[name]}"
