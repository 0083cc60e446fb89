"""What an upload came to, and who is told."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from launcher.agent.checkpoint.layouts import SLIPWAY
from launcher.agent.checkpoint.watch import FinishedFolder
from launcher.agent.manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What one upload came to: the folder, this node's part, and the bytes that had to be sent for it."""

    folder: FinishedFolder
    manifest: Manifest
    sent_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Who is told.

    Attributes:
        whole: Of every checkpoint that is whole.
        hashed: Of what a folder holds, by its name: SHA-256 by path.
        taken_over: That another agent writes here now.
    """

    whole: Callable[[Manifest], None]
    hashed: Callable[[str, Mapping[str, str]], None]
    taken_over: Callable[[str], None]


def figures(manifest: Manifest, sent_bytes: int) -> dict[str, int | float | str]:
    """What the log says of an upload."""
    return {
        "step": manifest.step,
        "bytes": manifest.bytes,
        "sent_bytes": sent_bytes,
        "files": len(manifest.files),
        "seconds": manifest.seconds,
        "layout": manifest.layout or SLIPWAY,
    }
