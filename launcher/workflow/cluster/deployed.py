"""A target's stacks in the account: the cluster that a launch uses, and the resources that are read back."""

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from launcher.aws import images, ssm, stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.load import load
from launcher.model.bundle import Bundle
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts
from launcher.model.enums import Operator
from launcher.model.errors import ImpossibleError
from launcher.model.instance_type import InstanceType
from launcher.model.machine_image import IMAGE_INPUT, MachineImage
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.stages import Notify
from launcher.model.target import Runs
from launcher.records.run_folder import RunFolder
from launcher.records.submission import HeadNode, Submission
from launcher.rendering.names import ClusterNames, stack_name
from launcher.submit.jobs import JobNodes, JobSource
from launcher.submit.shell import Shell
from launcher.targets.registry import target_of
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.readback.reading import QueueState, Readers, ReadInstances, StackVerification

Outputs = Mapping[str, str]
"""The outputs of the cluster's own stack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobConnection:
    """The connection to a running job: `poll_s` are the seconds between two polls, `close` closes it."""

    source: JobSource
    poll_s: float
    close: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterHandle:
    """A deployed or existing cluster, as a job uses it."""

    # What accepts the job.
    head_node: HeadNode
    # What the files of plans refer to.
    names: ClusterNames
    # The cluster's name; None if Slipway did not deploy it.
    name: str | None
    # The outputs of its own stack, and what was read back; None if this launch has not read them.
    outputs: Outputs | None = None
    verification: StackVerification | None = None
    # How to reach a private API.
    unreached: str = ""
    # Whether Slipway deployed it.
    by_slipway: bool = True
    # What runs jobs on Kubernetes, and the service account of their pods; None if only the plan says it.
    operator: Operator | None = None
    account: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A job to be submitted, with its origin and destination."""

    quoted: Quote
    # The plan's files, with blanks for the names of the cluster and for the archive of the job's folder.
    bundle: Bundle
    instances: Mapping[str, InstanceType]
    cluster: ClusterHandle
    # Opens a shell on the head node, if it has one.
    shell: Callable[[], Shell]
    # The submission's key.
    key: str
    folder: RunFolder
    # The folder of the command on this computer.
    workdir: Path
    store: Objects
    # The environment of the cluster's AWS, and that of this computer.
    environment: Mapping[str, str]
    here: Mapping[str, str]
    notify: Notify
    # The suffix of the checkpoint prefix, with a slash; empty without one.
    checkpoint_suffix: str = ""


class DeployedStacks:
    """The stacks of a target: the readers that compare each resource type with the plan."""

    # The readers, each with the resource types that it compares with the plan.
    readers: Readers
    # The readers of the resource types that have instances.
    instances: Mapping[str, ReadInstances] = MappingProxyType({})

    def await_changes(self, session: Session, cluster: str, notify: Notify) -> None:
        """Wait for earlier changes of a cluster that refuse a deployment; none do by default.

        Raises:
            DeploymentFailedError: a change does not end.
        """

    def refuse_busy(self, session: Session, cluster: str, changed: Container[str], rate: str) -> None:
        """Refuse changes of resources of the types `changed` while their service refuses them; none does by default.

        `rate` are the dollars an hour of the cluster in words.

        Raises:
            ImpossibleError: the service refuses changes for some time; the hint says for how long.
        """


