"""The batch script of a plan and the job description that its agent reads."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from launcher.agent.errors import JobSpecError
from launcher.agent.job import CheckpointSpec, DataSpec, JobSpec, StepSpec
from launcher.model.enums import CheckpointMode, PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.request import Reservation, TrainingPlanReference
from launcher.model.run_spec import RunSpec, Step
from launcher.model.secret import secret_reference
from launcher.model.slurm_step import STEP_DEVICES
from launcher.model.target import BLOCK_LOST_MINUTES
from launcher.planning.files import is_shared
from launcher.planning.secrets import reference_findings
from launcher.rendering.cluster import queue_name
from launcher.rendering.engine import render_template
from launcher.rendering.names import ClusterNames, checkpoint_uri, compile_cache_uri
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.rendering.node import OLD_KERNELS, PYTHONS, efa_check, is_nvidia, script_text
from launcher.rendering.setup_lines import setup_text
from launcher.targets.registry import target_of

AGENT_FILE = "slipway-agent.pyz"
"""The agent's single file, next to job.json in the job folder."""
WORK_FOLDER = "work"
"""The subfolder of the job folder that holds the copy of `run.workdir`; the command starts in it."""
FETCH_FILE = "fetch_work.py"
"""The script that downloads that folder from S3, if it is not shipped with the rest of the job folder."""
FETCH_SCRIPT = "templates/slurm/fetch_work.py"
CONTAINER = "enroot"
"""The meaning of `run.container: auto`: ParallelCluster's images have enroot since 3.11, and no Docker (its
cookbook, pull requests 2820 and 2826, 2024-10)."""
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]*|/[^:\s]*\.sqsh")
_NVME_SCRATCH = "/scratch"
"""The mount point of a node's NVMe disks on ParallelCluster."""
_OTHER_SCRATCH = "${TMPDIR:-/tmp}/slipway-$(id -u)"
"""A separate folder for each user: other users could not write to a folder that the first user creates."""
_TO_THE_STORE_S = 180
"""Before a time limit, in addition to the grace time: 60 s by which Slurm may be late, 120 s for the last upload."""
_LEAVE_MINUTES = 15
"""Minutes between a job's last checkpoint and the time from which AWS reclaims its capacity."""
_MIN_GRACE_S = 0.1
"""The agent's grace time must be above zero; a plan may give 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArchive:
    """The job folder in S3, for pods: its URI, its SHA-256, and its size in bytes, in digits."""

    uri: str
    sha256: str
    size: str


PENDING = JobArchive(uri="s3://not-shipped/job.tar.gz", sha256="0" * 64, size="0")
"""The value in files for preview, and in the archive itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """Settings of a submission in addition to the plan."""

    # The submission's id.
    run: str
    # The save interval in seconds; None to save nothing.
    checkpoint_interval_s: float | None
    # The mean time in seconds between losses of work that the interval was priced with. If set, the interval
    # follows the write time measured on the node; None: the interval is fixed.
    mtbf_s: float | None = None
    # After an interruption notice the agent drains its node in Slurm, so that the job does not return to it.
    drain: bool = True
    # The interval of polls for a notice.
    imds_poll_s: float = 2.0
    # The longest time to store a checkpoint, 0 if unknown.
    checkpoint_write_s: float = 0.0
    # The quote's amounts in dollars for the agent (launcher/agent/forecast.py); None: none.
    quoted: Mapping[str, float] | None = None
    # The job folder that pods download.
    archive: JobArchive = PENDING
    # The number of retries of a failed command, None if no quote gives it.
    retries: int | None = None
    # The high estimate of the job's hours, None without a quote.
    longest_h: float | None = None

    def retries_of(self, run: RunSpec) -> int:
        """The number of retries of a failed command: from the quote, else from the plan."""
        return (run.retries or 0) if self.retries is None else self.retries


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """The agent's view of a job on a node."""

    folder: str
    scratch: str
    # The agent already runs in the plan's image; else the agent starts the command in the image.
    contained: bool
    # Whether Slurm, and the metadata service, are available.
    slurm: bool
    imds: bool
    # Starts the image unless the plan names another runtime.
    runtime: str = CONTAINER


