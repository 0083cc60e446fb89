"""A short measured run of a plan's own command on several instance types."""

from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.model.record import record


@record
class Spiked:
    """One measurement, and the tokens a second that the fit alone estimates on these nodes; None of samples."""

    measurement: Measurement
    estimated: Range | None


@record
class SpikeResult:
    """The measurements, and the instance types without a measurement, with the reason."""

    name: str
    measured: tuple[Spiked, ...]
    unmeasured: tuple[tuple[str, str], ...]
    left: tuple[str, ...] = ()
    """Resources that the spike created and could not remove: each with its hourly cost, and the delete command."""