class DeployedCluster(DeployedStacks):
    """A deployed cluster, as a launch uses it, with the defaults of most targets."""

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line of what a deployment creates, from the head node's type and the instances in words."""
        raise NotImplementedError

    def head_node(self, plan: Plan, outputs: Outputs, session: Session) -> HeadNode:
        """What accepts the jobs of a deployed cluster."""
        raise NotImplementedError

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands to access the cluster, each with its purpose, in order."""
        raise NotImplementedError

    def submit(self, request: JobRequest) -> Submission:
        """Ship a job and submit it; report it only after it is accepted."""
        raise NotImplementedError

    def reach(
        self, submission: Submission, environment: Mapping[str, str], shell: Callable[[], Shell]
    ) -> JobConnection:
        """The connection to a running job; `environment` is that of the job's AWS account or sandbox."""
        raise NotImplementedError

    def refuse_job(self, plan: Plan, environment: Mapping[str, str]) -> None:
        """Refuse a job that cannot be submitted from this computer; by default all can.

        Raises:
            ImpossibleError: it cannot; the hint names the remedy.
        """

    def refuse_second_job(self, plan: Plan, session: Session) -> None:
        """Refuse, before anything changes, a job that cannot run beside the plan's running one; by default all can.

        Raises:
            DeploymentFailedError: a job runs; the hint names how to end it.
        """

    def start(self, outputs: Outputs, session: Session, notify: Notify) -> None:
        """Start nodes that do not start with jobs; nothing by default."""

    def start_nodes(self, plan: Plan, session: Session, cluster: str) -> bool:
        """Start the nodes of a Kubernetes cluster that its guard stopped; whether this was necessary."""
        return False

    def start_fleet(self, session: Session, cluster: str, notify: Notify) -> None:
        """Start a compute fleet that the guard or a user stopped; nothing by default: there is no fleet."""

    def stop_fleet(self, session: Session, cluster: str, notify: Notify) -> None:
        """Stop the compute fleet for an update; nothing by default."""

    def running_nodes(self, session: Session, cluster: str) -> int | None:
        """The number of nodes that end when the fleet is stopped; None if it is stopped, or there is none."""
        return None

    def reach_hint(self, plan: Plan, outputs: Outputs) -> str:
        """How to reach what accepts its jobs if this computer gets no answer; a head node reports it itself."""
        return ""

    def queues(self, session: Session, stack: StackState) -> tuple[QueueState, ...]:
        """The queues of a cluster that other plans deployed: jobs go only to clusters with readable queues.

        Raises:
            ImpossibleError: they cannot be read.
        """
        raise ImpossibleError(f"target.cluster: the queues of stack {stack.name} cannot be read")

    def image(self, plan: Plan, session: Session) -> MachineImage | None:
        """AWS's image of its nodes: the one of its stack, else the newest; None if it has none of AWS's to pin.

        Raises:
            AwsError: a call failed.
        """
        facts = load().instance_types[plan.place.instance_type]
        parameter = target_of(plan.place.target).image_parameter(facts)
        if plan.request.target.ami is not None or parameter is None:
            return None
        stack = stacks.find(session, stack_name(plan, Runs.TRAINING))
        # The CDK deletes a stack whose creation failed, with its parameters, and creates it again.
        lasts = stack is not None and stack.status not in stacks.NOT_MADE
        known = stack.inputs.get(IMAGE_INPUT) if stack is not None and lasts else None
        id_ = ssm.parameter(session, parameter) if known is None else known
        name, created_at = images.name_and_date(session, id_)
        return MachineImage(id=id_, name=name, created_at=created_at, parameter=parameter, kept=known is not None)

    def empty(self, session: Session, outputs: Outputs, notify: Notify, pause: Callable[[float], None]) -> None:
        """Remove what must be removed before the stack; nothing by default: CloudFormation removes all."""

    def instance_counts(self, session: Session, outputs: Outputs) -> Mapping[str, int]:
        """Its running instances by type that ParallelCluster's tags do not count; none by default."""
        return {}

    def nodes(self, access: ClusterAccess) -> tuple[ClusterNode, ...]:
        """Its nodes that run jobs, as its scheduler and its service report them.

        Raises:
            ImpossibleError: it has no nodes of its own.
        """
        raise _without_nodes(access.plan.name)

    def node_effect(self, action: NodeAction, facts: NodeFacts) -> NodeEffect:
        """What an action on a node does to its job, to the node, and to the bill.

        Raises:
            ImpossibleError: the action is not possible.
        """
        raise _without_nodes("NAME")

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Carry out an action on a node."""
        raise _without_nodes(access.plan.name)

    def free_nodes(self, access: ClusterAccess, nodes: Sequence[ClusterNode]) -> AbstractContextManager[JobNodes]:
        """Access to nodes on which the run has no job.

        Raises:
            ImpossibleError: there is none.
        """
        raise ImpossibleError(f"the nodes of {access.cluster} can be entered only while its job runs")

    def diagnostics(self, access: ClusterAccess) -> Mapping[str, str]:
        """The state of its scheduler as texts by file name, for `slipway debug`; none by default."""
        return {}

    def boot_output(self, access: ClusterAccess, node: ClusterNode) -> str:
        """The newest boot output of a node's instance; empty if there is none."""
        return ""


def _without_nodes(name: str) -> ImpossibleError:
    return ImpossibleError(
        "SageMaker training jobs have no nodes that can be listed, drained, rebooted or replaced: SageMaker starts and"
        " ends the instances of each job",
        hint=f"slipway status {name} shows the job; slipway cancel {name} ends it",
    )
