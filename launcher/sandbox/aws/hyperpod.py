"""AWS::SageMaker::Cluster for Slurm: a HyperPod cluster from a validated request (EKS: hyperpod_nodes.py).

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json) for the request, and the rules of
launcher/sandbox/cluster/hyperpod_request.py.

Emulated: the validation of the request; a cluster and its instances in moto's SageMaker, for List and Describe calls; a
Slurm with a node for each worker instance and the settings of the controller's script; the replacement of a failed
instance. moto's own CreateCluster is not used: it lacks the newer types and properties, and accepts scripts only from
buckets of one name. Not emulated: scripts, health checks, mounts, EFA, `srun --auto-resume`. Calls that change a
cluster are in hyperpod_calls.py.
"""

import secrets
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from moto.fsx.models import fsx_backends
from moto.sagemaker.models import ClusterNode, SageMakerModelBackend, sagemaker_backends

from launcher.model.service_updates import hyperpod_groups
from launcher.model.update import Needs
from launcher.sandbox.aws import hyperpod_nodes
from launcher.sandbox.aws.buckets import backend_of
from launcher.sandbox.aws.fleet import Ec2Fleet, EmulatedEc2
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.aws.training_plans import bought_in
from launcher.sandbox.cluster.hyperpod_eks_request import eks_name
from launcher.sandbox.cluster.hyperpod_request import Account, read, script_of_controller
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.schema import RequestRefusedError
from launcher.sandbox.cluster.specification import ClusterFailedError, ClusterSpec, NodeGroup

_IN_SERVICE = "InService"
_ID_CHARACTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_SHOWN = ("VpcConfig", "Orchestrator", "NodeRecovery", "NodeProvisioningMode")
"""Members that DescribeCluster returns as CreateCluster received them."""


@dataclass(slots=True, kw_only=True)
class PodCluster:
    """A cluster in moto's SageMaker, whose API expects these attribute names."""

    request: dict[str, Any]
    region_name: str
    account_id: str
    cluster_id: str
    tags: list[dict[str, str]]
    creation_time: datetime
    nodes: dict[str, ClusterNode] = field(default_factory=dict)

    @property
    def cluster_name(self) -> str:
        """The name of the cluster."""
        return str(self.request["ClusterName"])

    @property
    def arn(self) -> str:
        """The ARN of the cluster, which ends in an id and not in the name."""
        return f"arn:aws:sagemaker:{self.region_name}:{self.account_id}:cluster/{self.cluster_id}"

    def summary(self) -> dict[str, Any]:
        """The cluster as ListClusters returns it."""
        return {
            "ClusterArn": self.arn,
            "ClusterName": self.cluster_name,
            "CreationTime": self.creation_time,
            "ClusterStatus": _IN_SERVICE,
        }

    def describe(self) -> dict[str, Any]:
        """The cluster as DescribeCluster returns it."""
        groups = [self._described(group) for group in self.request["InstanceGroups"]]
        shown = {key: self.request[key] for key in _SHOWN if key in self.request}
        return {**self.summary(), **shown, "FailureMessage": "", "InstanceGroups": groups}

    def _described(self, group: Mapping[str, Any]) -> dict[str, Any]:
        running = len(self.instances(group["InstanceGroupName"]))
        fields = {key: value for key, value in group.items() if key != "InstanceCount"}
        return {**fields, "CurrentCount": running, "TargetCount": group["InstanceCount"], "Status": _IN_SERVICE}

    @property
    def groups(self) -> dict[str, dict[str, Any]]:
        """The requested groups of the cluster, by name."""
        return {group["InstanceGroupName"]: group for group in self.request["InstanceGroups"]}

    def instances(self, group_name: str) -> list[str]:
        """The ids of a group's existing instances."""
        return [id_ for id_, node in self.nodes.items() if node.instance_group_name == group_name]

    def add(self, group_name: str) -> str:
        """Add an instance to a group; return its id."""
        group = self.groups[group_name]
        instance_id = f"i-{secrets.token_hex(9)[:17]}"
        self.nodes[instance_id] = ClusterNode(
            region_name=self.region_name,
            account_id=self.account_id,
            cluster_name=self.cluster_name,
            instance_group_name=group_name,
            instance_type=group["InstanceType"],
            life_cycle_config=group["LifeCycleConfig"],
            execution_role=group["ExecutionRole"],
            node_id=instance_id,
            threads_per_core=group.get("ThreadsPerCore"),
        )
        return instance_id


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFleet(Ec2Fleet):
    """The instances of a cluster: in SageMaker's account, so that the user's EC2 does not list them."""

    cluster: PodCluster

    def run_head_node(self, spec: ClusterSpec) -> str:
        """Start the instances that run no jobs; return the controller's id."""
        workers = {group.name for group in spec.groups}
        others = [
            instance_group
            for instance_group in self.cluster.request["InstanceGroups"]
            if instance_group["InstanceGroupName"] not in workers
        ]
        instances = {
            other["SlurmConfig"]["NodeType"]: self.cluster.add(other["InstanceGroupName"])
            for other in others
            for _ in range(other["InstanceCount"])
        }
        return instances["Controller"]

    def run_node(self, spec: ClusterSpec, group: NodeGroup, name: str) -> str:
        """Start a worker; return its id."""
        del spec, name
        return self.cluster.add(group.name)

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
        spec = hyperpod_nodes.checked(requested, self.hosts) if of_eks else _checked(requested)
        if name in clusters:
            raise ResourceRefusedError(f"Resource Already Exists: Cluster with name {name} already exists")
        cluster = PodCluster(
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
            hyperpod_nodes.join(requested, self.hosts, cluster.request, cluster.add)
        clusters[name] = cluster  # type: ignore[assignment]  # asked by name and not by type
        attributes = {"ClusterArn": cluster.arn, "ClusterStatus": _IN_SERVICE}
        return Created(physical_resource_id=name, attributes=attributes)

    def _start(self, requested: Requested, spec: ClusterSpec, cluster: PodCluster) -> None:
        fleet = PodFleet(cluster=cluster, ec2=EmulatedEc2(requested.account_id, requested.region_name))
        try:
            self.clusters.start(spec, fleet)
        except ClusterFailedError as failure:
            raise ResourceRefusedError(str(failure)) from failure

    def _update(self, requested: Requested, before: Created) -> Created:
        name = requested.need("ClusterName")
        if name != before.physical_resource_id:
            raise ResourceRefusedError(
                f"ClusterName cannot be changed, it was {before.physical_resource_id}, got {name}"
            )
        if eks_name(requested.properties) is None:
            _checked(requested)
        else:
            hyperpod_nodes.checked(requested, self.hosts)
        current: Any = _sagemaker(requested).clusters[name]
        for group in hyperpod_groups(current.request, requested.properties):
            if group.needs is Needs.NEW_CLUSTER:
                raise ResourceRefusedError(f"{group.path} cannot be changed: it is {group.old}, got {group.new}")
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


def _sagemaker(requested: Requested) -> SageMakerModelBackend:
    return sagemaker_backends[requested.account_id][requested.region_name]


def _checked(requested: Requested) -> ClusterSpec:
    request = dict(requested.properties)
    file_systems = fsx_backends[requested.account_id][requested.region_name].file_systems.values()
    account = Account(
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
