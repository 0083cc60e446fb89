"""A target: one kind of deployment, as a class whose attributes are its facts and whose methods are its rules.

The class of a kind is in `launcher/targets/<kind>/target.py`; `launcher/targets/registry.py` finds it. All other code
uses the attributes and methods, and never checks the kind.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import ClassVar

from launcher.model.enums import EfaLayout, PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.sizing import head_node
from launcher.model.update import KeyChange, Properties

CLUSTER, HOSTING, TRAINING = "cluster", "hosting", "training"
"""SageMaker's billing components: of HyperPod, of an endpoint, of training jobs (catalog, prices/sagemaker.csv)."""
SLURM, KUBERNETES, TRAINING_JOBS, INSTANCES = "slurm", "kubernetes", "sagemaker", "ec2"
EC2, SAGEMAKER = "ec2.amazonaws.com", "sagemaker.amazonaws.com"
"""The services that assume the roles of nodes."""

Locations = tuple[tuple[str, str | None], ...]
"""Regions, each with a zone id or with any zone (None)."""
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
    """The instance without accelerators that accepts a cluster's jobs."""

    name: str
    # In addition to those of the guardrails, as are its custom `metrics`; `composite_alarms` join its alarms.
    alarms: int = 0
    composite_alarms: int = 0
    metrics: int = 0
    # The private hosted zones with which nodes find the head node and each other.
    dns_zones: int = 0
    # A head node with a public address uses one of the account's Elastic IP addresses.
    elastic_address: bool = False


@record
class Guard:
    """The guard of a target in the account."""

    # The file of templates/guard, and the variable that names the monitored resource.
    module: str
    variable: str
    # The kinds of event that are announced for every purchase option.
    events: tuple[str, ...]
    # EC2's interruption notices reach the account.
    spot_notices: bool = False
    # The service starts further instances of a job by itself: the guard compares each one with `budget.max_usd`.
    reprices: bool = False
    # Its action at the end of the time to live.
    stops: str = "nodes stop"
    # Its criterion of idleness; empty: it stops nothing for idleness.
    idle: str = ""
    # The numbers of values it requests at each poll, for the cluster and for each node.
    metrics_per_call: int = 0
    metrics_a_node: int = 0
    # Values reported in addition to every guard's.
    own_metrics: int = 0
    # Values that its nodes report for jobs; the guard requests them too.
    job_metrics: int = 0
    # The memory of a function that it calls at each poll to query the work (0: none).
    counter_mb: int = 0
    # Only the guard stops idle nodes.
    alone: bool = False
    # The billed hours in which the service tests nodes before they get jobs: middle and high, assumed if AWS
    # publishes no time.
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
    """A charge of a target's service in addition to its instances; without its price nothing is launched in AWS."""

    name: str
    # Its name in `purchase.price_overrides`.
    key: str
    # The bill's item.
    item: str
    unit: str
    # Units that are billed per hour that the cluster is up.
    an_hour_up: float = 0.0
    # Units that are billed per hour that its nodes run.
    a_node_hour: float = 0.0


@record
class RoleUse:
    """A role that a plan can name instead of a stack's own."""

    # Its key of `security.roles`.
    key: str
    # The service that it must trust.
    service: str
    # The parts of permissions/roles.toml that it must allow.
    needs: tuple[str, ...]
    # Whether users log in to its instances.
    entered: bool = False
    # Whether they pull the image of the plan's job.
    pulls: bool = False
    # Whether SageMaker gives its instances interfaces in the plan's VPC.
    joins_vpc: bool = False


