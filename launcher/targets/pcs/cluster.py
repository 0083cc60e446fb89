"""A deployed PCS cluster: its description, its login node, access commands, and the return of its nodes."""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

from launcher.aws import instances, pcs
from launcher.aws.calls import forbidden
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.cluster_nodes import ClusterNode, NodeAction
from launcher.model.errors import AwsError, DeploymentFailedError
from launcher.model.monitoring import FAILED_BOOT
from launcher.model.pcs import GROUP_TAG, LOGIN, PCS_CLUSTER_TAG, USER
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.model.units import duration_text
from launcher.records.submission import HeadNode
from launcher.rendering.names import OUTPUTS
from launcher.rendering.node import login_boots_uri
from launcher.targets.hyperpod_slurm.readback import data_links, file_systems
from launcher.targets.pcs import readback
from launcher.targets.pcs.target import CLUSTER_TYPE, GROUP_TYPE, QUEUE_TYPE
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.deployed import Outputs
from launcher.workflow.cluster.guard_stop import last_lines
from launcher.workflow.cluster.readback.reading import QueueState
from launcher.workflow.cluster.readback.training import stack_readers
from launcher.workflow.cluster.slurm_jobs import SlurmCluster, node_commands

LOGIN_S, POLL_S = 900.0, 10.0
"""Time for the login node to start: a node boots in 3 to 8 minutes (awsome-distributed-ai, aws-pcs/tests)."""
LOGIN_BOOTS = 3
"""Failed boots during one wait after which the next one is expected to fail too, as for the guard (guard/boots.py)."""


