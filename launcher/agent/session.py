"""One attempt of a job on this node, from the restore to the exit code."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.agent import ending, exits
from launcher.agent.checkpoint import dcp, retention
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.delivery import Reports
from launcher.agent.checkpoint.entries import layouts_of
from launcher.agent.checkpoint.layouts import Layout
from launcher.agent.checkpoint.leftover_files import Leftover
from launcher.agent.checkpoint.output_paths import OutputPath
from launcher.agent.checkpoint.outputs import Lack, Outputs, left_behind
from launcher.agent.checkpoint.own_checkpoints import OwnWatch, place_of
from launcher.agent.checkpoint.pace import Pace
from launcher.agent.checkpoint.read_back import ReadBack
from launcher.agent.checkpoint.recognition import NO_CHECKPOINT, written_elsewhere
from launcher.agent.checkpoint.recording import Recording
from launcher.agent.checkpoint.resume import Resumption, Start
from launcher.agent.checkpoint.rotation import Rotation
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.checkpoint.tagging import Tagging
from launcher.agent.checkpoint.uploader import Uploader
from launcher.agent.checkpoint.watch import CheckpointWatch
from launcher.agent.command_line import filled_in
from launcher.agent.data import Data
from launcher.agent.ending import Ending
from launcher.agent.errors import AgentError, JobSpecError, OccupiedNodeError, StoreError
from launcher.agent.events import ROUTINE, EventLog, events_path
from launcher.agent.forecast import at_types
from launcher.agent.job import JobSpec, expand
from launcher.agent.manifest import Manifest
from launcher.agent.node import forecast_watch, rates
from launcher.agent.node.board import Board
from launcher.agent.node.drivers import drivers
from launcher.agent.node.forecast_watch import ForecastWatch
from launcher.agent.node.notice import BUDGET, FAILURE, TAKEN_OVER, Notice
from launcher.agent.node.notices import Notices, drain_and_log, react_to_notice
from launcher.agent.node.peers import Peers, in_folder
from launcher.agent.node.placement import Placement, placement
from launcher.agent.node.process import Command, start_failure_code
from launcher.agent.node.progress import Metrics
from launcher.agent.node.step_daemon import StepDaemon
from launcher.agent.node.stillness import Stillness
from launcher.agent.steps import AFTER, BEFORE, COMMAND, Steps, StepServices
from launcher.agent.store import guard_messages, heartbeat, stop_watch
from launcher.agent.store.objects import Store
from launcher.agent.supervision import AttemptServices, CommandEnd, Supervision

MARKED_NAME = "checkpoints-are-marked"
"""File next to the events, with the run's id: in this run a checkpoint was renamed into place, or got a `_DONE`."""

NUMBER_NAME = "agent.pid"
"""File next to the events: first node's agent pid, which the batch script signals (templates/slurm/job.sbatch.j2)."""

_NOT_KNOWN = "not known to be in the store; not removed while the disk has room"
_MASTER_PORT = "29500"
"""The port if the batch script or the pod sets no other."""
_INTERACTIVE = "interactive"
"""The name of a Slurm job in which Lightning ignores Slurm (2.6, `_is_slurm_interactive_mode` in
fabric/plugins/environments/slurm.py). Elsewhere it refuses `devices=8` with one task a node, and requeues the job."""
_TAGGING_AT_THE_END_S = 60.0
"""Time to tag superseded objects after a completed command; `slipway checkpoints prune` handles the rest."""
_COMMIT_PATIENCE_S = 30.0
_COMMIT_POLL_S = 0.5


