import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.agent.checkpoint import scratch as scratch_module
from launcher.agent.checkpoint.entries import Layouts
from launcher.agent.checkpoint.files import local_files, sha256_of
from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.layouts import SLIPWAY, parse_layout, table
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.errors import AgentError
from launcher.agent.node.private_folder import make_private
from launcher.agent.node.process import Command, group_lives, start_failure_code, start_ticks

(SLIPWAY_ALONE,) = (row for row in table() if row.layout == SLIPWAY)


def claim(tmp_path, job="tiny", run="r1", **options):
    return Scratch(tmp_path, job=job, run=run, **{"layouts": Layouts([SLIPWAY_ALONE]), **options})


@pytest.fixture(autouse=True)
def roomy(monkeypatch):
    """The disk of this machine says nothing."""
    monkeypatch.setattr(Scratch, "_free_bytes", lambda _: 2**60)


def wait_until(condition):
    patience = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < patience, "it did not happen within 10 s"
        time.sleep(0.01)


class TestFolder:
    def test_folder_is_private_and_has_an_empty_checkpoint_folder(self, tmp_path):
        with claim(tmp_path) as scratch:
            assert scratch.root == tmp_path / f"slipway-{os.getuid()}" / "tiny"
            assert scratch.root.stat().st_mode & 0o077 == 0
            assert list(scratch.checkpoints.iterdir()) == []

    def test_folder_with_other_files_is_refused_and_unchanged(self, tmp_path):
        root = claim(tmp_path).root
        make_private(tmp_path, *root.relative_to(tmp_path).parts)
        (root / "thesis.tex").write_text("x")
        with (
            pytest.raises(AgentError, match=r"contains files that the agent did not create \(thesis.tex\)"),
            claim(tmp_path),
        ):
            pass
        assert (root / "thesis.tex").exists()

    @pytest.mark.parametrize("left", ["lock", "owner.json.tmp"])
    def test_early_killed_start_does_not_block_the_next(self, tmp_path, left):
        root = claim(tmp_path).root
        make_private(tmp_path, *root.relative_to(tmp_path).parts)
        (root / left).write_text("")
        with claim(tmp_path) as scratch:
            assert scratch.checkpoints.is_dir()

    def test_stored_checkpoints_of_an_ended_job_are_removed_for_space(self, tmp_path):
        with claim(tmp_path, job="other") as other:
            keep(other)
            other.release(1)
        with claim(tmp_path) as scratch:
            assert (other.checkpoints.exists(), scratch.leftovers()) == (False, [])

    def test_checkpoints_of_a_running_job_stay(self, tmp_path):
        with claim(tmp_path, job="other") as other, claim(tmp_path):
            assert other.checkpoints.is_dir()

    def test_second_agent_on_the_folder_is_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr(scratch_module, "_WAIT_S", 0.1)
        with claim(tmp_path), pytest.raises(AgentError, match="another agent uses"), claim(tmp_path):
            pass

    def test_unwritable_folder_is_refused(self):
        with pytest.raises(AgentError, match="cannot be used"), Scratch(Path("/proc/none"), job="a", run="r"):
            pass

    def test_interval_file_is_replaced_atomically(self, tmp_path):
        with claim(tmp_path) as scratch:
            scratch.write_interval(600)
            scratch.write_interval(12.5)
            assert scratch.interval_file.read_text() == "12.5\n"


def keep(scratch, name="step-1", content="x"):
    folder = scratch.checkpoints / name
    folder.mkdir()
    (folder / "weights").write_text(content)
    return folder


def record(scratch, folder):
    files = local_files(folder)
    step = int(folder.name.partition("-")[2])
    scratch.record_finished(FinishedFolder(step=step, path=folder, files=files, folder=folder.name))
    scratch.record_hashes(folder.name, {file.path: sha256_of(folder / file.path) for file in files})


