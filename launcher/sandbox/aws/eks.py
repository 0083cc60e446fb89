"""EKS for moto's CloudFormation, which lacks it: clusters, node groups, add-ons, access entries, pods' roles.

Emulated: clusters and node groups in moto's EKS, which describes them; a Kubernetes for each cluster, which answers on
loopback, with a node for each desired instance of its groups; for the other types, the check that referenced resources
exist. The sandbox refuses what EKS refuses (EKS user guide and API reference, 2026-11): a control plane in one zone, a
node group whose launch template has settings of the group itself, a node group for a Capacity Block without its
reservation, an invalid version of an add-on. Calls that moto lacks, and later changes of a group's size, are in
eks_calls.py. Not emulated: network access to the API; that pods get the roles that they are granted.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moto.ec2.models import ec2_backends
from moto.eks.models import Cluster, EKSBackend, eks_backends

from launcher.agent import safe_json
from launcher.catalog.load import load
from launcher.model.eks import GOVERNANCE, OPERATOR
from launcher.model.instance_type import InstanceType
from launcher.model.service_updates import eks_version
from launcher.model.update import Needs
from launcher.rendering.kubernetes_pod import HUGE_PAGES_MIB, resource_name
from launcher.sandbox.aws import node_groups
from launcher.sandbox.aws.eks_calls import forget, parts_of
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError, keep_resource, nothing
from launcher.sandbox.cluster.registry import Registry
from launcher.sandbox.cluster.specification import ClusterFailedError
from launcher.sandbox.kubernetes.hosted import PodNodeGroup

_ADDON_VERSION = re.compile(r"v\d+\.\d+\.\d+-eksbuild\.\d+")
_ACCESS_POLICY = re.compile(r"arn:aws[a-z-]*:eks::aws:cluster-access-policy/AmazonEKS\w+Policy")
_BLOCK = "CAPACITY_BLOCK"
_OWN_OF_GROUPS = ("IamInstanceProfile", "HibernationOptions", "InstanceInitiatedShutdownBehavior")
"""Settings that the launch template of a managed node group may not have (EKS user guide, launch template support)."""
_EFA, _EFA_RESOURCE = ("efa", "efa-only"), "vpc.amazonaws.com/efa"
_BRINGS = {OPERATOR[0]: ("hyperpod",), GOVERNANCE[0]: ("kueue",)}
"""The operators of add-ons, by the names of kubernetes/custom_kinds.yaml."""
_ALLOCATABLE = 0.95
"""Approximate share of an instance's memory that kubelet and system leave to pods; assumed."""


def _eks(requested: Requested) -> EKSBackend:
    return eks_backends[requested.account_id][requested.region_name]


def _cluster(requested: Requested) -> Cluster:
    name = requested.need("ClusterName")
    cluster = _eks(requested).clusters.get(name)
    if cluster is None:
        raise ResourceRefusedError(f"No cluster found for name: {name}.")
    return cluster


def _make_cluster(requested: Requested) -> Created:
    network = dict(requested.need("ResourcesVpcConfig"))
    _refuse_one_zone(requested, network.get("SubnetIds", []))
    if network.get("PublicAccessCidrs") and not _flag(network.get("EndpointPublicAccess", True)):
        raise ResourceRefusedError("publicAccessCidrs are for a cluster whose endpoint is public")
    group = ec2_backends[requested.account_id][requested.region_name].create_security_group(
        name=f"eks-cluster-sg-{requested.get('Name') or requested.name}",
        description="EKS created security group",
        vpc_id=str(_subnet(requested, network["SubnetIds"][0]).vpc_id),
        force=True,
    )
    cluster = _eks(requested).create_cluster(
        name=requested.get("Name") or requested.name,
        role_arn=requested.need("RoleArn"),
        resources_vpc_config={
            "subnetIds": network["SubnetIds"],
            "securityGroupIds": network.get("SecurityGroupIds", []),
            "clusterSecurityGroupId": group.id,
            "endpointPublicAccess": _flag(network.get("EndpointPublicAccess", True)),
            "endpointPrivateAccess": _flag(network.get("EndpointPrivateAccess", False)),
            "publicAccessCidrs": network.get("PublicAccessCidrs", []),
        },
        version=requested.get("Version"),
        tags={tag["Key"]: tag["Value"] for tag in requested.get("Tags", [])},
    )
    return Created(
        physical_resource_id=cluster.name,
        attributes={"Arn": cluster.arn, "Endpoint": cluster.endpoint, "ClusterSecurityGroupId": group.id},
    )


