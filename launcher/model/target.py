"""Targets: the facts of each kind of deployment, and the location of its parts.

The facts of a kind are in `launcher/targets/<kind>/facts.py`, next to the code that plans, renders, deploys and reads
back this kind. All other code uses the facts and never checks the kind.
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
"""SageMaker's billing components: of HyperPod, of an endpoint, of training jobs (catalog, prices/sagemaker.csv)."""
SLURM, KUBERNETES, TRAINING_JOBS = "slurm", "kubernetes", "sagemaker"
EC2, SAGEMAKER = "ec2.amazonaws.com", "sagemaker.amazonaws.com"
"""The services that assume the roles of nodes."""
EC2_PLANS = (SavingsPlanKind.COMPUTE, SavingsPlanKind.EC2_INSTANCE)
SAGEMAKER_PLANS = (SavingsPlanKind.SAGEMAKER,)
"""The Savings Plans that cover instances billed by EC2, and those billed by SageMaker."""
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
"""Purchase options of either: EC2's commitments and blocks do not cover SageMaker's instances."""


BLOCK_LOST_MINUTES = 30
"""Minutes before a Capacity Block's end when EC2 ends its instances (EC2 user guide, Capacity Blocks for ML)."""


class Runs(StrEnum):
    """The workload of a target; the name of its own stack ends with this word."""

    TRAINING = "training"
    SERVING = "serving"


class VolumeKey(StrEnum):
    """Who selects the key that encrypts the root volumes of a target's instances.

    NAMED: the stack, for `storage.kms_key_arn`. DEFAULT: no one, so EBS's default key of account and region applies.
    SERVICE: the service in whose account the instances run, with the key that the request names.
    """

    NAMED = "named"
    DEFAULT = "default"
    SERVICE = "service"


@record
class HeadNode:
    """The instance without accelerators that accepts a cluster's jobs.

    `composite_alarms` join its `alarms`; all of them are in addition to those of the guardrails, as are its custom
    `metrics`. `dns_zones` are the private hosted zones with which nodes find the head node and each other.
    `elastic_address`: a head node with a public address uses one of the account's Elastic IP addresses.
    """

    name: str
    alarms: int = 0
    composite_alarms: int = 0
    metrics: int = 0
    dns_zones: int = 0
    elastic_address: bool = False


@record
class Guard:
    """The guard of a target in the account.

    `module` is the file of templates/guard, `variable` the variable that names the monitored resource. `events` are the
    kinds of event that are announced for every purchase option; `spot_notices` means that EC2's interruption notices
    reach the account. `stops` describes its action at the end of the time to live, `idle` its criterion of idleness
    (empty: it stops nothing for idleness). `metrics_per_call` and `metrics_a_node` are the numbers of values it
    requests at each poll; `own_metrics` are reported in addition to every guard's, `job_metrics` are reported by its
    nodes for jobs, and the guard requests them too. `asks_mb` is the memory of a function that it calls at each poll to
    query the work (0: none). `alone` means that only the guard stops idle nodes. `trial_hours` are the billed hours in
    which the service tests nodes before they get jobs: middle and high, assumed if AWS publishes no time.
    """

    module: str
    variable: str
    events: tuple[str, ...]
    spot_notices: bool = False
    stops: str = "nodes stop"
    idle: str = ""
    metrics_per_call: int = 0
    metrics_a_node: int = 0
    own_metrics: int = 0
    job_metrics: int = 0
    asks_mb: int = 0
    alone: bool = False
    trial_hours: tuple[float, float] = (0.0, 0.0)


@record
class InstanceTags:
    """The EC2 tags that identify a target's instances.

    `cluster` is the tag of all instances; its value is `prefix` plus the plan's cluster name. `role` is the tag with
    the purpose of an instance; its value is `node` on the instances that run jobs.
    """

    cluster: str
    role: str
    node: str
    prefix: str = "slipway-"


