"""AWS::SageMaker::Cluster for EKS: a validated request, and nodes in the Kubernetes of that cluster.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json) for the request, and the rules of
launcher/sandbox/cluster/hyperpod_eks_request.py.

Emulated: the validation of the request; a cluster and its instances in moto's SageMaker; a Kubernetes node for each
instance whose script has ended well, with HyperPod's labels. Chips and interfaces become allocatable when the chart's
plugins report them. A group with a MinInstanceCount whose scripts fail ends the creation at once, not after three
hours. Not emulated: start times of instances, later changes of groups.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import eks_backends

from launcher.catalog.load import load
from launcher.rendering.kubernetes_pod import HEALTHY
from launcher.sandbox.aws.eks import devices_of, room_of
from launcher.sandbox.aws.fleet import EmulatedEc2
from launcher.sandbox.aws.hyperpod_boots import reason, start_instances
from launcher.sandbox.aws.model import Requested, ResourceRefusedError
from launcher.sandbox.aws.pod_cluster import EmulatedPodCluster
from launcher.sandbox.aws.training_plans import bought_in
from launcher.sandbox.cluster.hyperpod_eks_request import ControlPlane, eks_name, refuse
from launcher.sandbox.cluster.hyperpod_request import ClusterAccount, ec2_type, network_of
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.schema import RequestRefusedError
from launcher.sandbox.cluster.specification import ClusterFailedError
from launcher.sandbox.kubernetes.hosted import PodNodeGroup

COMPUTE = ("sagemaker.amazonaws.com/compute-type", "hyperpod")


def check_request(requested: Requested, hosts: Registry) -> str:
    """The EKS cluster that a request's nodes join.

    Raises:
        ResourceRefusedError: the nodes would not start; the message has every reason.
    """
    request = dict(requested.properties)
    name, ec2 = str(eks_name(request)), ec2_backends[requested.account_id][requested.region_name]
    cluster = eks_backends[requested.account_id][requested.region_name].clusters.get(name)
    vpc_of = {subnet.id: subnet.vpc_id for zone in ec2.subnets.values() for subnet in zone.values()}
    control = None
    if cluster is not None:
        subnet_id = cluster.resources_vpc_config["subnetIds"][0]
        control = ControlPlane(version=cluster.version, vpc_id=vpc_of[subnet_id], has_chart=hosts.has_chart(name))
    account = ClusterAccount(
        aws=EmulatedEc2(requested.account_id, requested.region_name),
        script="",
        file_systems=frozenset(),
        training_plans=bought_in(requested.account_id, requested.region_name),
    )
    try:
        refuse(request, account, control, vpc_of)
    except RequestRefusedError as refusal:
        raise ResourceRefusedError(str(refusal)) from refusal
    return name


def join(requested: Requested, hosts: Registry, cluster: EmulatedPodCluster) -> None:
    """Start the instances of every group, and add those that have started to their EKS cluster.

    Raises:
        ResourceRefusedError: the nodes exceed the sandbox's limit, or too few instances started.
    """
    request = cluster.request
    name = str(eks_name(request))
    ec2 = EmulatedEc2(requested.account_id, requested.region_name)
    for group in request["InstanceGroups"]:
        subnet = ec2.subnet(network_of(request, group)["Subnets"][0])
        ids = start_instances(cluster, group["InstanceGroupName"], group["InstanceCount"])
        if len(ids) < (group.get("MinInstanceCount", 0) if cluster.continuous else group["InstanceCount"]):
            raise ResourceRefusedError(reason(cluster))
        instances = _node_group(
            group, zone="" if subnet is None else subnet.zone, zone_id=getattr(subnet, "zone_id", "")
        )
        try:
            hosts.join(name, replace(instances, count=len(ids)))
        except ClusterFailedError as problem:
            raise ResourceRefusedError(str(problem)) from problem
        hosts.identify(name, group["InstanceGroupName"], ids)


def remove_nodes(request: Mapping[str, Any], hosts: Registry) -> None:
    """Remove the nodes of a cluster; the control plane stays."""
    for group in request["InstanceGroups"]:
        hosts.leave(str(eks_name(request)), group["InstanceGroupName"])


def _node_group(group: Mapping[str, Any], *, zone: str, zone_id: str) -> PodNodeGroup:
    facts = load().instance_types.get(ec2_type(group))
    efa = 0 if facts is None else facts.efa_interfaces
    group_labels = dict(group.get("KubernetesConfig", {}).get("Labels", {}))
    key, value = COMPUTE
    labels = {key: value, "sagemaker.amazonaws.com/instance-group-name": group["InstanceGroupName"], **group_labels}
    return PodNodeGroup(
        group=group["InstanceGroupName"],
        count=group["InstanceCount"],
        instance_type=group["InstanceType"],
        capacity_type="SPOT" if "Spot" in group.get("CapacityRequirements", {}) else "ON_DEMAND",
        zone=zone,
        zone_id=zone_id,
        room=room_of(facts, efa),
        devices=devices_of(facts, efa),
        labels={HEALTHY.key: HEALTHY.value, **labels},
        managed=False,
    )
