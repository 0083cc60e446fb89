"""The SHA-256 of every file of a finished folder, read once, as soon as the folder is finished.

An upload needs the hashes anyway; with them the next agent on the node trusts a folder that was never uploaded.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

from launcher.agent.checkpoint.files import LocalFile, is_same_content, sha256_of, with_content
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.errors import ChangedCheckpointError

_REMEMBERED = 4
"""Number of folders; the uploads need the hashes of the newest ones."""
_NICENESS = 5


class Digests(threading.Thread):
    """Hashes of files in finished folders. Safe to use from every thread."""

    def __init__(self, on_hashed: Callable[[str, Mapping[str, str]], None]) -> None:
        """`on_hashed` receives the name of every folder that was read, and the SHA-256 of its files by path."""
        super().__init__(name="digests", daemon=True)
        self._on_hashed = on_hashed
        self._changed = threading.Condition()
        self._waiting: list[FinishedFolder] = []
        self._known: dict[Path, dict[LocalFile, Future[str]]] = {}

    def add(self, folder: FinishedFolder) -> None:
        """Queue a folder; it is read before folders that were added earlier, of which none is held for it."""
        with self._changed:
            self._known.pop(folder.path, None)  # nothing is known about a file that is read again
            self._waiting = [replace(earlier, held=None) for earlier in self._waiting] + [folder]
            self._changed.notify()

    def of(self, folder: FinishedFolder, file: LocalFile) -> str:
        """The hexadecimal SHA-256 of a file as it was found; computed if not yet known.

        Raises:
            OSError: the file cannot be read.
            ChangedCheckpointError: it changed before it was read to its end.
        """
        with self._changed:
            files = self._known.setdefault(folder.path, {})
            future = files.get(file)
            mine = future is None
            if future is None:
                future = files[file] = Future()
            for path in list(self._known)[:-_REMEMBERED]:
                del self._known[path]
        if mine:
            try:
                future.set_result(_digest(folder, file))
            except (OSError, ChangedCheckpointError) as error:
                with self._changed:
                    files.pop(file, None)
                future.set_exception(error)
        return future.result()

    def run(self) -> None:
        """Read queued folders until the process ends."""
        with contextlib.suppress(OSError, AttributeError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)  # of this thread, on Linux
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                folder = self._waiting.pop()
            with contextlib.suppress(OSError, ChangedCheckpointError):  # its upload reports that
                self._on_hashed(folder.name, {file.path: self.of(folder, file) for file in with_content(folder.files)})
            del folder  # its files would be held until the next one comes


def _digest(folder: FinishedFolder, file: LocalFile) -> str:
    source = folder.source(file)
    digest = sha256_of(source)
    if not is_same_content(file, source.stat()):
        raise ChangedCheckpointError(f"{folder.name} changed after it was finished: {file.path} was written again")
    return digest
