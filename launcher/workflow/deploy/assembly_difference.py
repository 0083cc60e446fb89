"""An assembly compared with the stacks that exist."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.agent import safe_json
from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.updates import load_replacing
from launcher.cdk.commands import Assembly
from launcher.cdk.difference import (
    ResourceChange,
    StackChange,
    stack_change,
)
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.tags import PLAN_TAG
from launcher.model.update import KeyChange
from launcher.rendering.cluster import owner_in
from launcher.targets.registry import target_of
from launcher.workflow.cluster.readback.training import COMPLETE

IN_PROGRESS = "_IN_PROGRESS"


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyDifference:
    """An assembly compared with the existing stacks.

    `states` are the states of its stacks, `before` and `after` their templates. `unasked` is the reason if AWS was not
    called: then every resource counts as new.
    """

    states: Mapping[str, StackState | None]
    before: Mapping[str, Mapping[str, Any]]
    after: Mapping[str, Mapping[str, Any]]
    stacks: tuple[StackChange, ...]
    unasked: str | None = None

    @property
    def none(self) -> bool:
        """Whether every stack exists, is complete, and has the same resources."""
        whole = all(state is not None and state.status in COMPLETE for state in self.states.values())
        return whole and all(stack.same for stack in self.stacks)

    @property
    def changes(self) -> Iterator[ResourceChange]:
        """Every resource that changes in existing stacks."""
        return (resource for stack in self.stacks if not stack.new for resource in stack.resources)

    @property
    def keys(self) -> Iterator[KeyChange]:
        """Every key that changes in existing clusters."""
        return (key for change in self.changes for key in change.keys)


def difference_of(assembly: Assembly, session: Session, kind: TargetKind | None = None) -> AssemblyDifference:
    """Read the stacks of an assembly, and return their changes.

    `kind` is the target's kind, None for an endpoint.

    Raises:
        ImpossibleError: the assembly changed after its synthesis.
        ImpossibleError: another deployment of one of the stacks is in progress.
    """
    assembly.refuse_if_changed()
    states = {name: stacks.find(session, name) for name in assembly.stacks}
    refuse_in_progress(states)
    existing = [name for name, state in states.items() if state is not None and state.status not in stacks.NOT_MADE]
    return compare_assembly(assembly, states, {name: stacks.template(session, name) for name in existing}, kind=kind)


def all_new(assembly: Assembly, unasked: str) -> AssemblyDifference:
    """The difference if AWS is not called, with the reason."""
    return compare_assembly(assembly, dict.fromkeys(assembly.stacks), {}, unasked)


def compare_assembly(
    assembly: Assembly,
    states: Mapping[str, StackState | None],
    before: Mapping[str, Mapping[str, Any]],
    unasked: str | None = None,
    *,
    kind: TargetKind | None = None,
) -> AssemblyDifference:
    """An assembly compared with the templates of the existing stacks."""
    after = {name: safe_json.load(path) for name, path in assembly.templates.items()}
    replacing, key_changes = load_replacing(), None if kind is None else target_of(kind).key_changes
    changes = tuple(
        stack_change(name, before.get(name), template, replacing, key_changes) for name, template in after.items()
    )
    return AssemblyDifference(states=states, before=before, after=after, stacks=changes, unasked=unasked)


def refuse_in_progress(states: Mapping[str, StackState | None]) -> None:
    """Refuse if CloudFormation is changing one of the stacks."""
    for name, state in states.items():
        if state is None or not state.status.endswith(IN_PROGRESS) or state.status in stacks.NOT_MADE:
            continue
        facts = [f"since {state.deployed_at:%Y-%m-%d %H:%M} UTC"] if state.deployed_at is not None else []
        facts += [f"plan {state.tags[PLAN_TAG]}"] if PLAN_TAG in state.tags else []
        facts += [f"of {owner}"] if (owner := owner_in(state.tags)) is not None else []
        raise ImpossibleError(
            f"stack {name} is {state.status}{', ' if facts else ''}{', '.join(facts)}: another deployment is in "
            "progress",
            hint="wait until it ends and run this again; nothing was changed",
        )
