"""SageMaker training jobs, whose instances start and end with each job: their facts, and their rules for one place."""

from collections.abc import Iterator, Mapping

from launcher.model.enums import CheckpointMode, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, info, warning
from launcher.model.idle import warm_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.names import ECR
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import SAGEMAKER, TRAINING, TRAINING_JOBS, Guard, Locations, RoleUse
from launcher.model.training_job import JOBS_OUTPUT, LOG_GROUP, LONGEST_H, LONGEST_IMAGE, LONGEST_WARM_MINUTES
from launcher.model.units import number_of
from launcher.targets.bases import SageMakerTarget

_CLUSTERS = "or set target.kind to a kind of cluster"


class SageMakerTraining(SageMakerTarget):
    """SageMaker training jobs: SageMaker starts and ends the instances of each job."""

    kind = TargetKind.SAGEMAKER_TRAINING
    title = "SageMaker training jobs"
    short = "SMT"
    service = "a training job"
    example = "sagemaker/lora-g5.yaml"
    sagemaker = TRAINING
    guard = Guard(
        module="training_jobs",
        variable="TRAINING_JOBS",
        events=("SageMaker Training Job State Change",),
        stops="running jobs are stopped",
    )
    managed_spot = True
    per_job = True
    shared_log = LOG_GROUP
    planned_for = "training-job"
    # Developer guide, training plans: of training jobs later than of HyperPod.
    plan_lost_minutes = 30
    own_outputs = (JOBS_OUTPUT,)
    software = ("image/{image}",)
    person = ("training-jobs",)
    policies = ("network",)
    roles = (
        RoleUse(
            key="nodes",
            service=SAGEMAKER,
            needs=("jobs", "values", "training-job", "images"),
            joins_vpc=True,
        ),
    )
    scheduler = TRAINING_JOBS
    # In a VPC containers reach S3 by its gateway endpoint, and SageMaker itself pulls the image (developer guide, "Give
    # SageMaker AI Training Jobs Access to Resources in Your Amazon VPC"). Logs and metrics leave by an interface in the
    # same VPC: "These nodes connect to CloudWatch through the VPC that's in VpcConfig" (AWS re:Post, Knowledge Center,
    # "How does my SageMaker container access Amazon S3 data and push logs to CloudWatch when I turn on network
    # isolation?", read 2026-11-29). Without logs nobody sees why a job failed; the guard reads the metrics.
    needed_endpoints = ("logs", "monitoring")
    encrypts_traffic = True

    def node_addresses(self, facts: InstanceType, interfaces: int) -> int:
        """At least 2, with EFA at least 5 (developer guide, training jobs in a VPC, subnets; read 2026-11-29)."""
        return max(interfaces, 5 if facts.efa_interfaces else 2)

    def locations(self, request: PlanRequest, option: PurchaseOption, known: Locations) -> Locations:
        """The regions to try: SageMaker chooses the zone. A cluster without a job has none."""
        return () if request.workload.train is None else super().locations(request, option, known)

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason why a place runs no training job; empty if it can run one."""
        rules = (
            _type(place, instances),
            self.capacity_refusals(request, place),
            _unused_keys(request),
            _network(request),
            _limits(request, place),
            _image(request, place),
        )
        return tuple(finding for rule in rules for finding in rule)

    def remarks(self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Unexpected costs and unpublished facts of training jobs."""
        from launcher.catalog.training_images import training_image

        notes, facts = [*self.unknown_end(request, place)], instances[place.instance_type]
        if request.run.image is None and training_image(facts, place.region, service="sagemaker") is None:
            message = f"Slipway knows no AWS training image for {facts.name} in {place.region}: a launch is refused"
            hint = "set run.image to your own image in ECR, preferably by digest"
            notes.append(warning("image-missing", "run.image", message, hint))
        if place.option is PurchaseOption.SPOT:
            message = (
                "AWS publishes no rate for managed spot: the middle estimate is an assumption; the high "
                "estimate, which is compared with the budget, is the on-demand rate"
            )
            key = f"{self.billed_name(place.instance_type)}/{place.option.value}/{place.target.value}"
            hint = f'purchase.price_overrides {{"{key}": "..."}}: BillableTimeInSeconds of past jobs shows the rate'
            notes.append(info("managed-spot-rate", "purchase.option", message, hint))
        if request.network.is_closed:
            message = "the new network has one subnet: SageMaker starts the instances in its zone alone"
            notes.append(info("one-zone", "network.nat", message, "target.az_id chooses the zone"))
        minutes = warm_minutes(request)
        if minutes:
            message = f"the warm pool keeps all nodes for {number_of(minutes, 'minute')} after the job, billed in full"
            notes.append(warning("warm-pool", "guardrails.idle_minutes", message, "set it to auto for no warm pool"))
        return tuple(notes)