class PcsCluster(SlurmCluster):
    """A deployed PCS cluster."""

    after_replace = "its instance ends at once, and PCS starts another one when a job needs it"
    drained_stays = True

    readers = stack_readers(
        (readback.cluster, (CLUSTER_TYPE,)),
        (readback.groups, (GROUP_TYPE,)),
        (readback.templates, ("AWS::EC2::LaunchTemplate",)),
        (readback.queues, (QUEUE_TYPE,)),
        (file_systems, ("AWS::FSx::FileSystem",)),
        (data_links, ("AWS::FSx::DataRepositoryAssociation",)),
    )
    instances = MappingProxyType({GROUP_TYPE: readback.group_instances})

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the cluster to be deployed."""
        return f"PCS cluster {plan.cluster_name}: login node {head}, at most {node_text}"

    def head_node(
        self, plan: Plan, outputs: Outputs, session: Session, *, sleep: Callable[[float], None] = time.sleep
    ) -> HeadNode:
        """The login node of a deployed cluster once its boot has ended; PCS starts another one if the node is lost.

        Raises:
            AwsError: EC2 or the store does not answer.
            DeploymentFailedError: no login node is ready in time, or several failed to boot.
        """
        waited, began = 0.0, datetime.now(UTC)
        uri = outputs.get(OUTPUTS["message_uri"])
        boots = None if uri is None else Objects.at(session, login_boots_uri(uri))
        earlier: frozenset[str] | None = None
        while True:
            nodes = instances.cluster_instances(session, GROUP_TAG, outputs["LoginGroupId"])
            node = max(nodes, key=lambda instance: instance.launched_at, default=None)
            reports = () if boots is None else tuple(report.key for report in boots.list_objects())
            earlier = frozenset(reports) if earlier is None else earlier
            if node is not None:
                ready = any(report.endswith(f"-{node.id}-ready.txt") for report in reports)
                # A node that has run for longer is ready: its report may be missing or removed.
                settled = began + timedelta(seconds=waited - LOGIN_S) >= node.launched_at
                if boots is None or ready or settled:
                    return HeadNode(via="ssm", instance=node.id, region=outputs["Region"], user=USER)
            failed = sum(report.endswith(FAILED_BOOT) for report in reports if report not in earlier)
            if waited >= LOGIN_S or failed >= LOGIN_BOOTS:
                lines = last_lines(boots) if boots is not None and failed else []
                raise _no_login_node(plan, outputs["ClusterName"], failed, lines)
            sleep(POLL_S)
            waited += POLL_S

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands to access the cluster, each with its purpose: it has no key pair and no open port."""
        return [
            ("shell", f"{outputs['Connect']}, then: sudo su - {USER}"),
            *node_commands(plan),
            ("start the nodes after a stop", "the command in StartFleet, above"),
        ]

    def start(
        self, outputs: Outputs, session: Session, notify: Notify, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Let nodes, and the login node, start again if the guard has set their groups to 0 (output StartFleet).

        Raises:
            AwsError: a call failed; missing permissions to read the groups are a message only.
            DeploymentFailedError: a node group cannot be scaled.
        """
        cluster = outputs["ClusterName"]
        try:
            stopped = {group.name for group in pcs.groups(session, cluster) if not group.maximum}
        except AwsError as problem:
            if not forbidden(problem):
                raise
            notify(f"whether the nodes of {cluster} are stopped is unknown: these credentials cannot read it")
            return
        for command in outputs["StartFleet"].split(" && "):
            given = dict(zip(*[iter(command.split()[3:])] * 2, strict=True))
            name = given["--compute-node-group-identifier"]
            pairs = (pair.split("=") for pair in given["--scaling-configuration"].split(","))
            if name in stopped:
                notify(f"node group {name} of {cluster} was stopped: its nodes can start again")
                pcs.scale(session, cluster, name, {key: int(count) for key, count in pairs}, sleep)
        if LOGIN in stopped:
            notify(f"the login node of {cluster} was stopped: it starts again")
            pcs.scale(session, cluster, LOGIN, {"minInstanceCount": 1, "maxInstanceCount": 1}, sleep)

    def await_changes(
        self, session: Session, cluster: str, notify: Notify, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        """Wait until no node group is being updated, as after the guard's stop: PCS changes no cluster meanwhile.

        Raises:
            AwsError: a call failed; without permissions to read the groups, PCS itself refuses the update.
            DeploymentFailedError: a node group is still UPDATING after 20 minutes.
        """
        try:
            pcs.await_groups(session, cluster, notify, sleep)
        except AwsError as problem:
            if not forbidden(problem):
                raise

    def queues(self, session: Session, stack: StackState) -> tuple[QueueState, ...]:
        """The queues of a cluster, each with its one node group."""
        cluster = stack.outputs["ClusterName"]
        known = {compute_group.id: compute_group for compute_group in pcs.groups(session, cluster)}
        pairs = [(queue, known[queue.groups[0]]) for queue in pcs.queues(session, cluster)]
        return tuple(
            QueueState(
                name=queue.name,
                instance_type=group.instance_type,
                capacity_type=group.purchase,
                maximum=group.maximum,
            )
            for queue, group in pairs
        )

    def empty(self, session: Session, outputs: Outputs, notify: Notify, pause: Callable[[float], None]) -> None:
        """Remove queues and node groups before the stack.

        Raises:
            DeploymentFailedError: a queue or node group remains.
        """
        pcs.empty(session, outputs["PcsClusterId"], notify, pause)

    def instance_counts(self, session: Session, outputs: Outputs) -> Mapping[str, int]:
        """The number of running instances of each type."""
        return instances.count_instances(session, PCS_CLUSTER_TAG, outputs["PcsClusterId"])

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Ask Slurm; a node that is replaced loses its instance too, because PCS may keep one that is only down."""
        super().change_node(action, node, access)
        if action is NodeAction.REPLACE and node.instance is not None:
            instances.terminate(access.session, node.instance)


def _no_login_node(plan: Plan, cluster: str, failed: int, lines: list[str]) -> DeploymentFailedError:
    """Why the login node is not there, with the last lines of its newest failed boot."""
    why = (
        f"{failed} login nodes failed to boot"
        if failed > 1
        else f"no login node is ready after {duration_text(LOGIN_S)}"
    )
    shown = "".join(f"\n  {line}" for line in ("the last lines of the newest failed boot:", *lines)) if lines else ""
    command = f"aws pcs get-compute-node-group --region {plan.place.region} --cluster-identifier {cluster}"
    hint = (
        f"PCS starts new login nodes without end, and each is billed: slipway down {plan.cluster_name} removes them;"
        f" {command} --compute-node-group-identifier {LOGIN} shows the state of the group"
    )
    return DeploymentFailedError(f"{cluster}: {why}{shown}", hint=hint)