def _flag(value: Any) -> bool:
    """The value of a flag in a template: CloudFormation also accepts text."""
    return value is True or str(value).lower() == "true"


def _subnet(requested: Requested, subnet_id: str) -> Any:
    return ec2_backends[requested.account_id][requested.region_name].get_subnet(subnet_id)


def _refuse_one_zone(requested: Requested, subnets: list[str]) -> None:
    if len({_subnet(requested, subnet).availability_zone for subnet in subnets}) < 2:  # noqa: PLR2004 - two
        raise ResourceRefusedError("Subnets specified must be in at least two different AZs")


def _change_cluster(requested: Requested, created: Created) -> Created:
    cluster, network = (
        _eks(requested).clusters[created.physical_resource_id],
        dict(requested.need("ResourcesVpcConfig")),
    )
    for change in eks_version({"Version": cluster.version}, {"Version": requested.get("Version")}):
        if change.needs is Needs.NEW_CLUSTER:
            raise ResourceRefusedError(f"Unsupported Kubernetes minor version update from {change.old} to {change.new}")
    cluster.version = str(requested.get("Version"))
    cluster.resources_vpc_config |= {
        "endpointPublicAccess": _flag(network.get("EndpointPublicAccess", True)),
        "endpointPrivateAccess": _flag(network.get("EndpointPrivateAccess", False)),
        "publicAccessCidrs": network.get("PublicAccessCidrs", []),
    }
    return created


def _remove_cluster(requested: Requested, created: Created) -> None:
    """Delete a cluster with its security group, as EKS does (user guide, security group requirements)."""
    cluster = _eks(requested).clusters[created.physical_resource_id]
    group = str(cluster.resources_vpc_config["clusterSecurityGroupId"])
    forget(cluster, requested.account_id, requested.region_name)
    _eks(requested).delete_cluster(created.physical_resource_id)
    ec2_backends[requested.account_id][requested.region_name].delete_security_group(group_id=group)


def _make_group(requested: Requested) -> Created:
    cluster, template = _cluster(requested), requested.need("LaunchTemplate")
    data = _template(requested, template["Id"])
    _refuse_template(data, str(requested.get("CapacityType")))
    sizes: Mapping[str, Any] = requested.need("ScalingConfig")
    least, most, desired = (int(sizes[key]) for key in ("MinSize", "MaxSize", "DesiredSize"))
    if not least <= desired <= most:
        raise ResourceRefusedError(f"desired capacity {desired} can't be outside of {least} and {most}")
    name = requested.get("NodegroupName") or requested.name
    _eks(requested).create_nodegroup(
        cluster_name=cluster.name,
        node_role=requested.need("NodeRole"),
        nodegroup_name=name,
        subnets=requested.need("Subnets"),
        scaling_config={"minSize": least, "maxSize": most, "desiredSize": desired},
        ami_type=requested.get("AmiType"),
        capacity_type=requested.get("CapacityType"),
        labels=dict(requested.get("Labels", {})),
        launch_template={"id": template["Id"], "version": str(template.get("Version", "1"))},
        instance_types=[data["InstanceType"]],
    )
    return Created(physical_resource_id=f"{cluster.name}/{name}", attributes={"NodegroupName": name})


def _template(requested: Requested, template_id: str) -> Mapping[str, Any]:
    backend = ec2_backends[requested.account_id][requested.region_name]
    template = backend.launch_templates.get(template_id)
    if template is None:
        raise ResourceRefusedError(f"Launch template {template_id} does not exist")
    data: Mapping[str, Any] = template.latest_version().data
    return data


def _refuse_image_change(requested: Requested, before: Mapping[str, Any]) -> None:
    """Refuse a change between EKS's image and an image of the launch template, whose kind a node group keeps."""
    template = ec2_backends[requested.account_id][requested.region_name].launch_templates.get(str(before.get("id")))
    if template is None:
        return
    was, becomes = (
        "ImageId" in template.get_version(version).data
        for version in (str(before.get("version", "1")), str(requested.need("LaunchTemplate").get("Version", "1")))
    )
    if was is not becomes:
        raise ResourceRefusedError("A node group keeps its kind of image: EKS's own, or that of its launch template")


