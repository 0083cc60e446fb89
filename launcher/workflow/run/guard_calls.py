"""The calls of a cluster's guard while a launch in the sandbox follows its job."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from launcher.emulation import guard_clock
from launcher.model.budget_stop import stops_at
from launcher.model.errors import AwsError
from launcher.model.monitoring import GUARD_EVERY_MINUTES
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.model.units import number_of
from launcher.rendering.names import TRAINING_STACK, stack_name
from launcher.targets.registry import target_of

if TYPE_CHECKING:
    from launcher.emulation import GuardSchedule, Sandbox

GUARD_EVERY_S = 60.0 * GUARD_EVERY_MINUTES
"""Seconds between two calls of the guard, as on AWS."""
BOOTS_POLL_S = 2.0
"""Seconds between two counts of the sandbox's failed boots."""


@contextmanager
def guard_called(
    plan: Plan, sandbox: "Sandbox | None", environment: Mapping[str, str], notify: Notify
) -> Iterator[None]:
    """Call the guard while the block follows the job: every five minutes, as on AWS, and for nodes that fail to boot.

    With a spending limit it is called on an accelerated clock, and a last time at the end of the block.
    """
    guard = target_of(plan.place.target).guard
    if sandbox is None or guard is None or plan.request.target.cluster is not None:
        yield
        return
    schedule = partial(sandbox.guard_schedule, stack_name(plan, TRAINING_STACK), guard.module, environment)
    limited = stops_at(plan.request, plan.place.option) is not None
    with _called_in_real_time(schedule, sandbox, notify, every_s=math.inf if limited else GUARD_EVERY_S):
        if not limited:
            yield
            return
        with _called_until_limit(schedule(), notify):
            yield


@contextmanager
def _called_in_real_time(
    schedule: "Callable[[], GuardSchedule]", sandbox: "Sandbox", notify: Notify, *, every_s: float
) -> Iterator[None]:
    """Call the guard in real time, `every_s` seconds after its last call, and whenever a node has failed to boot."""
    over = threading.Event()

    def watch() -> None:
        handled, due = 0, time.monotonic() + every_s
        while not over.wait(BOOTS_POLL_S):
            try:
                failed = sandbox.failed_boots()
                if failed > handled or time.monotonic() >= due:
                    handled, due = failed, time.monotonic() + every_s
                    schedule().call_now()
            except AwsError as problem:
                notify(f"warning: {problem.message}")
                return

    watching = threading.Thread(target=watch, name="guard-boots", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


@contextmanager
def _called_until_limit(play: "GuardSchedule", notify: Notify) -> Iterator[None]:
    """Call the guard on an accelerated clock, and a last time at the end of the block."""
    poll_s, minutes = guard_clock()
    notify(f"the sandbox calls the guard every {poll_s:g} s; each call counts as {number_of(minutes, 'minute')}")
    play.start()
    try:
        yield
    except BaseException:
        play.end()  # what ended the following counts
        raise
    play.finish()
    if not play.called:
        notify("warning: the sandbox did not call the guard: the job sent no heartbeat")
