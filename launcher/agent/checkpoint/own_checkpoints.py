"""Checkpoints that the trainer writes to its own location (`checkpoint.mode: own`): reported, never changed.

The first node polls the location, a folder or a prefix in S3. It reports a checkpoint of a known layout when the
framework's marker or tracker exists and nothing changed for 10 seconds, or when a newer checkpoint exists. The first
node also reports other files, and that nothing is written.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.agent.checkpoint.entries import Layouts, names_in
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.layouts import Layout
from launcher.agent.checkpoint.recognition import NO_CHECKPOINT, patience_s
from launcher.agent.checkpoint.watch import QUIET_S
from launcher.agent.errors import JobSpecError, StoreError, UnusableCheckpointError
from launcher.agent.events import EventLog
from launcher.agent.store.objects import Store

WRITTEN = "checkpoint-written"
"""The trainer wrote to the location, and no layout names the step."""
_MIN_POLL_S, _MAX_POLL_S = 1.0, 30.0
_UNKNOWN_LAYOUT = "checkpoint.layout or checkpoint.pattern would name its step"

Stamps = Mapping[str, object]
"""Files by name, each with a value that changes when the file is written again."""


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self, below: str) -> list[str]:
        return names_in(self._path, below)

    def stamps(self, name: str) -> Stamps:
        path = self._path / name
        try:
            if path.is_symlink() or not path.is_dir():
                status = path.lstat()
                return {"": (status.st_size, status.st_mtime_ns)}
            return {file.path: (file.bytes, file.modified_ns) for file in local_files(path, follow=True)}
        except (OSError, UnusableCheckpointError):
            return {}  # the trainer is at it

    def text(self, name: str) -> str:
        try:
            return (self._path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return ""


class _Prefix:
    def __init__(self, store: Store) -> None:
        self._store = store

    def names(self, below: str) -> list[str]:
        start = f"{below}/" if below else ""
        keys = self._store.stamps(start, delimiter="/")
        return sorted(name for key in keys if (name := key[len(start) :].rstrip("/")))

    def stamps(self, name: str) -> Stamps:
        start = f"{name}/" if name else ""
        inside = {key[len(start) :]: stamp for key, stamp in self._store.stamps(start).items()}
        return inside or {key: stamp for key, stamp in self._store.stamps(name).items() if key == name}

    def text(self, name: str) -> str:
        stored = self._store.find_text(name)
        return "" if stored is None else stored.text


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """The newest checkpoint of a layout, older steps ascending, and its files; without a layout, all files."""

    layout: Layout | None = None
    step: int | None = None
    older: tuple[int, ...] = ()
    stamps: Stamps


def place_of(uri: str, *, timeout_s: float) -> _Folder | _Prefix:
    """The location of a URI; a folder is created if its file system is mounted.

    Raises:
        JobSpecError: no file system is mounted at the URI, or the folder cannot be created.
    """
    if uri.startswith("s3://"):
        return _Prefix(Store(uri, timeout_s=timeout_s))
    path = Path(uri)
    existing = next(ancestor for ancestor in (path, *path.parents) if ancestor.exists())
    if existing == Path("/"):
        raise JobSpecError([f"checkpoint.uri: {uri}: {Path(*path.parts[:2])} does not exist on this node; mount it"])
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobSpecError([f"checkpoint.uri: {uri} cannot be made: {error}"]) from error
    return _Folder(path)


class OwnWatch(threading.Thread):
    """Polls for new checkpoints while the command runs."""

    def __init__(
        self,
        uri: str,
        layouts: Layouts,
        log: EventLog,
        *,
        interval_s: float,
        timeout_s: float,
        moved: Callable[[], None],
    ) -> None:
        super().__init__(name="own-watch", daemon=True)
        self._uri, self._log, self._layouts, self._moved = uri, log, layouts, moved
        self._place = place_of(uri, timeout_s=timeout_s)
        self._patience_s = patience_s(interval_s)
        self._poll_s = min(max(interval_s / 4, _MIN_POLL_S), _MAX_POLL_S)
        self._over = threading.Event()
        self._problem = ""
        self._silent = False
        self._changed_at = time.monotonic()
        self._last = self._first_snapshot()
        self._reported_step = -1 if self._last.step is None else self._last.step
        self._reported_stamps = self._last.stamps
        if self.newest_step is None:
            log.append("nothing-restored")
        else:
            log.append("restored", step=self.newest_step, source="own", reason=f"the trainer finds it at {uri}")

    @property
    def newest_step(self) -> int | None:
        """The newest known step."""
        return None if self._reported_step < 0 else self._reported_step

    def run(self) -> None:
        """Poll periodically."""
        while not self._over.wait(self._poll_s):
            self._check()

    def finish(self, *, clean: bool) -> None:
        """End the thread and poll a last time; `clean`: the command succeeded, so all its checkpoints are complete."""
        self._over.set()
        if self.is_alive():
            self.join()
        self._check(ended=True, clean=clean)

    def _check(self, *, ended: bool = False, clean: bool = False) -> None:
        now = time.monotonic()
        try:
            snapshot = self._snapshot()
        except StoreError as error:
            if str(error) != self._problem:
                self._log.append("store-error", error=str(error))
            self._problem = str(error)
            return
        self._problem = ""
        if snapshot != self._last:
            self._last, self._changed_at, self._silent = snapshot, now, False
            self._moved()
        has_evidence = snapshot.layout is not None and snapshot.layout.has_evidence
        self._report(snapshot, quiet=clean or (ended and has_evidence) or now - self._changed_at >= QUIET_S)
        silent_s = now - self._changed_at
        if not ended and not self._silent and silent_s >= self._patience_s:
            self._silent = True
            newest = "" if self.newest_step is None else f"; the newest is step {self.newest_step}"
            self._log.append(NO_CHECKPOINT, reason=f"nothing was written to {self._uri} for {silent_s:.0f} s{newest}")

    def _report(self, snapshot: _Snapshot, *, quiet: bool) -> None:
        if snapshot.layout is None:
            if quiet and snapshot.stamps and snapshot.stamps != self._reported_stamps:
                self._reported_stamps = snapshot.stamps
                self._log.append(WRITTEN, files=len(snapshot.stamps), reason=f"to {self._uri}; {_UNKNOWN_LAYOUT}")
            return
        # One that is followed by a newer one is finished, however short the time between two looks is.
        for step in (*snapshot.older, snapshot.step if quiet else None):
            if step is not None and step > self._reported_step:
                self._reported_step = step
                self._log.append("checkpoint-uploaded", step=step, layout=snapshot.layout.layout, source="own")

    def _first_snapshot(self) -> _Snapshot:
        try:
            return self._snapshot()
        except StoreError as error:
            if error.permanent or error.missing:
                raise
            self._log.append("store-error", error=str(error))
            return _Snapshot(stamps={})

    def _snapshot(self) -> _Snapshot:
        """The newest checkpoint; if several layouts match, one with a tracker or marker comes first."""
        listed = self._layouts.list_entries(self._place.names)
        snapshots = [snapshot for row in self._layouts.rows if (snapshot := self._newest(row, listed)) is not None]
        snapshots.sort(key=lambda snapshot: snapshot.layout is not None and not snapshot.layout.has_evidence)
        return snapshots[0] if snapshots else _Snapshot(stamps=self._place.stamps(""))

    def _newest(self, row: Layout, listed: list[str]) -> _Snapshot | None:
        steps: dict[int, list[str]] = {}
        for name in listed:
            if (step := row.step_of(name)) is not None:
                steps.setdefault(step, []).append(name)
        below = {_above(name) for names in steps.values() for name in names} if row.tracker else set()
        trackers = {parent: self._place.text(f"{parent}/{row.tracker}".lstrip("/")) for parent in below}
        descending = sorted(steps, reverse=True)
        for number, step in enumerate(descending):
            if row.tracker and not all(row.names_it(trackers[_above(name)], name) for name in steps[step]):
                continue
            stamps = {(name, key): stamp for name in steps[step] for key, stamp in self._place.stamps(name).items()}
            lacking = row.marker and not all((name, row.marker) in stamps for name in steps[step])
            unfinished = row.unless and any(row.unless.format(name=name) in listed for name in steps[step])
            if not (lacking or unfinished) and stamps:
                files = {f"{name}/{key}": stamp for (name, key), stamp in stamps.items()}
                return _Snapshot(layout=row, step=step, older=tuple(descending[:number:-1]), stamps=files)
        return None


def _above(name: str) -> str:
    """The folder of an entry, relative to the location; empty for the location itself."""
    return name.rpartition("/")[0]
