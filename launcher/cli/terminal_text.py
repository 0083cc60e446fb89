"""Job output without control sequences that would steer the user's terminal.

Colors (SGR) stay. Every other escape sequence of ECMA-48 is removed: titles, the clipboard (OSC 52), cursor moves,
terminal queries. C1 controls and all C0 controls except tab, line feed and carriage return are removed too.
"""

import re

_STEERING = re.compile(
    rb"(?P<colour>\x1b\[[0-9;:]*m)"
    rb"|\x1b\[[0-?]*[ -/]*[@-~]"  # control sequences
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # strings: OSC, DCS, SOS, PM, APC
    rb"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two characters, and those with intermediates
    rb"|\xc2[\x80-\x9f]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]"
)
_LONGEST = 4096
"""The longest sequence, bytes; longer ones are no sequence."""


class TerminalText:
    """A filter for pieces of output, which may end within a sequence."""

    def __init__(self) -> None:
        self._held = b""

    def visible(self, data: bytes) -> bytes:
        """What of the output so far can be shown."""
        data, self._held = self._held + data, b""
        start = self._unfinished_start(data)
        data, self._held = data[:start], data[start:]
        return _plain(data)

    def remainder(self) -> bytes:
        """What was held back, when no more comes."""
        data, self._held = self._held, b""
        return _plain(data)

    @staticmethod
    def _unfinished_start(data: bytes) -> int:
        """The start of a sequence that may continue after the data; the end of the data if none does."""
        end = len(data) - data.endswith(b"\xc2")
        for start in (data.rfind(b"\x1b"), data.rfind(b"\x1b", 0, max(0, data.rfind(b"\x1b")))):
            if start >= 0 and len(data) - start <= _LONGEST and _STEERING.match(data, start) is None:
                end = min(end, start)
        return end


def _plain(data: bytes) -> bytes:
    shown = _STEERING.sub(lambda match: match["colour"] or b"", data)
    # An escape that begins no sequence would begin one with what another program prints next.
    return re.sub(rb"\x1b(?!\[[0-9;:]*m)", b"", shown)


def plain_text(text: str) -> str:
    r"""A whole text without what steers a terminal.

    >>> plain_text("\x1b]0;title\x07loss \x1b[31m2.5\x1b[0m\x1b]52;c;cm0gLXJm\x1b\\\x1b[2J\x9b2J")
    'loss \x1b[31m2.5\x1b[0m2J'
    """
    return _plain(text.encode(errors="replace")).decode(errors="replace")
