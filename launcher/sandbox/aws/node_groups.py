"""The instances of EKS's managed node groups in moto's EC2.

Judged by: moto 5.2.5 for the calls of EC2.

Emulated: an instance for each node, with EKS's tags (EKS user guide, managed node groups); an instance of a Capacity
Block has its reservation; RebootInstances ends what runs on the node; TerminateInstances replaces the node, because
the group's Auto Scaling group keeps its size; the user data of an instance (eks_boots.py): one that does not join its
cluster stays, and is no node. Not emulated: the Auto Scaling group itself, and the time of a boot.
"""

from collections.abc import Sequence
from typing import Any

from moto.ec2.models import ec2_backends
from moto.ec2.responses.instances import InstanceResponse
from moto.eks.models import EKSBackend, eks_backends

from launcher.sandbox.aws import eks_boots
from launcher.sandbox.aws.fleet import LIFECYCLES, EmulatedEc2, user_data_text
from launcher.sandbox.cluster.registry import Registry

_IMAGE = "ami-00000000000000000"
_LIVING = ("pending", "running")
_CLUSTER, _GROUP = "eks:cluster-name", "eks:nodegroup-name"
_UNJOINED: set[str] = set()
"""The instances that have not joined their cluster."""


def install(owner: Registry) -> None:
    """Let the calls of EC2 that reboot and end instances reach the nodes of a cluster."""
    rebooted, terminated = InstanceResponse.reboot_instances, InstanceResponse.terminate_instances

    def reboot_instances(response: Any) -> Any:
        answer = rebooted(response)
        for id_, (cluster, _) in _nodes_of(response).items():
            owner.restart(cluster, [id_])
        return answer

    def terminate_instances(response: Any) -> Any:
        nodes, answer = _nodes_of(response), terminated(response)
        backend = eks_backends[response.current_account][response.region]
        for id_, (cluster, group) in nodes.items():
            before = set(_running(backend, cluster, group))
            fresh = [each for each in match(backend, cluster, group) if each not in before]
            if fresh:
                owner.renew_node(cluster, id_, fresh[0])
        return answer

    InstanceResponse.reboot_instances = reboot_instances  # type: ignore[method-assign,assignment]
    InstanceResponse.terminate_instances = terminate_instances  # type: ignore[method-assign,assignment]


def _nodes_of(response: Any) -> dict[str, tuple[str, str]]:
    """The living instances of a request that are nodes of a group, each with its cluster and group."""
    found = {}
    requested = set(response._get_param("InstanceIds", []))  # noqa: SLF001  the way moto's own responses read
    for instance in response.ec2_backend.all_instances():
        tags = {tag["key"]: tag["value"] for tag in instance.get_tags()}
        if instance.id in requested and instance.state in _LIVING and _GROUP in tags:
            found[instance.id] = (tags[_CLUSTER], tags[_GROUP])
    return found


def match(backend: EKSBackend, cluster: str, group: str) -> Sequence[str]:
    """Make the number of a group's instances in EC2 equal to the desired size of the group; return the nodes' ids."""
    nodegroup = backend.clusters[cluster].nodegroups[group]
    running = _running(backend, cluster, group)
    count = int(nodegroup.scaling_config["desiredSize"])
    ec2 = ec2_backends[backend.account_id][backend.region_name]
    if running[count:]:
        ec2.terminate_instances(running[count:])
    template = ec2.launch_templates.get(str((nodegroup.launch_template or {}).get("id")))
    data = template.latest_version().data if template is not None else {}
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    aws = EmulatedEc2(backend.account_id, backend.region_name)
    for _ in range(count - len(running)):
        created: Any = ec2.run_instances(
            _IMAGE,
            1,
            None,
            [],
            instance_type=nodegroup.instance_types[0],
            is_instance_type_default=False,
            region_name=backend.region_name,
            subnet_id=nodegroup.subnets[0],
            lifecycle=LIFECYCLES.get(nodegroup.capacity_type),
            tags={"instance": {**_tags(cluster, group), "Name": f"{cluster}-{group}-Node"}},
        )
        if "CapacityReservationId" in target:
            created.instances[0].capacity_reservation_id = target["CapacityReservationId"]
        if not eks_boots.joins(aws, str(created.instances[0].id), user_data_text(data)):
            _UNJOINED.add(str(created.instances[0].id))
    return [id_ for id_ in _running(backend, cluster, group) if id_ not in _UNJOINED]


def end(backend: EKSBackend, cluster: str, group: str) -> None:
    """Terminate the instances of a deleted group in EC2."""
    running = _running(backend, cluster, group)
    if running:
        ec2_backends[backend.account_id][backend.region_name].terminate_instances(running)


def _tags(cluster: str, group: str) -> dict[str, str]:
    return {_CLUSTER: cluster, _GROUP: group}


def _running(backend: EKSBackend, cluster: str, group: str) -> list[str]:
    tags = _tags(cluster, group).items()
    return [
        instance.id
        for instance in ec2_backends[backend.account_id][backend.region_name].all_instances()
        if instance.state in _LIVING and tags <= {tag["key"]: tag["value"] for tag in instance.get_tags()}.items()
    ]
