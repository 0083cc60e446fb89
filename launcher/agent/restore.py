"""Bringing the newest whole checkpoint back onto the node."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.commit import whole_checkpoint
from launcher.agent.errors import AgentError, StoreError
from launcher.agent.manifest import Manifest, step_of_key
from launcher.agent.store import Store
from launcher.agent.upload import sha256_of

PARTIAL_NAME = ".slipway-restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """A checkpoint that stands on the node again: its folder, what it is, and how long it took (seconds)."""

    folder: Path
    manifest: Manifest
    bytes: int
    seconds: float
    skipped_newer: bool


def restore_newest(
    store: Store,
    checkpoints: Path,
    *,
    part: int,
    on_skip: Callable[[int, str], None],
) -> Restored | None:
    """Restore the checkpoint with the highest step that is whole: manifest, every object, its size and its SHA-256.

    Args:
        store: Where from.
        checkpoints: The checkpoint folder; the checkpoint appears in it under its own name, by a rename.
        part: This node's number; where several nodes stored a path, it gets its own.
        on_skip: Told of every newer step that is not whole, with the reason.

    Returns:
        The checkpoint, or None where none is whole.

    Raises:
        StoreError: The store cannot be read; nothing is left in the folder.
        AgentError: The folder cannot be written.
    """
    sizes = store.sizes()
    steps = sorted({step for key in sizes if (step := step_of_key(key)) is not None}, reverse=True)
    for number, step in enumerate(steps):
        begun = time.monotonic()
        manifest, reason = whole_checkpoint(store, step, sizes)
        if manifest is not None:
            reason = _fetch(store, manifest, checkpoints, part=part)
            if not reason:
                return Restored(
                    folder=checkpoints / manifest.folder,
                    manifest=manifest,
                    bytes=sum(file.bytes for file in manifest.files_for(part)),
                    seconds=round(time.monotonic() - begun, 3),
                    skipped_newer=number > 0,
                )
        on_skip(step, reason)
    return None


def _fetch(store: Store, manifest: Manifest, checkpoints: Path, *, part: int) -> str:
    """Download and check; the reason why it is not whole, or an empty string."""
    partial = checkpoints / PARTIAL_NAME
    try:
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            reason = _download(store, manifest, partial, part=part)
            if not reason:
                partial.rename(checkpoints / manifest.folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise AgentError(f"step {manifest.step} cannot be restored into {checkpoints}: {error}") from error
    return reason


def _download(store: Store, manifest: Manifest, partial: Path, *, part: int) -> str:
    files = manifest.files_for(part)
    try:
        with store.downloads() as downloads:
            for file in files:
                (partial / file.path).parent.mkdir(parents=True, exist_ok=True)
                downloads.download(file.key, partial / file.path)
    except StoreError as error:
        if error.missing:
            return f"an object went away: {error}"
        raise
    for file in files:
        if (digest := sha256_of(partial / file.path)) != file.sha256:
            return f"{file.path} has SHA-256 {digest} instead of {file.sha256}"
    return ""
