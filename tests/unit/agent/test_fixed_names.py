"""Files of any format that are named as Lightning's callbacks name the last and the best."""

import os
import pickle
import time
import zipfile

import pytest

from launcher.agent.checkpoint import entries
from launcher.agent.checkpoint.entries import Layouts, names_in
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.watch import CheckpointWatch
from launcher.agent.checkpoint.write_back import write_back
from tests.unit.agent.folders import steps


@pytest.fixture
def messages():
    return []


@pytest.fixture
def epoch_stored(tmp_path, messages):
    """A watch of a run whose checkpoint of step 40, named as Lightning names it, was reported."""
    watch = CheckpointWatch(tmp_path, interval_s=30, on_problem=lambda *one: messages.append(one))
    (tmp_path / "epoch=3-step=40.ckpt").write_text("state of step 40")
    watch.poll(0)
    assert steps(watch.poll(10)) == [40]
    return watch


@pytest.mark.parametrize("readable", [True, False])
def test_last_name_after_restore_is_link_to_lightnings_file_and_copy_of_other_formats(tmp_path, readable):
    path = tmp_path / "epoch=3-step=40.ckpt"
    if readable:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps({"global_step": 40}, protocol=2))
    else:
        path.write_text("state of step 40")
    (row, *_) = Layouts().only("lightning/step").rows
    write_back(row, tmp_path, [path.name])
    assert (tmp_path / "last.ckpt").is_symlink() == readable
    assert (tmp_path / "last.ckpt").read_bytes() == path.read_bytes()
    assert [entry.names for entry in Layouts([row]).entries_in(tmp_path)] == [(path.name,)]


