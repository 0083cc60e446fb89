"""A job begins at an earlier checkpoint: later ones are taken out of the running, and nothing is deleted."""

from datetime import datetime

from launcher.agent.checkpoint_keys import commit_keys
from launcher.agent.withdrawn import WITHDRAWN_KEY, withdrawn_text
from launcher.aws.objects import Objects
from launcher.model.enums import CheckpointMode
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.monitoring import KEPT, STORE_TAG
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.records.checkpoints import Checkpoint
from launcher.workflow.run.checkpoints import AGENT, choose_checkpoint, survey, withdrawn_in
from launcher.workflow.run.checkpoints_transfer import writer


def refuse_from_step(plan: Plan) -> None:
    """Refuse --from-step if the agent does not choose the checkpoint.

    Raises:
        ImpossibleError: the trainer chooses it, or stores none.
    """
    mode = plan.request.checkpoint.mode
    if mode is not CheckpointMode.AGENT:
        raise ImpossibleError(
            f"--from-step: checkpoint.mode is {mode.value}, so Slipway does not choose the checkpoint",
            hint="remove --from-step, and name the checkpoint in run.command",
        )


def earlier(store: Objects, step: int) -> tuple[Checkpoint, tuple[Checkpoint, ...]]:
    """The checkpoint of a step, and those in the running that were saved after it, the last first.

    Raises:
        ImpossibleError: the agent has stored no complete checkpoint of the step.
    """
    checkpoints = survey(store)
    checkpoint = choose_checkpoint(checkpoints, step)
    if checkpoint.form != AGENT:
        raise ImpossibleError(
            f"step {step} was written by PyTorch (mode dcp), which chooses the checkpoint itself",
            hint="name the checkpoint in run.command",
        )
    later = [one for one in checkpoints if one.step > step and one.form == AGENT and not one.withdrawn]
    return checkpoint, tuple(later)


def begin_at(store: Objects, step: int, now: datetime, notify: Notify) -> tuple[Checkpoint, tuple[Checkpoint, ...]]:
    """Take what was saved after a step out of the running, so that the next attempt resumes from that step.

    Returns:
        The checkpoint of the step, and those that were taken out, the last saved first.

    Raises:
        ImpossibleError: the agent has stored no complete checkpoint of the step, or a job writes to the store now.
    """
    checkpoint, later = earlier(store, step)
    run = writer(store, now)
    if run is not None:
        raise ImpossibleError(
            f"{run} is writing checkpoints to {store.uri} now",
            hint="let that job end or cancel it, then begin at the step",
        )
    keys = [object_.key for object_ in store.list_objects()]
    withdrawn = {*(withdrawn_in(store) if WITHDRAWN_KEY in keys else ())} - {*checkpoint.marks}
    withdrawn.update(key for one in later for key in commit_keys(one.step, keys))
    if checkpoint.superseded:
        try:
            store.tag(checkpoint.needs, STORE_TAG, KEPT)
        except AwsError as problem:
            notify(
                f"warning: step {step} is marked to expire, and only the job's start will unmark it: {problem.message}"
            )
    # Also if nothing changes: copies on nodes that are older than this record are not resumed from either.
    store.put(WITHDRAWN_KEY, withdrawn_text(withdrawn).encode())
    return checkpoint, later


def begin_text(checkpoint: Checkpoint, later: tuple[Checkpoint, ...], *, what: str) -> str:
    """What `begin_at` does, or did: `what` resumes from the checkpoint."""
    resumes = f"{what} resumes from {checkpoint.unit} {checkpoint.step}"
    if not later:
        return f"{resumes}, the last one in the running"
    steps = ", ".join(str(one.step) for one in later)
    return f"{resumes}; out of the running, not deleted: {steps}"
