"""What jobs on a HyperPod cluster with EKS take and what they refuse; this version makes no such cluster."""

from collections.abc import Iterator, Mapping

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.planning.hyperpod import capacity_refusals, way_out

Locations = tuple[tuple[str, str | None], ...]
_MADE = f"name it in target.cluster, or set target.kind to {TargetKind.HYPERPOD_SLURM} or {TargetKind.EKS}"


def locations(
    request: PlanRequest, _catalog: Catalog, _facts: InstanceType, option: PurchaseOption, known: Locations
) -> Locations:
    """Where a plan names the target: SageMaker has one price for a region, spot one for a zone as EC2's has."""
    if request.target.kind is None:
        return ()
    if option is PurchaseOption.SPOT:
        return known
    return tuple(dict.fromkeys((region, request.target.az_id) for region, _zone in known))


def refusals(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Every reason why a place takes no job; empty when it does."""
    rules = (_cluster(request), _type(place, instances), capacity_refusals(request, place))
    return tuple(finding for rule in rules for finding in rule)


def remarks(_request: PlanRequest, place: Place, _instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """What holds for a place and is not confirmed."""
    if place.option is not PurchaseOption.SPOT:
        return ()
    message = (
        "AWS publishes no rate of spot in HyperPod: it is EC2's in the zone, dearer as the rates on demand are;"
        " its notice is best effort, and the quota of such instances is 0 until it is raised"
    )
    return (
        warning("hyperpod-spot-derived", "purchase.option", message, "purchase.price_overrides, once it is billed"),
    )


def _cluster(request: PlanRequest) -> Iterator[Finding]:
    """A cluster that would have to be made, and keys of ones that are made."""
    if request.target.cluster is None:
        message = "jobs go to a HyperPod cluster with EKS that exists, and none is named"
        yield error("cluster-not-named", "target.cluster", message, _MADE)
    if request.target.ssh_host is not None:
        message = f"a Kubernetes cluster has no head node, got {request.target.ssh_host}"
        yield error("eks-unused", "target.ssh_host", message, "drop it; target.context names the way in")
    if request.target.fallback_types:
        message = "a job asks for one type of node"
        hint = "list the types in target.instance_type: each is a candidate"
        yield error("eks-unused", "target.fallback_types", message, hint)


def _type(place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """Types that HyperPod does not have, or not in training plans."""
    name = place.instance_type
    if not instances[name].ml:
        message = f"HyperPod has no ml.{name}"
        yield error("not-on-hyperpod", "target.instance_type", message, way_out(instances[name], instances))
    if place.option is PurchaseOption.TRAINING_PLAN and not instances[name].training_plans:
        yield error("no-training-plan", "purchase.option", f"{name} is not sold in training plans")
