"""EKS's API calls that moto lacks or answers without an effect.

Judged by: the EKS API reference (2026-11), and moto 5.2.5 for the calls that it has.

Emulated: DescribeAddon, DescribeAccessEntry and ListAssociatedAccessPolicies for resources of CloudFormation; pod
identity associations (list, create, delete; one for each namespace and service account); UpdateNodegroupConfig, which
sets the number of nodes immediately; the log group of a deleted cluster, which EKS creates again for a last event
(terraform-aws-eks, issues 2763 and 2446). Not emulated: delays, and resources that other calls create.
"""

from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from moto.core.responses import ActionResult
from moto.eks import urls
from moto.eks.exceptions import InvalidParameterException, ResourceInUseException, ResourceNotFoundException
from moto.eks.models import Cluster, EKSBackend
from moto.eks.responses import EKSResponse
from moto.logs.models import LogsBackend

from launcher.sandbox.aws import node_groups
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError

_ID_LENGTH = 17
_ONE = "{0}/clusters/(?P<name>[^/]+)"
_PATHS = (
    f"{_ONE}/addons/(?P<addonName>[^/]+)$",
    f"{_ONE}/access-entries/(?P<principalArn>.+)$",
    f"{_ONE}/pod-identity-associations$",
    f"{_ONE}/pod-identity-associations/(?P<associationId>[^/]+)$",
)
_UNWRITTEN: set[tuple[str, str, str]] = set()
"""The log groups to which EKS still has to write: account, region, name."""


@dataclass(slots=True)
class Parts:
    """The parts of a cluster other than its nodes.

    `addons` are versions by name, `entries` access policies by principal, `pod_roles` roles by namespace and account.
    """

    addons: dict[str, str] = field(default_factory=dict)
    entries: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    pod_roles: dict[tuple[str, str], str] = field(default_factory=dict)


_PARTS: dict[str, Parts] = {}


def parts_of(cluster: Cluster) -> Parts:
    """The parts of a cluster."""
    return _PARTS.setdefault(cluster.arn, Parts())


def forget(cluster: Cluster, account: str, region: str) -> None:
    """Forget the parts of a deleted cluster; EKS writes its log once more."""
    _PARTS.pop(cluster.arn, None)
    _UNWRITTEN.add((account, region, f"/aws/eks/{cluster.name}/cluster"))


def install(hosts: Registry) -> None:
    """Add the calls to moto's EKS; `hosts` changes the number of nodes."""
    for path in _PATHS:
        urls.url_paths[path] = urls.response.dispatch
    for call in (
        describe_addon,
        describe_access_entry,
        list_associated_access_policies,
        list_pod_identity_associations,
        create_pod_identity_association,
        delete_pod_identity_association,
    ):
        setattr(EKSResponse, call.__name__, call)
    counted = EKSBackend.update_nodegroup_config

    def update_nodegroup_config(backend: EKSBackend, **request: Any) -> dict[str, Any]:
        """Change a group as moto does, and change the number of its nodes."""
        sizes = request.get("scaling_config") or {}
        before = backend.describe_nodegroup(request["cluster_name"], request["nodegroup_name"]).scaling_config
        requested = {**before, **sizes}
        if not requested["minSize"] <= requested["desiredSize"] <= requested["maxSize"]:
            least, most = requested["minSize"], requested["maxSize"]
            text = f"desired capacity {requested['desiredSize']} can't be outside of {least} and {most}"
            raise _invalid(request["cluster_name"], request["nodegroup_name"], text)
        done = counted(backend, **{**request, "scaling_config": requested})
        if "desiredSize" in sizes:
            try:
                hosts.resize(request["cluster_name"], request["nodegroup_name"], int(requested["desiredSize"]))
            except ClusterFailedError as failure:
                raise _invalid(request["cluster_name"], request["nodegroup_name"], str(failure)) from failure
            ids = node_groups.match(backend, request["cluster_name"], request["nodegroup_name"])
            if len(ids) < int(requested["desiredSize"]):
                hosts.resize(request["cluster_name"], request["nodegroup_name"], len(ids))
            hosts.identify(request["cluster_name"], request["nodegroup_name"], ids)
        return done

    EKSBackend.update_nodegroup_config = update_nodegroup_config  # type: ignore[method-assign,assignment]
    deleted = LogsBackend.delete_log_group

    def delete_log_group(backend: LogsBackend, log_group_name: str) -> None:
        """Delete a log group as moto does. EKS creates the group again if it still has to write an event."""
        deleted(backend, log_group_name)
        place = (backend.account_id, backend.region_name, log_group_name)
        if place in _UNWRITTEN:
            _UNWRITTEN.remove(place)
            backend.create_log_group(log_group_name, {})

    LogsBackend.delete_log_group = delete_log_group  # type: ignore[method-assign,assignment]