class Session:
    """Runs the command of one job once."""

    def __init__(
        self,
        spec: JobSpec,
        environment: Mapping[str, str],
        *,
        place: Placement | None = None,
        notices: Notices | None = None,
        board: Board | None = None,
    ) -> None:
        """`place` None: from the scheduler's variables. `board` None: in the folder of the events."""
        # EC2 may have chosen other types than the quoted one.
        types = _instances(environment).get("instance_types", [])
        self._spec = spec = replace(spec, quoted=None if spec.quoted is None else at_types(spec.quoted, types))
        self._environment = environment
        self._place = place = place or placement(spec.run, environment)
        self._began = time.monotonic()
        names = ("workdir", "metrics", "events", "scratch")
        paths = {name: Path(expand(getattr(spec, name), environment)) for name in names}
        wrong = [f"{name}: {at} is not absolute on this node" for name, at in paths.items() if not at.is_absolute()]
        if wrong:
            raise JobSpecError(wrong)
        self._workdir, self._metrics_path = paths["workdir"], paths["metrics"]
        log_path = self._events_path = events_path(paths["events"], part=place.part)
        unprinted = ROUTINE if place.part else frozenset[str]()
        self._log = EventLog(log_path, unprinted=unprinted, run=spec.run, attempt=place.attempt, node=place.node)
        job = spec.name if place.parts == 1 else f"{spec.name}-part{place.part}"
        life = f"{place.session} on {place.parts}"
        self._layouts = layouts_of(spec.checkpoint)
        self._data = [replace(data_spec, path=expand(data_spec.path, environment)) for data_spec in spec.data]
        self._scratch = Scratch(
            paths["scratch"],
            job=job,
            run=spec.run,
            uri="" if spec.checkpoint.mode == "own" else spec.checkpoint.uri or "",
            life=life,
            layouts=self._layouts if spec.checkpoint.mode == "agent" else None,
            on_removed=self._log_removed,
            on_ended=self._log_ended,
        )
        self._marked_path = paths["events"].with_name(f"{MARKED_NAME}-{spec.run}")
        self._notices = notices or Notices()
        self._stillness = Stillness(time.monotonic())
        self._peers = Peers(
            board or in_folder(paths["events"].parent, place), place, self._log, on_notice=self._notices.put
        )
        self._step_daemon = StepDaemon(environment, self._log, on_notice=self._notices.put)

    def run(self) -> int:
        """Restore, run, upload. Returns the exit code of the agent (`exits`)."""
        spec, place = self._spec, self._place
        self._notices.listen()
        self._write_number()
        details: dict[str, Any] = {"checkpoints": spec.checkpoint.uri or spec.checkpoint.mode}
        details |= {"software": drivers() or None, **_instances(self._environment)}
        self._log.append("attempt-started", part=place.part, parts=place.parts, **details)
        self._notices.watch_ends(spec, counts_limit=not place.part and "SLURM_JOB_ID" not in self._environment)
        if spec.imds:
            self._notices.watch_metadata(self._environment, poll_s=spec.imds_poll_s, log=self._log)
        self._peers.open()
        self._step_daemon.watch()
        budget = stop_watch.begin(
            None if place.part else spec.stop_uri,
            on_stop=lambda text: self._notices.put(Notice(source=BUDGET, detail=text)),
            on_problem=lambda text: self._log.append(
                "store-error", error=f"cannot check whether the budget is used up: {text}"
            ),
        )
        try:
            forwarding = guard_messages.forwarding(None if place.part else spec.message_uri, spec.name, self._log)
            with self._scratch, forwarding, self._heartbeat():
                end = self._attempt()
        except AgentError as error:
            if isinstance(error, OccupiedNodeError) and spec.drain:
                drain_and_log(f"slipway: {error}", self._log)
            end = ending.from_error(error)
        finally:
            self._notices.stop()
            budget.stop()
        end = ending.at_time_limit(end, spec, place, self._events_path, ran_s=time.monotonic() - self._began)
        fields = {name: value for name, value in (("notice", end.notice), ("reason", end.reason)) if value}
        self._log.append(end.event, ended_by=end.ended_by, exit_code=end.exit_code, **fields)
        if end.is_failure and not place.part:
            ending.give_up(self._events_path, self._log, own_mode=spec.checkpoint.mode == "own")
        self._peers.close(exit_code=end.exit_code)
        self._step_daemon.end(cancelled=end.exit_code in (exits.CANCELLED, exits.STOPPED))
        return end.exit_code

    def _write_number(self) -> None:
        """Give the batch script the pid to signal before a time limit: srun would signal every process of the step."""
        if self._place.part or "SLURM_JOB_ID" not in self._environment:
            return
        try:
            self._events_path.with_name(NUMBER_NAME).write_text(f"{os.getpid()}\n", encoding="ascii")
        except OSError as error:
            self._log.append("scratch-error", error=f"the agent will not be notified of the time limit: {error}")

    def _heartbeat(self) -> AbstractContextManager[None]:
        """The heartbeat, on every node: only a job whose nodes are all idle is hung."""
        spec, place = self._spec, self._place
        about = {"run": spec.run, "job": spec.name, "attempt": place.attempt, "part": place.part}
        return heartbeat.beating(spec.message_uri, about, self._stillness.still_s, self._log)

    def _attempt(self) -> Ending:
        """Run with the claim to the checkpoints, and release it."""
        for leftover in self._scratch.leftovers():
            self._log.append(
                "checkpoint-kept", path=str(leftover.path), bytes=leftover.bytes, reason=f"{_NOT_KNOWN}: {leftover}"
            )
        claim = self._new_claim()
        if claim is None:
            return self._through(Start(), None)
        resumption = Resumption(
            policy=self._spec.checkpoint,
            store=claim.store,
            claim=claim,
            scratch=self._scratch,
            peers=self._peers,
            writer=self._writer,
            layouts=self._layouts,
            notices=self._notices,
            log=self._log,
        )
        try:
            start = resumption.find()
            return self._through(start, claim)
        finally:
            claim.release()

    def _log_ended(self, processes: list[str]) -> None:
        names = f"{', '.join(processes[:4])}{' and others' if len(processes) > 4 else ''}"  # noqa: PLR2004
        self._log.append("processes-ended", count=len(processes), reason=f"an ended attempt left {names}")

    def _log_removed(self, leftover: Leftover, reason: str) -> None:
        self._log.append(
            "checkpoint-removed", path=str(leftover.path), bytes=leftover.bytes, reason=f"{leftover}: {reason}"
        )

    def _log_problem(self, event: str, reason: str) -> None:
        """Report that nothing a trainer writes is recognised; only the first node reports, if the agent stores."""
        if self._place.part == 0 and self._spec.checkpoint.mode == "agent":
            others = self._peers.gather().wrote if event == NO_CHECKPOINT else 0
            self._log.append(event, reason=f"{reason}{written_elsewhere(others)}")

    def _log_layout(self, layout: Layout) -> None:
        """Announce the framework's layout, which the other nodes then use."""
        if self._spec.checkpoint.mode == "agent":
            self._log.append("checkpoint-layout", layout=layout.layout, unit=layout.unit)
        self._peers.publish_state(layout=layout.key)

    def _new_claim(self) -> Claim | None:
        """The claim to the job's checkpoints in its store; None if the agent stores none."""
        policy, place = self._spec.checkpoint, self._place
        if policy.uri is None or policy.mode in ("own", "none"):
            return None
        store = Store(policy.uri, max_mb_s=policy.max_mb_s, timeout_s=policy.timeout_s)
        return Claim(store, self._log, run=self._spec.run, attempt=place.attempt, node=place.node)

    def _through(self, start: Start, claim: Claim | None) -> Ending:
        spec = self._spec
        if spec.plan_uri is None or not (spec.before or spec.after or spec.data):
            return self._run_from(start, claim)
        services = StepServices(
            store=Store(spec.plan_uri, timeout_s=spec.checkpoint.timeout_s),
            peers=self._peers,
            notices=self._notices,
            log=self._log,
            start=lambda arguments: self._start_command(arguments, start),
            drain=spec.drain,
        )
        steps = Steps(services, run=spec.run)
        data = Data(services, life=f"{spec.run}/{self._place.session}", timeout_s=spec.checkpoint.timeout_s)
        try:
            end = data.bring(self._data) or steps.run(BEFORE, spec.before)
            done = end is None and bool(spec.after) and steps.command_done()
            if end is None and not done:
                end = self._run_from(start, claim)
                if end == ending.completion() and spec.after:
                    steps.mark(COMMAND)
        except StoreError as error:
            return self._publish_failure(
                ending.failure(exits.STORE_FAILED, f"cannot write or read the progress marks of the steps: {error}")
            )
        if end is not None and end != ending.completion():
            return self._publish_failure(end)
        end = steps.run(AFTER, spec.after)
        if end is not None:
            return self._publish_failure(end)
        lack = self._bring_outputs(time.monotonic() + spec.checkpoint.final_upload_s)
        return ending.completion() if lack is None else ending.failure(lack.code, lack.reason)

    def _run_from(self, start: Start, claim: Claim | None) -> Ending:
        notice = self._notices.next_end()
        if notice is not None:
            self._peers.publish(notice)
            react_to_notice(notice, drain=self._spec.drain, log=self._log)
            return ending.from_notice(notice)
        watch = CheckpointWatch(
            self._scratch.checkpoints,
            layouts=self._layouts.only(start.layout) if start.newest is None else self._layouts.of(start.newest),
            restored=start.checkpoint,
            marked=start.marks_finished or self._marked_path.exists(),
            on_mark=self._remember_marks,
            interval_s=self._spec.checkpoint.interval_s,
            on_problem=self._log_problem,
            on_layout=self._log_layout,
            lead=None if self._place.part == 0 else lambda: str(self._peers.first().get("layout") or ""),
            alone=self._place.parts == 1,
        )
        metrics, own_watch = self._metrics(), self._own_watch()
        pace = self._pace(metrics)
        try:
            command = self._start_command(self._spec.command, start)
        except OSError as error:
            code = start_failure_code(error)
            return self._publish_failure(ending.failure(code, f"cannot start the command: {error}"))
        tagging = self._tagging(claim, start)
        rotation = Rotation(self._scratch.checkpoints, self._peers, self._log, restored=start.checkpoint)
        services = AttemptServices(
            notices=self._notices,
            peers=self._peers,
            scratch=self._scratch,
            watch=watch,
            uploader=self._uploader(claim, start, pace, tagging, rotation),
            dcp=self._dcp_watch(claim, start, tagging),
            own_watch=own_watch,
            tagging=tagging,
            rotation=rotation,
            metrics=metrics,
            pace=pace,
            forecast=self._forecast(),
            stillness=self._stillness,
            log=self._log,
        )
        try:
            outcome = Supervision(command, self._spec, services).run()
        except BaseException:
            command.signal(signal.SIGKILL)  # a defect in the agent must not leave an unsupervised command
            raise
        self._log.append("command-ended", code=exits.exit_code_of(outcome.returncode))
        return self._ending(outcome, services)

    def _remember_marks(self) -> None:
        """Record that the trainer renames or marks finished checkpoints, so that no later attempt must guess."""
        try:
            self._marked_path.touch()
        except OSError as error:
            self._log.append("scratch-error", error=f"cannot record that checkpoints are marked: {error}")

    def _forecast(self) -> ForecastWatch | None:
        """The forecast, on the first node only: the steps are the same on all nodes."""
        place = self._place
        quoted = self._spec.quoted if place.part == 0 else None
        return forecast_watch.watch(quoted, self._events_path, self._log, attempt=place.attempt, now=time.monotonic())

    def _metrics(self) -> Metrics:
        metrics = Metrics(self._metrics_path)
        if self._place.part == 0:
            metrics.prepare()
        return metrics

    def _pace(self, metrics: Metrics) -> Pace:
        policy = self._spec.checkpoint
        return Pace(
            policy.interval_s,
            mtbf_s=policy.mtbf_s if self._place.part == 0 else None,
            write=self._scratch.write_interval,
            metrics=metrics,
            log=self._log,
        )

    def _start_command(self, arguments: Sequence[str], start: Start) -> Command:
        try:
            self._metrics_path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._log.append("scratch-error", error=f"the command has no place for its metrics: {error}")
        environment = self._variables(start)
        record = self._scratch.record_command
        command = Command(
            filled_in(arguments, environment), workdir=self._workdir, environment=environment, record=record
        )
        self._log.append("command-started", pid=command.pid)
        if not self._scratch.has_recorded(command.pid):
            self._log.append("scratch-error", error="cannot record the command's process group")
        return command

    def _variables(self, start: Start) -> dict[str, str]:
        policy, place = self._spec.checkpoint, self._place
        mounts = dict.fromkeys(folder for folder in (self._own_path, *(data.path for data in self._data)) if folder)
        environment = {
            "SLIPWAY_WORKERS_PER_NODE": "1",
            "SLIPWAY_MASTER_PORT": _MASTER_PORT,
            **self._peers.meeting_variables,
            **self._environment,
            **self._spec.env,
            "SLIPWAY_NODE_RANK": str(place.part),
            "SLIPWAY_NODES": str(place.parts),
            "SLIPWAY_RUN": self._spec.run,
            "SLIPWAY_ATTEMPT": str(self._place.attempt),
            "SLIPWAY_CHECKPOINT_DIR": self._own_path or str(self._scratch.checkpoints),
            "SLIPWAY_RESUME_DIR": start.resume,
            "SLIPWAY_RESUME_FILE": start.resume_file,
            "SLIPWAY_CHECKPOINT_INTERVAL_S": f"{policy.interval_s:g}",
            "SLIPWAY_CHECKPOINT_INTERVAL_FILE": str(self._scratch.interval_file),
            **rates.metrics_variables(self._metrics_path, self._place.part),
        }
        if mounts:
            environment["SLIPWAY_MOUNTS"] = ":".join(mounts)  # for templates/slurm/container.sh
        if policy.uri is not None and policy.mode in ("dcp", "own"):
            environment["SLIPWAY_CHECKPOINT_URI"] = (self._own_path or policy.uri).rstrip("/")
        if "SLIPWAY_MASTER_ADDR" not in environment and (address := self._peers.address_of_first()):
            environment["SLIPWAY_MASTER_ADDR"] = address
        if "SLURM_JOB_NAME" in environment and "SLURM_JOB_NAME" not in self._spec.env:
            environment["SLURM_JOB_NAME"] = _INTERACTIVE
        return environment

    def _tagging(self, claim: Claim | None, start: Start) -> Tagging | None:
        """The thread that tags superseded checkpoints: led by the first node, which alone commits; the others help."""
        if claim is None:
            return None
        policy, store = self._spec.checkpoint, claim.store
        # One more on several nodes: a part that is on its way may point to what was newest when it began.
        keep = policy.keep + (policy.mode == "agent" and self._parts_of_a_checkpoint > 1)
        inspect = dcp.inspect(store, withdrawn=start.withdrawn)
        keeping = retention.Retention(store, keep=keep, inspect=inspect, newest=start.retained_checkpoint)
        tagging = Tagging(store, self._log, claim, keeping, self._peers)
        tagging.start()
        if self._place.part == 0:
            tagging.wake()  # for what an earlier life had no time for
        return tagging

    @property
    def _parts_of_a_checkpoint(self) -> int:
        return 1 if self._spec.checkpoint.writers == "first-node" else self._place.parts

    @property
    def _writer(self) -> Placement:
        """This node among those that write checkpoints."""
        return replace(self._place, parts=self._parts_of_a_checkpoint)

    def _uploader(
        self, claim: Claim | None, start: Start, pace: Pace, tagging: Tagging | None, rotation: Rotation
    ) -> Uploader | None:
        policy, place = self._spec.checkpoint, self._place
        first_only = policy.writers == "first-node"
        if claim is None or tagging is None or policy.mode != "agent" or (first_only and place.part > 0):
            return None
        read_back = ReadBack(self._spec, self._scratch, pace, self._log, part=place.part)
        recording = Recording(self._scratch, self._log)

        def whole(manifest: Manifest) -> None:
            pace.record_upload(manifest.step, seconds=manifest.seconds, size_bytes=manifest.bytes)
            recording.record_stored(manifest.step, layout=self._layouts.of(manifest).key)
            read_back.checkpoint_stored(manifest)
            rotation.record_stored(manifest.step)

        uploader = Uploader(
            claim.store,
            self._log,
            self._writer,
            newest=start.newest,
            tagging=tagging,
            claim=claim,
            peers=self._peers,
            reports=Reports(
                completed=whole,
                joined=recording.record_set,
                hashed=recording.record_hashes,
                taken_over=self._taken_over,
            ),
            copies=self._scratch.copies,
        )
        uploader.start()
        if start.restored is not None and start.restored.is_local_only:
            restored = start.restored
            uploader.offer(restored.finished)
        return uploader

    def _dcp_watch(self, claim: Claim | None, start: Start, tagging: Tagging | None) -> dcp.DcpWatch | None:
        policy = self._spec.checkpoint
        if claim is None or tagging is None or policy.mode != "dcp" or self._place.part > 0:
            return None
        watch = dcp.DcpWatch(
            claim.store,
            self._log,
            claim,
            tagging=tagging,
            newest=start.dcp,
            on_taken_over=self._taken_over,
        )
        watch.start()
        return watch

    @property
    def _own_path(self) -> str:
        """The folder in which the trainer stores its checkpoints itself; empty if it uses no folder."""
        policy = self._spec.checkpoint
        is_path = policy.mode == "own" and policy.uri is not None and not policy.uri.startswith("s3://")
        return expand(policy.uri or "", self._environment) if is_path else ""

    def _own_watch(self) -> OwnWatch | None:
        """The first node's watch on the location of the trainer's checkpoints; the location must exist on all nodes."""
        policy = self._spec.checkpoint
        if policy.uri is None or policy.mode != "own":
            return None
        uri = self._own_path or policy.uri
        if self._place.part > 0:
            place_of(uri, timeout_s=policy.timeout_s)
            return None
        watch = OwnWatch(
            uri,
            self._layouts,
            self._log,
            interval_s=policy.interval_s,
            timeout_s=policy.timeout_s,
            moved=lambda: self._stillness.move(time.monotonic()),
        )
        watch.start()
        return watch

    def _hear_of_the_commit(self, deadline: float) -> None:
        """On other nodes than the first: wait for the commit of the last part, at most until `deadline` (monotonic)."""
        deadline = min(deadline, time.monotonic() + _COMMIT_PATIENCE_S)
        recording = Recording(self._scratch, self._log)
        while self._place.part > 0:
            first = self._peers.first()
            committed = first.get("whole")
            if isinstance(committed, int):
                recording.record_stored(committed)
            if first.get("ended") or not self._scratch.owes() or time.monotonic() >= deadline:
                return
            time.sleep(_COMMIT_POLL_S)

    def _taken_over(self, reason: str) -> None:
        self._notices.put(Notice(source=TAKEN_OVER, detail=reason))

    def _ending(self, outcome: CommandEnd, services: AttemptServices) -> Ending:
        """Upload the rest, then return how the attempt ended."""
        end = ending.command_ending(outcome)
        if outcome.notice is None:
            self._publish_failure(end)
        lacking = self._deliver_last(outcome, services, completed=end == ending.completion())
        # A lost node took its part of the last checkpoint with it.
        undone = lacking is not None if end == ending.completion() else end.is_failure and not outcome.hung
        if undone and (lost := self._peers.lost_nodes()):
            return ending.node_loss(lost)
        late = self._notices.next_end()
        if late is not None and (late.source == TAKEN_OVER or (end.is_failure and not outcome.hung and late.saves)):
            return ending.from_notice(late)  # why the command ended was heard only now
        if end == ending.completion() and lacking:
            return ending.failure(lacking.code, f"the command completed, but {lacking.reason}")
        return end

    def _deliver_last(self, outcome: CommandEnd, services: AttemptServices, *, completed: bool) -> Lack | None:
        uploader, newest = services.uploader, outcome.newest_step
        deadline = time.monotonic() + ending.upload_patience_s(outcome, final_s=self._spec.checkpoint.final_upload_s)
        unsent = uploader.finish(deadline) if uploader is not None else []
        if uploader is not None and not unsent:
            self._hear_of_the_commit(deadline)
        for step in unsent:
            self._log.append("checkpoint-dropped", step=step, reason="the upload did not finish in time")
        if outcome.notice is None:
            deadline = max(deadline, time.monotonic() + self._spec.checkpoint.final_upload_s)
        lack = None if completed and self._spec.after else self._bring_outputs(deadline)
        if completed and uploader is not None:
            self._log_unstored()
        if services.dcp is not None:
            services.dcp.finish()
        if services.own_watch is not None:
            services.own_watch.finish(clean=completed)
        if services.tagging is not None:
            patience_s = _TAGGING_AT_THE_END_S if completed else 0.0
            services.tagging.finish(min(deadline, time.monotonic() + patience_s))
        if uploader is not None and newest is not None and not uploader.has(newest):
            return Lack(code=exits.STORE_FAILED, reason=f"its last checkpoint, step {newest}, is not in the store")
        return lack

    def _bring_outputs(self, deadline: float) -> Lack | None:
        """Upload the first node's outputs; return why not all are in the store, None if they are."""
        spec, place = self._spec, self._place
        if spec.plan_uri is None or not spec.outputs or place.part:
            return None
        store = Store(spec.plan_uri, timeout_s=spec.checkpoint.timeout_s)
        return Outputs(store, self._log, run=spec.run, attempt=place.attempt).bring(self._outputs(), deadline)

    def _outputs(self) -> list[OutputPath]:
        spec = self._spec
        filled = filled_in(spec.outputs, self._variables(Start()))
        return [
            OutputPath(written=path, place=self._workdir / word, optional=path in spec.optional_outputs)
            for path, word in zip(spec.outputs, filled, strict=True)
        ]

    def _log_unstored(self) -> None:
        """Report files in the root of the checkpoint folder (final model, logs, ...) that are lost with the node."""
        folder = self._scratch.checkpoints
        try:
            stored = {name for entry in self._layouts.entries_in(folder) for name in entry.names}
            stored = {name.partition("/")[0] for name in (*stored, *self._layouts.belongings(folder))}
            names, size = left_behind(folder, stored, self._outputs())
        except OSError as error:
            self._log.append("scratch-error", error=f"cannot list the files left in {folder}: {error}")
            return
        if names:
            reason = f"not stored and lost with the node, in the checkpoint folder: {names}; run.outputs stores files"
            self._log.append("files-left", bytes=size, reason=reason)

    def _publish_failure(self, end: Ending) -> Ending:
        """Notify the job's other nodes of a failure: their processes would wait for this node forever."""
        if end.is_failure:
            self._peers.publish(Notice(source=FAILURE, detail=end.reason, code=end.exit_code))
        return end


def _instances(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """The types and zones of the job's instances in the order of their ranks, where the node's own program names them.

    >>> _instances({"SLIPWAY_INSTANCE_TYPES": "g5.xlarge,g6.xlarge", "SLIPWAY_ZONES": "us-east-2a,us-east-2a"})
    {'instance_types': ['g5.xlarge', 'g6.xlarge'], 'zones': ['us-east-2a', 'us-east-2a']}
    """
    named = {"instance_types": environment.get("SLIPWAY_INSTANCE_TYPES"), "zones": environment.get("SLIPWAY_ZONES")}
    return {key: names.split(",") for key, names in named.items() if names}
