"""The cost of CloudFormation templates per hour and month: what runs once they are deployed, and the largest cost.

Prices are those of the catalog, undiscounted. A month has 730 hours. Data, requests and what is billed by use is named
and not counted.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import cache

from launcher.catalog.load import Catalog
from launcher.catalog.tables import read_cells
from launcher.catalog.usage_types import item_units
from launcher.model.enums import Market
from launcher.model.money import Price, Unpriced
from launcher.model.record import record
from launcher.model.template_estimate import EstimateLine, TemplateEstimate, UncountedType
from launcher.model.units import HOURS_PER_MONTH
from launcher.pricing.bill_lines import CENT_FRACTION, line_usd
from launcher.pricing.hyperpod import instance_price
from launcher.pricing.template import compute, managed, network, parts, volumes
from launcher.pricing.template.parts import Instances, Item, Missing, Part, Reader
from launcher.pricing.template.values import Resource, Template

HOUR = Decimal(str(HOURS_PER_MONTH))
_UNKNOWN_TYPE = "the estimate does not know this type"
READERS: Mapping[str, Reader] = {
    "AWS::AutoScaling::AutoScalingGroup": compute.auto_scaling_group,
    "AWS::Batch::ComputeEnvironment": compute.batch,
    "AWS::CloudFormation::CustomResource": compute.parallelcluster,
    "AWS::EC2::CapacityReservation": compute.reservation,
    "AWS::EC2::EC2Fleet": compute.fleet,
    "AWS::EC2::Instance": compute.instance,
    "AWS::EC2::NatGateway": network.nat_gateway,
    "AWS::EC2::SpotFleet": compute.spot_fleet,
    "AWS::EC2::VPCEndpoint": network.vpc_endpoint,
    "AWS::EC2::Volume": volumes.volumes,
    "AWS::EKS::Cluster": network.control_plane,
    "AWS::EKS::Nodegroup": compute.node_group,
    "AWS::ElasticLoadBalancingV2::LoadBalancer": network.load_balancer,
    "AWS::FSx::FileSystem": network.file_system,
    "AWS::PCS::Cluster": compute.pcs_cluster,
    "AWS::PCS::ComputeNodeGroup": compute.pcs_group,
    "AWS::SageMaker::Cluster": managed.hyperpod,
    "AWS::SageMaker::Endpoint": managed.endpoint,
    "AWS::SageMaker::NotebookInstance": managed.notebook,
    "AWS::SageMaker::Pipeline": managed.started_jobs,
    "AWS::SageMaker::ProcessingJob": managed.processing_job,
    "AWS::StepFunctions::StateMachine": managed.started_jobs,
    "Custom::AWS": managed.started_jobs,
}
"""By type of resource; the types with one fixed price are in template_resources.csv."""
CUSTOM = "Custom::"
_ACCELERATED = re.compile(r"(p|g|trn|inf|dl|vt)\d|optimal$|default_")
"""Families with accelerators, for types that the catalog does not know, and Batch's words for any type."""


def estimate(stacks: Iterable[Template], catalog: Catalog, now: datetime, source: str) -> TemplateEstimate:
    """Price the stacks of an app.

    Args:
        stacks: the stacks with their templates.
        catalog: the prices.
        now: the moment of the estimate, UTC.
        source: the file or folder, as the user named it.
    """
    lines: list[EstimateLine] = []
    others: Counter[str] = Counter()
    free = 0
    known = tuple(stacks)
    for stack in known:
        pricer = _Pricer(stack, catalog)
        for resource in stack.resources():
            priced = list(pricer.lines(resource))
            if priced:
                lines += priced
            elif (row := _row(resource.type)) is not None and row["treatment"] == "free":
                free += 1
            else:
                others[resource.type] += 1
    lines.sort(key=lambda line: (-(line.max_usd_per_hour or 0), line.stack, line.resource))
    uncounted = [_uncounted_type(kind, count) for kind, count in sorted(others.items())]
    return TemplateEstimate(
        as_of=now,
        source=source,
        stacks=tuple(stack.name for stack in known),
        regions=tuple(dict.fromkeys(stack.region for stack in known)),
        lines=tuple(lines),
        uncounted=tuple(uncounted),
        free=free,
    )


