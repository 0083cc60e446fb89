"""Dollars per hour of stacks, from their templates: before, during and after a deployment.

All nodes count at their quoted rate, from the guard's function; other instances, NAT gateways, addresses and file
systems count at the listed price. Traffic, logs and storage in S3 are excluded.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from typing import Any

from launcher.catalog.load import Catalog
from launcher.model.money import Price, Unpriced
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.bill import FSX
from launcher.pricing.hyperpod import instance_price
from launcher.targets.clusters import stacks_of
from launcher.targets.registry import TARGETS
from launcher.workflow.cluster.readback.reading import BilledInstances, ReadInstances

Resources = Mapping[str, Any]
"""The resources of one template, by logical id."""
ADDRESS = "vpc.public-ipv4"
PAID = {"AWS::EC2::NatGateway": "vpc.nat-gateway", "AWS::EC2::EIP": ADDRESS, "AWS::EKS::Cluster": "eks.cluster"}
"""Resources that are billed by the hour independent of use, and the name of their price."""
UNCOUNTED = "volumes, logs and alarms"
"""What is not in the rate of stacks: the quote's lines have it."""
RATE = "USD_PER_NODE_HOUR"
"""The rate variable of the guard's function (infra/parts/guard_function.py)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HourlyRate:
    """Dollars per hour of stacks with all nodes running; `unknown` names the excluded resources without a price.

    `scaled` are the initial and the largest number of an endpoint's instances; `usd` counts the initial ones.
    """

    usd: Decimal
    unknown: tuple[str, ...] = ()
    scaled: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def text(self) -> str:
        """The rate in words for the user."""
        return f"${self.usd:,.2f}" + (f" and {' and '.join(self.unknown)}, not priced" if self.unknown else "")

    @property
    def sentence(self) -> str:
        """The rate in a sentence; another sentence if the stacks have no hourly cost."""
        if not self.usd and not self.unknown:
            return "nothing in these stacks is billed by the hour"
        if self.scaled is None:
            return f"{self.text} an hour while all nodes run, without {UNCOUNTED}"
        first, most = self.scaled
        instances = f"{first} of at most {most}" if most > first else number_of(first, "instance")
        return f"{self.text} an hour with {instances}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paid:
    """A resource billed by the hour; `usd` is None without a price."""

    name: str
    usd: Decimal | None
    with_jobs: bool = False
    nodes: bool = False
    scaled: tuple[int, int] | None = None


def hourly_rate(
    templates: Iterable[Mapping[str, Any]],
    catalog: Catalog,
    region: str,
    *,
    nodes: bool = True,
    only: Container[str] | None = None,
) -> HourlyRate:
    """The hourly cost of the stacks of some templates: with all nodes running, or without nodes.

    `only` are the logical ids of the resources that count; None: all.
    """
    usd, unknown, scaled = Decimal(0), [], None
    for template in templates:
        for logical_id, items in _paid_resources(template, catalog, region):
            if only is not None and logical_id not in only:
                continue
            counted = [item for item in items if nodes or not item.nodes]
            usd += sum((item.usd for item in counted if item.usd is not None), Decimal(0))
            unknown += [item.name for item in counted if item.usd is None]
            scaled = next((item.scaled for item in counted if item.scaled is not None), scaled)
    return HourlyRate(usd=usd, unknown=tuple(unknown), scaled=scaled)


def running_rates(template: Mapping[str, Any], catalog: Catalog, region: str) -> dict[str, Decimal]:
    """Dollars per hour of each resource of a template with an hourly cost, before any job runs.

    Nodes that start with a job, and resources without a price, are excluded.
    """
    rates = {}
    for logical_id, paid in _paid_resources(template, catalog, region):
        usd = sum((item.usd for item in paid if item.usd is not None and not item.with_jobs), Decimal(0))
        if usd:
            rates[logical_id] = usd
    return rates


def _paid_resources(
    template: Mapping[str, Any], catalog: Catalog, region: str
) -> Iterator[tuple[str, tuple[_Paid, ...]]]:
    resources = template.get("Resources", {})
    rate = next((usd for usd in map(_quoted_rate, resources.values()) if usd is not None), None)
    for logical_id, resource in resources.items():
        yield logical_id, tuple(_paid_parts(resource, resources, rate, catalog=catalog, region=region))


def _quoted_rate(resource: Mapping[str, Any]) -> Decimal | None:
    variables = resource.get("Properties", {}).get("Environment", {})
    rate = variables.get("Variables", {}).get(RATE) if isinstance(variables, Mapping) else None
    return Decimal(rate) if rate is not None else None


def _paid_parts(
    resource: Mapping[str, Any], resources: Resources, rate: Decimal | None, *, catalog: Catalog, region: str
) -> Iterator[_Paid]:
    kind, properties = resource["Type"], resource.get("Properties", {})
    if kind in PAID:
        yield _Paid(name=kind, usd=_usd(catalog.bill_item(PAID[kind], region)))
    if kind == "AWS::EC2::Instance":  # a NAT instance
        name, cards = properties["InstanceType"], properties.get("NetworkInterfaces", ())
        yield _Paid(name=f"1 x {name}", usd=_usd(catalog.on_demand(name, region)))
        if any(card.get("AssociatePublicIpAddress") for card in cards):
            yield _Paid(name=ADDRESS, usd=_usd(catalog.bill_item(ADDRESS, region)))
    if kind == "AWS::EC2::VPCEndpoint" and properties.get("VpcEndpointType") == "Interface":
        usd = _usd(catalog.bill_item("vpc.interface-endpoint", region))
        yield _Paid(name=kind, usd=None if usd is None else usd * len(properties.get("SubnetIds", ())))
    if kind == "AWS::FSx::FileSystem":
        yield _Paid(name=kind, usd=_file_system(properties, catalog, region))
    holds = _instance_readers().get(kind)
    for instances in holds(properties, resources) if holds is not None else ():
        price = rate if instances.nodes else _listed_rate(instances, catalog, region)
        usd = None if price is None else price * instances.count
        yield _Paid(
            name=f"{instances.count} x {instances.type}",
            usd=usd,
            with_jobs=instances.with_jobs,
            nodes=instances.nodes,
            scaled=None if instances.most is None else (instances.count, instances.most),
        )


def _listed_rate(instances: BilledInstances, catalog: Catalog, region: str) -> Decimal | None:
    if instances.managed:
        return _usd(instance_price(catalog, instances.type, region))
    return _usd(catalog.on_demand(instances.type, region))


def _file_system(properties: Mapping[str, Any], catalog: Catalog, region: str) -> Decimal | None:
    speed = properties.get("LustreConfiguration", {}).get("PerUnitStorageThroughput")
    price = _usd(catalog.bill_item(FSX[speed], region)) if speed in FSX else None
    if price is None:
        return None
    return Decimal(properties["StorageCapacity"]) * price / Decimal(str(HOURS_PER_MONTH))


def _usd(price: Price | Unpriced) -> Decimal | None:
    return price.usd if isinstance(price, Price) else None


@cache
def _instance_readers() -> Mapping[str, ReadInstances]:
    return {type_: holds for kind in TARGETS for type_, holds in stacks_of(kind).instances.items()}
