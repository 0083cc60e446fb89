"""Downloads checkpoints: to verify every byte, or to restore them on this computer."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock

from launcher.agent import safe_json
from launcher.agent.manifest import HERE, StoredFile
from launcher.agent.manifest_tree import complete_tree, entries_for
from launcher.aws.objects import Objects
from launcher.model.errors import AwsError, ImpossibleError
from launcher.records.checkpoints import Checkpoint
from launcher.workflow.run.checkpoints import step_of_folder_key, superseded_keys

WORKERS = 8
CLAIM = "claim.json"
_PARTIAL = ".slipway-restore-"
STALE = timedelta(seconds=180)
"""A running agent renews its claim every minute; after three minutes it counts as dead (agent/checkpoint/claim.py)."""

Advance = Callable[[int], None]
"""Called with the size of every chunk, bytes."""


def damaged_files(store: Objects, checkpoint: Checkpoint, advance: Advance) -> tuple[str, ...]:
    """Read a complete checkpoint; one line for each damaged file.

    Files of the agent are compared with their SHA-256. PyTorch stores no hashes: its files are read to their end.
    """
    if not checkpoint.complete:
        return (str(checkpoint.reason),)

    def check(file: StoredFile) -> str | None:
        digest, size = hashlib.sha256(), 0

        def take(block: bytes) -> None:
            nonlocal size
            digest.update(block)
            size += len(block)
            report(len(block))

        store.blocks(file.key, take)
        return _wrong(file, size, digest.hexdigest())

    report = _one_at_a_time(advance)
    with ThreadPoolExecutor(WORKERS) as pool:
        alone, packs = _apart(checkpoint.files)
        checks = [pool.submit(check, file) for file in {file.key: file for file in alone}.values()]
        checks += [pool.submit(_take_apart, store, files, None, report) for files in packs]
        return tuple(
            sorted(
                line for line in (check_result.result() for check_result in as_completed(checks)) if line is not None
            )
        )


def restore(
    store: Objects,
    checkpoint: Checkpoint,
    target: Path,
    advance: Advance,
    *,
    node: int = 0,
    older: int | None = None,
) -> Path:
    """Download a checkpoint to a folder of its name below `target`, completely or not at all.

    A checkpoint without its own folder, of files directly in the checkpoint folder, gets `step-N` (or `epoch-N`,
    `save-N`).
    `node`: which node's file to take, if several nodes stored a file of the same name. `older`: the step to name if the
    checkpoint is damaged.

    Raises:
        ImpossibleError: the folder exists, cannot be written, or the checkpoint differs from its manifest.
    """
    unit = "save" if checkpoint.counted else checkpoint.unit
    place = target / (f"{unit}-{checkpoint.step}" if checkpoint.folder == HERE else checkpoint.folder)
    if os.path.lexists(place):
        raise ImpossibleError(f"{place} exists already", hint="name another folder with -o")
    files, links = entries_for(checkpoint.files, node), entries_for(checkpoint.links, node)

    def complete(partial: Path) -> None:
        complete_tree(partial, ((file.path, file.mode) for file in files), links, checkpoint.folders)

    wrong = fetch(store, files, place, advance, complete)
    if wrong:
        hint = "the store has no older one" if older is None else f"restore the next older one: --step {older}"
        raise ImpossibleError(f"step {checkpoint.step} is damaged: {wrong}", hint=hint)
    return place


def fetch(
    store: Objects,
    files: Iterable[StoredFile],
    place: Path,
    advance: Advance,
    complete: Callable[[Path], None] = lambda _: None,
) -> str | None:
    """Download files into a new folder, completely or not at all; `complete` adds the rest to it.

    Returns:
        The first problem of a stored file, and then no folder is left; None if all files are intact.
    """
    report = _one_at_a_time(advance)

    def fetch(file: StoredFile) -> str | None:
        path, digest, size = partial / file.path, hashlib.sha256(), 0
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:

            def take(block: bytes) -> None:
                nonlocal size
                stream.write(block)
                digest.update(block)
                size += len(block)
                report(len(block))

            store.blocks(file.key, take)
        return _wrong(file, size, digest.hexdigest())

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with partial_folder(place.parent) as partial:
            with ThreadPoolExecutor(WORKERS) as pool:
                alone, packs = _apart(files)
                wrong = [line for line in pool.map(fetch, alone) if line is not None]
                wrong += [
                    line
                    for line in pool.map(lambda files: _take_apart(store, files, partial, report), packs)
                    if line is not None
                ]
            if wrong:
                return wrong[0]
            complete(partial)
            partial.chmod(0o755)
            partial.rename(place)
    except OSError as problem:
        raise ImpossibleError(f"{place} cannot be written: {problem}") from problem
    return None


@contextmanager
def partial_folder(above: Path) -> Iterator[Path]:
    """A new folder, removed at the end unless it was renamed; what killed restores left there is removed first.

    A restore holds a lock on its folder, which ends with its process.
    """
    with ExitStack() as held:
        with _lock_folder(above, wait=True):
            for left in above.glob(f"{_PARTIAL}*"):
                with suppress(OSError), _lock_folder(left, wait=False):
                    shutil.rmtree(left, ignore_errors=True)
            partial = Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=above))
            held.enter_context(_lock_folder(partial, wait=False))
        held.callback(shutil.rmtree, partial, ignore_errors=True)
        yield partial


@contextmanager
def _lock_folder(folder: Path, *, wait: bool) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def prunable(store: Objects, checkpoints: tuple[Checkpoint, ...], keep: int) -> dict[str, int]:
    """The objects that `prune` would delete: keys with their sizes."""
    sizes = {object_.key: object_.bytes for object_ in store.list_objects()}
    return {key: sizes[key] for key in superseded_keys(checkpoints, sizes, keep)}


def prune(store: Objects, keys: Iterable[str], now: datetime, advance: Advance) -> None:
    """Delete unneeded objects; the marker of a complete checkpoint first, so that no incomplete one looks complete.

    Raises:
        ImpossibleError: a job is writing there; its agent prunes the checkpoints itself.
        AwsError: S3 refused.
    """
    ordered = sorted(keys)
    run = writer(store, now)
    if run is not None:
        raise ImpossibleError(
            f"{run} is writing checkpoints there now",
            hint="its agent keeps the newest checkpoint.keep checkpoints; prune after the run ends",
        )
    if any(step_of_folder_key(key) is None for key in ordered):
        raise ImpossibleError("the objects to delete are not all checkpoints")
    marks = [key for key in ordered if key.endswith(("/manifest.json", "/.metadata"))]
    rest = sorted(set(ordered) - set(marks))
    try:
        for start in range(0, len(marks), 1000):
            store.delete(marks[start : start + 1000])
            advance(len(marks[start : start + 1000]))
        for start in range(0, len(rest), 1000):
            store.delete(rest[start : start + 1000])
            advance(len(rest[start : start + 1000]))
    except AwsError as problem:
        raise AwsError(
            problem.message, hint=problem.hint or "deleting needs s3:DeleteObject below the URI"
        ) from problem


def writer(store: Objects, now: datetime) -> str | None:
    """The run whose agent has an active claim on a store, or "a job"; None without an active claim."""
    claims = [object_ for object_ in store.list_objects() if object_.key == CLAIM]
    if not claims:
        return None
    try:
        owner = safe_json.loads(store.read(CLAIM))
        released, run = bool(owner["released"]), str(owner["run"])
    except (KeyError, TypeError, ValueError):
        released, run = False, "a job"
    return run if not released and now - claims[0].modified.astimezone(UTC) < STALE else None


def _apart(files: Iterable[StoredFile]) -> tuple[list[StoredFile], list[list[StoredFile]]]:
    alone, packs = [], dict[str, list[StoredFile]]()
    for file in files:
        if file.offset is None:
            alone.append(file)
        else:
            packs.setdefault(file.key, []).append(file)
    return alone, list(packs.values())


def _take_apart(store: Objects, files: list[StoredFile], target: Path | None, report: Advance) -> str | None:
    """Read a pack, compare its files with their manifest, and write them below `target` unless that is None.

    Returns:
        The first problem, None without one.
    """
    content = bytearray()
    store.blocks(files[0].key, content.extend)
    report(len(content))
    for file in files:
        begin = file.offset or 0
        piece = content[begin : begin + file.bytes]
        line = _wrong(file, len(piece), hashlib.sha256(piece).hexdigest())
        if line is not None:
            return line
        if target is not None:
            path = target / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(piece)
    return None


def _wrong(file: StoredFile, size: int, digest: str) -> str | None:
    if size != file.bytes:
        return f"{file.path} has {size} bytes instead of {file.bytes}"
    if file.sha256 and digest != file.sha256:
        return f"{file.path} has SHA-256 {digest} instead of {file.sha256}"
    return None


def _one_at_a_time(advance: Advance) -> Advance:
    lock = Lock()

    def report(size: int) -> None:
        with lock:
            advance(size)

    return report
