"""AWS::SageMaker::ClusterSchedulerConfig and ComputeQuota: HyperPod's task governance, which moto lacks.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json) for both requests.

Emulated: the validation of both requests with SageMaker's model; priority classes, and for a team a namespace that
admits nothing without a queue, a queue for the complete cluster, and the team's own; DescribeComputeQuota. Names and
labels are those of one account in 2026-10. The queue covers all resources of the instances that pods can request: for
EFA interfaces and huge pages, that is an assumption. Not emulated: borrowing, fair shares, the topology, and the
removal of a quota's objects before its cluster.
"""

import secrets
import string
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.core.responses import ActionResult
from moto.sagemaker.exceptions import ResourceNotFound
from moto.sagemaker.models import sagemaker_backends
from moto.sagemaker.responses import SageMakerResponse

from launcher.aws.api_shape import complaints
from launcher.catalog.load import load
from launcher.model.eks import priority_class
from launcher.sandbox.aws.eks import devices_of, room_of
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError, nothing
from launcher.sandbox.aws.pod_cluster import EmulatedPodCluster
from launcher.sandbox.cluster.hyperpod_eks_request import eks_name
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError
from launcher.sandbox.kubernetes.held_jobs import governed_namespace
from launcher.sandbox.kubernetes.kueue import VERSION
from launcher.sandbox.kubernetes.pod_rules import quantity

_QUEUES = f"kueue.x-k8s.io/{VERSION}"
_CHARACTERS = string.ascii_lowercase + string.digits
_QUOTAS: defaultdict[tuple[str, str], dict[str, dict[str, Any]]] = defaultdict(dict)
"""The quotas of an account in a region, as requested, by id."""


@dataclass(frozen=True, slots=True)
class TaskGovernance:
    """The models; `hosts` runs the clusters' Kubernetes."""

    hosts: Registry

    def models(self) -> tuple[Model, ...]:
        """Both models."""
        return (
            Model(
                type="AWS::SageMaker::ClusterSchedulerConfig",
                make=self._make_policy,
                change=self._change_policy,
                remove=nothing,
            ),
            Model(
                type="AWS::SageMaker::ComputeQuota",
                make=self._make_quota,
                change=self._change_quota,
                remove=_forget_quota,
            ),
        )

    def _make_policy(self, requested: Requested) -> Created:
        self._put_policy(requested)
        return _create(requested, "cluster-scheduler-config", "ClusterSchedulerConfig")

    def _change_policy(self, requested: Requested, before: Created) -> Created:
        self._put_policy(requested)
        return before

    def _put_policy(self, requested: Requested) -> None:
        cluster = _cluster(requested, "ClusterSchedulerConfig")
        classes = requested.need("SchedulerConfig").get("PriorityClasses", ())
        self._put(cluster, [_class(priority_class) for priority_class in classes])

    def _make_quota(self, requested: Requested) -> Created:
        self._put_quota(requested)
        created = _create(requested, "compute-quota", "ComputeQuota")
        _store_quota(requested, created)
        return created

    def _change_quota(self, requested: Requested, before: Created) -> Created:
        self._put_quota(requested)
        _store_quota(requested, before)
        return before

    def _put_quota(self, requested: Requested) -> None:
        cluster = _cluster(requested, "ComputeQuota")
        config = requested.need("ComputeQuotaConfig")
        types = {group["InstanceType"] for group in cluster.groups.values()}
        resources = config.get("ComputeQuotaResources", ())
        strange = sorted({resource["InstanceType"] for resource in resources} - types)
        if strange:
            raise ResourceRefusedError(f"the cluster has no {', '.join(strange)}; allowed: {', '.join(sorted(types))}")
        self._put(cluster, list(_team_objects(requested.need("ComputeQuotaTarget")["TeamName"], config)))

    def _put(self, cluster: EmulatedPodCluster, objects: list[dict[str, Any]]) -> None:
        try:
            self.hosts.put(str(eks_name(cluster.request)), objects)
        except ClusterFailedError as problem:
            raise ResourceRefusedError(str(problem)) from problem


