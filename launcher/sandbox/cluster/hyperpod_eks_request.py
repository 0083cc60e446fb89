"""Validates a request for a HyperPod cluster with EKS against the emulated AWS.

SageMaker's own model of CreateCluster validates the shape; further rules are those of the developer guide
(HyperPod with EKS, spot instances, deep health checks; 2026-11) and of the API reference. All problems are collected.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.api_shape import complaints
from launcher.sandbox.cluster.hyperpod_request import (
    CONTINUOUS,
    ClusterAccount,
    file_problems,
    instance_problems,
    network_of,
    training_plan_problems,
)
from launcher.sandbox.cluster.schema import Problem, RequestRefusedError

_OF_THE_WHOLE = ("ClusterName", "InstanceGroups", "VpcConfig", "Orchestrator")
_OF_A_GROUP = ("InstanceType", "LifeCycleConfig")
"""Required members of a group: SageMaker requires a lifecycle script for every group, even without instances."""
MAX_GROUPS = 20
OLDEST, NEWEST = (1, 30), (1, 35)
"""The oldest and newest version of Kubernetes that HyperPod supports (2026-10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlane:
    """An EKS cluster that nodes would join: its version, the VPC of its subnets, and whether it has the chart."""

    version: str
    vpc_id: str
    has_chart: bool


def eks_name(request: Mapping[str, Any]) -> str | None:
    """The name of the EKS cluster that a request's nodes join; None for a cluster with Slurm."""
    arn = request.get("Orchestrator", {}).get("Eks", {}).get("ClusterArn")
    return None if arn is None else str(arn).rpartition("/")[2]


def refuse(
    request: Mapping[str, Any], account: ClusterAccount, control: ControlPlane | None, vpc_of: Mapping[str, str]
) -> None:
    """Refuse a request whose nodes would not start.

    `control` is None if no EKS cluster has the name; `vpc_of` maps each subnet to its VPC.
    """
    invalid = [Problem(path="", message=text) for text in complaints("sagemaker", ("CreateCluster",), request)]
    invalid.extend(_absent(request))
    if not invalid:
        invalid.extend(_control_plane_problems(request, control, vpc_of))
        invalid.extend(_group_problems(request, account))
        invalid.extend(training_plan_problems(request, account))
    if invalid:
        raise RequestRefusedError("request", invalid)


def _absent(request: Mapping[str, Any]) -> Iterator[Problem]:
    yield from (Problem(path=key, message="missing") for key in _OF_THE_WHOLE if key not in request)
    for index, group in enumerate(request.get("InstanceGroups", [])):
        path = f"InstanceGroups[{index}]"
        yield from (Problem(path=f"{path}.{key}", message="missing") for key in _OF_A_GROUP if key not in group)
        for key in ("SourceS3Uri", "OnCreate"):
            if key not in group.get("LifeCycleConfig", {key: ""}):
                yield Problem(path=f"{path}.LifeCycleConfig.{key}", message="missing")
        if "SlurmConfig" in group:
            yield Problem(path=f"{path}.SlurmConfig", message="the orchestrator is EKS")


def _control_plane_problems(
    request: Mapping[str, Any], control: ControlPlane | None, vpc_of: Mapping[str, str]
) -> Iterator[Problem]:
    path = "Orchestrator.Eks.ClusterArn"
    if control is None:
        yield Problem(path=path, message=f"no EKS cluster {eks_name(request)}")
        return
    version = tuple(int(number) for number in control.version.split("."))
    if not OLDEST <= version <= NEWEST:
        yield Problem(path=path, message=f"Kubernetes {control.version}, HyperPod supports 1.30 to 1.35")
    if not control.has_chart:
        message = "HyperPod's chart is not installed in it: nodes would be neither monitored nor replaced"
        yield Problem(path=path, message=message)
    others = {
        vpc_of.get(subnet) for group in request["InstanceGroups"] for subnet in network_of(request, group)["Subnets"]
    }
    if others - {control.vpc_id}:
        yield Problem(path="VpcConfig", message=f"nodes must be in the control plane's VPC {control.vpc_id}")


def _group_problems(request: Mapping[str, Any], account: ClusterAccount) -> Iterator[Problem]:
    groups = request["InstanceGroups"]
    if len(groups) > MAX_GROUPS:
        yield Problem(path="InstanceGroups", message=f"got {len(groups)}, allowed: {MAX_GROUPS}")
    names = [group["InstanceGroupName"] for group in groups]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield Problem(path="InstanceGroups", message=f"{name} is used twice")
    continuous = request.get("NodeProvisioningMode") == CONTINUOUS
    for index, group in enumerate(groups):
        path = f"InstanceGroups[{index}]"
        if "Spot" in group.get("CapacityRequirements", {}):
            if not continuous:
                yield Problem(path=path, message=f"spot needs NodeProvisioningMode {CONTINUOUS}")
            if "TrainingPlanArn" in group:
                yield Problem(path=path, message="instances of a training plan are not bought on spot")
        least = group.get("MinInstanceCount")
        if least is not None and least > group["InstanceCount"]:
            yield Problem(path=f"{path}.MinInstanceCount", message=f"got {least}, allowed: {group['InstanceCount']}")
        if group.get("OnStartDeepHealthChecks") and group.get("KubernetesConfig", {}).get("Taints"):
            yield Problem(path=f"{path}.KubernetesConfig.Taints", message="not with deep health checks")
        zones = {
            facts.zone for subnet in network_of(request, group)["Subnets"] if (facts := account.aws.subnet(subnet))
        }
        if len(zones) > 1:
            yield Problem(path=path, message=f"a group is in one zone, got {', '.join(sorted(zones))}")
        yield from instance_problems(request, group, account.aws, path)
        yield from file_problems(request, group, account, path)
