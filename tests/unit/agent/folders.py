"""Folders as a trainer writes them."""

from pathlib import Path


def steps(checkpoints):
    return [checkpoint.step for checkpoint in checkpoints]


def fill(folder, content="x"):
    folder.mkdir()
    (folder / "weights").write_text(content)
    return folder


def overflow(folder):
    """Create more than the kernel reports."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    for _number in range(limit // 2 + 100):
        (folder / "busy").touch()
        (folder / "busy").unlink()
