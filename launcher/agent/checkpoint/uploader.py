"""The thread that uploads finished checkpoints while the command runs."""

import contextlib
import os
import random
import secrets
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from launcher.agent.checkpoint import layout_record
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.commit import announce, commit, renounce
from launcher.agent.checkpoint.confirmation import Answers
from launcher.agent.checkpoint.delivery import Delivered, Reports, figures
from launcher.agent.checkpoint.digests import Digests
from launcher.agent.checkpoint.finished import FinishedFolder, with_others
from launcher.agent.checkpoint.held import hold_copy, hold_open
from launcher.agent.checkpoint.layouts import names_others
from launcher.agent.checkpoint.quorum import Quorum
from launcher.agent.checkpoint.retention import retained_form
from launcher.agent.checkpoint.tagging import Tagging
from launcher.agent.checkpoint.upload import Sender, check_unchanged
from launcher.agent.checkpoint.write_back import links_to, paths_to
from launcher.agent.errors import (
    ChangedCheckpointError,
    ManifestError,
    StoreError,
    TakenOverError,
    UnusableCheckpointError,
)
from launcher.agent.events import NEWER, EventLog
from launcher.agent.manifest import Manifest, is_below
from launcher.agent.node.peers import Peers
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
_COMMIT_POLL_S = 1.0
_OTHERS_UNKNOWN_S = 5.0
"""Seconds after the end of the command, or a notice, that a node waits for the first one's word of a set."""
_DEFECTS = 3
"""Number of tries for a folder on which the agent itself fails."""
_NICENESS = 5
"""The command has priority if CPUs are scarce; after a notice the command is about to end anyway."""