class Target:
    """One kind of deployment: what planning and pricing know of it, with the defaults of most kinds.

    What it writes is a `TargetFiles` (launcher/rendering/target_files.py); its stacks in the account are a
    `DeployedCluster` (launcher/workflow/cluster/deployed.py).
    """

    kind: TargetKind
    # Its name in messages, and in narrow tables.
    title: str
    short: str = ""
    # The plan file below examples/ that pins it.
    example: str

    # The purchase options for jobs and for endpoints; empty if it does not run them.
    trains: tuple[PurchaseOption, ...] = ()
    serves: tuple[PurchaseOption, ...] = ()
    # The workloads that have stacks in this version.
    deployed: tuple[Runs, ...] = ()
    # The kinds of Savings Plan that cover its instances.
    savings_plans: tuple[SavingsPlanKind, ...]
    # SageMaker's billing component; None if EC2 bills the instances.
    sagemaker: str | None = None
    # Its spot instances have no published rate and are priced by EC2's.
    spot_like_ec2: bool = False
    # AWS publishes a discount for its spot instances, and no rate.
    managed_spot: bool = False
    # The bill's item of a control plane that the service charges for.
    control_plane: str | None = None
    # The names of its service's charges (`fees`) in a plan file.
    fee_keys: tuple[str, ...] = ()
    # A pattern of the service's code in the Price List, which no public source confirms.
    fee_service: str = ""
    # The resource kind that its training plans serve, and the minutes before a plan's end when SageMaker takes back
    # the instances: HyperPod's (developer guide, training plans).
    planned_for: str = "hyperpod-cluster"
    plan_lost_minutes: int = 60
    # States of a training plan in which the target accepts it.
    plan_states: tuple[str, ...] = ("Scheduled", "Active")

    # What accepts jobs; the scheduler as named in reports.
    scheduler: str = SLURM
    # The instance without accelerators that accepts jobs.
    head: HeadNode | None = None
    # Its type for a small cluster, if that can be smaller than the pods or the controller of other targets allow.
    smallest_head: str | None = None
    # It restarts a job itself after the loss of a node.
    resumes_jobs: bool = False
    # Its instances exist for one job: none idles after the job.
    per_job: bool = False
    # The service chooses among the plan's types at each start and replacement of a node.
    service_chooses_type: bool = False
    # Its login nodes are behind a load balancer.
    login_balancer: bool = False
    # The size of the file system that it requires.
    min_shared_gib: int = 0
    # The layout for counting addresses, whatever the plan says.
    efa_layout: EfaLayout | None = None
    # Its nodes can have public addresses, and need no NAT gateway then.
    public_nodes: bool = False
    # The services besides S3 of which its nodes need an interface endpoint without a way to the internet; None: its
    # nodes cannot work without one.
    needed_endpoints: tuple[str, ...] | None = None
    # What its nodes need the internet for, if endpoints alone are not enough.
    needs_internet: str = ""
    # A job on one node has EFA too, which it does not use.
    efa_on_one_node: bool = True
    # Its service can encrypt the traffic between nodes.
    encrypts_traffic: bool = False

    # The guard in the account that watches it.
    guard: Guard | None = None
    # The tags of its instances in EC2; None if they run in SageMaker's account.
    instance_tags: InstanceTags | None = None
    # A document of its stack can log sessions on its instances.
    logs_sessions: bool = False
    # Who selects the key of its root volumes, and the service-linked role that starts them with the key, which the
    # key's own policy must allow.
    volume_key: VolumeKey = VolumeKey.SERVICE
    starts_volumes: str = ""
    # The roles that a plan can name instead of its stack's own.
    roles: tuple[RoleUse, ...] = ()
    # The account's log group to which its jobs write, and which no stack owns.
    shared_log: str = ""
    # Outputs of its stack by which a removal recognizes it; if two kinds match, the one with more wins.
    own_outputs: tuple[str, ...] = ()
    # The same outputs by the type of the resource that they identify, for a stack without outputs.
    left_resources: ClassVar[Mapping[str, str]] = {}
    # CloudFormation can remove its stacks as they are; else `slipway down` empties them first.
    removed_by_cdk: bool = True
    # Additional permissions of CloudFormation for its stacks, and of the person who runs Slipway (catalog,
    # permissions/).
    policies: tuple[str, ...] = ()
    person: tuple[str, ...] = ()
    # Keys of quotas of which each of its clusters uses one (catalog, quotas.csv).
    quotas: tuple[str, ...] = ()
    # Keys of quotas that count the nodes of one cluster.
    node_quotas: tuple[str, ...] = ()
    # Resource types that its stacks always contain and that some region lacks (registry.csv).
    registry_types: tuple[str, ...] = ()
    # Keys of its clusters' components, used to find their announced ends; "{os}" and "{image}" are the plan's.
    software: tuple[str, ...] = ()

    def head_instance(self, nodes: int, chosen: str | None) -> str:
        """The instance type of the head node of a new cluster; `chosen` is the one that the plan names."""
        return head_node(nodes, chosen, self.smallest_head)

    def image_parameter(self, facts: InstanceType) -> str | None:
        """The Systems Manager parameter of AWS's image for a type of its nodes; None: a deployment pins no image."""
        return None

    def node_addresses(self, facts: InstanceType, interfaces: int) -> int:
        """The least private addresses of one node with a number of interfaces that have one each."""
        return interfaces

    def fees(self, request: PlanRequest, nodes: int, facts: InstanceType) -> tuple[Fee, ...]:
        """Its service's charges for a number of nodes of a type; none by default."""
        return ()

    def locations(self, request: PlanRequest, option: PurchaseOption, known: Locations) -> Locations:
        """The regions and zones to try, among those that sell the type."""
        return known

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason of its own why a place cannot be built; empty if it can."""
        return ()

    def remarks(self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Unconfirmed facts of a place on it, and costs that the user did not request."""
        return ()

    def key_changes(self, resource_type: str, old: Properties, new: Properties) -> Iterator[KeyChange]:
        """The changed keys of a resource of its stacks that CloudFormation's schema does not judge; none by default."""
        yield from ()

    def head_type(self, resource_type: str, properties: Properties) -> str | None:
        """The instance type of the head node, if a resource of its stacks has one."""
        return None

    @property
    def pods(self) -> bool:
        """Whether the target runs pods on Kubernetes."""
        return self.scheduler == KUBERNETES

    @property
    def in_service_network(self) -> bool:
        """Whether its instances run in the service's own network, unless the plan names a VPC or a closed network."""
        return self.per_job and self.is_managed

    @property
    def image_service(self) -> str:
        """The service whose images its jobs use if the plan names none (catalog, training/images.csv); "" for none."""
        if self.in_service_network:
            return "sagemaker"
        return "ec2" if self.pods else ""

    @property
    def is_managed(self) -> bool:
        """Whether its instances run in SageMaker's account: SageMaker bills them, including their root volumes."""
        return self.sagemaker is not None

    @property
    def groups_name_themselves(self) -> bool:
        """Whether each additional security group must allow all traffic to itself for EFA: on SageMaker's nodes."""
        return self.is_managed and bool(self.trains)

    @property
    def takes_reservations(self) -> bool:
        """Whether EC2's Capacity Blocks and reservations cover its instances."""
        return not self.is_managed

    def lost_minutes(self, option: PurchaseOption) -> int:
        """Minutes before the end of purchased capacity when its instances are taken back; 0 if they stay until the end.

        >>> from launcher.targets.registry import target_of
        >>> target_of(TargetKind.SAGEMAKER_TRAINING).lost_minutes(PurchaseOption.TRAINING_PLAN)
        30
        """
        lost = {PurchaseOption.TRAINING_PLAN: self.plan_lost_minutes, PurchaseOption.CAPACITY_BLOCK: BLOCK_LOST_MINUTES}
        return lost.get(option, 0)

    def billed_name(self, instance_type: str) -> str:
        """The name of a type on the bill.

        >>> from launcher.targets.registry import target_of
        >>> target_of(TargetKind.HYPERPOD_SLURM).billed_name("p5.48xlarge")
        'ml.p5.48xlarge'
        """
        return f"ml.{instance_type}" if self.is_managed else instance_type

    def shared_gib(self, lustre_gib: int) -> int:
        """GiB of the file system that all nodes mount: the plan's, or the minimum of the target; 0: none.

        >>> from launcher.targets.registry import target_of
        >>> target_of(TargetKind.HYPERPOD_SLURM).shared_gib(0), target_of(TargetKind.PARALLELCLUSTER).shared_gib(0)
        (1200, 0)
        """
        return lustre_gib or self.min_shared_gib
