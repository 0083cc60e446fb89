"""Targets: the facts of each kind of deployment, and where its parts are.

The facts of a kind are in `launcher/targets/<kind>/facts.py`, beside how it is planned, rendered, deployed and read
back. Nothing else asks which kind a plan has: it asks the facts.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache

from launcher.model.enums import EfaLayout, PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.instance_type import InstanceType
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.targets.load import part

CLUSTER, HOSTING, TRAINING = "cluster", "hosting", "training"
"""What SageMaker bills machines as: of HyperPod, of an endpoint, of training jobs (catalog, prices/sagemaker.csv)."""
SLURM, KUBERNETES, TRAINING_JOBS = "slurm", "kubernetes", "sagemaker"
EC2, SAGEMAKER = "ec2.amazonaws.com", "sagemaker.amazonaws.com"
"""The services that nodes take their roles as."""
EC2_PLANS = (SavingsPlanKind.COMPUTE, SavingsPlanKind.EC2_INSTANCE)
SAGEMAKER_PLANS = (SavingsPlanKind.SAGEMAKER,)
"""The Savings Plans that cover instances which EC2 bills, and those which SageMaker does."""
EC2_OPTIONS = (
    PurchaseOption.ON_DEMAND,
    PurchaseOption.SPOT,
    PurchaseOption.CAPACITY_BLOCK,
    PurchaseOption.SAVINGS_PLAN,
    PurchaseOption.RESERVED,
)
SAGEMAKER_OPTIONS = (
    PurchaseOption.ON_DEMAND,
    PurchaseOption.SPOT,
    PurchaseOption.TRAINING_PLAN,
    PurchaseOption.SAVINGS_PLAN,
)
"""Ways of buying either: EC2's commitments and blocks do not reach SageMaker's instances."""


BLOCK_LOST_MINUTES = 30
"""Before a Capacity Block ends, from when on EC2 ends its instances (EC2 user guide, Capacity Blocks for ML)."""


class Runs(StrEnum):
    """What a target runs; the name of its own stack ends in it."""

    TRAINING = "training"
    SERVING = "serving"


class VolumeKey(StrEnum):
    """Who says which key encrypts the root volumes of a target's machines.

    NAMED: the stack, for `storage.kms_key_arn`. DEFAULT: nobody, so that it is EBS's default of the account and region.
    SERVICE: the service in whose account the machines run, by the key that the request names.
    """

    NAMED = "named"
    DEFAULT = "default"
    SERVICE = "service"


@record
class HeadNode:
    """The machine without accelerators that takes a cluster's jobs.

    `composite_alarms` join its `alarms`; all of them are set beside those of the guardrails, and so are its custom
    `metrics`. `dns_zones` are the private hosted zones in which nodes find it and each other.
    """

    name: str
    alarms: int = 0
    composite_alarms: int = 0
    metrics: int = 0
    dns_zones: int = 0


@record
class Guard:
    """What watches a target in the account.

    `module` is the file of templates/guard, `variable` what tells it the name of what it watches. `events` are the
    kinds of event that are announced whatever the plan buys; `spot_notices` says whether EC2's notices of
    interruptions reach the account. `stops` says what it does at the end of the time to live, `idle` what it takes
    for idleness (empty: it stops nothing for idleness), and `metrics_a_look`, `metrics_a_node` how many values it
    asks for at each look; `own_metrics` are those that it reports beside every guard's, `job_metrics` those that its
    nodes report of jobs, which it asks for too; `asks_mb` is the memory of a function that it calls at each look to
    hear what there is to do (0: none). `alone` says that nothing but the guard stops idle nodes, and `trial_hours` what
    the service takes, billed, to try machines before they get jobs: middle and high, assumed where AWS publishes no
    time.
    """

    module: str
    variable: str
    events: tuple[str, ...]
    spot_notices: bool = False
    stops: str = "nodes stop"
    idle: str = ""
    metrics_a_look: int = 0
    metrics_a_node: int = 0
    own_metrics: int = 0
    job_metrics: int = 0
    asks_mb: int = 0
    alone: bool = False
    trial_hours: tuple[float, float] = (0.0, 0.0)


@record
class InstanceTags:
    """The tags by which EC2 finds a target's instances.

    `cluster` is the tag of all of them, and `prefix` with the plan's cluster name is its value. `role` is the tag that
    says what an instance is for; its value is `node` on the instances that run jobs.
    """

    cluster: str
    role: str
    node: str
    prefix: str = "slipway-"


@record
class Fee:
    """A charge of a target's service beside its machines; without a price for it nothing is launched in AWS.

    `key` is its name in `purchase.price_overrides`, `item` the bill's item. Of the unit's quantity `an_hour_up` is
    billed for each hour that the cluster is up, `a_node_hour` for each hour that its nodes run.
    """

    name: str
    key: str
    item: str
    unit: str
    an_hour_up: float = 0.0
    a_node_hour: float = 0.0


def _no_fees(_request: PlanRequest, _nodes: int, _facts: InstanceType) -> tuple[Fee, ...]:
    return ()


@record
class RoleUse:
    """A role that a plan can name in place of a stack's own.

    `key` is its key of `security.roles`, `service` who has to be trusted by it, `needs` the parts of
    permissions/roles.toml that it has to allow; `entered` says that people enter its machines, and `pulls` that they
    pull the image of the plan's job.
    """

    key: str
    service: str
    needs: tuple[str, ...]
    entered: bool = False
    pulls: bool = False


@record
class Target:
    """One kind of deployment.

    `title` is how a message calls it, `short` a table without room. `trains` and `serves` are the ways of buying that
    it takes for either, none where it does not do it; `deployed` is what this version has stacks for, `savings_plans`
    the kinds of Savings Plan that cover its machines. `sagemaker` is what SageMaker bills its machines as, None where
    EC2 does.
    `least_shared_gib` is the size of the file system that it cannot do without, `login_balancer` whether login nodes
    are behind a load balancer, `efa_layout` the layout that addresses are counted by whatever the plan says.
    `logs_sessions` says that sessions on its machines can be logged by a document of the stack's own, and
    `joins_groups` that its machines take security groups that exist beside their own; `volume_key` says who names the
    key of their root volumes, and `starts_volumes` is the service-linked role that starts them with it, which the key's
    own policy has to let in. `resumes_jobs` says that it starts a job again itself when it replaces a node,
    `scheduler` is what takes its jobs, as reports say it, `spot_like_ec2` that its spot instances have no published
    rate and are priced by EC2's, `managed_spot` that AWS publishes a discount for it and no rate; `control_plane` is
    the bill's item of a control plane that the service charges for. `per_job` says that its machines exist for one job,
    in the service's own network unless the plan names a VPC: none idles after the job, and no NAT gateway is made.
    `shared_log` is the log group of the account that its jobs write to, and that no stack owns.
    `planned_for` is the kind of resource that a training plan for it serves, `plan_lost_minutes` how long before the
    plan's end SageMaker takes its instances.
    `instance_tags` are the tags of its instances in EC2, None where they run in SageMaker's account.
    `own_outputs` are outputs of its stack by which a removal knows it; where two kinds fit, it is the one with more.
    `fees` are what its service charges for a number of nodes of a type, `fee_keys` their names in a plan file, and
    `fee_service` a pattern of the service's code in the Price List, which no public source confirms.
    `software` are the keys of what its clusters are made with, by which its announced ends are found; "{os}" and
    "{image}" are the plan's. `policies` name what CloudFormation may do for its stacks beside what it may for all
    (catalog, permissions/).
    `quotas` are the keys of quotas of which each of its clusters takes one (catalog, quotas.csv).
    `person` names further policies of whoever runs Slipway for it (the same, person.toml).
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
    instance_tags: InstanceTags | None = None
    least_shared_gib: int = 0
    login_balancer: bool = False
    efa_layout: EfaLayout | None = None
    logs_sessions: bool = False
    joins_groups: bool = False
    volume_key: VolumeKey = VolumeKey.SERVICE
    starts_volumes: str = ""
    roles: tuple[RoleUse, ...] = ()
    resumes_jobs: bool = False
    scheduler: str = SLURM
    spot_like_ec2: bool = False
    managed_spot: bool = False
    per_job: bool = False
    shared_log: str = ""
    planned_for: str = "hyperpod-cluster"
    # HyperPod's (developer guide, training plans).
    plan_lost_minutes: int = 60
    control_plane: str | None = None
    own_outputs: tuple[str, ...] = ()
    fees: Callable[[PlanRequest, int, InstanceType], tuple[Fee, ...]] = _no_fees
    fee_keys: tuple[str, ...] = ()
    fee_service: str = ""
    policies: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    software: tuple[str, ...] = ()
    short: str = ""

    @property
    def pods(self) -> bool:
        """Whether what it runs are pods of Kubernetes."""
        return self.scheduler == KUBERNETES

    @property
    def image_service(self) -> str:
        """Whose images its jobs run in where the plan names none (catalog, training/images.csv); "" for none."""
        if self.per_job:
            return "sagemaker"
        return "ec2" if self.pods else ""

    @property
    def managed(self) -> bool:
        """Whether its machines run in SageMaker's account: it bills them, their root volumes included."""
        return self.sagemaker is not None

    @property
    def groups_name_themselves(self) -> bool:
        """Whether each further security group has to let all traffic in and out to itself for EFA: of SageMaker's."""
        return self.managed and self.joins_groups

    @property
    def takes_reservations(self) -> bool:
        """Whether EC2's Capacity Blocks and reservations reach its machines."""
        return not self.managed

    def lost_minutes(self, option: PurchaseOption) -> int:
        """How many minutes before the end of what was bought its instances are taken; 0 where they stay until then.

        >>> target_of(TargetKind.SAGEMAKER_TRAINING).lost_minutes(PurchaseOption.TRAINING_PLAN)
        30
        """
        lost = {PurchaseOption.TRAINING_PLAN: self.plan_lost_minutes, PurchaseOption.CAPACITY_BLOCK: BLOCK_LOST_MINUTES}
        return lost.get(option, 0)

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