class TestFixedNamesWithoutReadableStep:
    def test_last_file_is_newest_checkpoint_after_ten_quiet_seconds(self, tmp_path, epoch_stored, messages):
        (tmp_path / "last.ckpt").write_text("state of step 45")
        assert epoch_stored.poll(20) + epoch_stored.poll(29.9) == []
        (last,) = epoch_stored.poll(30)
        assert (last.name, last.step, last.layout, last.guessed) == ("last.ckpt", 41, "lightning", True)
        assert epoch_stored.poll(60) + epoch_stored.poll(200) == []
        assert messages == []

    def test_every_version_is_the_next_checkpoint(self, tmp_path, epoch_stored):
        places = []
        for now, content in ((20, "state of step 45"), (60, "state of step 50"), (90, "state of step 55, longer")):
            (tmp_path / "last.ckpt").write_text(content)
            places += steps(epoch_stored.poll(now) + epoch_stored.poll(now + 10))
        assert places == [41, 42, 43]

    @pytest.mark.parametrize("last_written_second", [True, False])
    def test_command_that_ends_at_once_leaves_last_written_as_newest(self, tmp_path, last_written_second):
        watch = CheckpointWatch(tmp_path)
        for name in ("epoch=3-step=40.ckpt", "last.ckpt")[:: 1 if last_written_second else -1]:
            (tmp_path / name).write_text(f"state of {name}")
            time.sleep(0.02)
        finished = watch.settle(0.5, clean=True)
        expected = [("epoch=3-step=40.ckpt", 40), ("last.ckpt", 41)]
        assert [(folder.name, folder.step) for folder in finished] == expected[: 1 + last_written_second]

    def test_step_reached_by_versions_is_placed_after_them_and_restarts_no_count(self, tmp_path, epoch_stored):
        for number in range(3):
            time.sleep(0.02)
            (tmp_path / "last.ckpt").write_text(f"version {number}")
            epoch_stored.poll(20 + 20 * number)
            epoch_stored.poll(30 + 20 * number)
        time.sleep(0.02)
        (tmp_path / "epoch=4-step=42.ckpt").write_text("state of step 42")
        epoch_stored.poll(100)
        assert steps(epoch_stored.poll(110)) == [44]
        assert epoch_stored.restarts() == []
        time.sleep(0.02)
        (tmp_path / "epoch=5-step=43.ckpt").write_text("state of step 43")
        epoch_stored.poll(120)
        assert steps(epoch_stored.poll(130)) == [45]

    def test_other_fixed_names_are_one_set_with_last_written(self, tmp_path, epoch_stored):
        (tmp_path / "best-v1.ckpt").write_text("the best")
        epoch_stored.poll(20)
        assert [folder.names for folder in epoch_stored.poll(30)] == [("best-v1.ckpt", "epoch=3-step=40.ckpt")]
        time.sleep(0.02)
        (tmp_path / "last.ckpt").write_text("state of step 45")
        epoch_stored.poll(40)
        (last,) = epoch_stored.poll(50)
        assert (last.step, last.main, last.others) == (42, "last.ckpt", ("best-v1.ckpt", "epoch=3-step=40.ckpt"))
        assert epoch_stored.poll(51) == []

    def test_best_rewritten_after_restore_is_next_version(self, tmp_path):
        for name in ("last.ckpt", "best.ckpt"):
            (tmp_path / name).write_text(f"restored {name}")
        entries = ("last.ckpt", "best.ckpt")
        files = local_files(tmp_path, entries)
        restored = FinishedFolder(
            step=41, path=tmp_path, files=files, folder=".", entries=entries, mains=entries[:1], layout="lightning"
        )
        watch = CheckpointWatch(tmp_path, layouts=Layouts().only("lightning/step"), restored=restored)
        assert watch.poll(0) + watch.poll(20) == []
        time.sleep(0.02)
        (tmp_path / "best.ckpt").write_text("better than ever")
        watch.poll(30)
        (best,) = watch.poll(40)
        assert (best.step, best.main, best.others) == (42, "best.ckpt", ("last.ckpt",))

    def test_copy_of_checkpoint_with_step_is_no_version(self, tmp_path, epoch_stored, messages):
        (tmp_path / "last.ckpt").write_text("state of step 40")
        assert epoch_stored.poll(20) + epoch_stored.poll(100) + epoch_stored.settle(200, clean=True) == []
        assert messages == []

    def test_begun_archive_is_no_version_and_archive_without_step_is_one_at_once(self, tmp_path, epoch_stored):
        with zipfile.ZipFile(tmp_path / "last.ckpt", "w") as archive:
            archive.writestr("archive/data/0", "weights")
        whole = (tmp_path / "last.ckpt").read_bytes()
        (tmp_path / "last.ckpt").write_bytes(whole[:60])
        assert epoch_stored.poll(20) + epoch_stored.poll(40) == []
        (tmp_path / "last.ckpt").write_bytes(whole)
        epoch_stored.poll(41)
        assert steps(epoch_stored.poll(41.5)) == [41]

    def test_version_in_run_with_renames_waits_until_its_writer_has_closed_it(self, tmp_path, messages):
        watch = CheckpointWatch(tmp_path, interval_s=30, on_problem=lambda *one: messages.append(one))
        (tmp_path / "part").write_text("state of step 40")
        (tmp_path / "part").rename(tmp_path / "epoch=3-step=40.ckpt")
        assert steps(watch.poll(0)) == [40]
        with (tmp_path / "last.ckpt").open("w") as file:
            file.write("half of step 45")
            file.flush()
            assert watch.poll(10) + watch.poll(30) == []
        assert steps(watch.poll(31)) == [41]

    def test_version_that_keeps_changing_is_reported_with_a_fix(self, tmp_path, epoch_stored, messages):
        for now in range(20, 120, 5):
            (tmp_path / "last.ckpt").write_text(f"state at {now}")
            assert epoch_stored.poll(now) == []
        ((event, reason),) = messages
        assert event == "checkpoints-not-recognised"
        assert reason == (
            "these files are newer than epoch=3-step=40.ckpt, and are not stored: last.ckpt; a fixed name counts after "
            "10 s without a change: write another name, then rename it to this one"
        )

    def test_last_file_alone_is_checkpoint_and_model_alone_is_reported(self, tmp_path, messages):
        for name, expected in (("last.ckpt", [1]), ("epoch=0.ckpt", [1]), ("model.ckpt", [])):
            folder = tmp_path / name.partition(".")[0]
            folder.mkdir()
            watch = CheckpointWatch(folder, interval_s=30, on_problem=lambda *one: messages.append(one))
            (folder / name).write_text("weights")
            watch.poll(0)
            assert steps(watch.poll(10)) == expected
            watch.settle(100, clean=False)
        ((_, reason),) = messages
        assert reason.startswith("no file is recognised as a checkpoint, so none is stored: model.ckpt; ")

    @pytest.mark.parametrize(
        "names", [("model.ckpt", "model.ckpt", "model.ckpt"), ("model_100.ckpt", "model_200.ckpt", "model_300.ckpt")]
    )
    def test_model_that_is_saved_again_is_a_checkpoint_from_then_on(self, tmp_path, names):
        watch = CheckpointWatch(tmp_path)
        stored = []
        for number, name in enumerate(names):
            (tmp_path / name).write_text("weights" + "!" * number)
            stored += watch.poll(20 * number) + watch.poll(20 * number + 10)
        assert [(folder.name, folder.step) for folder in stored] == [(names[1], 1), (names[2], 2)]

    def test_model_that_the_trainer_only_reads_hides_no_other_layout(self, tmp_path):
        watch = CheckpointWatch(tmp_path)
        (tmp_path / "model.ckpt").write_text("pretrained weights")
        assert watch.poll(0) + watch.poll(30) == []
        (tmp_path / "step-5").mkdir()
        (tmp_path / "step-5" / "weights").write_text("state of step 5")
        watch.poll(40)
        assert [(folder.name, folder.layout) for folder in watch.poll(50)] == [("step-5", "slipway")]


