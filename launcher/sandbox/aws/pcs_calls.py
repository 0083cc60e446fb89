"""The API of AWS PCS, before moto, which has no such service: JSON 1.0, with the service's own codes."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from launcher.agent import safe_json
from launcher.sandbox.aws.access_log import Application, Environ, service_of
from launcher.sandbox.aws.answers import refuse
from launcher.sandbox.aws.pcs import Part, Pcs, PcsCluster, PcsError, PcsService
from launcher.sandbox.environment import ACCOUNT

_TARGET = "AWSParallelComputingService."
_STATUS = {"ResourceNotFoundException": "404 Not Found", "ConflictException": "409 Conflict"}
_SHOWN_OF_GROUP = (
    *("amiId", "subnetIds", "purchaseOption", "customLaunchTemplate", "iamInstanceProfileArn", "scalingConfiguration"),
    *("instanceConfigs", "spotOptions", "slurmConfiguration", "nodeLifecycleActions"),
)


class PcsApi:
    """A WSGI application that answers what is signed for PCS, and passes everything else on."""

    def __init__(self, inner: Application, pcs: Pcs) -> None:
        self._inner, self._pcs = inner, pcs

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer."""
        if service_of(environ) != "pcs":
            return self._inner(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        asked = safe_json.loads(environ["wsgi.input"].read(length) or b"{}")
        name = environ.get("HTTP_X_AMZ_TARGET", "").removeprefix(_TARGET)
        if name not in _CALLS:
            raise NotImplementedError(name)
        try:
            answer = _CALLS[name](self._pcs.service(ACCOUNT, _region(environ)), asked)
        except PcsError as refusal:
            status = _STATUS.get(refusal.code, "400 Bad Request")
            return refuse(environ, start_response, status, refusal.code, str(refusal))
        body = json.dumps(answer).encode()
        start_response("200 OK", [("Content-Type", "application/x-amz-json-1.0"), ("Content-Length", str(len(body)))])
        return [body]


def _region(environ: Environ) -> str:
    return str(environ["HTTP_AUTHORIZATION"].partition("Credential=")[2].split("/")[2])


def _cluster(service: PcsService, found: PcsCluster) -> dict[str, Any]:
    request = found.request
    keys = ("scheduler", "size", "networking", "slurmConfiguration")
    shown: dict[str, Any] = {key: request[key] for key in keys if key in request}
    moments = {"createdAt": found.made.isoformat(), "modifiedAt": found.made.isoformat()}
    return {**_named(found.name, found.id, service.arn(found.id)), "status": found.status, **moments, **shown}


def _named(name: str, id_: str, arn: str) -> dict[str, str]:
    return {"name": name, "id": id_, "arn": arn}


def _part(service: PcsService, cluster: PcsCluster, found: Part, kind: str) -> dict[str, Any]:
    return {
        **_named(found.name, found.id, service.arn(cluster.id, kind, found.id)),
        "clusterId": cluster.id,
        "status": "ACTIVE",
        "createdAt": found.made.isoformat(),
        "modifiedAt": found.modified.isoformat(),
    }


def _group(service: PcsService, cluster: PcsCluster, found: Part) -> dict[str, Any]:
    shown = {key: found.request[key] for key in _SHOWN_OF_GROUP if key in found.request}
    return {"computeNodeGroup": {**_part(service, cluster, found, "computenodegroup"), **shown}}


def _queue(service: PcsService, cluster: PcsCluster, found: Part) -> dict[str, Any]:
    groups = found.request.get("computeNodeGroupConfigurations", [])
    return {"queue": {**_part(service, cluster, found, "queue"), "computeNodeGroupConfigurations": groups}}


def _get_group(service: PcsService, asked: Mapping[str, Any]) -> dict[str, Any]:
    cluster = service.cluster(asked["clusterIdentifier"])
    name = asked["computeNodeGroupIdentifier"]
    return _group(service, cluster, service.part(cluster.groups, name, "compute node group"))


def _get_queue(service: PcsService, asked: Mapping[str, Any]) -> dict[str, Any]:
    cluster = service.cluster(asked["clusterIdentifier"])
    return _queue(service, cluster, service.part(cluster.queues, asked["queueIdentifier"], "queue"))


def _list(service: PcsService, asked: Mapping[str, Any], *, queues: bool) -> dict[str, Any]:
    cluster = service.cluster(asked["clusterIdentifier"])
    parts, kind = (cluster.queues, "queue") if queues else (cluster.groups, "computenodegroup")
    found = [_part(service, cluster, part, kind) for part in parts.values()]
    return {"queues" if queues else "computeNodeGroups": found}


def _list_clusters(service: PcsService, _asked: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("name", "id", "arn", "createdAt", "modifiedAt", "status")
    found = (_cluster(service, cluster) for cluster in service.clusters())
    return {"clusters": [{key: each[key] for key in keys} for each in found]}


def _delete_cluster(service: PcsService, asked: Mapping[str, Any]) -> dict[str, Any]:
    service.delete_cluster(asked["clusterIdentifier"])
    return {}


def _delete_group(service: PcsService, asked: Mapping[str, Any]) -> dict[str, Any]:
    service.delete_group(asked["clusterIdentifier"], asked["computeNodeGroupIdentifier"])
    return {}


def _delete_queue(service: PcsService, asked: Mapping[str, Any]) -> dict[str, Any]:
    service.delete_queue(asked["clusterIdentifier"], asked["queueIdentifier"])
    return {}


_CALLS: Mapping[str, Callable[[PcsService, dict[str, Any]], dict[str, Any]]] = {
    "CreateCluster": lambda service, asked: {"cluster": _cluster(service, service.create_cluster(asked))},
    "GetCluster": lambda service, asked: {"cluster": _cluster(service, service.cluster(asked["clusterIdentifier"]))},
    "ListClusters": _list_clusters,
    "DeleteCluster": _delete_cluster,
    "CreateComputeNodeGroup": lambda service, asked: _group(service, *service.create_group(asked)),
    "GetComputeNodeGroup": _get_group,
    "ListComputeNodeGroups": lambda service, asked: _list(service, asked, queues=False),
    "UpdateComputeNodeGroup": lambda service, asked: _group(service, *service.update_group(asked)),
    "DeleteComputeNodeGroup": _delete_group,
    "CreateQueue": lambda service, asked: _queue(service, *service.create_queue(asked)),
    "GetQueue": _get_queue,
    "ListQueues": lambda service, asked: _list(service, asked, queues=True),
    "DeleteQueue": _delete_queue,
}
