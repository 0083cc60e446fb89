"""What a resource consists of, before it is priced: instances, volumes, and items of the bill."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from launcher.model.record import record
from launcher.pricing.template.values import Reference, Resource, Template, Unknown

HOSTING, TRAINING, CLUSTER, STUDIO = "hosting", "training", "cluster", "studio"
"""SageMaker's billing components (catalog.COMPONENTS)."""
ON_DEMAND, SPOT, BLOCK, PLAN = "on-demand", "spot", "capacity-block", "training-plan"


@record
class Item:
    """A part with a price in bill_items.csv, in units per resource; `count` and `most` are the resources."""

    item: str
    name: str
    group: str
    each: float = 1.0
    count: float = 1.0
    most: float | None = None
    """None: as many as `count`."""
    note: str = ""


@record
class Instances:
    """Instances: of one type, or of one of several types, whose dearest counts as the largest cost."""

    types: tuple[str, ...]
    count: float
    most: float
    name: str = ""
    """The group, variant or queue within the resource."""
    market: str = ON_DEMAND
    component: str = ""
    """SageMaker's billing component; empty: EC2."""
    note: str = ""


@record
class Missing:
    """A part that is billed, and cannot be priced."""

    name: str
    group: str
    reason: str


Part: TypeAlias = Item | Instances | Missing
Reader: TypeAlias = Callable[[Resource, Template], Iterable[Part]]
"""Returns the parts of a resource."""


def mapping(value: Any) -> Mapping[str, Any]:
    """A mapping of a template, an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """The mappings of a list of a template."""
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def number(value: Any, otherwise: float | None = None) -> float | None:
    """A number of a template, which may be text; None for a value that is not known."""
    if value is None:
        return otherwise
    try:
        known = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None
    except ValueError:
        return None
    return known if known is not None and 0 <= known <= 1e9 else None  # noqa: PLR2004 - what no template asks for


def why_unknown(value: Any, what: str) -> str:
    """Why a value of a template is not usable."""
    if isinstance(value, Unknown):
        return f"{what}: {value.reason}"
    if isinstance(value, Reference):
        return f"{what} is an attribute of {value.logical_id}, known at the deployment only"
    return f"{what} is missing" if value is None else f"{what} is not understood"
