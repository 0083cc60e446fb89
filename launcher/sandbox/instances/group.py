"""One emulated Auto Scaling group: it keeps its instances at the desired number, with lifecycle hooks and activities.

After the EC2 Auto Scaling user guide (instance lifecycle, lifecycle hooks, health checks) and botocore 1.44.5
(autoscaling/2011-01-01): Pending, InService, Terminating:Wait, Terminating:Proceed; a hook's time; replacement of a
lost instance; failed launches by type and zone, tried again. Times are shorter than on AWS.
"""

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from launcher.sandbox.instances.machine import LIFECYCLE, Machine

PENDING, IN_SERVICE = "Pending", "InService"
WAIT, PROCEED = "Terminating:Wait", "Terminating:Proceed"
START_S = 0.3
"""Seconds from a launch to InService; on AWS about a minute."""
AGAIN_S = 1.0
"""Seconds between two launches after a failed one; on AWS minutes."""
_MOST_ACTIVITIES = 100
Environment = Callable[[str], Mapping[str, str]]
"""The environment of a command in a region."""


class LaunchRefusedError(Exception):
    """EC2 starts no instance; the text is its message."""


@dataclass(slots=True, kw_only=True)
class GroupMember:
    """An instance of a group: its lifecycle state, since when, and until when a hook keeps it."""

    machine: Machine
    instance_type: str
    zone: str
    state: str = PENDING
    since: float = field(default_factory=time.monotonic)
    waits_until: float = 0.0


@dataclass(slots=True, kw_only=True)
class Group:
    """A group as requested (`request` is that of CreateAutoScalingGroup), with its instances and activities."""

    name: str
    arn: str
    request: dict[str, Any]
    # Starts an instance; raises LaunchRefusedError if EC2 refuses.
    start: Callable[["Group"], Machine]
    # Terminates an instance by its id, with EC2's code for the reason.
    terminate: Callable[[str, str], None]
    created: datetime = field(default_factory=lambda: datetime.now(UTC))
    desired: int = 0
    members: dict[str, GroupMember] = field(default_factory=dict)
    tags: dict[str, dict[str, Any]] = field(default_factory=dict)
    activities: list[dict[str, Any]] = field(default_factory=list)
    launch_at: float = 0.0
    counter: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def hook(self) -> Mapping[str, Any] | None:
        """The hook of terminating instances; None without one."""
        hooks = self.request.get("LifecycleHookSpecificationList", ())
        return next(
            (hook for hook in hooks if hook["LifecycleTransition"] == "autoscaling:EC2_INSTANCE_TERMINATING"), None
        )

    @property
    def active(self) -> list[GroupMember]:
        """The instances that count towards the desired number."""
        return [member for member in self.members.values() if member.state in (PENDING, IN_SERVICE)]

    def propagated_tags(self) -> dict[str, str]:
        """The tags that new instances get."""
        own = {key: str(tag["Value"]) for key, tag in self.tags.items() if tag.get("PropagateAtLaunch")}
        return {**own, "aws:autoscaling:groupName": self.name}

    def record(self, description: str, status: str, message: str = "") -> None:
        """Record an activity, newest first."""
        now = datetime.now(UTC)
        activity = {
            "ActivityId": f"00000000-0000-0000-0000-{next(self.counter):012d}",
            "AutoScalingGroupName": self.name,
            "Description": description,
            "Cause": f"At {now:%Y-%m-%dT%H:%M:%SZ} the desired capacity is {self.desired}.",
            "StartTime": now,
            "EndTime": now,
            "StatusCode": status,
            "Progress": 100,
        }
        self.activities = [{**activity, **({"StatusMessage": message} if message else {})}, *self.activities]
        del self.activities[_MOST_ACTIVITIES:]

    def tend(self) -> None:
        """Do what is due: take up started instances, end those beyond the desired number, launch missing ones."""
        now = time.monotonic()
        for member in list(self.members.values()):
            if member.state == PENDING and now - member.since >= START_S:
                member.state, member.since = IN_SERVICE, now
            elif member.state == WAIT and now >= member.waits_until:
                self._proceed(member)
        for member in sorted(self.active, key=lambda each: each.since)[self.desired :]:
            self.end(member)
        if len(self.active) < self.desired and now >= self.launch_at:
            self._launch(now)

    def _launch(self, now: float) -> None:
        try:
            machine = self.start(self)
        except LaunchRefusedError as problem:
            self.launch_at = now + AGAIN_S
            self.record("Launching a new EC2 instance", "Failed", f"{problem}. Launching EC2 instance failed.")
            return
        self.record(f"Launching a new EC2 instance: {machine.id}", "Successful")

    def end(self, member: GroupMember) -> None:
        """Begin to terminate an instance: a hook keeps it for a time."""
        if self.hook is None:
            self._proceed(member)
            return
        member.state, member.since = WAIT, time.monotonic()
        member.waits_until = time.monotonic() + float(self.hook["HeartbeatTimeout"])
        member.machine.metadata.put(LIFECYCLE, "Terminated")

    def proceed(self, instance_id: str) -> bool:
        """End a hook's wait; False if the instance does not wait."""
        member = self.members.get(instance_id)
        if member is None or member.state != WAIT:
            return False
        self._proceed(member)
        return True

    def _proceed(self, member: GroupMember) -> None:
        member.state = PROCEED
        self.lose(member, "Client.UserInitiatedShutdown")
        self.record(f"Terminating EC2 instance: {member.machine.id}", "Successful")

    def lose(self, member: GroupMember, reason: str) -> None:
        """Remove an instance at once: EC2 has terminated it."""
        self.members.pop(member.machine.id, None)
        member.machine.end()
        self.terminate(member.machine.id, reason)

    def document(self) -> dict[str, Any]:
        """The group as DescribeAutoScalingGroups returns it."""
        request = self.request
        shown: dict[str, Any] = {
            key: request[key] for key in ("LaunchTemplate", "MixedInstancesPolicy") if key in request
        }
        return {
            **shown,
            "AutoScalingGroupName": self.name,
            "AutoScalingGroupARN": self.arn,
            "MinSize": int(request["MinSize"]),
            "MaxSize": int(request["MaxSize"]),
            "DesiredCapacity": self.desired,
            "DefaultCooldown": 300,
            "AvailabilityZones": sorted({member.zone for member in self.members.values()}),
            "HealthCheckType": request.get("HealthCheckType", "EC2"),
            "HealthCheckGracePeriod": 0,
            "CreatedTime": self.created,
            "VPCZoneIdentifier": request["VPCZoneIdentifier"],
            "Tags": [dict(tag) for tag in self.tags.values()],
            "TerminationPolicies": ["Default"],
            "NewInstancesProtectedFromScaleIn": False,
            "Instances": [
                {
                    "InstanceId": member.machine.id,
                    "InstanceType": member.instance_type,
                    "AvailabilityZone": member.zone,
                    "LifecycleState": member.state,
                    "HealthStatus": "Healthy",
                    "ProtectedFromScaleIn": False,
                }
                for member in self.members.values()
            ],
        }
