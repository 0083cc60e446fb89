import gc
import os
import shutil
from pathlib import Path

import pytest

from launcher.agent.checkpoint import held
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.held import hold_copy, hold_open, left_of
from launcher.agent.checkpoint.packs import read_pack


@pytest.fixture
def checkpoint(tmp_path):
    folder = tmp_path / "step-1"
    folder.mkdir()
    for name in ("a", "b"):
        (folder / name).write_text(f"first {name}")
    return folder


def contents(files, holder):
    return [holder.path_of(file).read_text() for file in files]


def descriptors():
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


class TestOpenFiles:
    @pytest.mark.parametrize("change", ["removed", "replaced", "moved"])
    def test_held_content_survives_a_removed_replaced_or_moved_name(self, tmp_path, checkpoint, change):
        files = local_files(checkpoint)
        holder = hold_open(checkpoint, files)
        if change == "replaced":
            for name in ("a", "b"):
                (tmp_path / "part").write_text("second")
                (tmp_path / "part").replace(checkpoint / name)
        elif change == "moved":
            checkpoint.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(checkpoint)
        assert contents(files, holder) == ["first a", "first b"]

    def test_changed_file_is_not_held(self, checkpoint):
        files = local_files(checkpoint)
        (checkpoint / "b").write_text("other")
        before = descriptors()
        assert hold_open(checkpoint, files) is None
        assert descriptors() == before

    def test_missing_file_is_not_held(self, checkpoint):
        files = local_files(checkpoint)
        (checkpoint / "b").unlink()
        assert hold_open(checkpoint, files) is None

    def test_release_closes_every_file(self, checkpoint):
        before = descriptors()
        holder = hold_open(checkpoint, local_files(checkpoint))
        assert descriptors() == before + 2
        del holder
        assert descriptors() == before

    @pytest.mark.parametrize("limit, value", [("_SPARE", 10**18), ("_MOST_FILES", 1)])
    def test_small_disk_or_too_many_files_are_not_held(self, checkpoint, monkeypatch, limit, value):
        monkeypatch.setattr(held, limit, value)
        assert hold_open(checkpoint, local_files(checkpoint)) is None


class TestCopies:
    def test_pack_contains_the_copies_without_later_writes(self, tmp_path, checkpoint):
        files = local_files(checkpoint)
        holder = hold_copy(checkpoint, files, tmp_path / "copies" / "1")
        (checkpoint / "a").write_text("other a")
        assert read_pack(checkpoint, files, holder.path_of).content == b"first afirst b"

    def test_content_stays_when_the_file_is_written_in_place(self, tmp_path, checkpoint):
        files = local_files(checkpoint)
        holder = hold_copy(checkpoint, files, tmp_path / "copies" / "1")
        (checkpoint / "a").write_text("second")
        assert contents(files, holder) == ["first a", "first b"]
        del holder
        gc.collect()
        assert list((tmp_path / "copies").iterdir()) == []

    def test_changed_file_leaves_no_copy(self, tmp_path, checkpoint):
        files = local_files(checkpoint)
        (checkpoint / "b").write_text("other")
        assert hold_copy(checkpoint, files, tmp_path / "copies" / "1") is None
        assert list((tmp_path / "copies").iterdir()) == []

    def test_file_written_during_the_copy_leaves_no_copy(self, tmp_path, checkpoint, monkeypatch):
        copy = os.copy_file_range

        def copy_and_write(source, target, count):
            copied = copy(source, target, count)
            with (checkpoint / "a").open("r+") as file:
                file.write("F")
            return copied

        monkeypatch.setattr(os, "copy_file_range", copy_and_write)
        assert hold_copy(checkpoint, local_files(checkpoint), tmp_path / "copies" / "1") is None

    def test_file_system_without_shared_copies_is_read_and_written(self, tmp_path, checkpoint, monkeypatch):
        def refuse(*_):
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(os, "copy_file_range", refuse)
        files = local_files(checkpoint)
        assert contents(files, hold_copy(checkpoint, files, tmp_path / "copies")) == ["first a", "first b"]


class TestRemainingFiles:
    def test_replaced_file_is_the_next_versions(self, tmp_path, checkpoint):
        files = local_files(checkpoint)
        (tmp_path / "part").write_text("second")
        (tmp_path / "part").replace(checkpoint / "a")
        assert [file.path for file in left_of(files, local_files(checkpoint))] == ["b"]

    def test_file_added_to_the_version_counts_as_left(self, checkpoint):
        files = local_files(checkpoint)
        (checkpoint / "c").write_text("late")
        assert [file.path for file in left_of(files, local_files(checkpoint))] == ["a", "b", "c"]

    def test_replaced_folder_has_no_files_left(self, tmp_path, checkpoint):
        files = local_files(checkpoint)
        checkpoint.rename(tmp_path / "old")
        checkpoint.mkdir()
        for name in ("a", "c"):
            (checkpoint / name).write_text("second")
        assert left_of(files, local_files(checkpoint)) == ()
