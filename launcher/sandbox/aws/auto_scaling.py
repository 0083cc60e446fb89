"""EC2 Auto Scaling: moto starts instances at once without their user data, and lacks lifecycle actions.

Emulated, after botocore 1.44.5 (autoscaling/2011-01-01 service-2.json) and the EC2 Auto Scaling user guide: a group in
CloudFormation with the API's enums, patterns and maxima, its launch template, subnets, mixed instances policy and
lifecycle hooks; the calls in `install`; allocation strategies and lack of capacity (allocation.py); quotas in vCPUs;
full on-demand reservations; spot interruptions; instances that run their user data (launcher/sandbox/instances). Run
Command of Systems Manager on these instances. Not emulated: scaling policies, warm pools, load balancers, instance
refresh, and the time that EC2 needs.
"""

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

from moto.autoscaling.exceptions import AutoscalingClientError, ValidationError
from moto.autoscaling.responses import AutoScalingResponse
from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.models import ec2_backends
from moto.iam.models import iam_backends
from moto.utilities.utils import get_partition

from launcher.aws.api_shape import complaints
from launcher.model.emulator import EMULATED_ACCOUNT as ACCOUNT
from launcher.sandbox import namespaces
from launcher.sandbox.aws import allocation, on_demand_reservations
from launcher.sandbox.aws.allocation import Capacity
from launcher.sandbox.aws.fleet import EmulatedEc2
from launcher.sandbox.aws.group_requests import (
    instance_tags,
    is_spot,
    mixed_of,
    specification_of,
    targeted_reservation,
    template_data,
    user_data_of,
)
from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError
from launcher.sandbox.cluster.nodes import NodeState
from launcher.sandbox.instances.group import Environment, Group, GroupMember, LaunchRefusedError
from launcher.sandbox.instances.machine import Machine, shown_tags
from launcher.sandbox.keys import KeyRing

GROUP_TYPE = "AWS::AutoScaling::AutoScalingGroup"
TEND_S = 0.1
LARGEST_USER_DATA = 16_384
"""Bytes before base64 (EC2 user guide, user data)."""
HOOK_S = (30, 7200)
_NUMBERS = {
    *("DesiredCapacity", "MaxSize", "MinSize"),
    *("OnDemandBaseCapacity", "OnDemandPercentageAboveBaseCapacity", "SpotInstancePools"),
}
_UNFIT = "You must use a valid fully-formed launch template."


