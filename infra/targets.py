"""The builder of a target's stacks: the module of infra/stacks with the target's name, imported on demand."""

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from aws_cdk import App

from infra.parts.limits import Limits
from launcher.catalog.load import Catalog
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Plan
from launcher.model.target import TARGETS, target_of
from launcher.targets.load import folder


class Builder(Protocol):
    """A module of infra/stacks that builds a target."""

    def findings(self, plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
        """Every reason why a plan cannot be built; empty if it can."""
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


def builder_of(kind: TargetKind) -> Builder:
    """The builder of a target's stacks.

    Raises:
        ImpossibleError: this version has no stacks for the target.
    """
    if not target_of(kind).deployed:
        built = ", ".join(kind for kind, facts in TARGETS.items() if facts.deployed)
        message = f"{kind} cannot be built from these stacks, which build {built}"
        raise ImpossibleError(f"nothing builds {kind}", findings=[error("target-not-built", "target.kind", message)])
    return cast("Builder", import_module(f"infra.stacks.{folder(kind)}"))
