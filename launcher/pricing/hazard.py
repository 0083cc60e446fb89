"""The interruption rate of spot: a wide range, because the sources differ by orders of magnitude."""

import math
from typing import NamedTuple

from launcher.catalog.market import InterruptionBand
from launcher.model.learned import Learned
from launcher.model.money import Assumption
from launcher.model.units import HOURS_PER_MONTH

MEASURED_PER_NODE_HOUR = (0.06, 0.35, 0.74)
"""Preemptions per instance-hour in measured traces of p3.2xlarge, 2020 to 2023: low, middle, high
(skypilot-org/spot-traces and uclasystem/bamboo, as gathered on 2026-11-20). No trace of H100, A100 or Trainium was
found."""
OPEN_BAND_PERCENT = 25
"""The advisor's highest band has no upper end; it is taken as 25 %, and so is a type the advisor does not list."""
SHARED = 0.92
"""Share of interruptions that hit all instances of a zone within three minutes (skypilot-org/spot-traces): those are
one event for a job; the others hit each node separately."""


class Hazard(NamedTuple):
    """Interruptions of a whole job per hour of running: low, middle, high, with the inputs of the estimate.

    `per_node_h` is the middle rate of one node; `band` the advisor's, None without one; `from_plan` marks a rate from
    the plan file. `learned` is the rate updated by the user's own runs, None without such runs.
    """

    low: float
    mid: float
    high: float
    nodes: int
    per_node_h: float
    band: InterruptionBand | None
    from_plan: bool
    learned: Learned | None = None

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """The hazard as a line of the quote, with its source."""
        line = Assumption(
            name="interruptions of the job by spot",
            value=f"{self.mid:.3g}",
            unit="per hour",
            source="purchase.interruptions_per_node_hour" if self.from_plan else self._origin,
            steps=(*(self.learned.steps if self.learned else ()), *_steps(self.per_node_h, self.nodes)),
        )
        return (line,)

    @property
    def _origin(self) -> str:
        """The measurement; without one, the two sources and their ratio."""
        if self.learned is not None:
            low, high = (rate / job_rate(1.0, self.nodes) for rate in (self.low, self.high))
            return f"{self.learned.source}; {low:.2g} to {high:.2g} per node-hour"
        shown = "no band listed"
        if self.band is not None:
            shown = f"band {self.band.low_percent} to {_percent(self.band)} % a month, {self.band.as_of}"
        low = self.low / job_rate(1.0, self.nodes)
        return (
            f"geometric mean of the Spot Instance Advisor ({shown}: {low:.2g} per node-hour) and traces measured on p3 "
            f"({MEASURED_PER_NODE_HOUR[1]} per node-hour); they differ {MEASURED_PER_NODE_HOUR[1] / low:,.0f}-fold"
        )


def job_rate(per_node_hour: float, nodes: int) -> float:
    """Interruptions of a job of `nodes` per hour, from the rate of one node.

    The shared part hits all nodes together, the rest hits each node separately: rate x (0.92 + 0.08 x nodes).

    >>> round(job_rate(0.1, 1), 4), round(job_rate(0.1, 16), 4)
    (0.1, 0.22)
    """
    return per_node_hour * (SHARED + (1 - SHARED) * nodes)


def hazard(nodes: int, band: InterruptionBand | None, override: float | None, learned: Learned | None = None) -> Hazard:
    """The hazard of a spot job.

    Args:
        nodes: instances in the job, at least 1.
        band: the Spot Instance Advisor's band for the type and region, or None; its upper end counts.
        override: interruptions per node-hour from the plan file, which replace the range.
        learned: interruptions per node-hour in the user's own runs, which replace the assumed rates.
    """
    if override is not None:
        rate = job_rate(override, nodes)
        return Hazard(rate, rate, rate, nodes, override, None, from_plan=True)
    low, middle, high = assumed_rates(band) if learned is None else (learned.low, learned.mid, learned.high)
    least, likely, most = (job_rate(node_rate, nodes) for node_rate in (low, middle, high))
    return Hazard(least, likely, most, nodes, middle, band, from_plan=False, learned=learned)


def assumed_rates(band: InterruptionBand | None) -> tuple[float, float, float]:
    """Assumed interruptions per node-hour without any own runs: low, middle and high."""
    low = -math.log1p(-_percent(band) / 100) / HOURS_PER_MONTH
    return low, math.sqrt(low * MEASURED_PER_NODE_HOUR[1]), MEASURED_PER_NODE_HOUR[2]


def _percent(band: InterruptionBand | None) -> int:
    """The upper end of a band, percent of instances a month."""
    return OPEN_BAND_PERCENT if band is None or band.high_percent is None else band.high_percent


def _steps(per_node_hour: float, nodes: int) -> tuple[str, ...]:
    rate = job_rate(per_node_hour, nodes)
    return (
        f"{per_node_hour:.3g} per node-hour x ({SHARED} + {1 - SHARED:.2f} x {nodes} nodes) = {rate:.3g} per job-hour",
        f"{SHARED:.0%} of interruptions affect a whole zone (skypilot-org/spot-traces)",
    )
