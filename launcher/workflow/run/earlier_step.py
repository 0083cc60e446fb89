"""A job begins at an earlier checkpoint: the later ones are taken out of the running, and nothing is deleted."""

from datetime import datetime

from launcher.agent.manifest import commit_keys
from launcher.agent.save_order import ORDER_KEY, SaveOrder, parse_order
from launcher.aws.objects import Objects
from launcher.model.enums import CheckpointMode
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Plan
from launcher.records.checkpoints import Checkpoint
from launcher.workflow.run.checkpoints import AGENT, chosen, survey
from launcher.workflow.run.checkpoints_transfer import writer


def refuse_from_step(plan: Plan) -> None:
    """Refuse --from-step if the agent stores no checkpoints.

    Raises:
        ImpossibleError: it stores none.
    """
    mode = plan.request.checkpoint.mode
    if mode is not CheckpointMode.AGENT:
        raise ImpossibleError(
            f"--from-step: checkpoint.mode is {mode.value}, so Slipway does not choose the checkpoint",
            hint="remove --from-step, and name the checkpoint in run.command",
        )


def earlier(store: Objects, step: int) -> tuple[Checkpoint, tuple[Checkpoint, ...]]:
    """The checkpoint of a step, and those that were saved after it.

    Raises:
        ImpossibleError: the step has no complete checkpoint that the agent stored.
    """
    checkpoints = survey(store)
    checkpoint = chosen(checkpoints, step)
    if checkpoint.form != AGENT:
        raise ImpossibleError(
            f"step {step} was written by PyTorch (mode dcp), which chooses the checkpoint itself",
            hint="name the checkpoint in run.command",
        )
    place = checkpoints.index(checkpoint)
    return checkpoint, tuple(later for later in checkpoints[:place] if later.form == AGENT and not later.withdrawn)


def begin_at(store: Objects, step: int, now: datetime) -> tuple[Checkpoint, tuple[Checkpoint, ...]]:
    """Take what was saved after a step out of the running, so that the next attempt resumes from that step.

    Returns:
        The checkpoint of the step, and those that were taken out.

    Raises:
        ImpossibleError: the step has no complete checkpoint, or a job writes to the store now.
    """
    checkpoint, later = earlier(store, step)
    run = writer(store, now)
    if run is not None:
        raise ImpossibleError(
            f"{run} is writing checkpoints there now", hint="cancel that job, or let it end, and begin at the step then"
        )
    keys = [object_.key for object_ in store.list_objects()]
    order = parse_order(store.read(ORDER_KEY).decode(errors="replace")) if ORDER_KEY in keys else SaveOrder()
    withdrawn = {one.step: commit_keys(one.step, keys) for one in later}
    back = {at: of_step for at, of_step in order.withdrawn.items() if at != step}
    store.put(ORDER_KEY, SaveOrder(saves=order.saves, withdrawn=back).without(withdrawn).to_json().encode())
    return checkpoint, later


def lines(checkpoint: Checkpoint, later: tuple[Checkpoint, ...]) -> list[str]:
    """What was done, for the screen."""
    steps = ", ".join(str(one.step) for one in later)
    first = f"this job resumes from {checkpoint.unit} {checkpoint.step}"
    return [f"{first}; out of the running, not deleted: {steps}" if later else f"{first}, the last saved one"]
