"""Renders the instances of a job: every decision, for the preview and for the deployment, and the job's own files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.model import ec2
from launcher.model.bundle import RenderedFile
from launcher.model.eks import Interface
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.idle import warm_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.plan import Plan
from launcher.model.tags import RUN_TAG
from launcher.planning.disks import training_volume_gib
from launcher.planning.targets import unnamed_capacity
from launcher.rendering import batch, kubernetes_pod
from launcher.rendering.batch import JobSettings, NodeView
from launcher.rendering.cluster import (
    CLUSTER_FILE,
    cluster_name,
    notify_findings,
    repeated_types,
    unknown_types,
)
from launcher.rendering.engine import render_template
from launcher.rendering.kubernetes_job import START_FILE, START_SCRIPT, pod_spec
from launcher.rendering.names import ClusterNames
from launcher.rendering.node import script_text
from launcher.rendering.slurm_job import JOB_FILE
from launcher.rendering.target_files import TargetFiles
from launcher.targets.ec2.target import Ec2Instances

USER_DATA_FILE = "user_data.sh"
INSTANCE_FILE = "ec2/instance.py"
ENVIRONMENT_FILE = "ec2/environment.json"
INSTANCE_SCRIPT = "templates/ec2/instance.py"
ON_AN_INSTANCE = NodeView(
    folder="${SLIPWAY_ROOT}/job",
    scratch="${SLIPWAY_SCRATCH}",
    contained=False,
    slurm=False,
    imds=True,
    runtime="docker",
)
"""The view of a job on an instance: the agent runs beside the container, and reads the metadata service itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetContext:
    """The instances of a job (templates/ec2/fleet.yaml.j2). Ids and ARNs may be CDK tokens."""

    name: str
    # The id of an AMI; None for AWS's image that a deployment pins.
    image: str | None
    image_parameter: str | None
    instance_type: str
    # In the order of preference.
    instance_types: tuple[str, ...]
    nodes: int
    # Whether the group has a mixed instances policy; then the launch template names no market.
    mixed: bool
    spot: bool
    block: bool
    reservation_id: str | None
    placement_group: bool
    interfaces: tuple[Interface, ...]
    root_device: str
    volume_gib: int
    volume_key_arn: str | None
    metadata_hops: int
    # The security groups.
    group_ids: tuple[str, ...]
    # More than one only for a job on one node.
    subnet_ids: tuple[str, ...]
    hook: str
    # How long a terminating instance waits for its job.
    hook_s: int


def fleet_context(
    plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames, subnet_ids: tuple[str, ...] = ()
) -> FleetContext:
    """Every decision about a plan's instances; `subnet_ids` are those of several zones, empty for the only one.

    Raises:
        ImpossibleError: the job cannot run on plain instances, with all reasons.
    """
    problems = Ec2Files().findings(plan, instances)
    if problems:
        raise ImpossibleError(f"{plan.name} does not run on plain instances", findings=problems)
    place, request = plan.place, plan.request
    facts, reservation = instances[place.instance_type], request.purchase.reservation
    interfaces, wanted = ec2.interfaces(facts, place.nodes, request.target.efa_layout), request.target.placement_group
    spot, types = place.option is PurchaseOption.SPOT, (place.instance_type, *request.target.fallback_types)
    return FleetContext(
        name=cluster_name(plan),
        image=request.target.ami,
        image_parameter=ec2.image_parameter(facts),
        instance_type=facts.name,
        instance_types=types,
        nodes=place.nodes,
        mixed=spot or len(types) > 1,
        spot=spot,
        block=place.option is PurchaseOption.CAPACITY_BLOCK,
        reservation_id=None if reservation is None else reservation.id,
        # With a reservation a placement group makes EC2 answer "insufficient capacity" (terraform-aws-eks#3730).
        placement_group=reservation is None and (bool(interfaces) if wanted is None else wanted),
        interfaces=interfaces,
        root_device=ec2.ROOT_DEVICE,
        volume_gib=max(
            training_volume_gib(request, place.nodes, instances[name]) for name in types if name in instances
        ),
        volume_key_arn=request.storage.kms_key_arn,
        metadata_hops=ec2.METADATA_HOPS,
        group_ids=(names.security_group_id, *request.network.security_group_ids),
        subnet_ids=subnet_ids or (names.subnet_id,),
        hook=ec2.HOOK,
        hook_s=ec2.hook_s(request.checkpoint.grace_seconds),
    )


