import gc
import os
import time
import zipfile
from pathlib import Path

import pytest

from launcher.agent.checkpoint.entries import Layouts
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import parse_layout
from launcher.agent.checkpoint.watch import CheckpointWatch
from launcher.agent.node.inotify import RenameWatch
from tests.unit.agent.folders import fill, overflow, steps


@pytest.fixture
def checkpoint_watch(tmp_path):
    return CheckpointWatch(tmp_path)


@pytest.fixture
def messages():
    return []


class TestRenamed:
    def test_renamed_checkpoint_is_finished_at_once(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "tmp-1").rename(tmp_path / "step-1")
        assert steps(checkpoint_watch.poll(0)) == [1]

    def test_folder_renamed_from_another_parent_is_finished(self, tmp_path, checkpoint_watch):
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        fill(elsewhere / "x").rename(tmp_path / "checkpoint-20")
        assert steps(checkpoint_watch.poll(0)) == [20]

    def test_renamed_checkpoint_is_reported_once(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "tmp-1").rename(tmp_path / "step-1")
        assert steps(checkpoint_watch.poll(0) + checkpoint_watch.poll(1) + checkpoint_watch.poll(20)) == [1]

    def test_several_come_in_order(self, tmp_path, checkpoint_watch):
        for step in (10, 9, 100):
            fill(tmp_path / f"tmp-{step}").rename(tmp_path / f"step-{step}")
        assert steps(checkpoint_watch.poll(0)) == [9, 10, 100]

    def test_name_removed_and_created_again_is_not_finished(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "tmp").rename(tmp_path / "step-1")
        (tmp_path / "step-1").rename(tmp_path / "gone")
        fill(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) == []

    def test_an_empty_folder_is_no_checkpoint(self, tmp_path, checkpoint_watch):
        (tmp_path / "tmp").mkdir()
        (tmp_path / "tmp").rename(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) + checkpoint_watch.poll(60) == []

    def test_the_first_one_is_reported_for_later_attempts(self, tmp_path):
        messages = []
        watch = CheckpointWatch(tmp_path, on_mark=lambda: messages.append(1))
        for step in (1, 2):
            fill(tmp_path / "tmp").rename(tmp_path / f"step-{step}")
            watch.poll(step)
        assert messages == [1]
        again = CheckpointWatch(tmp_path, marked=True, on_mark=lambda: messages.append(2))
        fill(tmp_path / "step-3")
        assert again.poll(10) + again.poll(30) == []
        assert messages == [1]