class Backoff:
    """The wait before the next try. The caller ensures that no two threads use it at the same time."""

    def __init__(self) -> None:
        self.failures = 0
        self._again_at = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next try; 0 or less if it is due."""
        return self._again_at - time.monotonic()

    def record_failure(self, *, pressing: bool) -> float:
        """Record a failed try. Returns the seconds until the next one."""
        # A notice, or the end of the command, leaves no time for long pauses.
        longest = FIRST_PAUSE_S if pressing else LONGEST_PAUSE_S
        # Nodes that failed together try again at different instants.
        jitter = random.uniform(0.5, 1.0)  # noqa: S311  not a secret
        pause = jitter * min(longest, FIRST_PAUSE_S * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self._again_at = time.monotonic() + pause
        return pause

    def reset_failures(self) -> None:
        """Reset the number of failures."""
        self.failures = 0

    def hasten(self) -> None:
        """Make the next try due now."""
        self._again_at = 0.0


class Uploader(threading.Thread):
    """Stores finished folders as complete checkpoints. Errors are reported and retried, never passed on.

    The newest finished folder goes first; once it is complete, the older ones are dropped. On several nodes the first
    node chooses and the others send the same step, because a checkpoint is complete only when every node sent its part.
    The next step begins when that step is done.
    """

    def __init__(
        self,
        store: Store,
        log: EventLog,
        writer: Placement,
        *,
        newest: Manifest | None,
        tagging: Tagging,
        claim: Claim,
        peers: Peers,
        reports: Reports,
        copies: Path,
    ) -> None:
        """`copies`: a folder on the node for copies of what the trainer writes again in place."""
        super().__init__(name="uploader", daemon=True)
        self._store = store
        self._log = log
        self._writer = writer
        self._claim = claim
        self._peers = peers
        self._reports = reports
        self._quorum = Quorum(store, peers, writer, newest=newest)
        self._digests = Digests(reports.hashed)
        self._sender = Sender(store, writer, stored=newest.files if newest else (), digests=self._digests)
        self._tagging = tagging
        self._changed = threading.Condition()
        self._waiting: dict[int, FinishedFolder] = {}
        self._uncommitted: dict[int, Delivered] = {}
        self._backoff = Backoff()
        self._no_more = False
        self._hurry = False
        self._give_up = False
        self._last_whole = newest.step if newest else None
        self._last_delivered: int | None = None
        self._delivered: Manifest | None = None
        self._sent: dict[int, FinishedFolder] = {}
        """Folders that another node than the first has sent since the last one that it knows to be complete."""
        self._newest_offered = -1
        self._layout = f"{newest.layout}/{newest.unit}" if newest else ""
        self._pointers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._defects: dict[int, int] = {}
        self._copies = copies
        self._sending: FinishedFolder | None = None
        self._versions: Counter[int] = Counter()
        """How often each step was offered."""
        self._due_at = 0.0
        """When this node began to wait for the first one's word, after its command had ended or at a notice."""
        self._owed: set[int] = set()
        """The steps that were offered and not uploaded since."""
        self._answered: set[int] = set()
        """The steps for which the first node knows what this node sends."""

    def has(self, step: int) -> bool:
        """Whether a step as last offered, or a newer one, is stored; on other nodes than the first: their parts."""
        first = self._peers.first() if self._writer.part else {}
        committed = first.get("whole")
        with self._changed:
            stored_step = self._last_delivered if self._writer.part else self._last_whole
            if first.get("ended"):  # a part of what it has not made whole keeps nothing
                stored_step = committed if isinstance(committed, int) else None
            return stored_step is not None and (stored_step > step or (stored_step == step and step not in self._owed))

    def offer(self, folder: FinishedFolder) -> None:
        """Queue a finished checkpoint, and hold its files until it is sent or a newer one is queued."""
        folder = _hold_files(folder)
        with self._changed:
            self._owed.add(folder.step)
            self._versions[folder.step] += 1
            self._waiting = {
                step: earlier if earlier is self._sending else replace(earlier, held=None)
                for step, earlier in self._waiting.items()
            }
            self._waiting[folder.step] = folder
            sent = self._uncommitted.get(folder.step)
            if sent is not None and not self._stands(sent):
                del self._uncommitted[folder.step]
                self._quorum.withdraw(folder.step)  # it is written again: what was sent is no longer the checkpoint
            self._newest_offered = max(folder.step, self._newest_offered)
            self._changed.notify()
        self._digests.add(folder)

    def hurry(self) -> None:
        """Handle a pending notice: no rate limit, the newest checkpoint first, no long pauses."""
        with self._changed:
            self._hurry = True
            self._backoff.hasten()
            self._changed.notify()
        self._store.lift_bound()

    def finish(self, deadline: float) -> list[int]:
        """Upload the rest and end the thread.

        `deadline` is in monotonic seconds.

        Returns the steps that were not stored.
        """
        with self._changed:
            self._no_more = True
            self._backoff.hasten()
            self._changed.notify()
        self.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            self._give_up = True
            self._changed.notify()
            unsent = sorted({*self._waiting, *self._uncommitted})
        if self.is_alive():
            self._store.cancel()
        return unsent

    def run(self) -> None:
        """Upload until no work is left and no more can come."""
        # Training comes first: hashing and sending use what it leaves of the processors.
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread, on Linux
        self._digests.start()
        if self._writer.part > 0:
            Answers(self._peers, self._sent.get).start()
        try:
            while self._goes_on():
                self._turn()
        except TakenOverError as error:
            self._hand_over(str(error))

    def _turn(self) -> None:
        """Upload one folder, commit complete checkpoints. A defect of the agent is logged and affects one upload."""
        folder = None
        try:
            folder = self._next()
            if folder is not None:
                self._upload(folder)
            self._commit_complete()
        except TakenOverError:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is
            self._log.append("uploader-failed", error=repr(error))
            time.sleep(FIRST_PAUSE_S)
            if folder is not None:
                self._defects[folder.step] = self._defects.get(folder.step, 0) + 1
                if self._defects[folder.step] == _DEFECTS:
                    self._drop(folder.step, f"the agent failed to store it: {error!r}")
        finally:
            with self._changed:
                self._sending = None

    # ------------------------------------------------------------------------------------------------ what comes next

    def _goes_on(self) -> bool:
        with self._changed:
            return not self._give_up and not (self._no_more and not self._waiting and not self._uncommitted)

    def _next(self) -> FinishedFolder | None:
        """The next folder, after waiting for one; None if other work is due."""
        lead = self._lead()
        with self._changed:
            if self._give_up or (self._no_more and not self._waiting and not self._uncommitted):
                return None
            pause = self._backoff.left_s
            step = None if pause > 0 else self._choice(lead)
            if step is None:
                self._changed.wait(self._longest_wait(pause))
                return None
            folder = self._sending = self._waiting[step]
        if self._writer.part == 0:
            others = folder.others
            self._peers.publish_state(sending=folder.step, others=others)
            return folder
        return self._join_set(folder)

    def _join_set(self, folder: FinishedFolder) -> FinishedFolder:
        """On other nodes than the first: a checkpoint with those that the first node's names as one set with it."""
        first = self._peers.first()
        others = first.get("others") if first.get("sending") == folder.step else None
        if folder.main or not isinstance(others, list):
            return folder
        together = with_others(folder, [name for name in others if is_below(str(name))])
        if together is folder:
            return folder
        together = _hold_files(together)
        with self._changed:
            if self._waiting.get(folder.step) is not folder:
                return folder  # it is written again: the upload finds that out
            self._waiting[folder.step] = self._sending = together
        self._reports.joined(together)
        self._digests.add(together)
        return together

    def _lead(self) -> int | None:
        """The step that the first node sends; None on the first node itself, and until it has announced one.

        A step that the first node has skipped can never be complete, and is dropped.
        """
        with self._changed:
            idle = not self._waiting
        if self._writer.part == 0 or idle:
            return None
        first = self._peers.first()
        committed = first.get("whole")
        if first.get("ended"):
            self._drop_below(None, "the first node has ended")
        elif isinstance(committed, int):
            self._drop_below(committed, NEWER)
        sending = first.get("sending")
        if not isinstance(sending, int):
            return None
        with self._changed:
            skipped = sending not in self._answered and sending not in self._waiting
            late = any(step > sending for step in self._waiting) and self._backoff.left_s <= 0
        if skipped and late:
            self._give_up_on(sending, "this node wrote a later checkpoint instead")
        return sending

    def _choice(self, lead: int | None) -> int | None:
        """The step of the waiting folder that is sent now; None if none may be sent."""
        if not self._waiting:
            return None
        if self._writer.part > 0:
            if lead in self._waiting:
                return lead
            # Nothing newer comes, or may not come in time: what this node has is what the first one can still use.
            is_due = self._no_more or self._hurry
            step = min(self._waiting) if lead is None else max(self._waiting) if is_due else None
            return step if step is None or self._may_precede(self._waiting[step], is_due=is_due) else None
        # The other nodes still send that step, and would leave it for the step that this node announces.
        if self._writer.parts > 1 and self._uncommitted and not self._hurry:
            return None
        return max(self._waiting)

    def _may_precede(self, folder: FinishedFolder, *, is_due: bool) -> bool:
        """Whether a part may be sent before the first node has said which others are one set with it."""
        if not names_others(folder.layout):
            return True
        self._due_at = self._due_at or (time.monotonic() if is_due else 0.0)
        return is_due and time.monotonic() - self._due_at >= _OTHERS_UNKNOWN_S

    def _longest_wait(self, pause: float) -> float | None:
        """The longest sleep in seconds if no thread wakes this one; None: sleep until woken."""
        if self._uncommitted or (self._waiting and self._writer.part > 0):
            return _COMMIT_POLL_S
        return max(pause, 0.01) if self._waiting else None

    # --------------------------------------------------------------------------------------------------------- upload

    def _upload(self, folder: FinishedFolder) -> None:
        sent = self._copy_in_place_save(folder)
        try:
            self._learn_complete()
            part, sent_bytes = self._send(sent)
        except StoreError as error:
            if error.cut_off:
                self._log.append("upload-restarted", step=folder.step, reason="a notice is pending")
            else:
                self._pause(folder.step, error)
            return
        except ChangedCheckpointError as error:
            self._await_again(folder, str(error))
            return
        except UnusableCheckpointError as error:
            if not self._send_rest(folder, str(error)):
                self._give_up_on(folder.step, str(error))
            return
        self._backoff.reset_failures()
        delivered = Delivered(folder=sent, manifest=part, sent_bytes=sent_bytes)
        with self._changed:
            if self._waiting.get(folder.step) is folder:
                del self._waiting[folder.step]
                self._owed -= {folder.step} if self._writer.part else set()
            elif not self._stands(delivered):
                return  # a new version was offered meanwhile
            self._last_delivered, self._delivered = max(folder.step, self._last_delivered or 0), part
            self._answered.add(folder.step)
            if self._writer.part == 0:
                self._uncommitted[folder.step] = delivered
        if self._writer.part > 0:
            self._log.append("checkpoint-part-uploaded", **figures(part, sent_bytes))

    def _copy_in_place_save(self, folder: FinishedFolder) -> FinishedFolder:
        """A checkpoint that the trainer writes again in place, with a copy of its content, if it is known as whole."""
        if not folder.in_place or folder.guessed or self._writer.parts > 1:
            return folder
        place = self._copies / f"{folder.step}.{self._versions[folder.step]}.{secrets.token_hex(4)}"
        return replace(folder, held=hold_copy(folder.path, folder.files, place))

    def _stands(self, delivered: Delivered) -> bool:
        """Whether what was sent is a checkpoint although its step was written again since.

        On several nodes it is none: the parts of all nodes must be of one version.
        """
        return delivered.folder.held is not None and self._writer.parts == 1

    def _send(self, folder: FinishedFolder) -> tuple[Manifest, int]:
        """Send a folder and announce this node's part; return the part and the bytes sent."""
        # Before any upload: an attempt that finds no complete checkpoint must not choose the layout again
        key = f"{folder.layout}/{folder.unit}"
        links = links_to(folder.root, folder.name) or self._pointers[0]
        paths = paths_to(folder.root, folder.name) or self._pointers[1]
        if self._writer.part == 0 and (key, (links, paths)) != (self._layout, self._pointers):
            # Those of an earlier attempt stay until this one has some.
            links = links or layout_record.read_pointers(self._store, layout_record.LINKS)
            paths = paths or layout_record.read_pointers(self._store, layout_record.PATHS)
            layout_record.write_layout(self._store, run=self._writer.run, key=key, links=links, paths=paths)
            self._layout, self._pointers = key, (links, paths)
        part, sent_bytes = self._sender.send(folder)
        with self._changed:
            part = replace(part, version=self._versions[folder.step])
        if self._writer.part > 0:
            self._sent[folder.step] = folder  # the first node may ask about it from here on
        if self._writer.parts > 1:
            announce(self._store, part, session=self._writer.session)
        return part, sent_bytes

    def _await_again(self, folder: FinishedFolder, reason: str) -> None:
        """Stop sending a checkpoint that is written again: the watch offers it as it is then."""
        if self._send_rest(folder, reason):
            return
        self._log.append("upload-restarted", step=folder.step, reason=reason)
        with self._changed:
            if self._waiting.get(folder.step) is folder:
                del self._waiting[folder.step]

    def _send_rest(self, folder: FinishedFolder, reason: str) -> bool:
        """Continue without the other checkpoints of a set that the trainer has removed; False if none is missing."""
        rest = folder.without_removed()
        if rest is None:
            return False
        self._log.append("upload-restarted", step=folder.step, reason=reason)
        with self._changed:
            if self._waiting.get(folder.step) in (folder, None):
                self._waiting[folder.step] = rest
        self._digests.add(rest)
        return True

    def _learn_complete(self) -> None:
        """On other nodes than the first: once the last part sent is committed, its files are not sent again."""
        part, committed = self._delivered, self._peers.first().get("whole")
        if self._writer.part == 0 or part is None or committed != part.step or committed == self._last_whole:
            return
        # Its own part alone: to read the manifest of all parts would cost every node what the checkpoint has in files.
        self._sender.remember(part.files)
        with self._changed:
            self._last_whole = part.step
        for step in [sent_step for sent_step in self._sent if sent_step <= part.step]:
            del self._sent[step]

    def _give_up_on(self, step: int, reason: str) -> None:
        """Drop a folder that cannot be stored; on several nodes, notify the first one."""
        if self._writer.part > 0:
            try:
                renounce(self._store, self._writer, step, reason)
            except StoreError as error:
                self._pause(step, error)
                return
        with self._changed:
            self._answered.add(step)
        self._drop(step, reason)

    # --------------------------------------------------------------------------------------------------------- commit

    def _drop_abandoned(self) -> None:
        """On the first node of several: drop checkpoints that another node's command ended without."""
        if self._writer.part == 0 and self._writer.parts > 1:
            for step in self._quorum.beyond([*self._waiting, *self._uncommitted]):
                self._drop(step, "the command on another node ended without this checkpoint")

    def _commit_complete(self) -> None:
        self._drop_abandoned()
        with self._changed:
            pending = sorted(self._uncommitted.items(), reverse=True) if self._backoff.left_s <= 0 else []
        for step, delivered in pending:
            if self._last_whole is not None and step < self._last_whole:
                self._drop(step, NEWER)
                continue
            try:
                manifest = self._commit_part(delivered)
            except StoreError as error:
                self._pause(step, error)
                return
            except ChangedCheckpointError as error:
                with self._changed:
                    if self._uncommitted.get(step) is delivered:
                        del self._uncommitted[step]
                self._quorum.withdraw(step)
                self._await_again(delivered.folder, str(error))
                continue
            except (ManifestError, UnusableCheckpointError) as error:
                self._drop(step, str(error))
                continue
            if manifest is not None:
                self._settle(manifest, delivered.sent_bytes)

    def _commit_part(self, delivered: Delivered) -> Manifest | None:
        """The checkpoint that was committed; None while a part is missing."""
        part = delivered.manifest
        with self._changed:
            newest = max(part.step, self._newest_offered)
            no_more = self._no_more
        manifest = self._quorum.assemble_parts(part, newest=newest, no_more=no_more)
        if manifest is None:
            return None
        refusal = self._tagging.retention.refusal_reason(manifest)
        if refusal is not None:
            raise ManifestError(refusal)
        # The trainer may have written to the folder since its files were sent.
        check_unchanged(delivered.folder, parts=self._writer.parts)
        # Another attempt may have become the writer while the parts were sent.
        self._claim.check()
        replaced = commit(self._store, manifest, session=self._writer.session)
        if replaced:
            self._log.append("checkpoint-replaced", step=manifest.step, reason=replaced)
        return manifest

    def _settle(self, manifest: Manifest, sent_bytes: int) -> None:
        """Handle a complete checkpoint: report it, drop older ones, start the tagging of superseded objects."""
        with self._changed:
            self._uncommitted.pop(manifest.step, None)
            if manifest.step not in self._waiting:
                self._owed.discard(manifest.step)
            self._last_whole = manifest.step
        self._backoff.reset_failures()
        self._quorum.withdraw(manifest.step)
        self._log.append("checkpoint-uploaded", **figures(manifest, sent_bytes))
        self._reports.completed(manifest)
        self._peers.publish_state(whole=manifest.step)
        self._drop_below(manifest.step, NEWER)
        self._sender.remember(manifest.files)
        self._tagging.retention.record_commit(retained_form(manifest))
        self._tagging.wake()

    def _hand_over(self, reason: str) -> None:
        """Handle a takeover by another agent, which now owns these checkpoints: leave all files unchanged."""
        with self._changed:
            self._give_up = True
            unsent = sorted({*self._waiting, *self._uncommitted})
            self._waiting.clear()
            self._uncommitted.clear()
        for step in unsent:
            self._log.append("checkpoint-dropped", step=step, reason=reason)
        self._reports.taken_over(reason)

    # ------------------------------------------------------------------------------------------------------- problems

    def _pause(self, step: int, error: StoreError) -> None:
        with self._changed:
            pause = round(self._backoff.record_failure(pressing=self._hurry or self._no_more), 1)
        failures = self._backoff.failures
        self._log.append("upload-retry", step=step, error=str(error), retry_in_s=pause, failures=failures)

    def _drop_below(self, step: int | None, reason: str) -> None:
        with self._changed:
            older = [waiting for waiting in self._waiting if step is None or waiting < step]
        for step_below in older:
            self._drop(step_below, reason)

    def _drop(self, step: int, reason: str) -> None:
        self._log.append("checkpoint-dropped", step=step, reason=reason)
        with self._changed:
            self._uncommitted.pop(step, None)
            self._waiting.pop(step, None)
        self._quorum.withdraw(step)


def _hold_files(folder: FinishedFolder) -> FinishedFolder:
    """A checkpoint with its files held; itself if the trainer writes into them, or if not all can be stored."""
    try:
        obstacle = folder.in_place or folder.survey().obstacle
    except UnusableCheckpointError:
        return folder
    return folder if obstacle else replace(folder, held=hold_open(folder.path, folder.files))
