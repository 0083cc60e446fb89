"""The guard of a job in the sandbox: where the plan stops it at a sum, it is called while the job runs."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from launcher.model.budget_stop import stops_at
from launcher.model.plan import Plan
from launcher.model.target import target_of
from launcher.rendering.names import stack_name

if TYPE_CHECKING:
    from launcher.sandbox.sandbox import Sandbox


@contextmanager
def guard_called(
    plan: Plan, box: "Sandbox | None", environment: Mapping[str, str], tell: Callable[[str], None]
) -> Iterator[None]:
    """Have the guard called while the block follows the job, and for the last time when it ends.

    Raises:
        AwsError: the guard failed.
    """
    guard = target_of(plan.place.target).guard
    if box is None or guard is None or stops_at(plan.request, plan.place.option) is None:
        yield
        return
    from launcher.sandbox.guard_play import LOOK_S, PERIOD

    minutes = PERIOD.total_seconds() / 60
    tell(f"the guard looks every {LOOK_S:g} s in the sandbox; each time {minutes:g} minutes have passed for it")
    play = box.guard_play(stack_name(plan, "training"), guard.module, environment)
    play.start()
    try:
        yield
    except BaseException:
        play.end()  # what ended the following counts
        raise
    play.finish()
