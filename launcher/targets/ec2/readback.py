"""Compares the instances of a job with the plan: their launch template, their group, and its lifecycle hook."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.aws import auto_scaling
from launcher.catalog.load import load
from launcher.model.ec2 import GROUP_OUTPUT, HOOK, hook_s, interfaces
from launcher.model.enums import PurchaseOption
from launcher.workflow.cluster.readback import training
from launcher.workflow.cluster.readback.reading import BilledInstances, Reading

GROUP_TYPE = "AWS::AutoScaling::AutoScalingGroup"


def group(reading: Reading) -> None:
    """The group: its limits, its types and market, its zone, and the time in which a job saves."""
    checks, plan, name = reading.checks, reading.plan, reading.main.outputs[GROUP_OUTPUT]
    state = auto_scaling.describe(reading.session, name)
    checks.holds("the group of instances exists", state is not None)
    if state is None:
        return
    place, target = plan.place, plan.request.target
    checks.equal("size of the group", (0, place.nodes), (state.minimum, state.maximum))
    spot = place.option is PurchaseOption.SPOT
    mixed = spot or bool(target.fallback_types)
    checks.equal("spot instances", spot, state.spot)
    checks.equal("instance types", (place.instance_type, *target.fallback_types) if mixed else (), state.types)
    if place.nodes > 1:
        checks.equal("subnets of several nodes", 1, len(state.subnets))
    waits = ("autoscaling:EC2_INSTANCE_TERMINATING", hook_s(plan.request.checkpoint.grace_seconds))
    checks.equal("time to save before an end", {HOOK: waits}, dict(auto_scaling.hooks(reading.session, name)))


def template(reading: Reading) -> None:
    """The launch template: its type, its network interfaces, its capacity reservation."""
    plan, state = reading.plan, auto_scaling.describe(reading.session, reading.main.outputs[GROUP_OUTPUT])
    if state is None:
        return
    facts = load().instance_types[plan.place.instance_type]
    planned = interfaces(facts, plan.place.nodes, plan.request.target.efa_layout)
    training.launch_template(reading, state.template, (interface.kind for interface in planned))


def group_instances(properties: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[BilledInstances]:
    """The instances of a group."""
    mixed = properties.get("MixedInstancesPolicy", {}).get("LaunchTemplate", {})
    specification = properties.get("LaunchTemplate") or mixed["LaunchTemplateSpecification"]
    used = resources[specification["LaunchTemplateId"]["Ref"]]["Properties"]
    yield BilledInstances(
        type=used["LaunchTemplateData"]["InstanceType"], count=int(properties["MaxSize"]), nodes=True, with_jobs=True
    )
