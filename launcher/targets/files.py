"""What each training target writes, by its kind; the module of a kind is loaded when it is first asked for."""

from launcher.model.enums import TargetKind
from launcher.rendering.target_files import TargetFiles


def files_of(kind: TargetKind) -> TargetFiles:  # noqa: PLR0911 - one for each kind
    """What a training target writes.

    Raises:
        ValueError: the target runs no jobs.
    """
    match kind:
        case TargetKind.PARALLELCLUSTER:
            from launcher.targets.parallelcluster.files import ParallelClusterFiles

            return ParallelClusterFiles()
        case TargetKind.HYPERPOD_SLURM:
            from launcher.targets.hyperpod_slurm.files import HyperPodSlurmFiles

            return HyperPodSlurmFiles()
        case TargetKind.EKS:
            from launcher.targets.eks.files import EksFiles

            return EksFiles()
        case TargetKind.HYPERPOD_EKS:
            from launcher.targets.hyperpod_eks.files import HyperPodEksFiles

            return HyperPodEksFiles()
        case TargetKind.SAGEMAKER_TRAINING:
            from launcher.targets.sagemaker_training.files import SageMakerTrainingFiles

            return SageMakerTrainingFiles()
        case TargetKind.PCS:
            from launcher.targets.pcs.files import PcsFiles

            return PcsFiles()
        case TargetKind.EC2:
            from launcher.targets.ec2.files import Ec2Files

            return Ec2Files()
        case TargetKind.SAGEMAKER_ENDPOINT:
            raise ValueError(f"{kind} runs no jobs")
