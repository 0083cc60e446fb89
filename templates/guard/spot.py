# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""Current spot prices: what running nodes really cost, and whether the rest of a job still fits its budget.

EC2 bills a spot instance at the current price of its type and zone, which the quote cannot know. The guard counts the
higher of the quoted and the current price. Where the service itself starts the next instance of a job, the guard
compares the job again with its budget, as the launch did (launcher/pricing/gate.py).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state import State

PRODUCT = "Linux/UNIX"
SPOT = "spot"
GO_ON = (
    "To continue: launch again when the price has fallen, or raise {limit}, or set purchase.option to on-demand"
    " in the plan file. The job resumes from its last checkpoint"
)

Node = Mapping[str, Any]


def current_prices(ec2: Any, types: Iterable[str], now: datetime) -> dict[tuple[str, str], float]:
    """Dollars per hour of types by type and zone: with `now` as start, the history is the price in effect.

    Raises:
        ClientError: EC2 refuses.
    """
    pages = ec2.get_paginator("describe_spot_price_history").paginate(
        InstanceTypes=sorted(set(types)), ProductDescriptions=[PRODUCT], StartTime=now
    )
    entries = [entry for page in pages for entry in page["SpotPriceHistory"]]
    entries.sort(key=lambda entry: entry["Timestamp"])
    return {(entry["InstanceType"], entry["AvailabilityZone"]): float(entry["SpotPrice"]) for entry in entries}


def usd_per_node_hour(ec2: Any, nodes: Iterable[Node], quoted: float, now: datetime) -> float:
    """Mean dollars per hour of nodes, each spot node at the higher of the quoted rate and its current price.

    Raises:
        ClientError: EC2 refuses.
    """
    places = [(node["InstanceType"], node["Placement"]["AvailabilityZone"]) for node in nodes if is_spot(node)]
    if not places:
        return quoted
    prices = current_prices(ec2, (instance_type for instance_type, _ in places), now)
    return sum(max(quoted, prices.get(place, 0.0)) for place in places) / len(places)


def is_spot(node: Node) -> bool:
    """Whether EC2 describes an instance as a spot instance."""
    return node.get("InstanceLifecycle") == SPOT


@dataclass(frozen=True)
class JobBudget:
    """The budget of one job: the plan's `budget.max_usd` or its launch's limit, and what the quote has foreseen."""

    usd: float
    # The setting of the limit.
    name: str
    # The high estimate, for all nodes.
    node_hours: float
    nodes: int
    # Dollars per hour of everything else.
    other_usd_per_hour: float

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "JobBudget | None":
        """The budget in a mapping of environment variables; None without one."""
        if "JOB_MAX_USD" not in variables:
            return None
        return cls(
            usd=float(variables["JOB_MAX_USD"]),
            name=variables["JOB_MAX_USD_NAME"],
            node_hours=float(variables["JOB_NODE_HOURS"]),
            nodes=int(variables["NODES"]),
            other_usd_per_hour=float(variables["OTHER_USD_PER_HOUR"]),
        )

    def cost(self, node_hours: float, rate: float) -> float:
        """Dollars of that many node-hours, with everything else."""
        return node_hours * (rate + self.other_usd_per_hour / self.nodes)

    def refusal(self, state: State, quoted: float, rate: float) -> str | None:
        """Why a job's next instance does not start at the rate of one node; None if the job fits.

        At a price up to the quoted one the decision of the launch stands.
        """
        remaining_h = max(0.0, self.node_hours - state.job_node_hours) / self.nodes
        forecast = state.job_usd + self.cost(remaining_h * self.nodes, rate)
        if forecast <= self.usd or (rate <= quoted and state.job_usd <= self.usd):
            return None
        price = f"the spot price is now ${rate:,.2f} an hour, quoted ${quoted:,.2f}"
        if rate <= quoted:
            price = f"a node costs ${rate:,.2f} an hour"
        return (
            f"no further instance of job {state.job} fits the ${self.usd:,.2f} of {self.name}: {price}."
            f" ${state.job_usd:,.2f} are spent, and {remaining_h:,.1f} more hours make ${forecast:,.2f}."
            f" {GO_ON.format(limit=self.name)}"
        )