def user_data(plan: Plan, names: ClusterNames) -> str:
    """The script that cloud-init runs on every instance at its first boot."""
    return render_template(
        "ec2/user_data.sh.j2",
        store_uri=f"{names.store_uri}/{STAGED_FOLDER}",
        group=cluster_name(plan),
        log_group=log_group(plan),
        region=plan.place.region,
        root=ec2.ROOT,
        run_tag=RUN_TAG,
        failed_boots=ec2.FAILED_BOOTS,
        hook=ec2.HOOK,
        leave_tries=ec2.LEAVE_TRIES,
        message_uri=names.message_uri,
    )


def environment_of(plan: Plan, facts: InstanceType, names: ClusterNames, job: JobSettings) -> dict[str, str]:
    """The environment of an instance's own program, and thus of the agent and of the command."""
    variables = kubernetes_pod.environment(plan, facts, names, job=job, operator="job", leader="")
    # The instance finds the others, and its image, themselves.
    del variables["SLIPWAY_MEETING"], variables["SLIPWAY_ROOT"]
    return variables | {
        "SLIPWAY_CHIP_COUNT": str(facts.accelerators),
        "SLIPWAY_LOG_GROUP": log_group(plan),
        "SLIPWAY_TAIL_MINUTES": f"{warm_minutes(plan.request):g}",
        "SLIPWAY_WAIT_MINUTES": f"{plan.request.purchase.wait_for_capacity_minutes:g}",
    }


def log_group(plan: Plan) -> str:
    """The log group of a plan's instances; one stream for each instance of each job.

    >>> from types import SimpleNamespace
    >>> log_group(SimpleNamespace(cluster_name="tiny", request=SimpleNamespace(target=SimpleNamespace(cluster=None))))
    'slipway-tiny-instances'
    """
    return f"slipway-{plan.cluster_name}-instances"


class Ec2Files(TargetFiles):
    """The launch template and group of a job's instances, and what runs on them."""

    def findings(self, plan: Plan, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Why Slipway cannot run a plan's job on plain instances; empty if it can."""
        place = plan.place
        if place.target is not TargetKind.EC2:
            return (error("not-ec2", "target.kind", f"{place.target} is not a job on plain EC2 instances"),)
        if unknown := unknown_types(plan, instances):
            return unknown
        refused = Ec2Instances().refusals(plan.request, place, instances)
        named = (*unnamed_capacity(plan.request, plan.place), *repeated_types(plan), *notify_findings(plan))
        return (*refused, *named, *batch.findings(plan))

    def cluster_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames
    ) -> list[RenderedFile]:
        """The instances to deploy, and the script that starts them."""
        shown = render_template("ec2/fleet.yaml.j2", fleet_context(plan, instances, names))
        return [
            RenderedFile(path=CLUSTER_FILE, text=shown),
            RenderedFile(path=USER_DATA_FILE, text=user_data(plan, names), executable=True),
        ]

    def job_findings(self, plan: Plan) -> tuple[Finding, ...]:
        """Empty: the findings about the instances include those about the job."""
        return ()

    def job_files(
        self, plan: Plan, instances: Mapping[str, InstanceType], names: ClusterNames, job: JobSettings
    ) -> list[RenderedFile]:
        """The files of a plan's job; empty if the plan has no job."""
        if plan.request.workload.train is None:
            return []
        environment = environment_of(plan, instances[plan.place.instance_type], names, job)
        return [
            RenderedFile(path=INSTANCE_FILE, text=script_text(INSTANCE_SCRIPT)),
            RenderedFile(path=ENVIRONMENT_FILE, text=json.dumps(environment, indent=2) + "\n"),
            RenderedFile(path=START_FILE, text=script_text(START_SCRIPT)),
            RenderedFile(path=JOB_FILE, text=pod_spec(plan, names=names, job=job, view=ON_AN_INSTANCE).to_json()),
        ]
