"""SageMaker's calls on HyperPod clusters that moto lacks, or answers differently from AWS.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json), which the client uses, and the SageMaker API
reference.

Emulated: UpdateCluster for instance recovery and for the size of a worker group, up to its first size, which is
refused while deep health checks run ("an error message stating that deep health checks are in progress", developer
guide, "Updating SageMaker HyperPod cluster configuration" of EKS, read 2026-11-29; of the call's exceptions in botocore
only ConflictException fits, and the guide names none);
BatchDeleteClusterNodes, which lowers the target size, also for nodes whose instances fail to start; with EKS
BatchAddClusterNodes, which raises it (the sandbox chooses which nodes go); the scripts of instances that these calls
start; BatchRebootClusterNodes and BatchReplaceClusterNodes by instance id, which end what runs on a
node, and refuse one under a check (InvalidInstanceStatus); StartClusterHealthCheck, one at a time in a cluster
(developer guide, deep health checks of Slurm clusters); all checks pass; ListClusterEvents and DescribeClusterEvent
(hyperpod_events.py); DeleteCluster, which ends the cluster's Slurm; clusters by ARN, and ResourceNotFound. Not
emulated: other changes of a cluster, refusals of deletions during checks, of which AWS documents none, jobs that wait
for checks, and delays.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

from moto.core.responses import ActionResult
from moto.sagemaker.exceptions import ConflictException, ResourceNotFound, ValidationError
from moto.sagemaker.models import SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

from launcher.model.hyperpod import ADDED_A_CALL
from launcher.sandbox.aws import hyperpod_boots, hyperpod_events
from launcher.sandbox.aws.hyperpod import end, in_progress
from launcher.sandbox.aws.pod_cluster import CHECKED_ON_DEMAND_S, EmulatedPodCluster
from launcher.sandbox.cluster.hyperpod_eks_request import eks_name
from launcher.sandbox.cluster.hyperpod_request import CONTINUOUS
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError

_MAX_GROUPS = 5
"""Maximum of one BatchAddClusterNodes (SageMaker API reference)."""
_MAX_IDS = 99
"""Maximum of one BatchDeleteClusterNodes (SageMaker developer guide, "Scaling down a SageMaker HyperPod cluster")."""
_MAX_WITH_LOGICAL_IDS = 50
"""Maximum of one BatchDeleteClusterNodes with NodeLogicalIds (botocore 1.44.5)."""
_MAX_CHANGED = 25
"""Maximum of one BatchRebootClusterNodes or BatchReplaceClusterNodes (botocore 1.44.5)."""
_MAX_CHECKED_GROUPS = 99
_CHECKS = ("InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation")
"""Maximum and values of StartClusterHealthCheck (botocore 1.44.5)."""
_ID = re.compile(r"i-[a-f0-9]{8}(?:[a-f0-9]{9})?")
_UPDATED = frozenset(("ClusterName", "InstanceGroups", "NodeRecovery"))
_RECOVERIES = ("Automatic", "None")


def install(clusters: Registry, hosts: Registry) -> None:
    """Add the calls to moto's SageMaker; `clusters` runs Slurm clusters, `hosts` the Kubernetes that nodes join."""

    def update_cluster(response: Any) -> ActionResult:
        """Change the number of instances of groups, and whether faulty instances are replaced."""
        pod, request = _pod(response), response._get_params()  # noqa: SLF001  the way moto's own responses read
        _refuse_of_eks(pod, "UpdateCluster")
        return ActionResult({"ClusterArn": _update_cluster(clusters, pod, request)})

    def batch_delete_cluster_nodes(response: Any) -> ActionResult:
        pod, request = _pod(response), response._get_params()  # noqa: SLF001  the same
        return ActionResult(_delete_nodes(clusters, hosts, pod, request))

    def batch_add_cluster_nodes(response: Any) -> ActionResult:
        pod, request = _pod(response), response._get_params()  # noqa: SLF001  the same
        return ActionResult(_add_nodes(hosts, pod, request))

    def batch_reboot_cluster_nodes(response: Any) -> ActionResult:
        pod, request = _pod(response), response._get_params()  # noqa: SLF001  the same
        return ActionResult(_reboot_nodes(clusters, pod, request))

    def batch_replace_cluster_nodes(response: Any) -> ActionResult:
        pod, request = _pod(response), response._get_params()  # noqa: SLF001  the same
        return ActionResult(_replace_nodes(clusters, hosts, pod, request))

    def delete_cluster(response: Any) -> ActionResult:
        pod = _pod(response)
        end(pod, clusters, hosts)
        response.sagemaker_backend.clusters.pop(pod.cluster_name, None)
        return ActionResult({"ClusterArn": pod.arn})

    changes = (update_cluster, batch_delete_cluster_nodes, batch_add_cluster_nodes, delete_cluster)
    of_nodes = (batch_reboot_cluster_nodes, batch_replace_cluster_nodes, start_cluster_health_check)
    lists = (describe_cluster_node, list_cluster_nodes, list_cluster_events, describe_cluster_event)
    for call in (*changes, *of_nodes, *lists):
        setattr(SageMakerResponse, call.__name__, call)
    for name in ("describe_cluster", "list_cluster_nodes"):
        setattr(SageMakerModelBackend, name, _by_name_or_arn(getattr(SageMakerModelBackend, name)))