@record
class Fee:
    """A charge of a target's service in addition to its instances; without its price nothing is launched in AWS.

    `key` is its name in `purchase.price_overrides`, `item` the bill's item. Per hour that the cluster is up,
    `an_hour_up` units are billed, and per hour that its nodes run, `a_node_hour` units.
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
    """A role that a plan can name instead of a stack's own.

    `key` is its key of `security.roles`, `service` the service that it must trust, `needs` the parts of
    permissions/roles.toml that it must allow; `entered` means that users log in to its instances, and `pulls` that they
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

    `title` is its name in messages, `short` its name in narrow tables. `trains` and `serves` are the supported purchase
    options for either, empty if not supported; `deployed` are the workloads with stacks in this version,
    `savings_plans` the kinds of Savings Plan that cover its instances. `sagemaker` is SageMaker's billing component,
    None if EC2 bills the instances.
    `min_shared_gib` is the size of the file system that it requires, `login_balancer` whether login nodes
    are behind a load balancer, `efa_layout` the layout for counting addresses, regardless of the plan.
    `logs_sessions` means that a document of the stack's own can log sessions on its instances, and
    `joins_groups` that its instances accept existing security groups in addition to their own. `volume_key` defines
    who selects the key of their root volumes; `starts_volumes` is the service-linked role that starts them with the
    key, which the key's own policy must allow. `resumes_jobs` means that it restarts a job itself after a node loss,
    `scheduler` is its scheduler, as named in reports, `spot_like_ec2` that its spot instances have no published
    rate and are priced by EC2's, `managed_spot` that AWS publishes a discount for it and no rate; `control_plane` is
    the bill's item of a control plane that the service charges for. `per_job` means that its instances exist for one
    job, in the service's own network unless the plan names a VPC: none idles after the job; no NAT gateway is created.
    `shared_log` is the account's log group to which its jobs write, and which no stack owns.
    `planned_for` is the resource kind that its training plans serve, `plan_lost_minutes` the minutes before the
    plan's end when SageMaker takes back the instances.
    `instance_tags` are the tags of its instances in EC2, None if they run in SageMaker's account.
    `public_nodes` means that its nodes can have public addresses, and need no NAT gateway then.
    `own_outputs` are outputs of its stack by which a removal recognizes it; if two kinds match, the one with more wins.
    `fees` are its service's charges for a number of nodes of a type, `fee_keys` their names in a plan file, and
    `fee_service` a pattern of the service's code in the Price List, which no public source confirms.
    `software` are the keys of its clusters' components, used to find their announced ends; "{os}" and
    "{image}" are the plan's. `policies` name the additional permissions of CloudFormation for its stacks
    (catalog, permissions/).
    `quotas` are the keys of quotas of which each of its clusters uses one (catalog, quotas.csv).
    `registry_types` are the resource types that its stacks always contain and that some region lacks (registry.csv).
    `person` names additional policies of the user who runs Slipway for it (the same, person.toml).
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
    min_shared_gib: int = 0
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
    public_nodes: bool = False
    fees: Callable[[PlanRequest, int, InstanceType], tuple[Fee, ...]] = _no_fees
    fee_keys: tuple[str, ...] = ()
    fee_service: str = ""
    policies: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    quotas: tuple[str, ...] = ()
    registry_types: tuple[str, ...] = ()
    software: tuple[str, ...] = ()
    short: str = ""

    @property
    def pods(self) -> bool:
        """Whether the target runs pods on Kubernetes."""
        return self.scheduler == KUBERNETES

    @property
    def image_service(self) -> str:
        """The service whose images its jobs use if the plan names none (catalog, training/images.csv); "" for none."""
        if self.per_job:
            return "sagemaker"
        return "ec2" if self.pods else ""

    @property
    def managed(self) -> bool:
        """Whether its instances run in SageMaker's account: SageMaker bills them, including their root volumes."""
        return self.sagemaker is not None

    @property
    def groups_name_themselves(self) -> bool:
        """Whether each additional security group must allow all traffic to itself for EFA: on SageMaker's instances."""
        return self.managed and self.joins_groups

    @property
    def takes_reservations(self) -> bool:
        """Whether EC2's Capacity Blocks and reservations cover its instances."""
        return not self.managed

    def lost_minutes(self, option: PurchaseOption) -> int:
        """Minutes before the end of purchased capacity when its instances are taken back; 0 if they stay until the end.

        >>> target_of(TargetKind.SAGEMAKER_TRAINING).lost_minutes(PurchaseOption.TRAINING_PLAN)
        30
        """
        lost = {PurchaseOption.TRAINING_PLAN: self.plan_lost_minutes, PurchaseOption.CAPACITY_BLOCK: BLOCK_LOST_MINUTES}
        return lost.get(option, 0)

    def billed_name(self, instance_type: str) -> str:
        """The name of a type on the bill.

        >>> target_of(TargetKind.HYPERPOD_SLURM).billed_name("p5.48xlarge")
        'ml.p5.48xlarge'
        """
        return f"ml.{instance_type}" if self.managed else instance_type

    def shared_gib(self, lustre_gib: int) -> int:
        """GiB of the file system that all nodes mount: the plan's, or the minimum of the target; 0: none.

        >>> target_of(TargetKind.HYPERPOD_SLURM).shared_gib(0), target_of(TargetKind.PARALLELCLUSTER).shared_gib(0)
        (1200, 0)
        """
        return lustre_gib or self.min_shared_gib


@cache
def target_of(kind: TargetKind) -> Target:
    """The facts of a kind."""
    return part(kind, "facts", Target)


class _Targets(Mapping[TargetKind, Target]):
    """Every target by its kind, in the order of the kinds; a target's facts are loaded on first use."""

    def __getitem__(self, kind: TargetKind) -> Target:
        return target_of(kind)

    def __iter__(self) -> Iterator[TargetKind]:
        return iter(TargetKind)

    def __len__(self) -> int:
        return len(TargetKind)


TARGETS: Mapping[TargetKind, Target] = _Targets()


def training_targets() -> tuple[TargetKind, ...]:
    """The targets to which jobs can be deployed, in the order in which an open plan tries them.

    >>> [each.value for each in training_targets()]
    ['parallelcluster', 'hyperpod-slurm', 'eks', 'hyperpod-eks', 'sagemaker-training', 'pcs']
    """
    return tuple(kind for kind, target in TARGETS.items() if target.trains and Runs.TRAINING in target.deployed)


def serving_targets() -> tuple[TargetKind, ...]:
    """The targets for serving plans; the first is the default if the plan leaves the choice open.

    >>> [each.value for each in serving_targets()]
    ['sagemaker-endpoint', 'eks']
    """
    return tuple(kind for kind, target in TARGETS.items() if target.serves)


def taking(option: PurchaseOption, kinds: tuple[TargetKind, ...]) -> TargetKind:
    """The first of some training targets that supports a purchase option; the first of all if none does.

    >>> taking(PurchaseOption.TRAINING_PLAN, training_targets()).value
    'hyperpod-slurm'
    """
    return next((kind for kind in kinds if option in TARGETS[kind].trains), kinds[0])
