"""ParallelCluster: AWS's provider stack for CloudFormation and the custom resource Custom::PclusterCluster.

Emulated: the provider's output ServiceToken; the check of the configuration; instances in EC2 for the head node and
for every node, with ParallelCluster's tags; a Slurm with the configuration's queues and counts; the attributes of
`describe-cluster`. Not emulated: anything that would run on the head node, storage, login nodes, images, launch
templates, and that nodes of an idle queue are stopped: all nodes up to MaxCount are there from the beginning. The
stack that ParallelCluster itself makes for a cluster, under the cluster's name, does not exist.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from moto.cloudformation.models import cloudformation_backends
from moto.cloudformation.utils import generate_stack_id

from launcher.sandbox.cluster import ClusterSpec
from launcher.sandbox.cluster_configuration import ConfigurationRefusedError, read
from launcher.sandbox.emulation.fleet import EmulatedEc2
from launcher.sandbox.emulation.model import Made, Model, ResourceRefusedError, Wanted

_TEMPLATE = re.compile(
    r"https://(?P<region>[a-z0-9-]+)-aws-parallelcluster\.s3\.(?P=region)\.amazonaws\.com(?:\.cn)?"
    r"/parallelcluster/(?P<version>\d+\.\d+\.\d+)/templates/custom_resource/cluster\.yaml"
)
_PARAMETERS = frozenset({"CustomLambdaRole", "AdditionalIamPolicies", "CustomBucket"})
_PROPERTIES = frozenset(
    {"ServiceToken", "ServiceTimeout", "ClusterName", "ClusterConfiguration", "DeletionPolicy", "SuppressValidators"}
    | {"ValidationFailureLevel", "RollbackOnFailure"}
)


class ClusterFailedError(Exception):
    """A cluster that cannot be started."""


class Clusters(Protocol):
    """What runs the clusters that are deployed."""

    def start(self, spec: ClusterSpec, ec2: EmulatedEc2) -> str:
        """Start a cluster; the id of its head node's instance.

        Raises:
            ClusterFailedError: it does not start.
        """

    def stop(self, name: str) -> None:
        """Stop a cluster and remove its instances; nothing where there is none of that name."""


@dataclass(frozen=True, slots=True)
class ParallelCluster:
    """The two models, over what runs the clusters. `versions` holds the provider's version by the token it gave out."""

    clusters: Clusters
    versions: dict[str, str]

    def models(self) -> tuple[Model, ...]:
        """Both."""
        return (
            Model(
                type="AWS::CloudFormation::Stack", make=self._stack, change=self._same_stack, remove=self._remove_stack
            ),
            Model(type="Custom::PclusterCluster", make=self._create, change=self._update, remove=self._delete),
        )

    def _stack(self, wanted: Wanted) -> Made:
        url = wanted.need("TemplateURL")
        match = _TEMPLATE.fullmatch(url)
        if match is None:
            raise ResourceRefusedError(f"the sandbox has no nested stack but ParallelCluster's provider, got {url}")
        if match["region"] != wanted.region_name:
            raise ResourceRefusedError(f"the provider of {match['region']} does not work in {wanted.region_name}")
        unknown = set(wanted.get("Parameters", {})) - _PARAMETERS
        if unknown:
            raise ResourceRefusedError(f"Parameters: [{', '.join(sorted(unknown))}] do not exist in the template")
        suffix = secrets.token_hex(6)
        token = f"arn:aws:lambda:{wanted.region_name}:{wanted.account_id}:function:pcluster-cfn-{suffix}"
        self.versions[token] = match["version"]
        arn = generate_stack_id(wanted.name, wanted.region_name, wanted.account_id)
        return Made(physical_resource_id=arn, attributes={"Outputs.ServiceToken": token})

    def _same_stack(self, wanted: Wanted, before: Made) -> Made:
        url = wanted.need("TemplateURL")
        match = _TEMPLATE.fullmatch(url)
        if match is None:
            raise ResourceRefusedError(f"the sandbox has no nested stack but ParallelCluster's provider, got {url}")
        self.versions[before.attributes["Outputs.ServiceToken"]] = match["version"]
        return before

    def _remove_stack(self, wanted: Wanted, stack: Made) -> None:
        del wanted
        self.versions.pop(stack.attributes["Outputs.ServiceToken"], None)

    def _create(self, wanted: Wanted) -> Made:
        name = wanted.need("ClusterName")
        spec = self._checked(wanted, name)
        try:
            head_node = self.clusters.start(spec, EmulatedEc2(wanted.account_id, wanted.region_name))
        except ClusterFailedError as failure:
            raise ResourceRefusedError(str(failure)) from failure
        return Made(physical_resource_id=name, attributes=self._attributes(wanted, spec, head_node))

    def _update(self, wanted: Wanted, before: Made) -> Made:
        name = wanted.need("ClusterName")
        if name != before.physical_resource_id:
            raise ResourceRefusedError(
                f"ClusterName cannot be changed, it was {before.physical_resource_id}, got {name}"
            )
        self._checked(wanted, name)
        self.clusters.stop(name)
        return self._create(wanted)

    def _delete(self, wanted: Wanted, cluster: Made) -> None:
        if wanted.get("DeletionPolicy") != "Retain":
            self.clusters.stop(cluster.physical_resource_id)

    def _checked(self, wanted: Wanted, name: str) -> ClusterSpec:
        unknown = set(wanted.properties.keys()) - _PROPERTIES
        if unknown:
            raise ResourceRefusedError(f"unknown properties: {', '.join(sorted(unknown))}")
        if wanted.need("ServiceToken") not in self.versions:
            raise ResourceRefusedError("ServiceToken is not that of a ParallelCluster provider stack")
        stacks = cloudformation_backends[wanted.account_id][wanted.region_name].stacks.values()
        if any(stack.name == name for stack in stacks):
            raise ResourceRefusedError(f"a stack named {name} is there; ParallelCluster needs that name for its own")
        configuration = wanted.need("ClusterConfiguration")
        if not isinstance(configuration, Mapping):
            raise ResourceRefusedError("ClusterConfiguration must be a mapping")
        try:
            return read(name, configuration, EmulatedEc2(wanted.account_id, wanted.region_name))
        except ConfigurationRefusedError as refusal:
            raise ResourceRefusedError(str(refusal)) from refusal

    def _attributes(self, wanted: Wanted, spec: ClusterSpec, head_node: str) -> dict[str, Any]:
        """What `pcluster describe-cluster` shows, with the levels joined by dots."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {
            "clusterName": spec.name,
            "clusterStatus": "CREATE_COMPLETE",
            "cloudFormationStackStatus": "CREATE_COMPLETE",
            "computeFleetStatus": "RUNNING",
            "creationTime": now,
            "lastUpdatedTime": now,
            "region": wanted.region_name,
            "version": self.versions[wanted.need("ServiceToken")],
            "scheduler.type": "slurm",
            "headNode.instanceId": head_node,
            "headNode.instanceType": spec.head_instance_type,
            "headNode.state": "running",
            "headNode.launchTime": now,
            "headNode.privateIpAddress": EmulatedEc2(wanted.account_id, wanted.region_name).address(head_node),
            "logGroupName": f"/aws/parallelcluster/{spec.name}",
            "validationMessages": "",
        }
