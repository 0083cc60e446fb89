"""The job of a launch, from the cluster that it needs to its end."""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.catalog.regular_file import folder_of
from launcher.model.bundle import Bundle
from launcher.model.job import JobState
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.report import RunStatus
from launcher.model.units import duration_text, number_of
from launcher.pricing.priced import Priced
from launcher.records.run_folder import EVENTS, JOB_FOLDER, RunFolder
from launcher.records.submission import HeadNode, Submission, read_submission
from launcher.rendering.names import checkpoint_uri
from launcher.submit.shell import Shell
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster.capacity_start import CapacityStart
from launcher.workflow.cluster.deployed import ClusterHandle, DeployedCluster, JobRequest
from launcher.workflow.cluster.guard_stop import read_guard_stop
from launcher.workflow.cluster.reach import refuse_unless_answered, removal_of
from launcher.workflow.deploy.account import Account
from launcher.workflow.deploy.deployment import deploys
from launcher.workflow.history.attempts import attempts, last_start, read_events, record_stop
from launcher.workflow.history.run_index import publish
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.cluster_handle import cluster_handle
from launcher.workflow.run.disruption import Undisturbed, disruption_for
from launcher.workflow.run.earlier_step import begin_at, begin_text
from launcher.workflow.run.event_texts import notify_of_event
from launcher.workflow.run.follow import Follower, StopCondition
from launcher.workflow.run.guard_calls import guard_called
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.meter import MeterReader
from launcher.workflow.run.relaunch import prefix_suffix, with_checkpoint_suffix
from launcher.workflow.run.submission_watch import JobCancelledError, Mirror, RemoteWatch, record_lost