def describe_cluster_node(response: Any) -> ActionResult:
    """Describe a node of a cluster."""
    pod, node_id = _pod(response), response._get_param("NodeId")  # noqa: SLF001  as above
    details = response.sagemaker_backend.describe_cluster_node(cluster_name=pod.cluster_name, node_id=node_id)
    node = pod.nodes[node_id]
    status = {"Status": pod.state(node), "Message": pod.message(node)}
    return ActionResult({"NodeDetails": {**details, "InstanceStatus": status}})


def list_cluster_nodes(response: Any) -> ActionResult:
    """List the nodes of a cluster, on request with those that have no instance yet."""
    pod, request = _pod(response), response._get_params()  # noqa: SLF001  as above
    nodes, token = response.sagemaker_backend.list_cluster_nodes(
        cluster_name=pod.cluster_name,
        creation_time_after=request.get("CreationTimeAfter"),
        creation_time_before=request.get("CreationTimeBefore"),
        instance_group_name_contains=request.get("InstanceGroupNameContains"),
        max_results=request.get("MaxResults"),
        next_token=request.get("NextToken"),
        sort_by=request.get("SortBy"),
        sort_order=request.get("SortOrder"),
    )
    group_part, logical = request.get("InstanceGroupNameContains", ""), request.get("IncludeNodeLogicalIds") is True
    summaries = pod.list_nodes(nodes, group_part=group_part, with_logical_ids=logical and token is None)
    return ActionResult({"NextToken": token, "ClusterNodeSummaries": summaries})


def list_cluster_events(response: Any) -> ActionResult:
    """List the events of a cluster that fit the request."""
    pod, request = _pod(response), response._get_params()  # noqa: SLF001  as above
    return ActionResult({"Events": hyperpod_events.summaries(pod, request)})


def describe_cluster_event(response: Any) -> ActionResult:
    """Describe one event of a cluster."""
    pod, request = _pod(response), response._get_params()  # noqa: SLF001  as above
    return ActionResult({"EventDetails": hyperpod_events.details(pod, request["EventId"])})


def start_cluster_health_check(response: Any) -> ActionResult:
    """Begin checks; they pass."""
    pod, request = _pod(response), response._get_params()  # noqa: SLF001  as above
    configurations = request["DeepHealthCheckConfigurations"]
    _refuse_checks(pod, configurations)
    active = [id_ for id_ in pod.checked_on_demand if id_ in pod.checking()]
    if active:
        raise ConflictException(in_progress(pod.cluster_name, active))
    pod.checked_on_demand = tuple(
        id_
        for configuration in configurations
        for id_ in configuration.get("InstanceIds") or pod.instances(configuration["InstanceGroupName"])
    )
    pod.check(pod.checked_on_demand, CHECKED_ON_DEMAND_S)
    return ActionResult({"ClusterArn": pod.arn})


