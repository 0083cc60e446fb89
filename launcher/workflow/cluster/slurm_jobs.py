"""Jobs of Slurm: shipped to a head node through a shell, submitted with sbatch, and polled there."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from launcher.aws import instances
from launcher.aws.session import Session
from launcher.model.bundle import Bundle
from launcher.model.cluster_nodes import (
    ClusterNode,
    NodeAction,
    NodeEffect,
    NodeFacts,
    NodeInstance,
    NodeUse,
    without_health_checks,
)
from launcher.model.errors import DeploymentFailedError
from launcher.model.plan import Plan
from launcher.records.run_folder import RunFolder
from launcher.records.submission import Submission
from launcher.rendering.blanks import with_names
from launcher.rendering.cluster import queue_name
from launcher.rendering.slurm_job import BATCH_FILE
from launcher.submit import slurm_nodes
from launcher.submit.jobs import JobNodes, SchedulerError, UnreachableError
from launcher.submit.nodes import FreeSlurmNodes
from launcher.submit.shell import Shell
from launcher.submit.slurm import Slurm
from launcher.workflow.cluster.cluster_access import ClusterAccess, ec2_instances, with_instances
from launcher.workflow.cluster.deployed import DeployedCluster, JobConnection, JobRequest
from launcher.workflow.cluster.shipping import Shipment, job_archive, ship_work, submission_of

REASON = "changed by a user of Slipway"
"""Slurm's reason of a node that Slipway has changed."""
FOLDER = "slipway"
"""Below the user's home directory: one folder for each submission."""


def node_commands(plan: Plan) -> list[tuple[str, str]]:
    """Commands for a shell on a node that accepts a plan's jobs, each with its purpose."""
    commands = [
        ("node shell, from that shell", f"srun --partition {queue_name(plan.place.instance_type)} --nodes 1 --pty bash")
    ]
    if plan.request.workload.train is not None:
        job = f"sbatch {BATCH_FILE}   (slipway render FILE -o DIR writes it with all it needs)"
        commands.append(("submit the job, from that shell", job))
    return commands


