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
from launcher.records.run_folder import RunFolder, earlier_runs
from launcher.records.submission import recorded
from launcher.rendering.cluster import owner_in
from launcher.rendering.names import FRESH_FOLDER, OUTPUTS, stack_name
from launcher.rendering.slurm_job import JOB_FILE
from launcher.workflow.deploy.steps import DeployContext, DeployTarget
from launcher.workflow.run.checkpoints import survey
from launcher.workflow.run.checkpoints_transfer import writer
from launcher.workflow.run.status import GOING_ON, run_state

_BUCKET = "BucketName"
"""The output of a stack of checkpoints, which stays when its cluster goes."""
_POINTER = f"{FRESH_FOLDER}/newest"
"""Beside a plan's first checkpoints: the key of the newest launch that began anew."""
_OWNER = f"{FRESH_FOLDER}/owner"
"""Beside them too: who launched the newest of the jobs that write them."""
_KEPT = (CheckpointMode.AGENT, CheckpointMode.DCP)


def refuse_fresh(plan: Plan) -> None:
    """Refuse to begin anew where Slipway keeps no checkpoints.

    Raises:
        ImpossibleError: it does not.
    """
    if plan.request.checkpoint.mode not in _KEPT:
        mode = plan.request.checkpoint.mode.value
        raise ImpossibleError(
            f"--fresh: checkpoint.mode is {mode}, so Slipway stores no checkpoints to resume from",
            hint="remove --fresh; with mode own, set another checkpoint.uri",
        )


def prefix_suffix(plan: Plan, first: Objects, key: str | None, notify: Notify) -> str:
    """Where below a plan's first checkpoints this launch's go: "", or what begins with a slash.

    `key` is given for a launch that begins anew; later launches go on from it.

    Raises:
        AwsError: that it starts again cannot be written down.
    """
    if plan.request.checkpoint.mode not in _KEPT:
        return ""
    try:
        mine = _owner(plan, first.session)
        if mine not in (None, _signed(first)):
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


def put_below(bundle: Bundle, below: str) -> Bundle:
    """The files, with the job's checkpoints at a place below."""
    if not below:
        return bundle
    job = safe_json.loads(bundle.file(JOB_FILE).text)
    job["checkpoint"]["uri"] += below
    return bundle.with_text(JOB_FILE, json.dumps(job, indent=2, sort_keys=True) + "\n")


def _newest(first: Objects) -> str:
    if first.find(_POINTER) is None:
        return ""
    return f"/{FRESH_FOLDER}/{first.read(_POINTER).decode()}"


def _owner(plan: Plan, session: Session) -> str | None:
    """The plan's tag `owner`, else the user behind the credentials; None where a shared role launches."""
    return owner_in(plan.request.tags) or identity.caller(session).person


def _signed(first: Objects) -> str | None:
    return first.read(_OWNER).decode(errors="replace") if first.find(_OWNER) is not None else None


def reminding(
    target: DeployTarget, plan: Plan, now: datetime, folder: RunFolder, *, fresh: bool, second: Callable[[str], None]
) -> DeployTarget:
    """The target, which tells before its question what the job will find in its store, and which job still runs.

    `second` is asked, and raises where somebody says no, before a job is submitted beside one of the same plan.
    """
    if target.emulator is not None and target.emulator.record is None:
        return target
    context = target.context

    def approve() -> None:
        for line in earlier_run_lines(plan, context, now, fresh=fresh):
            context.notify(line)
        if (running := _running_job(plan.name, folder, context)) is not None:
            context.notify(f"warning: {running} (slipway attach {plan.name}, slipway cancel {plan.name})")
            second(f"submit a second job of {plan.name} beside it")
        context.approve()

    return replace(target, context=replace(context, approve=approve))


def _running_job(name: str, folder: RunFolder, context: DeployContext) -> str | None:
    """The plan's newest job from this folder, where it waits or runs still; an unknown one is told."""
    before = next((run for run in earlier_runs(name, folder) if recorded(run) is not None), None)
    if before is None:
        return None
    try:
        state = run_state(name, before, context.environment)
    except SlipwayError as problem:
        context.notify(f"warning: whether run {before.path.name} of this plan still runs is unknown: {problem.message}")
        return None
    if state.status not in GOING_ON or state.submission is None:
        return None
    return f"job {state.submission.job} of this plan, run {before.path.name}, is {state.status}"


def earlier_run_lines(plan: Plan, context: DeployContext, now: datetime, *, fresh: bool = False) -> Iterator[str]:
    """What is in the place of a plan's checkpoints, in lines; none where nothing is, or the trainer keeps its own."""
    if plan.request.checkpoint.mode not in _KEPT:
        return
    session = Session(environment=context.environment, region=plan.place.region)
    uri = None
    try:
        uri = _place(plan, session)
        if uri is None:
            return
        first = Objects.at(session, uri)
        theirs = _signed(first)
        mine = _owner(plan, session) if theirs is not None else None
        uri += _newest(first)
        store = Objects.at(session, uri)
        run, newest = writer(store, now), next((checkpoint for checkpoint in survey(store) if checkpoint.whole), None)
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
        else:
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
