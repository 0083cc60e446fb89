"""Earlier launches of the same plan: checkpoints to resume from, and a job that still runs."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime

from launcher.agent import safe_json
from launcher.aws import identity, stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.bundle import Bundle
from launcher.model.enums import CheckpointMode
from launcher.model.errors import AwsError, ImpossibleError, SlipwayError
from launcher.model.monitoring import JOBS_PREFIX
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.records.run_folder import RunFolder
from launcher.rendering.cluster import owner_in
from launcher.rendering.names import FRESH_FOLDER, OUTPUTS, stack_name
from launcher.rendering.slurm_job import JOB_FILE
from launcher.targets.clusters import cluster_of
from launcher.workflow.deploy.account import Account
from launcher.workflow.deploy.context import DeployContext
from launcher.workflow.run.checkpoints import survey
from launcher.workflow.run.checkpoints_transfer import writer
from launcher.workflow.run.earlier_step import begin_text, earlier
from launcher.workflow.run.status import earlier_running_job

_BUCKET = "BucketName"
"""The output of a checkpoint stack, which remains after its cluster is removed."""
_POINTER = f"{FRESH_FOLDER}/newest"
"""Next to a plan's first checkpoints: the key of the newest launch with --fresh."""
_OWNER = f"{FRESH_FOLDER}/owner"
"""Next to it: who launched the newest job that writes these checkpoints."""
_AGENT_MODES = (CheckpointMode.AGENT, CheckpointMode.DCP)


def refuse_fresh(plan: Plan) -> None:
    """Refuse --fresh if Slipway stores no checkpoints.

    Raises:
        ImpossibleError: Slipway stores none.
    """
    if plan.request.checkpoint.mode not in _AGENT_MODES:
        mode = plan.request.checkpoint.mode.value
        raise ImpossibleError(
            f"--fresh: checkpoint.mode is {mode}, so Slipway stores no checkpoints to resume from",
            hint="remove --fresh; with mode own, set another checkpoint.uri",
        )


def prefix_suffix(plan: Plan, first: Objects, key: str | None, notify: Notify) -> str:
    """The suffix of this launch's checkpoint prefix: "", or a path that begins with a slash.

    `key` is set for a launch with --fresh; later launches continue from its checkpoints.

    Raises:
        AwsError: the record of the fresh start cannot be written.
    """
    if plan.request.checkpoint.mode not in _AGENT_MODES:
        return ""
    try:
        mine = _owner(plan, first.session)
        if mine not in (None, _read_owner(first)):
            first.put(_OWNER, str(mine).encode())
    except AwsError as problem:
        notify(f"warning: cannot record the owner of this run next to its checkpoints: {problem.message}")
    if key is not None:
        first.put(_POINTER, key.encode())
        return f"/{FRESH_FOLDER}/{key}"
    try:
        return _newest(first)
    except AwsError as problem:
        notify(f"warning: cannot read whether a launch with --fresh uses another prefix: {problem.message}")
        return ""


def with_checkpoint_suffix(bundle: Bundle, suffix: str) -> Bundle:
    """The files, with the job's checkpoints at a path below their prefix."""
    if not suffix:
        return bundle
    job = safe_json.loads(bundle.file(JOB_FILE).text)
    job["checkpoint"]["uri"] += suffix
    return bundle.with_text(JOB_FILE, json.dumps(job, indent=2, sort_keys=True) + "\n")


def _newest(first: Objects) -> str:
    if first.find(_POINTER) is None:
        return ""
    return f"/{FRESH_FOLDER}/{first.read(_POINTER).decode()}"


def _owner(plan: Plan, session: Session) -> str | None:
    """The plan's tag `owner`, else the user of the credentials; None for a shared role."""
    return owner_in(plan.request.tags) or identity.caller(session).person


def _read_owner(first: Objects) -> str | None:
    return first.read(_OWNER).decode(errors="replace") if first.find(_OWNER) is not None else None


