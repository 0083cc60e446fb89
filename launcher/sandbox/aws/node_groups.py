"""The instances of EKS's managed node groups in moto's EC2.

Emulated: an instance for each node, with EKS's tags (EKS user guide, managed node groups); an instance of a Capacity
Block has its reservation.
"""

from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import EKSBackend

_IMAGE = "ami-00000000000000000"
_LIVING = ("pending", "running")
_LIFECYCLES = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}


def match(backend: EKSBackend, cluster: str, group: str) -> None:
    """Make the number of a group's instances in EC2 equal to the desired size of the group."""
    nodegroup = backend.clusters[cluster].nodegroups[group]
    running = _running(backend, cluster, group)
    count = int(nodegroup.scaling_config["desiredSize"])
    ec2 = ec2_backends[backend.account_id][backend.region_name]
    if running[count:]:
        ec2.terminate_instances(running[count:])
    template = ec2.launch_templates.get(str((nodegroup.launch_template or {}).get("id")))
    data = template.latest_version().data if template is not None else {}
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
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
            lifecycle=_LIFECYCLES.get(nodegroup.capacity_type),
            tags={"instance": {**_tags(cluster, group), "Name": f"{cluster}-{group}-Node"}},
        )
        if "CapacityReservationId" in target:
            created.instances[0].capacity_reservation_id = target["CapacityReservationId"]


def end(backend: EKSBackend, cluster: str, group: str) -> None:
    """Terminate the instances of a deleted group in EC2."""
    running = _running(backend, cluster, group)
    if running:
        ec2_backends[backend.account_id][backend.region_name].terminate_instances(running)


def _tags(cluster: str, group: str) -> dict[str, str]:
    return {"eks:cluster-name": cluster, "eks:nodegroup-name": group}


def _running(backend: EKSBackend, cluster: str, group: str) -> list[str]:
    tags = _tags(cluster, group).items()
    return [
        instance.id
        for instance in ec2_backends[backend.account_id][backend.region_name].all_instances()
        if instance.state in _LIVING and tags <= {tag["key"]: tag["value"] for tag in instance.get_tags()}.items()
    ]
