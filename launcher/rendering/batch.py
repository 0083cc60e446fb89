"""The batch script of a plan and the job description that its agent reads."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from launcher.agent.errors import JobSpecError
from launcher.agent.job import CheckpointSpec, JobSpec
from launcher.model.enums import CheckpointMode
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.rendering.cluster import queue_name
from launcher.rendering.contexts import BatchContext, SecretContext
from launcher.rendering.engine import rendered
from launcher.rendering.names import ClusterNames, checkpoint_uri, compile_cache_uri
from launcher.rendering.node import OLD_KERNELS, PYTHONS, is_neuron, is_nvidia, script_text

AGENT_FILE = "slipway-agent.pyz"
"""The agent's one file, beside job.json in the job folder."""
WORK_FOLDER = "work"
"""The folder of the job folder that `run.workdir` is copied to; the command starts in it."""
EFA_CHECK = "templates/slurm/check_efa.sh"
_JOB_FOLDER = "${SLURM_SUBMIT_DIR}"
_NVME_SCRATCH = "/scratch"
"""Where ParallelCluster mounts a node's NVMe disks."""
_OTHER_SCRATCH = "${TMPDIR:-/tmp}/slipway"
_LEAST_GRACE_S = 0.1
"""The agent's grace time is above zero; a plan may say 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSettings:
    """What a submission decides beside the plan: its id, and how often to save (seconds; None where nothing is saved).

    `drain` has the agent drain its node in Slurm when an interruption is announced, so that the job does not land on it
    again. `imds_poll_s` is the time between two looks for a notice.
    """

    run: str
    checkpoint_interval_s: float | None
    drain: bool = True
    imds_poll_s: float = 2.0


def findings(plan: Plan) -> tuple[Finding, ...]:
    """What a plan asks of its job that a Slurm job of this version does not do."""
    run = plan.request.run
    found = []
    if run.image is not None:
        message = "the command runs on the node itself, not in a container"
        found.append(error("no-container", "run.image", message, "install what it needs in run.setup, or bake an ami"))
    for name, arn in run.secrets.items():
        if arn.split(":")[2:3] not in (["secretsmanager"], ["ssm"]):
            message = f"must be the ARN of a secret or of a parameter, got {arn}"
            found.append(
                error("not-a-secret", f"run.secrets.{name}", message, "arn:aws:secretsmanager:... or arn:aws:ssm:...")
            )
    return tuple(found)


def batch_context(plan: Plan, *, instances: Mapping[str, InstanceType], names: ClusterNames) -> BatchContext:
    """Every decision of a plan's batch script."""
    facts, run = instances[plan.place.instance_type], plan.request.run
    return BatchContext(
        job_name=plan.name,
        partition=queue_name(facts.name),
        region=plan.place.region,
        nodes=plan.place.nodes,
        time_limit=time_limit(run.time_limit_h),
        agent_file=AGENT_FILE,
        work_folder=WORK_FOLDER,
        python=PYTHONS[plan.request.target.os],
        scratch=_NVME_SCRATCH if facts.nvme_gb > 0 else _OTHER_SCRATCH,
        instance_type=facts.name,
        family="neuron" if is_neuron(facts) else "nvidia" if is_nvidia(facts) else None,
        efa_interfaces=facts.efa_interfaces,
        efa_check=efa_check(),
        old_kernel=plan.request.target.os in OLD_KERNELS,
        # TorchNeuron compiles in the process; only the XLA way of trn1 reads this cache.
        compile_cache_uri=compile_cache_uri(names) if facts.family.startswith("trn1") else None,
        secrets=tuple(_secret(variable, arn) for variable, arn in run.secrets.items()),
        retries=run.retries,
    )


def efa_check() -> str:
    """The shell function that counts a node's EFA interfaces."""
    return script_text(EFA_CHECK).rstrip("\n")


def time_limit(hours: float | None) -> str | None:
    """A time limit as sbatch has it, days-hours:minutes:seconds, rounded up to a minute.

    >>> time_limit(25.5), time_limit(0.001), time_limit(None)
    ('1-01:30:00', '0-00:01:00', None)
    """
    if hours is None:
        return None
    minutes = math.ceil(hours * 60)
    return f"{minutes // 1440}-{minutes // 60 % 24:02}:{minutes % 60:02}:00"


def _secret(variable: str, arn: str) -> SecretContext:
    """A secret by its ARN: arn:partition:service:region:account:..."""
    _, _, service, region, *_ = arn.split(":")
    return SecretContext(variable=variable, service=service, arn=arn, region=region)


def batch_script(context: BatchContext) -> str:
    """The text of the batch script."""
    return rendered("slurm/job.sbatch.j2", context)


def job_spec(plan: Plan, *, names: ClusterNames, job: JobSettings) -> JobSpec:
    """What the agent of a plan's job is told.

    Raises:
        ImpossibleError: the agent would not take it, with all reasons.
    """
    run = plan.request.run
    env = dict(run.env)
    if plan.request.checkpoint.mode is CheckpointMode.DCP:
        env.setdefault("SLIPWAY_CHECKPOINT_URI", checkpoint_uri(plan, names))
    try:
        return JobSpec(
            run=job.run,
            name=plan.name,
            command=_command(run.setup, run.command),
            workdir=f"{_JOB_FOLDER}/{WORK_FOLDER}",
            env=env,
            checkpoint=_checkpoint(plan, names=names, job=job),
            scratch="${SLIPWAY_SCRATCH}",
            events=f"{_JOB_FOLDER}/events.jsonl",
            metrics=f"{_JOB_FOLDER}/metrics.jsonl",
            drain=job.drain,
            imds_poll_s=job.imds_poll_s,
        )
    except JobSpecError as refusal:
        found = [error("job-refused", "run", problem) for problem in refusal.problems]
        raise ImpossibleError(f"{plan.name} makes no job", findings=found) from refusal


def _checkpoint(plan: Plan, *, names: ClusterNames, job: JobSettings) -> CheckpointSpec:
    """A plan's checkpoint policy as the agent has it; a trainer that writes to S3 itself needs nothing of the agent."""
    policy = plan.request.checkpoint
    by_agent = policy.mode is CheckpointMode.AGENT
    spec = CheckpointSpec(
        uri=checkpoint_uri(plan, names) if by_agent else None,
        mode="agent" if by_agent else "none",
        keep=policy.keep,
        grace_seconds=max(policy.grace_seconds, _LEAST_GRACE_S),
        max_mb_s=policy.max_mb_s,
    )
    return spec if job.checkpoint_interval_s is None else replace(spec, interval_s=job.checkpoint_interval_s)


def _command(setup: tuple[str, ...], command: tuple[str, ...]) -> tuple[str, ...]:
    """The command, behind its set-up lines when there are any: one shell, so that they can prepare its environment."""
    if not setup:
        return command
    script = "\n".join(("set -euo pipefail", *setup, 'exec "$@"'))
    return ("bash", "-c", script, "setup", *command)