@cache
def target_of(kind: TargetKind) -> Target:
    """The facts of a kind."""
    return part(kind, "facts", Target)


class _Targets(Mapping[TargetKind, Target]):
    """Every target by its kind, in the order of the kinds; a target's facts are loaded when they are asked for."""

    def __getitem__(self, kind: TargetKind) -> Target:
        return target_of(kind)

    def __iter__(self) -> Iterator[TargetKind]:
        return iter(TargetKind)

    def __len__(self) -> int:
        return len(TargetKind)


TARGETS: Mapping[TargetKind, Target] = _Targets()


def training_targets() -> tuple[TargetKind, ...]:
    """The targets that jobs can be deployed to, in the order in which a plan that leaves the choice takes them.

    >>> [each.value for each in training_targets()]
    ['parallelcluster', 'hyperpod-slurm', 'eks', 'hyperpod-eks', 'sagemaker-training', 'pcs']
    """
    return tuple(kind for kind, target in TARGETS.items() if target.trains and Runs.TRAINING in target.deployed)


def serving_targets() -> tuple[TargetKind, ...]:
    """The targets that a serving plan can be made for; the first is taken where the plan leaves the choice.

    >>> [each.value for each in serving_targets()]
    ['sagemaker-endpoint', 'eks']
    """
    return tuple(kind for kind, target in TARGETS.items() if target.serves)


def taking(option: PurchaseOption, kinds: tuple[TargetKind, ...]) -> TargetKind:
    """The first of some training targets that takes a way of buying; the first of all where none does.

    >>> taking(PurchaseOption.TRAINING_PLAN, training_targets()).value
    'hyperpod-slurm'
    """
    return next((kind for kind in kinds if option in TARGETS[kind].trains), kinds[0])