def _invalid(cluster: str, group: str, text: str) -> InvalidParameterException:
    return InvalidParameterException(
        clusterName=cluster, nodegroupName=group, fargateProfileName=None, addonName=None, message=text
    )


def _missing(cluster: str, text: str) -> ResourceNotFoundException:
    return ResourceNotFoundException(
        clusterName=cluster, nodegroupName=None, fargateProfileName=None, addonName=None, message=text
    )


def _cluster_of(response: Any) -> tuple[Cluster, Parts]:
    name = response._get_param("name")  # noqa: SLF001  the way moto's own responses read
    cluster = response.eks_backend.clusters.get(name)
    if cluster is None:
        raise _missing(name, f"No cluster found for name: {name}.")
    return cluster, parts_of(cluster)


def describe_addon(response: Any) -> ActionResult:
    """Return one add-on."""
    cluster, parts = _cluster_of(response)
    name = response._get_param("addonName")  # noqa: SLF001  the same
    if name not in parts.addons:
        raise _missing(cluster.name, f"No addon: {name} found in cluster: {cluster.name}")
    shown = {"addonName": name, "clusterName": cluster.name, "status": "ACTIVE", "addonVersion": parts.addons[name]}
    return ActionResult({"addon": shown})


def describe_access_entry(response: Any) -> ActionResult:
    """Return one access entry."""
    cluster, parts = _cluster_of(response)
    principal = _principal(response, cluster, parts)
    return ActionResult({"accessEntry": {"clusterName": cluster.name, "principalArn": principal, "type": "STANDARD"}})


def list_associated_access_policies(response: Any) -> ActionResult:
    """Return the access policies of an access entry."""
    cluster, parts = _cluster_of(response)
    principal = _principal(response, cluster, parts)
    shown = [
        {"policyArn": policy["PolicyArn"], "accessScope": {"type": policy["AccessScope"]["Type"].lower()}}
        for policy in parts.entries[principal]
    ]
    return ActionResult({"clusterName": cluster.name, "principalArn": principal, "associatedAccessPolicies": shown})


def _principal(response: Any, cluster: Cluster, parts: Parts) -> str:
    principal = str(response._get_param("principalArn"))  # noqa: SLF001  the same
    if principal not in parts.entries:
        raise _missing(cluster.name, f"The specified principalArn could not be found: {principal}")
    return principal


def list_pod_identity_associations(response: Any) -> ActionResult:
    """Return the roles granted to pods, filtered by namespace and service account if the request names them."""
    cluster, parts = _cluster_of(response)
    namespace = response._get_param("namespace")  # noqa: SLF001  the same
    account = response._get_param("serviceAccount")  # noqa: SLF001  the same
    shown = [
        _association(cluster, of, name)
        for of, name in sorted(parts.pod_roles)
        if namespace in (None, of) and account in (None, name)
    ]
    return ActionResult({"associations": shown})


def _association(cluster: Cluster, namespace: str, account: str) -> dict[str, str]:
    """An association as a list shows it. Its id does not change when other associations are created or deleted."""
    token = sha256(f"{cluster.arn} {namespace}/{account}".encode()).hexdigest()[:_ID_LENGTH]
    return {
        "clusterName": cluster.name,
        "namespace": namespace,
        "serviceAccount": account,
        "associationArn": f"{cluster.arn.replace(':cluster/', ':podidentityassociation/')}/a-{token}",
        "associationId": f"a-{token}",
    }


def create_pod_identity_association(response: Any) -> ActionResult:
    """Grant a role to the pods of a service account; refuse a second association."""
    cluster, parts = _cluster_of(response)
    namespace, account, role = (
        str(response._get_param(key))  # noqa: SLF001  the same
        for key in ("namespace", "serviceAccount", "roleArn")
    )
    if (namespace, account) in parts.pod_roles:
        text = f"Association already exists: {_association(cluster, namespace, account)['associationId']}"
        raise ResourceInUseException(
            clusterName=cluster.name, nodegroupName=None, fargateProfileName=None, addonName=None, message=text
        )
    parts.pod_roles[namespace, account] = role
    return ActionResult({"association": {**_association(cluster, namespace, account), "roleArn": role}})


def delete_pod_identity_association(response: Any) -> ActionResult:
    """Delete an association."""
    cluster, parts = _cluster_of(response)
    association_id = response._get_param("associationId")  # noqa: SLF001  the same
    for namespace, account in parts.pod_roles:
        association = _association(cluster, namespace, account)
        if association["associationId"] == association_id:
            role = parts.pod_roles.pop((namespace, account))
            return ActionResult({"association": {**association, "roleArn": role}})
    raise _missing(cluster.name, f"The associationId: {association_id} is not found.")
