"""The spending limit of a plan, and the rates of its nodes."""

from dataclasses import dataclass
from decimal import Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Money, in dollars: the quoted rate of one node-hour, and the spending limit; None if unknown.

    `max_usd_name` is the setting of the limit, in the plan or of the launch. `other_usd_per_hour` is the quote's
    hourly cost of everything except the nodes, and `job_hours` the quote's high estimate of the job's hours.
    """

    usd_per_node_hour: Decimal | None
    max_usd: Decimal | None
    max_usd_name: str = ""
    other_usd_per_hour: Decimal = Decimal(0)
    job_hours: Decimal | None = None
