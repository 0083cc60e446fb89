"""Plain EC2 instances that start and end with one job: their facts and rules."""

from collections.abc import Iterator, Mapping

from launcher.model.ec2 import GROUP_OUTPUT, MAX_NODES, MAX_OVERRIDES, METADATA_KEY, image_parameter, interfaces
from launcher.model.eks import CAPACITY_TYPES
from launcher.model.enums import CheckpointMode, OperatingSystem, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, info, warning
from launcher.model.idle import warm_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import IDLE_METRICS
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG
from launcher.model.target import EC2, INSTANCES, Guard, InstanceTags, Locations, RoleUse, VolumeKey
from launcher.model.units import number_of
from launcher.targets.bases import Ec2Target

_CLUSTERS = "or set target.kind to a kind of cluster"


class Ec2Instances(Ec2Target):
    """Plain instances: a launch template and an Auto Scaling group, without a head node or scheduler."""

    kind = TargetKind.EC2
    title = "EC2 instances"
    short = "EC2"
    example = "ec2/lora-g6e.yaml"
    guard = Guard(
        module="ec2",
        variable="EC2",
        events=(),
        spot_notices=True,
        reprices=True,
        stops="the instances end",
        idle="idle instances",
        metrics_a_node=IDLE_METRICS,
        alone=True,
    )
    instance_tags = InstanceTags(cluster=CLUSTER_TAG, role=PURPOSE_TAG, node="node", prefix="")
    volume_key = VolumeKey.NAMED
    starts_volumes = "autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"
    per_job = True
    service_chooses_type = True
    public_nodes = True
    # The instance and its user data call the first three; sessions need the others (Systems Manager user guide, VPC
    # endpoints; ec2messages is not needed from version 3.3.40 of its agent).
    needed_endpoints = ("autoscaling", "ec2", "logs", "ssm", "ssmmessages")
    efa_on_one_node = False
    own_outputs = (GROUP_OUTPUT,)
    policies = ("network", "ec2")
    person = ("ec2-jobs", "nodes")
    roles = (
        RoleUse(
            key="nodes",
            service=EC2,
            needs=("jobs", "values", "nodes-of-ec2", "session-manager"),
            entered=True,
            pulls=True,
        ),
    )
    scheduler = INSTANCES

    def image_parameter(self, facts: InstanceType) -> str | None:
        """AWS's image with the software of the type's chips."""
        return image_parameter(facts)

    def locations(self, request: PlanRequest, option: PurchaseOption, known: Locations) -> Locations:
        """The known locations for a job; a cluster without a job has none."""
        return known if request.workload.train is not None else ()

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason why a place cannot run a job on plain instances; empty if it can."""
        rules = (
            _image(request, place, instances),
            _capacity(request, place),
            _fallbacks(request, place, instances),
            _unused_keys(request),
            _software(request),
            _tags(request),
        )
        return tuple(finding for rule in rules for finding in rule)

    def remarks(self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Costs of a place that the user may not expect."""
        notes = []
        minutes = warm_minutes(request)
        if minutes:
            stay = "the instance stays" if place.nodes == 1 else f"all {place.nodes} instances stay"
            message = f"{stay} for {number_of(minutes, 'minute')} after the job, billed in full"
            notes.append(warning("tail", "guardrails.idle_minutes", message, "set it to auto: no tail"))
        if place.option is PurchaseOption.SPOT:
            message = (
                "EC2 Auto Scaling replaces each instance that EC2 reclaims until the job is finished: the time to live "
                "and the budget limit the cost"
            )
            notes.append(info("replacements", "purchase.option", message))
        return tuple(notes)


