"""The API of AWS PCS, which moto lacks: JSON 1.0 with the service's own error codes.

Judged by: botocore 1.44.5 (pcs), which the client uses; requests are judged in launcher/sandbox/cluster/pcs_request.py.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox.aws.access_log import Application, Environ, service_of
from launcher.sandbox.aws.error_responses import refuse
from launcher.sandbox.aws.pcs import EmulatedPcs, EmulatedPcsCluster, PcsError, PcsPart, PcsService

_STATUS = {"ResourceNotFoundException": "404 Not Found", "ConflictException": "409 Conflict"}
_SHOWN_OF_GROUP = (
    *("amiId", "subnetIds", "purchaseOption", "customLaunchTemplate", "iamInstanceProfileArn", "scalingConfiguration"),
    *("instanceConfigs", "spotOptions", "slurmConfiguration", "nodeLifecycleActions"),
)


def with_pcs(inner: Application, pcs: EmulatedPcs) -> Application:
    """A WSGI application that answers requests signed for PCS, and passes on all other requests."""

    def answer(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        if service_of(environ) != "pcs":
            return inner(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        request = safe_json.loads(environ["wsgi.input"].read(length) or b"{}")
        name = environ.get("HTTP_X_AMZ_TARGET", "").removeprefix("AWSParallelComputingService.")
        if name not in _CALLS:
            raise NotImplementedError(name)
        try:
            answered = _CALLS[name](pcs.service(ACCOUNT, _region(environ)), request)
        except PcsError as refusal:
            status = _STATUS.get(refusal.code, "400 Bad Request")
            return refuse(environ, start_response, status, refusal.code, str(refusal))
        body = json.dumps(answered).encode()
        start_response("200 OK", [("Content-Type", "application/x-amz-json-1.0"), ("Content-Length", str(len(body)))])
        return [body]

    return answer


def _region(environ: Environ) -> str:
    return str(environ["HTTP_AUTHORIZATION"].partition("Credential=")[2].split("/")[2])


def _cluster(service: PcsService, cluster: EmulatedPcsCluster) -> dict[str, Any]:
    request = cluster.request
    keys = ("scheduler", "size", "networking", "slurmConfiguration")
    shown: dict[str, Any] = {key: request[key] for key in keys if key in request}
    moments = {"createdAt": cluster.created_at.isoformat(), "modifiedAt": cluster.created_at.isoformat()}
    return {
        **_identity(cluster.name, cluster.id, service.arn(cluster.id)),
        "status": cluster.status,
        **moments,
        **shown,
    }


def _identity(name: str, id_: str, arn: str) -> dict[str, str]:
    return {"name": name, "id": id_, "arn": arn}


def _part(service: PcsService, cluster: EmulatedPcsCluster, part: PcsPart, kind: str) -> dict[str, Any]:
    return {
        **_identity(part.name, part.id, service.arn(cluster.id, kind, part.id)),
        "clusterId": cluster.id,
        "status": part.status,
        "createdAt": part.created_at.isoformat(),
        "modifiedAt": part.modified.isoformat(),
    }


def _group(service: PcsService, cluster: EmulatedPcsCluster, group: PcsPart) -> dict[str, Any]:
    shown = {key: group.request[key] for key in _SHOWN_OF_GROUP if key in group.request}
    return {"computeNodeGroup": {**_part(service, cluster, group, "computenodegroup"), **shown}}


def _queue(service: PcsService, cluster: EmulatedPcsCluster, queue: PcsPart) -> dict[str, Any]:
    groups = queue.request.get("computeNodeGroupConfigurations", [])
    return {"queue": {**_part(service, cluster, queue, "queue"), "computeNodeGroupConfigurations": groups}}


def _get_group(service: PcsService, request: Mapping[str, Any]) -> dict[str, Any]:
    cluster = service.cluster(request["clusterIdentifier"])
    name = request["computeNodeGroupIdentifier"]
    return _group(service, cluster, service.part(cluster.groups, name, "compute node group"))


def _get_queue(service: PcsService, request: Mapping[str, Any]) -> dict[str, Any]:
    cluster = service.cluster(request["clusterIdentifier"])
    return _queue(service, cluster, service.part(cluster.queues, request["queueIdentifier"], "queue"))


def _list(service: PcsService, request: Mapping[str, Any], *, queues: bool) -> dict[str, Any]:
    cluster = service.cluster(request["clusterIdentifier"])
    parts, kind = (cluster.queues, "queue") if queues else (cluster.groups, "computenodegroup")
    listed = [_part(service, cluster, part, kind) for part in parts.values()]
    return {"queues" if queues else "computeNodeGroups": listed}


def _list_clusters(service: PcsService, _asked: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("name", "id", "arn", "createdAt", "modifiedAt", "status")
    described = (_cluster(service, cluster) for cluster in service.clusters())
    return {"clusters": [{key: cluster[key] for key in keys} for cluster in described]}


def _delete_cluster(service: PcsService, request: Mapping[str, Any]) -> dict[str, Any]:
    service.delete_cluster(request["clusterIdentifier"])
    return {}


def _delete_group(service: PcsService, request: Mapping[str, Any]) -> dict[str, Any]:
    service.delete_group(request["clusterIdentifier"], request["computeNodeGroupIdentifier"])
    return {}


def _delete_queue(service: PcsService, request: Mapping[str, Any]) -> dict[str, Any]:
    service.delete_queue(request["clusterIdentifier"], request["queueIdentifier"])
    return {}


_CALLS: Mapping[str, Callable[[PcsService, dict[str, Any]], dict[str, Any]]] = {
    "CreateCluster": lambda service, request: {"cluster": _cluster(service, service.create_cluster(request))},
    "GetCluster": lambda service, request: {
        "cluster": _cluster(service, service.cluster(request["clusterIdentifier"]))
    },
    "ListClusters": _list_clusters,
    "DeleteCluster": _delete_cluster,
    "CreateComputeNodeGroup": lambda service, request: _group(service, *service.create_group(request)),
    "GetComputeNodeGroup": _get_group,
    "ListComputeNodeGroups": lambda service, request: _list(service, request, queues=False),
    "UpdateComputeNodeGroup": lambda service, request: _group(service, *service.update_group(request)),
    "DeleteComputeNodeGroup": _delete_group,
    "CreateQueue": lambda service, request: _queue(service, *service.create_queue(request)),
    "GetQueue": _get_queue,
    "ListQueues": lambda service, request: _list(service, request, queues=True),
    "DeleteQueue": _delete_queue,
}
