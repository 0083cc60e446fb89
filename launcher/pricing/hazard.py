"""The interruption rate of spot: the Spot Instance Advisor's band of the type in its region, and how far bands move."""

import math
from typing import NamedTuple

from launcher.catalog.market import InterruptionBand
from launcher.model.learned import Learned
from launcher.model.money import Assumption
from launcher.model.units import HOURS_PER_MONTH

WORST_PER_NODE_HOUR = 0.74
"""Preemptions per instance-hour in the worst of the published traces, p3.2xlarge of 2020 to 2023
(skypilot-org/spot-traces and uclasystem/bamboo, as gathered on 2026-11-20). No trace of H100, A100 or Trainium was
found, so it is a stress case with a total of its own, and no part of the estimate without a run."""
STRESS = "if interruptions came as in the worst published trace"
MOVES = 1.31
"""Logarithm by which a band's rate may differ from the job's: of 946 pairs of bands of one type and region, 112 to 265
days apart (2025-06-28 to 2026-03-20), four in five moved by at most this: its 10th and 90th percentile."""
OPEN_BAND_PERCENT = 25
"""The advisor's highest band, above 20 %, has no upper end: its middle is taken as 25 %, and so is that of a type that
the advisor does not list."""
SHARED = 0.92
"""Share of interruptions that hit all instances of a zone within three minutes (skypilot-org/spot-traces): those are
one event for a job; the others hit each node separately."""


class Hazard(NamedTuple):
    """Interruptions of a whole job per hour of running: 10th, 50th, 90th percentile, with the estimate's inputs."""

    low: float
    mid: float
    high: float
    nodes: int
    # The middle rate of one node.
    per_node_h: float
    # The advisor's; None without one.
    band: InterruptionBand | None
    # Whether the rate is from the plan file.
    from_plan: bool
    # The rate updated by the user's own runs; None without such runs.
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
        """The measurement; without one, the advisor's band."""
        low, high = (rate / job_rate(1.0, self.nodes) for rate in (self.low, self.high))
        span = f"{low:.2g} to {high:.2g} per node-hour"
        if self.learned is not None:
            return f"{self.learned.source}; {span}"
        if self.band is None:
            return f"the Spot Instance Advisor lists no band: {OPEN_BAND_PERCENT} % a month is assumed; {span}"
        end = f"{self.band.high_percent} %" if self.band.high_percent is not None else "no upper end"
        return (
            f"Spot Instance Advisor, {self.band.low_percent} to {end} a month on {self.band.as_of}, its middle; bands"
            f" move by {math.exp(MOVES):.1f} x in months: {span}"
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
        band: the Spot Instance Advisor's band for the type and region, or None; its middle counts.
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
    """Assumed interruptions per node-hour without any own runs: 10th, 50th and 90th percentile."""
    middle = -math.log1p(-_percent(band) / 100) / HOURS_PER_MONTH
    return middle * math.exp(-MOVES), middle, middle * math.exp(MOVES)


def worst(nodes: int) -> Hazard:
    """The stress case: the worst published trace."""
    return hazard(nodes, None, WORST_PER_NODE_HOUR)


def _percent(band: InterruptionBand | None) -> float:
    """The middle of a band, percent of instances a month."""
    if band is None or band.high_percent is None:
        return OPEN_BAND_PERCENT
    return (band.low_percent + band.high_percent) / 2


def _steps(per_node_hour: float, nodes: int) -> tuple[str, ...]:
    rate = job_rate(per_node_hour, nodes)
    return (
        f"{per_node_hour:.3g} per node-hour x ({SHARED} + {1 - SHARED:.2f} x {nodes} nodes) = {rate:.3g} per job-hour",
        f"{SHARED:.0%} of interruptions affect a whole zone (skypilot-org/spot-traces)",
    )