class SlurmCluster(DeployedCluster):
    """A cluster whose head node accepts Slurm jobs through a shell."""

    # What becomes of a node once it is drained, and of one that is replaced.
    after_drain = "it accepts no job until slipway nodes NAME resume NODE"
    after_replace: str
    # Whether a drained node stays, so that it is billed without a job.
    drained_stays = False

    def submit(self, request: JobRequest) -> Submission:
        """Ship and submit; report it only when Slurm has given the job an id.

        Raises:
            DeploymentFailedError: Slurm did not accept the job, or the result is unknown.
            SchedulerError: the head node does not answer, or has no such nodes.
        """
        plan, folder = request.quoted.plan, request.folder
        bundle = with_names(request.bundle, request.cluster.names)
        folder.write_bundle(bundle)
        session = Session(environment=request.environment, region=plan.place.region)
        if request.cluster.outputs is not None:
            self.start(request.cluster.outputs, session, request.notify)
        with closing(request.shell()) as shell:
            slurm = Slurm(shell=shell)
            # Cheap questions first: a cluster without such nodes needs nothing shipped.
            partition = slurm.partition(queue_name(plan.place.instance_type), plan.place.instance_type)
            shipment = ship_work(request.workdir, request.store, request.here, datetime.now(UTC), request.notify)
            request.notify(shipment.text())
            if request.cluster.name is not None:
                self.start_fleet(session, request.cluster.name, request.notify)
            submission = submission_of(request, request.cluster.head_node, shipment)
            try:
                done = submit_batch(slurm, bundle, shipment, submission, folder=folder, partition=partition)
            except SchedulerError as problem:
                raise DeploymentFailedError(problem.message, hint=problem.hint) from problem
        request.notify(f"submitted: job {done.job} on {request.cluster.head_node.text()}, partition {partition}")
        return done

    def reach(
        self, submission: Submission, environment: Mapping[str, str], shell: Callable[[], Shell]
    ) -> JobConnection:
        """The connection to Slurm through a head node."""
        remote_shell = shell()
        return JobConnection(source=Slurm(shell=remote_shell), poll_s=remote_shell.poll_s, close=remote_shell.close)

    def nodes(self, access: ClusterAccess) -> tuple[ClusterNode, ...]:
        """The nodes that Slurm knows, with their instances."""
        with access.shell() as shell:
            listed = slurm_nodes.read_nodes(shell)
        return with_instances(listed, self.node_instances(access), access.placed())

    def node_instances(self, access: ClusterAccess) -> tuple[NodeInstance, ...]:
        """The instances of its nodes."""
        return ec2_instances(access)

    def node_effect(self, action: NodeAction, facts: NodeFacts) -> NodeEffect:
        """What an action on a node does: Slurm lets a job end before a drain and a reboot, and not before `down`."""
        match action:
            case NodeAction.DRAIN:
                until = "as long as it is drained" if self.drained_stays else "until its instance ends"
                return NodeEffect(job=facts.continues, node=self.after_drain, cost=f"{facts.usd_text} {until}")
            case NodeAction.REBOOT:
                node = "it reboots once no job runs on it, keeps its instance, and accepts jobs again"
                return NodeEffect(job=facts.continues, node=node, cost=f"{facts.usd_text}, also while it reboots")
            case NodeAction.REPLACE:
                cost = f"the new instance is billed at {facts.usd_text} from its start, also while it boots"
                return NodeEffect(job=facts.loses, node=self.after_replace, cost=cost, ends_job=True)
            case NodeAction.RESUME:
                return NodeEffect(job=facts.keeps, node="it accepts jobs again", cost=f"{facts.usd_text}, as before")
            case NodeAction.CHECK:
                raise without_health_checks()

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Ask Slurm; the service behind it starts and ends instances by Slurm's states."""
        with access.shell() as shell:
            match action:
                case NodeAction.DRAIN:
                    slurm_nodes.drain(shell, node.name, REASON)
                case NodeAction.REBOOT:
                    slurm_nodes.reboot(shell, node.name, REASON)
                case NodeAction.REPLACE:
                    slurm_nodes.mark_down(shell, node.name, REASON)
                case NodeAction.RESUME:
                    slurm_nodes.resume(shell, node.name)
                case NodeAction.CHECK:
                    raise without_health_checks()

    @contextmanager
    def free_nodes(self, access: ClusterAccess, nodes: Sequence[ClusterNode]) -> Iterator[JobNodes]:
        """Access to nodes as jobs of their own, and over ssh where Slurm gives no job to a node."""
        # A node that starts will accept the job: srun waits for it.
        idle = {node.name: node.group for node in nodes if node.use in (NodeUse.IDLE, NodeUse.STARTING)}
        names = [node.name for node in nodes if node.use is not NodeUse.OFF]
        with access.shell() as shell:
            yield FreeSlurmNodes(head=shell, job="", folder="", names=tuple(names), partitions=idle)

    def diagnostics(self, access: ClusterAccess) -> Mapping[str, str]:
        """What Slurm says of its nodes, queue, configuration and jobs, and the end of its controller's log."""
        with access.shell() as shell:
            return slurm_nodes.diagnostics(shell)

    def boot_output(self, access: ClusterAccess, node: ClusterNode) -> str:
        """The console output of its instance in EC2."""
        return "" if node.instance is None else instances.console_output(access.session, node.instance)


def submit_batch(
    slurm: Slurm, bundle: Bundle, shipment: Shipment, submission: Submission, *, folder: RunFolder, partition: str
) -> Submission:
    """Copy the job folder to the head node and submit its batch script; return the submission with its job.

    The record is written before and after: a launcher that ends in between leaves a record that `find_submission`
    completes.

    Raises:
        UnreachableError: it is unknown whether Slurm accepted the job.
        SchedulerError: Slurm did not accept it.
    """
    with job_archive(bundle, shipment) as (archive, agent):
        place = _put(slurm.shell, archive, f"{FOLDER}/{submission.key}")
    folder.append_event("job-folder-put", where=submission.head_node.text(), folder=place, agent_sha256=agent)
    placed = replace(submission, folder=place)
    placed.write(folder)
    done = placed.with_job(slurm.submit(placed.key, place, BATCH_FILE, partition=partition))
    done.write(folder)
    folder.append_event("submitted", job=done.job, key=done.key)
    return done


def _put(shell: Shell, archive: Path, folder: str) -> str:
    """Copy a folder; once more if the connection was lost: a complete copy is kept."""
    try:
        return shell.put(archive, folder)
    except UnreachableError:
        return shell.put(archive, folder)
