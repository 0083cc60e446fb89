"""What every quote of one command has in common."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property

from launcher.catalog.load import Catalog
from launcher.model.document import PlanBase
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.pricing.bill import Bill
from launcher.pricing.gate import GateRules
from launcher.pricing.hazard import Hazard, hazard


@dataclass(frozen=True, kw_only=True)
class PricingContext:
    """The request, the prices, the moment and the gate's rules."""

    request: PlanRequest
    catalog: Catalog
    now: datetime
    rules: GateRules
    on_demand_usd: dict[Place, Decimal | None] = field(default_factory=dict, compare=False, repr=False)
    """What the request's job comes to on demand, by place: every commitment there is held against the same total."""

    @cached_property
    def base(self) -> PlanBase:
        """The request, as every candidate's plan is made of it."""
        return PlanBase(self.request)

    @cached_property
    def bill(self) -> Bill:
        """The rest of the request's bill, whose lines are worked out once for every region."""
        return Bill(self.request, self.catalog)

    def hazard(self, place: Place) -> Hazard:
        """The spot hazard at a place."""
        band = self.catalog.interruption_band(place.instance_type, place.region)
        return hazard(place.nodes, band, self.request.purchase.interruptions_per_node_hour)
