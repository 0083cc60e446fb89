"""Targets: what is known of each kind of deployment, one row a kind.

A row says what a target is. How it is planned, rendered, built and reached is in a module of each layer, which the
layer's own `targets` module names by the kind. Nothing else asks which kind a plan has: it asks the row.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from launcher.model.enums import EfaLayout, PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.monitoring import CHART_MEMORY_MB, DNS_ZONES, HEAD_NODE_ALARMS, HEAD_NODE_METRICS, IDLE_METRICS
from launcher.model.record import record
from launcher.model.target_parts import Guard, HeadNode, RoleUse, VolumeKey

CLUSTER, HOSTING = "cluster", "hosting"
"""What SageMaker bills machines as: those of HyperPod, those of an endpoint (catalog, prices/sagemaker.csv)."""


class Runs(StrEnum):
    """What a target runs; the name of its own stack ends in it."""

    TRAINING = "training"
    SERVING = "serving"


@record
class Target:
    """One kind of deployment.

    `title` is how a message calls it. `trains` and `serves` are the ways of buying that it takes for either, none
    where it does not do it; `deployed` is what this version has stacks for, `savings_plans` the kinds of Savings Plan
    that cover its machines. `sagemaker` is what SageMaker bills its machines as, None where EC2 does.
    `least_shared_gib` is the size of the file system that it cannot do without, `login_balancer` whether login nodes
    are behind a load balancer, `efa_layout` the layout that addresses are counted by whatever the plan says.
    `logs_sessions` says that sessions on its machines can be logged by a document of the stack's own, and
    `joins_groups` that its machines take security groups that exist beside their own, `groups_name_themselves` that
    each of these has to let all traffic in and out to itself for EFA; `volume_key` says who names the
    key of their root volumes. `resumes_jobs` says that it starts a job again itself when it replaces a node, `pods`
    that what it runs are pods of Kubernetes, `spot_like_ec2` that its spot instances have no published rate and are
    priced by EC2's; `control_plane` is the item of the bill of a control plane that the service charges for.
    `policies` name what CloudFormation may do for its stacks beside what it may for all (catalog, permissions/).
    `roles` are those that a plan can name instead. `example` is a plan file below examples/ that pins it.
    """

    kind: TargetKind
    title: str
    example: str
    savings_plans: tuple[SavingsPlanKind, ...]
    trains: tuple[PurchaseOption, ...] = ()
    serves: tuple[PurchaseOption, ...] = ()
    deployed: tuple[Runs, ...] = ()
    sagemaker: str | None = None
    head: HeadNode | None = None
    guard: Guard | None = None
    least_shared_gib: int = 0
    login_balancer: bool = False
    efa_layout: EfaLayout | None = None
    logs_sessions: bool = False
    joins_groups: bool = False
    groups_name_themselves: bool = False
    volume_key: VolumeKey = VolumeKey.SERVICE
    roles: tuple[RoleUse, ...] = ()
    resumes_jobs: bool = False
    pods: bool = False
    spot_like_ec2: bool = False
    control_plane: str | None = None
    policies: tuple[str, ...] = ()

    @property
    def managed(self) -> bool:
        """Whether its machines run in SageMaker's account: it bills them, their root volumes included."""
        return self.sagemaker is not None

    @property
    def takes_reservations(self) -> bool:
        """Whether EC2's Capacity Blocks and reservations reach its machines."""
        return not self.managed

    def billed_name(self, instance_type: str) -> str:
        """What the bill calls a type.

        >>> target_of(TargetKind.HYPERPOD_SLURM).billed_name("p5.48xlarge")
        'ml.p5.48xlarge'
        """
        return f"ml.{instance_type}" if self.managed else instance_type

    def shared_gib(self, lustre_gib: int) -> int:
        """GiB of the file system that all machines mount: the plan's, or the least that the target needs; 0: none.

        >>> target_of(TargetKind.HYPERPOD_SLURM).shared_gib(0), target_of(TargetKind.PARALLELCLUSTER).shared_gib(0)
        (1200, 0)
        """
        return lustre_gib or self.least_shared_gib


_EC2, SAGEMAKER = "ec2.amazonaws.com", "sagemaker.amazonaws.com"
_CONTROL_PLANE = RoleUse(key="control_plane", service="eks.amazonaws.com", needs=("control-plane",))
_PODS = RoleUse(key="pods", service="pods.eks.amazonaws.com", needs=("pods", "values"))
_EC2_PLANS = (SavingsPlanKind.COMPUTE, SavingsPlanKind.EC2_INSTANCE)

