"""A person on a node of a run's job."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

from launcher.model.errors import ImpossibleError
from launcher.records.run_folder import RunFolder
from launcher.records.submission import recorded
from launcher.submit.jobs import Nodes
from launcher.workflow.cluster.reach import gone_where_removed, reached
from launcher.workflow.run.submission import look_again


@contextmanager
def nodes_of(name: str, folder: RunFolder, environment: Mapping[str, str]) -> Iterator[Nodes]:
    """The nodes that a run's job runs on.

    Args:
        name: the plan's.
        folder: the run folder.
        environment: for the way to the cluster.

    Raises:
        ImpossibleError: the run has no job on a cluster, or it does not run.
    """
    submission = recorded(folder)
    if submission is None:
        hint = "you cannot enter a launch with its own sandbox; run slipway sandbox start first"
        raise ImpossibleError(f"{name} has no job on a cluster", hint=hint)
    with gone_where_removed(submission, environment), closing(reached(submission, environment)) as way:
        found = look_again(folder, way.source)
        if found is None:
            raise ImpossibleError(f"the cluster never accepted a job of {name}", hint=f"slipway status {name}")
        yield way.source.nodes(found.submitted)


def chosen(nodes: Nodes, wanted: str | None) -> str:
    """A node by its number in the job, from 0, or by its name; the first where none is named.

    Raises:
        ImpossibleError: the job has none of it.
    """
    names = nodes.names
    if wanted is None:
        return names[0]
    if wanted.isdigit() and int(wanted) < len(names):
        return names[int(wanted)]
    if wanted in names:
        return wanted
    there = ", ".join(f"{number} {each}" for number, each in enumerate(names))
    raise ImpossibleError(f"--node: the job has no node {wanted}", hint=f"nodes of the job: {there}")
