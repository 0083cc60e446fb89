"""HyperPod with Slurm: names and sizes shared by the templates, the checks and the bill."""

from launcher.model.enums import PurchaseOption
from launcher.model.instance_type import InstanceType

MOUNT_PATH = "/fsx"
USER = "ubuntu"
"""The user that owns the jobs, in HyperPod's images."""
SHARED_HOME = f"{MOUNT_PATH}/{USER}"
"""The folder of this user's jobs, which on_create.sh creates: home folders of HyperPod's nodes are not shared."""
CONTROLLER, LOGIN, WORKERS = "controller", "login", "workers"
"""The instance groups of a cluster."""
GOVERNANCE_TYPES = ("AWS::SageMaker::ClusterSchedulerConfig", "AWS::SageMaker::ComputeQuota")
"""The resource types of task governance."""
JOBS_METRIC = "QueuedJobs"
"""Custom metric of the controller: jobs in Slurm's queue (templates/hyperpod/on_create.sh.j2)."""
TRAINING_PLAN_COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Allowed instance counts of a SageMaker training plan (a study with read-only calls, 2026-10-04, of the developer
guide's training plans)."""
CHECKING = "DeepHealthCheckInProgress"
"""The state of an instance whose deep health checks run (botocore 1.44.5, sagemaker, ClusterInstanceStatus)."""
CHECK_MINUTES = (53, 112)
"""Shortest and longest deep health checks: hardware 1 to 2 minutes, DCGM 45 to 90, EFA 2 to 5, NCCL 5 to 15 (SageMaker
developer guide, deep health checks of Slurm clusters, read 2026-11-29)."""
ADDED_A_CALL = 50
"""Instances of a group that one BatchAddClusterNodes adds (SageMaker API reference)."""


def replaces_failed_starts(option: PurchaseOption, *, pods: bool, keyed: bool) -> bool:
    """Whether a cluster has `NodeProvisioningMode: Continuous`: always with EKS (`pods`), with Slurm if AWS needs it.

    HyperPod needs the mode for spot, and for root volumes with a key of the account (`keyed`; developer guide,
    "Customer managed AWS KMS key encryption for SageMaker HyperPod", read 2026-11-29).
    """
    return pods or keyed or option is PurchaseOption.SPOT


def ml_name(instance_type: str) -> str:
    """The name of a type in SageMaker.

    >>> ml_name("p5.48xlarge")
    'ml.p5.48xlarge'
    """
    return f"ml.{instance_type}"


def deep_health_checks(facts: InstanceType, *, nodes: int) -> tuple[str, ...]:
    """The checks that a type's instances pass before they get jobs: of the chips, and of EFA between instances.

    The second is the service's cluster-level check: it needs a second instance (developer guide, deep
    health checks of Slurm clusters, 2026-11). The API's third, MultiNodeTrainingValidation, is unknown to
    CloudFormation's schema (aws-cdk-lib 2.275.0).
    """
    if facts.accelerator is None:
        return ()
    together = facts.efa_interfaces > 0 and nodes > 1
    return ("InstanceStress", "InstanceConnectivity") if together else ("InstanceStress",)
