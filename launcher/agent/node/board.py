"""Where the agents of one job leave what they tell each other: small texts by name, each replaced as a whole."""

import shutil
from pathlib import Path
from typing import Protocol

_TEMPORARY = ".new"


class Board(Protocol):
    """The messages of one attempt of a job."""

    @property
    def words(self) -> str:
        """Where it is, for messages."""

    def open(self, *names: str) -> None:
        """Make it, with texts that are there, empty, from the start."""

    def read(self, name: str) -> str:
        """A text.

        Raises:
            OSError: It is not there, or cannot be read.
        """

    def replace(self, name: str, text: str, *, by: int) -> None:
        """Put a text in the place of what is there. Several nodes may write at once; the last one wins."""

    def remove_earlier(self) -> None:
        """Remove the messages of earlier attempts.

        Raises:
            OSError: It cannot be looked through.
        """


class FolderBoard:
    """A folder on a file system that the nodes share, in one that holds the folders of all attempts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def words(self) -> str:
        """Where it is, for messages."""
        return str(self._folder)

    def open(self, *names: str) -> None:
        """Make it, with texts that are there, empty, from the start."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            self._folder.joinpath(name).touch()

    def read(self, name: str) -> str:
        """A text."""
        return self._folder.joinpath(name).read_text(encoding="utf-8")

    def replace(self, name: str, text: str, *, by: int) -> None:
        """Put a text in the place of what is there."""
        partial = self._folder / f"{name}{_TEMPORARY}{by}"
        partial.write_text(text, encoding="utf-8")
        partial.replace(self._folder / name)

    def remove_earlier(self) -> None:
        """Remove the messages of earlier attempts."""
        for folder in self._folder.parent.iterdir():
            if folder != self._folder:
                shutil.rmtree(folder, ignore_errors=True)
