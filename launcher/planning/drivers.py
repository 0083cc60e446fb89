"""Whether a target's default image drives the chip of a type: some chips need a newer driver than the images have."""

from collections.abc import Iterator

from launcher.catalog.drivers import load_drivers
from launcher.catalog.load import Catalog
from launcher.model.enums import Level
from launcher.model.finding import Finding, error, info, warning
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.targets.registry import TARGETS, target_of

PATH = "target.instance_type"


def driver_findings(request: PlanRequest, place: Place, catalog: Catalog) -> Iterator[Finding]:
    """An error if the default image's driver is too old for the chip, a warning if unknown, else a remark."""
    facts = catalog.instance_types.get(place.instance_type)
    drivers = load_drivers()
    wanted = drivers.get(facts.accelerator or "") if facts is not None else None
    if wanted is None or request.target.ami is not None or request.target.cluster is not None:
        return
    least, _ = wanted
    image, note = drivers.get(place.target, (None, ""))
    title = target_of(place.target).title
    needs = f"{place.instance_type} needs NVIDIA driver {least} or later"
    own = f"set target.ami to an image with driver {least}" if not target_of(place.target).in_service_network else ""
    other = ", ".join(kind for kind in TARGETS if kind in drivers and drivers[kind][0] == least)
    hint = f"{own}{', or ' if own else ''}target.kind: {other}"
    if image is None:
        message = f"{needs}, and no source names the driver of the default image of {title}"
        yield warning("driver-unknown", PATH, message, hint)
    elif image < (least or 0):
        message = f"{needs}; the default image of {title} has driver {image} ({note})"
        yield error("driver-too-old", PATH, message, hint)
    else:
        yield info("driver", PATH, f"{needs}; the default image of {title} has it ({note})")


def driver_refusals(request: PlanRequest, place: Place, catalog: Catalog) -> Iterator[Finding]:
    """Only the errors."""
    return (found for found in driver_findings(request, place, catalog) if found.level is Level.ERROR)


def driver_remarks(request: PlanRequest, place: Place, catalog: Catalog) -> Iterator[Finding]:
    """Only warnings and remarks."""
    return (found for found in driver_findings(request, place, catalog) if found.level is not Level.ERROR)
