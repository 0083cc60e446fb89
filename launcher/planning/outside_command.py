"""The hours before and after the command of a job: for setup, files and outputs, as in the quote."""

from launcher.model.instance_type import InstanceType
from launcher.model.money import Assumption
from launcher.model.request import PlanRequest
from launcher.model.units import GB_PER_GIB
from launcher.planning.files import is_shared

STORE_GB_PER_S = 1.0
"""Speed from a node to S3 in its region, as for checkpoints (pricing/interruptible.py): an assumption, not measured."""
S3_READS_PER_S = 5_500
"""GET requests per second of one partitioned prefix (S3 user guide, optimizing performance), where a job's data lie."""
PART_BYTES = 16 * 1024 * 1024
"""Of the agent's downloads (agent/store/transfers.py; planning does not import it); large files have larger parts."""
_NOT_MEASURED = "assumption, not measured"


def store_gb_per_s(facts: InstanceType | None) -> float:
    """The speed of one node to S3: `STORE_GB_PER_S`, or less where the network of its type is slower for hours."""
    baseline = facts.network_baseline_gbps / 8 if facts is not None else 0.0
    return min(STORE_GB_PER_S, baseline) if baseline else STORE_GB_PER_S


def read_gb_per_s(facts: InstanceType | None, nodes: int) -> float:
    """The speed at which each of so many nodes reads data of one prefix at the same time, in parts of `PART_BYTES`."""
    return min(store_gb_per_s(facts), S3_READS_PER_S * PART_BYTES / 1e9 / nodes)


def hours_outside_command(request: PlanRequest, facts: InstanceType | None, nodes: int) -> float:
    """Hours of all nodes outside the command: data download, the steps around the command, and output upload."""
    return _data_h(request, facts, nodes) + _steps_h(request) + _outputs_h(request, facts)


def outside_command_assumptions(
    request: PlanRequest, facts: InstanceType | None, nodes: int, kept_months: float
) -> tuple[Assumption, ...]:
    """The assumptions behind these hours and the stored outputs.

    Args:
        request: the plan.
        facts: the type of the nodes, for the speed of its network.
        nodes: number of nodes that fetch the data.
        kept_months: months for which storage is priced.
    """
    return (
        *_data_assumptions(request, facts, nodes),
        *_step_assumptions(request),
        *_output_assumptions(request, facts, kept_months),
    )


def _data_assumptions(request: PlanRequest, facts: InstanceType | None, nodes: int) -> tuple[Assumption, ...]:
    sources = request.run.data
    unknown = sum(data_source.gib is None for data_source in sources)
    speed = read_gb_per_s(facts, nodes)
    words = _speed(facts) if speed == store_gb_per_s(facts) else f"{speed:.3g} GB/s (S3's {S3_READS_PER_S:,} reads/s)"
    source = f"{words} a node; {unknown} of {len(sources)} without gib, counted as none"
    if any(not is_shared(request, data_source.path) for data_source in sources):
        source += "; a new node fetches them again, not counted"
    hours = f"{_data_h(request, facts, nodes):.3g}"
    return (Assumption(name="data on their way to the nodes", value=hours, unit="h", source=source),) if sources else ()


def _step_assumptions(request: PlanRequest) -> tuple[Assumption, ...]:
    steps = (*request.run.before, *request.run.after)
    unknown = sum(step.hours is None for step in steps)
    source = f"run.before, run.after; {unknown} of {len(steps)} without hours, counted as none"
    hours = Assumption(
        name="steps before and after the command", value=f"{_steps_h(request):.3g}", unit="h", source=source
    )
    return (hours,) if steps else ()


def _output_assumptions(request: PlanRequest, facts: InstanceType | None, kept_months: float) -> tuple[Assumption, ...]:
    if not request.run.outputs_gib:
        return ()
    speed, sent_h = f"{_speed(facts)} from the first node", f"{_outputs_h(request, facts):.3g}"
    return (
        Assumption(name="outputs on their way to the store", value=sent_h, unit="h", source=speed),
        Assumption(name="the outputs stay for", value=f"{kept_months:g}", unit="month", source=_NOT_MEASURED),
    )


def _speed(facts: InstanceType | None) -> str:
    speed = store_gb_per_s(facts)
    known = _NOT_MEASURED if speed == STORE_GB_PER_S else "baseline bandwidth of the type"
    return f"{speed:.3g} GB/s ({known})"


def _data_h(request: PlanRequest, facts: InstanceType | None, nodes: int) -> float:
    """Hours to fetch the data: each node fetches all data, or its share, at the same rate."""
    shares = (nodes if source.shard or is_shared(request, source.path) else 1 for source in request.run.data)
    gib = sum((data_source.gib or 0.0) / share for data_source, share in zip(request.run.data, shares, strict=True))
    return gib * GB_PER_GIB / read_gb_per_s(facts, nodes) / 3600


def _steps_h(request: PlanRequest) -> float:
    return sum(step.hours or 0.0 for step in (*request.run.before, *request.run.after))


def _outputs_h(request: PlanRequest, facts: InstanceType | None) -> float:
    return (request.run.outputs_gib or 0.0) * GB_PER_GIB / store_gb_per_s(facts) / 3600
