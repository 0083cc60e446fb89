"""Disruptions of a job in the sandbox: a spot interruption, or on HyperPod the failure of an instance."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from launcher.model.errors import DeploymentFailedError, SlipwayError
from launcher.model.plan import Plan
from launcher.model.report import EndedBy
from launcher.model.stages import Notify
from launcher.records.run_folder import RunFolder
from launcher.targets.registry import target_of
from launcher.workflow.run.follow import Follower
from launcher.workflow.run.submission_watch import RemoteWatch

if TYPE_CHECKING:
    from launcher.emulation import Sandbox

NOTICE_S = 120.0
WITHOUT_CHECKPOINT_S = 30.0
"""Added to `--interrupt-after`, from the start of the command: the maximum wait for a first complete checkpoint."""


class Undisturbed:
    """No disruption of the job."""

    def command_started(self) -> None:
        """Start the clock, for a job that stores no checkpoint."""

    def first_checkpoint(self) -> None:
        """Restart the clock."""

    def check(self, follower: Follower) -> None:
        """Do what is due; called at every poll."""

    def finish(self) -> str:
        """Cancel what is still due; return why the disruption did not happen, empty if it did."""
        return ""


def disruption_for(
    plan: Plan,
    sandbox: "Sandbox | None",
    cluster: str | None,
    watch: RemoteWatch,
    *,
    folder: RunFolder,
    after_s: float | None,
    notify: Notify,
) -> Undisturbed:
    """The disruption of a job: its first node is lost once, `after_s` seconds after the first complete checkpoint.

    Without a checkpoint, the node is lost `after_s` plus `WITHOUT_CHECKPOINT_S` seconds after the command began.
    `after_s` None means never; `sandbox` is None outside a sandbox.
    """
    if sandbox is None or cluster is None or after_s is None:
        return Undisturbed()
    row = target_of(plan.place.target)
    # Of pods the cluster itself says what became of them, and spot in HyperPod drains its node as EC2's does.
    strike: Strike = reclaim_instance
    if row.in_service_network:
        strike = interrupt_job
    elif row.resumes_jobs and not row.pods:
        strike = fail_node
    return Disruption(
        sandbox=sandbox,
        cluster=cluster,
        watch=watch,
        folder=folder,
        after_s=after_s,
        notify=notify,
        strike=strike,
    )


@dataclass(slots=True, kw_only=True)
class Disruption(Undisturbed):
    """The loss of the job's first node, by one of the functions below."""

    sandbox: "Sandbox"
    cluster: str
    watch: RemoteWatch
    folder: RunFolder
    after_s: float
    notify: Notify
    # How the node is lost.
    strike: "Strike"
    due_at: float | None = None
    saved: bool = False
    # What waits until the job has left its node, and the error that ended it.
    thread: threading.Thread | None = None
    failure: Exception | None = None
    not_played: str = "the job ended before its command started"

    def command_started(self) -> None:
        """Set the moment of the loss, for a job that stores no checkpoint."""
        if self.due_at is None and not self.saved:
            self.due_at = time.monotonic() + self.after_s + WITHOUT_CHECKPOINT_S
            when = f"{self.after_s + WITHOUT_CHECKPOINT_S:g} s after its command started"
            self.not_played = f"the job ended earlier than {when}, and stored no checkpoint until then"

    def first_checkpoint(self) -> None:
        """Set the moment of the loss anew."""
        if self.not_played:
            self.due_at, self.saved = time.monotonic() + self.after_s, True
            self.not_played = f"the job ended earlier than {self.after_s:g} s after its first complete checkpoint"

    def check(self, follower: Follower) -> None:
        """Start the disruption when due, and raise errors of its thread."""
        if self.not_played and self.due_at is not None and time.monotonic() >= self.due_at:
            self.not_played = ""
            if not self.saved:
                self.notify("no complete checkpoint exists yet: simulating the interruption anyway")
            nodes = self.watch.facts.nodes if self.watch.facts is not None else ()
            if nodes:
                self.strike(self, nodes[0], follower)
            else:
                self.not_played = "the job ran on no node"
        self._raise()

    def finish(self) -> str:
        """Wait for the thread, and return why nothing was lost."""
        if self.thread is not None:
            self.thread.join()
        self._raise()
        return self.not_played

    def _raise(self) -> None:
        if self.failure is not None:
            raise DeploymentFailedError(f"cannot simulate the interruption: {self.failure}") from self.failure


Strike: TypeAlias = Callable[[Disruption, str, Follower], None]
"""Takes the named node; the follower is that of the job."""


def reclaim_instance(disruption: Disruption, node: str, _follower: Follower) -> None:
    """EC2 reclaims a spot instance with a notice, and adds another; a thread waits until the job has left the node."""

    def reclaim() -> None:
        try:
            disruption.notify(f"EC2 reclaims {node}: 2 minutes' notice")
            loss = disruption.sandbox.lose_node(disruption.cluster, node, notice_s=NOTICE_S)
            when = "after the job had left the node" if loss.drained else "with the job still running on the node"
            disruption.notify(f"{loss.node} and its disk are lost, {when}; another node replaces it")
        except (SlipwayError, RuntimeError, OSError) as problem:
            disruption.failure = problem

    disruption.thread = threading.Thread(target=reclaim, name="interruption", daemon=True)
    disruption.thread.start()


def fail_node(disruption: Disruption, node: str, follower: Follower) -> None:
    """A HyperPod node fails without notice, and automatic recovery replaces it.

    Records the attempt that ended with the node.
    """
    sandbox, folder = disruption.sandbox, disruption.folder
    disruption.notify(f"{node} fails, with the job on it")
    sandbox.fail_node(disruption.cluster, node)
    # The agent is gone with its node and leaves no word of the end. The next attempt waits for the new node.
    disruption.watch.mirror.sync()
    follower.poll()
    attempt, lost_at = follower.attempt, datetime.now(UTC).isoformat()
    steps = [number for number in (follower.step, follower.saved_step) if number is not None]
    folder.append_event("attempt-progress", attempt=attempt, step=max(steps))
    folder.append_event(
        "interrupted", time=lost_at, attempt=attempt, ended_by=EndedBy.NODE_LOST.value, exit_code=None, node=node
    )
    sandbox.replace_node(disruption.cluster, node)
    disruption.notify(f"HyperPod's automatic recovery replaced {node}; the new node has an empty disk")


def interrupt_job(disruption: Disruption, _node: str, _follower: Follower) -> None:
    """Managed spot reclaims the instances of a training job without notice, and restarts the job on other instances."""
    disruption.notify("SageMaker reclaims the instances without notice")
    disruption.sandbox.interrupt_job(disruption.watch.job.job)
