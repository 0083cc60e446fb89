"""The Auto Scaling group of a job's instances: its size, its job, and why instances do not start."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from launcher.aws.session import Session, translate_errors
from launcher.model.tags import RUN_TAG
from launcher.model.units import number_of

IN_SERVICE = "InService"
GONE = ("Terminated", "Detached")
_RECENT = 20
_NO_REASONS = ("Could not launch", "Launching EC2 instance failed", "Our system will be", "You can currently get")
"""Beginnings of sentences without a reason ("Troubleshoot Amazon EC2 Auto Scaling: EC2 instance launch failures")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoScalingGroup:
    """An Auto Scaling group."""

    name: str
    desired: int
    minimum: int
    maximum: int
    # By the tag of the group.
    job: str
    # The lifecycle states and the types of its instances, by id.
    states: Mapping[str, str]
    instance_types: Mapping[str, str]
    subnets: tuple[str, ...]
    # The id and version of the launch template.
    template: tuple[str, str]
    # The types of a mixed instances policy, in order.
    types: tuple[str, ...]
    # Whether the policy buys spot instances.
    spot: bool

    @property
    def running(self) -> tuple[str, ...]:
        """The instances in service."""
        return tuple(instance for instance, state in self.states.items() if state == IN_SERVICE)

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of instances of each type."""
        return Counter(self.instance_types.values())


def describe(session: Session, name: str) -> AutoScalingGroup | None:
    """The state of a group; None if it does not exist."""
    with translate_errors(f"describe the instances of {name}"):
        groups = session.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])
    return next((_state(group) for group in groups["AutoScalingGroups"]), None)


def _state(group: Mapping[str, Any]) -> AutoScalingGroup:
    mixed = group.get("MixedInstancesPolicy", {})
    template = group.get("LaunchTemplate") or mixed["LaunchTemplate"]["LaunchTemplateSpecification"]
    share = mixed.get("InstancesDistribution", {}).get("OnDemandPercentageAboveBaseCapacity", 100)
    instances = [each for each in group.get("Instances", ()) if each["LifecycleState"] not in GONE]
    return AutoScalingGroup(
        name=str(group["AutoScalingGroupName"]),
        desired=int(group["DesiredCapacity"]),
        minimum=int(group["MinSize"]),
        maximum=int(group["MaxSize"]),
        job=next((str(tag["Value"]) for tag in group.get("Tags", ()) if tag["Key"] == RUN_TAG), ""),
        states={str(each["InstanceId"]): str(each["LifecycleState"]) for each in instances},
        instance_types={str(each["InstanceId"]): str(each["InstanceType"]) for each in instances},
        subnets=tuple(filter(None, str(group.get("VPCZoneIdentifier", "")).split(","))),
        template=(str(template["LaunchTemplateId"]), str(template["Version"])),
        types=tuple(str(each["InstanceType"]) for each in mixed.get("LaunchTemplate", {}).get("Overrides", ())),
        spot=int(share) == 0,
    )


def start(session: Session, name: str, job: str, nodes: int) -> None:
    """Let a group run a job: its instances get the job's name as a tag, and find its files by it.

    Raises:
        AwsError: EC2 Auto Scaling refuses.
    """
    client = session.client("autoscaling")
    tag = {
        "ResourceId": name,
        "ResourceType": "auto-scaling-group",
        "Key": RUN_TAG,
        "Value": job,
        "PropagateAtLaunch": True,
    }
    with translate_errors(f"name job {job} in the group {name}"):
        client.create_or_update_tags(Tags=[tag])
    with translate_errors(f"start {number_of(nodes, 'instance')} of {name}"):
        client.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=nodes, HonorCooldown=False)


def stop(session: Session, name: str) -> None:
    """Set the size of a group to 0: a lifecycle hook lets the job save first."""
    with translate_errors(f"end the instances of {name}"):
        session.client("autoscaling").set_desired_capacity(
            AutoScalingGroupName=name, DesiredCapacity=0, HonorCooldown=False
        )


def replace(session: Session, instance: str) -> None:
    """End an instance of a group without lowering its size: the group starts another one; a hook lets the job save."""
    with translate_errors(f"replace {instance}"):
        session.client("autoscaling").terminate_instance_in_auto_scaling_group(
            InstanceId=instance, ShouldDecrementDesiredCapacity=False
        )


def refusal(session: Session, name: str) -> str:
    """EC2's reason for the newest instance that did not start, in short; empty if the newest instances started."""
    with translate_errors(f"read why instances of {name} do not start"):
        answer = session.client("autoscaling").describe_scaling_activities(
            AutoScalingGroupName=name, MaxRecords=_RECENT
        )
    launches = [each for each in answer["Activities"] if str(each.get("Description", "")).startswith("Launching")]
    newest = max(launches, key=lambda each: each["StartTime"], default=None)
    failed = newest is not None and newest["StatusCode"] in ("Failed", "Cancelled")
    return short_refusal(str(newest.get("StatusMessage", ""))) if failed and newest is not None else ""


def activity_lines(session: Session, name: str) -> list[str]:
    """The newest activities of a group, one line each: what it started and ended, and why it could not."""
    with translate_errors(f"read the activities of {name}"):
        answer = session.client("autoscaling").describe_scaling_activities(AutoScalingGroupName=name, MaxRecords=100)
    return [
        f"{activity['StartTime']:%Y-%m-%dT%H:%M:%SZ} {activity['StatusCode']} {activity['Description']}:"
        f" {activity.get('StatusMessage') or activity['Cause']}"
        for activity in answer["Activities"]
    ]


def short_refusal(message: str) -> str:
    """The sentences of EC2's message that say why, without those that say that an instance failed or what EC2 does.

    >>> code = "InsufficientInstanceCapacity - There is no Spot capacity available that matches your request"
    >>> short_refusal(f"Could not launch Spot Instances. {code}. Launching EC2 instance failed.")
    'InsufficientInstanceCapacity - There is no Spot capacity available that matches your request'
    """
    sentences = [sentence.rstrip(".") for sentence in message.split(". ")]
    reasons = [sentence for sentence in sentences if sentence and not sentence.startswith(_NO_REASONS)]
    return ". ".join(reasons) if reasons else message


def hooks(session: Session, name: str) -> Mapping[str, tuple[str, int]]:
    """The lifecycle hooks of a group by name: the transition, and the seconds for which an instance waits."""
    with translate_errors(f"read the lifecycle hooks of {name}"):
        answer = session.client("autoscaling").describe_lifecycle_hooks(AutoScalingGroupName=name)
    return {
        str(hook["LifecycleHookName"]): (str(hook["LifecycleTransition"]), int(hook["HeartbeatTimeout"]))
        for hook in answer["LifecycleHooks"]
    }
