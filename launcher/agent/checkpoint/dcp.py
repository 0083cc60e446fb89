"""PyTorch distributed checkpoints that the trainer writes straight to the store, without the agent between.

The ranks put their shards below `<uri>/step-N/` (or `checkpoint-N`; leading zeros are allowed), and the coordinator
puts `.metadata` there last: without it there is no checkpoint. That alone does not prove one: a shard may have been
lost since. So the shards that `.metadata` names are looked for, each in its size. Nothing is downloaded.

What the agent does beside that is what it does for folders: it tells the trainer where to go on from, tags what is
superseded and never the newest whole one, and signals.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher.agent.checkpoint.claim import Claim
from launcher.agent.errors import ManifestError, StoreError, TakenOverError
from launcher.agent.events import EventLog
from launcher.agent.manifest import DCP_METADATA_NAME, dcp_shards, step_of_folder
from launcher.agent.store.objects import Store

_POLL_S = 10.0
_LAST_LOOK_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DcpCheckpoint:
    """A whole checkpoint: its step, the folder below the URI, its shards, and the bytes of all its objects."""

    step: int
    folder: str
    shards: int
    bytes: int


def folders_by_step(sizes: dict[str, int]) -> dict[int, str]:
    """The folder of each step; of several (`step-7`, `step-007`) one that has its metadata, else the last by name.

    >>> folders_by_step({"step-7/a": 1, "step-007/.metadata": 1, "other/x": 2})
    {7: 'step-007'}
    """
    found: dict[int, str] = {}
    for key in sorted(sizes, key=lambda key: (key.endswith(f"/{DCP_METADATA_NAME}"), key)):
        folder = key.partition("/")[0]
        step = step_of_folder(folder)
        if step is not None and "/" in key:
            found[step] = folder
    return found


def whole_dcp(store: Store, step: int, folder: str, sizes: dict[str, int]) -> tuple[DcpCheckpoint | None, str]:
    """A step's checkpoint as the store has it.

    Args:
        store: The store.
        step: N.
        folder: Its folder below the URI.
        sizes: Every object's size, from `Store.sizes`.

    Returns:
        The checkpoint, or None and why it is not whole.

    Raises:
        StoreError: The store cannot be read.
    """
    key = f"{folder}/{DCP_METADATA_NAME}"
    if key not in sizes:
        return None, "it has no .metadata: its save was not finished"
    try:
        shards = dcp_shards(store.read_bytes(key))
    except ManifestError as error:
        return None, f"its .metadata cannot be used: {error}"
    except StoreError as error:
        if error.missing:
            return None, "its .metadata went away"
        raise
    for path, least in shards.items():
        size = sizes.get(f"{folder}/{path}")
        if size is None:
            return None, f"{path} is not there"
        if size < least:
            return None, f"{path} has {size} bytes instead of {least}"
    total = sum(size for name, size in sizes.items() if name.startswith(f"{folder}/"))
    return DcpCheckpoint(step=step, folder=folder, shards=len(shards), bytes=total), ""


def newest_dcp(
    store: Store, *, at_most: int | None, on_skip: Callable[[int, str], None]
) -> tuple[DcpCheckpoint | None, bool]:
    """The whole checkpoint with the highest step, and whether newer ones were passed over.

    One that is not whole although it has its metadata is broken for good: the metadata is emptied, so that it does not
    vouch for shards that the trainer writes over it, one after the other, when it comes to that step again.

    Args:
        store: The store.
        at_most: The highest step to look at; None: any.
        on_skip: Told of every newer step that is not whole, with the reason.

    Raises:
        StoreError: The store cannot be read.
    """
    sizes = store.sizes()
    skipped = False
    for step, folder in sorted(folders_by_step(sizes).items(), reverse=True):
        if at_most is not None and step > at_most:
            continue
        found, reason = whole_dcp(store, step, folder, sizes)
        if found is not None:
            return found, skipped
        skipped = True
        on_skip(step, reason)
        if sizes.get(f"{folder}/{DCP_METADATA_NAME}"):
            store.write_text(f"{folder}/{DCP_METADATA_NAME}", "")
    return None, skipped


class DcpWatch(threading.Thread):
    """Looks for new whole checkpoints while the command runs, and tags what they supersede."""

    def __init__(
        self,
        store: Store,
        log: EventLog,
        claim: Claim,
        *,
        keep: int,
        newest: DcpCheckpoint | None,
        on_taken_over: Callable[[str], None],
    ) -> None:
        """Prepare the thread.

        Args:
            store: The store.
            log: Where every new checkpoint and all trouble is written.
            claim: Asked before anything is tagged.
            keep: Whole checkpoints to keep, >= 1.
            newest: The one that the job goes on from.
            on_taken_over: Told that another agent writes here now.
        """
        super().__init__(name="dcp-watch", daemon=True)
        self._store = store
        self._log = log
        self._claim = claim
        self._keep = keep
        self._newest = newest.step if newest is not None else -1
        self._on_taken_over = on_taken_over
        self._tagged: set[str] = set()
        self._to_tag = True
        self._trouble = ""
        self._over = threading.Event()

    @property
    def newest_step(self) -> int | None:
        """The newest step known to be whole."""
        return None if self._newest < 0 else self._newest

    def run(self) -> None:
        """Look now and then."""
        while not self._over.wait(_POLL_S):
            if not self._look():
                return

    def finish(self) -> None:
        """End the thread and look for the last time: what the command saved at its end."""
        self._over.set()
        if self.is_alive():
            self.join()
        deadline = time.monotonic() + _LAST_LOOK_S
        while not self._look() and self._trouble and time.monotonic() < deadline:
            time.sleep(1.0)

    def _look(self) -> bool:
        """Whether all went well."""
        try:
            self._claim.check()
            sizes = self._store.sizes()
            steps = folders_by_step(sizes)
            for step in sorted(each for each in steps if each > self._newest):
                found, _ = whole_dcp(self._store, step, steps[step], sizes)
                if found is not None:
                    self._newest, self._to_tag = step, True
                    self._log.append("checkpoint-uploaded", step=step, bytes=found.bytes, files=found.shards)
            if self._to_tag and time.monotonic() >= self._claim.may_tag_at:
                self._tag(sizes, steps)
                self._to_tag = False
        except TakenOverError as error:
            self._on_taken_over(str(error))
            return False
        except StoreError as error:
            if str(error) != self._trouble:
                self._log.append("store-trouble", error=str(error))
            self._trouble = str(error)
            return not self._over.is_set()
        self._trouble = ""
        return True

    def _tag(self, sizes: dict[str, int], steps: dict[int, str]) -> None:
        kept: list[int] = []
        for step in sorted((each for each in steps if each <= self._newest), reverse=True):
            if len(kept) < self._keep and (step == self._newest or self._is_whole(step, steps[step], sizes)):
                kept.append(step)
        superseded = sorted(
            key
            for key in sizes
            if (step_or_none := step_of_folder(key.partition("/")[0])) is not None
            and step_or_none < self._newest
            and step_or_none not in kept
            and key not in self._tagged
        )
        for key in superseded:
            self._store.set_superseded(key, superseded=True)
            self._tagged.add(key)
        if superseded:
            gone = {step_of_folder(key.partition("/")[0]) for key in superseded}
            self._log.append("checkpoints-superseded", steps=sorted(step for step in gone if step is not None))

    def _is_whole(self, step: int, folder: str, sizes: dict[str, int]) -> bool:
        return whole_dcp(self._store, step, folder, sizes)[0] is not None
