"""Time to completion of an interruptible job: expectation, and the mean and variance of its losses, in closed form.

The model. Interruptions of the whole job arrive as a Poisson process of rate `hazard` while it runs. Work is done in
segments of `interval` hours, each closed by a checkpoint that stalls the job for `stall` hours and is stored `write`
hours after its start. A notice of `notice` hours precedes each interruption. If a checkpoint can be made and
stored within the notice, the job keeps everything up to the signal and loses the time of that checkpoint (lossless).
If not, the job returns to its last stored checkpoint: it repeats the running segment, and also the one before if the
checkpoint of that one was not stored yet. In both cases the job then waits `restart` hours for new instances,
start-up and the restore; it is not interrupted meanwhile.

Sources: J. W. Young, "A first order approximation to the optimum checkpoint interval", CACM 17(9), 1974; J. T. Daly,
"A higher order estimate of the optimum checkpoint interval for restart dumps", FGCS 22(3), 2006 (the exponential
segment time is his, with the restart outside the failure process). The distribution of a job's hours and dollars is
that of `joint`.
"""

import math
from functools import cached_property

from launcher.model.record import record
from launcher.pricing.joint import NO_LOSSES, Losses
from launcher.pricing.segments import Segments, expected_retries, lost_hours

MIN_RATE = 1e-12
"""Interruptions an hour, one in a hundred million years, below which the rate counts as 0."""


@record(slots=False)
class Interruptible:
    """One job on interruptible instances. All times in hours, `hazard` per hour of running.

    `saves` False: nothing is stored before the end, so the whole job is one segment and no notice helps.
    """

    work: float
    interval: float
    stall: float
    write: float
    hazard: float
    notice: float
    restart: float
    saves: bool = True

    @cached_property
    def lossless(self) -> bool:
        """Whether a checkpoint is stored within the notice, and costs less time than repeating the work."""
        if not self.saves or self.write > self.notice:
            return False
        return self.hazard < MIN_RATE or self._saving_hours <= self._repeating_hours

    @property
    def segment(self) -> float:
        """One interval with its checkpoint's stall, hours."""
        return self.interval + self.stall if self.saves else self.work

    @property
    def segments(self) -> float:
        """Segments in the whole job; the last may be partial."""
        return self.work / self.interval if self.saves else 1.0

    @property
    def running(self) -> float:
        """Running hours without any interruption, stalls included."""
        return self.work + self.segments * self.stall if self.saves else self.work

    @cached_property
    def lag(self) -> float:
        """Hours from the end of a checkpoint's stall until it is stored."""
        return max(0.0, self.write - self.stall) if self.saves else 0.0

    @cached_property
    def _parts(self) -> Segments:
        """The segments that end in a checkpoint, and the last, which ends the job.

        A last segment shorter than the lag ends before the previous checkpoint is stored: the two are merged.
        """
        whole = max(0, math.ceil(self.segments - 1e-9) - 1)
        last = self.running - whole * self.segment
        if whole and last < self.lag:
            joined = min(whole, math.ceil((self.lag - last) / self.segment))
            whole, last = whole - joined, last + joined * self.segment
        return Segments(full=whole, length=self.segment, last=max(0.0, last), rate=self.hazard, lag=self.lag)

    @cached_property
    def expected_interruptions(self) -> float:
        """Expected interruptions until the job is done.

        Lossless: the rate times the running time. Otherwise each segment repeats until it passes and is stored: with
        S its length and L the lag, exp(rate L) (exp(rate S) - 1) times; the last needs no storing.
        """
        return self.hazard * self.running if self.lossless else expected_retries(self._parts)

    @property
    def _saving_hours(self) -> float:
        """Expected hours when every notice is used to save: the running time, and a pause for each interruption."""
        return self.running + self.hazard * self.running * (self.restart + self.write)

    @property
    def _repeating_hours(self) -> float:
        """Expected hours when work is repeated: the time that the interruptions come from, and a restart for each."""
        return expected_retries(self._parts) * (1.0 / self.hazard + self.restart)

    @cached_property
    def expected_hours(self) -> float:
        """Expected hours until the job is done."""
        if self.hazard < MIN_RATE:
            return self.running
        return self._saving_hours if self.lossless else self._repeating_hours

    @property
    def losses(self) -> Losses:
        """The number of interruptions, and what one costs, with their exact mean and variance."""
        events = self.hazard * self.running
        if self.hazard < MIN_RATE or not events:
            return NO_LOSSES
        if self.lossless:
            pause = self.restart + self.write
            return Losses(events, pause, 0.0, pause)
        whole = Losses(events, 1.0, 0.0, self.restart, self.segments, repeated=True)
        mean, variance = lost_hours(self._parts, self.restart)
        one = mean / whole.expected_events
        return whole._replace(
            one=one, variance_of_one=max(0.0, variance / whole.expected_events - one**2 * math.exp(whole.load))
        )