def _refuse_template(data: Mapping[str, Any], capacity_type: str) -> None:
    refused = [group for group in _OWN_OF_GROUPS if group in data]
    interfaces = data.get("NetworkInterfaces", [])
    if refused or any("SubnetId" in interface for interface in interfaces):
        raise ResourceRefusedError(f"Launch template must not specify {', '.join(refused) or 'subnets of interfaces'}")
    if interfaces and data.get("SecurityGroupIds"):
        raise ResourceRefusedError("Network interfaces and an instance-level security groups may not be specified")
    if "InstanceType" not in data:
        raise ResourceRefusedError("the sandbox needs the instance type in the launch template")
    market = data.get("InstanceMarketOptions", {}).get("MarketType")
    reservation = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if (capacity_type == _BLOCK) is not (market == "capacity-block"):
        raise ResourceRefusedError(f"capacity type {capacity_type} does not go with market type {market}")
    if capacity_type == _BLOCK and not reservation.get("CapacityReservationId"):
        raise ResourceRefusedError("a Capacity Block's node group needs the id of its reservation")


def _remove_group(requested: Requested, created: Created) -> None:
    cluster, _, name = created.physical_resource_id.partition("/")
    _eks(requested).delete_nodegroup(cluster, name)


def _make_addon(requested: Requested) -> Created:
    cluster, name = _cluster(requested), requested.need("AddonName")
    version = requested.get("AddonVersion")
    if version is not None and not _ADDON_VERSION.fullmatch(version):
        raise ResourceRefusedError(f"Addon version specified is not supported: {version}")
    try:
        safe_json.loads(requested.get("ConfigurationValues") or "{}")
    except ValueError as problem:
        raise ResourceRefusedError(f"ConfigurationValue provided in request is not supported: {problem}") from problem
    parts_of(cluster).addons[name] = version or ""
    return Created(physical_resource_id=f"{cluster.name}|{name}", attributes={"Arn": f"{cluster.arn}/addon/{name}"})


def _make_entry(requested: Requested) -> Created:
    cluster, principal = _cluster(requested), requested.need("PrincipalArn")
    for policy in requested.get("AccessPolicies", []):
        if not _ACCESS_POLICY.fullmatch(policy["PolicyArn"]):
            raise ResourceRefusedError(f"The policyArn parameter format is not valid: {policy['PolicyArn']}")
    if principal in parts_of(cluster).entries:
        raise ResourceRefusedError("The specified access entry resource is already in use on this cluster.")
    parts_of(cluster).entries[principal] = list(requested.get("AccessPolicies", []))
    return Created(
        physical_resource_id=f"{principal}|{cluster.name}", attributes={"AccessEntryArn": f"{cluster.arn}/{principal}"}
    )


def _make_association(requested: Requested) -> Created:
    cluster = _cluster(requested)
    name = f"{requested.need('Namespace')}/{requested.need('ServiceAccount')}"
    place = requested.need("Namespace"), requested.need("ServiceAccount")
    if place in parts_of(cluster).pod_roles:
        raise ResourceRefusedError("Association already exists")
    parts_of(cluster).pod_roles[place] = requested.need("RoleArn")
    return Created(physical_resource_id=f"{cluster.arn}/{name}", attributes={"AssociationId": requested.name})


