"""What several targets share: instances of EC2 or of SageMaker, a HyperPod cluster, pods on an EKS control plane."""

from collections.abc import Iterator, Mapping

from launcher.model.eks import VERSION
from launcher.model.enums import EfaLayout, PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.finding import Finding, error, info, warning
from launcher.model.hyperpod import TRAINING_PLAN_COUNTS, deep_health_checks
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest, TrainingPlanReference
from launcher.model.service_updates import EKS_TYPE, HYPERPOD_TYPE, eks_version, head_group, hyperpod_groups
from launcher.model.target import CLUSTER, KUBERNETES, HeadNode, Locations, RoleUse, Runs, Target
from launcher.model.units import number_of
from launcher.model.update import KeyChange, Properties

_TO_PARALLELCLUSTER = f"set target.kind to {TargetKind.PARALLELCLUSTER}"
CONTROL_PLANE = RoleUse(key="control_plane", service="eks.amazonaws.com", needs=("control-plane",))
PODS = RoleUse(key="pods", service="pods.eks.amazonaws.com", needs=("pods", "values"))
"""Roles of every cluster with an EKS control plane."""


class Ec2Target(Target):
    """A cluster of instances that EC2 sells: its commitments, Capacity Blocks and reservations cover them."""

    trains = (
        PurchaseOption.ON_DEMAND,
        PurchaseOption.SPOT,
        PurchaseOption.CAPACITY_BLOCK,
        PurchaseOption.SAVINGS_PLAN,
        PurchaseOption.RESERVED,
    )
    deployed = (Runs.TRAINING,)
    savings_plans = (SavingsPlanKind.COMPUTE, SavingsPlanKind.EC2_INSTANCE)
    person: tuple[str, ...] = ("nodes",)
    logs_sessions = True


class SageMakerTarget(Target):
    """Instances that run in SageMaker's account: EC2's commitments and blocks do not cover them."""

    trains = (
        PurchaseOption.ON_DEMAND,
        PurchaseOption.SPOT,
        PurchaseOption.TRAINING_PLAN,
        PurchaseOption.SAVINGS_PLAN,
    )
    deployed = (Runs.TRAINING,)
    savings_plans = (SavingsPlanKind.SAGEMAKER,)
    # Which interfaces SageMaker gives its instances is not documented: the layout that takes more addresses is counted.
    efa_layout = EfaLayout.CLASSIC
    # The service in messages about its capacity.
    service: str

    def locations(self, request: PlanRequest, option: PurchaseOption, known: Locations) -> Locations:
        """Each region once, with the pinned zone: SageMaker has one price for a region."""
        return tuple(dict.fromkeys((region, request.target.az_id) for region, _zone in known))

    def capacity_refusals(self, request: PlanRequest, place: Place) -> Iterator[Finding]:
        """Capacity that SageMaker cannot use, and training plans that do not fit the plan."""
        purchase, bought = request.purchase, request.purchase.training_plan
        if purchase.reservation is not None or place.option is PurchaseOption.CAPACITY_BLOCK:
            named = purchase.reservation.id if purchase.reservation is not None else "a Capacity Block"
            message = f"{self.service} uses neither Capacity Blocks nor EC2 capacity reservations, got {named}"
            hint = f"buy a SageMaker training plan and name it in purchase.training_plan, or {_TO_PARALLELCLUSTER}"
            yield error("hyperpod-ec2-capacity", "purchase.reservation", message, hint)
        elif place.option not in self.trains:
            allowed = ", ".join(self.trains)
            message = f"{place.option} does not buy instances for {self.service}, allowed: {allowed}"
            yield error("option-without-nodes", "purchase.option", message)
        elif place.option is PurchaseOption.SAVINGS_PLAN and place.plan_kind not in (None, *self.savings_plans):
            message = f"a Savings Plan of kind {place.plan_kind} does not cover ml. instances"
            yield error("savings-plan-kind", "purchase.plan_kind", message, "set it to sagemaker")
        if place.option is PurchaseOption.TRAINING_PLAN:
            yield from training_plan_refusals(bought, place)

    def unknown_end(self, request: PlanRequest, place: Place) -> Iterator[Finding]:
        """The remark that the plan file gives no end of a training plan."""
        bought = request.purchase.training_plan
        if place.option is PurchaseOption.TRAINING_PLAN and bought is not None and bought.ends_at is None:
            message = (
                "its end is not given, so jobs do not save before AWS takes the instances back,"
                f" {self.lost_minutes(place.option)} minutes before that"
            )
            yield warning("training-plan-end", "purchase.training_plan.ends_at", message, "set it")