_ROWS = (
    # The first of those that train is taken where a plan leaves the choice.
    Target(
        kind=TargetKind.PARALLELCLUSTER,
        title="a ParallelCluster",
        example="p5-spot.yaml",
        trains=(
            PurchaseOption.ON_DEMAND,
            PurchaseOption.SPOT,
            PurchaseOption.CAPACITY_BLOCK,
            PurchaseOption.SAVINGS_PLAN,
            PurchaseOption.RESERVED,
        ),
        deployed=(Runs.TRAINING,),
        savings_plans=_EC2_PLANS,
        head=HeadNode(
            name="head node",
            alarms=len(HEAD_NODE_ALARMS),
            composite_alarms=1,
            metrics=HEAD_NODE_METRICS,
            dns_zones=DNS_ZONES,
        ),
        guard=Guard(
            module="guard",
            variable="PARALLELCLUSTER",
            events=("CloudWatch Alarm State Change",),
            spot_notices=True,
            idle="nodes that do nothing",
            metrics_a_node=IDLE_METRICS,
        ),
        login_balancer=True,
        logs_sessions=True,
        joins_groups=True,
        volume_key=VolumeKey.DEFAULT,
        roles=(
            RoleUse(
                key="nodes", service=_EC2, needs=("jobs", "values", "machine-of-parallelcluster", "compute"), pulls=True
            ),
            RoleUse(
                key="head_node",
                service=_EC2,
                needs=("jobs", "values", "machine-of-parallelcluster", "head", "entered"),
                entered=True,
            ),
            RoleUse(
                key="login_nodes", service=_EC2, needs=("machine-of-parallelcluster", "login", "entered"), entered=True
            ),
        ),
        policies=("network", "parallelcluster"),
    ),
    Target(
        kind=TargetKind.HYPERPOD_SLURM,
        title="a HyperPod cluster with Slurm",
        example="hyperpod/trn2-on-demand.yaml",
        # EC2's own commitments and blocks do not reach its instances.
        trains=(
            PurchaseOption.ON_DEMAND,
            PurchaseOption.SPOT,
            PurchaseOption.TRAINING_PLAN,
            PurchaseOption.SAVINGS_PLAN,
        ),
        deployed=(Runs.TRAINING,),
        savings_plans=(SavingsPlanKind.SAGEMAKER,),
        sagemaker=CLUSTER,
        head=HeadNode(name="controller", metrics=1),
        guard=Guard(
            module="hyperpod",
            variable="HYPERPOD",
            events=("SageMaker HyperPod Cluster Node Health Event", "SageMaker HyperPod Cluster State Change"),
            idle="workers without a job in the queue",
            alone=True,
            # Deep health checks.
            trial_hours=(1.0, 2.0),
            metrics_a_look=1,
        ),
        # FSx for Lustre's smallest file system: its machines share no folder of their own.
        least_shared_gib=1200,
        logs_sessions=True,
        joins_groups=True,
        groups_name_themselves=True,
        # Which interfaces it gives its instances is not documented: the layout that takes more addresses is counted.
        efa_layout=EfaLayout.CLASSIC,
        resumes_jobs=True,
        policies=("network", "hyperpod"),
        roles=(
            RoleUse(
                key="nodes",
                service=SAGEMAKER,
                needs=("jobs", "values", "machine-of-hyperpod"),
                entered=True,
                pulls=True,
            ),
        ),
    ),
    Target(
        kind=TargetKind.SAGEMAKER_ENDPOINT,
        title="a SageMaker endpoint",
        example="serve/pinned/llama31-8b-inf2.yaml",
        serves=(PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN),
        deployed=(Runs.SERVING,),
        savings_plans=(SavingsPlanKind.SAGEMAKER,),
        sagemaker=HOSTING,
        policies=("endpoint",),
        roles=(RoleUse(key="nodes", service=SAGEMAKER, needs=("containers",)),),
        guard=Guard(
            module="endpoint",
            variable="ENDPOINT",
            events=("SageMaker Endpoint State Change",),
            stops="the endpoint is deleted",
        ),
    ),
    Target(
        kind=TargetKind.EKS,
        title="pods on an EKS cluster",
        example="serve/pinned/llama31-8b-eks.yaml",
        trains=(
            PurchaseOption.ON_DEMAND,
            PurchaseOption.SPOT,
            PurchaseOption.CAPACITY_BLOCK,
            PurchaseOption.SAVINGS_PLAN,
            PurchaseOption.RESERVED,
        ),
        deployed=(Runs.TRAINING,),
        head=HeadNode(name="system node"),
        control_plane="eks.cluster",
        guard=Guard(
            module="eks",
            variable="EKS",
            events=(),
            spot_notices=True,
            idle="nodes that do nothing",
            metrics_a_node=IDLE_METRICS,
            alone=True,
        ),
        logs_sessions=True,
        joins_groups=True,
        volume_key=VolumeKey.NAMED,
        roles=(
            RoleUse(key="nodes", service=_EC2, needs=("node-of-eks", "images", "entered"), entered=True),
            _CONTROL_PLANE,
            _PODS,
        ),
        policies=("network", "eks"),
        serves=(
            PurchaseOption.ON_DEMAND,
            PurchaseOption.SPOT,
            PurchaseOption.SAVINGS_PLAN,
            PurchaseOption.RESERVED,
        ),
        savings_plans=_EC2_PLANS,
        pods=True,
    ),
    Target(
        kind=TargetKind.HYPERPOD_EKS,
        title="a HyperPod cluster with EKS",
        example="hyperpod-eks/p5en-spot.yaml",
        trains=(
            PurchaseOption.ON_DEMAND,
            PurchaseOption.SPOT,
            PurchaseOption.TRAINING_PLAN,
            PurchaseOption.SAVINGS_PLAN,
        ),
        deployed=(Runs.TRAINING,),
        savings_plans=(SavingsPlanKind.SAGEMAKER,),
        sagemaker=CLUSTER,
        head=HeadNode(name="system node"),
        control_plane="eks.cluster",
        guard=Guard(
            module="hyperpod_eks",
            variable="HYPERPOD_EKS",
            events=("SageMaker HyperPod Cluster Node Health Event", "SageMaker HyperPod Cluster State Change"),
            # EC2 shows nobody its machines: a function in the cluster's network counts what its pods ask for.
            idle="workers without a pod that asks for chips",
            alone=True,
            trial_hours=(1.0, 2.0),
            # It writes the count and reads it back.
            metrics_a_look=2,
            own_metrics=1,
            asks_mb=CHART_MEMORY_MB,
        ),
        spot_like_ec2=True,
        logs_sessions=True,
        joins_groups=True,
        groups_name_themselves=True,
        efa_layout=EfaLayout.CLASSIC,
        resumes_jobs=True,
        policies=("network", "eks", "hyperpod"),
        roles=(
            RoleUse(
                key="nodes",
                service=SAGEMAKER,
                needs=("machine-of-hyperpod", "pods-of-hyperpod", "images"),
                entered=True,
            ),
            _CONTROL_PLANE,
            _PODS,
        ),
        pods=True,
    ),
)

