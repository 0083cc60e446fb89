"""The rules of EKS clusters with node groups for one place: findings, each with a fix."""

from collections.abc import Iterator, Mapping

from launcher.model.eks import CAPACITY_TYPES
from launcher.model.enums import Operator, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.planning.targets import Rules

_TO_PARALLELCLUSTER = f"or set target.kind to {TargetKind.PARALLELCLUSTER}"
MAX_NODES = 450
"""Limit of one managed node group, before a quota is raised (EKS service quotas)."""


def refusals(request: PlanRequest, place: Place, _instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Every reason why a place cannot be a node group; empty if it can."""
    rules = (_capacity(request, place), _unused(request), _new_cluster(request, place))
    return tuple(finding for rule in rules for finding in rule)


def _capacity(request: PlanRequest, place: Place) -> Iterator[Finding]:
    purchase = request.purchase
    if place.option not in CAPACITY_TYPES:
        message = f"{place.option} does not buy EKS nodes, allowed: {', '.join(CAPACITY_TYPES)}"
        yield error("option-without-nodes", "purchase.option", message)
    if place.option is PurchaseOption.SPOT and purchase.reservation is not None:
        message = "spot instances cannot use a reservation"
        yield error("spot-with-reservation", "purchase.reservation", message, "remove one of the two")
    if place.nodes > MAX_NODES:
        message = f"a node group has at most {MAX_NODES} nodes, got {place.nodes}"
        yield error("too-many-nodes", "target.nodes", message, "use fewer and larger instances")


def _unused(request: PlanRequest) -> Iterator[Finding]:
    target, storage = request.target, request.storage
    given = (
        ("target.fallback_types", target.fallback_types, "list the types in target.instance_type: each is a candidate"),
        ("target.ami", target.ami, "its nodes run the EKS AMI for their accelerator"),
        ("target.ssh_host", target.ssh_host, "set target.cluster to use an existing Kubernetes cluster"),
        ("storage.lustre_gib", storage.lustre_gib, f"keep data in S3, {_TO_PARALLELCLUSTER}"),
        ("storage.login_nodes", storage.login_nodes, "Slipway reaches its API from this computer"),
        ("storage.login_pool", storage.login_pool, "Slipway reaches its API from this computer"),
    )
    for path, value, hint in given:
        if value:
            yield error("eks-unused", path, f"pods on EKS do not use this key, got {value}", hint)


def _new_cluster(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """Keys that a new cluster does not support, and missing settings of its network."""
    if request.target.cluster is not None:
        return
    if request.target.queue is not None:
        message = f"a cluster that Slipway creates for the job has no Kueue, got {request.target.queue}"
        yield error("queue-without-cluster", "target.queue", message, "set target.cluster to a cluster that has Kueue")
    if request.run.operator not in (None, Operator.JOB):
        message = f"a cluster that Slipway creates for the job has no training operator, got {request.run.operator}"
        yield error(
            "operator-without-cluster",
            "run.operator",
            message,
            "set run.operator to auto, or set target.cluster to a cluster that has the operator",
        )
    yield from two_zones(request, place)


def two_zones(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """EKS requires subnets in two zones for its control plane (EKS user guide, VPC and subnet requirements)."""
    network = request.network
    if network.vpc_id is not None:
        zones = {subnet.az_id for subnet in network.subnets} or set(network.subnet_ids)
        path = "network.subnet_ids"
    elif network.name is not None:
        zones, path = set(network.az_ids), "network.az_ids"
    else:
        return
    if len(zones) < 2:  # noqa: PLR2004 - two
        message = f"the EKS control plane needs subnets in 2 zones, got {', '.join(sorted(zones)) or 'none'}"
        yield error("one-zone", path, message, f"add another zone of {place.region}")


# EC2's prices are ParallelCluster's too, and the control plane comes on top.
RULES = Rules(refusals=refusals)
