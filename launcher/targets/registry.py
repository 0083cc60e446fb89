"""Every target by its kind; the module of a kind is loaded when it is first asked for."""

from collections.abc import Iterator, Mapping
from functools import cache

from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.plan import Place
from launcher.model.target import Runs, Target


@cache
def target_of(kind: TargetKind) -> Target:  # noqa: PLR0911 - one for each kind
    """The target of a kind."""
    match kind:
        case TargetKind.PARALLELCLUSTER:
            from launcher.targets.parallelcluster.target import ParallelCluster

            return ParallelCluster()
        case TargetKind.HYPERPOD_SLURM:
            from launcher.targets.hyperpod_slurm.target import HyperPodSlurm

            return HyperPodSlurm()
        case TargetKind.SAGEMAKER_ENDPOINT:
            from launcher.targets.sagemaker_endpoint.target import SageMakerEndpoint

            return SageMakerEndpoint()
        case TargetKind.EKS:
            from launcher.targets.eks.target import Eks

            return Eks()
        case TargetKind.HYPERPOD_EKS:
            from launcher.targets.hyperpod_eks.target import HyperPodEks

            return HyperPodEks()
        case TargetKind.SAGEMAKER_TRAINING:
            from launcher.targets.sagemaker_training.target import SageMakerTraining

            return SageMakerTraining()
        case TargetKind.PCS:
            from launcher.targets.pcs.target import Pcs

            return Pcs()
        case TargetKind.EC2:
            from launcher.targets.ec2.target import Ec2Instances

            return Ec2Instances()


class _Targets(Mapping[TargetKind, Target]):
    """Every target by its kind, in the order of the kinds."""

    def __getitem__(self, kind: TargetKind) -> Target:
        return target_of(kind)

    def __iter__(self) -> Iterator[TargetKind]:
        return iter(TargetKind)

    def __len__(self) -> int:
        return len(TargetKind)


TARGETS: Mapping[TargetKind, Target] = _Targets()


@cache
def training_targets() -> tuple[TargetKind, ...]:
    """The targets to which jobs can be deployed, in the order in which an open plan tries them.

    >>> [each.value for each in training_targets()]
    ['parallelcluster', 'hyperpod-slurm', 'eks', 'hyperpod-eks', 'sagemaker-training', 'pcs', 'ec2']
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


def billed_name(place: Place) -> str:
    """The name of a place's instances on the bill: with the prefix `ml.` if SageMaker bills them."""
    return target_of(place.target).billed_name(place.instance_type)
