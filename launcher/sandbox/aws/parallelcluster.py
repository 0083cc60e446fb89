"""ParallelCluster: the custom resource Custom::PclusterCluster; its provider's stack is in `published`.

Judged by: aws-parallelcluster 3.16.1's schema and validators (launcher/sandbox/cluster/{schema,configuration}.py), and
its update rules (launcher/targets/parallelcluster/updates.py), which tests compare with the package
(tests/infra/test_pcluster*.py).

Emulated: the validation of the configuration and, in an update, of every changed key; instances in EC2 for the head
node and for every node, with ParallelCluster's tags; a Slurm with the configuration's queues and counts; the output of
`describe-cluster`. Not emulated: programs on the head node, storage, login nodes, images, launch templates, and the
stop of nodes in an idle queue: all nodes up to MaxCount run from the beginning. The stack that ParallelCluster itself
creates for a cluster, under the cluster's name, does not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moto.cloudformation.models import cloudformation_backends

from launcher.sandbox.aws import compute_fleet
from launcher.sandbox.aws.fleet import EmulatedEc2
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.cluster.configuration import read
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.schema import RequestRefusedError
from launcher.sandbox.cluster.specification import ClusterFailedError, ClusterSpec
from launcher.targets.parallelcluster.updates import Patch

_PROPERTIES = frozenset(
    {"ServiceToken", "ServiceTimeout", "ClusterName", "ClusterConfiguration", "DeletionPolicy", "SuppressValidators"}
    | {"ValidationFailureLevel", "RollbackOnFailure"}
)


@dataclass(slots=True, kw_only=True)
class CreatedCluster(Created):
    """A cluster with the configuration from which it was created."""

    configuration: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParallelCluster:
    """The model; `clusters` runs the clusters, `versions` maps a provider's token to its release."""

    clusters: Registry
    versions: Mapping[str, str]

    def model(self) -> Model:
        """The emulated ParallelCluster."""
        return Model(type="Custom::PclusterCluster", make=self._create, change=self._update, remove=self._delete)

    def _create(self, requested: Requested) -> Created:
        name = requested.need("ClusterName")
        spec = self._check_cluster(requested, name)
        try:
            head_node = self.clusters.start(spec, EmulatedEc2(requested.account_id, requested.region_name))
        except ClusterFailedError as failure:
            raise ResourceRefusedError(str(failure)) from failure
        compute_fleet.create_table(requested, name)
        return CreatedCluster(
            physical_resource_id=name,
            attributes=self._attributes(requested, spec, head_node),
            configuration=requested.need("ClusterConfiguration"),
        )

    def _update(self, requested: Requested, before: CreatedCluster) -> Created:
        name = requested.need("ClusterName")
        if name != before.physical_resource_id:
            raise ResourceRefusedError(
                f"ClusterName cannot be changed, it was {before.physical_resource_id}, got {name}"
            )
        self._check_cluster(requested, name)
        is_stopped = compute_fleet.is_stopped(requested, name)
        _refuse_changes(before.configuration, requested.need("ClusterConfiguration"), fleet=not is_stopped)
        self.clusters.stop(name)
        created = self._create(requested)
        if is_stopped:
            compute_fleet.stop(requested, name, self.clusters)
        return created

    def _delete(self, requested: Requested, cluster: Created) -> None:
        if requested.get("DeletionPolicy") != "Retain":
            self.clusters.stop(cluster.physical_resource_id)
            compute_fleet.remove(requested, cluster.physical_resource_id)

    def _check_cluster(self, requested: Requested, name: str) -> ClusterSpec:
        unknown = set(requested.properties.keys()) - _PROPERTIES
        if unknown:
            raise ResourceRefusedError(f"unknown properties: {', '.join(sorted(unknown))}")
        if requested.need("ServiceToken") not in self.versions:
            raise ResourceRefusedError("ServiceToken is not that of a ParallelCluster provider stack")
        stacks = cloudformation_backends[requested.account_id][requested.region_name].stacks.values()
        if any(stack.name == name for stack in stacks):
            raise ResourceRefusedError(f"a stack named {name} exists; ParallelCluster needs that name")
        configuration = requested.need("ClusterConfiguration")
        if not isinstance(configuration, Mapping):
            raise ResourceRefusedError("ClusterConfiguration must be a mapping")
        try:
            return read(name, configuration, EmulatedEc2(requested.account_id, requested.region_name))
        except RequestRefusedError as refusal:
            raise ResourceRefusedError(str(refusal)) from refusal

    def _attributes(self, requested: Requested, spec: ClusterSpec, head_node: str) -> dict[str, Any]:
        """The output of `pcluster describe-cluster`, with the levels joined by dots."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        return {
            "clusterName": spec.name,
            "clusterStatus": "CREATE_COMPLETE",
            "cloudFormationStackStatus": "CREATE_COMPLETE",
            "computeFleetStatus": "RUNNING",
            "creationTime": now,
            "lastUpdatedTime": now,
            "region": requested.region_name,
            "version": self.versions[requested.need("ServiceToken")],
            "scheduler.type": "slurm",
            "headNode.instanceId": head_node,
            "headNode.instanceType": spec.head_instance_type,
            "headNode.state": "running",
            "headNode.launchTime": now,
            "headNode.privateIpAddress": EmulatedEc2(requested.account_id, requested.region_name).address(head_node),
            "logGroupName": f"/aws/parallelcluster/{spec.name}",
            "validationMessages": "",
        }


def _refuse_changes(old: Mapping[str, Any], new: Mapping[str, Any], *, fleet: bool) -> None:
    """Refuse what pcluster refuses in an update (ClusterUpdateError in pcluster/models/cluster.py of 3.16.1)."""
    logins = any(int(pool["Count"]) for pool in old.get("LoginNodes", {}).get("Pools", ()))
    patch = Patch(old=old, new=new, fleet=fleet, logins=logins)
    refused = [
        f"{difference.text} ({difference.policy})" for difference in patch.differences if not patch.allows(difference)
    ]
    if refused:
        raise ResourceRefusedError(f"Update failure: {'; '.join(refused)}")
