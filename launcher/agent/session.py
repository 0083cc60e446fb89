"""One attempt of a job on this node, from the restore to the exit code."""

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.agent import exits
from launcher.agent.errors import AgentError, JobSpecError, StoreError
from launcher.agent.events import EventLog, events_path
from launcher.agent.job import JobSpec, expand
from launcher.agent.notice import CANCEL, Notice
from launcher.agent.notices import Notices, heed
from launcher.agent.placement import placement
from launcher.agent.process import Command, start_failure_code
from launcher.agent.restore import Restored, restore_newest
from launcher.agent.retention import Retention
from launcher.agent.scratch import Scratch
from launcher.agent.store import Store
from launcher.agent.supervision import Outcome, Supervision
from launcher.agent.upload import Identity
from launcher.agent.uploader import Uploader
from launcher.agent.watch import CheckpointWatch

_RESTORE_PATIENCE_S = 300.0
_RESTORE_PAUSE_S = 5.0
_LOOK_S = 0.25
_UPLOAD_AFTER_CANCEL_S = 10.0
_UPLOAD_AFTER_SIGNAL_S = 300.0
_UPLOAD_AFTER_FAILURE_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the attempt ended: the event, the agent's exit code, its name in the report, and the reason."""

    event: str
    exit_code: int
    ended_by: str
    reason: str = ""