def _refuse_of_eks(pod: EmulatedPodCluster, call: str) -> None:
    """Refuse a cluster with EKS."""
    if eks_name(pod.request) is not None:
        raise NotImplementedError(f"the sandbox's {call} does not support clusters with EKS")


def _by_name_or_arn(answer: Callable[..., Any]) -> Callable[..., Any]:

    @wraps(answer)
    def answer_by_name(backend: SageMakerModelBackend, cluster_name: str, **options: Any) -> Any:
        return answer(backend, cluster_name=_cluster(backend, cluster_name).cluster_name, **options)

    return answer_by_name


def _pod(response: Any) -> EmulatedPodCluster:
    cluster: EmulatedPodCluster = _cluster(response.sagemaker_backend, response._get_param("ClusterName"))  # noqa: SLF001
    return cluster


def _cluster(backend: SageMakerModelBackend, name: str) -> Any:
    for cluster in backend.clusters.values():
        if name in (cluster.cluster_name, cluster.arn):
            return cluster
    raise ResourceNotFound(message=f"Cluster with name {name} not found")


def _update_cluster(clusters: Registry, pod: EmulatedPodCluster, request: Mapping[str, Any]) -> str:
    unknown = set(request) - _UPDATED
    if unknown:
        raise NotImplementedError(f"the sandbox's UpdateCluster does not support {', '.join(sorted(unknown))}")
    if checking := pod.checking():
        raise ConflictException(in_progress(pod.cluster_name, checking))
    recovery = request.get("NodeRecovery", _RECOVERIES[0])
    if recovery not in _RECOVERIES:
        raise ValidationError(message=f"NodeRecovery: got {recovery!r}, allowed: {', '.join(_RECOVERIES)}")
    groups = request.get("InstanceGroups", ())
    for group in groups:
        _refuse_other_change(pod, group)
    for group in groups:
        _resize(clusters, pod, group["InstanceGroupName"], group["InstanceCount"])
    if "NodeRecovery" in request:
        pod.request["NodeRecovery"] = recovery
    return pod.arn


def _refuse_other_change(pod: EmulatedPodCluster, request: Mapping[str, Any]) -> None:
    """Refuse any change except the number of instances of an existing worker group."""
    name = request["InstanceGroupName"]
    if name not in pod.groups:
        raise NotImplementedError(f"the sandbox's UpdateCluster cannot create a group, got {name}")
    current = pod.groups[name]
    other = [key for key in {*current, *request} if key != "InstanceCount" and current.get(key) != request.get(key)]
    if other:
        keys = ", ".join(sorted(other))
        raise NotImplementedError(f"the sandbox's UpdateCluster changes only InstanceCount; {name} differs in {keys}")
    if current["SlurmConfig"]["NodeType"] != "Compute" and request["InstanceCount"] != current["InstanceCount"]:
        raise NotImplementedError(f"the sandbox's UpdateCluster changes only worker groups, got {name}")


def _resize(clusters: Registry, pod: EmulatedPodCluster, name: str, count: int) -> None:
    """Set the number of instances of a group; removed instances are chosen at random, as in HyperPod's guide."""
    present = pod.instances(name)
    # Nodes without an instance, and failed instances, count in the group's size, and go first.
    for id_ in [id_ for id_, node in pod.nodes.items() if node.instance_group_name == name and id_ not in present]:
        pod.nodes.pop(id_)
    for logical_id in [logical_id for logical_id, group in pod.waiting.items() if group == name]:
        pod.waiting.pop(logical_id, None)
    if count < len(present):
        leaving = secrets.SystemRandom().sample(present, len(present) - count)
        clusters.dismiss(pod.cluster_name, leaving)
    elif count > len(present):
        pod.ready[name] = hyperpod_boots.start_instances(pod, name, count - len(present))
        try:
            clusters.enlist(pod.cluster_name, name, len(pod.ready[name]))
        except ClusterFailedError as failure:
            for id_ in pod.ready.pop(name):
                pod.nodes.pop(id_)
            raise ValidationError(message=str(failure)) from failure
        hyperpod_boots.keep_replacing(pod, clusters, clusters)
    pod.groups[name]["InstanceCount"] = count


