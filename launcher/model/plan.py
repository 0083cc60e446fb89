"""A resolved plan: every choice is decided, and the plan has a digest."""

from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.record import record
from launcher.model.request import PlanRequest

if TYPE_CHECKING:
    from hashlib import _Hash as Hash

SHORT_ID = 6
"""Number of the digest's letters in a candidate's short id; more only where two would be equal."""


@record
class Place:
    """Target, type, region and purchase option, without prices: the input of the infrastructure."""

    target: TargetKind
    # Empty for Bedrock, which has none.
    instance_type: str
    nodes: int
    # AWS ids: "us-east-2", "use2-az1". No zone: the first one that offers the type.
    region: str
    az_id: str | None
    option: PurchaseOption
    # The commitment; None for options without one.
    plan_kind: SavingsPlanKind | None = None
    term_years: int | None = None

    @property
    def on_demand(self) -> "Place":
        """The same instances, bought on demand."""
        return Place(
            target=self.target,
            instance_type=self.instance_type,
            nodes=self.nodes,
            region=self.region,
            az_id=self.az_id,
            option=PurchaseOption.ON_DEMAND,
        )


@record(slots=False)
class Plan:
    """A request with its place. `text` is its canonical JSON, without prices and times."""

    request: PlanRequest
    place: Place
    text: str
    # "" where it was not computed before.
    known_digest: str = field(default="", compare=False, repr=False)

    @property
    def digest(self) -> str:
        """The SHA-256 of the text."""
        return self.known_digest or self._digest

    @cached_property
    def _digest(self) -> str:
        return hash_of(self.text).hexdigest()

    @property
    def name(self) -> str:
        """The plan's name."""
        return self.request.name

    @property
    def cluster_name(self) -> str:
        """The cluster's name: the existing cluster's, or the plan's own."""
        return self.request.target.cluster or self.request.name


def hash_of(text: str) -> "Hash":
    """The SHA-256 of the canonical JSON of a plan, or of its beginning."""
    from hashlib import sha256  # noqa: PLC0415 - it loads OpenSSL, and a table of plans shows no digest

    return sha256(text.encode())