def with_earlier_runs_warning(
    account: Account,
    plan: Plan,
    now: datetime,
    folder: RunFolder,
    *,
    fresh: bool,
    second: Callable[[str], None],
    from_step: int | None = None,
) -> Account:
    """The account, with a report before its question: the checkpoints that the job will find, a job that still runs.

    A job that cannot run beside a running one is refused. `second` is called before a job is submitted while another
    job of the plan runs, and raises if the user declines.

    Raises:
        ImpossibleError: the job is to begin at a step, in a sandbox that begins empty.
        SecondJobError: a job of the plan runs, and its target runs one at a time.
    """
    if not account.stays:
        if from_step is not None:
            raise ImpossibleError(
                f"--from-step {from_step}: the sandbox of this launch begins without checkpoints",
                hint="start one that stays between launches: slipway sandbox start",
            )
        return account
    context = account.context

    def approve() -> None:
        if from_step is not None:
            context.notify(from_step_text(plan, context, from_step))
        for line in earlier_run_lines(plan, context, now, fresh=fresh, from_step=from_step):
            context.notify(line)
        cluster_of(plan).refuse_second_job(plan, Session(environment=context.environment, region=plan.place.region))
        if (running := _running_job(plan.name, folder, context)) is not None:
            context.notify(f"warning: {running} (slipway attach {plan.name}, slipway cancel {plan.name})")
            second(f"submit a second job of {plan.name} beside it")
        context.approve()

    return replace(account, context=replace(context, approve=approve))


def from_step_text(plan: Plan, context: DeployContext, step: int) -> str:
    """What a launch with --from-step will do.

    Raises:
        ImpossibleError: the store has no complete checkpoint of that step.
    """
    session = Session(environment=context.environment, region=plan.place.region)
    uri = _place(plan, session)
    if uri is None:
        raise ImpossibleError(
            f"--from-step {step}: {plan.name} has stored no checkpoint yet", hint="remove --from-step"
        )
    store = Objects.at(session, f"{uri}{_newest(Objects.at(session, uri))}")
    return begin_text(*earlier(store, step), what="this job")


def _running_job(name: str, folder: RunFolder, context: DeployContext) -> str | None:
    """The plan's newest job from this folder, if it waits or runs; reports a job whose state is unknown."""
    state = earlier_running_job(name, folder, context.environment, context.notify)
    if state is None or state.submission is None:
        return None
    return f"job {state.submission.job} of this plan, run {state.run}, is {state.status}"


def earlier_run_lines(
    plan: Plan, context: DeployContext, now: datetime, *, fresh: bool = False, from_step: int | None = None
) -> Iterator[str]:
    """Lines about existing checkpoints of a plan; none without checkpoints, or if the trainer stores its own."""
    if plan.request.checkpoint.mode not in _AGENT_MODES:
        return
    session = Session(environment=context.environment, region=plan.place.region)
    uri = None
    try:
        uri = _place(plan, session)
        if uri is None:
            return
        first = Objects.at(session, uri)
        theirs = _read_owner(first)
        mine = _owner(plan, session) if theirs is not None else None
        uri += _newest(first)
        store = Objects.at(session, uri)
        run, newest = (
            writer(store, now),
            next((checkpoint for checkpoint in survey(store) if checkpoint.in_the_running), None),
        )
    except SlipwayError as problem:
        yield f"warning: what {uri or 'the store'} contains from earlier launches is unknown: {problem.message}"
        return
    if run is not None and not fresh:
        yield (
            f"warning: {run} writes to this checkpoint store now: until it ends, this job is refused (slipway "
            f"status {plan.name}, slipway cancel {plan.name}): {uri}"
        )
    if mine is not None and mine != theirs:
        yield f"warning: {theirs} launched this plan last, not {mine}: this job resumes from that run"
    if newest is not None:
        of_run = f" of run {newest.run}" if newest.run is not None else ""
        yield f"in the store: {newest.unit} {newest.step}{of_run}"
        if fresh:
            yield "  it stays; this job starts at step 0, and later launches continue from this job"
        elif from_step is None:
            yield "  this job resumes from it; --fresh starts at step 0 and deletes nothing"
        yield f"  {uri}"


def _place(plan: Plan, session: Session) -> str | None:
    named = plan.request.checkpoint.uri
    if named is not None:
        return named.rstrip("/")
    cluster = stacks.find(session, stack_name(plan, "training"))
    if cluster is not None and OUTPUTS["store_uri"] in cluster.outputs:
        return f"{cluster.outputs[OUTPUTS['store_uri']].rstrip('/')}/{plan.name}"
    stack_state = stacks.find(session, stack_name(plan, "checkpoints"))
    return (
        f"s3://{stack_state.outputs[_BUCKET]}/{JOBS_PREFIX}/{plan.name}"
        if stack_state and _BUCKET in stack_state.outputs
        else None
    )
