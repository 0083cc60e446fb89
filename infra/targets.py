"""What builds the stacks of each target, by its kind; a plan loads its own target's part of the CDK and no other."""

from collections.abc import Callable, Mapping
from typing import Protocol

from aws_cdk import App

from infra.parts.limits import Limits
from launcher.catalog.load import Catalog
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan


class Builder(Protocol):
    """A module of infra/stacks that builds a target."""

    def findings(self, plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
        """Why a plan cannot be built; empty when it can."""
        ...

    def build(
        self,
        app: App,
        *,
        plan: Plan,
        catalog: Catalog,
        account: str | None,
        tags: Mapping[str, str],
        limits: Limits,
    ) -> None:
        """Add a plan's stacks to an app."""
        ...


def _parallelcluster() -> Builder:
    from infra.stacks import training

    return training


def _hyperpod_slurm() -> Builder:
    from infra.stacks import hyperpod

    return hyperpod


def _sagemaker_endpoint() -> Builder:
    from infra.stacks import serving

    return serving


def _eks() -> Builder:
    from infra.stacks import eks

    return eks


def _hyperpod_eks() -> Builder:
    from infra.stacks import hyperpod_eks

    return hyperpod_eks


BUILDERS: Mapping[TargetKind, Callable[[], Builder]] = {
    TargetKind.PARALLELCLUSTER: _parallelcluster,
    TargetKind.HYPERPOD_SLURM: _hyperpod_slurm,
    TargetKind.SAGEMAKER_ENDPOINT: _sagemaker_endpoint,
    TargetKind.EKS: _eks,
    TargetKind.HYPERPOD_EKS: _hyperpod_eks,
}
"""What loads the builder of every target that is deployed."""


def builder_of(kind: TargetKind) -> Builder:
    """What builds a target's stacks.

    Raises:
        ImpossibleError: this version has no stacks for it.
    """
    loaded = BUILDERS.get(kind)
    if loaded is None:
        message = f"{kind} is not built from these stacks, which build {', '.join(BUILDERS)}"
        raise ImpossibleError(f"nothing builds {kind}", findings=[error("target-not-built", "target.kind", message)])
    return loaded()
