"""The instances of PCS's node groups in the emulated EC2, and the facts of EC2, IAM and S3 that validate a group.

Judged by: moto 5.2.5, and the PCS user guide for the tags of instances (launcher/model/pcs.py).
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from moto.utilities.utils import get_partition

from launcher.model.pcs import GROUP_TAG, PCS_CLUSTER_TAG
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.fleet import EmulatedEc2
from launcher.sandbox.cluster.specification import SubnetFacts, TypeFacts


@dataclass(frozen=True, slots=True)
class PcsEc2:
    """EC2, IAM and S3 of one account in one region."""

    ec2: EmulatedEc2

    @property
    def region(self) -> str:
        """The region's name."""
        return self.ec2.region

    def instance_type(self, name: str) -> TypeFacts | None:
        """The facts about a type; None if it is unknown."""
        return self.ec2.instance_type(name)

    def subnet(self, subnet_id: str) -> SubnetFacts | None:
        """The facts about a subnet; None if no subnet has that id."""
        return self.ec2.subnet(subnet_id)

    def admits_itself(self, group_id: str) -> bool | None:
        """Whether a security group allows all traffic to and from itself; None if no group has that id."""
        return self.ec2.admits_itself(group_id)

    def has_object(self, bucket: str, key: str | None) -> bool:
        """Whether a bucket exists and, if a key is given, contains that object."""
        return self.ec2.has_object(bucket, key)

    def profile_role(self, arn: str) -> str | None:
        """The ARN of the role of an instance profile; None if the profile does not exist or has no role."""
        profiles: Any = iam_backends[self.ec2.account_id][get_partition(self.region)].instance_profiles.values()
        profile = next((candidate for candidate in profiles if candidate.arn == arn), None)
        return None if profile is None or not profile.roles else str(profile.roles[0].arn)

    def digest(self, bucket: str, key: str) -> str | None:
        """The SHA-256 of an object; None if it does not exist."""
        if not self.has_object(bucket, key):
            return None
        stored = backend_of(self.ec2.account_id, self.region).get_object(bucket, key)
        return None if stored is None else hashlib.sha256(stored.value).hexdigest()

    def template(self, template_id: str, version: str) -> tuple[Mapping[str, Any], str] | None:
        """A version of a launch template, with its user data decoded; None if it does not exist."""
        templates: Any = ec2_backends[self.ec2.account_id][self.region].launch_templates
        template = templates.get(template_id)
        if template is None or not version.isdecimal() or not 1 <= int(version) <= len(template.versions):
            return None
        data = template.get_version(int(version)).data
        encoded = data.get("UserData", "")
        # moto keeps it as text where a call brought it, and as a type of its own where a template did.
        return data, base64.b64decode(encoded).decode() if isinstance(encoded, str) else str(encoded.decode())

    def data_of(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data of a node group's launch template; empty without a launch template."""
        named = request.get("customLaunchTemplate")
        template = None if named is None else self.template(named["id"], named["version"])
        return {} if template is None else template[0]

    def run(self, cluster_id: str, group_id: str, request: Mapping[str, Any]) -> str:
        """Run an instance of a node group, with PCS's tags and those of its launch template; return its id."""
        data = self.data_of(request)
        specifications = [
            specification
            for specification in data.get("TagSpecifications", [])
            if specification["ResourceType"] == "instance"
        ]
        tags = {tag["Key"]: tag["Value"] for specification in specifications for tag in specification["Tags"]}
        interfaces = data.get("NetworkInterfaces", [])
        groups = interfaces[0]["Groups"] if interfaces else data.get("SecurityGroupIds", [])
        return self.ec2.run(
            request["instanceConfigs"][0]["instanceType"],
            {**tags, PCS_CLUSTER_TAG: cluster_id, GROUP_TAG: group_id},
            request["subnetIds"][0],
            groups,
            request.get("purchaseOption", "ONDEMAND"),
        )
