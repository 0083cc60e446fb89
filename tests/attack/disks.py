"""A small disk of a node, and what fills it to the last byte."""

import contextlib
import itertools
import subprocess

import pytest

DISK = 768 << 20


@contextlib.contextmanager
def mounted(place, size, *, inodes=0):
    """A file system of so many bytes and inodes (0: no limit); the test is skipped where no one may mount."""
    place.mkdir()
    options = f"size={size},nr_inodes={inodes}"
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "disk", place], capture_output=True)  # noqa: PLW1510
    if mount.returncode:
        pytest.skip("mounting a file system takes root")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def fill(path):
    """Take what is free."""
    with path.open("ab", buffering=0) as file:
        for block in (bytes(1 << 20), bytes(4096)):
            with contextlib.suppress(OSError):
                while True:
                    file.write(block)


def fill_inodes(folder):
    """Take all inodes that are free, and no byte."""
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(OSError):
        for number in itertools.count():
            (folder / f"empty-{number}").touch()
