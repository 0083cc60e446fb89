"""The user's recent runs: found by name from another folder, newest first, and never a folder that is gone."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.model.errors import UnreadableInputError
from launcher.records import recent_runs, run_folder

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def launch(root: Path, name: str = "job", *, dry_run: bool = False) -> run_folder.RunFolder:
    """A run folder of a plan below a folder."""
    root.mkdir(exist_ok=True)
    return run_folder.create(name, NOW, root, dry_run=dry_run)


def test_latest_run_is_found_from_another_folder(tmp_path):
    run = launch(tmp_path / "a")
    assert run_folder.latest("job", tmp_path / "b").path == run.path


def test_newest_run_of_a_name_is_found_across_folders(tmp_path):
    launch(tmp_path / "a")
    newest = launch(tmp_path / "b")
    assert run_folder.latest("job", tmp_path / "c").path == newest.path


def test_run_of_the_current_folder_is_preferred(tmp_path):
    here = launch(tmp_path / "a")
    launch(tmp_path / "b")
    assert run_folder.latest("job", tmp_path / "a").path == here.path


def test_run_of_a_removed_folder_is_skipped(tmp_path):
    first = launch(tmp_path / "a")
    launch(tmp_path / "b")
    shutil.rmtree(tmp_path / "b")
    assert run_folder.latest("job", tmp_path / "c").path == first.path


def test_dry_run_is_not_in_the_recent_runs(tmp_path):
    launch(tmp_path / "a", dry_run=True)
    with pytest.raises(UnreadableInputError, match="none of your recent runs"):
        run_folder.latest("job", tmp_path / "b")


def test_torn_line_of_recent_runs_hides_no_other_run(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    run = launch(tmp_path / "a")
    with (tmp_path / "state/slipway" / recent_runs.FILE).open("a", encoding="utf-8") as stream:
        stream.write('{"name": "job", "fol')
    assert run_folder.latest("job", tmp_path / "b").path == run.path


def test_recent_runs_file_is_private_and_bounded(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(recent_runs, "MAX_LINES", 4)
    for number in range(12):
        launch(tmp_path / f"f{number}", f"job-{number}")
    path = tmp_path / "state/slipway" / recent_runs.FILE
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 6
    assert path.stat().st_mode & 0o077 == 0
    assert run_folder.home_of("job-11", tmp_path / "x") == tmp_path / "f11"


def test_unwritable_state_folder_does_not_stop_a_launch(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    assert launch(tmp_path / "a").path.is_dir()


def test_report_from_another_folder_names_the_launch_folder(tmp_path, monkeypatch, slipway):
    launch(tmp_path / "a")
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    result = slipway("report", "job")
    assert f"job was launched in {tmp_path / 'a'}" in result.err
    assert "no run of job" not in result.err
