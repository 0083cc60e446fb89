"""The thread that uploads finished checkpoints while the command runs."""

import contextlib
import os
import random
import threading
import time
from dataclasses import replace

from launcher.agent.checkpoint import layout_record
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.commit import announce, commit, renounce
from launcher.agent.checkpoint.confirmation import Answers, PartVersion
from launcher.agent.checkpoint.delivery import Delivered, Reports, figures
from launcher.agent.checkpoint.digests import Digests
from launcher.agent.checkpoint.files import changed_since
from launcher.agent.checkpoint.order_record import OrderRecord
from launcher.agent.checkpoint.quorum import Quorum
from launcher.agent.checkpoint.retention import retained
from launcher.agent.checkpoint.tagging import Tagging
from launcher.agent.checkpoint.upload import Identity, Sender, check_unchanged
from launcher.agent.checkpoint.watch import FinishedFolder
from launcher.agent.errors import (
    ManifestError,
    RewrittenError,
    RewrittenPartError,
    StoreError,
    TakenOverError,
    UnusableCheckpointError,
)
from launcher.agent.events import NEWER, EventLog
from launcher.agent.manifest import Manifest
from launcher.agent.node.peers import Peers
from launcher.agent.store.objects import Store

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Backoff:
    """The wait before the next try. The caller ensures that no two threads use it at the same time."""

    def __init__(self) -> None:
        self.failures = 0
        self._again_at = 0.0

    @property
    def left_s(self) -> float:
        """Seconds until the next try; 0 or less if it is due."""
        return self._again_at - time.monotonic()

    def failed(self, *, pressing: bool) -> float:
        """Record a failed try. Returns the seconds until the next one."""
        longest = FIRST_PAUSE_S if pressing else LONGEST_PAUSE_S
        jitter = random.uniform(0.5, 1.0)  # noqa: S311  not a secret
        pause = jitter * min(longest, FIRST_PAUSE_S * 2.0 ** min(self.failures, 10))
        self.failures += 1
        self._again_at = time.monotonic() + pause
        return pause

    def succeeded(self) -> None:
        """Reset the number of failures."""
        self.failures = 0

    def hasten(self) -> None:
        """Make the next try due now."""
        self._again_at = 0.0


_COMMIT_POLL_S = 1.0
_SKIPPED_S = 15.0
"""After this time a node that waits with a higher step than the first node sends has not written the latter."""
_LOWER = (
    "step {step} was saved after step {before} and is stored as the newest: the next attempt resumes from it. If that "
    "is wrong, run: slipway launch --from-step {before}"
)
_DEFECTS = 3
"""Number of tries for a folder on which the agent itself fails."""
_NICENESS = 5
"""The command has priority if CPUs are scarce; after a notice the command is about to end anyway."""


