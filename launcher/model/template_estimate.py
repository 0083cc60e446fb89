"""What the resources of CloudFormation templates cost per hour and month, and what of them has no price."""

from datetime import date, datetime
from decimal import Decimal

from launcher.model.enums import Basis
from launcher.model.money import sum_usd
from launcher.model.record import record


@record
class EstimateLine:
    """One priced or unpriced part of a resource.

    `quantity` is what runs once the stack is deployed, `max_quantity` what it can grow to (groups at their maximum,
    jobs while they run). A missing price is a reason in `unpriced`, and then the dollars are null.
    """

    stack: str
    region: str
    resource: str
    """Its path in the CDK app, or its logical id."""
    type: str
    name: str
    group: str
    """compute, storage, network or other."""
    accelerated: bool
    """Whether the line is instances with accelerators, or of a type that is not known."""
    unit: str
    quantity: float
    max_quantity: float
    unit_price_usd: Decimal | None
    usd_per_hour: Decimal | None
    usd_per_month: Decimal | None
    max_usd_per_hour: Decimal | None
    max_usd_per_month: Decimal | None
    unpriced: str | None
    source: str
    basis: Basis | None
    as_of: date | None
    note: str


@record
class UncountedType:
    """A type of resource that is not in the total, with the reason: billed by use, or unknown to the estimate."""

    type: str
    resources: int
    by_use: bool
    reason: str


@record
class TemplateEstimate:
    """The estimate of an app: all lines, the dearest first, and the types without lines.

    `free` counts resources of types that AWS does not bill.
    """

    as_of: datetime
    source: str
    stacks: tuple[str, ...]
    regions: tuple[str, ...]
    lines: tuple[EstimateLine, ...]
    uncounted: tuple[UncountedType, ...]
    free: int

    @property
    def unpriced_lines(self) -> tuple[EstimateLine, ...]:
        """The lines without a price."""
        return tuple(line for line in self.lines if line.unpriced is not None)

    @property
    def unpriced_accelerators(self) -> tuple[EstimateLine, ...]:
        """The lines without a price that have, or may have, accelerators."""
        return tuple(line for line in self.unpriced_lines if line.accelerated)

    @property
    def incomplete(self) -> bool:
        """Whether a part with an hourly or monthly price may be missing in the totals."""
        return bool(self.unpriced_lines) or any(not kind.by_use for kind in self.uncounted)

    @property
    def usd_per_hour(self) -> Decimal:
        """Dollars per hour once the stacks are deployed."""
        return sum_usd(line.usd_per_hour for line in self.lines)

    @property
    def usd_per_month(self) -> Decimal:
        """The same for 730 hours."""
        return sum_usd(line.usd_per_month for line in self.lines)

    @property
    def max_usd_per_hour(self) -> Decimal:
        """Dollars per hour with every group at its maximum and every job running."""
        return sum_usd(line.max_usd_per_hour for line in self.lines)

    @property
    def max_usd_per_month(self) -> Decimal:
        """The same for 730 hours."""
        return sum_usd(line.max_usd_per_month for line in self.lines)
