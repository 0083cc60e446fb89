"""Follows a job to its end: attempts, steps, checkpoints; writes its logs and events into the run folder."""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.agent.metrics import figures_in
from launcher.model.report import RunStatus
from launcher.model.stages import Notify
from launcher.records.run_folder import RunFolder
from launcher.submit.jobs import SchedulerError
from launcher.workflow.history.attempts import read_events
from launcher.workflow.run.growing_lines import GrowingLines
from launcher.workflow.run.submission_watch import RemoteWatch

POLL_S = 0.25
PROGRESS_EVERY_S = 2.0
FIRST_LINE = "slipway: job "
"""The first line that the batch script writes to the log of every attempt."""
STATUS_OF_ENDING = {
    "completed": RunStatus.SUCCEEDED,
    "failed": RunStatus.FAILED,
    "cancelled": RunStatus.CANCELLED,
    "stopped": RunStatus.STOPPED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The state of a job at one moment."""

    attempt: int
    step: int | None
    # The planned number of steps, if the trainer reports it.
    steps: int | None
    loss: float | None
    saved_step: int | None
    elapsed_s: float
    # Nothing tells the trainer's step: `saved_step` counts saves.
    saved_is_count: bool = False


@dataclass(slots=True, kw_only=True)
class Follower:
    """Reads the files of a running job as they grow."""

    job: Path
    folder: RunFolder
    log: Path
    # Receives each event of the agent.
    on_event: Callable[[dict[str, Any]], None]
    # Receives the state of the job every few seconds.
    on_progress: Callable[[Progress], None]
    # Called when the first complete checkpoint is stored.
    on_first_checkpoint: Callable[[], None]
    # Called at every start of the job's command.
    on_command_started: Callable[[], None] = lambda: None
    event_count: int = 0
    attempt: int = 0
    logged_attempt: int = 0
    step: int | None = None
    reached: int | None = None
    steps: int | None = None
    loss: float | None = None
    saved_step: int | None = None
    saved_is_count: bool = False
    written: bool = False
    ending: str | None = None
    started: float = field(default_factory=time.monotonic)
    reported_at: float = 0.0
    line_begun: bool = False
    log_lines: GrowingLines = field(init=False)
    metrics_lines: GrowingLines = field(init=False)

    def __post_init__(self) -> None:
        """Begin both files at their start."""
        self.log_lines, self.metrics_lines = GrowingLines(self.log), GrowingLines(self.job / "metrics.jsonl")

    def follow(self, ended: Callable[[], bool], tick: Callable[[], None]) -> RunStatus:
        """Follow the job until it has `ended`, for the scheduler; `tick` is called at every poll.

        A job that left without an ending event has failed.
        """
        while not ended():
            self.poll()
            tick()
            time.sleep(POLL_S)
        self.poll()
        if rest := self.log_lines.rest():
            self._log_piece(rest, ends=True)
        self._progress(now=True)
        return STATUS_OF_ENDING.get(self.ending or "failed", RunStatus.FAILED)

    def poll(self) -> None:
        """Read the new content."""
        self._logs()
        self._metrics()
        events = read_events(self.job / "events.jsonl")
        for event in events[self.event_count :]:
            self._event(event)
        self.event_count = len(events)
        self._progress(now=False)

    def _event(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "attempt-started":
            if self.attempt and self.ending is None:
                # It was lost without a word; what the new one has reported since is less.
                self._record_last_step(self.reached)
            self.attempt, self.reached = int(event["attempt"]), None
            self.ending = None
        elif kind == "command-started":
            self.on_command_started()
        elif kind == "checkpoint-uploaded":
            first = self.saved_step is None
            self.saved_step, self.saved_is_count = int(event["step"]), bool(event.get("counted"))
            if first:
                self.on_first_checkpoint()
        elif kind == "checkpoint-written" and not self.written:
            self.written = True
            self.on_first_checkpoint()
        elif kind in (*STATUS_OF_ENDING, "interrupted"):
            self.ending = kind
            self._metrics()
            self._record_last_step(self.step)
        self._store(event)
        self.on_event(event)

    def _record_last_step(self, step: int | None) -> None:
        saved_step = None if self.saved_is_count else self.saved_step
        steps = [number for number in (step, saved_step) if number is not None]
        if steps:
            self._store({"event": "attempt-progress", "attempt": self.attempt, "step": max(steps)})

    def _store(self, event: dict[str, Any]) -> None:
        with self.folder.events.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event, ensure_ascii=False) + "\n")

    def _metrics(self) -> None:
        whole = True
        for line, ends in self.metrics_lines.pieces():
            figures, _ = figures_in(line) if whole and ends else ({}, False)  # a piece is no line of metrics
            whole = ends
            if "step" in figures:
                self.step = int(figures["step"])
                self.reached = max(self.step, self.reached or 0)
            self.steps = int(figures["steps"]) if "steps" in figures else self.steps
            self.loss = figures.get("loss", self.loss)

    def _logs(self) -> None:
        for text, ends in self.log_lines.pieces():
            self._log_piece(text, ends=ends)

    def _log_piece(self, text: str, *, ends: bool) -> None:
        if not self.line_begun and text.startswith(FIRST_LINE):
            self.logged_attempt += 1
        path = self.folder.logs / f"attempt-{max(1, self.logged_attempt)}.log"
        with path.open("a", encoding="utf-8") as stream:
            stream.write(f"{text}\n" if ends else text)
        self.line_begun = not ends

    def _progress(self, *, now: bool) -> None:
        elapsed = time.monotonic() - self.started
        if self.attempt and (now or elapsed - self.reported_at >= PROGRESS_EVERY_S):
            self.reported_at = elapsed
            self.on_progress(
                Progress(
                    attempt=self.attempt,
                    step=self.step,
                    steps=self.steps,
                    loss=self.loss,
                    saved_step=self.saved_step,
                    elapsed_s=elapsed,
                    saved_is_count=self.saved_is_count,
                )
            )


@dataclass(slots=True, kw_only=True)
class StopCondition:
    """Cancels the job, once, when `is_met` is true for the run folder; checked after each new step. None: never.

    If the head node did not answer, Slipway sends the cancellation again.
    """

    is_met: Callable[[RunFolder], bool] | None
    watch: RemoteWatch
    folder: RunFolder
    notify: Notify
    checked_step: int | None = None
    over: bool = False

    def check(self, follower: Follower) -> None:
        """Check the condition; called at every poll."""
        if self.is_met is None or self.over or follower.step is None or follower.step == self.checked_step:
            return
        self.checked_step = follower.step
        if not self.is_met(self.folder):
            return
        try:
            self.watch.source.cancel(self.watch.job)
        except SchedulerError as problem:
            self.checked_step = None
            self.notify(f"{problem.message}; trying again")
        else:
            self.over = True
            self.notify(f"step {follower.step}: the measurement is complete, cancelling the job")
