"""The board for messages between the agents of one job: small texts by name, each replaced completely."""

import shutil
from pathlib import Path
from typing import Protocol

_TEMPORARY = ".new"


class Board(Protocol):
    """The messages of one attempt of a job."""

    @property
    def location(self) -> str:
        """The location of the board, for messages."""

    def open(self, *names: str) -> None:
        """Create the board, with the named texts empty from the start."""

    def read(self, name: str) -> str:
        """Return a text.

        Raises:
            OSError: the text is missing or cannot be read.
        """

    def replace(self, name: str, text: str, *, by: int) -> None:
        """Replace a text. Several nodes may write at the same time; the last write wins."""

    def remove_earlier(self) -> None:
        """Remove the messages of earlier attempts.

        Raises:
            OSError: the board cannot be listed.
        """


class FolderBoard:
    """A folder on a file system that the nodes share; its parent folder holds the folders of all attempts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def location(self) -> str:
        """The location of the board, for messages."""
        return str(self._folder)

    def open(self, *names: str) -> None:
        """Create the board, with the named texts empty from the start."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            self._folder.joinpath(name).touch()

    def read(self, name: str) -> str:
        """Return a text."""
        return self._folder.joinpath(name).read_text(encoding="utf-8")

    def replace(self, name: str, text: str, *, by: int) -> None:
        """Replace a text."""
        partial = self._folder / f"{name}{_TEMPORARY}{by}"
        partial.write_text(text, encoding="utf-8")
        partial.replace(self._folder / name)

    def remove_earlier(self) -> None:
        """Remove the messages of earlier attempts."""
        for folder in self._folder.parent.iterdir():
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)
