"""A deployed HyperPod cluster with Slurm: its description, its controller, access commands, return of its workers."""

import shlex
from collections.abc import Container, Mapping
from types import MappingProxyType

from launcher.agent import safe_json
from launcher.aws import hyperpod
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeInstance
from launcher.model.enums import PREPAID
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.model.hyperpod import CONTROLLER, SHARED_HOME, USER
from launcher.model.plan import Plan
from launcher.model.service_updates import HYPERPOD_TYPE
from launcher.model.stages import Notify
from launcher.records.submission import HeadNode
from launcher.rendering.cluster import cluster_name, queue_name
from launcher.rendering.slurm_job import BATCH_FILE
from launcher.submit.session import connect_command, missing_program
from launcher.targets.hyperpod_slurm import readback
from launcher.workflow.cluster import hyperpod_nodes
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.deployed import Outputs
from launcher.workflow.cluster.readback.training import stack_readers
from launcher.workflow.cluster.slurm_jobs import SlurmCluster


class HyperPodSlurmCluster(SlurmCluster):
    """A deployed HyperPod cluster with Slurm."""

    after_replace = hyperpod_nodes.REPLACED
    drained_stays = True
    readers = stack_readers(
        (readback.cluster, (HYPERPOD_TYPE,)),
        (readback.file_systems, ("AWS::FSx::FileSystem",)),
        (readback.data_links, ("AWS::FSx::DataRepositoryAssociation",)),
    )
    instances = MappingProxyType({HYPERPOD_TYPE: readback.group_instances})

    def refuse_job(self, plan: Plan, environment: Mapping[str, str]) -> None:
        """Accept only a plan whose job can be submitted from this computer; runs before any deployment.

        Raises:
            ImpossibleError: the job is for HyperPod, and this computer cannot reach it; the hint names the alternative.
        """
        if plan.request.target.ssh_host is not None:
            return
        if plan.request.target.cluster is not None:
            message = f"target.cluster: jobs are sent only to the plan's own HyperPod cluster, got {plan.cluster_name}"
            raise ImpossibleError(
                message, hint="launch with the cluster's own plan, or name its login node in ssh_host"
            )
        lacking = missing_program(environment)
        if lacking is not None:
            name, region = cluster_name(plan), plan.place.region
            target = f"sagemaker-cluster:ID_{CONTROLLER}-INSTANCE"
            by_hand = f"{connect_command(target, region)}; sbatch job.sbatch"
            hint = f"install it; or slipway deploy FILE, and by hand on {name}: {by_hand}"
            message = f"{lacking} is not installed, and jobs reach HyperPod through sessions of Systems Manager alone"
            raise ImpossibleError(message, hint=hint)

    def head_node(self, plan: Plan, outputs: Outputs, session: Session) -> HeadNode:
        """The controller of a deployed cluster, from the outputs of its training stack.

        Raises:
            DeploymentFailedError: no controller runs.
            AwsError: AWS does not report the controller.
        """
        running = hyperpod.instances(session, outputs["ClusterName"], CONTROLLER)
        if not running:
            raise DeploymentFailedError(f"the controller of {outputs['ClusterName']} is not running")
        target = f"sagemaker-cluster:{outputs['ClusterId']}_{CONTROLLER}-{running[0]}"
        return HeadNode(via="session", instance=target, region=outputs["Region"], user=USER)

    def refuse_busy(self, session: Session, cluster: str, changed: Container[str], rate: str) -> None:
        """Refuse changes of the cluster while deep health checks run."""
        hyperpod_nodes.refuse_during_checks(session, cluster, changed, rate)

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the cluster to be deployed."""
        return f"HyperPod cluster {plan.cluster_name}: controller ml.{head}, workers {node_text}, up from the start"

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands to access the cluster, each with its purpose: its nodes are reachable only by sessions."""
        commands = [
            ("shell on the controller", f"{outputs['Connect']}, then: sudo su - {USER}"),
            (
                "worker shell, from that shell",
                f"srun --partition {queue_name(plan.place.instance_type)} --nodes 1 --pty bash",
            ),
        ]
        if plan.request.workload.train is not None:
            commands.append(
                (
                    "submit the job, from that shell",
                    f"sbatch {BATCH_FILE}   (in a folder of {SHARED_HOME}; slipway render FILE -o DIR writes it)",
                )
            )
        if plan.place.option not in PREPAID:
            commands.append(("start the workers after a stop", "the command in StartFleet, above"))
        return commands

    def start(self, outputs: Outputs, session: Session, notify: Notify) -> None:
        """Let HyperPod create the workers again if the guard has deleted them, as the output StartFleet specifies.

        Raises:
            AwsError: a call failed; missing permissions to read the cluster are a message only.
        """
        arguments = shlex.split(outputs["StartFleet"])
        given = dict(zip(arguments[3::2], arguments[4::2], strict=True))
        cluster, groups = given["--cluster-name"], safe_json.loads(given["--instance-groups"])
        try:
            current = hyperpod.describe_cluster(session, cluster).groups
        except AwsError as problem:
            if not forbidden(problem):
                raise
            notify(f"whether the workers of {cluster} are stopped is unknown: these credentials cannot read it")
            return
        if any(current[group["InstanceGroupName"]].desired < group["InstanceCount"] for group in groups):
            hyperpod_nodes.refuse_during_checks(session, cluster, {HYPERPOD_TYPE})
            hyperpod.resize(session, cluster, groups)
            notify(f"the workers of {cluster} were stopped: starting them; they are billed from now on")

    def instance_counts(self, session: Session, outputs: Outputs) -> Mapping[str, int]:
        """The running instances of its groups, by type."""
        return hyperpod.instances_of(session, outputs)

    def node_instances(self, access: ClusterAccess) -> tuple[NodeInstance, ...]:
        """The instances of its nodes, as SageMaker lists them."""
        return hyperpod_nodes.node_instances(access)

    def node_effect(self, action: NodeAction, facts: NodeFacts) -> NodeEffect:
        """What an action on a node does: SageMaker reboots and replaces instances at once, whatever runs on them."""
        hyperpod_nodes.refuse_checked(action, facts.node)
        if action is NodeAction.CHECK:
            return hyperpod_nodes.check_effect(facts)
        effect = super().node_effect(action, facts)
        if action is NodeAction.REBOOT:
            return NodeEffect(job=facts.loses, node=hyperpod_nodes.REBOOTED, cost=effect.cost, ends_job=True)
        return effect

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Ask Slurm to drain and resume, and SageMaker to reboot, replace and check."""
        if action in (NodeAction.DRAIN, NodeAction.RESUME):
            super().change_node(action, node, access)
        else:
            hyperpod_nodes.change(action, node, access)

    def boot_output(self, access: ClusterAccess, node: ClusterNode) -> str:
        """The output of the scripts at the start of its instance."""
        return hyperpod_nodes.boot_output(access, node)