TARGETS: Mapping[TargetKind, Target] = MappingProxyType({each.kind: each for each in _ROWS})
"""Every target, by its kind."""


def target_of(kind: TargetKind) -> Target:
    """The row of a kind."""
    return TARGETS[kind]


def training_targets() -> tuple[TargetKind, ...]:
    """The targets that jobs can be deployed to, in the order in which a plan that leaves the choice takes them.

    >>> [each.value for each in training_targets()]
    ['parallelcluster', 'hyperpod-slurm', 'eks', 'hyperpod-eks']
    """
    return tuple(kind for kind, each in TARGETS.items() if each.trains and Runs.TRAINING in each.deployed)


def serving_targets() -> tuple[TargetKind, ...]:
    """The targets that a serving plan can be made for; the first is taken where the plan leaves the choice.

    >>> [each.value for each in serving_targets()]
    ['sagemaker-endpoint', 'eks']
    """
    return tuple(kind for kind, each in TARGETS.items() if each.serves)


def taking(option: PurchaseOption, kinds: tuple[TargetKind, ...]) -> TargetKind:
    """The first of some training targets that takes a way of buying; the first of all where none does.

    >>> taking(PurchaseOption.TRAINING_PLAN, training_targets()).value
    'hyperpod-slurm'
    """
    return next((each for each in kinds if option in TARGETS[each].trains), kinds[0])
