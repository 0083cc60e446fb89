"""How often spot takes a job's machines back: an honest range, since the sources differ by orders of magnitude."""

import math
from dataclasses import dataclass

from launcher.catalog.market import InterruptionBand
from launcher.model.money import Assumption

MEASURED_PER_NODE_HOUR = (0.06, 0.35, 0.74)
"""Preemptions per instance-hour in measured traces of p3.2xlarge, 2020 to 2023: low, middle, high
(skypilot-org/spot-traces and uclasystem/bamboo, as gathered on 2026-11-20). No trace of H100, A100 or Trainium was
found."""
OPEN_BAND_PERCENT = 25
"""The advisor's highest band has no upper end; it is taken as 25 %, and so is a type the advisor does not list."""
HOURS_PER_MONTH = 730.0
SHARED = 0.92
"""Share of interruptions that take all instances of a zone within three minutes (skypilot-org/spot-traces): those are
one event for a job, the others come for each node apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Interruptions of a whole job per hour of running: low, middle, high, with where they are from."""

    low: float
    mid: float
    high: float
    assumptions: tuple[Assumption, ...]


def job_rate(per_node_hour: float, nodes: int) -> float:
    """Interruptions of a job of `nodes` per hour, from the rate of one node.

    The shared part strikes all nodes at once, the rest each node apart: rate x (0.92 + 0.08 x nodes).

    >>> round(job_rate(0.1, 1), 4), round(job_rate(0.1, 16), 4)
    (0.1, 0.22)
    """
    return per_node_hour * (SHARED + (1 - SHARED) * nodes)


def hazard(nodes: int, band: InterruptionBand | None, override: float | None) -> Hazard:
    """The hazard of a spot job.

    Args:
        nodes: instances in the job, at least 1.
        band: the Spot Instance Advisor's band for the type and region, or None; its upper end counts.
        override: interruptions per node-hour from the plan file, which replace the range.
    """
    if override is not None:
        rate = job_rate(override, nodes)
        source = "purchase.interruptions_per_node_hour"
        return Hazard(low=rate, mid=rate, high=rate, assumptions=(_assumption(rate, source, _steps(override, nodes)),))
    percent = band.high_percent if band is not None and band.high_percent is not None else OPEN_BAND_PERCENT
    low = -math.log1p(-percent / 100) / HOURS_PER_MONTH
    middle = math.sqrt(low * MEASURED_PER_NODE_HOUR[1])
    shown = "no band listed" if band is None else f"band {band.low_percent} to {percent} % a month, {band.as_of}"
    source = (
        f"geometric mean of the Spot Instance Advisor ({shown}: {low:.2g} per node-hour) and traces measured on p3 "
        f"({MEASURED_PER_NODE_HOUR[1]} per node-hour); they differ {MEASURED_PER_NODE_HOUR[1] / low:,.0f}-fold"
    )
    return Hazard(
        low=job_rate(low, nodes),
        mid=job_rate(middle, nodes),
        high=job_rate(MEASURED_PER_NODE_HOUR[2], nodes),
        assumptions=(_assumption(job_rate(middle, nodes), source, _steps(middle, nodes)),),
    )


def _assumption(rate: float, source: str, steps: tuple[str, ...]) -> Assumption:
    """The hazard as a line of the quote."""
    return Assumption(
        name="interruptions of the job by spot", value=f"{rate:.3g}", unit="per hour", source=source, steps=steps
    )


def _steps(per_node_hour: float, nodes: int) -> tuple[str, ...]:
    """The arithmetic from one node to the job."""
    rate = job_rate(per_node_hour, nodes)
    return (
        f"{per_node_hour:.3g} per node-hour x ({SHARED} + {1 - SHARED:.2f} x {nodes} nodes) = {rate:.3g} per job-hour",
        f"{SHARED:.0%} of interruptions take a whole zone at once (skypilot-org/spot-traces)",
    )
