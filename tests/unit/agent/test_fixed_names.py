"""Files of any format that are named as Lightning's callbacks name the last and the best."""

import pickle
import time
import zipfile

import pytest

from launcher.agent.checkpoint import layouts
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import Layouts, names_in, write_back
from launcher.agent.checkpoint.watch import CheckpointWatch
from tests.unit.agent.folders import steps


@pytest.fixture
def messages():
    return []


@pytest.fixture
def epoch_stored(tmp_path, messages):
    """A watch of a run whose checkpoint of step 40, named as Lightning names it, was reported."""
    watch = CheckpointWatch(tmp_path, interval_s=30, on_trouble=lambda *one: messages.append(one))
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
        assert [folder.names for folder in epoch_stored.poll(30)] == [("best-v1.ckpt",)]
        time.sleep(0.02)
        (tmp_path / "last.ckpt").write_text("state of step 45")
        epoch_stored.poll(40)
        (last,) = epoch_stored.poll(50)
        assert (last.step, last.main, last.others) == (42, "last.ckpt", ("best-v1.ckpt",))
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
        watch = CheckpointWatch(tmp_path, interval_s=30, on_trouble=lambda *one: messages.append(one))
        (tmp_path / "part").write_text("state of step 40")
        (tmp_path / "part").rename(tmp_path / "epoch=3-step=40.ckpt")
        assert steps(watch.poll(0)) == [40]
        with (tmp_path / "last.ckpt").open("w") as file:
            file.write("half of step 45")
            file.flush()
            assert watch.poll(10) + watch.poll(30) == []
        assert steps(watch.poll(31)) == [41]

    def test_version_never_quiet_is_reported_with_way_out(self, tmp_path, epoch_stored, messages):
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
        for name, expected in (("last.ckpt", [1]), ("model.ckpt", [])):
            folder = tmp_path / name.partition(".")[0]
            folder.mkdir()
            watch = CheckpointWatch(folder, interval_s=30, on_trouble=lambda *one: messages.append(one))
            (folder / name).write_text("weights")
            watch.poll(0)
            assert steps(watch.poll(10)) == expected
            watch.settle(100, clean=False)
        ((_, reason),) = messages
        assert reason.startswith("no file is recognised as a checkpoint, so none is stored: model.ckpt; ")


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

    monkeypatch.setattr(layouts, "names_in", list_and_save)
    found = [*epoch_stored.poll(20), *epoch_stored.poll(21)]
    assert not steps_to_save
    assert [one.name for one in found] == [f"epoch=3-step={step}.ckpt" for step in range(41, 42 + saves)]
