"""Supervises the running command: finished checkpoints go to the uploader, a notice ends the command in order.

On a notice that leaves time to save (spot, end of the capacity, scheduler signal, cancel) the agent notifies the other
nodes, drains this node if it ends, requests a save from the ranks (`node.shutdown`) and ends the rest after the grace
time. If nothing can be saved (a hung command, a failure on another node, another owner), SIGTERM comes first.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher.agent import exits
from launcher.agent.checkpoint.agreement import NONE
from launcher.agent.checkpoint.dcp import DcpWatch
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.own_checkpoints import OwnWatch
from launcher.agent.checkpoint.pace import Pace
from launcher.agent.checkpoint.rotation import Rotation
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.checkpoint.tagging import Tagging
from launcher.agent.checkpoint.uploader import Uploader
from launcher.agent.checkpoint.watch import CheckpointWatch
from launcher.agent.events import EventLog
from launcher.agent.job import JobSpec
from launcher.agent.node import straggler_watch
from launcher.agent.node.forecast_watch import ForecastWatch
from launcher.agent.node.idle_chips import IdleChips
from launcher.agent.node.notice import CANCEL, CAPACITY_END, FAILURE, REBALANCE, SIGNAL, SPOT, TAKEN_OVER, Notice
from launcher.agent.node.notices import Notices, react_to_notice
from launcher.agent.node.peers import Peers
from launcher.agent.node.process import Command
from launcher.agent.node.progress import Metrics, Watchdog
from launcher.agent.node.rates import NodeRates, node_metrics
from launcher.agent.node.shutdown import Shutdown
from launcher.agent.node.stillness import Stillness

_POLL_S = 0.25
_INVALID = "they contain a value that is not a number; it is ignored"
_METRICS_POLL_S = 1.0
_SPOT_RESERVE_S = 15.0
"""Part of the time of a spot notice that is reserved for SIGTERM and the last upload."""
_CANCEL_GRACE_S = 15.0
"""Slurm kills the remaining processes 30 s after it cancelled a job (KillWait, slurm.conf)."""
_FAILURE_GRACE_S = 30.0
"""If the command failed on another node, most commands detect it themselves and end with a message about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How the command ended.

    Attributes:
        returncode: Exit code of the command; negative for a signal.
        notice: The first notice that came before its end, if one did.
        hung: The reason why the watchdog ended it; empty if it did not.
        node_goes_at: Monotonic seconds at which the node ends, if the notice gives them.
        newest_step: The newest finished checkpoint of this attempt, if one exists.
        defect: The error in the agent's own supervision; empty if none occurred.
    """

    returncode: int
    notice: Notice | None
    hung: str
    node_goes_at: float | None
    newest_step: int | None
    defect: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptServices:
    """The services of an attempt, in addition to its command.

    Attributes:
        watch: Finds finished checkpoints.
        uploader: Uploads them to the store; None if nothing is uploaded.
        dcp: Watches for the shards of distributed checkpoints that the trainer stores itself; None if it stores none.
        own_watch: Watches for other checkpoints that the trainer stores itself; None if it stores none.
        tagging: Tags superseded ones in the store; None if the attempt has no store.
        rotation: Removes the checkpoints from this node that the trainer has removed from the first one.
        pace: The interval between checkpoints.
        stillness: Records steps and checkpoints as activity.
        forecast: Compares the forecast cost with the quote; None if either is unknown, or another node does it.
    """

    notices: Notices
    peers: Peers
    scratch: Scratch
    watch: CheckpointWatch
    uploader: Uploader | None
    dcp: DcpWatch | None
    own_watch: OwnWatch | None
    tagging: Tagging | None
    rotation: Rotation
    metrics: Metrics
    pace: Pace
    forecast: ForecastWatch | None
    stillness: Stillness
    log: EventLog


class Supervision:
    """Follows one command to its end."""

    def __init__(self, command: Command, spec: JobSpec, services: AttemptServices) -> None:
        self._command = command
        self._spec = spec
        self._services = services
        self._log = services.log
        now = time.monotonic()
        # On several nodes the first one watches for all: the steps are the same.
        hung_s = None if spec.hung_minutes is None or services.peers.part > 0 else spec.hung_minutes * 60.0
        self._watchdog = Watchdog(hung_s=hung_s, armed=services.metrics.reported_before, now=now)
        self._metrics_at = now
        self._notice: Notice | None = None
        self._hung = ""
        self._node_goes_at: float | None = None
        self._newest_step: int | None = None
        self._wrote = False
        self._invalid = False
        self._defect = ""
        self._stragglers = straggler_watch.watch(services.peers, services.forecast, services.log, spec.quoted)
        self._shutdown = Shutdown(command, signal_name=spec.checkpoint.signal, log=services.log)

    def run(self) -> CommandEnd:
        """Follow the command until it and all its processes have ended."""
        watch, idle_chips = self._services.watch, IdleChips(self._log)
        peers = self._services.peers
        rates = NodeRates(node_metrics(self._services.metrics.path, peers.part), peers)
        idle_chips.start()
        rates.begin()
        self._services.peers.publish_state(wrote=False)
        while self._shutdown.lives():
            notice = self._services.notices.next(wait_s=_POLL_S)
            if notice is not None:
                self._go_on("reacting to a notice", lambda notice=notice: self._react_to_notice(notice))  # type: ignore[misc]
            self._go_on("looking for checkpoints", lambda: self._offer(watch.poll(time.monotonic())))
            self._go_on("looking at the metrics", self._poll_metrics)
            self._go_on("removing old checkpoints", lambda: self._services.rotation.poll(time.monotonic()))
            self._shutdown.go_on(time.monotonic())
        idle_chips.stop()
        rates.stop()
        self._go_on("the last check for checkpoints", self._last_poll)
        return CommandEnd(
            returncode=self._command.returncode or 0,
            notice=self._notice,
            hung=self._hung,
            node_goes_at=self._node_goes_at,
            newest_step=self._newest_step,
            defect=self._defect,
        )

    def _go_on(self, doing: str, call: Callable[[], object]) -> None:
        """Run `call`; a defect of the agent ends neither command nor uploads, and is logged once and at the end."""
        try:
            call()
        except Exception as error:  # noqa: BLE001  whatever it is
            defect = f"{doing}: {error!r}"
            if defect != self._defect:
                self._log.append("watching-failed", error=defect)
            self._defect = defect

    def _last_poll(self) -> None:
        watch = self._services.watch
        # A notice may arrive while the command ends; ranks in step leave together when one of them is asked to.
        self._services.peers.listen()
        while (notice := self._services.notices.next(wait_s=0)) is not None:
            self._react_to_notice(notice)
        returncode = self._command.returncode or 0
        clean = returncode == 0 and not self._shutdown.is_forced
        self._offer(watch.settle(time.monotonic(), clean=clean, saved=self._shutdown.has_saved(returncode)))
        last = NONE if self._newest_step is None else self._newest_step
        self._services.peers.publish_state(wrote=watch.wrote, clean=clean, last=last)
        for name, reason in watch.unfinished_reasons().items():
            self._log.append("checkpoint-dropped", folder=name, reason=reason)
        if self._invalid:
            self._log.append("metrics-skipped", lines=self._services.metrics.invalid, reason=_INVALID)

    def _offer(self, finished: list[FinishedFolder]) -> None:
        for step, change in self._services.watch.changes():
            self._log.append("checkpoint-changed", step=step, reason=change)
        for named, newest, place in self._services.watch.restarts():
            reason = f"step {named} was saved after step {newest}: the trainer counts anew; it is stored as {place}"
            self._log.append("checkpoint-counter-restarted", step=place, reason=reason)
        if self._services.watch.wrote and not self._wrote:
            self._wrote = True
            self._services.peers.publish_state(wrote=True)
        for folder in finished:
            self._newest_step = max(folder.step, self._newest_step or 0)
            self._watchdog.checkpoint(time.monotonic())
            self._services.stillness.move(time.monotonic())
            self._services.pace.record_write(folder.step, folder.write_s)
            self._services.rotation.record_finished(folder)
            if self._services.uploader is not None:
                try:
                    self._services.scratch.record_finished(folder)
                except OSError as error:
                    self._log.append("scratch-error", error=f"cannot record a finished checkpoint: {error}")
                self._services.uploader.offer(folder)

    def _poll_metrics(self) -> None:
        now = time.monotonic()
        if now < self._metrics_at:
            return
        self._metrics_at = now + _METRICS_POLL_S
        lines = self._services.metrics.new_lines()
        if self._services.peers.part == 0:
            self._services.metrics.keep_room()
        if self._watchdog.steps(lines, now):
            self._services.stillness.move(now)
        for line in lines:
            if "checkpoint_seconds" in line and "checkpoint_step" not in line:
                self._services.pace.record_reported(float(line["checkpoint_seconds"]))
        if self._services.forecast is not None:
            self._services.forecast.lines(lines, now)
        if self._stragglers is not None:
            self._stragglers.poll(now)
        if self._services.metrics.invalid and not self._invalid:
            self._invalid = True
            self._log.append("metrics-skipped", lines=self._services.metrics.invalid, reason=_INVALID)
        if self._notice is None and not self._hung and self._watchdog.hangs(now):
            after = "the start" if self._watchdog.last_step is None else f"step {self._watchdog.last_step}"
            self._hung = f"no new step for {self._spec.hung_minutes:g} minutes after {after}"
            self._log.append("hung", step=self._watchdog.last_step, minutes=self._spec.hung_minutes)
            self._services.peers.publish(Notice(source=FAILURE, detail=self._hung, code=exits.HUNG))
            self._shutdown.end_at(now)

    def _react_to_notice(self, notice: Notice) -> None:
        """React to a notice: the first one starts the end; a later one can only bring the end forward."""
        now = time.monotonic()
        self._services.peers.publish(notice)
        if notice.source == CANCEL and self._notice is not None:
            # `scontrol requeue`, by whomever, ends the job as a cancel does; within a notice it is no cancel.
            self._log.append("notice-hastened", source=notice.source, within=self._notice.source)
        else:
            react_to_notice(notice, drain=self._spec.drain, log=self._log)
        if notice.source == REBALANCE:
            self._services.pace.hasten()
            return
        if notice.left_s is not None:
            self._node_goes_at = min(now + notice.left_s, self._node_goes_at or now + notice.left_s)
        self._shutdown.end_at(now + self._grace_s(notice))
        if self._notice is not None:
            if self._notice.source == CANCEL and notice.source in (SPOT, CAPACITY_END, SIGNAL):
                self._notice = notice
            return
        self._notice = notice
        if self._services.tagging is not None:
            self._services.tagging.stop()
        if notice.saves:
            # Slurm's SIGTERM may be a requeue: only the mark in the store says that a person cancelled the job.
            self._shutdown.ask_to_save(waits=notice.source != CANCEL or notice.left_s is None)
        if self._services.uploader is not None:
            self._services.uploader.hurry()

    def _grace_s(self, notice: Notice) -> float:
        grace_s = self._spec.checkpoint.grace_seconds
        if notice.source == TAKEN_OVER:
            return 0.0
        if notice.source == FAILURE:
            return min(grace_s, _FAILURE_GRACE_S)
        if notice.source == CANCEL and notice.left_s is None:
            return min(grace_s, _CANCEL_GRACE_S)
        if notice.left_s is not None:
            return min(grace_s, max(0.0, notice.left_s - _SPOT_RESERVE_S))
        return grace_s
