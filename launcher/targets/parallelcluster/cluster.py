"""A deployed ParallelCluster: its description, its head node, and the commands to access it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import MappingProxyType

from launcher.aws import compute_fleet, instances, stacks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.enums import OperatingSystem
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.model.plan import Plan
from launcher.model.stages import Notify, stage
from launcher.model.units import duration_text
from launcher.records.submission import HeadNode
from launcher.targets.parallelcluster import readback
from launcher.targets.parallelcluster.target import CLUSTER_TYPE
from launcher.workflow.cluster.deployed import Outputs
from launcher.workflow.cluster.readback.reading import QueueState
from launcher.workflow.cluster.readback.training import ON_DEMAND, stack_readers
from launcher.workflow.cluster.slurm_jobs import SlurmCluster, node_commands

FLEET_S, FLEET_POLL_S = 900.0, 10.0
"""pcluster waits 180 s until the daemon reacts and 600 s for the start (compute_fleet_status_manager.py)."""
FLEET_TRIES = 5
USERS = {
    OperatingSystem.ALINUX2023: "ec2-user",
    OperatingSystem.UBUNTU2204: "ubuntu",
    OperatingSystem.UBUNTU2404: "ubuntu",
    OperatingSystem.RHEL8: "ec2-user",
    OperatingSystem.RHEL9: "ec2-user",
    OperatingSystem.ROCKY8: "rocky",
    OperatingSystem.ROCKY9: "rocky",
}
"""The user whose home all nodes share (OS_MAPPING in pcluster/constants.py of ParallelCluster 3.16.1)."""


class DeployedParallelCluster(SlurmCluster):
    """A deployed ParallelCluster."""

    # Its daemon ends the instances of nodes that are down, and of drained ones without a job (ParallelCluster user
    # guide, cluster capacity size and update, and clustermgtd; read 2026-11-28).
    after_drain = "without a job, ParallelCluster ends its instance, and starts another one when a job needs it"
    after_replace = "ParallelCluster ends its instance within minutes, and starts another one when a job needs it"

    readers = stack_readers((readback.cluster, (CLUSTER_TYPE,)))
    instances = MappingProxyType({CLUSTER_TYPE: readback.cluster_instances})

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the cluster to be deployed."""
        return f"cluster {plan.cluster_name}: head node {head}, at most {node_text}"

    def head_node(self, plan: Plan, outputs: Outputs, session: Session) -> HeadNode:
        """The head node of a deployed cluster, from the outputs of its training stack."""
        user = USERS[plan.request.target.os]
        return HeadNode(via="ssm", instance=outputs["HeadNodeInstanceId"], region=outputs["Region"], user=user)

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands to access the cluster, each with its purpose.

        The head node has no key pair and no open port: access goes through a Systems Manager session, and ssh goes
        through one. EC2 Instance Connect adds a public key to the login for a minute; it is part of Amazon Linux and
        Ubuntu.
        """
        login, region = USERS[plan.request.target.os], outputs["Region"]
        head = outputs["HeadNodeInstanceId"]
        session = f"aws ssm start-session --region {region} --target %h --document-name AWS-StartSSHSession"
        send_key = f"aws ec2-instance-connect send-ssh-public-key --region {region} --instance-id {head}"
        shell = ("shell", f"{outputs['Connect']}, then: sudo su - {login}")
        # Session Manager logs no ssh that goes through a session.
        ssh = [
            (
                "ssh, step 1: send your key",
                f"{send_key} --instance-os-user {login} --ssh-public-key file://$HOME/.ssh/id_ed25519.pub",
            ),
            ("ssh, step 2: within 60 s", f"ssh -o ProxyCommand='{session} --parameters portNumber=%p' {login}@{head}"),
        ]
        return [shell, *(() if "SessionDocument" in outputs else ssh), *node_commands(plan)]

    def queues(self, session: Session, stack: StackState) -> tuple[QueueState, ...]:
        """The queues of a cluster, from the configuration with which its stack was deployed.

        Raises:
            ImpossibleError: the stack holds no ParallelCluster.
        """
        resources = stacks.template(session, stack.name).get("Resources", {}).values()
        configurations = [
            resource["Properties"]["ClusterConfiguration"] for resource in resources if resource["Type"] == CLUSTER_TYPE
        ]
        if not configurations:
            raise ImpossibleError(f"target.cluster: stack {stack.name} holds no ParallelCluster")
        return tuple(
            QueueState(
                name=queue["Name"],
                instance_type=resource["InstanceType"],
                capacity_type=queue.get("CapacityType", ON_DEMAND),
                maximum=int(resource["MaxCount"]),
            )
            for queue in configurations[0]["Scheduling"]["SlurmQueues"]
            for resource in queue["ComputeResources"]
        )

    def start_fleet(
        self,
        session: Session,
        cluster: str,
        notify: Notify,
        *,
        sleep: Callable[[float], None] = time.sleep,
        patience_s: float = FLEET_S,
    ) -> None:
        """Start a compute fleet that its guard or a user stopped, and wait until it runs.

        If the fleet does not run in time, Slipway submits the job anyway: the job waits in the queue.

        Raises:
            AwsError: a call failed for a reason other than missing permissions.
        """
        for _ in range(FLEET_TRIES):
            try:
                status = compute_fleet.status(session, cluster)
            except AwsError as problem:
                if not forbidden(problem):
                    raise
                notify(f"whether the compute fleet of {cluster} runs is unknown: these credentials cannot read it")
                return
            if status is None or status not in compute_fleet.STARTABLE:
                break
            notify(f"the compute fleet of {cluster} is {status}: starting it")
            if compute_fleet.request_start(session, cluster, status, datetime.now(UTC)):
                notify("its guard stops it again after guardrails.ttl_h; slipway deploy FILE restarts that period")
                break
        waited = 0.0
        with stage(notify):
            while compute_fleet.status(session, cluster) in ("START_REQUESTED", "STARTING"):
                if waited >= patience_s:
                    notify(
                        f"the fleet is not running after {duration_text(patience_s)}; the job will wait for the fleet"
                    )
                    return
                sleep(FLEET_POLL_S)
                waited += FLEET_POLL_S

    def running_nodes(self, session: Session, cluster: str) -> int | None:
        """The number of nodes that end when the fleet is stopped; None if the fleet is already stopped."""
        if compute_fleet.status(session, cluster) in (None, compute_fleet.STOPPED):
            return None
        return sum(instances.running(session, cluster, ("Compute",)).values())

    def stop_fleet(
        self,
        session: Session,
        cluster: str,
        notify: Notify,
        *,
        sleep: Callable[[float], None] = time.sleep,
        patience_s: float = FLEET_S,
    ) -> None:
        """Stop a compute fleet and wait until it is stopped.

        Raises:
            DeploymentFailedError: the fleet is not stopped within that time.
        """
        waited = 0.0
        with stage(notify, f"stopping the compute fleet of {cluster}"):
            while (status := compute_fleet.status(session, cluster)) not in (None, compute_fleet.STOPPED):
                if status not in ("STOP_REQUESTED", "STOPPING"):
                    compute_fleet.request_stop(session, cluster, str(status), datetime.now(UTC))
                    continue
                if waited >= patience_s:
                    raise DeploymentFailedError(
                        f"the compute fleet of {cluster} is {status} after {duration_text(patience_s)}: "
                        "nothing was deployed",
                        hint=f"pcluster describe-compute-fleet --region {session.region} --cluster-name {cluster}",
                    )
                sleep(FLEET_POLL_S)
                waited += FLEET_POLL_S
