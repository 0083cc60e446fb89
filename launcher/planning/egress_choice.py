"""The cheapest way to the internet of a job's new network, where the plan leaves it open (`network.nat: auto`)."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from launcher.catalog.derived_items import ANCHOR
from launcher.catalog.load import Catalog
from launcher.catalog.selector import SPOT, Key
from launcher.catalog.store import Row
from launcher.model.enums import Egress, NatMode, PurchaseOption, TargetKind
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price, Range
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.sizing import NAT_INSTANCE, NAT_ROOT_GIB
from launcher.model.units import HOURS_PER_MONTH
from launcher.planning.fetching import (
    LOG_GB_PER_NODE_HOUR,
    NATS,
    fetched_weights_gb,
    own_fetch_h,
    packages_gb,
    shared_fetch_h,
)
from launcher.planning.nat import MOST_PUBLIC_NODES, egress, interface_endpoints, possible_egress
from launcher.targets.registry import target_of

MODES = {
    Egress.NAT_GATEWAY: NatMode.GATEWAY,
    Egress.NAT_INSTANCE: NatMode.INSTANCE,
    Egress.PUBLIC_ADDRESSES: NatMode.NONE,
    Egress.ENDPOINTS: NatMode.NONE,
}
"""The value of `network.nat` for each way."""
START_AND_TAIL_H = 0.5
"""Hours that the network is up before and after the job, at least."""


class _Prices(NamedTuple):
    """Dollars of the parts of a network, in one region; None without a price."""

    # Of a NAT gateway and of a NAT instance, each with its address, an hour.
    gateway: float | None
    instance: float | None
    # Of a GB through a NAT gateway.
    gigabyte: float
    # Of a public address and of an interface endpoint, an hour.
    address: float
    endpoint: float


class EgressOptions:
    """The ways of one request, with the list prices of the plan's region; of us-east-1 if the plan names no region."""

    def __init__(self, request: PlanRequest, catalog: Catalog) -> None:
        self.request, self.catalog = request, catalog
        named = request.target.region
        self._region = named[0] if named is not None and len(named) == 1 else ""
        self._able: dict[tuple[TargetKind, bool, bool, bool], tuple[tuple[Egress, ...], Egress | None]] = {}
        self._rates: dict[tuple[str, bool], float | None] = {}
        self._packages: dict[tuple[TargetKind, str], float] = {}

    def on_nodes(self, facts: InstanceType, nodes: int, hours: float) -> "NodesEgress":
        """The ways for a number of nodes of a type that run a job for some hours."""
        return NodesEgress(self, facts, nodes, hours)

    def able(self, kind: TargetKind, facts: InstanceType, nodes: int) -> tuple[tuple[Egress, ...], Egress | None]:
        """The ways that work on a target, and the one that a plan has there without a value of `network.nat`."""
        key = (kind, facts.network_cards > 1, nodes > 1, nodes > MOST_PUBLIC_NODES)
        if key not in self._able:
            place = Place(
                target=kind,
                instance_type=facts.name,
                nodes=nodes,
                region=self._region,
                az_id=None,
                option=PurchaseOption.ON_DEMAND,
            )
            instances = self.catalog.instance_types
            self._able[key] = possible_egress(self.request, place, instances), egress(self.request, place, instances)
        return self._able[key]

    @cached_property
    def prices(self) -> _Prices:
        """The prices of the network's parts."""
        region = self._region or ANCHOR

        def item(name: str) -> float | None:
            price = self.catalog.bill_item(name, region)
            return float(price.usd) if isinstance(price, Price) else None

        nat_price = self.catalog.instance_price(NAT_INSTANCE, region)
        gateway, gigabyte, address = item("vpc.nat-gateway"), item("vpc.nat-gateway-data"), item("vpc.public-ipv4")
        volume, endpoint = item("ebs.gp3-storage"), item("vpc.interface-endpoint")
        instance = None
        if isinstance(nat_price, Price) and volume is not None and address is not None:
            instance = float(nat_price.usd) + volume * NAT_ROOT_GIB / HOURS_PER_MONTH + address
        return _Prices(
            gateway=None if gateway is None or gigabyte is None or address is None else gateway + address,
            instance=instance,
            gigabyte=gigabyte or 0.0,
            address=address or 0.0,
            endpoint=endpoint or 0.0,
        )

    @cached_property
    def weights_gb(self) -> float:
        """Billed GB of weights that each node fetches from outside AWS."""
        return fetched_weights_gb(self.request, self.catalog)

    def packages_gb(self, kind: TargetKind, facts: InstanceType) -> float:
        """Billed GB of packages, and of an image, that each node fetches through a NAT."""
        key = (kind, facts.name)
        if key not in self._packages:
            self._packages[key] = packages_gb(self.request, kind, facts, self._region or ANCHOR)
        return self._packages[key]

    def rate(self, instance_type: str, *, spot: bool) -> float | None:
        """The lowest price of a node-hour in the plan's region, or in all regions; None without a price."""
        key = (instance_type, spot)
        if key not in self._rates:
            regions = (self._region,) if self._region else self.catalog.regions_of(instance_type)
            rows = (row for region in regions for row in self._rows(instance_type, region, spot=spot))
            self._rates[key] = min((float(row.usd) for row in rows if row is not None and row.usd), default=None)
        return self._rates[key]

    def _rows(self, instance_type: str, region: str, *, spot: bool) -> Iterator[Row | None]:
        """The catalog's prices of a type in a region."""
        selector = self.catalog.selector
        if not spot:
            yield selector.row(Key(PurchaseOption.ON_DEMAND.value, instance_type, region, ""))
            return
        for zone in selector.spot_zones(instance_type, region):
            yield selector.row(Key(SPOT, instance_type, region, zone or ""))


