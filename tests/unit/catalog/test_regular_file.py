"""Files that plans name: what is no regular file, too large, or outside the folder is one sentence."""

import os
import socket
from pathlib import Path

import pytest

from launcher.catalog.regular_file import UnusableFileError, opened_regular, read_named, read_regular


def test_file_of_exact_size_limit_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"12345")
    assert read_regular(tmp_path / "a", 5) == b"12345"
    with pytest.raises(UnusableFileError, match="larger than 4 bytes"):
        read_regular(tmp_path / "a", 4)


def test_file_reporting_size_0_is_limited_too():
    # Files of /proc have the size 0.
    with pytest.raises(UnusableFileError, match="larger than 10 bytes"):
        read_regular(Path("/proc/self/status"), 10)


@pytest.mark.parametrize("target, kind", [("/dev/zero", "a device"), ("/dev/tty", "a device"), ("/", "a folder")])
def test_link_to_device_or_folder_refused_by_kind(tmp_path, target, kind):
    (tmp_path / "train.py").symlink_to(target)
    with pytest.raises(UnusableFileError, match=f"it is {kind}"):
        read_regular(tmp_path / "train.py", 100)


def test_pipe_without_writer_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "train.py")
    with pytest.raises(UnusableFileError, match="a named pipe"), opened_regular(tmp_path / "train.py"):
        pass


def test_socket_refused_by_kind(tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        with pytest.raises(UnusableFileError, match="a socket"):
            read_regular(tmp_path / "s", 100)


@pytest.mark.parametrize("target", ["../outside", "{folder}/../outside", "deep/../../outside"])
def test_link_out_of_folder_refused(tmp_path, target):
    (tmp_path / "outside").write_text("secret")
    folder = tmp_path / "work"
    (folder / "deep").mkdir(parents=True)
    (folder / "a").symlink_to(target.format(folder=folder))
    (folder / "b").write_text("b")
    (folder / "c").symlink_to("b")
    with pytest.raises(UnusableFileError, match="a link that leaves the folder"):
        read_regular(folder / "a", 100, within=folder)
    assert read_regular(folder / "c", 100, within=folder) == b"b"


def test_file_in_linked_folder_is_read(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("a")
    (tmp_path / "link").symlink_to("real")
    assert read_regular(tmp_path / "link" / "a", 100, within=tmp_path / "link") == b"a"


def test_shell_pipe_is_read_to_end_within_limit(tmp_path):
    for most, whole in ((100, True), (3, False)):
        reader, writer = os.pipe()
        os.write(writer, b"slipway: 1")
        os.close(writer)
        try:
            if whole:
                assert read_named(Path(f"/dev/fd/{reader}"), most) == b"slipway: 1"
            else:
                with pytest.raises(UnusableFileError, match="larger"):
                    read_named(Path(f"/dev/fd/{reader}"), most)
        finally:
            os.close(reader)
