"""Managed node groups of EKS clusters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.session import Session, translate_errors


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroupState:
    """A node group: state, purchase option, image, and the minimum, maximum and wanted number of nodes.

    `template` is the id and the version of its launch template, None without one.
    """

    name: str
    status: str
    capacity_type: str
    ami_type: str
    minimum: int
    maximum: int
    desired: int
    template: tuple[str, str] | None = None


def describe_group(session: Session, cluster: str, name: str) -> NodeGroupState:
    """The state of a node group."""
    with translate_errors(f"describe node group {name} of {cluster}"):
        description = session.client("eks").describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
    sizes = description.get("scalingConfig", {})
    return NodeGroupState(
        name=name,
        status=description["status"],
        capacity_type=description.get("capacityType", "ON_DEMAND"),
        ami_type=description.get("amiType", ""),
        minimum=sizes.get("minSize", 0),
        maximum=sizes.get("maxSize", 0),
        desired=sizes.get("desiredSize", 0),
        template=_template(description.get("launchTemplate", {})),
    )


def _template(template: Mapping[str, Any]) -> tuple[str, str] | None:
    return (str(template["id"]), str(template["version"])) if template.get("id") else None


def describe_template(session: Session, template: tuple[str, str]) -> Mapping[str, Any]:
    """The data of a version of a launch template, as EC2 describes them."""
    id_, version = template
    with translate_errors(f"describe launch template {id_}"):
        answer = session.client("ec2").describe_launch_template_versions(LaunchTemplateId=id_, Versions=[version])
    data: Mapping[str, Any] = answer["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def start(session: Session, cluster: str, name: str) -> bool:
    """Let a group create its nodes again after a guard has set it to 0; return whether this was necessary.

    Raises:
        AwsError: the group does not exist, or a call failed.
    """
    state = describe_group(session, cluster, name)
    if state.desired >= state.maximum:
        return False
    with translate_errors(f"start the nodes of {cluster}"):
        session.client("eks").update_nodegroup_config(
            clusterName=cluster, nodegroupName=name, scalingConfig={"desiredSize": state.maximum}
        )
    return True
