"""What the sandbox does to a job while it runs: a spot interruption, or on HyperPod the failure of a machine."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.target import target_of
from launcher.records.run_folder import RunFolder
from launcher.workflow.run.follow import Follower
from launcher.workflow.run.submission_watch import RemoteWatch

if TYPE_CHECKING:
    from launcher.sandbox.sandbox import Sandbox

NOTICE_S = 120.0
NODE_LOST = "node-lost"
"""What ended an attempt whose machine failed, as the agents of the other nodes call it (launcher/agent)."""


class Undisturbed:
    """Nothing is done to the job."""

    def first_checkpoint(self) -> None:
        """The clock starts."""

    def check(self, follower: Follower) -> None:
        """Do what is due; called at every look."""

    def finish(self) -> None:
        """Drop what is not due any more."""


def disruption_for(
    plan: Plan,
    box: "Sandbox | None",
    cluster: str | None,
    watch: RemoteWatch,
    *,
    folder: RunFolder,
    after_s: float | None,
    tell: Callable[[str], None],
) -> Undisturbed:
    """What is done to a job: its first node is lost once, `after_s` seconds after the first whole checkpoint.

    Args:
        plan: the job's.
        box: the sandbox that it runs in, None where it runs in none.
        cluster: the cluster's name there.
        watch: what follows it.
        folder: its run folder.
        after_s: None for never.
        tell: told of what is done.
    """
    if box is None or cluster is None or after_s is None:
        return Undisturbed()
    row = target_of(plan.place.target)
    # Of pods the cluster itself says what became of them, and spot in HyperPod drains its node as EC2's does.
    kind = _NodeFailure if row.resumes_jobs and not row.pods else _Interruption
    return kind(box=box, cluster=cluster, watch=watch, folder=folder, after_s=after_s, tell=tell)


@dataclass(slots=True, kw_only=True)
class _Disruption(Undisturbed):
    """The loss of the job's first node."""

    box: "Sandbox"
    cluster: str
    watch: RemoteWatch
    folder: RunFolder
    after_s: float
    tell: Callable[[str], None]

    def victim(self) -> str | None:
        """The node that is lost, None where the job runs on none."""
        nodes = self.watch.facts.nodes if self.watch.facts is not None else ()
        if not nodes:
            self.tell("the interruption finds the job on no node, and is left out")
        return nodes[0] if nodes else None


@dataclass(slots=True, kw_only=True)
class _Interruption(_Disruption):
    """EC2 takes a spot instance back. It waits for the job to leave, in a thread of its own."""

    timer: threading.Timer | None = None
    failure: Exception | None = None

    def first_checkpoint(self) -> None:
        """The clock starts."""
        self.timer = threading.Timer(self.after_s, self._strike)
        self.timer.daemon = True
        self.timer.start()

    def _strike(self) -> None:
        """Give notice to the job's first node, take it away and bring another."""
        try:
            node = self.victim()
            if node is None:
                return
            self.tell(f"EC2 takes {node} back: two minutes' notice")
            loss = self.box.lose_node(self.cluster, node, notice_s=NOTICE_S)
            left = "after the job had left it" if loss.drained else "with the job still on it"
            self.tell(f"{loss.node} is gone with its disk, {left}; another node takes its place")
        except (SlipwayError, RuntimeError, OSError) as problem:
            self.failure = problem

    def check(self, follower: Follower) -> None:
        """Pass on what went wrong in the background."""
        del follower
        self._raise()

    def finish(self) -> None:
        """Wait for an interruption that is under way, and drop one that is not due any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer.join()
        self._raise()

    def _raise(self) -> None:
        if self.failure is not None:
            raise DeploymentFailedError(f"the interruption could not be played: {self.failure}") from self.failure


@dataclass(slots=True, kw_only=True)
class _NodeFailure(_Disruption):
    """A machine of HyperPod fails, and its recovery brings another. Nobody is told before."""

    due_at: float | None = None

    def first_checkpoint(self) -> None:
        """The clock starts."""
        self.due_at = time.monotonic() + self.after_s

    def check(self, follower: Follower) -> None:
        """Play it when it is due."""
        if self.due_at is not None and time.monotonic() >= self.due_at:
            self.due_at = None
            self._strike(follower)

    def _strike(self, follower: Follower) -> None:
        """Take the job's first node away, write down the attempt that ended with it, and bring another node."""
        node = self.victim()
        if node is None:
            return
        self.tell(f"{node} fails, with the job on it")
        self.box.fail_node(self.cluster, node)
        # The agent is gone with its node and leaves no word of the end. The next attempt waits for the new node.
        self.watch.mirror.sync()
        follower.look()
        attempt, lost_at = follower.attempt, datetime.now(UTC).isoformat()
        steps = [each for each in (follower.step, follower.saved_step) if each is not None]
        self.folder.append_event("attempt-progress", attempt=attempt, step=max(steps))
        self.folder.append_event(
            "interrupted", time=lost_at, attempt=attempt, ended_by=NODE_LOST, exit_code=None, node=node
        )
        self.box.replace_node(self.cluster, node)
        self.tell(f"HyperPod's automatic recovery has brought another machine for {node}, with an empty disk")