class Session:
    """Runs the command of one job once."""

    def __init__(self, spec: JobSpec, environment: Mapping[str, str]) -> None:
        """Fill in the variables of the node.

        Raises:
            JobSpecError: A variable that a path needs is not set, or a path is not absolute with it.
        """
        self._spec = spec
        self._environment = environment
        self._place = placement(spec.run, environment)
        names = ("workdir", "metrics", "events", "scratch")
        paths = {name: Path(expand(getattr(spec, name), environment)) for name in names}
        relative = [
            f"{name}: {path} is not absolute on this node" for name, path in paths.items() if not path.is_absolute()
        ]
        if relative:
            raise JobSpecError(relative)
        self._workdir, self._metrics = paths["workdir"], paths["metrics"]
        log_path = events_path(paths["events"], part=self._place.part)
        self._log = EventLog(log_path, run=spec.run, attempt=self._place.attempt, node=self._place.node)
        job = spec.name if self._place.parts == 1 else f"{spec.name}-part{self._place.part}"
        self._scratch = Scratch(paths["scratch"], job=job, run=spec.run)
        self._notices = Notices()

    def run(self) -> int:
        """Restore, run, upload.

        Returns:
            The exit code of the agent (`exits`).
        """
        self._notices.listen()
        policy, place = self._spec.checkpoint, self._place
        self._log.append("attempt-started", part=place.part, parts=place.parts, checkpoints=policy.uri or policy.mode)
        if self._spec.imds:
            self._notices.watch_metadata(self._environment, poll_s=self._spec.imds_poll_s, log=self._log)
        try:
            with self._scratch:
                ending = self._attempt()
        except AgentError as error:
            ending = Ending(event="failed", exit_code=error.exit_code, ended_by="failure", reason=str(error))
        finally:
            self._notices.stop()
        said = {"reason": ending.reason} if ending.reason else {}
        self._log.append(ending.event, ended_by=ending.ended_by, exit_code=ending.exit_code, **said)
        return ending.exit_code

    def _attempt(self) -> Ending:
        policy = self._spec.checkpoint
        store = None
        if policy.uri is not None and policy.mode == "agent":
            store = Store(policy.uri, max_mb_s=policy.max_mb_s)
        restored = self._restored(store) if store is not None else None
        notice = self._notices.next(wait_s=0)
        if notice is not None:
            heed(notice, drain=self._spec.drain, log=self._log)
            return _interruption(notice)
        watch = CheckpointWatch(self._scratch.checkpoints, restored=restored.folder if restored else None)
        try:
            command = self._started(restored)
        except OSError as error:
            reason = f"the command cannot be started: {error}"
            return Ending(event="failed", exit_code=start_failure_code(error), ended_by="failure", reason=reason)
        uploader = self._uploader(store, restored) if store is not None else None
        supervision = Supervision(
            command,
            spec=self._spec,
            notices=self._notices,
            watch=watch,
            uploader=uploader,
            log=self._log,
        )
        try:
            outcome = supervision.run()
        except BaseException:
            command.signal(signal.SIGKILL)  # a defect of the agent's must not leave a command that nobody watches
            raise
        self._log.append("command-ended", code=exits.exit_code_of(outcome.returncode))
        return self._ending(outcome, uploader)

    def _restored(self, store: Store) -> Restored | None:
        """The newest whole checkpoint, on the node again.

        Raises:
            AgentError: The store cannot be read, after some patience: a start from step 0 would lose what is in it.
        """
        restored = self._restore_with_patience(store)
        if restored is None:
            if not self._notices.pending():
                self._log.append("nothing-restored")
            return None
        step = restored.manifest.step
        self._log.append("restored", step=step, bytes=restored.bytes, seconds=restored.seconds)
        if restored.skipped_newer and self._place.part == 0:
            try:
                Retention(store, keep=self._spec.checkpoint.keep).protect(restored.manifest)
            except StoreError as error:
                self._log.append("retention-failed", step=step, error=str(error))
        return restored

    def _restore_with_patience(self, store: Store) -> Restored | None:
        patience = time.monotonic() + _RESTORE_PATIENCE_S
        while True:
            try:
                return restore_newest(
                    store,
                    self._scratch.checkpoints,
                    part=self._place.part,
                    on_skip=lambda step, reason: self._log.append("restore-skipped", step=step, reason=reason),
                )
            except StoreError as error:
                if error.permanent or time.monotonic() >= patience:
                    raise StoreError(f"{error}; starting without it would lose the progress kept there") from error
                self._log.append("restore-retry", error=str(error))
                again = time.monotonic() + _RESTORE_PAUSE_S
                while time.monotonic() < again and not self._notices.pending():
                    time.sleep(_LOOK_S)
                if self._notices.pending():
                    return None  # the attempt is over before it began

    def _started(self, restored: Restored | None) -> Command:
        policy = self._spec.checkpoint
        self._scratch.write_interval(policy.interval_s)
        self._metrics.parent.mkdir(parents=True, exist_ok=True)
        environment = {
            **self._environment,
            **self._spec.env,
            "SLIPWAY_RUN": self._spec.run,
            "SLIPWAY_ATTEMPT": str(self._place.attempt),
            "SLIPWAY_CHECKPOINT_DIR": str(self._scratch.checkpoints),
            "SLIPWAY_RESUME_DIR": str(restored.folder) if restored else "",
            "SLIPWAY_CHECKPOINT_INTERVAL_S": f"{policy.interval_s:g}",
            "SLIPWAY_CHECKPOINT_INTERVAL_FILE": str(self._scratch.interval_file),
            "SLIPWAY_METRICS": str(self._metrics),
        }
        command = Command(self._spec.command, workdir=self._workdir, environment=environment)
        self._log.append("command-started", pid=command.pid)
        try:
            self._scratch.record_command(command.pid)
        except OSError as error:
            self._log.append("scratch-trouble", error=f"the command's process group was not written down: {error}")
        return command

    def _uploader(self, store: Store, restored: Restored | None) -> Uploader | None:
        first_only = self._spec.checkpoint.writers == "first-node"
        if first_only and self._place.part > 0:
            return None
        identity = Identity(
            run=self._spec.run,
            attempt=self._place.attempt,
            session=self._place.session,
            part=self._place.part,
            parts=1 if first_only else self._place.parts,
        )
        newest = restored.manifest if restored else None
        uploader = Uploader(store, self._log, identity, keep=self._spec.checkpoint.keep, newest=newest)
        uploader.start()
        return uploader

    def _ending(self, outcome: Outcome, uploader: Uploader | None) -> Ending:
        """Bring over what is left, then say how it ended."""
        left = uploader.finish(time.monotonic() + self._upload_patience_s(outcome)) if uploader is not None else []
        for step in left:
            self._log.append("checkpoint-dropped", step=step, reason="it could not be uploaded in time")
        if outcome.notice is not None:
            return _interruption(outcome.notice)
        code = exits.exit_code_of(outcome.returncode)
        if code != exits.COMPLETED:
            return Ending(event="failed", exit_code=code, ended_by="failure", reason=f"the command ended with {code}")
        if uploader is not None and outcome.newest_step is not None and not _is_kept(outcome.newest_step, uploader):
            reason = f"the command completed, but its last checkpoint, step {outcome.newest_step}, is not in the store"
            return Ending(event="failed", exit_code=exits.STORE_FAILED, ended_by="failure", reason=reason)
        return Ending(event="completed", exit_code=exits.COMPLETED, ended_by="completed")

    def _upload_patience_s(self, outcome: Outcome) -> float:
        if outcome.notice is None:
            return self._spec.checkpoint.final_upload_s if outcome.returncode == 0 else _UPLOAD_AFTER_FAILURE_S
        if outcome.notice.source == CANCEL:
            return _UPLOAD_AFTER_CANCEL_S
        if outcome.node_goes_at is not None:
            return max(0.0, outcome.node_goes_at - time.monotonic())
        return _UPLOAD_AFTER_SIGNAL_S


def _is_kept(step: int, uploader: Uploader) -> bool:
    """Whether a step, or a newer one, is whole; a node that is not the first answers for its own part."""
    kept = uploader.last_delivered_step if uploader.part else uploader.last_whole_step
    return kept is not None and kept >= step


def _interruption(notice: Notice) -> Ending:
    if notice.source == CANCEL:
        return Ending(event="cancelled", exit_code=exits.CANCELLED, ended_by="cancel", reason=notice.detail)
    return Ending(event="interrupted", exit_code=exits.INTERRUPTED, ended_by="spot-interruption", reason=notice.detail)
