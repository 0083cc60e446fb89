"""A job that is ended once it has done what it was for."""

from collections.abc import Callable
from dataclasses import dataclass

from launcher.records.run_folder import RunFolder
from launcher.submit.jobs import SchedulerError
from launcher.workflow.run.follow import Follower
from launcher.workflow.run.submission_watch import RemoteWatch


@dataclass(slots=True, kw_only=True)
class Sated:
    """Asks, as often as the job has reported another step, whether that is enough; then cancels it, once.

    `enough` None: never. A cancellation that the head node did not answer is asked for again.
    """

    enough: Callable[[RunFolder], bool] | None
    watch: RemoteWatch
    folder: RunFolder
    tell: Callable[[str], None]
    asked_at: int | None = None
    over: bool = False

    def check(self, follower: Follower) -> None:
        """Look at the job; called at every look."""
        if self.enough is None or self.over or follower.step is None or follower.step == self.asked_at:
            return
        self.asked_at = follower.step
        if not self.enough(self.folder):
            return
        try:
            self.watch.source.cancel(self.watch.job)
        except SchedulerError as problem:
            self.asked_at = None
            self.tell(f"{problem.message}; asked again")
        else:
            self.over = True
            self.tell(f"step {follower.step}: enough is measured, the job is cancelled")
