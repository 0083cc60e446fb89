"""PyTorch distributed checkpoints that the trainer writes directly to the store.

The ranks write shards below `<uri>/step-N/` (or `checkpoint-N`; leading zeros are allowed); the coordinator writes
`.metadata` there last. A checkpoint is complete when every shard that `.metadata` names exists in its full size.
Slipway downloads nothing. Resume path, tagging and signals work as for folders.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from launcher.agent.checkpoint import inspection
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.retention import Inspect, RetainedCheckpoint
from launcher.agent.checkpoint.tagging import Tagging
from launcher.agent.checkpoint_keys import step_of_folder
from launcher.agent.dcp_metadata import check_size, dcp_shards
from launcher.agent.errors import ManifestError, StoreError, TakenOverError, no_usable_checkpoint
from launcher.agent.events import EventLog
from launcher.agent.manifest import DCP_METADATA_NAME
from launcher.agent.store.objects import Store

_WRITTEN_BY_TRAINER = "mode dcp"
"""Replaces a layout's key: checkpoints that a trainer writes to the store are not compared with those of agents."""
_POLL_S = 10.0
_LAST_POLL_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DcpCheckpoint:
    """A complete checkpoint: its step, the folder below the URI, its shards, and the bytes of all its objects."""

    step: int
    folder: str
    shards: int
    bytes: int


def folders_by_step(sizes: dict[str, int]) -> dict[int, str]:
    """The folder of each step; if several exist (`step-7`, `step-007`), one with metadata, else the last by name.

    >>> folders_by_step({"step-7/a": 1, "step-007/.metadata": 1, "other/x": 2})
    {7: 'step-007'}
    """
    folders: dict[int, str] = {}
    for key in sorted(sizes, key=lambda key: (key.endswith(f"/{DCP_METADATA_NAME}"), key)):
        folder = key.partition("/")[0]
        step = step_of_folder(folder)
        if step is not None and "/" in key:
            folders[step] = folder
    return folders


def complete_dcp(store: Store, step: int, folder: str, sizes: dict[str, int]) -> tuple[DcpCheckpoint | None, str]:
    """Check the checkpoint of a step in the store. Returns the checkpoint, or None and the reason."""
    key = f"{folder}/{DCP_METADATA_NAME}"
    if key not in sizes:
        return None, "it has no .metadata: its save did not finish"
    try:
        check_size(sizes[key])
        shards = dcp_shards(store.read_bytes(key))
    except ManifestError as error:
        return None, f"its .metadata is unusable: {error}"
    except StoreError as error:
        if error.missing:
            return None, "its .metadata was deleted"
        raise
    for path, least in shards.items():
        size = sizes.get(f"{folder}/{path}")
        if size is None:
            return None, f"{path} is missing"
        if size < least:
            return None, f"{path} has {size} bytes instead of {least}"
    total = sum(size for name, size in sizes.items() if name.startswith(f"{folder}/"))
    return DcpCheckpoint(step=step, folder=folder, shards=len(shards), bytes=total), ""


def newest_dcp(
    store: Store, *, at_most: int | None, on_skip: Callable[[int, str], None], fresh: bool = False
) -> tuple[DcpCheckpoint | None, bool]:
    """The complete checkpoint with the highest step, and whether newer checkpoints were skipped.

    An incomplete checkpoint that has its metadata is permanently broken. Slipway empties the metadata, which otherwise
    would validate shards that the trainer overwrites one after the other when it reaches that step again.

    `on_skip` receives each newer incomplete step. With `fresh`, unusable checkpoints are not an error.

    Raises:
        AgentError: checkpoints exist, and none is usable.
    """
    folders: dict[int, list[str]] = {}
    for name in store.folders():
        step = step_of_folder(name)
        if step is not None and (at_most is None or step <= at_most):
            folders.setdefault(step, []).append(name)
    skipped = False
    broken: dict[str, str] = {}
    for step in sorted(folders, reverse=True):
        sizes = _sizes(store, folders[step])
        folder = folders_by_step(sizes).get(step, folders[step][-1])
        checkpoint, reason = complete_dcp(store, step, folder, sizes)
        if checkpoint is not None:
            _disown(store, broken)
            return checkpoint, skipped
        skipped = True
        on_skip(step, reason)
        if sizes.get(f"{folder}/{DCP_METADATA_NAME}"):
            broken[folder] = reason
    if broken and at_most is None and not fresh:
        folder, reason = next(iter(broken.items()))
        raise no_usable_checkpoint(store.uri, f"{folder}: {reason}")
    _disown(store, broken)
    return None, skipped


