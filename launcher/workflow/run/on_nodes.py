"""Shells, commands and tunnels on the nodes of a run's job."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from launcher.model.errors import ImpossibleError
from launcher.records.run_folder import RunFolder
from launcher.records.submission import recorded
from launcher.submit.jobs import Nodes
from launcher.workflow.cluster.job_connection import reached
from launcher.workflow.cluster.reach import gone_if_removed
from launcher.workflow.run.submission import find_submission


@contextmanager
def nodes_of(name: str, folder: RunFolder, environment: Mapping[str, str]) -> Iterator[Nodes]:
    """The nodes of a run's job.

    Raises:
        ImpossibleError: the run has no job on a cluster, or the job does not run.
    """
    submission = recorded(folder)
    if submission is None:
        hint = "you cannot enter a launch with its own sandbox; run slipway sandbox start first"
        raise ImpossibleError(f"{name} has no job on a cluster", hint=hint)
    with gone_if_removed(submission, environment), closing(reached(submission, environment)) as way:
        recorded_submission = find_submission(folder, way.source)
        if recorded_submission is None:
            raise ImpossibleError(f"the cluster never accepted a job of {name}", hint=f"slipway status {name}")
        yield way.source.nodes(recorded_submission.submitted)


def chosen(nodes: Nodes, node: str | None) -> str:
    """A node by its number in the job, from 0, or by its name; the first node by default.

    Raises:
        ImpossibleError: the job has no such node.
    """
    names = nodes.names
    if node is None:
        return names[0]
    if node.isdigit() and int(node) < len(names):
        return names[int(node)]
    if node in names:
        return node
    node_list = ", ".join(f"{number} {name}" for number, name in enumerate(names))
    raise ImpossibleError(f"--node: the job has no node {node}", hint=f"nodes of the job: {node_list}")
