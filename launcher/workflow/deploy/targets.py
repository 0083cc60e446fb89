"""What each target that trains is in the stories of a deployment and of a job, by the target's kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from launcher.aws.session import Session
from launcher.model.enums import TargetKind
from launcher.model.plan import Plan
from launcher.records.submission import HeadNode
from launcher.workflow.deploy import eks, hyperpod, hyperpod_eks, parallelcluster

Outputs = Mapping[str, str]
"""Of the cluster's own stack."""


def _allowed(_plan: Plan, _environment: Mapping[str, str]) -> None:
    """Every job can be submitted from here."""


def _nothing_to_start(_outputs: Outputs, _session: Session, _tell: Callable[[str], None]) -> None:
    """Nodes come as jobs do, or are started elsewhere."""


def _known_way(_plan: Plan, _outputs: Outputs) -> str:
    """A head node says itself what is wrong with the way to it."""
    return ""


def _all_up(_plan: Plan, _session: Session, _cluster: str) -> bool:
    """Nothing has stopped its nodes but what a launch starts by itself."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What the stories ask of a target.

    `words` says what a deployment makes, of the head node's type and the machines in words. `head_node` finds what
    takes the jobs of a cluster that is there, and `ways_in` are the commands by which a person gets in, in the order in
    which they are used. `refuse_job` raises where no job can be submitted from this machine. `has_fleet` says whether
    the guard stops its nodes by a fleet that a launch has to start again, `start` starts nodes that do not come with
    jobs; `unreached` how somebody gets to what takes its jobs where that does not answer from here. `start_nodes` has
    the nodes of a cluster of pods made again where its guard has stopped them, and says whether it had to.
    """

    words: Callable[[Plan, str, str], str]
    head_node: Callable[[Plan, Outputs, Session], HeadNode]
    ways_in: Callable[[Plan, Outputs], list[tuple[str, str]]]
    refuse_job: Callable[[Plan, Mapping[str, str]], None] = _allowed
    has_fleet: bool = False
    start: Callable[[Outputs, Session, Callable[[str], None]], None] = _nothing_to_start
    unreached: Callable[[Plan, Outputs], str] = _known_way
    start_nodes: Callable[[Plan, Session, str], bool] = _all_up


CLUSTERS: Mapping[TargetKind, Cluster] = {
    TargetKind.PARALLELCLUSTER: Cluster(
        words=parallelcluster.words,
        head_node=parallelcluster.head_node,
        ways_in=parallelcluster.ways_in,
        has_fleet=True,
    ),
    TargetKind.HYPERPOD_SLURM: Cluster(
        words=hyperpod.words,
        head_node=hyperpod.controller,
        ways_in=hyperpod.ways_in,
        refuse_job=hyperpod.refuse_job,
        start=hyperpod.start,
    ),
    TargetKind.EKS: Cluster(
        words=eks.words,
        head_node=eks.api,
        ways_in=eks.ways_in,
        refuse_job=eks.refuse_job,
        unreached=eks.unreached,
        start_nodes=eks.start_nodes,
    ),
    TargetKind.HYPERPOD_EKS: Cluster(
        words=hyperpod_eks.words,
        head_node=eks.api,
        ways_in=hyperpod_eks.ways_in,
        refuse_job=eks.refuse_job,
        unreached=hyperpod_eks.unreached,
        start_nodes=hyperpod_eks.start_nodes,
    ),
}
"""Every target that trains."""


def cluster_of(plan: Plan) -> Cluster:
    """What a plan's target is in a story."""
    return CLUSTERS[plan.place.target]
