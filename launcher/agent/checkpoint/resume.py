"""The start of an attempt: the newest complete checkpoint, the same on all nodes of the job."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from launcher.agent.checkpoint import dcp
from launcher.agent.checkpoint.agreement import agree
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.commit import announce, assemble, commit
from launcher.agent.checkpoint.complete import complete_checkpoints
from launcher.agent.checkpoint.confirmation import next_number
from launcher.agent.checkpoint.dcp import DcpCheckpoint, newest_dcp
from launcher.agent.checkpoint.delivery import figures
from launcher.agent.checkpoint.entries import Layouts
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layout_record import read_layout
from launcher.agent.checkpoint.layouts import AUTO
from launcher.agent.checkpoint.restore import Restore, Restored
from launcher.agent.checkpoint.retention import RetainedCheckpoint, retained_form
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.checkpoint.tagging import protect
from launcher.agent.checkpoint.upload import Sender, check_unchanged
from launcher.agent.checkpoint.watch import DONE_NAME
from launcher.agent.checkpoint.withdrawal import Withdrawal, read_withdrawal
from launcher.agent.checkpoint_keys import commit_keys, step_of_folder
from launcher.agent.errors import ManifestError, StoreError, UnusableCheckpointError
from launcher.agent.events import EventLog
from launcher.agent.job import CheckpointSpec
from launcher.agent.manifest import Manifest
from launcher.agent.node.notices import Notices
from launcher.agent.node.peers import Peers
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store

# The checkpoint that every node of a job has finished and none of them could store: it is stored before the restore.
#
# The first node asks, in its own state: a number, the step, and the life in which it was finished. A node that holds
# that very one sends its part and answers yes, by way of the tree; any other answers no. When all have said yes the
# first node commits, and all restore the newest checkpoint as ever, most of it from their own disks. A step of the
# same number that was finished in another life, or by a job of another size, is not the same checkpoint: nobody mixes
# two. In any doubt nothing is committed, and what each node has stays there and is named.


_ANSWER_POLL_S = 0.5
_SILENCE_S = 180.0
"""As in `agreement`: an agent without a heartbeat after this time counts as lost."""
_PATIENCE_S = 300.0
_PAUSE_S = 5.0
_POLL_S = 0.25
_NOT_STORED = "finished on this node, not in the store, not removed"
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """One node's side of storing a finished checkpoint. `writer` counts one node if only the first node writes.

    `completed` puts back what the trainer removed of a checkpoint's set, as far as the store has it.
    """

    store: Store
    claim: Claim
    scratch: Scratch
    peers: Peers
    writer: Placement
    log: EventLog
    over: Callable[[], bool]
    withdrawal: Withdrawal
    completed: Callable[[FinishedFolder, Iterable[str]], FinishedFolder]

    def settle(self) -> None:
        """Store the checkpoint if all nodes hold it; return when that is decided.

        Raises:
            TakenOverError: another agent has become the writer.
        """
        finished = self.scratch.newest_finished()
        if self.peers.part > 0:
            self._follow(finished)
            return
        try:
            if finished is not None:
                self._lead(finished)
        except (StoreError, ManifestError, UnusableCheckpointError, OSError) as error:
            self._log_rejection(finished, error)
        finally:
            self.peers.publish_state(settled=True)

    # -------------------------------------------------------------------------------------------------- the first node

    def _lead(self, finished: FinishedFolder) -> None:
        attempt_life = self.scratch.life_of(finished)
        several = self.writer.parts > 1
        if (several and not attempt_life) or self.withdrawal.covers(finished) or not self._is_newest(finished.step):
            return
        number = next_number()
        finished = self.completed(finished, ())
        others = finished.others
        if several:
            self.peers.publish_state(arrears=[number, finished.step, attempt_life, others])
        part, sent_bytes = self._send_part(finished)
        if several and not self._all_have_sent(number):
            return
        manifest = assemble(self.store, part, session=self.writer.session)
        check_unchanged(finished, parts=self.writer.parts)
        self.claim.check()
        replaced = commit(self.store, manifest, session=self.writer.session)
        if replaced:
            self.log.append("checkpoint-replaced", step=manifest.step, reason=replaced)
        self.log.append("checkpoint-uploaded", **figures(manifest, sent_bytes))

    def _is_newest(self, step: int) -> bool:
        """Whether the store has no commit of that step or of a newer one, complete or not."""
        for name in self.store.folders():
            other = step_of_folder(name)
            if other is None or other < step:
                continue
            if commit_keys(other, self.withdrawal.without(self.store.sizes(f"{name}/"))):
                return False
        return True

    def _all_have_sent(self, number: int) -> bool:
        """Wait for all answers; return whether every other node has sent its part."""
        others = (1 << self.peers.parts) - 2
        while not self.over():
            gathered = self.peers.gather()
            answered = gathered.question == number
            if gathered.stopped is not None or gathered.silent_s > _SILENCE_S or (answered and gathered.denied):
                return False
            if answered and gathered.confirmed & others == others:
                return True
            time.sleep(_ANSWER_POLL_S)
        return False

    # ------------------------------------------------------------------------------------------------------ the others

    def _follow(self, finished: FinishedFolder | None) -> None:
        """Answer the first node, and wait for its decision."""
        answered = False
        while not self.over():
            first = self.peers.first()
            if first.get("settled") or first.get("ended") or self.peers.first_silent_s() > _SILENCE_S:
                return
            match first.get("arrears"):
                case [int(number), int(step), str(life), list(others)] if not answered:
                    answered = True
                    names = [name for name in others if isinstance(name, str)]
                    self.peers.publish_state(answer=[number, self._restores(finished, step, life, names)])
            time.sleep(_ANSWER_POLL_S)

    def _restores(self, finished: FinishedFolder | None, step: int, life: str, others: list[str]) -> bool:
        if finished is None or finished.step != step or self.scratch.life_of(finished) != life:
            return False
        try:
            part, sent_bytes = self._send_part(self.completed(finished, others))
        except (StoreError, UnusableCheckpointError, OSError) as error:
            self._log_rejection(finished, error)
            return False
        self.log.append("checkpoint-part-uploaded", **figures(part, sent_bytes))
        return True

    # ------------------------------------------------------------------------------------------------------------ both

    def _send_part(self, finished: FinishedFolder) -> tuple[Manifest, int]:
        """Send this node's part, verified against the hashes from when it was finished."""
        part, sent_bytes = Sender(self.store, self.writer).send(finished)
        for file in part.files:
            if finished.hashes.get(file.path) != file.sha256:
                raise UnusableCheckpointError(f"{file.path} changed after it was finished")
        if self.writer.parts > 1:
            announce(self.store, part, session=self.writer.session)
        return part, sent_bytes

    def _log_rejection(self, finished: FinishedFolder | None, error: Exception) -> None:
        step = finished.step if finished is not None else None
        self.log.append("restore-skipped", step=step, reason=f"the copy on this node cannot be stored: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The starting point of the command.

    Attributes:
        resume: The value of SLIPWAY_RESUME_DIR, a folder or an S3 address; empty for a start from step 0.
        resume_file: The value of SLIPWAY_RESUME_FILE: the checkpoint, if it is one file in that folder; else empty.
        step: The step of that checkpoint; None for a start from step 0.
        restored: The checkpoint, if it is on the node (mode "agent").
        dcp: The checkpoint, if it is only in the store (mode "dcp").
        layout: Key of the layout that an earlier attempt recorded without storing a complete checkpoint; else empty.
        withdrawn: The manifests that a user took out of the running.
    """

    resume: str = ""
    resume_file: str = ""
    step: int | None = None
    restored: Restored | None = None
    dcp: DcpCheckpoint | None = None
    layout: str = ""
    withdrawn: frozenset[str] = frozenset()

    @property
    def newest(self) -> Manifest | None:
        """The newest complete checkpoint in the store (mode "agent")."""
        return self.restored.manifest if self.restored is not None else None

    @property
    def retained_checkpoint(self) -> RetainedCheckpoint | None:
        """What retention leaves alone of the checkpoint in the store; None for a start from step 0."""
        if self.dcp is not None:
            return dcp.retained_of(self.dcp)
        return None if self.newest is None else retained_form(self.newest)

    @property
    def marks_finished(self) -> bool:
        """Whether the trainer is known to mark finished checkpoints."""
        return any(file.path == DONE_NAME for file in self.newest.files) if self.newest is not None else False

    @property
    def checkpoint(self) -> FinishedFolder | None:
        """The checkpoint on the node, if one exists."""
        return self.restored.finished if self.restored is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """Finds the start of an attempt. Retries for some minutes if the store fails; a notice ends the wait."""

    policy: CheckpointSpec
    store: Store
    claim: Claim
    scratch: Scratch
    peers: Peers
    writer: Placement
    layouts: Layouts
    notices: Notices
    log: EventLog

    def find(self) -> Start:
        """Take the claim, restore, and agree with the other nodes.

        Returns a start from step 0 if no complete checkpoint exists, or if a notice came first.

        Raises:
            AgentError: the store stays unreadable (a start from step 0 would lose its checkpoints), or another agent or
                node prevents the start.
        """
        if self.peers.part == 0:
            self._claim()
        withdrawal = Withdrawal()
        if self.policy.mode == "agent":
            withdrawal = self._patiently(lambda: read_withdrawal(self.store), otherwise=withdrawal)
        self._settle_backlog(withdrawal)
        starts: list[Start] = []

        def restore(at_most: int | None) -> int | None:
            starts.append(self._patiently(lambda: self._restore(at_most, withdrawal), otherwise=Start()))
            return starts[-1].step

        agree(self.peers, restore, over=self.notices.pending)
        start = replace(starts[-1], withdrawn=withdrawal.manifests)
        if self.policy.mode == "agent" and start.newest is None and not self.layouts.key:
            run = self.writer.run
            start = replace(start, layout=self._patiently(lambda: read_layout(self.store, run=run), otherwise=""))
        try:
            if start.newest is not None:
                self.scratch.release(start.newest.step, layout=self.layouts.of(start.newest).key)
            self.scratch.forget_previous()
        except OSError as error:
            self.log.append("scratch-error", error=f"cannot record the finished checkpoints on this node: {error}")
        start = _with_present_files(start)
        if start.newest is not None and self.peers.part == 0:
            self._compare_parts(start.newest)
        for unsent in self.scratch.unsent_checkpoints():
            self.log.append("checkpoint-kept", step=unsent.step, bytes=unsent.bytes, reason=f"{_NOT_STORED}: {unsent}")
        self._log_start(start)
        return start

    def _compare_parts(self, newest: Manifest) -> None:
        """Report a checkpoint without the files of a node that has some in the one before.

        Earlier versions could commit one without a slow node's part. A trainer may also have ceased to write there.
        """
        nodes = {file.part for file in newest.files}
        if len(nodes) == newest.parts:
            return
        try:
            before = self._before(newest)
        except StoreError as error:
            self.log.append("store-error", error=f"cannot compare step {newest.step} with the one before: {error}")
            return
        lacking = {file.part for file in before.files} - nodes if before is not None else set()
        if before is not None and lacking:
            names = ", ".join(map(str, sorted(lacking)))
            reason = (
                f"step {newest.step} has no files of node {names}, and step {before.step} has: if the trainer writes "
                f"checkpoints on every node, begin at that one (slipway launch FILE --from-step {before.step})"
            )
            self.log.append("set-incomplete", step=newest.step, reason=reason)

    def _before(self, newest: Manifest) -> Manifest | None:
        """The complete checkpoint before another one of the same layout and number of nodes; None without one."""
        folders = [(step, name) for name in self.store.folders() if (step := step_of_folder(name)) is not None]
        for step, name in sorted((folder for folder in folders if folder[0] < newest.step), reverse=True):
            for manifest in complete_checkpoints(self.store, step, self.store.sizes(f"{name}/"))[0]:
                if (manifest.layout, manifest.unit, manifest.parts) == (newest.layout, newest.unit, newest.parts):
                    return manifest
        return None

    def _claim(self) -> None:
        """Take the claim. If the store does not accept it now, the agent retries before every commit."""
        try:
            self.claim.take(over=self.notices.pending)
        except StoreError as error:
            self.log.append("claim-error", error=str(error))
        self.claim.start()

    def _settle_backlog(self, withdrawal: Withdrawal) -> None:
        """On several nodes: store what all finished and none could store. A single node resumes from its own copy."""
        if self.policy.mode != "agent" or self.peers.alone:
            return
        Backlog(
            store=self.store,
            claim=self.claim,
            scratch=self.scratch,
            peers=self.peers,
            writer=self.writer,
            log=self.log,
            over=self.notices.pending,
            withdrawal=withdrawal,
            completed=self._restorer(withdrawal).complete_set,
        ).settle()

    def _restore(self, at_most: int | None, withdrawal: Withdrawal) -> Start:
        if self.policy.mode == "dcp":
            checkpoint, skipped = newest_dcp(
                self.store, at_most=at_most, on_skip=self._on_skip, fresh=self.policy.restart == "fresh"
            )
            if checkpoint is None:
                return Start()
            if skipped and self.peers.part == 0:
                self._protect(checkpoint.step, lambda: self.store.sizes(f"{checkpoint.folder}/"))
            uri = f"{self.store.uri.rstrip('/')}/{checkpoint.folder}"
            return Start(resume=uri, step=checkpoint.step, dcp=checkpoint)
        finished = self.scratch.newest_finished() if self.peers.alone and at_most is None else None
        restored = self._restorer(withdrawal).newest(at_most=at_most, finished_here=finished)
        if restored is None:
            return Start()
        newest = restored.manifest
        if newest is not None and restored.skipped_newer and self.peers.part == 0:
            self._protect(newest.step, lambda: self._keys_of(newest))
        one_file = not restored.resume.is_dir()
        return Start(
            resume=str(restored.resume.parent if one_file else restored.resume),
            resume_file=str(restored.resume) if one_file else "",
            step=restored.step,
            restored=restored,
        )

    def _restorer(self, withdrawal: Withdrawal) -> Restore:
        return Restore(
            store=self.store,
            checkpoints=self.scratch.checkpoints,
            previous=self.scratch.previous,
            unsent=tuple(self.scratch.unsent_checkpoints()),
            part=self.peers.part,
            parts=self.writer.parts,
            on_skip=self._on_skip,
            on_again=lambda reason: self.log.append("restore-again", reason=reason),
            make_room=lambda needed, useful: self.scratch.make_room(needed, useful=useful, starting=True),
            spend_reserve=self.scratch.spend_reserve,
            layouts=self.layouts,
            named=self.policy.layout != AUTO or self.policy.pattern is not None,
            fresh=self.policy.restart == "fresh",
            withdrawal=withdrawal,
        )

    def _keys_of(self, manifest: Manifest) -> list[str]:
        commits = commit_keys(manifest.step, self.store.sizes(f"step-{manifest.step}/"))
        return [*commits, *(file.key for file in manifest.files)]

    def _protect(self, step: int, keys: Callable[[], Iterable[str]]) -> None:
        """Prevent the expiry of objects if the checkpoint that superseded them proved incomplete."""
        try:
            protect(self.store, keys())
        except StoreError as error:
            self.log.append("retention-failed", step=step, error=str(error))

    def _patiently(self, call: Callable[[], _Result], *, otherwise: _Result) -> _Result:
        patience = time.monotonic() + _PATIENCE_S
        while True:
            try:
                return call()
            except StoreError as error:
                if error.permanent or time.monotonic() >= patience:
                    raise StoreError(f"{error}; starting without this store would lose its checkpoints") from error
                self.log.append("restore-retry", error=str(error))
                again = time.monotonic() + _PAUSE_S
                while time.monotonic() < again and not self.notices.pending():
                    time.sleep(_POLL_S)
                if self.notices.pending():
                    return otherwise  # the attempt is over before it began

    def _on_skip(self, step: int, reason: str) -> None:
        self.log.append("restore-skipped", step=step, reason=reason)

    def _log_start(self, start: Start) -> None:
        if start.step is None:
            if not self.notices.pending():
                self.log.append("nothing-restored")
            return
        facts: Mapping[str, object] = {"source": "store", "bytes": start.dcp.bytes if start.dcp else None}
        if (restored := start.restored) is not None:
            facts = {
                "source": "node" if restored.is_local_only else "store",
                "bytes": restored.bytes,
                "reused_bytes": restored.reused_bytes,
                "seconds": restored.seconds,
            }
            if restored.finished.counted:
                facts = {**facts, "counted": True}
            if restored.lacking:
                names = ", ".join(restored.lacking)
                reason = f"step {start.step} names {names} beside it, which neither this node nor the store has"
                self.log.append("set-incomplete", step=start.step, reason=reason)
        self.log.append("restored", step=start.step, **facts)


def _with_present_files(start: Start) -> Start:
    """The start with its files as they are now: one that was a hard link has changed with the removal of the other."""
    restored = start.restored
    if restored is None or not restored.finished.files:
        return start
    try:
        files = restored.finished.survey().files
    except UnusableCheckpointError:
        return start  # an entry has just disappeared: the watch looks again
    return replace(start, restored=replace(restored, finished=replace(restored.finished, files=files)))