class NodesEgress:
    """The ways for a number of nodes of one type; the cheapest is computed once for each target and market."""

    __slots__ = ("_all", "_chosen", "_facts", "_fetch_h", "_hours", "_nodes")

    def __init__(self, choice: EgressOptions, facts: InstanceType, nodes: int, hours: float) -> None:
        self._all, self._facts, self._nodes, self._hours = choice, facts, nodes, hours
        self._chosen: dict[tuple[TargetKind, bool], Egress | None] = {}
        self._fetch_h: dict[tuple[Egress | None, TargetKind], Range | None] = {}

    def able(self, kind: TargetKind) -> tuple[Egress, ...]:
        """The ways that work for the job on a target."""
        return self._all.able(kind, self._facts, self._nodes)[0]

    def choose(self, kind: TargetKind, option: PurchaseOption) -> Egress | None:
        """The plan's way, or the cheapest one; None if Slipway creates no network."""
        key = (kind, option is PurchaseOption.SPOT)
        if key not in self._chosen:
            able, planned = self._all.able(kind, self._facts, self._nodes)
            self._chosen[key] = planned if len(able) < 2 else self._cheapest(able, planned, *key)  # noqa: PLR2004
        return self._chosen[key]

    def mode(self, kind: TargetKind, option: PurchaseOption) -> NatMode | None:
        """The value of `network.nat` that a plan needs for the chosen way; None if it has that way without one."""
        _, planned = self._all.able(kind, self._facts, self._nodes)
        chosen = self.choose(kind, option)
        return None if chosen is None or chosen is planned else MODES[chosen]

    def with_choice(self, kind: TargetKind, option: PurchaseOption, nat: NatMode | None) -> "NodesEgress":
        """The same with the way of a plan that was chosen before, at other prices; `nat` as `mode` gives it."""
        able, planned = self._all.able(kind, self._facts, self._nodes)
        choice = NodesEgress(self._all, self._facts, self._nodes, self._hours)
        choice._chosen[kind, option is PurchaseOption.SPOT] = next(
            (egress_mode for egress_mode in able if MODES[egress_mode] is nat), planned
        )
        return choice

    def fetch_hours(self, egress_mode: Egress | None, kind: TargetKind) -> Range | None:
        """The time for what nodes fetch before the first step: at their own speed, or all through one NAT."""
        if (egress_mode, kind) not in self._fetch_h:
            facts, weights = self._facts, self._all.weights_gb
            if egress_mode in NATS and egress_mode is not None:
                packages = self._all.packages_gb(kind, facts)
                shared = shared_fetch_h(egress_mode, facts, self._nodes, packages=packages, weights=weights)
                self._fetch_h[egress_mode, kind] = shared
            else:
                alone = own_fetch_h(weights, facts)
                self._fetch_h[egress_mode, kind] = Range(low=alone, mid=alone, high=alone) if alone else None
        return self._fetch_h[egress_mode, kind]

    def _cheapest(
        self,
        able: tuple[Egress, ...],
        planned: Egress | None,
        kind: TargetKind,
        spot: bool,  # noqa: FBT001
    ) -> Egress | None:
        """The way with the least dollars for the network and for nodes that wait; the planned one without a price."""
        prices, rate = self._all.prices, self._all.rate(self._facts.name, spot=spot)
        if rate is None or prices.gateway is None or prices.instance is None:
            return planned
        return min(
            able,
            key=lambda egress_mode: self._network_usd(egress_mode, kind) + self._waiting_usd(egress_mode, kind, rate),
        )

    def waiting_usd(self, egress_mode: Egress, kind: TargetKind, option: PurchaseOption) -> float:
        """Dollars of the nodes while they wait for what they fetch by a way; 0 without a price."""
        rate = self._all.rate(self._facts.name, spot=option is PurchaseOption.SPOT) or 0.0
        return self._waiting_usd(egress_mode, kind, rate)

    def _waiting_usd(self, egress_mode: Egress, kind: TargetKind, rate: float) -> float:
        fetch = self.fetch_hours(egress_mode, kind)
        return 0.0 if fetch is None else rate * self._nodes * fetch.mid

    def _network_usd(self, egress_mode: Egress, kind: TargetKind) -> float:
        prices, up_h, target = self._all.prices, self._hours + START_AND_TAIL_H, target_of(kind)
        if egress_mode is Egress.PUBLIC_ADDRESSES:
            return prices.address * up_h * (self._nodes + (target.head is not None))
        if egress_mode is Egress.ENDPOINTS:
            return prices.endpoint * up_h * len(interface_endpoints(self._all.request, target, egress_mode))
        if egress_mode is Egress.NAT_INSTANCE:
            return (prices.instance or 0.0) * up_h
        logs_gb = LOG_GB_PER_NODE_HOUR * up_h * (self._nodes + 1)
        fetched_gb = (self._all.packages_gb(kind, self._facts) + self._all.weights_gb) * self._nodes
        return (prices.gateway or 0.0) * up_h + prices.gigabyte * (fetched_gb + logs_gb)