def _disown(store: Store, folders: Iterable[str]) -> None:
    for folder in folders:
        store.write_text(f"{folder}/{DCP_METADATA_NAME}", "")


def inspect(store: Store, *, withdrawn: Collection[str] = ()) -> Inspect:
    """How retention inspects a step of an earlier attempt, whether a trainer or an agent wrote it."""
    by_agents = inspection.inspect(store, withdrawn=withdrawn)

    def inspect_step(step: int, folder: str, sizes: dict[str, int]) -> list[RetainedCheckpoint]:
        checkpoint, _ = complete_dcp(store, step, folder, sizes)
        return [*([] if checkpoint is None else [retained_of(checkpoint)]), *by_agents(step, folder, sizes)]

    return inspect_step


def retained_of(checkpoint: DcpCheckpoint) -> RetainedCheckpoint:
    """A retained checkpoint; a PyTorch checkpoint needs nothing outside its own folder."""
    return RetainedCheckpoint(step=checkpoint.step, needs=frozenset(), layouts=frozenset({_WRITTEN_BY_TRAINER}))


def _sizes(store: Store, folders: list[str]) -> dict[str, int]:
    return {key: size for name in folders for key, size in store.sizes(f"{name}/").items()}


class DcpWatch(threading.Thread):
    """Polls for new complete checkpoints while the command runs, and triggers the tagging of superseded ones."""

    def __init__(
        self,
        store: Store,
        log: EventLog,
        claim: Claim,
        *,
        tagging: Tagging,
        newest: DcpCheckpoint | None,
        on_taken_over: Callable[[str], None],
    ) -> None:
        super().__init__(name="dcp-watch", daemon=True)
        self._store = store
        self._log = log
        self._claim = claim
        self._tagging = tagging
        self._newest = newest.step if newest is not None else -1
        self._on_taken_over = on_taken_over
        self._problem = ""
        self._over = threading.Event()

    @property
    def newest_step(self) -> int | None:
        """The newest step known to be complete."""
        return None if self._newest < 0 else self._newest

    def run(self) -> None:
        """Poll periodically."""
        while not self._over.wait(_POLL_S):
            if not self._check():
                return

    def finish(self) -> None:
        """End the thread and poll a last time for checkpoints that the command saved at its end."""
        self._over.set()
        if self.is_alive():
            self.join()
        deadline = time.monotonic() + _LAST_POLL_S
        while not self._check() and self._problem and time.monotonic() < deadline:
            time.sleep(1.0)

    def _check(self) -> bool:
        try:
            self._claim.check()
            names = [(step, name) for name in self._store.folders() if (step := step_of_folder(name)) is not None]
            sizes = _sizes(self._store, [name for step, name in names if step > self._newest])
            for step, folder in sorted(folders_by_step(sizes).items()):
                checkpoint, _ = complete_dcp(self._store, step, folder, sizes)
                if checkpoint is not None:
                    self._newest = step
                    self._log.append("checkpoint-uploaded", step=step, bytes=checkpoint.bytes, files=checkpoint.shards)
                    self._tagging.retention.record_commit(retained_of(checkpoint))
                    self._tagging.wake()
        except TakenOverError as error:
            self._on_taken_over(str(error))
            return False
        except StoreError as error:
            if str(error) != self._problem:
                self._log.append("store-error", error=str(error))
            self._problem = str(error)
            return not self._over.is_set()
        self._problem = ""
        return True