def write_in(folder, name, content):
    time.sleep(0.02)
    (folder / name).write_text(content)


class TestNumberedNamesWithoutReadableStep:
    def stored(self, watch, now):
        return watch.poll(now) + watch.poll(now + 10)

    def test_each_file_is_the_next_checkpoint_in_order_of_saving(self, tmp_path, epoch_stored, messages):
        found = []
        for now, name in ((20, "epoch=5.ckpt"), (40, "epoch=4-val=0.2.ckpt"), (60, "epoch=6.ckpt")):
            write_in(tmp_path, name, f"state of {name}")
            found += self.stored(epoch_stored, now)
        assert [(folder.main or folder.name, folder.step) for folder in found] == [
            ("epoch=5.ckpt", 41),
            ("epoch=4-val=0.2.ckpt", 42),
            ("epoch=6.ckpt", 43),
        ]
        assert epoch_stored.poll(200) + epoch_stored.settle(300, clean=True) == []
        assert messages == []

    def test_older_file_is_not_newest_again_when_the_newest_is_removed(self, tmp_path, epoch_stored):
        for now, name in ((20, "epoch=4.ckpt"), (40, "epoch=5.ckpt")):
            write_in(tmp_path, name, f"state of {name}")
            self.stored(epoch_stored, now)
        (tmp_path / "epoch=5.ckpt").unlink()
        assert self.stored(epoch_stored, 60) + epoch_stored.settle(80, clean=True) == []

    def test_two_files_at_once_are_one_checkpoint_the_later_one(self, tmp_path, epoch_stored):
        for name in ("epoch=5.ckpt", "epoch=4.ckpt"):
            write_in(tmp_path, name, f"state of {name}")
        assert [folder.name for folder in self.stored(epoch_stored, 20)] == ["epoch=4.ckpt"]
        assert epoch_stored.poll(100) == []

    def test_finished_file_is_stored_while_the_next_is_written(self, tmp_path, epoch_stored):
        write_in(tmp_path, "epoch=4.ckpt", "state")
        epoch_stored.poll(20)
        write_in(tmp_path, "epoch=5.ckpt", "half")
        assert [folder.name for folder in epoch_stored.poll(30)] == ["epoch=4.ckpt"]
        write_in(tmp_path, "epoch=5.ckpt", "whole state")
        epoch_stored.poll(31)
        assert [folder.name for folder in epoch_stored.poll(41)] == ["epoch=5.ckpt"]

    def test_version_after_a_restored_file_is_next(self, tmp_path):
        write_in(tmp_path, "epoch=4.ckpt", "restored")
        files = local_files(tmp_path, ("epoch=4.ckpt",))
        restored = FinishedFolder(
            step=7, path=tmp_path, files=files, folder=".", entries=("epoch=4.ckpt",), layout="lightning"
        )
        watch = CheckpointWatch(tmp_path, layouts=Layouts().only("lightning/step"), restored=restored)
        write_in(tmp_path, "epoch=5.ckpt", "state")
        (folder,) = self.stored(watch, 0)
        assert (folder.main, folder.others, folder.step) == ("epoch=5.ckpt", ("epoch=4.ckpt",), 8)

    def test_rewrite_with_same_size_and_times_is_next_version(self, tmp_path, epoch_stored):
        path = tmp_path / "epoch=4.ckpt"
        write_in(tmp_path, path.name, "state 1")
        (first,) = self.stored(epoch_stored, 20)
        status = path.stat()
        path.write_text("state 2")
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        (second,) = self.stored(epoch_stored, 40)
        assert (first.step, second.step) == (41, 42)

    def test_trainer_that_removes_keeps_its_best_in_the_set_and_one_that_keeps_all_does_not(self, tmp_path):
        sets = {}
        for keeps in (2, 100):
            folder = tmp_path / str(keeps)
            folder.mkdir()
            watch = CheckpointWatch(folder)
            for number in range(5):
                write_in(folder, f"epoch={number}-step={number}0.ckpt", f"of no known format, {number}")
                if number > keeps:
                    (folder / f"epoch={number - keeps}-step={number - keeps}0.ckpt").unlink()
                (stored,) = self.stored(watch, 20 * number)
            sets[keeps] = stored.others
        assert sets == {2: ("epoch=0-step=00.ckpt", "epoch=3-step=30.ckpt"), 100: ()}


