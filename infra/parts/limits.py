"""What may be spent on a plan, and what its machines cost."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Money, in dollars: the quoted rate of one node-hour and what may be spent; None where it is not known.

    `usd_per_hour_beside` is what the quote has by the hour beside the nodes.
    """

    usd_per_node_hour: Decimal | None
    max_usd: Decimal | None
    usd_per_hour_beside: Decimal = Decimal(0)