def _uncounted_type(kind: str, count: int) -> UncountedType:
    row = _row(kind)
    reason = row["note"] if row is not None else _UNKNOWN_TYPE
    return UncountedType(type=kind, resources=count, by_use=row is not None, reason=reason)


@cache
def _rows() -> Mapping[str, Mapping[str, str]]:
    """The rows of template_resources.csv by type: a treatment (`free`, `by-use`, `fixed`), the item of a fixed one."""
    return {cells["type"]: cells for cells in read_cells("template_resources.csv")}


@cache
def _row(kind: str) -> Mapping[str, str] | None:
    """The row of a type, or the first row whose pattern it matches."""
    rows = _rows()
    if kind in rows:
        return rows[kind]
    return next((row for pattern, row in rows.items() if "*" in pattern and fnmatchcase(kind, pattern)), None)


@record
class _What:
    """How a line calls its part."""

    name: str
    group: str
    accelerated: bool
    unit: str


class _Pricer:
    """Prices the parts of the resources of one stack."""

    def __init__(self, stack: Template, catalog: Catalog) -> None:
        self.stack, self.catalog, self.region = stack, catalog, stack.region

    def lines(self, resource: Resource) -> Iterator[EstimateLine]:
        """The lines of a resource; none for a type that has no hourly or monthly price."""
        for part in self._parts(resource):
            if isinstance(part, Missing):
                what = _What(name=part.name, group=part.group, accelerated=part.group == "compute", unit="")
                yield self._line(resource, part, what, (1.0, 1.0), Unpriced(reason=part.reason))
            elif isinstance(part, Item):
                yield self._item(resource, part)
            else:
                yield self._instances(resource, part)

    def _parts(self, resource: Resource) -> Iterator[Part]:
        row = _row(resource.type)
        reader = READERS.get(resource.type)
        if reader is None and resource.type.startswith(CUSTOM):
            reader = compute.parallelcluster if "ClusterConfiguration" in resource.properties else None
        elif resource.type == "AWS::CloudFormation::CustomResource":
            reader = reader if "ClusterConfiguration" in resource.properties else None
        if reader is not None:
            yield from reader(resource, self.stack)
        elif row is not None and row["treatment"] == "fixed":
            yield Item(item=row["item"], name=row["note"], group=row["group"])

    def _item(self, resource: Resource, part: Item) -> EstimateLine:
        price, unit = self.catalog.bill_item(part.item, self.region), _units()[part.item]
        counts = (part.count, part.count if part.most is None else part.most)
        what = _What(name=part.name, group=part.group, accelerated=False, unit=unit)
        line = self._line(resource, part, what, (part.each * counts[0], part.each * counts[1]), price)
        if not isinstance(price, Price):
            return line
        # Free tiers of volumes hold for each volume; those of an account are used up by others.
        each = line_usd(price, part.each) if part.item.startswith("ebs.") else price.usd * Decimal(str(part.each))
        hours = HOUR if unit.endswith("month") else Decimal(1)
        return _with_usd(line, *(each * Decimal(str(count)) / hours for count in counts))

    def _instances(self, resource: Resource, part: Instances) -> EstimateLine:
        rates = {kind: self._rate(kind, part) for kind in part.types}
        text = part.types[0] if part.component else f"{' or '.join(part.types)}, {part.market.replace('-', ' ')}"
        what = _What(
            name=f"{part.name}: {text}" if part.name else text,
            group="compute",
            accelerated=self._is_accelerated(part.types),
            unit="vCPU-hour" if part.name == compute.VCPUS else "instance-hour",
        )
        counts = (part.count, part.most)
        missing = next((rate for rate in rates.values() if isinstance(rate, Unpriced)), None)
        if missing is not None:
            return self._line(resource, part, what, counts, missing)
        price = max((rate for rate in rates.values() if isinstance(rate, Price)), key=lambda rate: rate.usd)
        line = self._line(resource, part, what, counts, price)
        if len(rates) > 1:
            dearest = next(kind for kind, rate in rates.items() if rate == price)
            line = replace(line, note="; ".join(filter(None, (line.note, f"at the price of {dearest}, the dearest"))))
        return _with_usd(line, *(price.usd * Decimal(str(count)) for count in counts))

    def _is_accelerated(self, types: Iterable[str]) -> bool:
        plain = [kind.removeprefix("ml.") for kind in types]
        known = [self.catalog.instance_types.get(kind) for kind in plain]
        return any(
            facts.accelerator is not None if facts is not None else _ACCELERATED.match(kind) is not None
            for kind, facts in zip(plain, known, strict=True)
        )

    def _rate(self, kind: str, part: Instances) -> Price | Unpriced:
        """The price of an instance-hour, or of a vCPU-hour of the type."""
        if part.name != compute.VCPUS:
            return self._instance_rate(kind, part)
        facts = self.catalog.instance_types.get(kind)
        if facts is None:
            return Unpriced(reason=f"{kind} is no instance type of the catalog")
        rate = self._instance_rate(kind, part)
        return replace(rate, usd=rate.usd / facts.vcpus) if isinstance(rate, Price) else rate

    def _instance_rate(self, kind: str, part: Instances) -> Price | Unpriced:
        match part.market:
            case parts.PLAN:
                return self.catalog.training_plan(kind.removeprefix("ml."), self.region)
            case parts.SPOT:
                return self._spot(kind)
            case parts.BLOCK:
                return self.catalog.capacity_block(kind, self.region)
        return self._managed_price(kind, part.component) if part.component else self._on_demand(kind)

    def _on_demand(self, kind: str) -> Price | Unpriced:
        """EC2's price; that of a type without accelerators may be derived from other regions."""
        facts = self.catalog.instance_types.get(kind)
        if facts is not None and facts.accelerator is not None:
            return self.catalog.on_demand(kind, self.region)
        return self.catalog.instance_price(kind, self.region)

    def _managed_price(self, kind: str, component: str) -> Price | Unpriced:
        listed = self.catalog.sagemaker(kind, self.region, component)
        facts = self.catalog.instance_types.get(kind.removeprefix("ml."))
        if isinstance(listed, Price) or facts is None or facts.accelerator is not None:
            return listed
        return instance_price(self.catalog, facts.name, self.region)

    def _spot(self, kind: str) -> Price | Unpriced:
        """The price in the dearest zone."""
        zones = [price for price in self.catalog.spot(kind, self.region).values() if price.market is Market.OPEN]
        unpriced = Unpriced(reason=f"no spot price of {kind} in {self.region} is known")
        return max(zones, key=lambda price: price.usd) if zones else unpriced

    def _line(
        self, resource: Resource, part: Part, what: _What, quantities: tuple[float, float], price: Price | Unpriced
    ) -> EstimateLine:
        note = "" if isinstance(part, Missing) else part.note
        priced = price if isinstance(price, Price) else None
        notes = dict.fromkeys(filter(None, (note, priced.note if priced else "")))
        return EstimateLine(
            stack=self.stack.name,
            region=self.region,
            resource=resource.path,
            type=resource.type,
            name=what.name,
            group=what.group,
            accelerated=what.accelerated,
            unit=what.unit,
            quantity=quantities[0],
            max_quantity=quantities[1],
            unit_price_usd=priced.usd if priced else None,
            usd_per_hour=None,
            usd_per_month=None,
            max_usd_per_hour=None,
            max_usd_per_month=None,
            unpriced=price.reason if isinstance(price, Unpriced) else None,
            source=priced.source if priced else "",
            basis=priced.basis if priced else None,
            as_of=priced.as_of if priced else None,
            note="; ".join(notes),
        )


def _with_usd(line: EstimateLine, usd: Decimal, most: Decimal) -> EstimateLine:
    return replace(
        line,
        usd_per_hour=usd.quantize(CENT_FRACTION),
        usd_per_month=(usd * HOUR).quantize(CENT_FRACTION),
        max_usd_per_hour=most.quantize(CENT_FRACTION),
        max_usd_per_month=(most * HOUR).quantize(CENT_FRACTION),
    )


@cache
def _units() -> Mapping[str, str]:
    return item_units()
