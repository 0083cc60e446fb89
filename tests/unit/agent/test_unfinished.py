import io
import zipfile

import pytest

from launcher.agent.checkpoint.entries import layouts_of
from launcher.agent.checkpoint.watch import CheckpointWatch
from launcher.agent.job import CheckpointSpec
from tests.unit.agent.folders import fill, overflow

ENDED = "it was unfinished when the command ended"
MAYBE = "it may have been unfinished when the command ended"
RECENT = "it was new or changed in the last 10 s"
LOST = f"reports of renames were lost, so that it may have been renamed into place or not, and {RECENT}"
UNMARKED = "checkpoints of this run are renamed into place or get a _DONE, and it was seen to do neither"


class TestReasonOfAnUnfinishedCheckpoint:
    """Several layouts may match a name: what one of them misses is no reason if the checkpoint is of another."""

    @pytest.mark.parametrize(
        "name, file, reason",
        [
            ("step-4", "weights", f"{MAYBE}: {LOST}"),
            ("checkpoint-4", "model.safetensors", f"{MAYBE}: {LOST}"),
            (
                "epoch_4",
                "model.safetensors",
                f"{MAYBE}: as accelerate: {LOST}; as torchtune: it has no recipe_state.pt",
            ),
            (
                "40",
                "state",
                f"{MAYBE}: as orbax: {LOST}; as nanotron: latest.txt does not name it",
            ),
        ],
    )
    def test_renamed_checkpoint_after_lost_reports_is_named_with_the_loss(self, tmp_path, name, file, reason):
        watch = CheckpointWatch(tmp_path, marked=True)
        watch.poll(0)
        (tmp_path / "tmp").mkdir()
        (tmp_path / "tmp" / file).write_text("x")
        overflow(tmp_path)
        (tmp_path / "tmp").rename(tmp_path / name)
        assert watch.poll(1) + watch.settle(2, clean=False) == []
        assert watch.unfinished_reasons() == {name: reason}

    @pytest.mark.parametrize(
        "name, file, reason",
        [
            ("step-4", "weights", f"{MAYBE}: {RECENT}"),
            ("step-4", "__0_0.distcp", f"{ENDED}: it has no .metadata"),
            ("checkpoint-4", "weights", f"{MAYBE}: {RECENT}"),
            (
                "checkpoint-4",
                "training_args.bin",
                f"{ENDED}: it has no trainer_state.json",
            ),
            (
                "step_4",
                "weights",
                f"{MAYBE}: as accelerate: {RECENT}; as nxd: it has no done; as torchtune: it has no recipe_state.pt",
            ),
            (
                "4",
                "weights",
                f"{ENDED}: as nanotron: latest.txt does not name it; as orbax: it was not renamed into place",
            ),
        ],
    )
    def test_checkpoint_written_in_place_is_named_with_what_its_own_layout_misses(self, tmp_path, name, file, reason):
        watch = CheckpointWatch(tmp_path)
        (tmp_path / name).mkdir()
        (tmp_path / name / file).write_text("x")
        assert watch.poll(0) + watch.settle(1, clean=False) == []
        assert watch.unfinished_reasons() == {name: reason}

    @pytest.mark.parametrize("name", ["step-5", "checkpoint-5", "step_5"])
    def test_folder_not_renamed_in_a_run_that_renames_is_named_so(self, tmp_path, name):
        problems = []
        watch = CheckpointWatch(
            tmp_path, marked=True, interval_s=10, on_problem=lambda *trouble: problems.append(trouble)
        )
        fill(tmp_path / name)
        assert watch.poll(0) + watch.poll(40) + watch.settle(41, clean=False) == []
        assert UNMARKED in watch.unfinished_reasons()[name]
        assert [UNMARKED in reason for _, reason in problems] == [True]

    def test_folder_that_may_be_finished_by_quiet_is_not_reported_as_unrecognised(self, tmp_path):
        problems = []
        watch = CheckpointWatch(tmp_path, interval_s=1, on_problem=lambda *trouble: problems.append(trouble))
        folder = fill(tmp_path / "step-5")
        for at in range(8):
            (folder / f"shard-{at}").write_text("x")
            assert watch.poll(at) == []
        assert problems == []


class TestArchivesAtTheEndOfAFailedCommand:
    """torch.save writes a zip archive, whose directory comes last: a whole one counts also after exit 1."""

    def settled(self, folder, **more):
        watch = CheckpointWatch(folder, layouts=layouts_of(CheckpointSpec(pattern=r"model_(\d+)\.pt")), **more)
        watch.poll(0)
        for step, cut in ((1, None), (2, None), (3, -5)):
            held = io.BytesIO()
            with zipfile.ZipFile(held, "w") as archive:
                archive.writestr("data", "x" * 100)
            (folder / f"model_{step}.pt").write_bytes(held.getvalue()[:cut])
        (folder / "model_4.pt").write_bytes(b"no archive")
        steps = [checkpoint.step for checkpoint in watch.poll(0.2) + watch.settle(0.4, clean=False)]
        return steps, sorted(watch.unfinished_reasons())

    def test_whole_archives_are_finished_and_a_torn_one_is_named(self, tmp_path):
        assert self.settled(tmp_path) == ([1, 2], ["model_3.pt", "model_4.pt"])

    @pytest.mark.parametrize("more", [{"marked": True}, {"alone": False}])
    def test_archives_of_marked_runs_and_of_several_nodes_need_more(self, tmp_path, more):
        assert self.settled(tmp_path, **more)[0] == []
