"""A short measured run of a plan's own command on each of a few machines."""

from dataclasses import dataclass

from launcher.model.measurement import Measurement
from launcher.model.money import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class Spiked:
    """One measurement, and tokens a second as the fit alone estimates them on these machines.

    `mfu` is what the measured rate makes of the chips' dense bf16 peak, a fraction.
    """

    measurement: Measurement
    mfu: float
    estimated: Range


@dataclass(frozen=True, slots=True, kw_only=True)
class SpikeResult:
    """What was measured, and on which machines nothing was, with the reason."""

    name: str
    measured: tuple[Spiked, ...]
    unmeasured: tuple[tuple[str, str], ...]
    left: tuple[str, ...] = ()
    """Lines of what it made and could not remove: what is still there, what that costs an hour, and the command."""
