"""A look at a running job: each of its nodes, its chips at this moment, its trainer's last report, its dollars."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from launcher.model.chip_use import QUERY, WITHOUT, parse_chip_use
from launcher.model.errors import SlipwayError
from launcher.records.node_look import NodeNow
from launcher.records.run_folder import JOB_FOLDER, METRICS, RunFolder
from launcher.records.run_state import RunState
from launcher.records.stored_quote import QUOTE_FILE, stored_quote
from launcher.submit.jobs import JobNodes
from launcher.workflow.cluster.job_connection import connect_job
from launcher.workflow.run.meter import last_points
from launcher.workflow.run.status import run_state

AT_ONCE, MAX_NODES = 8, 64
"""Nodes that are asked at the same time, and in all: a step of Slurm, or an exec of Kubernetes, on each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobNow:
    """A job at a moment. `step_s` are the seconds of a step over the trainer's last reports."""

    state: RunState
    as_of: datetime
    nodes: tuple[NodeNow, ...]
    step_s: float | None
    usd_per_hour: Decimal | None


def look(name: str, folder: RunFolder, environment: Mapping[str, str]) -> JobNow:
    """The job of a run as it is now.

    Raises:
        SchedulerError: its scheduler does not answer.
    """
    state = run_state(name, folder, environment)
    points, _ = last_points(folder.path / JOB_FOLDER / METRICS)
    step_s = None
    if len(points) > 1 and points[-1].step > points[0].step:
        step_s = (points[-1].seconds - points[0].seconds) / (points[-1].step - points[0].step)
    return JobNow(
        state=state,
        as_of=datetime.now(UTC),
        nodes=_nodes(state, environment),
        step_s=step_s,
        usd_per_hour=stored_quote(folder).usd_per_hour if (folder.path / QUOTE_FILE).is_file() else None,
    )


def _nodes(state: RunState, environment: Mapping[str, str]) -> tuple[NodeNow, ...]:
    submission = state.submission
    if submission is None or submission.job is None or state.facts is None or not state.facts.nodes:
        return ()
    try:
        with closing(connect_job(submission, environment)) as connection:
            nodes = connection.source.nodes(submission.submitted_job)
            names = nodes.names[:MAX_NODES]
            with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
                return tuple(pool.map(lambda name: _node(nodes, name), names))
    except SlipwayError as problem:
        return tuple(NodeNow(name=name, chips=None, unknown=problem.message) for name in state.facts.nodes)


def _node(nodes: JobNodes, name: str) -> NodeNow:
    try:
        use = parse_chip_use(nodes.read(name, QUERY))
    except (SlipwayError, OSError) as problem:
        reason = str(getattr(problem, "message", problem))
        return NodeNow(name=name, chips=None, unknown=f"{name} has {WITHOUT}" if WITHOUT in reason else reason)
    return NodeNow(name=name, chips=use, unknown="" if use is not None else f"{name} reports no chip")
