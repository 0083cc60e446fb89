"""The hours before and after the command of a job: for setup, files and outputs, as in the quote."""

from launcher.model.money import Assumption
from launcher.model.request import PlanRequest
from launcher.model.units import GB_PER_GIB
from launcher.planning.files import is_shared

STORE_GB_PER_S = 1.0
"""Speed from a node to S3 in its region, as for checkpoints (pricing/interruptible.py): an assumption, not measured."""
_NOT_MEASURED = "assumption, not measured"


def hours_around(request: PlanRequest, nodes: int) -> float:
    """Hours of all nodes outside the command: data download, the steps around the command, and output upload."""
    return _data_h(request, nodes) + _steps_h(request) + _outputs_h(request)


def around_assumptions(request: PlanRequest, nodes: int, kept_months: float) -> tuple[Assumption, ...]:
    """The assumptions behind these hours and the stored outputs.

    Args:
        request: the plan.
        nodes: number of nodes that fetch the data.
        kept_months: months for which storage is priced.
    """
    return (*_of_data(request, nodes), *_of_steps(request), *_of_outputs(request, kept_months))


def _of_data(request: PlanRequest, nodes: int) -> tuple[Assumption, ...]:
    sources = request.run.data
    unknown = sum(data_source.gib is None for data_source in sources)
    source = (
        f"{STORE_GB_PER_S:g} GB/s a node ({_NOT_MEASURED}); {unknown} of {len(sources)} without gib, counted as none"
    )
    if any(not is_shared(request, data_source.path) for data_source in sources):
        source += "; a new node fetches them again, not counted"
    hours = f"{_data_h(request, nodes):.3g}"
    return (Assumption(name="data on their way to the nodes", value=hours, unit="h", source=source),) if sources else ()


def _of_steps(request: PlanRequest) -> tuple[Assumption, ...]:
    steps = (*request.run.before, *request.run.after)
    unknown = sum(step.hours is None for step in steps)
    source = f"run.before, run.after; {unknown} of {len(steps)} without hours, counted as none"
    hours = Assumption(
        name="steps before and after the command", value=f"{_steps_h(request):.3g}", unit="h", source=source
    )
    return (hours,) if steps else ()


def _of_outputs(request: PlanRequest, kept_months: float) -> tuple[Assumption, ...]:
    if not request.run.outputs_gib:
        return ()
    speed, sent_h = f"{STORE_GB_PER_S:g} GB/s from the first node ({_NOT_MEASURED})", f"{_outputs_h(request):.3g}"
    return (
        Assumption(name="outputs on their way to the store", value=sent_h, unit="h", source=speed),
        Assumption(name="the outputs stay for", value=f"{kept_months:g}", unit="month", source=_NOT_MEASURED),
    )


def _data_h(request: PlanRequest, nodes: int) -> float:
    """Hours to fetch the data: each node fetches all data, or its share, at the same rate."""
    shares = (nodes if source.shard or is_shared(request, source.path) else 1 for source in request.run.data)
    gib = sum((data_source.gib or 0.0) / share for data_source, share in zip(request.run.data, shares, strict=True))
    return gib * GB_PER_GIB / STORE_GB_PER_S / 3600


def _steps_h(request: PlanRequest) -> float:
    return sum(step.hours or 0.0 for step in (*request.run.before, *request.run.after))


def _outputs_h(request: PlanRequest) -> float:
    return (request.run.outputs_gib or 0.0) * GB_PER_GIB / STORE_GB_PER_S / 3600
