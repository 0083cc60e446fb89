"""The instances of a cluster in the emulated EC2, and the facts of EC2, IAM and S3 that validate its configuration.

Judged by: moto 5.2.5, with its list of instance types and their facts.

Emulated: instances with type, subnet, security groups, market, placement and ParallelCluster's tags. Not emulated:
network interfaces after the first, volumes, launch templates, the AMIs of nodes.
"""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.core.exceptions import ServiceException
from moto.ec2.models import ec2_backends
from moto.ec2.models.instance_types import INSTANCE_TYPES
from moto.ec2.models.instances import StateReason
from moto.iam.models import iam_backends
from moto.utilities.utils import get_partition

from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.cluster.specification import ClusterSpec, EmulatedSubnet, NodeGroup, TypeFacts

_IMAGE = "ami-00000000000000000"
"""Placeholder for the official image, which the emulated EC2 does not have."""
LIFECYCLES = {"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
"""The lifecycle of instances in EC2's answers by their capacity type; on demand has none."""


@dataclass(frozen=True, slots=True)
class EmulatedEc2:
    """EC2, IAM and S3 of one account in one region."""

    account_id: str
    region: str

    @property
    def replaces_down(self) -> bool:
        """Whether down nodes are replaced: by ParallelCluster's daemon (user guide, clustermgtd)."""
        return True

    @property
    def _backend(self) -> Any:
        return ec2_backends[self.account_id][self.region]

    def instance_type(self, name: str) -> TypeFacts | None:
        """The facts about a type from moto's copy of DescribeInstanceTypes; None if the copy lacks the type."""
        facts = INSTANCE_TYPES.get(name)
        if facts is None:
            return None
        network = facts.get("NetworkInfo", {})
        return TypeFacts(
            vcpus=facts["VCpuInfo"]["DefaultVCpus"],
            memory_mib=facts["MemoryInfo"]["SizeInMiB"],
            gpus=sum(gpu["Count"] for gpu in facts.get("GpuInfo", {}).get("Gpus", [])),
            efa=bool(network.get("EfaSupported") or network.get("EfaInfo")),
            network_cards=network.get("MaximumNetworkCards", 1),
        )

    def subnet(self, subnet_id: str) -> EmulatedSubnet | None:
        """The facts about a subnet; None if no subnet has that id."""
        try:
            subnet = self._backend.get_subnet(subnet_id)
        except ServiceException:
            return None
        return EmulatedSubnet(
            zone=subnet.availability_zone,
            gives_public_addresses=str(subnet.map_public_ip_on_launch).lower() == "true",
            zone_id=subnet.availability_zone_id,
        )

    def admits_itself(self, group_id: str) -> bool | None:
        """Whether a security group allows all traffic to and from itself; None if no group has that id."""
        group = self._backend.get_security_group_from_id(group_id)
        if group is None:
            return None
        return all(
            any(rule.ip_protocol == "-1" and (rule.source_group or {}).get("GroupId") == group_id for rule in rules)
            for rules in (group.ingress_rules, group.egress_rules)
        )

    def has_object(self, bucket: str, key: str | None) -> bool:
        """Whether a bucket exists and, if a key is given, contains that object."""
        store = backend_of(self.account_id, self.region)
        if bucket not in store.buckets:
            return False
        return key is None or store.get_object(bucket, key) is not None

    def profile_role(self, arn: str) -> str | None:
        """The ARN of the role of an instance profile; None if the profile does not exist or has no role."""
        profiles: Any = iam_backends[self.account_id][get_partition(self.region)].instance_profiles.values()
        profile = next((candidate for candidate in profiles if candidate.arn == arn), None)
        return None if profile is None or not profile.roles else str(profile.roles[0].arn)

    def digest(self, bucket: str, key: str) -> str | None:
        """The SHA-256 of an object; None if it does not exist."""
        if not self.has_object(bucket, key):
            return None
        stored = backend_of(self.account_id, self.region).get_object(bucket, key)
        return None if stored is None else hashlib.sha256(stored.value).hexdigest()

    def template(self, template_id: str, version: str) -> tuple[Mapping[str, Any], str] | None:
        """A version of a launch template, with its user data decoded; None if it does not exist."""
        templates: Any = ec2_backends[self.account_id][self.region].launch_templates
        template = templates.get(template_id)
        if template is None or not version.isdecimal() or not 1 <= int(version) <= len(template.versions):
            return None
        data = template.get_version(int(version)).data
        return data, user_data_text(data)

    def run_head_node(self, spec: ClusterSpec) -> str:
        """Start a cluster's head node; return the id of its instance."""
        tags = {"parallelcluster:node-type": "HeadNode", "Name": "HeadNode"}
        instance_tags = {"parallelcluster:cluster-name": spec.name, **spec.tags, **tags}
        return self.run(spec.head_instance_type, instance_tags, spec.head_subnet_id, spec.head_security_groups)

    def run_node(self, spec: ClusterSpec, group: NodeGroup, name: str) -> str:
        """Start a compute node; return the id of its instance."""
        tags = {
            "parallelcluster:cluster-name": spec.name,
            **spec.tags,
            "parallelcluster:node-type": "Compute",
            "parallelcluster:queue-name": group.queue,
            "parallelcluster:compute-resource-name": group.name,
            "slipway:node": name,
            "Name": "Compute",
        }
        instance = self.run(
            group.instance_type, tags, group.subnet_id, group.security_groups, capacity_type=group.capacity_type
        )
        created = self._backend.get_instance(instance)
        created.capacity_reservation_id = group.reservation or created.capacity_reservation_id
        if group.placement_group:
            created.placement.group_name = f"{spec.name}-{group.queue}-{group.name}"
        return instance

    def run(
        self,
        instance_type: str,
        tags: Mapping[str, str],
        subnet_id: str,
        security_groups: Sequence[str],
        capacity_type: str = "ONDEMAND",
    ) -> str:
        """Run an instance; return its id."""
        reservation = self._backend.run_instances(
            _IMAGE,
            1,
            None,
            [],
            instance_type=instance_type,
            is_instance_type_default=False,
            region_name=self.region,
            tags={"instance": dict(tags)},
            subnet_id=subnet_id,
            security_group_ids=list(security_groups),
            lifecycle=LIFECYCLES.get(capacity_type),
        )
        return str(reservation.instances[0].id)

    def terminate(self, instance_id: str, reason: str) -> None:
        """Terminate an instance, with EC2's code for the reason."""
        self._backend.terminate_instances([instance_id])
        self._backend.get_instance(instance_id).state_reason = StateReason(f"{reason}: sandbox", reason)

    def address(self, instance_id: str) -> str:
        """An instance's private address."""
        return str(self._backend.get_instance(instance_id).private_ip)


def user_data_text(data: Mapping[str, Any]) -> str:
    """The user data of a launch template."""
    encoded = data.get("UserData") or ""
    # moto keeps it as text where a call brought it, and as a type of its own where a template did.
    return base64.b64decode(encoded).decode() if isinstance(encoded, str) else str(encoded.decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Fleet:
    """The common part of fleets whose instances are run by a service other than ParallelCluster."""

    ec2: EmulatedEc2

    @property
    def region(self) -> str:
        """The region's name."""
        return self.ec2.region

    @property
    def replaces_down(self) -> bool:
        """Whether down nodes are replaced: HyperPod replaces instances on request, and faulty ones."""
        return False

    def subnet(self, subnet_id: str) -> EmulatedSubnet | None:
        """The facts about a subnet; None if no subnet has that id."""
        return self.ec2.subnet(subnet_id)
