"""The state of a read-back: the plan, the contents of the stacks, and the facts that agree so far."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from launcher.aws.session import Session
from launcher.aws.stacks import StackResource, StackState
from launcher.model.endpoint import Endpoint
from launcher.model.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue of a running cluster."""

    name: str
    instance_type: str
    capacity_type: str
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """A running cluster as its scheduler describes it: its queues, with instance type, count and way of buying."""

    name: str
    queues: tuple[QueueState, ...]


@dataclass(slots=True)
class Checks:
    """Gathers what agrees and what does not."""

    agreed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def holds(self, what: str, fact: object) -> None:
        """Hold one fact that has to be so."""
        self.equal(what, expected=True, got=bool(fact))

    def equal(self, what: str, expected: object, got: object) -> None:
        """Hold one fact against the plan."""
        if expected == got:
            self.agreed.append(f"{what}: {word(got)}")
        else:
            self.wrong.append(f"{what}: planned {word(expected)}, found {word(got)}")


def word(value: object) -> str:
    """A fact as a report says it.

    >>> word(True), word({"Key": "slipway"}), word(frozenset(("b", "a"))), word(frozenset())
    ('yes', 'Key slipway', 'a, b', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items()) or "none"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, set | frozenset | list):
        return ", ".join(sorted(map(word, value))) or "none"
    if isinstance(value, tuple):
        return " ".join(map(word, value))
    return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One deployment being read back.

    `zone` is the availability zone id of the plan's machines; `usd_per_hour` the quoted rate of all its nodes;
    `deployed_now` says whether the plan was deployed just now: a cluster that existed before may carry another's digest
    and rate. `main` is the stack of the cluster, or of the endpoint. `cluster` asks a cluster's scheduler what it runs,
    None where nothing answers that. `endpoint` is what was decided of a serving plan's endpoint; None for a cluster.
    """

    plan: Plan
    session: Session
    zone: str | None
    usd_per_hour: Decimal | None
    deployed_now: bool
    main: StackState
    found: tuple[StackResource, ...]
    cluster: Callable[[str], ClusterState] | None
    endpoint: Endpoint | None = None
    checks: Checks = field(default_factory=Checks)

    def ids(self, type_: str) -> tuple[str, ...]:
        """The physical ids of all resources of a type."""
        return tuple(resource.physical_id for resource in self.found if resource.type == type_)

    @property
    def account(self) -> str:
        """The account's id, out of the stack's ARN."""
        return self.main.id.split(":")[4]


Reader: TypeAlias = tuple[Callable[[Reading], None], tuple[str, ...]]
Readers: TypeAlias = tuple[Reader, ...]
"""What reads which types of resources back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Instances of one type; SageMaker bills `managed` ones, `nodes` have the quoted rate, `with_jobs` only jobs."""

    type: str
    count: int
    managed: bool = False
    nodes: bool = False
    with_jobs: bool = False


Holds: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[Machines]]
"""The machines of a resource, by its properties and by all resources of its template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readback:
    """The resources of a target's stacks: what reads each type back, and what machines those that hold some have."""

    readers: Readers
    machines: Mapping[str, Holds] = field(default_factory=dict)