class TestPrevious:
    def test_checkpoints_of_an_earlier_attempt_are_set_aside_until_released(self, tmp_path):
        with claim(tmp_path) as scratch:
            keep(scratch)
            keep(scratch, "tmp-2")
        with claim(tmp_path) as scratch:
            assert [path.name for path in scratch.previous.iterdir()] == ["step-1"]
            scratch.release(1)
            scratch.forget_previous()
            assert not scratch.previous.exists()

    def test_checkpoints_newer_than_the_store_stay_until_the_store_has_a_newer_one(self, tmp_path):
        with claim(tmp_path) as scratch:
            keep(scratch, "step-2")
        with claim(tmp_path) as scratch:
            scratch.release(1)
            scratch.forget_previous()
            assert [path.name for path in scratch.previous.iterdir()] == ["step-2"]
            scratch.release(3)
            assert not scratch.previous.exists()

    def test_checkpoint_rewritten_by_a_later_attempt_is_reported_as_removed(self, tmp_path):
        removed = []
        for _ in range(2):
            with claim(tmp_path, on_removed=lambda leftover, why: removed.append((leftover.path.name, why))) as scratch:
                keep(scratch)
        with claim(tmp_path, on_removed=lambda leftover, why: removed.append((leftover.path.name, why))):
            assert removed == [("step-1", "another attempt wrote the same step")]

    def test_only_the_finished_unsent_checkpoint_of_another_run_is_set_aside(self, tmp_path):
        with claim(tmp_path) as scratch:
            record(scratch, keep(scratch))
            keep(scratch, "step-2")
        with claim(tmp_path, run="r2") as scratch:
            assert [path.name for path in scratch.previous.iterdir()] == ["step-1"]
            assert scratch.newest_finished().path == scratch.previous / "step-1"

    def test_previous_checkpoint_outlives_an_early_killed_start(self, tmp_path):
        with claim(tmp_path) as scratch:
            keep(scratch, content="old")
        with claim(tmp_path) as scratch:
            keep(scratch, "step-2")
        with claim(tmp_path) as scratch:
            assert sorted(path.name for path in scratch.previous.iterdir()) == ["step-1", "step-2"]

    def test_newest_checkpoint_recorded_as_finished_is_found(self, tmp_path):
        with claim(tmp_path) as scratch:
            for name in ("step-9", "step-10"):
                record(scratch, keep(scratch, name))
            keep(scratch, "step-11")  # nobody saw it finished
        with claim(tmp_path) as scratch:
            assert scratch.newest_finished().path == scratch.previous / "step-10"

    def test_changed_previous_checkpoint_is_not_trusted(self, tmp_path):
        with claim(tmp_path) as scratch:
            record(scratch, keep(scratch, "step-1"))
            folder = keep(scratch, "step-2")
            record(scratch, folder)
            os.utime(folder / "weights", ns=(1, 1))
        with claim(tmp_path) as scratch:
            assert scratch.newest_finished().path == scratch.previous / "step-1"

    @pytest.mark.parametrize("boot", ["another", ""])
    def test_record_of_another_boot_is_not_trusted_and_the_checkpoint_stays(self, tmp_path, boot):
        with claim(tmp_path) as scratch:
            record(scratch, keep(scratch))
            finished = scratch.root / "finished.json"
            entry = json.loads(finished.read_text())["step-1"]
            finished.write_text(json.dumps({"step-1": entry | {"boot": boot}}))
        with claim(tmp_path) as scratch:
            assert scratch.newest_finished() is None
            scratch.forget_previous()
            assert [str(checkpoint) for checkpoint in scratch.unsent_checkpoints()] == [
                f"step 1 of run r1 in {scratch.previous}/step-1 (1 bytes)"
            ]

    @pytest.mark.parametrize("text", ["", "{", "[]", "[" * 9999, '{"step-1": 3}', '{"step-x": []}', '{"../x": {}}'])
    def test_unreadable_record_is_ignored(self, tmp_path, text):
        with claim(tmp_path) as scratch:
            record(scratch, keep(scratch))
            (scratch.root / "finished.json").write_text(text)
        with claim(tmp_path) as scratch:
            assert scratch.newest_finished() is None


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