class HyperPodTarget(SageMakerTarget):
    """A HyperPod cluster: its instances always run, and it replaces faulty ones and restarts their jobs."""

    sagemaker = CLUSTER
    service = "HyperPod"
    logs_sessions = True
    resumes_jobs = True
    person: tuple[str, ...] = ("nodes",)
    registry_types: tuple[str, ...] = (HYPERPOD_TYPE,)

    def key_changes(self, resource_type: str, old: Properties, new: Properties) -> Iterator[KeyChange]:
        """The changed keys of its instance groups."""
        if resource_type == HYPERPOD_TYPE:
            return hyperpod_groups(old, new)
        return super().key_changes(resource_type, old, new)

    def head_type(self, resource_type: str, properties: Properties) -> str | None:
        """The instance type of its controller or system group."""
        return head_group(properties) if resource_type == HYPERPOD_TYPE else None

    def type_refusals(self, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
        """The refusal of a job node type that HyperPod, or a training plan, does not have."""
        name = place.instance_type
        if not instances[name].ml:
            message, hint = f"HyperPod has no ml.{name}", _alternative_type(instances[name], instances)
            yield error("not-on-hyperpod", "target.instance_type", message, hint)
        if place.option is PurchaseOption.TRAINING_PLAN and not instances[name].training_plans:
            yield error("no-training-plan", "purchase.option", f"{name} is not available in training plans")

    def head_refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType], role: str
    ) -> Iterator[Finding]:
        """The refusal of a type of the head node that HyperPod does not have; `role` names the node's purpose."""
        head = self.head_instance(place.nodes, request.storage.head_node)
        if head in instances and not instances[head].ml:
            message = f"HyperPod has no ml.{head} for {role}"
            yield error("not-on-hyperpod", "storage.head_node", message, "for example m6i.xlarge")

    def health_checks(self, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
        """The remark that HyperPod runs health checks on new instances for hours, which the estimate counts."""
        if deep_health_checks(instances[place.instance_type], nodes=place.nodes):
            message = (
                "deep health checks run before instances accept jobs; the estimate counts 1 h for them, and 2 "
                "h in the high case"
            )
            yield info("hyperpod-health-checks", "target.kind", message)


class PodTarget(Target):
    """Pods on a cluster with an EKS control plane."""

    scheduler = KUBERNETES
    head = HeadNode(name="system node")
    needs_internet = "the device plugins and operators come from public registries"
    control_plane = "eks.cluster"
    software = (f"kubernetes/{VERSION}", "image/{image}")

    def node_addresses(self, facts: InstanceType, interfaces: int) -> int:
        """The interfaces' addresses, and those of pods that the network plugin takes at a node's start, at least.

        AWS's network plugin assigns every address that the first interface can have: 50 on each type with several
        cards, so that a p5.48xlarge takes 81 on HyperPod, and 15 or more on others (SageMaker developer guide, HyperPod
        prerequisites, custom VPC, and maximum number of pods; read 2026-11-29).
        """
        return interfaces + (49 if facts.network_cards > 1 else 14)

    def key_changes(self, resource_type: str, old: Properties, new: Properties) -> Iterator[KeyChange]:
        """The change of the control plane's version."""
        if resource_type == EKS_TYPE:
            return eks_version(old, new)
        return super().key_changes(resource_type, old, new)

    def zone_refusals(self, request: PlanRequest, place: Place) -> Iterator[Finding]:
        """EKS requires subnets in two zones for its control plane (EKS user guide, VPC and subnet requirements)."""
        network = request.network
        if network.vpc_id is not None:
            zones = {subnet.az_id for subnet in network.subnets} or set(network.subnet_ids)
            path = "network.subnet_ids"
        elif network.name is not None:
            zones, path = set(network.az_ids), "network.az_ids"
        else:
            return
        if len(zones) < 2:  # noqa: PLR2004 - two
            message = f"the EKS control plane needs subnets in 2 zones, got {', '.join(sorted(zones)) or 'none'}"
            yield error("one-zone", path, message, f"add another zone of {place.region}")


def shared_folder(target: Target, code: str, service: str, request: PlanRequest) -> Iterator[Finding]:
    """The remark that Slipway creates a file system if the plan names none, because the nodes share no folder."""
    if not request.storage.lustre_gib:
        message = (
            f"{service} nodes have no shared file system: the plan creates and prices FSx for Lustre of"
            f" {target.shared_gib(0):,} GiB"
        )
        yield info(code, "storage.lustre_gib", message, "set storage.lustre_gib for a larger file system")


def _alternative_type(facts: InstanceType, instances: Mapping[str, InstanceType]) -> str:
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


def training_plan_refusals(
    bought: TrainingPlanReference | None, place: Place, *, path: str = "target.nodes"
) -> Iterator[Finding]:
    """A training plan (None before it is bought) that is elsewhere or too small; `path` sets the instances."""
    if bought is not None and bought.region != place.region:
        message = f"{bought.arn} is in {bought.region}, but the plan file is for {place.region}"
        hint = f"set target.region to {bought.region}"
        yield error("training-plan-region", "purchase.training_plan.arn", message, hint)
    key, allowed = "purchase.training_plan.count", ", ".join(str(count) for count in TRAINING_PLAN_COUNTS)
    count = None if bought is None else bought.count
    if count is not None and count not in TRAINING_PLAN_COUNTS:
        message = f"training plans have {allowed} instances, got {count}"
        yield error("training-plan-size", key, message, "set it to the number that the training plan has")
    elif count is None and place.nodes not in TRAINING_PLAN_COUNTS:
        message = f"training plans have {allowed} instances, got {place.nodes}"
        hint = f"set one of these numbers, or set {key} if the training plan has more instances than that"
        yield error("training-plan-size", path, message, hint)
    elif count is not None and place.nodes > count:
        message = f"{number_of(place.nodes, 'instance')} requested, but the training plan has {count}"
        yield error("training-plan-count", path, message, f"set {path} to at most {count}")