class TestWrittenInPlace:
    def test_new_checkpoint_in_place_is_not_finished_for_ten_seconds(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) + checkpoint_watch.poll(9.9) == []
        assert steps(checkpoint_watch.poll(10)) == [1]

    def test_every_change_starts_the_ten_seconds_again(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) == []
        (folder / "weights").write_text("longer")
        assert checkpoint_watch.poll(9) == []
        (folder / "more").write_text("")
        assert checkpoint_watch.poll(18) + checkpoint_watch.poll(27) == []
        assert steps(checkpoint_watch.poll(28)) == [1]

    def test_change_of_equal_size_counts_as_a_change(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) == []
        os.utime(folder / "weights", ns=(1, 1))
        assert checkpoint_watch.poll(10) == []

    def test_done_file_finishes_the_checkpoint(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) == []
        (folder / "_DONE").write_text("")
        assert steps(checkpoint_watch.poll(0.1)) == [1]

    def test_done_file_in_a_subfolder_does_not_finish_the_checkpoint(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        (folder / "sub").mkdir()
        (folder / "sub" / "_DONE").write_text("")
        assert checkpoint_watch.poll(0) == []


class TestEndOfTheCommand:
    def test_clean_end_finishes_every_checkpoint(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "step-1")
        assert steps(checkpoint_watch.settle(0, clean=True)) == [1]

    def test_a_torn_folder_stays_out(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "step-1")
        checkpoint_watch.poll(0)
        assert checkpoint_watch.settle(9, clean=False) == []
        assert list(checkpoint_watch.unfinished_reasons()) == ["step-1"]

    def test_ten_quiet_seconds_before_the_end_count(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "step-1")
        checkpoint_watch.poll(0)
        assert steps(checkpoint_watch.settle(10, clean=False)) == [1]

    def test_a_rename_just_before_the_end_counts(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "tmp").rename(tmp_path / "step-5")
        assert steps(checkpoint_watch.settle(0, clean=False)) == [5]


class TestWriteTime:
    """From the first look at a folder, or the one before it, to the one that finds it finished."""

    def test_write_time_of_renamed_checkpoint(self, tmp_path, checkpoint_watch):
        checkpoint_watch.poll(0)
        fill(tmp_path / "tmp-1")
        checkpoint_watch.poll(5)
        checkpoint_watch.poll(9)
        (tmp_path / "tmp-1").rename(tmp_path / "step-1")
        (finished,) = checkpoint_watch.poll(12)
        assert finished.write_s == 12  # it was not there at 0

    def test_write_time_of_checkpoint_in_place_ends_with_the_last_change(self, tmp_path, checkpoint_watch):
        checkpoint_watch.poll(0)
        folder = fill(tmp_path / "step-1")
        checkpoint_watch.poll(1)
        (folder / "weights").write_text("longer")
        checkpoint_watch.poll(4)
        (finished,) = checkpoint_watch.poll(14)
        assert finished.write_s == 4

    def test_reused_inode_starts_the_write_time_again(self, tmp_path, checkpoint_watch):
        checkpoint_watch.poll(0)
        folder = fill(tmp_path / "tmp-1")
        checkpoint_watch.poll(1)
        (folder / "weights").unlink()
        folder.rmdir()
        checkpoint_watch.poll(50)
        fill(tmp_path / "tmp-2").rename(tmp_path / "step-2")
        (finished,) = checkpoint_watch.poll(51)
        assert finished.write_s == 1


class TestIgnoredFolders:
    def test_other_folder_names_are_ignored(self, tmp_path, checkpoint_watch):
        for name in ("step-1.tmp", "step-", "step-x", "model-1", ".step-1"):
            fill(tmp_path / "tmp").rename(tmp_path / name)
        assert checkpoint_watch.poll(0) + checkpoint_watch.poll(60) + checkpoint_watch.settle(61, clean=True) == []

    def test_restored_checkpoint_is_not_reported_again(self, tmp_path):
        restored = FinishedFolder(step=4, path=fill(tmp_path / "step-4"), files=(), folder="step-4")
        watch = CheckpointWatch(tmp_path, restored=restored)
        fill(tmp_path / "tmp").rename(tmp_path / "step-5")
        assert steps(watch.settle(0, clean=True)) == [5]

    def test_removed_checkpoint_folder_is_no_error(self, tmp_path):
        folder = tmp_path / "checkpoints"
        folder.mkdir()
        watch = CheckpointWatch(folder)
        folder.rmdir()
        assert watch.poll(0) + watch.settle(1, clean=True) == []


class TestUnstorableCheckpoints:
    """It is reported as finished, so that who is to store it says why it does not."""

    def test_unstorable_checkpoint_is_reported_once_finished(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "tmp")
        os.mkfifo(folder / "pipe")
        assert checkpoint_watch.poll(0) == []
        folder.rename(tmp_path / "step-1")
        assert steps(checkpoint_watch.poll(1)) == [1]

    def test_unstorable_content_during_the_write_is_ignored(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        (folder / "latest").symlink_to("not-yet")
        assert checkpoint_watch.poll(0) + checkpoint_watch.poll(9) == []
        (folder / "not-yet").write_text("x")
        assert checkpoint_watch.poll(10) == []
        assert steps(checkpoint_watch.poll(20)) == [1]

    def test_a_file_or_a_link_by_the_name_of_a_checkpoint_is_reported(self, tmp_path, checkpoint_watch):
        (tmp_path / "step-2").write_text("a file")
        (tmp_path / "step-3").symlink_to(fill(tmp_path / "model-1"))
        assert steps(checkpoint_watch.settle(0, clean=True)) == [2, 3]

    def test_an_empty_folder_is_named_at_the_end(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "step-1")
        (tmp_path / "step-2").mkdir()
        assert steps(checkpoint_watch.settle(0, clean=True)) == [1]
        assert checkpoint_watch.unfinished_reasons() == {"step-2": "it holds no file"}

    def test_node_with_only_empty_folders_has_not_written(self, tmp_path, checkpoint_watch):
        (tmp_path / "step-1" / "deep").mkdir(parents=True)
        checkpoint_watch.settle(0, clean=True)
        assert (checkpoint_watch.wrote, checkpoint_watch.unfinished_reasons()) == (False, {})


class TestUnmarkedCheckpoints:
    """Ten quiet seconds are no proof."""

    def test_checkpoint_changed_after_the_guess_is_reported_and_stored_again(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        checkpoint_watch.poll(0)
        (first,) = checkpoint_watch.poll(10)
        assert (first.guessed, checkpoint_watch.changes()) == (True, [])
        (folder / "more").write_text("y")
        assert checkpoint_watch.poll(13) == []
        assert checkpoint_watch.changes() == [
            (1, "more was added after 10 s without changes: the agent stores it again")
        ]
        assert checkpoint_watch.changes() == []
        (second,) = checkpoint_watch.poll(23)
        assert [file.path for file in second.files] == ["more", "weights"]

    @pytest.mark.parametrize("mark", ["rename", "_DONE"])
    def test_unmarked_checkpoint_is_not_finished_once_the_trainer_marks_others(self, tmp_path, checkpoint_watch, mark):
        if mark == "rename":
            fill(tmp_path / "tmp").rename(tmp_path / "step-1")
        else:
            (fill(tmp_path / "step-1") / "_DONE").touch()
        assert steps(checkpoint_watch.poll(0)) == [1]
        fill(tmp_path / "step-2")
        assert checkpoint_watch.poll(1) + checkpoint_watch.poll(100) + checkpoint_watch.settle(101, clean=False) == []
        assert checkpoint_watch.unfinished_reasons() == {
            "step-2": "it was unfinished when the command ended: checkpoints of this run are renamed into place or "
            "get a _DONE, and it was seen to do neither"
        }

    def test_unmarked_checkpoint_is_finished_only_at_the_end_after_an_earlier_attempt_with_marks(self, tmp_path):
        watch = CheckpointWatch(tmp_path, marked=True)
        fill(tmp_path / "step-1")
        assert watch.poll(0) + watch.poll(100) == []
        assert steps(watch.settle(101, clean=True)) == [1]

    def test_checkpoint_grown_after_the_mark_is_finished_again_at_the_end(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "tmp").rename(tmp_path / "step-1")
        checkpoint_watch.poll(0)
        (tmp_path / "step-1" / "weights").write_text("longer")
        (again,) = checkpoint_watch.settle(1, clean=True)
        assert [file.bytes for file in again.files] == [6]
        message = "weights had 1 bytes and has 6 after it was finished: the agent stores it again"
        assert checkpoint_watch.changes() == [(1, message)]

    def test_checkpoint_changed_after_the_mark_needs_quiet_to_finish_again(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "tmp").rename(tmp_path / "step-1")
        assert steps(checkpoint_watch.poll(0)) == [1]
        (folder / "weights").write_text("longer")
        assert checkpoint_watch.poll(1) == []
        (folder / "weights").write_text("longer still")
        assert checkpoint_watch.poll(2) + checkpoint_watch.poll(3) == []
        (again,) = checkpoint_watch.poll(5)
        assert [file.bytes for file in again.files] == [12]

    def test_same_size_and_time_with_other_content_is_a_change(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "tmp").rename(tmp_path / "step-1")
        checkpoint_watch.poll(0)
        before = (folder / "weights").stat()
        (folder / "weights").write_text("W")
        os.utime(folder / "weights", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert len(checkpoint_watch.settle(1, clean=True)) == 1

    def test_name_renamed_into_place_again_needs_no_quiet(self, tmp_path):
        watch = CheckpointWatch(tmp_path, layouts=Layouts([parse_layout(r"ckpt\.pt", None)]))
        found = []
        for at in range(4):
            (tmp_path / "part").write_text(str(at))
            (tmp_path / "part").replace(tmp_path / "ckpt.pt")
            found += steps(watch.poll(at / 4))
        assert found == [1, 2, 3, 4]

    def test_several_names_replaced_one_by_one_need_quiet(self, tmp_path):
        watch = CheckpointWatch(tmp_path, layouts=Layouts([parse_layout(r"a\.pt|b\.pt", None)]))
        for content in ("old", "new"):
            for name in ("a.pt", "b.pt"):
                (tmp_path / "part").write_text(content)
                (tmp_path / "part").replace(tmp_path / name)
                if content == "new":
                    assert watch.poll(20) == []
            assert len(watch.poll(10) + watch.poll(23)) == 1

    def test_archive_written_in_place_is_finished_by_the_central_directory(self, tmp_path):
        watch = CheckpointWatch(tmp_path, layouts=Layouts([parse_layout(r"ckpt\.pt", None)]))
        found = []
        for at in (0, 2, 4):
            with zipfile.ZipFile(tmp_path / "ckpt.pt", "w") as archive:
                archive.writestr("data", str(at))
                archive.fp.flush()
                assert watch.poll(at) == []
            found += watch.poll(at + 0.25) + watch.poll(at + 0.75)
        assert [(folder.step, folder.in_place, folder.guessed) for folder in found] == [
            (1, False, False),
            (2, True, False),
            (3, True, False),
        ]

    def test_restarted_step_counter_continues_after_the_earlier_steps(self, tmp_path, checkpoint_watch):
        for step in (2, 8):
            fill(tmp_path / "tmp").rename(tmp_path / f"step-{step}")
            assert steps(checkpoint_watch.poll(step)) == [step]
        for step, place in ((3, 11), (6, 14)):  # the second stage
            time.sleep(0.02)
            fill(tmp_path / "tmp").rename(tmp_path / f"step-{step}")
            assert steps(checkpoint_watch.poll(20 + step)) == [place]
        assert checkpoint_watch.restarts() == [(3, 8, 11)]

    def test_lower_step_written_earlier_keeps_the_number(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "early")
        time.sleep(0.02)
        fill(tmp_path / "tmp").rename(tmp_path / "step-8")
        assert steps(checkpoint_watch.poll(0)) == [8]
        (tmp_path / "early").rename(tmp_path / "step-7")
        assert steps(checkpoint_watch.poll(1)) == [7]
        assert checkpoint_watch.restarts() == []

    def test_file_added_to_an_old_checkpoint_keeps_the_step_order(self, tmp_path, checkpoint_watch):
        for step in (7, 8):
            fill(tmp_path / "tmp").rename(tmp_path / f"step-{step}")
            checkpoint_watch.poll(step)
        time.sleep(0.02)
        (tmp_path / "step-7" / "consolidated").write_text("x")
        assert steps(checkpoint_watch.settle(9, clean=True)) == [7]
        assert checkpoint_watch.restarts() == []

    def test_rewritten_restored_checkpoint_is_found(self, tmp_path):
        restored = FinishedFolder(step=18, path=fill(tmp_path / "step-8"), files=local_files(tmp_path / "step-8"))
        watch = CheckpointWatch(tmp_path, restored=restored)
        assert watch.poll(0) + watch.poll(100) == []
        time.sleep(0.02)
        (tmp_path / "step-8" / "weights").write_text("again")
        assert steps(watch.settle(101, clean=True)) == [18]

    def test_lost_events_of_renames_are_noticed(self, tmp_path, checkpoint_watch):
        overflow(tmp_path)
        fill(tmp_path / "tmp").rename(tmp_path / "step-1")
        assert checkpoint_watch.poll(0) == []
        assert steps(checkpoint_watch.poll(10)) == [1]

    def test_rename_after_lost_events_counts_at_once(self, tmp_path, checkpoint_watch):
        fill(tmp_path / "step-1")
        overflow(tmp_path)
        assert checkpoint_watch.poll(0) == []
        fill(tmp_path / "tmp").rename(tmp_path / "step-2")
        assert steps(checkpoint_watch.poll(1)) == [2]
        assert steps(checkpoint_watch.poll(11)) == [1]

    @pytest.mark.parametrize("ends", [True, False], ids=["at its end", "while it runs"])
    @pytest.mark.parametrize("name, marker", [("checkpoint-1", "trainer_state.json"), ("step-1", "weights")])
    def test_lost_events_do_not_mark_a_trainer_without_renames_as_renaming(self, tmp_path, name, marker, ends):
        """Of one that renames, a folder written in place is never finished: nothing more of the run would be stored."""
        marks = []
        watch = CheckpointWatch(tmp_path, on_mark=lambda: marks.append(1))
        (fill(tmp_path / name) / marker).write_text("{}")
        overflow(tmp_path)
        found = watch.poll(0) + watch.poll(10) + (watch.settle(11, clean=True) if ends else watch.poll(11))
        assert (steps(found), marks) == ([1], [])

    def test_constantly_renamed_fixed_name_is_found_after_lost_events(self, tmp_path):
        watch = CheckpointWatch(tmp_path, layouts=Layouts([parse_layout(r"ckpt\.pt", None)]))
        overflow(tmp_path)
        found = []
        for at in range(4):
            (tmp_path / "part").write_text(str(at))
            (tmp_path / "part").replace(tmp_path / "ckpt.pt")
            found += steps(watch.poll(at))
        assert found[-1] >= 3

    def test_checkpoint_removed_by_the_trainer_is_not_a_change(self, tmp_path, checkpoint_watch):
        folder = fill(tmp_path / "step-1")
        checkpoint_watch.poll(0)
        checkpoint_watch.poll(10)
        (folder / "weights").unlink()
        checkpoint_watch.poll(11)
        folder.rmdir()
        assert checkpoint_watch.settle(12, clean=True) + checkpoint_watch.changes() == []


def test_watch_without_inotify_keeps_two_rules(tmp_path):
    folder = tmp_path / "checkpoints"
    watch = CheckpointWatch(folder)  # it does not exist yet, so there is nothing to watch
    folder.mkdir()
    fill(folder / "tmp").rename(folder / "step-1")
    assert watch.poll(0) == []
    assert steps(watch.poll(10)) == [1]


def test_every_rename_of_a_burst_is_reported(tmp_path):
    watch = RenameWatch(tmp_path)
    assert watch.problem == ""
    for number in range(2000):
        (tmp_path / f"a{number}").mkdir()
        (tmp_path / f"a{number}").rename(tmp_path / f"step-{number}")
    assert len(watch.names()) == 2000
    watch.close()


def test_unclosed_watch_leaves_no_descriptor_open(tmp_path):
    def watches():
        links = [path for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
        return [path for path in links if "inotify" in path.readlink().name]

    gc.collect()
    before = len(watches())
    watch = RenameWatch(tmp_path)
    assert len(watches()) == before + 1
    del watch
    assert len(watches()) == before


def test_unavailable_rename_events_are_reported(tmp_path):
    messages = []
    CheckpointWatch(tmp_path / "not there", on_problem=lambda event, reason: messages.append((event, reason)))
    reason = (
        "renames are not detected as the end of a checkpoint: [Errno 2] inotify_add_watch: No such file or directory"
    )
    assert messages == [("renames-not-reported", reason)]


class TestUnrecognisedFileReports:
    @pytest.fixture
    def checkpoint_watch(self, tmp_path, messages):
        (tmp_path / "left-by-an-earlier-attempt").write_text("x")
        return CheckpointWatch(
            tmp_path, interval_s=30, on_problem=lambda event, reason: messages.append((event, reason))
        )

    def test_unrecognised_files_are_reported_after_two_intervals(self, tmp_path, checkpoint_watch, messages):
        checkpoint_watch.poll(0)
        fill(tmp_path / "weights-of-step-50")
        assert checkpoint_watch.poll(30) + checkpoint_watch.poll(89) == []
        assert messages == []
        checkpoint_watch.poll(90)
        checkpoint_watch.poll(200)
        assert messages == [
            (
                "checkpoints-not-recognised",
                (
                    "no file is recognised as a checkpoint, so none is stored: weights-of-step-50;"
                    r" if they are, write checkpoint: {pattern: 'weights\-of\-step\-(\d+)'}"
                ),
            )
        ]

    @pytest.mark.parametrize("ended", [False, True])
    def test_file_newer_than_newest_checkpoint_without_readable_step_is_reported(self, tmp_path, messages, ended):
        watch = CheckpointWatch(tmp_path, interval_s=30, on_problem=lambda *one: messages.append(one))
        (tmp_path / "epoch=0-step=10.ckpt").write_text("the best")
        watch.poll(0)
        assert [folder.step for folder in watch.poll(20)] == [10]
        (tmp_path / "epoch=2.ckpt").write_bytes(b"PK\3\4 an archive of step 20 whose writer has not come to its end")
        watch.poll(30)
        watch.poll(80)
        assert messages == []
        watch.settle(81, clean=False) if ended else watch.poll(91)
        begin = (
            "these files are newer than epoch=0-step=10.ckpt, but have no step that can be read, so they are not stored"
        )
        ((event, reason),) = messages
        assert (event, reason.partition(";")[0]) == ("checkpoints-not-recognised", f"{begin}: epoch=2.ckpt")
        assert r"write checkpoint: {pattern: 'epoch=(\d+)\.ckpt'}" in reason

    def test_older_file_without_readable_step_is_not_reported(self, tmp_path, messages):
        watch = CheckpointWatch(tmp_path, interval_s=30, on_problem=lambda *one: messages.append(one))
        (tmp_path / "last.ckpt").write_text("older")
        (tmp_path / "epoch=0-step=10.ckpt").write_text("newer")
        watch.poll(0)
        assert [folder.step for folder in watch.poll(20)] == [10]
        watch.poll(200)
        watch.settle(300, clean=True)
        assert messages == []

    @pytest.mark.parametrize("renamed", [True, False])
    def test_fixed_name_never_quiet_is_reported_unless_renamed(self, tmp_path, messages, renamed):
        layouts = Layouts([parse_layout(r"ckpt\.pkl", None)])
        watch = CheckpointWatch(tmp_path, layouts=layouts, interval_s=5, on_problem=lambda *one: messages.append(one))
        for at in range(0, 32, 2):
            assert messages == []
            path = tmp_path / ("part" if renamed else "ckpt.pkl")
            path.write_text(str(at))
            path.replace(tmp_path / "ckpt.pkl")
            watch.poll(at)
        named = [reason for event, reason in messages if event == "checkpoints-not-recognised"]
        assert bool(named) is not renamed
        assert all("write another name, then rename it" in reason for reason in named)

    def test_ten_minutes_are_the_longest(self, tmp_path, messages):
        watch = CheckpointWatch(tmp_path, interval_s=3600, on_problem=lambda event, _: messages.append(event))
        fill(tmp_path / "weights")
        watch.poll(0)
        watch.poll(599)
        assert messages == []
        watch.poll(600)
        assert messages == ["checkpoints-not-recognised"]

    def test_short_job_with_unrecognised_files_is_reported_at_the_end(self, tmp_path, checkpoint_watch, messages):
        for number in range(7):
            (tmp_path / f"w{number}").write_text("x")
        checkpoint_watch.settle(1, clean=True)
        reason = "no file is recognised as a checkpoint, so none is stored: w0, w1, w2, w3, w4, ..."
        reason += r"; if they are, write checkpoint: {pattern: 'w(\d+)'}"
        assert messages == [("checkpoints-not-recognised", reason)]

    def test_empty_folder_is_reported_after_two_intervals(self, tmp_path, checkpoint_watch, messages):
        checkpoint_watch.poll(0)
        checkpoint_watch.poll(59)
        assert (messages, checkpoint_watch.wrote) == ([], False)
        checkpoint_watch.poll(60)
        checkpoint_watch.settle(61, clean=True)
        assert messages == [("no-checkpoint-yet", f"nothing was written to {tmp_path} for 60 s")]

    def test_file_of_an_earlier_attempt_counts_once_changed(self, tmp_path, checkpoint_watch, messages):
        (tmp_path / "left-by-an-earlier-attempt").write_text("longer")
        checkpoint_watch.settle(1, clean=True)
        assert ([event for event, _ in messages], checkpoint_watch.wrote) == (["checkpoints-not-recognised"], True)

    def test_unfinished_checkpoint_counts_as_recognised(self, tmp_path, checkpoint_watch, messages):
        fill(tmp_path / "step-1")
        (tmp_path / "log.txt").write_text("x")
        checkpoint_watch.poll(0)
        checkpoint_watch.poll(100)
        checkpoint_watch.settle(101, clean=False)
        assert messages == []
