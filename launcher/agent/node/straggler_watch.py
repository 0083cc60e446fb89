"""Names the nodes that slow a job down: slower than the others by 10 % for 20 minutes, with what that costs.

On the first node only, which knows the rates of all (`rates`, `gathering`).
"""

from collections.abc import Callable, Mapping

from launcher.agent.events import EventLog
from launcher.agent.forecast import CHIPS, HOUR_S, STRAGGLER, STRAGGLER_OVER, WORK, straggler_usd
from launcher.agent.node.forecast_watch import ForecastWatch, Remaining
from launcher.agent.node.gathering import Gathered
from launcher.agent.node.peers import Peers
from launcher.agent.node.spread import NodeRate, RateSpread

SLOWER = 0.10
"""Part by which a step of a slow node takes longer than that of the others."""
HOLDS_S = 1200.0
CHECK_S = 30.0


class StragglerWatch:
    """Compares the nodes; each slow node is logged once an attempt, and once more when it is as fast as the others."""

    def __init__(
        self,
        gathered: Callable[[], Gathered],
        remaining: Callable[[], Remaining | None],
        log: EventLog,
        *,
        usd_per_hour: float | None,
    ) -> None:
        """`usd_per_hour` is the quoted rate of all nodes; None if the job has no quote."""
        self._gathered = gathered
        self._remaining = remaining
        self._log = log
        self._usd_per_hour = usd_per_hour
        self._check_at = 0.0
        self._since: dict[int, float] = {}
        self._named: dict[int, str] = {}

    def poll(self, now: float) -> None:
        """Compare the nodes, if it is time for that."""
        if now < self._check_at:
            return
        self._check_at = now + CHECK_S
        gathered = self._gathered()
        # Its own work is exact; the clock of a chip is a sign, for trainers that do not report it.
        basis, spread = (WORK, gathered.work) if gathered.work.nodes > 1 else (CHIPS, gathered.chips)
        slow = {rate.part: (rate, others) for rate, others in slow_nodes(spread)}
        self._since = {part: self._since.get(part, now) for part in slow}
        for part, (rate, others) in slow.items():
            if part not in self._named and now - self._since[part] >= HOLDS_S:
                self._named[part] = rate.node
                self._name(basis, rate, others)
        for part in self._named.keys() - slow.keys():
            self._log.append(STRAGGLER_OVER, slow_node=self._named.pop(part))

    def _name(self, basis: str, slow: NodeRate, others: float) -> None:
        percent = round((others / slow.rate - 1.0) * 100)
        remaining = self._remaining()
        share = 1.0 - slow.rate / others
        exact = basis == WORK and remaining is not None
        if exact and remaining is not None:
            # The others' work, too, is only a part of a step.
            share = min(1.0, (1.0 / slow.rate - 1.0 / others) / remaining.step_s)
        if basis == WORK:
            figures = f"{1 / slow.rate:.3g} s of its own work a step, the others {1 / others:.3g} s"
        else:
            figures = f"its slowest chip works at {slow.rate:,.0f} MHz, those of the others at {others:,.0f} MHz"
        reason = f"{slow.node} is {percent} % slower than the other nodes for {HOLDS_S / 60:g} minutes: {figures}"
        if remaining is not None and self._usd_per_hour is not None:
            usd = straggler_usd(share, remaining.hours, self._usd_per_hour)
            most = "" if exact else "at most "
            lost_h = share * remaining.hours
            hours = f"{lost_h:.1f} h" if lost_h >= 1 else f"{lost_h * HOUR_S / 60:.0f} min"
            reason += f"; until the end this costs {most}{hours} and ${usd:,.2f}"
        elif self._usd_per_hour is not None:
            # At most: how much of a step is work is not known without the time of a step.
            reason += f"; this costs at most ${straggler_usd(share, 1.0, self._usd_per_hour):,.2f} an hour"
        self._log.append(
            STRAGGLER,
            slow_node=slow.node,
            part=slow.part,
            basis=basis,
            percent=percent,
            share=share,
            at_most=not exact,
            reason=reason,
        )


def watch(
    peers: Peers, forecast: ForecastWatch | None, log: EventLog, quoted: Mapping[str, float] | None
) -> StragglerWatch | None:
    """The comparison of a job's nodes; None on all nodes but the first, and for a single node."""
    if peers.part or peers.alone:
        return None

    def remaining() -> Remaining | None:
        return None if forecast is None else forecast.remaining()

    return StragglerWatch(peers.gather, remaining, log, usd_per_hour=(quoted or {}).get("usd_per_hour"))


def slow_nodes(spread: RateSpread) -> list[tuple[NodeRate, float]]:
    """The nodes whose step takes longer than that of the others by SLOWER, with the median rate of the others."""
    compared = [(rate, spread.median_of_others(rate)) for rate in spread.slowest]
    return [(rate, others) for rate, others in compared if others is not None and others > rate.rate * (1 + SLOWER)]
