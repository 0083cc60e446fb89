"""The slurmstepd that started this agent: without it, `srun` never detects that the agent has ended.

Slurm may not detect for a long time that a step daemon was killed; the ranks continue, and `srun` waits forever (seen
with Slurm 22.05.8). So the agent checks its parent process. If the parent is gone, the ranks save and exit as on the
scheduler's signal, and the agent requeues the job itself.
"""

import os
import threading
from collections.abc import Callable, Mapping

from launcher.agent.events import EventLog
from launcher.agent.node.drain import requeue_job
from launcher.agent.node.notice import SIGNAL, Notice

_POLL_S = 1.0


class StepDaemon(threading.Thread):
    """Watches the parent of an agent that runs in a step of Slurm; elsewhere it does nothing."""

    def __init__(self, environment: Mapping[str, str], log: EventLog, *, on_notice: Callable[[Notice], None]) -> None:
        super().__init__(name="step-daemon", daemon=True)
        self._job = environment.get("SLURM_JOB_ID", "") if "SLURM_STEP_ID" in environment else ""
        self._log = log
        self._on_notice = on_notice
        self._parent = os.getppid()
        self._over = threading.Event()

    def watch(self) -> None:
        """Start to poll."""
        if self._job:
            self.start()

    def run(self) -> None:
        """Poll until the daemon is gone or the attempt is over."""
        while not self._over.wait(_POLL_S):
            if self._has_ended():
                self._on_notice(Notice(source=SIGNAL, detail="the slurmstepd process of this node ended"))
                return

    def end(self, *, cancelled: bool) -> None:
        """Stop polling; if the daemon is gone and the job was not cancelled, have Slurm start the job again."""
        self._over.set()
        if not self._job or cancelled or not self._has_ended():
            return
        failure = requeue_job(self._job)
        if failure:
            self._log.append("requeue-failed", error=failure)
        else:
            self._log.append("requeued", reason="the slurmstepd process of this node ended")

    def _has_ended(self) -> bool:
        return os.getppid() != self._parent
