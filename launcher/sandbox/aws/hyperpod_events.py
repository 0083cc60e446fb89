"""The events of a HyperPod cluster with continuous provisioning.

Judged by: botocore 1.44.5 (sagemaker/2017-07-24 service-2.json), which the client uses, and the developer guide's
"SageMaker HyperPod cluster events reference".

Emulated: one event for each instance, which has started or whose script has failed. Not emulated: other events.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from moto.sagemaker.exceptions import ResourceNotFound, ValidationError
from moto.sagemaker.models import ClusterNode

from launcher.sandbox.aws.pod_cluster import PENDING, EmulatedPodCluster
from launcher.sandbox.cluster.hyperpod_request import CONTINUOUS

_RESOURCE = "Instance"


def summaries(pod: EmulatedPodCluster, request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The events that fit a request for a list, in its order."""
    # moto's times have no zone: they are UTC.
    after = request.get("EventTimeAfter", datetime.min)  # noqa: DTZ901 - the same
    shown = [
        {key: value for key, value in event.items() if key != "EventDetails"}
        for event in _events(pod)
        if event["EventTime"] > after
        and request.get("InstanceGroupName", event["InstanceGroupName"]) == event["InstanceGroupName"]
        and request.get("ResourceType", _RESOURCE) == _RESOURCE
    ]
    return sorted(shown, key=lambda event: event["EventTime"], reverse=request.get("SortOrder") != "Ascending")


def details(pod: EmulatedPodCluster, event_id: str) -> dict[str, Any]:
    """One event.

    Raises:
        ResourceNotFound: the cluster has no such event.
    """
    for event in _events(pod):
        if event["EventId"] == event_id:
            return event
    raise ResourceNotFound(message=f"{pod.cluster_name} has no event {event_id}")


def _events(pod: EmulatedPodCluster) -> list[dict[str, Any]]:
    if not pod.continuous:
        raise ValidationError(message=f"events are for clusters whose NodeProvisioningMode is {CONTINUOUS}")
    started = [(id_, node) for id_, node in list(pod.nodes.items()) if node.status != PENDING]
    return [*pod.failed_starts, *(_start_event(pod, id_, node) for id_, node in started)]


def _start_event(pod: EmulatedPodCluster, id_: str, node: ClusterNode) -> dict[str, Any]:
    cluster, group = pod.cluster_name, node.instance_group_name
    return {
        "EventId": str(uuid5(NAMESPACE_URL, f"{pod.arn}/{id_}")),
        "ClusterArn": pod.arn,
        "ClusterName": cluster,
        "InstanceGroupName": group,
        "InstanceId": id_,
        "ResourceType": _RESOURCE,
        "EventTime": node.launch_time,
        "EventLevel": "Info",
        "EventDetails": {"EventMetadata": {"Instance": {"NodeLogicalId": id_}}},
        "Description": f"Instance creation {id_} in Cluster {cluster} and IG {group} completed successfully",
    }