def _image(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    facts, target = instances[place.instance_type], request.target
    if target.ami is not None:
        return
    if image_parameter(facts) is None:
        message = f"Slipway knows no image for {facts.name}, which has no accelerator"
        yield error("ec2-image", "target.instance_type", message, f"set target.ami to your own image, {_CLUSTERS}")
    if target.os is not OperatingSystem.UBUNTU2404:
        message = f"AWS's image is for {OperatingSystem.UBUNTU2404}, got {target.os}"
        yield error("ec2-os", "target.os", message, "set target.os to ubuntu2404, or target.ami to your own image")


def _capacity(request: PlanRequest, place: Place) -> Iterator[Finding]:
    if place.option not in CAPACITY_TYPES:
        message = f"{place.option} does not buy EC2 instances, allowed: {', '.join(CAPACITY_TYPES)}"
        yield error("option-without-nodes", "purchase.option", message)
    if place.option is PurchaseOption.SPOT and request.purchase.reservation is not None:
        message = "spot instances cannot use a reservation"
        yield error("spot-with-reservation", "purchase.reservation", message, "remove one of the two")
    if place.nodes > MAX_NODES:
        message = f"a job on plain instances has at most {MAX_NODES} nodes, got {place.nodes}"
        yield error("too-many-nodes", "target.nodes", message, f"use fewer and larger instances, {_CLUSTERS}")


def _fallbacks(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """All types of a mixed instances policy share one launch template: its image, interfaces and market."""
    target, types = request.target, request.target.fallback_types
    if not types:
        return
    path, first = "target.fallback_types", instances[place.instance_type]
    if request.purchase.reservation is not None:
        message = f"a reservation is for one instance type, got fallback types {', '.join(types)}"
        yield error("ec2-fallback-reservation", path, message, "remove them")
    if len(types) >= MAX_OVERRIDES:
        message = f"a group has at most {MAX_OVERRIDES} instance types, got {len(types) + 1}"
        yield error("ec2-fallback-types", path, message, f"at most {MAX_OVERRIDES - 1} fallback types")
    for facts in (instances[name] for name in types if name in instances):
        if image_parameter(facts) != image_parameter(first) and target.ami is None:
            message = f"{facts.name} needs another image than {first.name}"
            yield error("ec2-fallback-image", path, message, "name types with chips of the same vendor")
        layouts = {interfaces(each, place.nodes, target.efa_layout) for each in (first, facts)}
        if len(layouts) > 1:
            message = f"{facts.name} has other network interfaces than {first.name}"
            yield error("ec2-fallback-interfaces", path, message, "name types with the same interfaces, or 1 node")


def _unused_keys(request: PlanRequest) -> Iterator[Finding]:
    target, storage, run = request.target, request.storage, request.run
    given = (
        ("target.cluster", target.cluster, "the job has no cluster: remove this key"),
        ("target.ssh_host", target.ssh_host, f"instances start for the job: remove this key, {_CLUSTERS}"),
        ("target.queue", target.queue, f"remove this key, {_CLUSTERS}"),
        ("storage.lustre_gib", storage.lustre_gib, f"keep data in S3 (run.data), {_CLUSTERS}"),
        ("storage.login_nodes", storage.login_nodes, "the job has no login nodes"),
        ("storage.login_pool", storage.login_pool, "the job has no login nodes"),
        ("storage.head_node", storage.head_node, "the job has no head node"),
        ("run.volumes", run.volumes, "keep data in S3 (run.data)"),
        ("run.operator", run.operator, "leave it at auto"),
    )
    for path, value, hint in given:
        if value:
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            yield error("ec2-unused", path, f"a job on plain instances does not use this key, got {shown}", hint)
    policy = request.checkpoint
    if policy.mode is CheckpointMode.OWN and not (policy.own_uri or "").startswith("s3://"):
        message = f"the instances mount no file system, got {policy.own_uri}"
        yield error("ec2-mount", "checkpoint.uri", message, "use an s3:// URI, or checkpoint.mode: agent")


def _tags(request: PlanRequest) -> Iterator[Finding]:
    """Instances read the job's name from their tags in the metadata service, which limits the keys of all tags."""
    for key in request.tags:
        if METADATA_KEY.fullmatch(key) is None:
            message = f"EC2 starts no instance with the tag {key!r} whose metadata service shows tags"
            hint = "use letters, digits and + - = . , _ : @ in its key"
            yield error("ec2-tag", f"tags.{key}", message, hint)


def _software(request: PlanRequest) -> Iterator[Finding]:
    run = request.run
    if run.container == "enroot":
        message = "AWS's images have Docker and no enroot, got run.container enroot"
        yield error("ec2-container", "run.container", message, "set it to auto or docker")
