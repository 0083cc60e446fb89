"""Reads a text file that grows, each byte once and in bounded memory: lines, and pieces of lines without an end."""

import io
from collections.abc import Iterator
from pathlib import Path

from launcher.records.run_folder import RunFolder

_BLOCK = 1 << 20
AGENT_LINE = "[slipway] "
"""How a line of the agent begins in a job's log (launcher/agent/events.py)."""
_LAST_LINES, _MAX_LINE = 8, 500
"""Lines of the end of a job's output, and characters of each."""
_PIECE = 1 << 16
"""An unfinished line that is longer is passed on in pieces."""


class GrowingLines:
    """The new content of a file at every call.

    A progress bar is rewritten in place with carriage returns: of its states only the last one is passed on, as a
    terminal shows it.
    """

    def __init__(self, path: Path) -> None:
        """The file need not exist yet."""
        self._path = path
        self._offset = 0
        self._open = b""

    def pieces(self) -> Iterator[tuple[str, bool]]:
        """The text that was added, and whether a line ends with it."""
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            return
        with stream:
            stream.seek(self._offset)
            while block := stream.read(_BLOCK):
                self._offset += len(block)
                *lines, last = block.split(b"\n")
                for line in lines:
                    yield _text(_as_shown(self._open + line)), True
                    self._open = b""
                self._open = _last_state(self._open + last)
                while len(self._open) > _PIECE:
                    end = _before_cut_character(self._open[:_PIECE])
                    piece, self._open = self._open[:end], self._open[end:]
                    yield _text(piece), False

    def rest(self) -> str:
        """The unfinished last line of a file that has ended."""
        rest, self._open = self._open, b""
        return _text(_as_shown(rest))


def last_output(folder: RunFolder) -> tuple[str, ...]:
    """The end of the newest attempt's log, which most often names the error of a failed job; empty without a log."""
    return tuple(line[:_MAX_LINE] for _, path in folder.attempt_logs[-1:] for line in last_lines(path, _LAST_LINES))


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a file that have text, without the agent's own; of a long file only the end is read."""
    with path.open("rb") as stream:
        begin = max(0, stream.seek(0, io.SEEK_END) - _PIECE)
        stream.seek(begin)
        lines = stream.read(_PIECE).split(b"\n")
    texts = [_text(_as_shown(line)) for line in (lines[1:] or lines if begin else lines)]
    return [text for text in texts if text.strip() and not text.startswith(AGENT_LINE)][-count:]


def _as_shown(line: bytes) -> bytes:
    """A line as a terminal shows it: what follows its last carriage return."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _last_state(line: bytes) -> bytes:
    """An unfinished line without earlier states of a bar; a carriage return at its end waits for the next state."""
    return line[line.rstrip(b"\r").rfind(b"\r") + 1 :]


def _before_cut_character(data: bytes) -> int:
    """The length of data without a UTF-8 character that the end cuts."""
    for length in range(1, min(4, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:  # noqa: PLR2004  the first byte of a character
            return len(data) - length
        if byte < 0x80:  # noqa: PLR2004  a character of one byte
            break
    return len(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")
