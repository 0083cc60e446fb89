"""What a run taught is kept: in its folder, and in the file that the quotes of this folder are made with."""

from collections.abc import Callable
from pathlib import Path

from launcher.catalog.load import Catalog
from launcher.model.measurement import Measurement
from launcher.records.measurements import FILE, add_measurement, load_measurements, measurement_document
from launcher.records.run_folder import RunFolder
from launcher.workflow.measure.from_run import try_measurement

IN_RUN = "measurement.json"


def keep_measurement(
    name: str, folder: RunFolder, root: Path, catalog: Catalog, say: Callable[[str], None]
) -> Measurement | str:
    """Measure a run that has ended and keep what was found; the measurement, or why there is none.

    One of the sandbox stays in its run folder: it says nothing of the machines.

    Args:
        name: the plan's.
        folder: the run's.
        root: where the file of measurements is.
        catalog: the models.
        say: is told what was kept.
    """
    found = try_measurement(name, folder, catalog)
    if isinstance(found, str):
        return found
    folder.write_json(IN_RUN, measurement_document(found))
    if not found.simulated:
        _add(root / FILE, found, say)
    return found


def _add(path: Path, found: Measurement, say: Callable[[str], None]) -> None:
    """Add a measurement to the file unless that run is in it."""
    known, _ = load_measurements(path)
    if any((each.run, each.measured_at) == (found.run, found.measured_at) for each in known):
        return
    try:
        add_measurement(path, found)
    except OSError as problem:
        say(f"{path.name} cannot be written, and the next quote does not know of this run: {problem}")
    else:
        say(f"measured {found.tokens_per_s.mid:,.0f} tokens/s: kept in {path.name}, the next quote knows of it")
