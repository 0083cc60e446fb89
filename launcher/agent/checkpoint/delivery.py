"""The result of an upload, and the callbacks that receive it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import SLIPWAY
from launcher.agent.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The result of one upload: the folder, this node's part, and the bytes that were sent for it."""

    folder: FinishedFolder
    manifest: Manifest
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """The callbacks of an upload."""

    # Called for every complete checkpoint.
    completed: Callable[[Manifest], None]
    # Called with every checkpoint that became one set with others, because the first node says so.
    joined: Callable[[FinishedFolder], None]
    # Called with the name of a folder and the SHA-256 of its files by path.
    hashed: Callable[[str, Mapping[str, str]], None]
    # Called when another agent has become the writer, with the reason.
    taken_over: Callable[[str], None]


def figures(manifest: Manifest, sent_bytes: int) -> dict[str, int | float | str]:
    """The log fields of an upload; `counted` only if the step is a count of saves."""
    return {
        "step": manifest.step,
        "bytes": manifest.bytes,
        "sent_bytes": sent_bytes,
        "files": len(manifest.files),
        "seconds": manifest.seconds,
        "layout": manifest.layout or SLIPWAY,
        **({"counted": True} if manifest.counted else {}),
    }