def _type(place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    facts = instances[place.instance_type]
    if place.target not in facts.targets:
        offered = (instance for instance in instances.values() if place.target in instance.targets)
        kin = [
            instance_type.name
            for instance_type in offered
            if instance_type.chip is not None and instance_type.chip is facts.chip
        ]
        hint = ", ".join((*kin[:3], _CLUSTERS)) if kin else _CLUSTERS.removeprefix("or ")
        message = f"training jobs have no ml.{facts.name}"
        yield error("not-for-training-jobs", "target.instance_type", message, hint)
    elif place.option is PurchaseOption.TRAINING_PLAN and not facts.training_plans:
        yield error("no-training-plan", "purchase.option", f"{facts.name} is not available in training plans")


def _unused_keys(request: PlanRequest) -> Iterator[Finding]:
    target, storage, run = request.target, request.storage, request.run
    given = (
        ("target.cluster", target.cluster, "a training job has no cluster: remove this key"),
        ("target.ssh_host", target.ssh_host, f"a training job is started by an API call: remove this key, {_CLUSTERS}"),
        ("target.queue", target.queue, f"remove this key, {_CLUSTERS}"),
        ("target.fallback_types", target.fallback_types, "list the types in target.instance_type: each is a candidate"),
        ("target.ami", target.ami, "SageMaker chooses the AMI: set run.image"),
        (
            "target.placement_group",
            target.placement_group,
            "SageMaker chooses the placement of its instances: set it to auto",
        ),
        ("storage.lustre_gib", storage.lustre_gib, f"keep data in S3 (run.data), {_CLUSTERS}"),
        ("storage.login_nodes", storage.login_nodes, "a training job has no login nodes"),
        ("storage.head_node", storage.head_node, "a training job has no head node"),
        ("network.name", request.network.name, "remove this key, or set network.vpc_id"),
        ("run.container", run.container, "the job runs in run.image, or in AWS's image for the chip"),
        ("run.volumes", run.volumes, "keep data in S3 (run.data)"),
        ("run.operator", run.operator, "leave it at auto"),
    )
    for path, value, hint in given:
        if value:
            shown = ", ".join(map(str, value)) if isinstance(value, tuple) else value
            yield error("training-job-unused", path, f"training jobs do not use this key, got {shown}", hint)
    policy = request.checkpoint
    if policy.mode is CheckpointMode.OWN and not (policy.own_uri or "").startswith("s3://"):
        message = f"a training job mounts no file system, got {policy.own_uri}"
        yield error("training-job-mount", "checkpoint.uri", message, "use an s3:// URI, or checkpoint.mode: agent")


def _network(request: PlanRequest) -> Iterator[Finding]:
    """The refusal of network endpoints without a VPC: the job then runs in SageMaker's own network."""
    network = request.network
    if network.vpc_id is None and network.endpoints and not network.is_closed:
        message = f"Slipway creates no network, got endpoints {', '.join(network.endpoints)}"
        yield error(
            "training-job-network", "network.endpoints", message, "remove this key: SageMaker provides the network"
        )


def _limits(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """The refusal of time limits that SageMaker does not allow."""
    hours, minutes = request.run.time_limit_h, warm_minutes(request)
    if hours is not None and hours > LONGEST_H:
        message = f"a training job runs for at most {LONGEST_H:g} hours (28 days), got {hours:,.12g}"
        yield error("training-job-time", "run.time_limit_h", message, "for a longer job, launch it again: it resumes")
    if minutes > LONGEST_WARM_MINUTES:
        message = f"a warm pool lasts at most {LONGEST_WARM_MINUTES:g} minutes, got {minutes:,.12g}"
        yield error("warm-pool-time", "guardrails.idle_minutes", message, "auto: no warm pool")
    if minutes and place.option is PurchaseOption.SPOT:
        message = f"managed spot has no warm pool, got idle_minutes {minutes:g}"
        yield error("warm-pool-spot", "guardrails.idle_minutes", message, "auto, or purchase.option: on-demand")


def _image(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """The refusal of an image that SageMaker cannot pull."""
    image = request.run.image
    if image is not None and ECR.match(image) is None:
        message = f"training jobs pull from Amazon ECR, got {image}"
        hint = f"ACCOUNT.dkr.ecr.{place.region}.amazonaws.com/REPOSITORY@sha256:..., or with a tag"
        yield error("image-not-in-ecr", "run.image", message, hint)
    elif image is not None and len(image) > LONGEST_IMAGE:
        message = f"an image's name has at most {LONGEST_IMAGE} characters, got {len(image)}"
        yield error("image-name-length", "run.image", message, "use the digest without a tag")
