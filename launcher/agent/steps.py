"""Commands before and after the job's own (data preparation, merging, evaluation), each done once per run.

The mark `steps/RUN/WHICH/NODE` in the store records that a node has done a step, so a later attempt repeats only the
unfinished one. If steps follow the command, the command has such marks too.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from launcher.agent import ending, exits
from launcher.agent.ending import Ending
from launcher.agent.errors import StoreError
from launcher.agent.events import EventLog
from launcher.agent.job import StepSpec
from launcher.agent.node.notice import Notice
from launcher.agent.node.notices import Notices, react_to_notice
from launcher.agent.node.peers import Peers
from launcher.agent.node.process import Command, start_failure_code
from launcher.agent.node.shutdown import Shutdown
from launcher.agent.store.objects import Store

BEFORE, AFTER, COMMAND = "before", "after", "command"
_POLL_S, _MARK_POLL_S = 0.25, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepServices:
    """The services for steps, in addition to their commands."""

    store: Store
    peers: Peers
    notices: Notices
    log: EventLog
    start: Callable[[Sequence[str]], Command]
    drain: bool


def next_notice(services: StepServices, wait_s: float) -> Notice | None:
    """A notice that ends the attempt, passed on to the other nodes."""
    notice = services.notices.next(wait_s=wait_s)
    if notice is None:
        return None
    services.peers.publish(notice)
    react_to_notice(notice, drain=services.drain, log=services.log)
    return notice if notice.ends else None


class Steps:
    """The steps of one attempt on this node."""

    def __init__(self, services: StepServices, *, run: str) -> None:
        self._services = services
        self._folder = f"steps/{run}"

    def command_done(self) -> bool:
        """Whether an earlier attempt completed the command on every node."""
        return len(self._services.store.sizes(f"{self._folder}/{COMMAND}/")) >= self._services.peers.parts

    def mark(self, step_name: str) -> None:
        """Record that this node has done a step."""
        self._services.store.put_new(f"{self._folder}/{step_name}/{self._services.peers.part}", b"{}\n")

    def run(self, when: str, steps: Sequence[StepSpec]) -> Ending | None:
        """Run the steps that are not done yet, in their order; return how the attempt ends, or None if it continues."""
        for number, step in enumerate(steps):
            step_name = f"{when}-{number}"
            try:
                end = self._step(step_name, step, wait=when == BEFORE)
            except StoreError as error:
                return ending.failure(
                    exits.STORE_FAILED, f"run.{when}[{number}]: cannot store its progress mark: {error}"
                )
            if end is not None:
                return end
        return None

    def _step(self, step_name: str, step: StepSpec, *, wait: bool) -> Ending | None:
        part = self._services.peers.part
        runs_on_this_node = part == 0 or step.on == "all"
        done = f"{self._folder}/{step_name}/{part if runs_on_this_node else 0}"
        if not runs_on_this_node:
            return self._wait_for_mark(done) if wait else None
        if self._services.store.find_text(done) is not None:
            return None
        begun = time.monotonic()
        self._services.log.append("step-started", step=step_name)
        try:
            command = self._services.start(step.command)
        except OSError as error:
            return ending.failure(start_failure_code(error), f"cannot start {step_name}: {error}")
        notice = self._follow_command(command)
        code = exits.exit_code_of(command.returncode or 0)
        self._services.log.append("step-ended", step=step_name, code=code, seconds=round(time.monotonic() - begun, 1))
        if notice is not None:
            return ending.from_notice(notice)
        if code != exits.COMPLETED:
            return ending.failure(code, f"{step_name} ended with {code}")
        self.mark(step_name)
        return None

    def _follow_command(self, command: Command) -> Notice | None:
        shutdown = Shutdown(command, signal_name="none", log=self._services.log)
        ended: Notice | None = None
        while shutdown.lives():
            notice = next_notice(self._services, _POLL_S)
            if notice is not None:
                ended = ended or notice
                shutdown.end_at(time.monotonic())
            shutdown.go_on(time.monotonic())
        return ended

    def _wait_for_mark(self, done: str) -> Ending | None:
        """Wait until the first node has written its mark."""
        next_poll = 0.0
        while True:
            if time.monotonic() >= next_poll:
                next_poll = time.monotonic() + _MARK_POLL_S
                if self._services.store.find_text(done) is not None:
                    return None
            notice = next_notice(self._services, _POLL_S)
            if notice is not None:
                return ending.from_notice(notice)