class TestUnrecognisedCheckpoints:
    """It stays in place for its run, is moved by any other, and goes only for room."""

    @pytest.fixture
    def left(self, tmp_path):
        """What Lightning wrote before a crash."""
        with claim(tmp_path) as scratch:
            (scratch.checkpoints / "epoch=0-step=50.ckpt").write_text("weights")
            keep(scratch, "global_step25")
            keep(scratch, "step-9")
        return scratch

    def test_a_later_attempt_finds_unrecognised_checkpoint_in_place(self, tmp_path, left):
        for _ in range(2):
            with claim(tmp_path) as scratch:
                assert names(scratch.checkpoints) == ["epoch=0-step=50.ckpt", "global_step25"]
                assert (scratch.checkpoints / "epoch=0-step=50.ckpt").read_text() == "weights"

    @pytest.mark.parametrize("name", ["tmp-3", ".tmp", "step-5.tmp", "300.orbax-checkpoint-tmp-0", "x-unfinished"])
    def test_unfinished_checkpoint_is_moved_aside_for_a_later_attempt(self, tmp_path, left, name):
        keep(left, name, "torn")
        for _ in range(2):
            with claim(tmp_path) as scratch:
                assert names(scratch.checkpoints) == ["epoch=0-step=50.ckpt", "global_step25"]
                assert (scratch.root / "aside" / "r1.unfinished" / name / "weights").read_text() == "torn"

    def test_checkpoints_stay_in_place_if_the_agent_restores_none(self, tmp_path, left):
        with claim(tmp_path, layouts=None) as scratch:
            assert names(scratch.checkpoints) == ["epoch=0-step=50.ckpt", "global_step25", "step-9"]

    @pytest.mark.parametrize("other", [{"run": "r2"}, {"job": "other", "run": "r9"}], ids=["its job", "another job"])
    def test_another_run_moves_unrecognised_checkpoints_and_the_first_run_gets_the_files_back(
        self, tmp_path, left, other
    ):
        with claim(tmp_path, **other) as scratch:
            aside = left.root / "aside" / "r1"
            assert names(aside) == ["epoch=0-step=50.ckpt", "global_step25", "step-9"]
            assert names(scratch.checkpoints) == []
            assert [(leftover.path.name, leftover.bytes, leftover.run) for leftover in scratch.leftovers()] == [
                ("epoch=0-step=50.ckpt", 7, "r1"),
                ("global_step25", 1, "r1"),
                ("step-9", 1, "r1"),
            ]
        with claim(tmp_path) as scratch:
            assert names(scratch.checkpoints) == ["epoch=0-step=50.ckpt", "global_step25"]
            assert names(scratch.previous) == ["step-9"]

    @pytest.mark.parametrize("other", [{"run": "r2"}, {"job": "other", "run": "r9"}], ids=["its job", "another job"])
    def test_checkpoints_of_the_plans_pattern_that_the_store_has_are_removed_by_another_run(self, tmp_path, other):
        layouts = Layouts([parse_layout(r"model_(\d+)\.pt", None)])
        with claim(tmp_path, layouts=layouts) as scratch:
            for step in (1, 2, 3):
                (scratch.checkpoints / f"model_{step}.pt").write_text("x")
            scratch.release(2, layout=layouts.key)
        with claim(tmp_path, **other) as now:
            assert [leftover.path.name for leftover in now.leftovers()] == ["model_3.pt"]

    def test_unrecognised_checkpoints_of_two_runs_with_one_name_both_stay(self, tmp_path, left):
        for run in ("r2", "r3"):
            with claim(tmp_path, run=run) as scratch:
                keep(scratch, "global_step25", run)
        with claim(tmp_path, run="r4"):
            contents = {
                run: (left.root / "aside" / run / "global_step25" / "weights").read_text() for run in ("r1", "r2")
            }
        assert contents == {"r1": "x", "r2": "r2"}

    def test_unrecognised_checkpoint_goes_for_room_alone_the_oldest_first_and_is_named(
        self, tmp_path, left, monkeypatch
    ):
        for at, name in enumerate(("step-9", "global_step25", "epoch=0-step=50.ckpt")):
            os.utime(left.checkpoints / name, (at, at))
        removed = []
        with claim(tmp_path, run="r2", on_removed=lambda leftover, _: removed.append(leftover.path.name)) as scratch:
            monkeypatch.setattr(Scratch, "_free_bytes", lambda _: 100 + 10 * len(removed))
            scratch.make_room(100)
            assert removed == []
            scratch.make_room(120)
            assert removed == ["step-9", "global_step25"]
            assert names(left.root / "aside" / "r1") == ["epoch=0-step=50.ckpt"]

    def test_unrecognised_checkpoints_in_place_are_removed_only_before_the_command_starts(
        self, tmp_path, left, monkeypatch
    ):
        removed = []
        with claim(tmp_path, on_removed=lambda leftover, _: removed.append(leftover.path.name)) as scratch:
            monkeypatch.setattr(Scratch, "_free_bytes", lambda _: 0)
            scratch.make_room(1)
            assert removed == ["step-9"]
            scratch.make_room(1, starting=True)
            assert sorted(removed) == ["epoch=0-step=50.ckpt", "global_step25", "step-9"]

    def test_only_copy_is_not_removed_for_space(self, tmp_path, monkeypatch):
        with claim(tmp_path) as scratch:
            record(scratch, keep(scratch))
        with claim(tmp_path) as scratch:
            monkeypatch.setattr(Scratch, "_free_bytes", lambda _: 0)
            scratch.make_room(1, starting=True)
            assert names(scratch.previous) == ["step-1"]


