"""AWS Parallel Computing Service: names, sizes and limits shared by rules, templates, bill and sandbox.

Sources: botocore 1.44.5 (pcs, 2023-02-10), the PCS user guide (quotas, Slurm versions, custom settings), templates of
awslabs/awsome-distributed-ai 95b939cd (architectures/aws-pcs) and aws-samples/aws-hpc-recipes 009a29a8 (recipes/pcs).
"""

import re
from collections.abc import Mapping

from launcher.model.eks import Interface
from launcher.model.enums import PurchaseOption
from launcher.model.instance_type import InstanceType
from launcher.model.record import record
from launcher.model.request import PlanRequest

SLURM_VERSION = "25.11"
SLURM_VERSIONS = ("25.05", "25.11", "26.05")
"""Slurm versions of new clusters; 24.11 ended on 2026-05-31."""
BINARIES = f"/opt/aws/pcs/scheduler/slurm-{SLURM_VERSION}/bin"
LOGIN = "login"
"""The group of the login instance, which accepts jobs; the group is in no queue."""
USER = "ubuntu"
MOUNT_PATH = "/fsx"
IMAGE_PARAMETER = "/aws/service/pcs/ami/dlami-base-ubuntu2404/x86_64/latest/ami-id"
"""Names AWS's newest PCS-ready Deep Learning AMI: NVIDIA's driver, CUDA, EFA, Lustre, Slurm; no PyTorch, no Neuron."""
ROOT_DEVICE = "/dev/sda1"
METADATA_HOPS = 4
"""Hop limit of instance metadata, as in AWS's templates."""
ROLE_PATH = "/aws-pcs/"
"""PCS accepts an instance profile whose role has this path, or a name that begins with AWSPCS."""
PCS_CLUSTER_TAG, GROUP_TAG = "aws:pcs:cluster-id", "aws:pcs:compute-node-group-id"
"""PCS's own tags of its instances."""
MAX_GROUPS = MAX_QUEUES = 10
"""Limit of one cluster; not adjustable."""
MAX_CLUSTERS = 5
"""Limit of one region, adjustable; only one cluster at a time may be in creation."""
NAME = re.compile(r"(?!pcs_)[A-Za-z][A-Za-z0-9-]+")
CLUSTER_NAME_LENGTH, NAME_LENGTH = (3, 40), (3, 25)
"""Length limits of a cluster's name, and of a group's or a queue's."""
PURGE_DAYS = 30
"""Days for which accounting retains records."""
PURCHASES: Mapping[PurchaseOption, str] = {
    PurchaseOption.ON_DEMAND: "ONDEMAND",
    PurchaseOption.SPOT: "SPOT",
    PurchaseOption.CAPACITY_BLOCK: "CAPACITY_BLOCK",
    # A commitment changes the bill, not the launch.
    PurchaseOption.SAVINGS_PLAN: "ONDEMAND",
    PurchaseOption.RESERVED: "ONDEMAND",
}
_PRIORITY = (
    *("CalcPeriod", "DecayHalfLife", "FavorSmall", "Flags", "MaxAge", "UsageResetPeriod"),
    *("WeightAge", "WeightAssoc", "WeightFairshare", "WeightJobSize", "WeightPartition", "WeightQOS", "WeightTRES"),
)
CLUSTER_SETTINGS = frozenset(
    (
        *("AccountingStorageEnforce", "AccountingStorageTRES", "AccountingStoreFlags", "AuthAltParameters"),
        *("CliFilterParameters", "CliFilterPlugins", "CommunicationParameters", "DefMemPerCPU", "Epilog"),
        *("EnforcePartLimits", "FairShareDampeningFactor", "FirstJobId", "HealthCheckInterval"),
        *("HealthCheckNodeState", "HealthCheckProgram", "JobRequeue", "LaunchParameters", "Licenses", "MetricsType"),
        *("MinJobAge", "OverTimeLimit", "Prolog", "PrologFlags", "RequeueExit", "RequeueExitHold"),
        *(
            "SchedulerParameters",
            "SelectTypeParameters",
            "SrunPortRange",
            "TaskEpilog",
            "TaskPluginParam",
            "TaskProlog",
        ),
        *("TrackWCKey", "UnkillableStepProgram", "UnkillableStepTimeout"),
        *(f"Preempt{name}" for name in ("ExemptTime", "Mode", "Parameters", "Type")),
        *(f"Priority{name}" for name in _PRIORITY),
    )
)
"""slurm.conf settings that PCS accepts for a cluster (user guide, slurm-custom-settings-cluster); the 13
whose names begin with Priority are those of slurm.conf without its plugins and their parameters."""
GROUP_SETTINGS = frozenset(
    ("CpuSpecList", "Features", "Gres", "MemSpecLimit", "Parameters", "RealMemory", "Sockets", "Weight")
)
"""slurm.conf settings that PCS accepts for a compute node group."""
SETTINGS = (("JobRequeue", "1"), ("RequeueExit", "75"))
"""Settings of this project's clusters: 75 is the agent's exit code for "interrupted, a checkpoint is safe"."""
MOST_STEPS = 3
"""The major versions of Slurm that one update of a cluster goes up (PCS user guide, Updating the scheduler version)."""