def _add_nodes(hosts: Registry, pod: EmulatedPodCluster, request: Mapping[str, Any]) -> dict[str, Any]:
    name = eks_name(pod.request)
    if name is None or not pod.continuous:
        raise ValidationError(
            message=f"BatchAddClusterNodes is for clusters whose NodeProvisioningMode is {CONTINUOUS}"
        )
    additions = request.get("NodesToAdd", ())
    strange = sorted({addition["InstanceGroupName"] for addition in additions} - pod.groups.keys())
    if strange or not 1 <= len(additions) <= _MAX_GROUPS:
        groups = ", ".join(pod.groups)
        raise ValidationError(message=f"NodesToAdd: 1 to {_MAX_GROUPS} groups of {groups}; got {strange or additions}")
    for addition in additions:
        if not 1 <= addition["IncrementTargetCountBy"] <= ADDED_A_CALL:
            increment = addition["IncrementTargetCountBy"]
            raise ValidationError(message=f"IncrementTargetCountBy: got {increment}, allowed: 1 to {ADDED_A_CALL}")
    added = []
    for addition in additions:
        group, more = addition["InstanceGroupName"], addition["IncrementTargetCountBy"]
        waiting = set(pod.waiting)
        started = hyperpod_boots.start_instances(pod, group, more)
        try:
            hosts.resize(name, group, len(pod.instances(group)))
        except ClusterFailedError as failure:
            for id_ in started:
                pod.nodes.pop(id_)
            raise ValidationError(message=str(failure)) from failure
        pod.groups[group]["InstanceCount"] += more
        for status, ids in (("Running", started), ("Pending", sorted(pod.waiting.keys() - waiting))):
            added += [{"NodeLogicalId": id_, "InstanceGroupName": group, "Status": status} for id_ in ids]
        hosts.identify(name, group, pod.instances(group))
    hyperpod_boots.keep_replacing(pod, hosts, hosts)
    return {"Successful": added, "Failed": []}


def _delete_nodes(
    clusters: Registry, hosts: Registry, pod: EmulatedPodCluster, request: Mapping[str, Any]
) -> dict[str, Any]:
    ids, logical_ids = request.get("NodeIds", ()), request.get("NodeLogicalIds", ())
    if logical_ids and not pod.continuous:
        raise ValidationError(message=f"NodeLogicalIds are for clusters whose NodeProvisioningMode is {CONTINUOUS}")
    if not 1 <= len(ids) + len(logical_ids) <= (_MAX_WITH_LOGICAL_IDS if logical_ids else _MAX_IDS):
        raise ValidationError(message=f"NodeIds: got {len(ids) + len(logical_ids)}, allowed: 1 to {_MAX_IDS}")
    failed = list(_undeletable(pod, ids))
    refused = {failure["NodeId"] for failure in failed}
    leaving = [id_ for id_ in ids if id_ not in refused]
    given_up = {id_: group for id_ in logical_ids if (group := pod.waiting.pop(id_, None)) is not None}
    for group in given_up.values():
        pod.groups[group]["InstanceCount"] -= 1
    unknown = [
        {"NodeLogicalId": id_, "Code": "NodeIdNotFound", "Message": "no such node in this cluster"}
        for id_ in logical_ids
        if id_ not in given_up
    ]
    if not leaving and not given_up:
        raise ValidationError(message="; ".join(str(failure) for failure in (*failed, *unknown)))
    groups = [pod.nodes[node_id].instance_group_name for node_id in leaving]
    control = eks_name(pod.request)
    if control is None:
        clusters.dismiss(pod.cluster_name, leaving)
    for name in groups:
        pod.groups[name]["InstanceCount"] -= 1
    for node_id in leaving:
        pod.nodes.pop(node_id, None)
    for name in sorted(set(groups)) if control is not None else ():
        hosts.resize(str(control), name, pod.groups[name]["InstanceCount"])
        hosts.identify(str(control), name, pod.instances(name))
    logical = {"SuccessfulNodeLogicalIds": list(given_up), "FailedNodeLogicalIds": unknown} if logical_ids else {}
    return {"Successful": leaving, "Failed": failed, **logical}


