"""Folders in S3 that the nodes fetch before the first step of a job (`run.data`).

On a shared file system each node fetches its share and waits for the others. On separate disks each node fetches
everything, or its share if the plan requests it. Files with the size and time of their object are not fetched again.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from launcher.agent import ending, exits
from launcher.agent.ending import Ending
from launcher.agent.errors import StoreError
from launcher.agent.job import DataSpec
from launcher.agent.manifest import is_below
from launcher.agent.node.notice import Notice
from launcher.agent.steps import StepServices, next_notice
from launcher.agent.store.objects import Store

_AT_ONCE = 512
"""Number of objects that the workers receive together."""
_POLL_S = 0.25
_MARK_POLL_S = 2.0
_TRIES, _PAUSE_S = 5, 5.0
_PARTIAL = ".slipway-partial"

_Result = TypeVar("_Result")


class Data:
    """The folders of one attempt on this node."""

    def __init__(self, services: StepServices, *, life: str, timeout_s: float) -> None:
        self._services = services
        self._marks = f"steps/{life}"
        self._timeout_s = timeout_s
        self._over = threading.Event()

    def bring(self, sources: Sequence[DataSpec]) -> Ending | None:
        """Fetch all folders, in their order; return how the attempt ends, or None if it continues."""
        for number, source in enumerate(sources):
            end = self._bring(number, source)
            if end is not None:
                return end
        return None

    def _bring(self, number: int, source: DataSpec) -> Ending | None:
        at = f"run.data[{number}]"
        store = Store(source.uri, timeout_s=self._timeout_s)
        failure: list[tuple[int, str]] = []

        def fetch() -> None:
            try:
                self._fetch(at, source, store)
            except StoreError as error:
                failure.append((exits.STORE_FAILED, str(error)))
            except (OSError, ValueError) as error:
                failure.append((exits.BAD_JOB if isinstance(error, ValueError) else exits.INTERNAL, str(error)))

        thread = threading.Thread(target=fetch, name="data", daemon=True)
        thread.start()
        notice = self._follow_fetch(lambda: not thread.is_alive(), store)
        thread.join()
        if notice is not None:
            return ending.from_notice(notice)
        if failure:
            code, reason = failure[0]
            return ending.failure(code, f"{at}: {reason}")
        return self._together(at, number) if source.shared and not self._services.peers.alone else None

    def _follow_fetch(self, is_over: Callable[[], bool], store: Store) -> Notice | None:
        """Wait for the fetch; return the notice that ended it, if one did."""
        while not is_over():
            notice = next_notice(self._services, _POLL_S)
            if notice is not None:
                self._over.set()
                while not is_over():  # a transfer may begin while the others are cut off
                    store.cancel()
                    time.sleep(_POLL_S)
                return notice
        return None

    def _fetch(self, at: str, source: DataSpec, store: Store) -> None:
        begun, peers = time.monotonic(), self._services.peers
        stamps = self._patiently(store.stamps)
        keys = sorted(key for key in stamps if not key.endswith("/"))
        if not keys:
            raise ValueError(f"{source.uri} contains no objects")
        outside = next((key for key in keys if not is_below(key)), None)
        if outside is not None:
            raise ValueError(f"{source.uri}: the key {outside!r} is outside {source.path}")
        if source.shard or source.shared:
            keys = keys[peers.part :: peers.parts]
        folder = Path(source.path)
        missing = {key: stamps[key] for key in keys if not _is_there(folder / key, stamps[key])}
        size = sum(file_bytes for file_bytes, _ in missing.values())
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < size:
            raise OSError(f"{source.path} has {free:,} bytes free, but the data needs {size:,} bytes")
        remaining = list(missing)
        while remaining and not self._over.is_set():
            some = remaining[:_AT_ONCE]
            self._patiently(lambda some=some: _download(store, folder, {key: missing[key] for key in some}))  # type: ignore[misc]
            del remaining[:_AT_ONCE]
        present = len(keys) - len(missing)
        seconds = round(time.monotonic() - begun, 1)
        self._services.log.append(
            "data-fetched", data=at, path=source.path, files=len(missing), bytes=size, there=present, seconds=seconds
        )

    def _patiently(self, call: Callable[[], _Result]) -> _Result:
        for _ in range(_TRIES - 1):
            try:
                return call()
            except StoreError as error:
                if error.permanent or error.missing or error.cut_off:
                    raise
                self._services.log.append("store-error", error=str(error))
                if self._over.wait(_PAUSE_S):
                    raise
        return call()

    def _together(self, at: str, number: int) -> Ending | None:
        """Announce that this node's share is fetched, and wait for the shares of the others."""
        services, folder = self._services, f"{self._marks}/data-{number}/"
        next_poll = 0.0
        try:
            services.store.put_new(f"{folder}{services.peers.part}", b"{}\n")
            while True:
                if time.monotonic() >= next_poll:
                    next_poll = time.monotonic() + _MARK_POLL_S
                    if len(services.store.sizes(folder)) >= services.peers.parts:
                        return None
                notice = next_notice(services, _POLL_S)
                if notice is not None:
                    return ending.from_notice(notice)
        except StoreError as error:
            return ending.failure(exits.STORE_FAILED, f"{at}: cannot write or read the nodes' progress marks: {error}")


def _is_there(path: Path, stamp: tuple[int, float]) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return (status.st_size, int(status.st_mtime)) == (stamp[0], int(stamp[1]))


def _download(store: Store, folder: Path, files: dict[str, tuple[int, float]]) -> None:
    """Download some files: each gets its name only when it is complete."""
    for key in files:
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
    with store.downloads() as downloads:
        for key, (size, _) in files.items():
            downloads.download(key, folder / f"{key}{_PARTIAL}", size)
        downloads.wait()
    for key, (_, written_s) in files.items():
        partial = folder / f"{key}{_PARTIAL}"
        os.utime(partial, (written_s, written_s))
        partial.replace(folder / key)
