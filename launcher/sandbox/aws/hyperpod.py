"""AWS::SageMaker::Cluster for Slurm: a HyperPod cluster from a validated request (EKS: hyperpod_nodes.py).

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json) for the request, and the rules of
launcher/sandbox/cluster/hyperpod_request.py.

Emulated: the validation of the request; a cluster and its instances in moto's SageMaker, for List and Describe calls;
the scripts of its instances (hyperpod_boots.py), without which the cluster is not created; a Slurm with a node for each
worker instance and the settings of the controller's script; the replacement of a failed instance; deep health checks,
which pass, and during which no update is possible (as in hyperpod_calls.py). Not emulated: mounts, EFA, `srun
--auto-resume`. Calls that change a cluster are in hyperpod_calls.py.
"""

import secrets
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from moto.fsx.models import fsx_backends
from moto.sagemaker.models import SageMakerModelBackend, sagemaker_backends

from launcher.model.service_updates import hyperpod_groups
from launcher.model.update import Needs
from launcher.sandbox.aws import hyperpod_boots, hyperpod_nodes
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.fleet import Ec2Fleet, EmulatedEc2
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.aws.pod_cluster import IN_SERVICE, EmulatedPodCluster
from launcher.sandbox.aws.training_plans import bought_in
from launcher.sandbox.cluster.hyperpod_eks_request import eks_name
from launcher.sandbox.cluster.hyperpod_request import ClusterAccount, read, script_of_controller
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.schema import RequestRefusedError
from launcher.sandbox.cluster.specification import ClusterFailedError, ClusterSpec, NodeGroup

_ID_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_CONTROLLER, _WORKER = "Controller", "Compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFleet(Ec2Fleet):
    """The instances of a cluster: in SageMaker's account, so that the user's EC2 does not list them."""

    cluster: EmulatedPodCluster

    def run_head_node(self, spec: ClusterSpec) -> str:
        """The controller's id; it has started."""
        del spec
        controller = next(name for name, group in self.cluster.groups.items() if _part(group) == _CONTROLLER)
        return self.cluster.instances(controller)[0]

    def run_node(self, spec: ClusterSpec, group: NodeGroup, name: str) -> str:
        """Start a worker; return its id.

        Raises:
            ClusterFailedError: its script failed.
        """
        del spec, name
        return hyperpod_boots.next_instance(self.cluster, group.name)

    def terminate(self, instance_id: str, reason: str) -> None:
        """Remove an instance; SageMaker no longer lists it."""
        del reason
        self.cluster.nodes.pop(instance_id, None)


