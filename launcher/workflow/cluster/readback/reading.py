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
    """One queue of a running cluster, as its scheduler describes it."""

    name: str
    instance_type: str
    capacity_type: str
    maximum: int


@dataclass(slots=True)
class Checks:
    """Collects the facts that agree with the plan and those that differ."""

    agreed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def holds(self, subject: str, fact: object) -> None:
        """Check one fact that must be true."""
        self.equal(subject, expected=True, got=bool(fact))

    def equal(self, subject: str, expected: object, got: object) -> None:
        """Compare one fact with the plan."""
        if expected == got:
            self.agreed.append(f"{subject}: {fact_text(got)}")
        else:
            self.wrong.append(f"{subject}: planned {fact_text(expected)}, found {fact_text(got)}")


def fact_text(value: object) -> str:
    """A fact in the words of a report.

    >>> fact_text(True), fact_text({"Key": "slipway"}), fact_text(frozenset(("b", "a"))), fact_text(frozenset())
    ('yes', 'Key slipway', 'a, b', 'none')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {item}" for key, item in value.items()) or "none"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, set | frozenset | list):
        return ", ".join(sorted(map(fact_text, value))) or "none"
    if isinstance(value, tuple):
        return " ".join(map(fact_text, value))
    return "none" if value is None else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The state of one deployment's read-back."""

    plan: Plan
    session: Session
    # The availability zone id of the plan's nodes.
    zone: str | None
    # The quoted rate of all its nodes.
    usd_per_hour: Decimal | None
    # The plan was deployed just now; a cluster that existed before may carry another plan's digest and rate.
    deployed_now: bool
    # The stack of the cluster or of the endpoint.
    main: StackState
    resources: tuple[StackResource, ...]
    # Reads the queues from a cluster's scheduler, None if no scheduler can be read.
    queues: Callable[[str], tuple[QueueState, ...]] | None
    # The decided serving endpoint; None for a cluster.
    endpoint: Endpoint | None = None
    # A limit below the plan's budget.max_usd that the stacks were deployed with.
    lower_usd: Decimal | None = None
    checks: Checks = field(default_factory=Checks)

    def ids(self, type_: str) -> tuple[str, ...]:
        """The physical ids of all resources of a type."""
        return tuple(resource.physical_id for resource in self.resources if resource.type == type_)

    @property
    def limit_usd(self) -> Decimal | None:
        """The spending limit of the stacks: the lower one of the plan's and of the command's."""
        limits = (self.lower_usd, self.plan.request.budget.max_usd)
        return min((limit for limit in limits if limit is not None), default=None)

    @property
    def account(self) -> str:
        """The account's id, from the stack's ARN."""
        return self.main.id.split(":")[4]


Reader: TypeAlias = tuple[Callable[[Reading], None], tuple[str, ...]]
Readers: TypeAlias = tuple[Reader, ...]
"""Reader functions, each with the resource types that it reads back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledInstances:
    """Instances of one type."""

    type: str
    count: int
    # Whether SageMaker bills them.
    managed: bool = False
    # Whether they have the quoted rate.
    nodes: bool = False
    # Whether they run with jobs only.
    with_jobs: bool = False
    # The largest number to which an endpoint scales; None for other instances.
    most: int | None = None


ReadInstances: TypeAlias = Callable[[Mapping[str, Any], Mapping[str, Any]], Iterable[BilledInstances]]
"""Returns the instances of a resource, from its properties and all resources of its template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StackVerification:
    """The facts that were read back and agree, and the reason for each type that was not read back."""

    stacks: tuple[StackState, ...]
    verified: tuple[str, ...]
    unread: Mapping[str, str]
