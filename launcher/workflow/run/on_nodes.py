"""Shells, commands and tunnels on the nodes of a run's job, or of its cluster if no job runs."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager

from launcher.model.errors import ImpossibleError, SlipwayError
from launcher.model.stages import Notify
from launcher.records.run_folder import RunFolder
from launcher.records.submission import read_submission
from launcher.submit.jobs import JobNodes
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster.job_connection import connect_job
from launcher.workflow.cluster.reach import gone_if_removed
from launcher.workflow.cluster.run_environment import environment_of_run
from launcher.workflow.run.node_access import cluster_access
from launcher.workflow.run.submission import find_submission

TENSORBOARD_PORT = 6006
"""TensorBoard's own default."""
_EVENT_FILES = 'find "${SLIPWAY_ROOT:-.}" -maxdepth 8 -name "events.out.tfevents.*" 2>/dev/null | sort | tail -n 1'
"""The newest by name of TensorBoard's logs below the job's folder, in which a step begins, or the pod's."""


@contextmanager
def nodes_of(name: str, folder: RunFolder, environment: Mapping[str, str], notify: Notify) -> Iterator[JobNodes]:
    """The nodes of a run's job; without a running job, those of its cluster that can be entered.

    Raises:
        ImpossibleError: neither a job runs, nor does the cluster have nodes that can be entered.
        SchedulerEndedError: the run's sandbox has ended, or is that of its launch.
    """
    with ExitStack() as stack:
        try:
            nodes = stack.enter_context(job_nodes(name, folder, environment))
        except ImpossibleError as problem:
            nodes = stack.enter_context(_free_nodes(name, folder, environment, problem))
            notify(f"  {problem.message}; entering a node of the cluster without a job")
        yield nodes


@contextmanager
def job_nodes(name: str, folder: RunFolder, environment: Mapping[str, str]) -> Iterator[JobNodes]:
    """The nodes of a run's job.

    Raises:
        ImpossibleError: no job runs.
        SchedulerEndedError: the run's sandbox has ended, or is that of its launch.
    """
    submission = read_submission(folder)
    if submission is None:
        environment_of_run(folder, environment)  # raises where the run's sandbox is out of reach
        raise ImpossibleError(f"{name} has no job on a cluster", hint=f"slipway status {name}")
    with gone_if_removed(submission, environment), closing(connect_job(submission, environment)) as connection:
        recorded_submission = find_submission(folder, connection.source)
        if recorded_submission is None:
            message = f"the cluster never accepted a job of {name}"
            raise ImpossibleError(message, hint=f"slipway status {name}")
        yield connection.source.nodes(recorded_submission.submitted_job)


@contextmanager
def _free_nodes(
    name: str, folder: RunFolder, environment: Mapping[str, str], refused: ImpossibleError
) -> Iterator[JobNodes]:
    """The nodes of a cluster without regard to a job.

    Raises:
        ImpossibleError: as `refused`, if the cluster cannot be entered without a job.
    """
    with ExitStack() as stack:
        try:
            access = stack.enter_context(cluster_access(name, folder, environment))
            deployed = cluster_of(access.plan)
            free = stack.enter_context(deployed.free_nodes(access, deployed.nodes(access)))
        except SlipwayError as problem:
            raise refused from problem
        if not free.names:
            raise refused
        yield free


def tensorboard_folder(nodes: JobNodes, node: str) -> str | None:
    """The folder on a node in which the job writes logs for TensorBoard; None if it writes none there."""
    found = nodes.read(node, ["sh", "-c", _EVENT_FILES]).strip()
    return found.rpartition("/")[0] or None


def choose_node(nodes: JobNodes, node: str | None) -> str:
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