def deepspeed_checkpoint(path, step, best):
    """A checkpoint as Lightning's DeepSpeedStrategy has DeepSpeed write it, without weights."""
    (path / "checkpoint").mkdir(parents=True)
    state = {"module": {}, "global_step": step, "callbacks": {"ModelCheckpoint": {"best_model_path": str(best)}}}
    with zipfile.ZipFile(path / "checkpoint" / "mp_rank_00_model_states.pt", "w") as archive:
        archive.writestr("mp_rank_00_model_states/data.pkl", pickle.dumps(state, protocol=2))
    (path / "checkpoint" / "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt").write_text("shard")


def test_step_and_best_of_lightnings_deepspeed_folder_are_read_once_it_has_latest(tmp_path):
    watch = CheckpointWatch(tmp_path)
    for step, name in ((40, "epoch=0.ckpt"), (80, "last.ckpt")):
        deepspeed_checkpoint(tmp_path / name, step, tmp_path / "epoch=0.ckpt")
        assert watch.poll(step) + watch.poll(step + 3) == []
        (tmp_path / name / "latest").write_text("checkpoint")
        watch.poll(step + 4)
        (stored,) = watch.poll(step + 7)
        assert (stored.step, stored.main or stored.name) == (step, name)
    assert stored.others == ("epoch=0.ckpt",)


@pytest.mark.parametrize("saves", [2, 3])
def test_last_file_saved_while_the_folder_is_read_is_no_version_of_its_own(tmp_path, epoch_stored, monkeypatch, saves):
    """Lightning renames a checkpoint and then its copy: a listing from before lacks what the copy is of."""

    def save(step):
        for name in (f"epoch=3-step={step}.ckpt", "last.ckpt"):
            (tmp_path / "partial").write_text(f"state of step {step}")
            (tmp_path / "partial").rename(tmp_path / name)

    save(41)
    steps_to_save = list(range(42, 42 + saves))

    def list_and_save(folder, below):
        listed = names_in(folder, below)
        if steps_to_save:
            save(steps_to_save.pop(0))
        return listed

    monkeypatch.setattr(entries, "names_in", list_and_save)
    found = [*epoch_stored.poll(20), *epoch_stored.poll(21)]
    assert not steps_to_save
    assert [one.name for one in found] == [f"epoch=3-step={step}.ckpt" for step in range(41, 42 + saves)]