class TestOnlyCopyRetention:
    """What is finished and not in the store is removed by nobody."""

    @pytest.fixture
    def left(self, tmp_path):
        """A job's scratch with an unsent checkpoint, step 5, and one that was never finished."""
        with claim(tmp_path) as scratch:
            record(scratch, keep(scratch, "step-5"))
            keep(scratch, "step-6")
        return scratch.previous / "step-5"

    def test_only_copy_outlives_one_start_after_the_other(self, tmp_path, left):
        for _ in range(3):
            with claim(tmp_path) as scratch:
                assert scratch.newest_finished().path == left
        assert (left / "weights").read_text() == "x"

    def test_start_of_another_job_keeps_the_unsent_checkpoint(self, tmp_path, left):
        with claim(tmp_path, job="other") as other:
            there = left.parents[1] / "checkpoints"
            assert [path.name for path in there.iterdir()] == ["step-5"]
            assert names(left.parents[1] / "aside" / "r1") == ["step-6"]
            unsent = other.unsent_checkpoints()
            assert [(checkpoint.path, checkpoint.step, checkpoint.run) for checkpoint in unsent] == [
                (there / "step-5", 5, "r1")
            ]

    def test_same_job_with_another_uri_keeps_the_unsent_checkpoint(self, tmp_path, left):
        with Scratch(tmp_path, job="tiny", run="r2", uri="s3://elsewhere", layouts=Layouts()) as scratch:
            assert scratch.newest_finished() is None
            record(scratch, keep(scratch, "step-5", "other"))
            scratch.release(5)
            scratch.forget_previous()
            assert [(checkpoint.path.name, checkpoint.run) for checkpoint in scratch.unsent_checkpoints()] == [
                ("step-5.of-r1", "r1")
            ]
        with Scratch(tmp_path, job="tiny", run="r2", uri="s3://elsewhere", layouts=Layouts()) as scratch:
            assert [checkpoint.path.name for checkpoint in scratch.unsent_checkpoints()] == ["step-5.of-r1"]

    def test_torn_checkpoint_of_the_same_step_does_not_replace_the_only_copy(self, tmp_path, left):
        with claim(tmp_path) as scratch:
            keep(scratch, "step-5", "torn")
        with claim(tmp_path) as scratch:
            assert scratch.newest_finished().path == left
            assert (left / "weights").read_text() == "x"

    @pytest.mark.parametrize("content", [None, "partly removed", "written again"])
    def test_only_copy_of_a_set_stays_whatever_became_of_the_best(self, tmp_path, content):
        """The trainer of a killed agent goes on for a while, and removes or writes the best model."""
        with claim(tmp_path) as scratch:
            for name in ("step-5", "step-3"):
                keep(scratch, name)
            files = local_files(scratch.checkpoints)
            entries = ("step-5", "step-3")
            newest = FinishedFolder(
                step=5, path=scratch.checkpoints, files=files, entries=entries, mains=("step-5",), folder="."
            )
            scratch.record_finished(newest)
            scratch.record_hashes("step-5", {file.path: sha256_of(scratch.checkpoints / file.path) for file in files})
            (scratch.checkpoints / "step-3" / "weights").unlink()
            if content is not None:
                (scratch.checkpoints / "step-3" / "other").write_text(content)
        for _ in range(2):
            with claim(tmp_path) as scratch:
                assert (scratch.newest_finished().entries, scratch.newest_finished().step) == (("step-5",), 5)

    @pytest.mark.parametrize("step,stays", [(4, True), (5, False), (6, False)])
    def test_only_copy_stays_until_the_same_or_a_newer_step_is_stored(self, tmp_path, left, step, stays):
        with claim(tmp_path) as scratch:
            scratch.release(step)
            scratch.forget_previous()
            assert left.exists() == stays
            assert scratch.owes() == stays


