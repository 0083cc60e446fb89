"""The thread that brings finished checkpoints into the store while the command goes on."""

import random
import threading
import time
from dataclasses import dataclass

from launcher.agent.commit import announce, commit
from launcher.agent.errors import ManifestError, StoreError, UnusableCheckpointError
from launcher.agent.events import EventLog
from launcher.agent.manifest import Manifest
from launcher.agent.retention import Retention
from launcher.agent.store import Store
from launcher.agent.upload import Identity, Sender
from launcher.agent.watch import FinishedFolder

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_COMMIT_LOOK_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What one upload came to: this node's part, and the bytes that had to be sent for it."""

    manifest: Manifest
    sent_bytes: int


class Uploader(threading.Thread):
    """Takes finished folders and makes whole checkpoints of them. Trouble is reported and retried, never passed on.

    On one node the newest finished folder goes first, and once it is whole the older ones are dropped. On several nodes
    all of them send the same steps in the same order, because a checkpoint is whole only when every node sent its part.
    """

    def __init__(self, store: Store, log: EventLog, identity: Identity, *, keep: int, newest: Manifest | None) -> None:
        """Prepare the thread.

        Args:
            store: Where to.
            log: Where every upload and all trouble is written.
            identity: Who uploads.
            keep: Whole checkpoints to keep.
            newest: The checkpoint that was restored, which is the newest whole one.
        """
        super().__init__(name="uploader", daemon=True)
        self._store = store
        self._log = log
        self._identity = identity
        self._sender = Sender(store, identity, known=newest.files if newest and identity.parts == 1 else ())
        self._retention = Retention(store, keep=keep)
        self._changed = threading.Condition()
        self._waiting: dict[int, FinishedFolder] = {}
        self._uncommitted: dict[int, Delivered] = {}
        self._retry_at = 0.0
        self._failures = 0
        self._no_more = False
        self._hurry = False
        self._give_up = False
        self._last_whole = newest.step if newest else None
        self._last_delivered: int | None = None

    @property
    def part(self) -> int:
        """The number of this node, from 0."""
        return self._identity.part

    @property
    def last_whole_step(self) -> int | None:
        """The newest step known to be whole in the store."""
        with self._changed:
            return self._last_whole

    @property
    def last_delivered_step(self) -> int | None:
        """The newest step of which this node's part is in the store."""
        with self._changed:
            return self._last_delivered

    def offer(self, folder: FinishedFolder) -> None:
        """Queue a finished checkpoint."""
        with self._changed:
            self._waiting[folder.step] = folder
            self._changed.notify()

    def hurry(self) -> None:
        """A notice is pending: no bound on the rate, the newest checkpoint first, no long pauses."""
        with self._changed:
            self._hurry = True
            self._retry_at = 0.0
            self._changed.notify()
        self._store.lift_bound()

    def finish(self, deadline: float) -> list[int]:
        """Bring over what is left and end the thread.

        Args:
            deadline: Monotonic seconds at which to give up.

        Returns:
            The steps that did not get there.
        """
        with self._changed:
            self._no_more = True
            self._retry_at = 0.0
            self._changed.notify()
        self.join(max(0.0, deadline - time.monotonic()))
        with self._changed:
            self._give_up = True
            self._changed.notify()
            left = sorted({*self._waiting, *self._uncommitted})
        if self.is_alive():
            self._store.cancel()
        return left

    def run(self) -> None:
        """Upload until there is nothing left and nothing more to come."""
        try:
            while (folder := self._next()) is not None or self._still_to_commit():
                if folder is not None:
                    self._upload(folder)
                self._commit_what_is_complete()
        except BaseException as error:
            self._log.append("uploader-failed", error=repr(error))  # a defect: it must not look as if uploads went on
            raise

    def _next(self) -> FinishedFolder | None:
        """The next folder, waiting for it; None when a commit needs looking after or nothing more will come."""
        with self._changed:
            while not self._give_up:
                pause = self._retry_at - time.monotonic()
                if self._waiting and pause <= 0:
                    newest_first = self._hurry or self._identity.parts == 1
                    return self._waiting[max(self._waiting) if newest_first else min(self._waiting)]
                if not self._waiting and (self._no_more or self._uncommitted):
                    return None
                self._changed.wait(pause if self._waiting else None)
            return None

    def _still_to_commit(self) -> bool:
        """Whether another node's part is waited for; waits a moment if so."""
        with self._changed:
            if not self._uncommitted or self._give_up:
                return False
            self._changed.wait(_COMMIT_LOOK_S)
            return not self._give_up

    def _upload(self, folder: FinishedFolder) -> None:
        try:
            part, sent_bytes = self._sender.send(folder.path, folder.step)
            if self._identity.parts > 1:
                announce(self._store, part, session=self._identity.session)
        except StoreError as error:
            if error.cut_off:
                self._log.append("upload-restarted", step=folder.step, reason="a notice is pending")
            else:
                self._pause(folder.step, error)
            return
        except UnusableCheckpointError as error:
            self._log.append("checkpoint-dropped", step=folder.step, reason=str(error))
            self._take(folder.step)
            return
        self._failures = 0
        with self._changed:
            self._last_delivered = max(folder.step, self._last_delivered or 0)
        if self._identity.part == 0:
            with self._changed:
                self._uncommitted[folder.step] = Delivered(manifest=part, sent_bytes=sent_bytes)
        else:
            self._log.append("checkpoint-part-uploaded", **_figures(part, sent_bytes))
        self._take(folder.step)

    def _commit_what_is_complete(self) -> None:
        with self._changed:
            pending = sorted(self._uncommitted.items(), reverse=True) if time.monotonic() >= self._retry_at else []
        for step, delivered in pending:
            if self._last_whole is not None and step < self._last_whole:
                self._drop(step, "a newer checkpoint is whole")
                continue
            try:
                whole = commit(self._store, delivered.manifest, session=self._identity.session)
            except StoreError as error:
                self._pause(step, error)
                return
            except ManifestError as error:
                self._drop(step, str(error))
                continue
            if whole is not None:
                self._settle(whole, delivered.sent_bytes)

    def _settle(self, whole: Manifest, sent_bytes: int) -> None:
        """A checkpoint is whole: say so, forget older ones, tag what is superseded."""
        with self._changed:
            del self._uncommitted[whole.step]
            self._last_whole = whole.step
            older = [step for step in self._waiting if step < whole.step] if self._identity.parts == 1 else []
        self._log.append("checkpoint-uploaded", **_figures(whole, sent_bytes))
        for step in older:
            self._drop(step, "a newer checkpoint is whole")
        if self._identity.parts == 1:
            self._sender.remember(whole.files)
        try:
            superseded = self._retention.apply(whole)
        except StoreError as error:
            self._log.append("retention-failed", step=whole.step, error=str(error))
        else:
            if superseded:
                self._log.append("checkpoints-superseded", steps=superseded)

    def _pause(self, step: int, error: StoreError) -> None:
        """Report the trouble and pause before the next try: longer each time, and not in step with other nodes."""
        with self._changed:
            longest = _FIRST_PAUSE_S if self._hurry or self._no_more else _LONGEST_PAUSE_S
            jitter = random.uniform(0.5, 1.0)  # noqa: S311  not a secret
            pause = jitter * min(longest, _FIRST_PAUSE_S * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._retry_at = time.monotonic() + pause
        self._log.append(
            "upload-retry", step=step, error=str(error), retry_in_s=round(pause, 1), failures=self._failures
        )

    def _drop(self, step: int, reason: str) -> None:
        self._log.append("checkpoint-dropped", step=step, reason=reason)
        with self._changed:
            self._uncommitted.pop(step, None)
        self._take(step)

    def _take(self, step: int) -> None:
        with self._changed:
            self._waiting.pop(step, None)


def _figures(manifest: Manifest, sent_bytes: int) -> dict[str, int | float]:
    return {
        "step": manifest.step,
        "bytes": manifest.bytes,
        "sent_bytes": sent_bytes,
        "files": len(manifest.files),
        "seconds": manifest.seconds,
    }
