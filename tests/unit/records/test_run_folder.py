"""Run folders: files are written completely, one folder per run, and `latest` is always valid."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.model.bundle import Bundle, RenderedFile
from launcher.model.errors import DeclinedError, ImpossibleError, UnreadableInputError
from launcher.records import run_folder

NOW = datetime(2026, 11, 20, 13, 0, 5, tzinfo=UTC)


def test_two_runs_in_one_second_have_two_folders_and_latest_is_the_second(tmp_path: Path) -> None:
    first = run_folder.create("demo", NOW, tmp_path)
    second = run_folder.create("demo", NOW, tmp_path)
    assert first.path.name == "20261120T130005Z"
    assert second.path.name == "20261120T130006Z"
    link = tmp_path / ".slipway" / "runs" / "demo" / "latest"
    assert link.is_symlink()
    assert not link.readlink().is_absolute()
    assert run_folder.latest("demo", tmp_path).path == second.path


def test_latest_run_is_not_replaced_by_a_dry_run(tmp_path: Path) -> None:
    only = run_folder.create("demo", NOW, tmp_path, dry_run=True)
    assert run_folder.latest("demo", tmp_path).path == only.path
    run = run_folder.create("demo", NOW, tmp_path)
    run_folder.create("demo", NOW, tmp_path, dry_run=True)
    assert run_folder.latest("demo", tmp_path).path == run.path


def test_dry_run_replaces_an_earlier_dry_run_as_latest(tmp_path: Path) -> None:
    for _ in range(2):
        newest = run_folder.create("demo", NOW, tmp_path, dry_run=True)
        newest.write_json(run_folder.COMMAND, {"command": "deploy", "ended": run_folder.DRY_RUN})
    assert run_folder.latest("demo", tmp_path).path == newest.path


def test_declined_run_leaves_the_previous_latest(tmp_path: Path) -> None:
    run = run_folder.create("demo", NOW, tmp_path)
    run_folder.create("demo", NOW, tmp_path, dry_run=True)
    declined = run_folder.create("demo", NOW, tmp_path)
    with pytest.raises(DeclinedError), run_folder.undone_if_declined(declined):
        raise DeclinedError("no")
    assert run_folder.latest("demo", tmp_path).path == run.path


def test_report_is_found_before_a_later_deployment(tmp_path: Path) -> None:
    job = run_folder.create("demo", NOW, tmp_path)
    job.write_json("report.json", {"status": "succeeded"})
    deployment = run_folder.create("demo", NOW, tmp_path)
    assert run_folder.latest("demo", tmp_path).path == deployment.path
    assert run_folder.with_report("demo", tmp_path).path == job.path


def test_unknown_run_is_refused_with_the_known_names(tmp_path: Path) -> None:
    run_folder.create("demo", NOW, tmp_path)
    with pytest.raises(UnreadableInputError) as caught:
        run_folder.latest("other", tmp_path)
    assert "demo" in caught.value.hint


def test_run_folder_blocked_by_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".slipway").write_text("in the way")
    with pytest.raises(ImpossibleError):
        run_folder.create("demo", NOW, tmp_path)


def test_rewritten_json_file_is_replaced_without_temporary_files(tmp_path: Path) -> None:
    folder = run_folder.create("demo", NOW, tmp_path)
    folder.write_json("quote.json", {"a": 1})
    folder.write_json("quote.json", {"a": 2})
    assert folder.read_json("quote.json") == {"a": 2}
    assert sorted(path.name for path in folder.path.iterdir()) == ["logs", "quote.json"]


def test_damaged_json_file_of_a_run_is_refused(tmp_path: Path) -> None:
    folder = run_folder.create("demo", NOW, tmp_path)
    (folder.path / "report.json").write_text('{"half')
    with pytest.raises(UnreadableInputError):
        folder.read_json("report.json")


def test_run_folder_is_readable_by_the_owner_only(tmp_path: Path) -> None:
    folder = run_folder.create("demo", NOW, tmp_path)
    folder.write_json("quote.json", {"a": 1})
    folder.append_event("begun")
    files = (RenderedFile(path="a/job.sbatch", text="#!/bin/bash\n", executable=True), RenderedFile(path="b", text="x"))
    folder.write_bundle(Bundle(digest="d", files=files))
    modes = {path.relative_to(folder.path).as_posix(): path.stat().st_mode & 0o777 for path in folder.path.rglob("*")}
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert modes == {
        "quote.json": 0o600,
        "events.jsonl": 0o600,
        "logs": 0o700,
        "rendered": 0o700,
        "rendered/a": 0o700,
        "rendered/a/job.sbatch": 0o700,
        "rendered/b": 0o600,
    }


def test_exported_files_have_the_permissions_of_the_umask(tmp_path: Path) -> None:
    files = (RenderedFile(path="a/job.sbatch", text="#!/bin/bash\n", executable=True), RenderedFile(path="b", text="x"))
    before = os.umask(0o022)
    try:
        run_folder.write_bundle(Bundle(digest="d", files=files), tmp_path / "out", shared=True)
    finally:
        os.umask(before)
    assert (tmp_path / "out" / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out" / "a" / "job.sbatch").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "out" / "b").stat().st_mode & 0o777 == 0o644


def test_bundle_is_written_with_executable_programs(tmp_path: Path) -> None:
    files = (
        RenderedFile(path="a/job.sbatch", text="#!/bin/bash\n", executable=True),
        RenderedFile(path="b.yaml", text="x: 1\n"),
    )
    run_folder.write_bundle(Bundle(digest="d", files=files), tmp_path)
    assert (tmp_path / "a" / "job.sbatch").stat().st_mode & 0o111
    assert not (tmp_path / "b.yaml").stat().st_mode & 0o111
    assert (tmp_path / "b.yaml").read_text() == "x: 1\n"