@dataclass(frozen=True, slots=True)
class EmulatedEks:
    """The models of the EKS types; `hosts` runs the clusters' Kubernetes."""

    hosts: Registry

    def models(self) -> tuple[Model, ...]:
        """All models."""
        return (
            Model(
                type="AWS::EKS::Cluster", make=self._make_cluster, change=_change_cluster, remove=self._remove_cluster
            ),
            Model(type="AWS::EKS::Addon", make=self._make_addon, change=keep_resource, remove=nothing),
            Model(
                type="AWS::EKS::Nodegroup", make=self._make_group, change=self._change_group, remove=self._remove_group
            ),
            *_WITHOUT_NODES,
        )

    def _make_cluster(self, requested: Requested) -> Created:
        created = _make_cluster(requested)
        cluster = _eks(requested).clusters[created.physical_resource_id]
        try:
            cluster.endpoint = self.hosts.host(cluster.name, requested.region_name)
        except ClusterFailedError as problem:
            raise ResourceRefusedError(str(problem)) from problem
        # It answers on loopback, without TLS.
        cluster.certificate_authority = {}
        attributes = {"Endpoint": cluster.endpoint, "CertificateAuthorityData": ""}
        return Created(physical_resource_id=cluster.name, attributes={**created.attributes, **attributes})

    def _remove_cluster(self, requested: Requested, created: Created) -> None:
        _remove_cluster(requested, created)
        self.hosts.stop(created.physical_resource_id)

    def _make_addon(self, requested: Requested) -> Created:
        created = _make_addon(requested)
        cluster, _, name = created.physical_resource_id.partition("|")
        if name in _BRINGS:
            try:
                self.hosts.install(cluster, _BRINGS[name], (), "")
            except ClusterFailedError as problem:
                raise ResourceRefusedError(str(problem)) from problem
        return created

    def _make_group(self, requested: Requested) -> Created:
        created = _make_group(requested)
        cluster, _, group = created.physical_resource_id.partition("/")
        try:
            self.hosts.join(cluster, _node_group(requested, group))
        except ClusterFailedError as problem:
            raise ResourceRefusedError(str(problem)) from problem
        ids = node_groups.match(_eks(requested), cluster, group)
        wanted = int(requested.need("ScalingConfig")["DesiredSize"])
        if len(ids) < wanted:
            self._remove_group(requested, created)
            raise ResourceRefusedError(
                f"NodeCreationFailure: {wanted - len(ids)} of {wanted} instances failed to join the kubernetes cluster"
            )
        self.hosts.identify(cluster, group, ids)
        return created

    def _change_group(self, requested: Requested, created: Created) -> Created:
        """Remove the instances and create others: EKS replaces those of another template, one after the other."""
        cluster, _, name = created.physical_resource_id.partition("/")
        before = _eks(requested).describe_nodegroup(cluster, name).launch_template or {}
        wanted = requested.need("LaunchTemplate")["Id"]
        if before.get("id", wanted) != wanted:
            message = f"You cannot specify a different launch template: {before['id']} of the node group, got {wanted}"
            raise ResourceRefusedError(message)
        _refuse_image_change(requested, before)
        self._remove_group(requested, created)
        return self._make_group(requested)

    def _remove_group(self, requested: Requested, created: Created) -> None:
        _remove_group(requested, created)
        cluster, _, group = created.physical_resource_id.partition("/")
        self.hosts.leave(cluster, group)
        node_groups.end(_eks(requested), cluster, group)


def _node_group(requested: Requested, group: str) -> PodNodeGroup:
    """The instances of a node group: chips from the catalog, EFA interfaces from the launch template."""
    data = _template(requested, requested.need("LaunchTemplate")["Id"])
    facts = load().instance_types.get(data["InstanceType"])
    subnet = _subnet(requested, requested.need("Subnets")[0])
    efa = sum(interface.get("InterfaceType") in _EFA for interface in data.get("NetworkInterfaces", []))
    return PodNodeGroup(
        group=group,
        count=int(requested.need("ScalingConfig")["DesiredSize"]),
        instance_type=data["InstanceType"],
        capacity_type=str(requested.get("CapacityType")),
        zone=str(subnet.availability_zone),
        zone_id=str(subnet.availability_zone_id),
        room=room_of(facts, efa),
        devices=devices_of(facts, efa),
        labels=dict(requested.get("Labels", {})),
    )


def room_of(facts: InstanceType | None, efa: int) -> dict[str, str]:
    """The resources of an instance that pods can request in addition to devices; huge pages are reserved for EFA."""
    room = {"hugepages-2Mi": f"{HUGE_PAGES_MIB}Mi" if efa else "0"}
    if facts is not None:
        room |= {"cpu": str(facts.vcpus), "memory": f"{int(facts.memory_gib * _ALLOCATABLE)}Gi"}
    return room


def devices_of(facts: InstanceType | None, efa: int) -> dict[str, str]:
    """The resources that device plugins report for an instance: chips from the catalog, and `efa` EFA interfaces."""
    devices = {_EFA_RESOURCE: efa}
    resource = None if facts is None else resource_name(facts)
    if facts is not None and resource is not None:
        devices[resource] = facts.accelerators
    return {name: str(count) for name, count in devices.items() if count}


_WITHOUT_NODES = (
    Model(type="AWS::EKS::AccessEntry", make=_make_entry, change=keep_resource, remove=nothing),
    Model(type="AWS::EKS::PodIdentityAssociation", make=_make_association, change=keep_resource, remove=nothing),
)
