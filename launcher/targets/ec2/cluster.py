"""A plan's job on plain instances: its files in the store, and an Auto Scaling group of the wanted size."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType

from launcher.aws import auto_scaling, instances, log_groups
from launcher.aws.auto_scaling import AutoScalingGroup
from launcher.aws.session import CredentialsError, Session, error_code
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeUse, without_health_checks
from launcher.model.ec2 import GROUP_OUTPUT
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError, SecondJobError
from launcher.model.job import Submitted
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.records.submission import API, HeadNode, Submission
from launcher.rendering.blanks import with_names
from launcher.rendering.kubernetes_job import job_name
from launcher.submit.shell import Shell
from launcher.targets.ec2 import readback
from launcher.targets.ec2.files import ENVIRONMENT_FILE, INSTANCE_FILE, log_group
from launcher.workflow.cluster.cluster_access import ClusterAccess, ec2_instances
from launcher.workflow.cluster.deployed import DeployedCluster, JobConnection, JobRequest, Outputs
from launcher.workflow.cluster.instance_jobs import FILES, channel_at, group_of, reach_instances
from launcher.workflow.cluster.readback.training import stack_readers
from launcher.workflow.cluster.shipping import job_archive, ship_work, submission_of

_USES = {auto_scaling.IN_SERVICE: NodeUse.BUSY, "Pending": NodeUse.STARTING, "Standby": NodeUse.DRAINED}
"""Lifecycle states of instances (EC2 Auto Scaling user guide, instance lifecycle); every other one leads to the end."""
END_POLLS, END_POLL_S = 30, 10.0
"""The number and interval (s) of polls until stopped instances have ended: five minutes."""
_LOGS, _LOG_LINES = 16, 1000
"""Instances whose output is read for diagnostics, and lines of each."""


def _refuse_second_job(plan: Plan, group: AutoScalingGroup, name: str) -> None:
    """Refuse a second job on the instances of a running one.

    Raises:
        SecondJobError: another job runs on its instances.
    """
    if group.desired and group.job != name:
        message = f"job {group.job or 'of another launch'} runs on the instances of {plan.cluster_name}"
        hint = f"slipway cancel {plan.name} ends it, or give the second plan another name: it has its own instances"
        raise SecondJobError(message, hint=hint)


class InstancesCluster(DeployedCluster):
    """The group of a job's instances, and the jobs themselves."""

    readers = stack_readers(
        (readback.group, (readback.GROUP_TYPE,)), (readback.template, ("AWS::EC2::LaunchTemplate",))
    )
    instances = MappingProxyType({readback.GROUP_TYPE: readback.group_instances})

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the deployment."""
        return f"instances of {plan.cluster_name}: a launch template and an empty group; {node_text} with each job"

    def head_node(self, plan: Plan, outputs: Outputs, session: Session) -> HeadNode:
        """The API that starts the instances."""
        return HeadNode(via=API, host="EC2 Auto Scaling", region=session.region)

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands that show a plan's instances and their logs."""
        region, group = plan.place.region, outputs[GROUP_OUTPUT]
        return [
            (
                "its instances",
                f"aws autoscaling describe-auto-scaling-groups --region {region} --auto-scaling-group-names {group}",
            ),
            ("their logs", f"aws logs tail {log_group(plan)} --region {region} --follow"),
        ]

    def refuse_second_job(self, plan: Plan, session: Session) -> None:
        """Refuse a launch while a job runs: its deployment could change the instances of the job.

        Raises:
            SecondJobError: a job runs on the instances.
        """
        group = auto_scaling.describe(session, group_of(plan.cluster_name))
        if group is not None:
            _refuse_second_job(plan, group, "")

    def submit(self, request: JobRequest) -> Submission:
        """Ship a job to the store and set the size of its group; report it only after EC2 Auto Scaling has accepted it.

        Raises:
            DeploymentFailedError: another job of the plan runs on its instances, or EC2 Auto Scaling refuses.
            AwsError: a call failed, and Slipway does not know whether the job was started.
        """
        plan, bundle = request.quoted.plan, with_names(request.bundle, request.cluster.names)
        request.folder.write_bundle(bundle)
        session = Session(environment=request.environment, region=plan.place.region)
        name, group = job_name(plan, request.key), group_of(plan.cluster_name)
        state = auto_scaling.describe(session, group)
        if state is None:
            message = f"the instances of {plan.cluster_name} have no Auto Scaling group"
            hint = f"the stack is not complete: slipway down {plan.name}, then launch again"
            raise DeploymentFailedError(message, hint=hint)
        _refuse_second_job(plan, state, name)
        shipment = ship_work(request.workdir, request.store, request.here, datetime.now(UTC), request.notify)
        request.notify(shipment.text())
        channel = channel_at(session, request.cluster.names.store_uri, name)
        with job_archive(bundle, shipment) as (path, agent):
            channel.send(path, f"{FILES}/job.tar.gz")
        for file in (INSTANCE_FILE, ENVIRONMENT_FILE):
            channel.put(f"{FILES}/{file.rpartition('/')[2]}", bundle.file(file).text.encode())
        request.folder.append_event(
            "job-folder-put", where=request.cluster.head_node.text(), folder=channel.uri, agent_sha256=agent
        )
        submission = submission_of(request, request.cluster.head_node, shipment, name)
        submission.write(request.folder)
        try:
            auto_scaling.start(session, group, name, plan.place.nodes)
        except CredentialsError:
            raise
        except AwsError as problem:
            if not error_code(problem):
                raise
            raise DeploymentFailedError(problem.message, hint=problem.hint) from problem
        done = submission.with_job(Submitted(job=name, key=request.key, folder=name))
        done.write(request.folder)
        request.folder.append_event("submitted", job=name, key=request.key)
        types = " or ".join((plan.place.instance_type, *plan.request.target.fallback_types))
        request.notify(f"started: {plan.place.nodes} x {types} for job {name}")
        return done

    def reach(
        self, submission: Submission, environment: Mapping[str, str], shell: Callable[[], Shell]
    ) -> JobConnection:
        """The connection to a job, by the APIs of EC2 Auto Scaling and S3."""
        return reach_instances(submission, environment)

    def instance_counts(self, session: Session, outputs: Outputs) -> Mapping[str, int]:
        """The number of instances of each type."""
        group = auto_scaling.describe(session, outputs[GROUP_OUTPUT])
        return {} if group is None else group.counts

    def empty(self, session: Session, outputs: Outputs, notify: Notify, pause: Callable[[float], None]) -> None:
        """End the instances before the stack deletes the role with which they store checkpoints."""
        name = outputs[GROUP_OUTPUT]
        group = auto_scaling.describe(session, name)
        if group is None or not (group.states or group.desired):
            return
        notify(f"ending {number_of(len(group.states), 'instance')} of {name}: their job saves first")
        auto_scaling.stop(session, name)
        for _ in range(END_POLLS):
            group = auto_scaling.describe(session, name)
            if group is None or not group.states:
                return
            pause(END_POLL_S)

    def nodes(self, access: ClusterAccess) -> tuple[ClusterNode, ...]:
        """The instances of its group in the order of their ranks, each with the job for which the group has them."""
        group = auto_scaling.describe(access.session, access.outputs.get(GROUP_OUTPUT, ""))
        started = {instance.id: instance.launched_at for instance in ec2_instances(access)}
        states = group.states if group is not None else {}
        return tuple(
            ClusterNode(
                name=instance,
                instance=instance,
                instance_type=group.instance_types[instance] if group is not None else "",
                group=group.name if group is not None else "",
                use=_USES.get(states[instance].partition(":")[0], NodeUse.DRAINING),
                state=states[instance],
                reason="",
                job=(group.job or None) if group is not None else None,
                up_since=started.get(instance),
                idle_since=None,
            )
            for instance in instances.oldest_first(states, started)
        )

    def node_effect(self, action: NodeAction, facts: NodeFacts) -> NodeEffect:
        """What a replacement does; an instance of one job has no other state.

        Raises:
            ImpossibleError: the instance runs its job or ends: it cannot be drained, resumed or rebooted.
        """
        if action is NodeAction.CHECK:
            raise without_health_checks()
        if action is not NodeAction.REPLACE:
            reason = (
                "an instance starts its job once, at its first boot"
                if action is NodeAction.REBOOT
                else "an instance starts and ends with its one job"
            )
            raise ImpossibleError(
                f"{action} is not possible on plain instances: {reason}",
                hint="slipway nodes NAME replace NODE gives the job another instance; slipway cancel NAME ends the job",
            )
        job = facts.saves("its instance")
        node = "its group ends it after the job has had time to save, and starts another one"
        cost = f"the new instance costs {facts.new_billed} from its start, also while it boots"
        return NodeEffect(job=job, node=node, cost=cost, ends_job=True)

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Let the group end an instance without lowering its size."""
        auto_scaling.replace(access.session, node.name)

    def diagnostics(self, access: ClusterAccess) -> Mapping[str, str]:
        """The activities of its group, and the end of the output of the instances that wrote last."""
        session, name = access.session, access.outputs[GROUP_OUTPUT]
        texts = {"activities.txt": "\n".join(auto_scaling.activity_lines(session, name))}
        logs = log_group(access.plan)
        try:
            for stream in islice(log_groups.stream_names(session, logs), _LOGS):
                lines = log_groups.last_lines(session, logs, stream, _LOG_LINES)
                texts[f"logs/{stream}.txt"] = "\n".join(lines)
        except AwsError as problem:
            texts["logs.txt"] = problem.message
        return texts

    def boot_output(self, access: ClusterAccess, node: ClusterNode) -> str:
        """The console output of an instance."""
        return instances.console_output(access.session, node.name)
