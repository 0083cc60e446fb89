"""The rules of HyperPod for one place: findings, each with a fix."""

from collections.abc import Iterator, Mapping

from launcher.catalog.load import Catalog
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, info, warning
from launcher.model.hyperpod import TRAINING_PLAN_COUNTS, deep_health_checks
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest, TrainingPlanReference
from launcher.model.sizing import head_node
from launcher.model.target import target_of
from launcher.planning.reserved import REGION_FIELD
from launcher.planning.targets import Locations, Rules, by_region

_ROW = target_of(TargetKind.HYPERPOD_SLURM)
_TO_PARALLELCLUSTER = f"set target.kind to {TargetKind.PARALLELCLUSTER}"


def locations(
    request: PlanRequest, _catalog: Catalog, _facts: InstanceType, _option: PurchaseOption, known: Locations
) -> Locations:
    """The regions and zones to try, among those known for EC2; SageMaker has one price per region."""
    return by_region(request, known)


def refusals(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Every reason why a place cannot be HyperPod; empty if it can."""
    rules = (
        type_refusals(place, instances),
        head_refusals(request, place, instances, "the controller"),
        capacity_refusals(request, place),
        _unused(request),
    )
    return tuple(finding for rule in rules for finding in rule)


def remarks(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Unconfirmed behavior of a place on HyperPod, and costs that the user did not request."""
    notes = []
    if place.option is PurchaseOption.SPOT:
        message = (
            "AWS documents spot on HyperPod only with EKS; spot with Slurm is not confirmed, and the quota "
            "of spot instances is 0 until AWS raises it"
        )
        notes.append(warning("hyperpod-spot-unconfirmed", "purchase.option", message, "on-demand is confirmed"))
    shared = shared_folder("hyperpod-shared-folder", "HyperPod", request, place)
    return (*notes, *unknown_end(request, place), *shared, *health_checks(place, instances))


def shared_folder(code: str, service: str, request: PlanRequest, place: Place) -> Iterator[Finding]:
    """The remark that Slipway creates a file system if the plan names none, because the nodes share no folder."""
    if not request.storage.lustre_gib:
        gib = target_of(place.target).shared_gib(0)
        message = (
            f"{service} nodes have no shared file system: the plan creates and prices FSx for Lustre of {gib:,} GiB"
        )
        yield info(code, "storage.lustre_gib", message, "set storage.lustre_gib for a larger file system")


def health_checks(place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """The remark that HyperPod runs health checks on new instances for hours, which the estimate counts."""
    if deep_health_checks(instances[place.instance_type], nodes=place.nodes):
        message = (
            "deep health checks run before instances accept jobs; the estimate counts 1 h for them, and 2 "
            "h in the high case"
        )
        yield info("hyperpod-health-checks", "target.kind", message)


def unknown_end(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """The remark that the plan file gives no end of a training plan."""
    bought = request.purchase.training_plan
    if place.option is PurchaseOption.TRAINING_PLAN and bought is not None and bought.ends_at is None:
        message = (
            "its end is not given, so jobs do not save before AWS takes the instances back,"
            f" {target_of(place.target).lost_minutes(place.option)} minutes before that"
        )
        yield warning("training-plan-end", "purchase.training_plan.ends_at", message, "set it")


def type_refusals(place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """The refusal of a job node type that HyperPod, or a training plan, does not have."""
    name = place.instance_type
    if not instances[name].ml:
        message = f"HyperPod has no ml.{name}"
        yield error("not-on-hyperpod", "target.instance_type", message, alternative_type(instances[name], instances))
    if place.option is PurchaseOption.TRAINING_PLAN and not instances[name].training_plans:
        yield error("no-training-plan", "purchase.option", f"{name} is not available in training plans")


def head_refusals(
    request: PlanRequest, place: Place, instances: Mapping[str, InstanceType], role: str
) -> Iterator[Finding]:
    """The refusal of a type of the head node that HyperPod does not have; `role` names the node's purpose."""
    head = head_node(place.nodes, request.storage.head_node)
    if head in instances and not instances[head].ml:
        message = f"HyperPod has no ml.{head} for {role}"
        yield error("not-on-hyperpod", "storage.head_node", message, "for example m6i.xlarge")


def alternative_type(facts: InstanceType, instances: Mapping[str, InstanceType]) -> str:
    """The replacement for a type that HyperPod lacks: a type with the same chip, or another target."""
    if facts.chip is not None and not facts.chip.trains:
        return (
            f"{facts.chip.name} is an inference chip: set target.kind to sagemaker-endpoint or eks; to train, "
            "choose a trn or p type"
        )
    kin = [
        instance.name
        for instance in instances.values()
        if instance.ml and instance.chip is not None and instance.chip is facts.chip
    ]
    other = [_TO_PARALLELCLUSTER] if TargetKind.PARALLELCLUSTER in facts.targets else []
    return ", or ".join((*kin[:1], *other)) or "a trn or p type that it has"


def capacity_refusals(request: PlanRequest, place: Place, service: str = "HyperPod") -> Iterator[Finding]:
    """Capacity that a SageMaker service cannot use, and training plans that do not fit the plan."""
    purchase, bought, row = request.purchase, request.purchase.training_plan, target_of(place.target)
    if purchase.reservation is not None or place.option is PurchaseOption.CAPACITY_BLOCK:
        named = purchase.reservation.id if purchase.reservation is not None else "a Capacity Block"
        message = f"{service} uses neither Capacity Blocks nor EC2 capacity reservations, got {named}"
        hint = f"buy a SageMaker training plan and name it in purchase.training_plan, or {_TO_PARALLELCLUSTER}"
        yield error("hyperpod-ec2-capacity", "purchase.reservation", message, hint)
    elif place.option not in row.trains:
        allowed = ", ".join(row.trains)
        message = f"{place.option} does not buy instances for {service}, allowed: {allowed}"
        yield error("option-without-nodes", "purchase.option", message)
    elif place.option is PurchaseOption.SAVINGS_PLAN and place.plan_kind not in (None, *row.savings_plans):
        message = f"a Savings Plan of kind {place.plan_kind} does not cover ml. instances"
        yield error("savings-plan-kind", "purchase.plan_kind", message, "set it to sagemaker")
    if place.option is PurchaseOption.TRAINING_PLAN:
        yield from _training_plan(bought, place) if bought is not None else _count(None, place)


def _training_plan(bought: TrainingPlanReference, place: Place) -> Iterator[Finding]:
    """A training plan by its ARN: arn:partition:sagemaker:region:account:training-plan/name."""
    region = bought.arn.split(":")[REGION_FIELD]
    if region != place.region:
        message = f"{bought.arn} is in {region}, but the plan file is for {place.region}"
        yield error("training-plan-region", "purchase.training_plan.arn", message, f"set target.region to {region}")
    yield from _count(bought.count, place)


def _count(bought: int | None, place: Place) -> Iterator[Finding]:
    """The comparison of a training plan's instances (None if the plan file does not give them) with those needed."""
    path, allowed = "purchase.training_plan.count", ", ".join(str(plan_count) for plan_count in TRAINING_PLAN_COUNTS)
    if bought is not None and bought not in TRAINING_PLAN_COUNTS:
        message = f"training plans have {allowed} instances, got {bought}"
        yield error("training-plan-size", path, message, "set target.nodes to one of these numbers")
    elif bought is None and place.nodes not in TRAINING_PLAN_COUNTS:
        message = f"training plans have {allowed} instances, got {place.nodes}"
        hint = f"set one of these numbers, or set {path} if the training plan has more instances than the job needs"
        yield error("training-plan-size", "target.nodes", message, hint)
    elif bought is not None and place.nodes > bought:
        message = f"{place.nodes} nodes requested, but the training plan has {bought}"
        yield error("training-plan-count", "target.nodes", message, f"set target.nodes to at most {bought}")


def _unused(request: PlanRequest) -> Iterator[Finding]:
    if request.target.fallback_types:
        message = "HyperPod instance groups always run, so Slipway cannot start a fallback queue on demand"
        hint = "list the types in target.instance_type: each is a candidate"
        yield error("hyperpod-fallback", "target.fallback_types", message, hint)
    if request.target.placement_group:
        message = "HyperPod chooses the placement of its instances"
        yield error("hyperpod-placement", "target.placement_group", message, "set target.placement_group to auto")
    if request.storage.login_pool:
        message = "HyperPod removes its group of login nodes with the last login node"
        yield error("hyperpod-login-pool", "storage.login_pool", message, "remove it")
    if request.run.image is not None and request.target.ami is None:
        message = "it is not confirmed that HyperPod's AMIs have enroot or docker to run an image"
        hint = "install what the command needs in run.setup, or set target.ami to your own AMI that has it"
        yield error("hyperpod-container", "run.image", message, hint)


RULES = Rules(locations=locations, refusals=refusals, remarks=remarks)