def _requested_instances(pod: EmulatedPodCluster, request: Mapping[str, Any]) -> tuple[list[str], list[dict[str, str]]]:
    """The instances of a request that the cluster has, and the failures of the others."""
    if request.get("NodeLogicalIds"):
        raise NotImplementedError("the sandbox's BatchReboot- and BatchReplaceClusterNodes support only NodeIds")
    ids = request.get("NodeIds", ())
    if not 1 <= len(ids) <= _MAX_CHANGED:
        raise ValidationError(message=f"NodeIds: got {len(ids)}, allowed: 1 to {_MAX_CHANGED}")
    if wrong := [id_ for id_ in ids if not _ID.fullmatch(id_)]:
        raise ValidationError(message=f"NodeIds: {', '.join(wrong)} must satisfy the pattern {_ID.pattern}")
    failed = [
        {"NodeId": id_, "ErrorCode": "InstanceIdNotFound", "Message": f"{id_} is no instance of {pod.cluster_name}"}
        for id_ in ids
        if id_ not in pod.nodes
    ]
    checking = set(pod.checking())
    failed += [
        {"NodeId": id_, "ErrorCode": "InvalidInstanceStatus", "Message": in_progress(pod.cluster_name, [id_])}
        for id_ in ids
        if id_ in checking
    ]
    return [id_ for id_ in ids if id_ in pod.nodes and id_ not in checking], failed


def _reboot_nodes(clusters: Registry, pod: EmulatedPodCluster, request: Mapping[str, Any]) -> dict[str, Any]:
    ids, failed = _requested_instances(pod, request)
    clusters.restart(eks_name(pod.request) or pod.cluster_name, ids)
    return {"Successful": ids, "Failed": failed}


def _replace_nodes(
    clusters: Registry, hosts: Registry, pod: EmulatedPodCluster, request: Mapping[str, Any]
) -> dict[str, Any]:
    ids, failed = _requested_instances(pod, request)
    control = eks_name(pod.request)
    if control is None:
        clusters.renew(pod.cluster_name, ids)
    for id_ in ids if control is not None else ():
        successor = pod.add(pod.nodes.pop(id_).instance_group_name)
        pod.check_on_start([successor])
        hosts.renew_node(str(control), id_, successor)
    return {"Successful": ids, "Failed": failed}


def _refuse_checks(pod: EmulatedPodCluster, configurations: list[dict[str, Any]]) -> None:
    """Refuse checks of groups and instances that the cluster does not have, and checks that AWS does not."""
    if not 1 <= len(configurations) <= _MAX_CHECKED_GROUPS:
        raise ValidationError(message=f"DeepHealthCheckConfigurations: got {len(configurations)}, allowed: 1 to 99")
    for configuration in configurations:
        group, ids = configuration["InstanceGroupName"], configuration.get("InstanceIds", [])
        if group not in pod.groups:
            raise ResourceNotFound(message=f"{pod.cluster_name} has no instance group {group}")
        foreign = [id_ for id_ in ids if id_ not in pod.nodes or pod.nodes[id_].instance_group_name != group]
        if foreign:
            raise ValidationError(message=f"InstanceIds: {', '.join(foreign)}: not in instance group {group}")
        checks = configuration["DeepHealthChecks"]
        if not checks or not set(checks) <= set(_CHECKS):
            raise ValidationError(message=f"DeepHealthChecks: {checks}, allowed: {', '.join(_CHECKS)}")


def _undeletable(pod: EmulatedPodCluster, ids: Iterable[str]) -> Iterable[dict[str, str]]:
    for id_ in ids:
        node = pod.nodes.get(id_)
        if node is None:
            yield {"NodeId": id_, "Code": "NodeIdNotFound", "Message": "no such instance in this cluster"}
        elif pod.groups[node.instance_group_name].get("SlurmConfig", {}).get("NodeType") == "Controller":
            yield {"NodeId": id_, "Code": "InvalidNodeStatus", "Message": "Slurm's controller cannot be deleted"}
