"""An emulated Kubernetes cluster that a plan names as existing.

Judged by: the same as a cluster of Slipway's own, in eks.py and launcher/sandbox/kubernetes.

Emulated: a cluster in moto's EKS with its own Kubernetes; as many instances as the job needs, with the planned type,
zone and purchase option, which show their chips and EFA interfaces; the operator, the queue with room for all of them,
the priority and the claims that the plan names; a role for the job's pods. Not emulated: the other contents and users
of the real cluster, and its HyperPod side.
"""

from typing import Any

from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends

from launcher.catalog.load import load
from launcher.model.kubernetes import SERVICE_ACCOUNT
from launcher.rendering.kubernetes_pod import HEALTHY
from launcher.sandbox.aws.eks import devices_of, room_of
from launcher.sandbox.aws.eks_calls import parts_of
from launcher.sandbox.aws.hyperpod_nodes import COMPUTE
from launcher.sandbox.aws.task_governance import queue_objects
from launcher.sandbox.cluster.existing import ExistingCluster
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.kubernetes.claims import standing
from launcher.sandbox.kubernetes.hosted import PodNodeGroup
from launcher.sandbox.kubernetes.kueue import VERSION

_VALUE = 50
"""The value of the priority class, the only class of the cluster."""


def make_existing(region: str, requested: ExistingCluster, hosts: Registry) -> bool:
    """Create a cluster; False if it already exists."""
    backend = eks_backends[DEFAULT_ACCOUNT_ID][region]
    if requested.name in backend.clusters:
        return False
    role = f"arn:aws:iam::{DEFAULT_ACCOUNT_ID}:role/{requested.name}"
    zones = ec2_backends[DEFAULT_ACCOUNT_ID][region].subnets.values()
    subnets = [subnet.id for zone in zones for subnet in zone.values()]
    cluster = backend.create_cluster(
        name=requested.name, role_arn=role, resources_vpc_config={"subnetIds": subnets[:2], "securityGroupIds": []}
    )
    cluster.endpoint, cluster.certificate_authority = hosts.host(requested.name, region), {}
    parts_of(cluster).pod_roles[requested.namespace, SERVICE_ACCOUNT] = role
    hosts.join(requested.name, _node_group(region, requested))
    hosts.install(requested.name, requested.operators, (), "")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": requested.namespace}}
    claims = [namespace, *standing(requested.namespace, requested.claims)] if requested.claims else []
    hosts.put(requested.name, [*_queue(requested), *claims])
    return True


def _node_group(region: str, requested: ExistingCluster) -> PodNodeGroup:
    facts = load().instance_types.get(requested.instance_type.removeprefix("ml."))
    efa = 0 if facts is None else facts.efa_interfaces
    key, value = COMPUTE
    return PodNodeGroup(
        group="workers",
        count=requested.count,
        instance_type=requested.instance_type,
        capacity_type=requested.capacity_type,
        zone=f"{region}a",
        zone_id=requested.zone_id,
        room={**room_of(facts, efa), **devices_of(facts, efa)},
        devices={},
        labels={HEALTHY.key: HEALTHY.value, key: value} if requested.managed else {},
        managed=not requested.managed,
    )


def _queue(requested: ExistingCluster) -> list[dict[str, Any]]:
    if requested.queue is None:
        return []
    types = [{"InstanceType": requested.instance_type, "Count": requested.count}]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": requested.namespace}}
    objects = [namespace, *queue_objects(requested.namespace, requested.queue, types, preempts="LowerPriority")]
    if requested.priority is not None:
        named = {"metadata": {"name": requested.priority}, "value": _VALUE}
        objects.append({"apiVersion": f"kueue.x-k8s.io/{VERSION}", "kind": "WorkloadPriorityClass", **named})
    return objects
