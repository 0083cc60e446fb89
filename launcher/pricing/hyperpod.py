"""The cost of HyperPod's instances without accelerators, and the required gain from its surcharge over EC2."""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from launcher.catalog.load import Catalog
from launcher.model.enums import Basis, PurchaseOption, TargetKind
from launcher.model.finding import Finding, info
from launcher.model.hyperpod import ml_name
from launcher.model.instance_type import InstanceType
from launcher.model.money import Assumption, Price, Unpriced
from launcher.model.plan import Place
from launcher.model.work import Work
from launcher.targets.registry import target_of

CPU_RATIO = Decimal("1.2")
"""The price of a SageMaker CPU instance over its EC2 price: ml.c5.xlarge $0.204 and ml.c5.2xlarge $0.408 (Studio rates
of 2026-09-01, in the catalog) against c5.xlarge $0.17 and c5.2xlarge $0.34."""
_RATIO_SOURCE = "the ratio of ml.c5 to c5, 2026-09-01"
MINUTES_AN_HOUR = 60.0


def instance_price(catalog: Catalog, instance_type: str, region: str) -> Price | Unpriced:
    """The rate of a controller or login node: SageMaker's if known, else EC2's plus a fifth."""
    listed = catalog.sagemaker(ml_name(instance_type), region, "cluster")
    if isinstance(listed, Price):
        return listed
    plain = catalog.instance_price(instance_type, region)
    if isinstance(plain, Unpriced):
        return listed
    return replace(
        plain,
        usd=plain.usd * CPU_RATIO,
        source=f"{plain.source}; {_RATIO_SOURCE}",
        basis=Basis.DERIVED,
        note=f"${plain.usd:f} of EC2 times {CPU_RATIO}",
    )


def volume_assumption(kind: TargetKind, facts: InstanceType | None) -> Iterator[Assumption]:
    """A line for the volumes that are not on the bill: of a training job only where the type has no local disks."""
    target = target_of(kind)
    if not target.per_job:
        source = "they run in SageMaker's account; not confirmed"
        yield Assumption(name=f"root volumes of {target.title}", value="in their rate", unit="", source=source)
    elif facts is not None and facts.nvme_gb:
        source = "API reference, ResourceConfig: a type with NVMe disks gets no ML storage volume"
        yield Assumption(name="volumes of the job", value="none", unit="", source=source)


def surcharge(place: Place, work: Work, price: Price, hours: float, catalog: Catalog) -> Finding | None:
    """HyperPod's extra cost over EC2 on demand for the same job, and the break-even in minutes saved per failure.

    The break-even needs no guess of the recovery time: surcharge = failures x minutes saved x cluster rate. Only node
    failures count, because a replacement node does not repair software errors. The finding also states the value of
    the minutes that the estimate counts for a restart, if all were saved. The finding is None for other purchase
    options, and if EC2 has no price or is the more expensive one.
    """
    plain = catalog.on_demand(place.instance_type, place.region)
    if place.option is not PurchaseOption.ON_DEMAND or isinstance(plain, Unpriced) or plain.usd >= price.usd:
        return None
    more = (price.usd - plain.usd) * place.nodes * Decimal(repr(hours))
    percent = (price.usd / plain.usd - 1) * 100
    difference = f"${more:,.2f} more than ParallelCluster at ${plain.usd:f} an instance-hour ({percent:.0f} %)"
    failures, rate = work.node_failures_per_h * hours, float(price.usd * place.nodes)
    minutes = break_even_minutes(float(more), failures, rate)
    if minutes is None:
        message = f"{difference}; no failure of a node is expected that it could shorten"
        return info("hyperpod-surcharge", "target.kind", message)
    restart = work.failure_restart_h * MINUTES_AN_HOUR
    worth = recovery_usd(restart, failures, rate)
    message = (
        f"{difference}; failures of nodes expected: {failures:.2g}, counted with {restart:.0f} minutes each, worth"
        f" ${worth:,.2f} in all; HyperPod pays if it ends each {minutes:,.0f} minutes sooner"
    )
    return info("hyperpod-surcharge", "target.kind", message, "parallelcluster is the same job without it")


def recovery_usd(minutes: float, failures: float, cluster_usd_per_hour: float) -> float:
    """The value of saving so many minutes after each failure, in dollars.

    >>> recovery_usd(42.0, 2.0, 500.0)
    700.0
    """
    return minutes / MINUTES_AN_HOUR * failures * cluster_usd_per_hour


def break_even_minutes(surcharge_usd: float, failures: float, cluster_usd_per_hour: float) -> float | None:
    """Minutes by which each recovery must be shorter for a surcharge to pay; None if no failure is expected.

    >>> break_even_minutes(700.0, 2.0, 500.0)
    42.0
    """
    if failures <= 0 or cluster_usd_per_hour <= 0:
        return None
    return surcharge_usd / (failures * cluster_usd_per_hour) * MINUTES_AN_HOUR
