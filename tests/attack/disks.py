"""A small disk of a node, and what fills it to the last byte."""

import contextlib
import subprocess

import pytest

DISK = 768 << 20


@contextlib.contextmanager
def mounted(place, size):
    """A file system of so many bytes; the test is skipped where no one may mount."""
    place.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "disk", place], capture_output=True)  # noqa: PLW1510
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