class Uploader(threading.Thread):
    """Stores finished folders as complete checkpoints. Errors are reported and retried, never passed on.

    The folder that was finished last goes first; once it is complete, those finished before it are dropped. A folder
    that changed is sent again as it is now: a new version of its step. On several nodes the first
    node chooses and the others send the same step, because a checkpoint is complete only when every node sent its part.
    The next step begins when that step is done.
    """

    def __init__(
        self,
        store: Store,
        log: EventLog,
        identity: Identity,
        *,
        newest: Manifest | None,
        tagging: Tagging,
        claim: Claim,
        peers: Peers,
        reports: Reports,
    ) -> None:
        super().__init__(name="uploader", daemon=True)
        self._store = store
        self._log = log
        self._identity = identity
        self._claim = claim
        self._peers = peers
        self._reports = reports
        self._order = OrderRecord(store)
        self._quorum = Quorum(store, peers, identity, newest=newest)
        self._digests = Digests(reports.hashed)
        self._sender = Sender(store, identity, stored=newest.files if newest else (), digests=self._digests)
        self._tagging = tagging
        self._changed = threading.Condition()
        self._waiting: dict[int, FinishedFolder] = {}
        self._uncommitted: dict[int, Delivered] = {}
        self._backoff = Backoff()
        self._no_more = False
        self._hurry = False
        self._give_up = False
        self._turns: dict[int, int] = {newest.step: 0} if newest else {}
        """When each step was last finished on this node: 1 for the first folder that was offered, and so on."""
        self._offers = 0
        self._whole_turn = 0 if newest else -1
        self._delivered_turn = -1
        self._last_whole = newest.step if newest else None
        self._delivered: Manifest | None = None
        self._sending_seen: tuple[int, int, float] = (-1, 0, 0.0)
        """The step that the first node sends, and since when this node knows: its turn, and monotonic seconds."""
        self._sent: dict[int, FinishedFolder] = {}
        """Folders that another node than the first has sent since the last one that it knows to be complete."""
        self._layout = f"{newest.layout}/{newest.unit}" if newest else ""
        self._defects: dict[int, int] = {}
        self._owed: dict[int, FinishedFolder] = {}
        """The steps as they were last offered, if they were not uploaded since."""
        self._answered: set[int] = set()
        """The steps for which the first node knows what this node sends."""

    def has(self, step: int) -> bool:
        """Whether a step as last offered, or a later one, is stored; on other nodes than the first: their parts."""
        first = self._peers.first() if self._identity.part else {}
        committed = first.get("whole")
        with self._changed:
            stored = self._delivered_turn if self._identity.part else self._whole_turn
            if first.get("ended"):  # a part of what it has not made whole keeps nothing
                stored = self._turns.get(committed, -1) if isinstance(committed, int) else -1
            turn = self._turns.get(step)
            return turn is not None and (stored > turn or (stored == turn and step not in self._owed))

    def offer(self, folder: FinishedFolder) -> None:
        """Queue a finished checkpoint."""
        with self._changed:
            self._offers += 1
            self._turns[folder.step] = self._offers
            self._owed[folder.step] = self._waiting[folder.step] = folder
            self._uncommitted.pop(folder.step, None)  # an earlier version, of files that are no more
            self._changed.notify()
        self._quorum.withdraw(folder.step)
        self._tagging.retention.sending(folder.step)
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
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread, on Linux
        self._digests.start()
        if self._identity.part > 0:
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
            if step is not None:
                folder = self._waiting[step]
            else:
                self._changed.wait(self._longest_wait(pause))
                return None
        if self._identity.part == 0:
            self._peers.publish_state(sending=folder.step)
        return folder

    def _lead(self) -> int | None:
        """The step that the first node sends; None on the first node itself, and until it has announced one.

        A step that the first node has skipped can never be complete, and is dropped.
        """
        with self._changed:
            idle = not self._waiting
        if self._identity.part == 0 or idle:
            return None
        first = self._peers.first()
        committed = first.get("whole")
        if first.get("ended"):
            self._drop_before(None, "the first node has ended")
        elif isinstance(committed, int):
            self._drop_before(committed, NEWER)
        sending = first.get("sending")
        if not isinstance(sending, int):
            return None
        now = time.monotonic()
        with self._changed:
            if self._sending_seen[0] != sending:
                self._sending_seen = (sending, self._offers, now)
            _, turn, since = self._sending_seen
            skipped = sending not in self._answered and sending not in self._waiting
            higher = any(step > sending for step in self._waiting) and now - since >= _SKIPPED_S
            late = higher or any(self._turns[step] > turn for step in self._waiting)
            late = late and self._backoff.left_s <= 0
        if skipped and late:
            self._give_up_on(sending, "this node wrote a later checkpoint instead")
        return sending

    def _choice(self, lead: int | None) -> int | None:
        """The step of the waiting folder that is sent now; None if none may be sent."""
        if not self._waiting:
            return None
        if self._identity.part > 0:
            if lead is None or lead in self._waiting:
                return min(self._waiting, key=self._turns.__getitem__) if lead is None else lead
            # Nothing newer comes, or may not come in time: what this node has is what the first one can still use.
            return max(self._waiting, key=self._turns.__getitem__) if self._no_more or self._hurry else None
        if self._identity.parts > 1 and self._uncommitted and not self._hurry:
            return None
        return max(self._waiting, key=self._turns.__getitem__)

    def _longest_wait(self, pause: float) -> float | None:
        """The longest sleep in seconds if no thread wakes this one; None: sleep until woken."""
        if self._uncommitted or (self._waiting and self._identity.part > 0):
            return _COMMIT_POLL_S
        return max(pause, 0.01) if self._waiting else None

    # --------------------------------------------------------------------------------------------------------- upload

    def _upload(self, folder: FinishedFolder) -> None:
        try:
            self._learn_complete()
            self._record_layout(folder)
            part, sent_bytes = self._sender.send(folder)
            if self._identity.part > 0:
                self._sent[folder.step] = folder  # the first node may ask about it from here on
            if self._identity.parts > 1:
                announce(self._store, part, session=self._identity.session)
        except StoreError as error:
            if error.cut_off:
                self._log.append("upload-restarted", step=folder.step, reason="a notice is pending")
            else:
                self._pause(folder.step, error)
            return
        except RewrittenError as error:
            self._send_again(folder, error)
            return
        except UnusableCheckpointError as error:
            self._give_up_on(folder.step, str(error))
            return
        self._backoff.succeeded()
        with self._changed:
            if self._waiting.get(folder.step) is not folder:
                return  # a later version came meanwhile
            self._delivered_turn, self._delivered = max(self._turns[folder.step], self._delivered_turn), part
            del self._waiting[folder.step]
            self._answered.add(folder.step)
            if self._identity.part:
                self._owed.pop(folder.step, None)
            else:
                self._uncommitted[folder.step] = Delivered(folder=folder, manifest=part, sent_bytes=sent_bytes)
        if self._identity.part > 0:
            self._log.append("checkpoint-part-uploaded", **figures(part, sent_bytes))

    def _record_layout(self, folder: FinishedFolder) -> None:
        """Before any upload: an attempt that finds no complete checkpoint must not choose the layout again."""
        key = f"{folder.layout}/{folder.unit}"
        if self._identity.part == 0 and key != self._layout:
            layout_record.write_layout(self._store, run=self._identity.run, key=key)
            self._layout = key

    def _send_again(self, folder: FinishedFolder, error: RewrittenError) -> None:
        """Handle a folder that changed while it was stored: it is sent again as it is then.

        While the command runs the watch offers the new version once it is finished. Afterwards nobody writes it, and
        it is offered at once.
        """
        step = folder.step
        with self._changed:
            self._uncommitted.pop(step, None)
            if self._waiting.get(step, folder) is not folder:
                return  # a later version waits already
            ended = self._no_more
        self._quorum.withdraw(step)
        try:
            current = folder.survey()
        except UnusableCheckpointError as gone:
            self._give_up_on(step, str(gone))
            return
        if changed_since(folder.files, current.files):
            with self._changed:
                if self._waiting.get(step) is folder:
                    del self._waiting[step]
            if ended:
                self.offer(replace(folder, files=current.files, hashes={}, version=folder.version + 1))
        elif step not in self._waiting:
            self.offer(folder)
        self._pause(step, error)

    def _learn_complete(self) -> None:
        """On other nodes than the first: once the last part sent is committed, its files are not sent again."""
        part, committed = self._delivered, self._peers.first().get("whole")
        if self._identity.part == 0 or part is None or committed != part.step or committed == self._last_whole:
            return
        # Its own part alone: to read the manifest of all parts would cost every node what the checkpoint has in files.
        self._sender.remember(part.files)
        with self._changed:
            self._last_whole = part.step
        turn = self._turns.get(part.step, -1)
        for step in [sent_step for sent_step in self._sent if self._turns.get(sent_step, -1) <= turn]:
            del self._sent[step]

    def _give_up_on(self, step: int, reason: str) -> None:
        """Drop a folder that cannot be stored; on several nodes, notify the first one."""
        if self._identity.part > 0:
            try:
                renounce(self._store, self._identity, step, reason)
            except StoreError as error:
                self._pause(step, error)
                return
        with self._changed:
            self._answered.add(step)
        self._drop(step, reason)

    # --------------------------------------------------------------------------------------------------------- commit

    def _drop_abandoned(self) -> None:
        """On the first node of several: drop checkpoints that another node's command ended without."""
        if self._identity.part == 0 and self._identity.parts > 1:
            for step in self._quorum.beyond([*self._waiting, *self._uncommitted], self._turns):
                self._drop(step, "the command on another node ended without this checkpoint")

    def _commit_complete(self) -> None:
        self._drop_abandoned()
        with self._changed:
            latest_first = sorted(self._uncommitted.items(), key=lambda item: self._turns[item[0]], reverse=True)
            pending = latest_first if self._backoff.left_s <= 0 else []
        for step, delivered in pending:
            if self._uncommitted.get(step) is not delivered:
                continue  # a later version came meanwhile
            if self._turns[step] < self._whole_turn:
                self._drop(step, NEWER)
                continue
            try:
                manifest = self._committed(delivered)
            except StoreError as error:
                self._pause(step, error)
                return
            except RewrittenError as error:
                self._send_again(delivered.folder, error)
                continue
            except RewrittenPartError as error:
                self._quorum.withdraw(step)  # its node sends it again
                self._pause(step, error)
                return
            except (ManifestError, UnusableCheckpointError) as error:
                self._drop(step, str(error))
                continue
            if manifest is not None:
                self._settle(manifest, delivered)

    def _committed(self, delivered: Delivered) -> Manifest | None:
        """The checkpoint that was committed; None while a part is missing."""
        part = delivered.manifest
        with self._changed:
            passed = self._offers > self._turns[part.step]
            which = PartVersion(turn=self._turns[part.step], version=delivered.folder.version)
            no_more = self._no_more
        manifest = self._quorum.assembled(part, which=which, passed=passed, no_more=no_more)
        if manifest is None:
            return None
        refusal = self._tagging.retention.refused(manifest)
        if refusal is not None:
            raise ManifestError(refusal)
        check_unchanged(delivered.folder)
        self._claim.check()
        self._order.add(manifest.step, manifest.identity)
        replaced = commit(self._store, manifest, session=self._identity.session)
        if replaced:
            self._log.append("checkpoint-replaced", step=manifest.step, reason=replaced)
        return manifest

    def _settle(self, manifest: Manifest, delivered: Delivered) -> None:
        """Handle a complete checkpoint: report it, drop older ones, start the tagging of superseded objects."""
        step = manifest.step
        with self._changed:
            before, self._last_whole = self._last_whole, step
            self._uncommitted.pop(step, None)
            is_last_version = self._owed.get(step) is delivered.folder
            if is_last_version:
                del self._owed[step]
                self._whole_turn = self._turns[step]
        self._backoff.succeeded()
        self._quorum.withdraw(step)
        self._log.append("checkpoint-uploaded", **figures(manifest, delivered.sent_bytes))
        if before is not None and step < before:
            self._log.append("checkpoint-order", step=step, reason=_LOWER.format(step=step, before=before))
        self._tagging.retention.committed(retained(manifest), still_sending=not is_last_version)
        if is_last_version:
            self._reports.completed(manifest)
            self._peers.publish_state(whole=step)
            self._drop_before(step, NEWER)
        self._sender.remember(manifest.files)
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

    # -------------------------------------------------------------------------------------------------------- trouble

    def _pause(self, step: int, error: Exception) -> None:
        with self._changed:
            pause = round(self._backoff.failed(pressing=self._hurry or self._no_more), 1)
        failures = self._backoff.failures
        self._log.append("upload-retry", step=step, error=str(error), retry_in_s=pause, failures=failures)

    def _drop_before(self, step: int | None, reason: str) -> None:
        """Drop what was finished before a step; None: everything. A step that this node lacks counts by its number."""
        with self._changed:
            turn = None if step is None else self._turns.get(step)
            if step is None:
                earlier = [*self._waiting]
            elif turn is None:
                earlier = [waiting for waiting in self._waiting if waiting < step]
            else:
                earlier = [waiting for waiting in self._waiting if self._turns[waiting] < turn]
        for earlier_step in earlier:
            self._drop(earlier_step, reason)

    def _drop(self, step: int, reason: str) -> None:
        self._log.append("checkpoint-dropped", step=step, reason=reason)
        with self._changed:
            self._uncommitted.pop(step, None)
            self._waiting.pop(step, None)
        self._quorum.withdraw(step)
        self._tagging.retention.dropped(step)
