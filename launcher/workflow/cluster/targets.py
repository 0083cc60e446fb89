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
"""Of the cluster's own stack."""


def _allowed(_plan: Plan, _environment: Mapping[str, str]) -> None:
    """Every job can be submitted from here."""


def _nothing_to_start(_outputs: Outputs, _session: Session, _notify: Notify) -> None:
    """Nodes come as jobs do, or are started elsewhere."""


def _known_way(_plan: Plan, _outputs: Outputs) -> str:
    """A head node says itself what is wrong with the way to it."""
    return ""


def _no_fleet(_session: Session, _cluster: str, _notify: Notify) -> None:
    """Nodes are there, or come as jobs do."""


def _no_nodes(_session: Session, _cluster: str) -> int | None:
    return None


def _all_up(_plan: Plan, _session: Session, _cluster: str) -> bool:
    """Nothing has stopped its nodes but what a launch starts by itself."""
    return False


def _no_queues(_session: Session, stack: StackState) -> ClusterState:
    """Jobs of other plans go to clusters whose queues can be read."""
    raise ImpossibleError(f"target.cluster: the queues of stack {stack.name} cannot be read")


def _no_inputs(_plan: Plan, _session: Session) -> dict[str, str]:
    return {}


def _removed_at_once(_session: Session, _outputs: Outputs, _notify: Notify, _pause: Callable[[float], None]) -> None:
    """CloudFormation removes all of it."""


def _counted_elsewhere(_session: Session, _outputs: Outputs) -> Mapping[str, int]:
    """Its instances carry ParallelCluster's tags, or are not EC2's."""
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What runs a job, reached: `look_s` are the seconds between two looks at it, `close` lets go of it."""

    source: JobSource
    look_s: float
    close: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to be submitted, from where and to where.

    `bundle` is the plan's files, with blanks for the names of the cluster and for the archive of the job's folder.
    `head_node` takes the job, `shell` is the way to it where it has one; `names` are what the files refer to. `outputs`
    are those of the cluster's own stack, None where this launch has not read it; `cluster` is the cluster's name, None
    where Slipway did not deploy it. `environment` has its AWS, `here` is this machine's; `workdir` is the command's
    folder. Of Kubernetes, `unreached` says how a private API is reached, `operator` what runs the job and `account`
    whose rights its pods have, None where the plan alone says it; `own` says that Slipway deployed the cluster.
    `below` is where under the plan's place its checkpoints go, with a slash; empty: there itself.
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
    own: bool = True
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the workflow asks of a target.

    `words` says what a deployment makes, of the head node's type and the machines in words. `head_node` finds what
    takes the jobs of a cluster that is there, and `ways_in` are the commands by which a person gets in, in the order in
    which they are used. `submit` ships a job and has the cluster take it, `reach` leads to what runs one, with the
    environment of its AWS and the way to its head node. `refuse_job` raises where no job can be submitted from this
    machine. `start` starts nodes that do not come with jobs, `start_fleet` a fleet by which the guard stops nodes;
    `stop_fleet` stops it for an update, and `running_nodes` counts the nodes that it ends, None where it is stopped.
    `unreached` how somebody gets to what takes its jobs where that does not answer from here. `start_nodes` has
    the nodes of a cluster of pods made again where its guard has stopped them, and says whether it had to. `queues`
    reads what a cluster that other plans deployed has, by its stack. `inputs` are parameters of its stack that a
    deployment has to give, `empty` removes what has to go before the stack, `machines` counts its instances by type.
    """

    words: Callable[[Plan, str, str], str]
    head_node: Callable[[Plan, Outputs, Session], HeadNode]
    ways_in: Callable[[Plan, Outputs], list[tuple[str, str]]]
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
    machines: Callable[[Session, Outputs], Mapping[str, int]] = _counted_elsewhere


def cluster_of(plan: Plan) -> Cluster:
    """What a plan's target is, once its cluster is there."""
    return cluster_at(plan.place.target)


def cluster_at(kind: str) -> Cluster:
    """The same, by the target's kind."""
    return part(kind, "deploy", Cluster)
