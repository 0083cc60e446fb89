"""The deployed cluster of a training target, found by the target's kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.bundle import Bundle
from launcher.model.enums import Operator
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import Notify
from launcher.records.run_folder import RunFolder
from launcher.records.submission import HeadNode, Submission
from launcher.rendering.names import ClusterNames
from launcher.submit.jobs import JobSource
from launcher.submit.shell import Shell
from launcher.targets.load import part
from launcher.workflow.cluster.readback.reading import ClusterState

Outputs = Mapping[str, str]
"""The outputs of the cluster's own stack."""


def _allowed(_plan: Plan, _environment: Mapping[str, str]) -> None:
    """Accept every job: all can be submitted from this computer."""


def _nothing_to_start(_outputs: Outputs, _session: Session, _notify: Notify) -> None:
    """Start nothing: nodes start with each job, or another step starts them."""


def _known_way(_plan: Plan, _outputs: Outputs) -> str:
    """Nothing: a head node reports itself why it cannot be reached."""
    return ""


def _no_fleet(_session: Session, _cluster: str, _notify: Notify) -> None:
    """Nothing: nodes run already, or start with jobs."""


def _no_nodes(_session: Session, _cluster: str) -> int | None:
    return None


def _all_up(_plan: Plan, _session: Session, _cluster: str) -> bool:
    """Nothing stops its nodes that a launch would not start itself."""
    return False


def _no_queues(_session: Session, stack: StackState) -> ClusterState:
    """Refuse: jobs of other plans go only to clusters with readable queues."""
    raise ImpossibleError(f"target.cluster: the queues of stack {stack.name} cannot be read")


def _no_inputs(_plan: Plan, _session: Session) -> dict[str, str]:
    return {}


def _removed_at_once(_session: Session, _outputs: Outputs, _notify: Notify, _pause: Callable[[float], None]) -> None:
    """Remove nothing: CloudFormation removes all resources."""


def _counted_elsewhere(_session: Session, _outputs: Outputs) -> Mapping[str, int]:
    """Count nothing: the instances carry ParallelCluster's tags, or are no EC2 instances."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The connection to a running job: `poll_s` are the seconds between two polls, `close` closes it."""

    source: JobSource
    poll_s: float
    close: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to be submitted, with its origin and destination.

    `bundle` is the plan's files, with blanks for the names of the cluster and for the archive of the job's folder.
    `head_node` accepts the job, `shell` is the connection to it if it has one; `names` are what the files refer to.
    `outputs` are those of the cluster's own stack, None if this launch has not read them; `cluster` is the cluster's
    name, None if Slipway did not deploy it. `environment` has its AWS, `here` is this computer's; `workdir` is the
    command's folder. For Kubernetes, `unreached` explains how to reach a private API, `operator` is what runs the job
    and `account` the service account of its pods, None if only the plan says it; `by_slipway` says that Slipway
    deployed the cluster. `below` is the suffix of the checkpoint prefix, with a slash; empty without one.
    """

    quoted: Quote
    bundle: Bundle
    instances: Mapping[str, InstanceType]
    head_node: HeadNode
    shell: Callable[[], Shell]
    names: ClusterNames
    outputs: Outputs | None
    cluster: str | None
    key: str
    folder: RunFolder
    workdir: Path
    store: Objects
    environment: Mapping[str, str]
    here: Mapping[str, str]
    notify: Notify
    unreached: str = ""
    operator: Operator | None = None
    account: str | None = None
    by_slipway: bool = True
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The functions of a target for the workflow.

    `describe` describes what a deployment creates, from the head node's type and the instances in words. `head_node`
    finds what accepts jobs in an existing cluster, and `access_commands` the commands for access, in order. `submit`
    ships a job and submits it, `reach` connects to a running job, with the environment of its AWS and its head node.
    `refuse_job` raises if no job can be submitted from this computer. `start` starts nodes that do not start with jobs,
    `start_fleet` a fleet that the guard has stopped; `stop_fleet` stops it for an update, and `running_nodes` counts
    the nodes that it ends, None if it is stopped. `unreached` explains how to reach what accepts its jobs if this
    computer gets no answer. `start_nodes` starts the nodes of a Kubernetes cluster that its guard stopped, and says
    whether it had to. `queues` reads the queues of a cluster that other plans deployed, by its stack. `inputs` are
    parameters of its stack that a deployment sets, `empty` removes resources before the stack, `instance_counts` counts
    its instances by type.
    """

    describe: Callable[[Plan, str, str], str]
    head_node: Callable[[Plan, Outputs, Session], HeadNode]
    access_commands: Callable[[Plan, Outputs], list[tuple[str, str]]]
    submit: Callable[[JobRequest], Submission]
    reach: Callable[[Submission, Mapping[str, str], Callable[[], Shell]], Reached]
    refuse_job: Callable[[Plan, Mapping[str, str]], None] = _allowed
    start: Callable[[Outputs, Session, Callable[[str], None]], None] = _nothing_to_start
    start_fleet: Callable[[Session, str, Notify], None] = _no_fleet
    stop_fleet: Callable[[Session, str, Notify], None] = _no_fleet
    running_nodes: Callable[[Session, str], int | None] = _no_nodes
    unreached: Callable[[Plan, Outputs], str] = _known_way
    start_nodes: Callable[[Plan, Session, str], bool] = _all_up
    queues: Callable[[Session, StackState], ClusterState] = _no_queues
    inputs: Callable[[Plan, Session], Mapping[str, str]] = _no_inputs
    empty: Callable[[Session, Outputs, Notify, Callable[[float], None]], None] = _removed_at_once
    instance_counts: Callable[[Session, Outputs], Mapping[str, int]] = _counted_elsewhere


def cluster_of(plan: Plan) -> Cluster:
    """The functions of a plan's target for its deployed cluster."""
    return cluster_at(plan.place.target)


def cluster_at(kind: str) -> Cluster:
    """The functions of a target kind for its deployed cluster."""
    return part(kind, "deploy", Cluster)