def waits_s(plan: Plan) -> float:
    """How long a job may wait for nodes, seconds: the plan's limit plus the time in which the service retries."""
    guard, minutes = target_of(plan.place.target).guard, plan.request.purchase.wait_for_capacity_minutes
    trial_h = max(guard.trial_hours) if guard is not None and deploys(plan) else 0.0
    return minutes * 60 + trial_h * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job of one launch: its plan and files, the account of its cluster, and the log of its progress."""

    priced: Priced
    quoted: Quote
    bundle: Bundle
    # The submission's key.
    key: str
    folder: RunFolder
    options: LaunchOptions
    account: Account
    log: LaunchLog

    @property
    def plan(self) -> Plan:
        """The plan of the job."""
        return self.quoted.plan

    @property
    def target(self) -> DeployedCluster:
        """The kind of cluster that the job runs on."""
        return cluster_of(self.plan)

    @property
    def aws(self) -> Mapping[str, str]:
        """The environment of calls to the job's account."""
        return self.account.environment

    def find_cluster(self) -> ClusterHandle:
        """The job's cluster, deployed if needed; the log notes what was read back.

        Raises:
            SlipwayError: deployment failed, or the cluster does not exist or differs from the priced plan.
        """
        cluster = cluster_handle(self.quoted, self.bundle, self.folder, self._probing_account())
        if cluster.verification is not None:
            self.log.stacks = tuple((stack.name, stack.status) for stack in cluster.verification.stacks)
            self.log.verified = cluster.verification.verified
        self.log.not_emulated = self.account.not_emulated(cluster.verification)
        # A target that starts instances for each job has no scheduler to ask for its name.
        if cluster.verification is not None and not target_of(self.plan.place.target).per_job:
            self.log.scheduler = self.account.scheduler(str(cluster.name)) or self.log.scheduler
        return cluster

    def _probing_account(self) -> Account:
        """The account, with a check that the Kubernetes API answers here before the nodes of a new cluster start."""
        if not (target_of(self.plan.place.target).pods and deploys(self.plan)):
            return self.account
        context = self.account.context
        reach = partial(
            refuse_unless_answered,
            self.plan,
            environment=context.environment,
            notify=self.options.notify,
            deployed=self.target,
        )
        return replace(self.account, context=replace(context, reach=reach))

    def submit(self, cluster: ClusterHandle) -> Submission:
        """Ship the job and submit it."""
        if self.account.stays:
            # A launcher that dies from here on leaves a run that `status` can complete.
            self.log.status = RunStatus.RUNNING
            self.log.write()
            self.log.status = RunStatus.FAILED
        submission = self.target.submit(self._request(cluster))
        self.publish(RunStatus.RUNNING)
        return submission

    def publish(self, status: RunStatus) -> None:
        """Write the run to the index of its store, so that other computers find it; not from a sandbox that ends."""
        if self.account.stays:
            self.log.status = status
            self.log.write()
            publish(self.plan.name, self.folder, self.aws, datetime.now(UTC), self.options.notify)

    def _request(self, cluster: ClusterHandle) -> JobRequest:
        plan, notify, from_step = self.plan, self.options.notify, self.options.from_step
        store = self._store(cluster.names.store_uri, plan.place.region)
        first = self._store(checkpoint_uri(plan, cluster.names), plan.place.region)
        suffix = prefix_suffix(plan, first, self.key if self.options.fresh else None, notify)
        if from_step is not None:
            at = self._store(f"{checkpoint_uri(plan, cluster.names)}{suffix}", plan.place.region)
            notify(begin_text(*begin_at(at, from_step, datetime.now(UTC), notify), what="this job"))
        return JobRequest(
            quoted=self.quoted,
            bundle=with_checkpoint_suffix(self.bundle, suffix),
            checkpoint_suffix=suffix,
            instances=self.priced.catalog.instance_types,
            cluster=cluster,
            shell=partial(self._shell, cluster.head_node, self.key, store),
            key=self.key,
            folder=self.folder,
            workdir=folder_of(Path(self.priced.path)) / plan.request.run.workdir,
            store=store,
            environment=self.aws,
            here=self.options.environment,
            notify=notify,
        )

    def _shell(self, head_node: HeadNode, key: str, store: Objects) -> Shell:
        return self.account.shell(head_node, self.options.environment, key=key, store=store)

    def _store(self, uri: str, region: str | None) -> Objects:
        return Objects.at(Session(environment=self.aws, region=str(region)), uri)

    def follow(self, submission: Submission) -> None:
        """Follow the job to its end; the log has the result."""
        options, log, source_folder = self.options, self.log, self.folder.path / JOB_FOLDER
        log.status = RunStatus.RUNNING
        store = self._store(submission.store_uri, submission.head_node.region)
        shell = partial(self._shell, submission.head_node, submission.key, store)
        with ExitStack() as stack:
            connection = stack.enter_context(closing(self.target.reach(submission, self.aws, shell)))
            capacity_start = self._capacity_start(submission)
            watch = RemoteWatch(
                mirror=Mirror(source=connection.source, job=submission.submitted_job, folder=source_folder),
                poll_s=options.poll_s if options.poll_s is not None else connection.poll_s,
                notify=options.notify,
                waits_s=waits_s(self.plan) + capacity_start.left_s,
                give_up=options.give_up or self._keep_waiting,
                removed=partial(removal_of, submission, options.environment),
                record_lost=partial(record_lost, self.folder, submission, self.aws),
                guard_stop=partial(self._guard_stop, submission),
            )
            stack.callback(watch.close)
            disruption = disruption_for(
                self.plan,
                self.account.losses,
                submission.head_node.host,
                watch,
                folder=self.folder,
                after_s=options.interrupt_after_s,
                notify=options.notify,
            )
            log_file = source_folder / connection.source.log_name(submission.submitted_job)
            follower = self._follower(disruption, log_file)
            stop = StopCondition(is_met=options.stop_when, watch=watch, folder=self.folder, notify=options.notify)
            meters = MeterReader(folder=self.folder, on_reading=options.meter, environment=self.aws)

            def tick() -> None:
                capacity_start.check()
                disruption.check(follower)
                stop.check(follower)
                meters.check()

            with guard_called(self.plan, self.account.losses, options.environment, options.notify):
                try:
                    status = follower.follow(watch.ended, tick=tick)
                except JobCancelledError:
                    # Kubernetes does not remember a cancelled job.
                    replace(submission, cancelled=True).write(self.folder)
                    raise
                finally:
                    log.facts = watch.facts
            log.not_played = disruption.finish()
            log.status = RunStatus.CANCELLED if self._is_cancelled(watch, stop) else status

    def _keep_waiting(self) -> bool:
        """Report that the job has no capacity within the plan's limit; no other candidate takes its place."""
        limit = number_of(self.plan.request.purchase.wait_for_capacity_minutes, "minute")
        ends = f"slipway cancel {self.plan.name} ends it"
        self.options.notify(f"no capacity within {limit}: the job continues to wait; {ends}")
        return False

    def _guard_stop(self, submission: Submission) -> tuple[str, bool]:
        """The guard's reason for stopping the job's nodes, which the run folder keeps, and whether the job waits."""
        began = last_start(attempts(read_events(self.folder.path / JOB_FOLDER / EVENTS)))
        stop = read_guard_stop(submission, self.aws, began)
        return record_stop(self.folder, stop.reason, began, **stop.end), stop.jobs_wait

    def _capacity_start(self, submission: Submission) -> CapacityStart:
        """The start of purchased capacity, which starts the nodes."""
        notify = self.options.notify
        capacity_start = CapacityStart(
            plan=self.plan,
            deployed=self.target,
            session=Session(environment=self.aws, region=self.plan.place.region),
            cluster=str(submission.head_node.host),
            notify=notify,
            # The sandbox emulates the window of a training plan for training jobs alone.
            waits=not self.account.is_simulated or target_of(self.plan.place.target).in_service_network,
        )
        if wait_s := capacity_start.left_s:
            notify(f"the nodes come in {duration_text(wait_s)}, when the reservation starts: following until then")
        capacity_start.done = not wait_s
        return capacity_start

    def _follower(self, disruption: Undisturbed, log_file: Path) -> Follower:
        return Follower(
            job=self.folder.path / JOB_FOLDER,
            folder=self.folder,
            log=log_file,
            on_event=lambda event: notify_of_event(event, self.options.notify),
            on_progress=self.options.progress,
            on_first_checkpoint=disruption.first_checkpoint,
            on_command_started=disruption.command_started,
        )

    def _is_cancelled(self, watch: RemoteWatch, stop: StopCondition) -> bool:
        """Whether the job was cancelled: by the scheduler's report, or, without one, by Slipway's record."""
        if watch.facts is not None:
            return watch.facts.state is JobState.CANCELLED
        known = read_submission(self.folder)
        return stop.over or (known is not None and known.cancelled)
