"""The deployed cluster of each training target, by its kind; its module is loaded when it is first asked for."""

from launcher.model.enums import TargetKind
from launcher.model.plan import Plan
from launcher.workflow.cluster.deployed import DeployedCluster, DeployedStacks


def cluster_of(plan: Plan) -> DeployedCluster:
    """The deployed cluster of a plan's target."""
    return cluster_at(plan.place.target)


def stacks_of(kind: TargetKind) -> DeployedStacks:
    """The deployed stacks of a target."""
    if kind is TargetKind.SAGEMAKER_ENDPOINT:
        from launcher.targets.sagemaker_endpoint.stacks import EndpointStacks

        return EndpointStacks()
    return cluster_at(kind)


def cluster_at(kind: str) -> DeployedCluster:  # noqa: PLR0911 - one for each kind
    """The deployed cluster of a training target.

    Raises:
        ValueError: the target runs no jobs.
    """
    match TargetKind(kind):
        case TargetKind.PARALLELCLUSTER:
            from launcher.targets.parallelcluster.cluster import DeployedParallelCluster

            return DeployedParallelCluster()
        case TargetKind.HYPERPOD_SLURM:
            from launcher.targets.hyperpod_slurm.cluster import HyperPodSlurmCluster

            return HyperPodSlurmCluster()
        case TargetKind.EKS:
            from launcher.targets.eks.cluster import EksCluster

            return EksCluster()
        case TargetKind.HYPERPOD_EKS:
            from launcher.targets.hyperpod_eks.cluster import HyperPodEksCluster

            return HyperPodEksCluster()
        case TargetKind.SAGEMAKER_TRAINING:
            from launcher.targets.sagemaker_training.cluster import SageMakerTrainingCluster

            return SageMakerTrainingCluster()
        case TargetKind.PCS:
            from launcher.targets.pcs.cluster import PcsCluster

            return PcsCluster()
        case TargetKind.EC2:
            from launcher.targets.ec2.cluster import InstancesCluster

            return InstancesCluster()
        case TargetKind.SAGEMAKER_ENDPOINT:
            raise ValueError(f"{kind} runs no jobs")