@dataclass(slots=True)
class GroupFleet:
    """EC2 of one region, which starts the instances of groups. Thread-safe by the lock of `Groups`."""

    region: str
    folder: Path
    environment: Environment
    machine: Callable[..., Machine]
    capacity: Capacity
    addresses: "Iterator[str]"

    @property
    def _ec2(self) -> EmulatedEc2:
        return EmulatedEc2(ACCOUNT, self.region)

    def launch(self, group: Group) -> Machine:
        """Start an instance of a group, in the first pool with capacity in the order of its allocation strategy."""
        data, policy = template_data(self.region, specification_of(group.request)), mixed_of(group.request)
        types = [each["InstanceType"] for each in policy.get("LaunchTemplate", {}).get("Overrides", ())]
        subnets = {}
        for subnet in group.request["VPCZoneIdentifier"].split(","):
            facts = self._ec2.subnet(subnet)
            if facts is None:
                raise LaunchRefusedError(f"The subnet ID '{subnet}' does not exist")
            subnets[subnet] = facts
        spot, refused, distribution = is_spot(policy, data), ("", ""), policy.get("InstancesDistribution", {})
        pools = allocation.order_pools(
            types or [data["InstanceType"]],
            subnets,
            distribution,
            self.capacity,
            self.region,
            group.desired - len(group.active),
            [(member.instance_type, member.zone) for member in group.active],
            spot=spot,
        )
        for pool in pools:
            refused = self._refusal(data, distribution, pool, spot=spot)
            if not refused[1]:
                self.capacity.take(pool.type, pool.facts)
                return self._start_machine(group, data, pool.type, pool.subnet, pool.facts.zone, spot=spot)
        raise LaunchRefusedError(allocation.refusal_text(refused, mixed=bool(policy), spot=spot))

    def _refusal(
        self, data: Mapping[str, Any], distribution: Mapping[str, Any], pool: allocation.Pool, *, spot: bool
    ) -> tuple[str, str]:
        """Why EC2 starts no instance in a pool: the error's code and message; both empty if it does."""
        if self.capacity.free_instances(pool.type, pool.facts) < 1:
            code, message = allocation.INSUFFICIENT
            return code, message.format(type=pool.type, zone=pool.facts.zone)
        limit = self.capacity.spot_vcpus if spot else self.capacity.vcpus
        if limit is not None and self._vcpus(spot=spot) + _vcpus(self._ec2, pool.type) > limit:
            code, message = allocation.SPOT_QUOTA if spot else allocation.QUOTA
            return code, message.format(limit=limit)
        usd = self.capacity.usd(pool.type, self.region, pool.facts.zone, pool.facts.zone_id) if spot else None
        most = distribution.get("SpotMaxPrice")
        if most and usd is not None and usd > Decimal(most):
            code, message = allocation.TOO_LOW
            return code, message.format(most=most, usd=usd)
        backend, named = ec2_backends[ACCOUNT][self.region], targeted_reservation(data)
        why = on_demand_reservations.refusal(backend, named, pool.type, pool.facts.zone) if named else ""
        return "ReservationCapacityExceeded", why

    def _vcpus(self, *, spot: bool) -> int:
        """The vCPUs of the region's instances that count towards a quota."""
        backend: Any = ec2_backends[ACCOUNT][self.region]
        counted = (each for each in backend.all_instances() if each.state in ("pending", "running"))
        return sum(_vcpus(self._ec2, each.instance_type) for each in counted if (each.lifecycle == "spot") is spot)

    def _start_machine(
        self, group: Group, data: Mapping[str, Any], type_: str, subnet: str, zone: str, *, spot: bool
    ) -> Machine:
        tags = {**instance_tags(data), **group.propagated_tags()}
        enabled = data.get("MetadataOptions", {}).get("InstanceMetadataTags") == "enabled"
        refusal = shown_tags(tags) if enabled else ""
        if refusal:
            raise LaunchRefusedError(refusal)
        market = data.get("InstanceMarketOptions", {}).get("MarketType", "")
        bought = "SPOT" if spot else "CAPACITY_BLOCK" if market == "capacity-block" else "ONDEMAND"
        interfaces = data.get("NetworkInterfaces", [])
        security = interfaces[0]["Groups"] if interfaces else data.get("SecurityGroupIds", [])
        instance_id = self._ec2.run(type_, tags, subnet, security, bought)
        created: Any = ec2_backends[ACCOUNT][self.region].get_instance(instance_id)
        # The address at which the instance's processes really listen.
        created.nics[0].private_ip_address = address = next(self.addresses)
        created.capacity_reservation_id = targeted_reservation(data) or created.capacity_reservation_id
        machine = self.machine(
            instance_id=instance_id,
            address=address,
            region=self.region,
            zone=zone,
            instance_type=type_,
            lifecycle={"SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}.get(bought, "on-demand"),
            tags=tags if enabled else {},
            user_data=user_data_of(data),
            folder=self.folder / instance_id,
            environment=self.environment(self.region),
        )
        group.members[instance_id] = GroupMember(machine=machine, instance_type=type_, zone=zone)
        machine.boot()
        return machine

    def terminate(self, instance_id: str, reason: str) -> None:
        """Terminate an instance, with EC2's code for the reason."""
        self._ec2.terminate(instance_id, reason)


def _vcpus(ec2: EmulatedEc2, type_: str) -> int:
    facts = ec2.instance_type(type_)
    return 0 if facts is None else facts.vcpus


class Groups:
    """The Auto Scaling groups of a sandbox, by region and name; a thread keeps them at their sizes."""

    def __init__(
        self, folder: Path, mark: str, environment: Environment, keys: KeyRing, cli: Callable[[], Path]
    ) -> None:
        """`cli` starts what runs the instances' AWS CLI, once, and returns the path of its socket."""
        self._folder, self._environment = folder, environment
        self._machine = partial(Machine, mark=mark, keys=keys, cli=cli)
        self._groups: dict[tuple[str, str], Group] = {}
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._addresses = _addresses(mark)
        self._thread: threading.Thread | None = None
        self.capacity = Capacity()

    def create(self, region: str, request: dict[str, Any]) -> Group:
        """Create a group.

        Raises:
            ValidationError: EC2 Auto Scaling refuses the request.
        """
        name = str(request.get("AutoScalingGroupName", ""))
        with self._lock:
            if (region, name) in self._groups:
                raise ValidationError(f"AutoScalingGroup by this name already exists - {name}")
            self._check(region, request)
            arn = f"arn:aws:autoscaling:{region}:{ACCOUNT}:autoScalingGroup:{secrets.token_hex(8)}"
            fleet = GroupFleet(region, self._folder, self._environment, self._machine, self.capacity, self._addresses)
            group = Group(
                name=name,
                arn=f"{arn}:autoScalingGroupName/{name}",
                request=request,
                start=fleet.launch,
                terminate=fleet.terminate,
            )
            group.desired = int(request.get("DesiredCapacity", request["MinSize"]))
            group.tags = {tag["Key"]: dict(tag) for tag in request.get("Tags", ())}
            self._groups[region, name] = group
            if self._thread is None:
                self._thread = threading.Thread(target=self._tend, name="auto-scaling", daemon=True)
                self._thread.start()
            return group

    def update(self, region: str, request: dict[str, Any]) -> Group:
        """Update a group: instances that run keep their launch template, and the size stays within the new limits."""
        with self._lock:
            group = self.find(region, str(request["AutoScalingGroupName"]))
            self._check(region, request)
            requested = {tag["Key"] for tag in group.request.get("Tags", ())}
            running = {key: tag for key, tag in group.tags.items() if key not in requested}
            group.request = request
            group.tags = {**{tag["Key"]: dict(tag) for tag in request.get("Tags", ())}, **running}
            least, most = int(request["MinSize"]), int(request["MaxSize"])
            group.desired = min(most, max(least, int(request.get("DesiredCapacity", group.desired))))
            return group

    def _check(self, region: str, request: Mapping[str, Any]) -> None:
        problems = complaints("autoscaling", ("CreateAutoScalingGroup",), request) or list(_rules(region, request))
        if problems:
            raise ValidationError("; ".join(problems))

    def find(self, region: str, name: str) -> Group:
        """A group by its name.

        Raises:
            ValidationError: no group has the name.
        """
        group = self._groups.get((region, name))
        if group is None:
            raise ValidationError(f"AutoScalingGroup name not found - no such group: {name}")
        return group

    def in_region(self, region: str) -> list[Group]:
        """The groups of a region."""
        return [group for (where, _), group in self._groups.items() if where == region]

    def resize(self, region: str, name: str, desired: int) -> None:
        """Set the size of a group.

        Raises:
            ValidationError: the size is outside of the limits.
        """
        with self._lock:
            group = self.find(region, name)
            least, most = int(group.request["MinSize"]), int(group.request["MaxSize"])
            if desired > most:
                raise ValidationError(
                    f"New SetDesiredCapacity value {desired} is above max value {most} for the AutoScalingGroup."
                )
            if desired < least:
                raise ValidationError(
                    f"New SetDesiredCapacity value {desired} is below min value {least} for the AutoScalingGroup."
                )
            group.desired, group.launch_at = desired, 0.0

    def delete(self, region: str, name: str) -> None:
        """Delete a group with its instances, as CloudFormation does: it sets the size to 0 and waits for hooks."""
        with self._lock:
            group = self._groups.get((region, name))
            if group is None:
                return
            group.request = {**group.request, "MinSize": 0}
            group.desired = 0
        while group.members:
            time.sleep(TEND_S)
        with self._lock:
            self._groups.pop((region, name), None)

    def member(self, instance_id: str) -> tuple[Group, GroupMember]:
        """An instance and its group.

        Raises:
            ValidationError: no group has the instance.
        """
        with self._lock:  # Run Command asks from a thread of its own, while groups come and go
            for group in self._groups.values():
                if instance_id in group.members:
                    return group, group.members[instance_id]
        raise ValidationError(f"Instance Id not found - No managed instance found for instance ID: {instance_id}")

    def replace(self, instance_id: str, *, decrement: bool) -> None:
        """Terminate an instance of a group, which starts another one unless the size is decremented."""
        with self._lock:
            group, member = self.member(instance_id)
            if decrement:
                if group.desired <= int(group.request["MinSize"]):
                    raise ValidationError("Currently, desiredSize equals minSize: terminating would violate it")
                group.desired -= 1
            group.end(member)

    def complete(self, region: str, name: str, instance_id: str) -> None:
        """Complete the lifecycle action of a terminating instance.

        Raises:
            ValidationError: no lifecycle action is active for the instance.
        """
        with self._lock:
            if not self.find(region, name).proceed(instance_id):
                raise ValidationError(f"No active Lifecycle Action found with instance ID {instance_id}")

    def _tend(self) -> None:
        while not self._over.wait(TEND_S):
            with self._lock:
                for group in list(self._groups.values()):
                    group.tend()

    def stop_all(self) -> None:
        """End every instance."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            for group in self._groups.values():
                for member in list(group.members.values()):
                    member.machine.end()
                group.members.clear()

    def has_group(self, name: str) -> bool:
        """Whether a cluster's name is that of a group."""
        return any(name == group_name for _, group_name in self._groups)

    def running_jobs(self) -> list[str]:
        """The waiting and running jobs as text: a group has instances while its job needs some."""
        with self._lock:
            return [f"the job on {group.name}" for group in self._groups.values() if group.desired or group.members]

    def documents(self) -> list[dict[str, Any]]:
        """Every group as the sandbox shows a cluster."""
        with self._lock:
            return [self._document(group) for group in self._groups.values()]

    def _document(self, group: Group) -> dict[str, Any]:
        views = [
            NodeState(
                name=member.machine.id,
                partition=group.name,
                instance_type=member.instance_type,
                capacity_type="",
                instance_id=member.machine.id,
                generation=1,
                life=member.machine.id,
                scratch=str(member.machine.folder / "scratch"),
                metadata=member.machine.metadata.endpoint,
                cpus=1,
            )
            for member in group.members.values()
        ]
        return {
            "name": group.name,
            "scheduler": "ec2",
            "slurm_conf": None,
            "attempts": None,
            "head_node": None,
            "settings": {},
            "nodes": [asdict(view) for view in views],
            "groups": [],
            "left_out": [],
        }

    def notify(self, instance_id: str, action: str, seconds: float) -> str:
        """Give an instance notice of its interruption; return its time."""
        return self.member(instance_id)[1].machine.metadata.arm(action, seconds)

    def recommend_rebalance(self, instance_id: str) -> None:
        """Recommend a rebalance to an instance."""
        self.member(instance_id)[1].machine.metadata.recommend_rebalance()

    def entry(self, instance_id: str) -> str:
        """The script that runs a command line on an instance."""
        with self._lock:
            return str(self.member(instance_id)[1].machine.entry())

    def busy(self, instance_id: str) -> bool:
        """Whether the user data of an instance still runs."""
        with self._lock:
            members = (group.members.get(instance_id) for group in self._groups.values())
            return any(member is not None and member.machine.busy for member in members)

    def lose(self, instance_id: str, why: str) -> None:
        """Take an instance away, if its group still has it: the group replaces it."""
        reason = "Server.SpotInstanceTermination" if why == "interruption" else "Server.InternalError"
        with self._lock:
            for group in self._groups.values():
                if instance_id in group.members:
                    group.lose(group.members[instance_id], reason)
                    group.record(f"Terminating EC2 instance: {instance_id}", "Successful")


def _addresses(mark: str) -> "Iterator[str]":
    """Loopback addresses of instances, different for each instance of a sandbox."""
    number = 0
    while True:
        number += 1
        yield namespaces.address(f"{mark}-{number // 250}", number) if namespaces.can_name_hosts() else "127.0.0.1"


def _rules(region: str, request: Mapping[str, Any]) -> Iterator[str]:
    """Problems of members that depend on each other, and of what they name (API reference, CreateAutoScalingGroup)."""
    least, most = int(request["MinSize"]), int(request["MaxSize"])
    if least > most:
        yield "Min bound must not exceed max bound"
    if not least <= int(request.get("DesiredCapacity", least)) <= most:
        yield "Desired capacity must be between the specified min size and max size"
    if ("LaunchTemplate" in request) == ("MixedInstancesPolicy" in request):
        yield "Valid requests must contain either LaunchTemplate or MixedInstancesPolicy parameter."
        return
    for subnet in str(request.get("VPCZoneIdentifier", "")).split(","):
        if EmulatedEc2(ACCOUNT, region).subnet(subnet) is None:
            yield f"The subnet ID '{subnet}' does not exist"
    for hook in request.get("LifecycleHookSpecificationList", ()):
        if not HOOK_S[0] <= int(hook.get("HeartbeatTimeout", 3600)) <= HOOK_S[1]:
            yield f"The heartbeat timeout of a lifecycle hook is {HOOK_S[0]} to {HOOK_S[1]} seconds"
    yield from allocation.distribution_rules(mixed_of(request).get("InstancesDistribution", {}))
    data = template_data(region, specification_of(request))
    if not data:
        yield f"{_UNFIT} The specified launch template, with its version, does not exist."
        return
    yield from _rules_of_template(region, request, data)


def _rules_of_template(region: str, request: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[str]:
    """Problems of a launch template for a group (EC2 Auto Scaling user guide, launch templates and mixed instances)."""
    if not data.get("ImageId"):
        yield f"{_UNFIT} The request must contain the parameter ImageId"
    if "MixedInstancesPolicy" in request and data.get("InstanceMarketOptions"):
        yield f"{_UNFIT} Incompatible launch template: it must not request a market with a mixed instances policy"
    interfaces = data.get("NetworkInterfaces", [])
    if interfaces and data.get("SecurityGroupIds"):
        yield f"{_UNFIT} Network interfaces and security groups may not be specified on the same request"
    if len(interfaces) > 1 and any(each.get("AssociatePublicIpAddress") for each in interfaces):
        yield f"{_UNFIT} associatePublicIPAddress cannot be specified when launching with multiple interfaces"
    if any(each.get("SubnetId") for each in interfaces) and request.get("VPCZoneIdentifier"):
        yield f"{_UNFIT} A subnet must not be specified in both the launch template and the group"
    if len(user_data_of(data)) > LARGEST_USER_DATA:
        yield f"{_UNFIT} User data is limited to {LARGEST_USER_DATA} bytes"
    profiles: Any = iam_backends[ACCOUNT][get_partition(region)].instance_profiles.values()
    named = data.get("IamInstanceProfile", {}).get("Arn")
    profile = next((candidate for candidate in profiles if candidate.arn == named), None)
    if named is not None and (profile is None or not profile.roles):
        yield f"{_UNFIT} Invalid IAM Instance Profile ARN {named}"
    types = [each["InstanceType"] for each in mixed_of(request).get("LaunchTemplate", {}).get("Overrides", ())]
    for name in types or [data.get("InstanceType", "")]:
        if EmulatedEc2(ACCOUNT, region).instance_type(name) is None:
            yield f"{_UNFIT} Invalid instance type {name!r}"


def _request_of(requested: Requested) -> dict[str, Any]:
    """The API's request for a group in a template."""
    request = {key: _plain(value) for key, value in dict(requested.properties).items()}
    request["AutoScalingGroupName"] = request.get("AutoScalingGroupName") or requested.name
    _make_numbers(request)
    if "VPCZoneIdentifier" in request:
        request["VPCZoneIdentifier"] = ",".join(request["VPCZoneIdentifier"])
    for tag in request.get("Tags", ()):
        tag["PropagateAtLaunch"] = str(tag["PropagateAtLaunch"]).lower() == "true"
    _make_numbers(mixed_of(request).get("InstancesDistribution", {}))
    for hook in request.get("LifecycleHookSpecificationList", ()):
        hook["HeartbeatTimeout"] = int(hook.get("HeartbeatTimeout", 3600))
    for place in (request, mixed_of(request).get("LaunchTemplate", {})):
        for name in ("LaunchTemplate", "LaunchTemplateSpecification"):
            if "Version" in place.get(name, {}):
                place[name]["Version"] = str(place[name]["Version"])
    return request


def _make_numbers(members: dict[str, Any]) -> None:
    """Make the numbers of a template, which may be text, those of the API."""
    for name in _NUMBERS & members.keys():
        members[name] = int(members[name])


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def model(groups: Groups) -> Model:
    """The resource type of a group in CloudFormation."""

    def attempt(act: Callable[[str, dict[str, Any]], Group], requested: Requested) -> Created:
        try:
            group = act(requested.region_name, _request_of(requested))
        except ValidationError as problem:
            raise ResourceRefusedError(str(problem.message)) from problem
        return Created(physical_resource_id=group.name, attributes={"AutoScalingGroupARN": group.arn})

    return Model(
        type=GROUP_TYPE,
        make=lambda requested: attempt(groups.create, requested),
        change=lambda requested, _before: attempt(groups.update, requested),
        remove=lambda requested, created: groups.delete(requested.region_name, created.physical_resource_id),
    )


def install(groups: Groups) -> None:
    """Add the calls to moto's Auto Scaling."""
    for call in (*_reads(groups), *_changes(groups)):
        setattr(AutoScalingResponse, call.__name__, call)


def _reads(groups: Groups) -> tuple[Any, ...]:
    def describe_auto_scaling_groups(response: Any) -> ActionResult:
        names = _request_parameters(response).get("AutoScalingGroupNames", [])
        listed = [group for group in groups.in_region(response.region) if not names or group.name in names]
        return ActionResult({"AutoScalingGroups": [group.document() for group in listed]})

    def describe_scaling_activities(response: Any) -> ActionResult:
        given = _request_parameters(response)
        activities = groups.find(response.region, given["AutoScalingGroupName"]).activities
        return ActionResult({"Activities": activities[: int(given.get("MaxRecords", 100))]})

    def describe_lifecycle_hooks(response: Any) -> ActionResult:
        group = groups.find(response.region, _request_parameters(response)["AutoScalingGroupName"])
        hooks = group.request.get("LifecycleHookSpecificationList", ())
        return ActionResult({"LifecycleHooks": [{"AutoScalingGroupName": group.name, **hook} for hook in hooks]})

    return describe_auto_scaling_groups, describe_scaling_activities, describe_lifecycle_hooks


def _changes(groups: Groups) -> tuple[Any, ...]:
    def create_auto_scaling_group(response: Any) -> EmptyResult:
        groups.create(response.region, _request_parameters(response))
        return EmptyResult()

    def delete_auto_scaling_group(response: Any) -> EmptyResult:
        given = _request_parameters(response)
        group = groups.find(response.region, given["AutoScalingGroupName"])
        if group.members and not given.get("ForceDelete"):
            raise AutoscalingClientError(
                "ResourceInUse", "You cannot delete an AutoScalingGroup while there are instances still in the group."
            )
        groups.delete(response.region, group.name)
        return EmptyResult()

    def set_desired_capacity(response: Any) -> EmptyResult:
        given = _request_parameters(response)
        groups.resize(response.region, given["AutoScalingGroupName"], int(given["DesiredCapacity"]))
        return EmptyResult()

    def create_or_update_tags(response: Any) -> EmptyResult:
        for tag in _request_parameters(response)["Tags"]:
            group = groups.find(response.region, tag["ResourceId"])
            propagates = str(tag.get("PropagateAtLaunch", False)).lower() == "true"
            group.tags[tag["Key"]] = {**tag, "PropagateAtLaunch": propagates}
        return EmptyResult()

    def terminate_instance_in_auto_scaling_group(response: Any) -> ActionResult:
        given = _request_parameters(response)
        decrement = str(given["ShouldDecrementDesiredCapacity"]).lower() == "true"
        groups.replace(given["InstanceId"], decrement=decrement)
        return ActionResult({"Activity": _activity(given["InstanceId"])})

    def complete_lifecycle_action(response: Any) -> EmptyResult:
        given = _request_parameters(response)
        groups.complete(response.region, given["AutoScalingGroupName"], given["InstanceId"])
        return EmptyResult()

    return (
        create_auto_scaling_group,
        delete_auto_scaling_group,
        set_desired_capacity,
        create_or_update_tags,
        terminate_instance_in_auto_scaling_group,
        complete_lifecycle_action,
    )


def _request_parameters(response: Any) -> dict[str, Any]:
    parameters: dict[str, Any] = response._get_params()  # noqa: SLF001  the way moto's own responses read
    return parameters


def _activity(instance_id: str) -> dict[str, Any]:
    return {
        "ActivityId": "00000000-0000-0000-0000-000000000000",
        "AutoScalingGroupName": "",
        "Description": f"Terminating EC2 instance: {instance_id}",
        "Cause": "instance was taken out of service in response to a user request",
        "StartTime": datetime.now(UTC),
        "StatusCode": "InProgress",
    }