def _cluster(requested: Requested, kind: str) -> EmulatedPodCluster:
    problems = complaints("sagemaker", (f"Create{kind}", f"Update{kind}"), dict(requested.properties))
    if problems:
        raise ResourceRefusedError("; ".join(problems))
    requested.need("Name")
    arn = requested.need("ClusterArn")
    for cluster in sagemaker_backends[requested.account_id][requested.region_name].clusters.values():
        if isinstance(cluster, EmulatedPodCluster) and cluster.arn == arn and eks_name(cluster.request) is not None:
            return cluster
    raise ResourceRefusedError(f"no HyperPod cluster with EKS has the ARN {arn}")


def _create(requested: Requested, kind: str, name: str) -> Created:
    id_ = "".join(secrets.choice(_CHARACTERS) for _ in range(12))
    arn = f"arn:aws:sagemaker:{requested.region_name}:{requested.account_id}:{kind}/{id_}"
    return Created(physical_resource_id=arn, attributes={f"{name}Arn": arn, f"{name}Id": id_, "Status": "Created"})


def _store_quota(requested: Requested, created: Created) -> None:
    _QUOTAS[requested.account_id, requested.region_name][created.attributes["ComputeQuotaId"]] = {
        **{key: value for key, value in requested.properties.items() if key != "Tags"},
        "ComputeQuotaArn": created.physical_resource_id,
        "ComputeQuotaId": created.attributes["ComputeQuotaId"],
        "ComputeQuotaVersion": 1,
        "Status": "Created",
    }


def _forget_quota(requested: Requested, created: Created) -> None:
    _QUOTAS[requested.account_id, requested.region_name].pop(created.attributes["ComputeQuotaId"], None)


def _class(specified: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {"name": priority_class(specified["Name"])}
    return {"apiVersion": _QUEUES, "kind": "WorkloadPriorityClass", "metadata": metadata, "value": specified["Weight"]}


def _team_objects(team: str, config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    space = f"hyperpod-ns-{team}"
    yield governed_namespace(space)
    types, preempts = config.get("ComputeQuotaResources", ()), config.get("PreemptTeamTasks", "LowerPriority")
    yield from queue_objects(space, f"{space}-localqueue", types, preempts=preempts)


def queue_objects(
    space: str, queue: str, types: Sequence[Mapping[str, Any]], *, preempts: str
) -> Iterator[dict[str, Any]]:
    """A queue of a namespace, and the share of the cluster that backs the queue."""
    flavors = [_flavor(type_) for type_ in types]
    groups = [
        {"coveredResources": [resource["name"] for resource in flavor["resources"]], "flavors": [flavor]}
        for flavor in flavors
    ]
    yield {
        "apiVersion": _QUEUES,
        "kind": "ClusterQueue",
        "metadata": {"name": f"{space}-clusterqueue"},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": space}},
            "preemption": {"withinClusterQueue": preempts},
            "resourceGroups": groups,
        },
    }
    yield {
        "apiVersion": _QUEUES,
        "kind": "LocalQueue",
        "metadata": {"name": queue, "namespace": space},
        "spec": {"clusterQueue": f"{space}-clusterqueue"},
    }


def _flavor(resource: Mapping[str, Any]) -> dict[str, Any]:
    facts = load().instance_types.get(resource["InstanceType"].removeprefix("ml."))
    efa = 0 if facts is None else facts.efa_interfaces
    devices = {**room_of(facts, efa), **devices_of(facts, efa)}
    count = resource["Count"]
    quotas = [{"name": name, "nominalQuota": str(int(quantity(one) * count))} for name, one in devices.items()]
    return {"name": resource["InstanceType"], "resources": quotas}


def describe_compute_quota(response: Any) -> ActionResult:
    """A quota by its id."""
    backend, id_ = response.sagemaker_backend, response._get_param("ComputeQuotaId")  # noqa: SLF001  as moto reads
    quota = _QUOTAS[backend.account_id, backend.region_name].get(id_)
    if quota is None:
        raise ResourceNotFound(message=f"Could not find compute quota '{id_}'.")
    return ActionResult(quota)


def install() -> None:
    """Add the call to moto's SageMaker."""
    call = describe_compute_quota
    setattr(SageMakerResponse, call.__name__, call)