def findings(plan: Plan) -> tuple[Finding, ...]:
    """The job settings of a plan that a Slurm job of this version does not support."""
    run = plan.request.run
    problems = []
    if run.image is not None and not _IMAGE.fullmatch(run.image):
        message = f"must name an image as a registry does, or a .sqsh file by its absolute path, got {run.image}"
        problems.append(error("not-an-image", "run.image", message, "registry/team/trainer:tag, or /fsx/trainer.sqsh"))
    if run.image is not None and run.container == "none":
        message = "nothing may run the image: run.container is none"
        problems.append(
            error("no-container", "run.container", message, "auto, enroot or docker, or leave out run.image")
        )
    if run.image is None and run.container in ("enroot", "docker"):
        message = f"{run.container} is given no image to run"
        problems.append(error("no-image", "run.image", message, "name the image, or leave out run.container"))
    return (*problems, *reference_findings(run))


def batch_script(plan: Plan, *, facts: InstanceType, names: ClusterNames, job: JobSettings) -> str:
    """The batch script of a plan's job."""
    run = plan.request.run
    return render_template(
        "slurm/job.sbatch.j2",
        plan=plan,
        facts=facts,
        partition=queue_name(facts.name),
        time_limit=time_limit(run.time_limit_h),
        warning_s=warning_s(run.time_limit_h, plan.request.checkpoint.grace_seconds),
        agent_file=AGENT_FILE,
        work_folder=WORK_FOLDER,
        fetch_file=FETCH_FILE,
        python=PYTHONS[plan.request.target.os],
        scratch=_NVME_SCRATCH if facts.nvme_gb > 0 else _OTHER_SCRATCH,
        family="neuron" if facts.neuron else "nvidia" if is_nvidia(facts) else None,
        efa_check=efa_check(),
        step_devices=STEP_DEVICES,
        old_kernel=plan.request.target.os in OLD_KERNELS,
        compile_cache_uri=compile_cache_uri(names) if keeps_compiled_programs(facts) else None,
        secrets={variable: secret_reference(text) for variable, text in run.secrets.items()},
        retries=job.retries_of(run),
        workers_per_node=facts.training_workers,
        shutdown_s=max(1, math.ceil(plan.request.checkpoint.grace_seconds)),
        docker=run.image is not None and run.container == "docker",
        auto_resume=target_of(plan.place.target).resumes_jobs,
    )