@dataclass(frozen=True, slots=True)
class HyperPod:
    """The model; `clusters` runs Slurm clusters, `hosts` the Kubernetes that nodes join."""

    clusters: Registry
    hosts: Registry

    def model(self) -> Model:
        """The emulated HyperPod cluster."""
        return Model(type="AWS::SageMaker::Cluster", make=self._create, change=self._update, remove=self._delete)

    def _create(self, requested: Requested) -> Created:
        return self._make(requested, "".join(secrets.choice(_ID_CHARACTERS) for _ in range(12)))

    def _make(self, requested: Requested, cluster_id: str) -> Created:
        name, clusters = requested.need("ClusterName"), _sagemaker(requested).clusters
        of_eks = eks_name(requested.properties) is not None
        spec = hyperpod_nodes.check_request(requested, self.hosts) if of_eks else _check_cluster(requested)
        if name in clusters:
            raise ResourceRefusedError(f"Resource Already Exists: Cluster with name {name} already exists")
        cluster = EmulatedPodCluster(
            request=deepcopy(dict(requested.properties)),
            region_name=requested.region_name,
            account_id=requested.account_id,
            cluster_id=cluster_id,
            tags=list(requested.get("Tags", [])),
            creation_time=datetime.now(UTC),
        )
        if isinstance(spec, ClusterSpec):
            self._start(requested, spec, cluster)
        else:
            hyperpod_nodes.join(requested, self.hosts, cluster)
        clusters[name] = cluster  # type: ignore[assignment]  # asked by name and not by type
        hyperpod_boots.keep_replacing(cluster, self.clusters, self.hosts)
        attributes = {"ClusterArn": cluster.arn, "ClusterStatus": IN_SERVICE}
        return Created(physical_resource_id=name, attributes=attributes)

    def _start(self, requested: Requested, spec: ClusterSpec, cluster: EmulatedPodCluster) -> None:
        fleet = PodFleet(cluster=cluster, ec2=EmulatedEc2(requested.account_id, requested.region_name))
        absent: list[str] = []
        for name, group in cluster.groups.items():
            count = group["InstanceCount"]
            started = hyperpod_boots.start_instances(cluster, name, count)
            if len(started) < count and (_part(group) == _CONTROLLER or not cluster.continuous):
                raise ResourceRefusedError(hyperpod_boots.reason(cluster))
            if _part(group) == _WORKER:
                missing = [cluster.add(name) for _ in range(count - len(started))]
                cluster.ready[name], absent = started + missing, absent + missing
        try:
            self.clusters.start(spec, fleet)
        except ClusterFailedError as failure:
            raise ResourceRefusedError(str(failure)) from failure
        # Slurm starts with all nodes of its configuration; those without an instance are down.
        self.clusters.dismiss(spec.name, absent)

    def _update(self, requested: Requested, before: Created) -> Created:
        name = requested.need("ClusterName")
        if name != before.physical_resource_id:
            raise ResourceRefusedError(
                f"ClusterName cannot be changed, it was {before.physical_resource_id}, got {name}"
            )
        if eks_name(requested.properties) is None:
            _check_cluster(requested)
        else:
            hyperpod_nodes.check_request(requested, self.hosts)
        current: Any = _sagemaker(requested).clusters[name]
        for group in hyperpod_groups(current.request, requested.properties):
            if group.needs is Needs.NEW_CLUSTER:
                raise ResourceRefusedError(f"{group.path} cannot be changed: it is {group.old}, got {group.new}")
        if checking := current.checking():
            raise ResourceRefusedError(in_progress(name, checking))
        self._delete(requested, before)
        return self._make(requested, str(before.attributes["ClusterArn"]).rpartition("/")[2])

    def _delete(self, requested: Requested, cluster: Created) -> None:
        removed = _sagemaker(requested).clusters.pop(cluster.physical_resource_id, None)
        end(removed, self.clusters, self.hosts)


def end(cluster: Any, clusters: Registry, hosts: Registry) -> None:
    """End the Slurm of a cluster, or remove its nodes from the EKS cluster, which stays."""
    if cluster is None:
        return
    if eks_name(cluster.request) is None:
        clusters.stop(cluster.cluster_name)
    else:
        hyperpod_nodes.remove_nodes(cluster.request, hosts)


def in_progress(cluster: str, ids: Iterable[str]) -> str:
    """The refusal of a change during deep health checks; the developer guide gives only the words "in progress"."""
    return f"Cluster {cluster}: deep health checks are in progress on {', '.join(ids)}"


def _part(group: Mapping[str, Any]) -> str:
    return str(group["SlurmConfig"]["NodeType"])


def _sagemaker(requested: Requested) -> SageMakerModelBackend:
    return sagemaker_backends[requested.account_id][requested.region_name]


def _check_cluster(requested: Requested) -> ClusterSpec:
    request = dict(requested.properties)
    file_systems = fsx_backends[requested.account_id][requested.region_name].file_systems.values()
    account = ClusterAccount(
        aws=EmulatedEc2(requested.account_id, requested.region_name),
        script=_text(requested, script_of_controller(request)),
        file_systems=frozenset(system.dns_name for system in file_systems),
        training_plans=bought_in(requested.account_id, requested.region_name),
    )
    try:
        return read(request, account)
    except RequestRefusedError as refusal:
        raise ResourceRefusedError(str(refusal)) from refusal


def _text(requested: Requested, place: tuple[str, str] | None) -> str:
    store = backend_of(requested.account_id, requested.region_name)
    if place is None or place[0] not in store.buckets:
        return ""
    stored = store.get_object(*place)
    return "" if stored is None else stored.value.decode()
