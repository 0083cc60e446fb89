"""The page of `slipway checkpoints list`."""

from launcher.cli.lines import wrapped
from launcher.cli.table import Column, render
from launcher.records.checkpoints import Checkpoint

_UNIT = 1024.0


def page(uri: str, found: tuple[Checkpoint, ...], width: int) -> list[str]:
    """Every step, newest first."""
    lines = ["", *wrapped(f"  {uri}", width), ""]
    if not found:
        return [*lines, "  no checkpoint yet"]
    columns = [
        Column(title="step", right=True),
        Column(title="whole"),
        Column(title="files", right=True),
        Column(title="own size", right=True),
        Column(title="saved (UTC)"),
        Column(title="attempt", right=True, yields=2),
        Column(title="by", yields=1, shrinks=True),
    ]
    lines += render(columns, [_row(each) for each in found], width)
    for each in found:
        if each.reason is not None:
            lines += wrapped(f"  step {each.step}: {each.reason}", width)
    return lines


def _row(each: Checkpoint) -> list[str]:
    """One step."""
    by = {"agent": each.run or "", "dcp": "PyTorch (DCP)"}
    return [
        str(each.step),
        "yes" if each.whole else "no",
        str(len(each.files)) if each.files else "",
        size_words(each.bytes),
        (each.written_at or "")[:19].replace("T", " "),
        "" if each.attempt is None else str(each.attempt),
        by.get(each.form or "", ""),
    ]


def size_words(count: float) -> str:
    """Bytes as a person says them.

    >>> size_words(512), size_words(1536), size_words(3 * 1024**3)
    ('512 B', '1.5 KiB', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < _UNIT:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= _UNIT
    return f"{count:.1f} TiB"