@record
class Size:
    """A size of controller: its maximum instances, and maximum jobs, running and waiting."""

    name: str
    nodes: int
    jobs: int


SIZES = (
    Size(name="SMALL", nodes=32, jobs=256),
    Size(name="MEDIUM", nodes=512, jobs=8_192),
    Size(name="LARGE", nodes=2_048, jobs=16_384),
)
"""A cluster's size cannot be changed."""


def slurm_steps(was: str, becomes: str) -> int:
    """The number of major versions from one to another; Slurm has two a year, in May and in November.

    >>> slurm_steps("24.11", "25.11"), slurm_steps("25.11", "25.05")
    (2, -1)
    """
    old, new = (2 * int(year) + (month == "11") for year, _, month in (each.partition(".") for each in (was, becomes)))
    return new - old


def instances_of(request: PlanRequest, nodes: int) -> int:
    """Maximum instances of a plan's cluster: those of each type, and the login node."""
    return nodes * (1 + len(request.target.fallback_types)) + 1


def size_of(request: PlanRequest, nodes: int) -> Size | None:
    """The smallest controller for a plan's instances and runs; None if the largest is too small."""
    train = request.workload.train
    instances, jobs = instances_of(request, nodes), 1 if train is None else train.runs
    return next((size for size in SIZES if instances <= size.nodes and jobs <= size.jobs), None)


def interfaces(facts: InstanceType) -> tuple[Interface, ...]:
    """Every network interface of a type with EFA; empty for a type without EFA, which gets EC2's default interface.

    As AWS's templates have them (add-cng-p5, -p6-b200, -p6-b300.yaml): PCS supports `efa`, not `efa-only`. If
    the first card has no EFA, the other cards have their interface at device index 0.

    >>> from launcher.catalog.load import load
    >>> types = load().instance_types
    >>> [interfaces(types[each])[1] for each in ("p5.48xlarge", "p6-b300.48xlarge")]
    [Interface(card=1, device=1, kind='efa'), Interface(card=1, device=0, kind='efa')]
    """
    if not facts.efa_interfaces:
        return ()
    everywhere = facts.efa_interfaces == facts.network_cards
    first = Interface(0, 0, "efa" if everywhere else "interface")
    return (first, *(Interface(card, int(everywhere), "efa") for card in range(1, facts.network_cards)))


def is_advanced(family: str) -> bool:
    """Whether a family is billed in the advanced tier of node management: P and Trn.

    >>> is_advanced("p6-b200"), is_advanced("trn2"), is_advanced("g6e")
    (True, True, False)
    """
    return re.match(r"(p\d|trn)", family) is not None


def is_own_role(arn: str) -> bool:
    """Whether PCS accepts a role for its instances.

    >>> is_own_role("arn:aws:iam::123456789012:role/aws-pcs/nodes"), is_own_role("arn:aws:iam::123456789012:role/nodes")
    (True, False)
    """
    path, _, name = arn.partition(":role")[2].rpartition("/")
    return f"{path}/".startswith(ROLE_PATH) or name.startswith("AWSPCS")
