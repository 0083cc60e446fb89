"""A short measured run of a plan's own command on several instance types."""

from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.model.record import record


@record
class Spiked:
    """One measurement, and tokens a second as the fit alone estimates them on these machines."""

    measurement: Measurement
    estimated: Range


@record
class SpikeResult:
    """What was measured, and on which machines nothing was, with the reason."""

    name: str
    measured: tuple[Spiked, ...]
    unmeasured: tuple[tuple[str, str], ...]
    left: tuple[str, ...] = ()
    """Lines of what it made and could not remove: what is still there, what that costs an hour, and the command."""