def time_limit(hours: float | None) -> str | None:
    """A time limit in sbatch's format, days-hours:minutes:seconds, rounded up to a minute.

    >>> time_limit(25.5), time_limit(0.001), time_limit(None)
    ('1-01:30:00', '0-00:01:00', None)
    """
    if hours is None:
        return None
    minutes = math.ceil(hours * 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def warning_s(hours: float | None, grace_s: float) -> int | None:
    """Seconds before its time limit at which a job is notified to save: the grace time plus the upload time.

    At most half of the limit: a job that is notified at its start does no other work.

    >>> warning_s(25.5, 90), warning_s(0.02, 90), warning_s(None, 90)
    (270, 60, None)
    """
    if hours is None:
        return None
    return min(math.ceil(grace_s) + _TO_THE_STORE_S, math.ceil(hours * 60) * 30)


def save_after_s(hours: float | None, grace_s: float) -> float | None:
    """Seconds after its start at which a job is notified to save.

    >>> save_after_s(25.5, 90), save_after_s(None, 90)
    (91530.0, None)
    """
    before_s = warning_s(hours, grace_s)
    return None if hours is None or before_s is None else math.ceil(hours * 60) * 60.0 - before_s


ON_SLURM = NodeView(folder="${SLURM_SUBMIT_DIR}", scratch="${SLIPWAY_SCRATCH}", contained=False, slurm=True, imds=True)
"""The view of a job that a batch script gives the agent."""


def job_spec(plan: Plan, *, names: ClusterNames, job: JobSettings, view: NodeView = ON_SLURM) -> JobSpec:
    """The job description for the agent of a plan's job.

    Raises:
        ImpossibleError: the agent would not accept the description, with all reasons.
    """
    run = plan.request.run
    try:
        return JobSpec(
            run=job.run,
            name=plan.name,
            command=_command(run, run.command, view),
            workdir=f"{view.folder}/{WORK_FOLDER}",
            env=dict(run.env),
            checkpoint=_checkpoint(plan, names=names, job=job),
            scratch=view.scratch,
            events=f"{view.folder}/events.jsonl",
            metrics=f"{view.folder}/metrics.jsonl",
            drain=job.drain and view.slurm,
            imds=view.imds,
            imds_poll_s=job.imds_poll_s,
            ends_at=_ends_at(plan),
            leave_before_s=_leave_before_s(plan),
            save_after_s=None
            if view.contained
            else save_after_s(run.time_limit_h, plan.request.checkpoint.grace_seconds),
            hung_minutes=plan.request.guardrails.hung_minutes or None,
            stop_uri=names.stop_uri,
            quoted=job.quoted,
            message_uri=names.message_uri,
            outputs=tuple(output.path for output in run.results),
            optional_outputs=tuple(output.path for output in run.results if output.optional),
            plan_uri=checkpoint_uri(plan, names) if run.outputs or run.before or run.after or run.data else None,
            before=tuple(_step(run, step, view) for step in run.before),
            after=tuple(_step(run, step, view) for step in run.after),
            data=tuple(
                DataSpec(
                    uri=source.uri.rstrip("/"),
                    path=source.path,
                    shard=source.shard,
                    shared=is_shared(plan.request, source.path),
                )
                for source in run.data
            ),
        )
    except JobSpecError as refusal:
        problems = [error("job-refused", "run", problem) for problem in refusal.problems]
        raise ImpossibleError(f"{plan.name} makes no job", findings=problems) from refusal


def _ends_at(plan: Plan) -> str | None:
    """The end of a Capacity Block or training plan, when AWS reclaims its instances; None for other reservations."""
    reserved: Reservation | TrainingPlanReference | None = None
    if plan.place.option is PurchaseOption.CAPACITY_BLOCK:
        reserved = plan.request.purchase.reservation
    elif plan.place.option is PurchaseOption.TRAINING_PLAN:
        reserved = plan.request.purchase.training_plan
    return None if reserved is None or reserved.ends_at is None else reserved.ends_at.isoformat()


def _leave_before_s(plan: Plan) -> float:
    """Seconds before that end at which a job saves for the last time: 15 minutes before AWS reclaims the instances."""
    minutes = target_of(plan.place.target).lost_minutes(plan.place.option) or BLOCK_LOST_MINUTES
    return (minutes + _LEAVE_MINUTES) * 60.0


def _checkpoint(plan: Plan, *, names: ClusterNames, job: JobSettings) -> CheckpointSpec:
    policy = plan.request.checkpoint
    spec = CheckpointSpec(
        uri=None if policy.mode is CheckpointMode.NONE else policy.own_uri or checkpoint_uri(plan, names),
        mode=policy.mode.value,
        keep=policy.keep,
        grace_seconds=max(policy.grace_seconds, _MIN_GRACE_S),
        mtbf_s=job.mtbf_s,
        max_mb_s=policy.max_mb_s,
        restart=policy.restart.value,
        signal=policy.signal.value,
        layout=policy.layout.value,
        pattern=policy.pattern,
        tracker=None if policy.tracker is None else {"file": policy.tracker.file, "text": policy.tracker.text},
    )
    return spec if job.checkpoint_interval_s is None else replace(spec, interval_s=job.checkpoint_interval_s)


def _step(run: RunSpec, step: Step, view: NodeView) -> StepSpec:
    return StepSpec(command=_command(run, step.command, view), on=step.on.value)


def _command(run: RunSpec, command: tuple[str, ...], view: NodeView) -> tuple[str, ...]:
    """The command, after its set-up lines if it has any, and in its container if it has an image.

    The lines and the command share one shell, so that they can prepare its environment (setup_lines.py).
    """
    if run.setup:
        command = ("bash", "-c", setup_text(run.setup), "setup", *command)
    if run.image is None or view.contained:
        return command
    variables = tuple(run.env) + tuple(run.secrets)
    arguments = (run.container or view.runtime, run.image, str(len(variables)), *variables)
    return ("bash", "-c", script_text("templates/slurm/container.sh"), "container", *arguments, *command)
