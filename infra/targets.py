"""The builder of a target's stacks, by its kind; its module is loaded when it is first asked for."""

from collections.abc import Mapping
from typing import Protocol

from constructs import Construct

from infra.parts.limits import Limits
from launcher.catalog.load import Catalog
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.targets.registry import TARGETS, target_of


class Builder(Protocol):
    """A module of infra/stacks that builds a target."""

    def findings(self, plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
        """Every reason why a plan cannot be built; empty if it can."""
        ...

    def build(
        self,
        scope: Construct,
        *,
        plan: Plan,
        catalog: Catalog,
        account: str | None,
        tags: Mapping[str, str],
        limits: Limits,
    ) -> None:
        """Add a plan's stacks to an app, or to any other construct."""
        ...


def builder_of(kind: TargetKind) -> Builder:  # noqa: PLR0911 - one for each kind
    """The builder of a target's stacks.

    Raises:
        ImpossibleError: this version has no stacks for the target.
    """
    if not target_of(kind).deployed:
        built = ", ".join(kind for kind, facts in TARGETS.items() if facts.deployed)
        message = f"{kind} cannot be built from these stacks, which build {built}"
        raise ImpossibleError(f"nothing builds {kind}", findings=[error("target-not-built", "target.kind", message)])
    match kind:
        case TargetKind.PARALLELCLUSTER:
            from infra.stacks import parallelcluster

            return parallelcluster
        case TargetKind.HYPERPOD_SLURM:
            from infra.stacks import hyperpod_slurm

            return hyperpod_slurm
        case TargetKind.SAGEMAKER_ENDPOINT:
            from infra.stacks import sagemaker_endpoint

            return sagemaker_endpoint
        case TargetKind.EKS:
            from infra.stacks import eks

            return eks
        case TargetKind.HYPERPOD_EKS:
            from infra.stacks import hyperpod_eks

            return hyperpod_eks
        case TargetKind.SAGEMAKER_TRAINING:
            from infra.stacks import sagemaker_training

            return sagemaker_training
        case TargetKind.PCS:
            from infra.stacks import pcs

            return pcs
        case TargetKind.EC2:
            from infra.stacks import ec2

            return ec2