class TestLeftoverCommand:
    def test_leftover_command_is_killed_with_all_children(self, tmp_path):
        script = "sleep 60 & echo $! > child; wait"
        command = Command(["sh", "-c", script], workdir=tmp_path, environment=os.environ)
        wait_until(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text().strip())
        with claim(tmp_path) as scratch:
            scratch.record_command(command.pid)
        with claim(tmp_path):
            assert not group_lives(command.pid)
        assert command.returncode == -signal.SIGKILL

    @pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot": "another"}, {"start_ticks": None}], ids=str)
    def test_process_with_a_reused_number_is_not_killed(self, tmp_path, change):
        command = Command(["sleep", "60"], workdir=tmp_path, environment=os.environ)
        try:
            with claim(tmp_path) as scratch:
                scratch.record_command(command.pid)
                owner = scratch.root / "owner.json"
                owner.write_text(json.dumps(json.loads(owner.read_text()) | change))
            with claim(tmp_path):
                assert command.returncode is None
        finally:
            command.signal(signal.SIGKILL)
            wait_until(lambda: command.returncode is not None)


class TestCommand:
    def test_group_lives_as_long_as_any_process(self, tmp_path):
        command = Command(["sh", "-c", "sleep 60 & exit 3"], workdir=tmp_path, environment=os.environ)
        wait_until(lambda: command.returncode is not None)
        assert (command.returncode, command.group_lives()) == (3, True)
        command.signal(signal.SIGKILL)
        wait_until(lambda: not command.group_lives())
        command.signal(signal.SIGKILL)  # to nobody: no error

    def test_command_has_the_given_arguments_environment_and_group(self, tmp_path):
        expression = "(sys.argv[1:], os.environ['A'], os.getpgid(0) == os.getpid())"
        program = f"import os, sys; open('out', 'w').write(repr({expression}))"
        arguments = ["$HOME", 'a "b"', "; touch x", ""]
        command = Command([sys.executable, "-c", program, *arguments], workdir=tmp_path, environment={"A": "b c"})
        wait_until(lambda: not command.group_lives())
        assert (tmp_path / "out").read_text() == repr((arguments, "b c", True))

    @pytest.mark.parametrize("name,code", [("missing", 127), ("plain", 126)])
    def test_failed_command_start_has_the_exit_code_of_the_shell(self, tmp_path, name, code):
        (tmp_path / "plain").write_text("x")
        with pytest.raises(OSError) as caught:  # noqa: PT011  the kind is what is asked about
            Command([str(tmp_path / name)], workdir=tmp_path, environment={})
        assert start_failure_code(caught.value) == code

    def test_zombie_process_does_not_live(self):
        with subprocess.Popen(["true"], start_new_session=True) as process:
            wait_until(lambda: not group_lives(process.pid))
            assert start_ticks(process.pid) is not None  # it is still there, unreaped
