"""Checkpoints of the real agent, listed, verified, pruned and restored by command."""

import hashlib
import json
import os
import sys
import time

import pytest

from launcher.agent.job import CheckpointSpec, JobSpec
from launcher.agent.manifest import HERE, Manifest, StoredFile
from tests.sandbox.submit.conftest import BUCKET

URI = f"s3://{BUCKET}/jobs/a"
TRAINER = """import hashlib, os, sys, time
from pathlib import Path
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
first = int(resume.rpartition("-")[2]) if resume else 0
for step in range(first + 1, int(sys.argv[1]) + 1):
    made = folder / f"tmp-{step}"
    (made / "deep").mkdir(parents=True)
    (made / "data").write_bytes(hashlib.shake_256(str(step).encode()).digest(300_000))
    (made / "deep" / "base").write_bytes(b"never changes" * 1000)
    made.rename(folder / f"step-{step}")
    while not Path(os.environ["SEEN"]).exists() or f'"step": {step}' not in Path(os.environ["SEEN"]).read_text():
        time.sleep(0.02)
"""


@pytest.fixture
def run_agent(tmp_path, keys, s3, nursery):
    """Runs the agent, one attempt a call, until a step."""

    def run(steps, attempt=1, keep=10):
        folder = tmp_path / "node"
        folder.mkdir(exist_ok=True)
        (folder / "train.py").write_text(TRAINER)
        spec = JobSpec(
            run="r1",
            name="tiny",
            command=(sys.executable, str(folder / "train.py"), str(steps)),
            workdir=str(folder),
            checkpoint=CheckpointSpec(uri=URI, interval_s=1.0, keep=keep),
            scratch=str(folder / "scratch"),
            events=str(folder / "events.jsonl"),
            metrics=str(folder / "metrics.jsonl"),
            env={"SEEN": str(folder / "events.jsonl")},
            imds=False,
        )
        (folder / "job.json").write_text(spec.to_json())
        log = folder / "agent.log"
        environment = {**os.environ, **keys, "SLIPWAY_ATTEMPT": str(attempt)}
        agent = nursery.start(["run", "--config", str(folder / "job.json")], environment, log)
        assert agent.wait() == 0, log.read_text()

    return run


@pytest.fixture
def checkpoints_command(slipway, keys, monkeypatch, tmp_path):
    for name, value in keys.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: slipway("checkpoints", *arguments)


def stored(s3):
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return {content["Key"].removeprefix("jobs/a/") for page in pages for content in page.get("Contents", ())}


def spoil(s3, key, change):
    body = s3.get_object(Bucket=BUCKET, Key=f"jobs/a/{key}")["Body"].read()
    s3.put_object(Bucket=BUCKET, Key=f"jobs/a/{key}", Body=change(body))


def data_of(s3, step):
    (key,) = [key for key in stored(s3) if key.startswith(f"step-{step}/") and key.endswith("/data")]
    return key


def test_list_shows_checkpoints_with_incomplete_reason(run_agent, checkpoints_command, s3):
    run_agent(3)
    s3.delete_object(Bucket=BUCKET, Key=f"jobs/a/{data_of(s3, 2)}")
    s3.put_object(Bucket=BUCKET, Key="jobs/a/step-9/r1.a1/0-aa/data", Body=b"on its way")
    code, out, _ = checkpoints_command("list", URI, "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["uri"]) == (0, "slipway.checkpoints/1", URI)
    assert [
        (checkpoint["step"], checkpoint["whole"], checkpoint["reason"]) for checkpoint in document["checkpoints"]
    ] == [
        (9, False, "its upload did not finish"),
        (3, True, None),
        (2, False, "data is missing"),
        (1, True, None),
    ]
    code, out, _ = checkpoints_command("list", URI)
    assert (code, "step 2: data is missing" in out, " r1\n" in out) == (0, True, True)


def test_expiring_checkpoints_are_marked(run_agent, checkpoints_command, s3):
    run_agent(6, keep=2)
    run_agent(7, keep=2)
    checkpoints = json.loads(checkpoints_command("list", URI, "--json")[1])["checkpoints"]
    record = json.loads(s3.get_object(Bucket=BUCKET, Key="jobs/a/superseded.json")["Body"].read())["steps"]
    assert (
        {str(checkpoint["step"]) for checkpoint in checkpoints if checkpoint["superseded"]}
        == {*record}
        >= {"1", "2", "3"}
    )
    assert [checkpoint["superseded"] for checkpoint in checkpoints[:2]] == [False, False]
    assert (
        f"{len(record)} more checkpoints, expiring (steps {min(record)} to {max(record)}, "
        in checkpoints_command("list", URI)[1]
    )


def test_store_without_checkpoints_has_message(checkpoints_command, s3):
    code, out, _ = checkpoints_command("list", URI)
    assert (code, "no checkpoint yet" in out) == (0, True)
    code, _, err = checkpoints_command("restore", URI)
    assert (code, "the store has no complete checkpoint" in err) == (5, True)


def test_changed_byte_found_only_by_verify_and_restore(run_agent, checkpoints_command, s3, tmp_path):
    run_agent(2)
    assert checkpoints_command("verify", URI, "--all")[0] == 0
    time.sleep(1.1)  # S3's times are whole seconds
    spoil(s3, data_of(s3, 2), lambda body: body[:-1] + bytes([body[-1] ^ 1]))
    listed = json.loads(checkpoints_command("list", URI, "--json")[1])["checkpoints"]
    assert [(one["step"], one["whole"], one["rewritten"]) for one in listed] == [(2, True, ["data"]), (1, True, [])]
    assert "step 2: data: S3 got this object after the commit" in checkpoints_command("list", URI)[1]
    code, out, err = checkpoints_command("verify", URI, "--all")
    assert (code, "data has SHA-256" in out, "step 1: complete, 2 files, by hashes" in out) == (5, True, True)
    assert "incomplete or damaged: step 2" in err
    assert "  step 2: incomplete\n" in out
    code, _, err = checkpoints_command("restore", URI, "-o", "here")
    assert (code, "step 2 is damaged" in err, "restore the next older one: --step 1" in err) == (5, True, True)
    assert list((tmp_path / "here").iterdir()) == []


def test_restored_files_equal_saved_files(run_agent, checkpoints_command, s3, tmp_path):
    run_agent(3)
    code, out, _ = checkpoints_command("restore", URI, "--step", "2", "-o", "here")
    assert (code, "step 2, 305.7 KiB" in out) == (0, True)
    place = tmp_path / "here" / "step-2"
    assert (place / "data").read_bytes() == hashlib.shake_256(b"2").digest(300_000)
    assert (place / "deep" / "base").read_bytes() == b"never changes" * 1000
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["step-2"]
    code, _, err = checkpoints_command("restore", URI, "--step", "2", "-o", "here")
    assert (code, "exists already" in err) == (5, True)
    code, _, err = checkpoints_command("restore", URI, "--step", "7", "-o", "here")
    assert (code, "complete steps: 3, 2, 1" in err) == (5, True)


def manifest(s3, step, layout, paths, **options):
    """Store a whole checkpoint of a framework, each file of it with its own path as content."""
    files = []
    for path in paths:
        key, body = f"step-{step}/r1.a1/0-beef/{path}", path.encode()
        s3.put_object(Bucket=BUCKET, Key=f"jobs/a/{key}", Body=body)
        digest = hashlib.sha256(body).hexdigest()
        files.append(StoredFile(path=path, bytes=len(body), sha256=digest, key=key, part=0))
    stored = Manifest(
        run="r1",
        attempt=1,
        step=step,
        part=None,
        parts=1,
        files=tuple(files),
        written_at="2026-11-23T00:00:00.000Z",
        seconds=1.0,
        layout=layout,
        **{"folder": HERE, **options},
    )
    s3.put_object(Bucket=BUCKET, Key=f"jobs/a/step-{step}/manifest.json", Body=stored.to_json())


def test_files_without_folder_restored_into_new_folder(checkpoints_command, s3, tmp_path):
    manifest(s3, 50, "lightning", ["epoch=0-step=50.ckpt"])
    manifest(s3, 2, "torchtune", ["epoch_2/adapter.pt", "recipe_state/recipe_state.pt"], unit="epoch")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "epoch=0-step=50.ckpt").write_text("another run's")
    for step in ("2", "50"):
        assert checkpoints_command("restore", URI, "--step", step, "-o", "mine")[0] == 0
    files = {
        str(path.relative_to(tmp_path / "mine")): path for path in (tmp_path / "mine").rglob("*") if path.is_file()
    }
    assert {name: path.read_text() for name, path in files.items()} == {
        "epoch=0-step=50.ckpt": "another run's",
        "step-50/epoch=0-step=50.ckpt": "epoch=0-step=50.ckpt",
        "epoch-2/epoch_2/adapter.pt": "epoch_2/adapter.pt",
        "epoch-2/recipe_state/recipe_state.pt": "recipe_state/recipe_state.pt",
    }
    code, _, err = checkpoints_command("restore", URI, "-o", "mine")
    assert (code, "exists already" in err) == (5, True)


def test_layout_of_each_checkpoint_is_listed(checkpoints_command, s3):
    manifest(s3, 50, "lightning", ["epoch=0-step=50.ckpt"])
    manifest(s3, 60, "", ["data"], folder="step-60")
    checkpoints = json.loads(checkpoints_command("list", URI, "--json")[1])["checkpoints"]
    assert [(checkpoint["step"], checkpoint["layout"], checkpoint["unit"]) for checkpoint in checkpoints] == [
        (60, "slipway", "step"),
        (50, "lightning", "step"),
    ]
    assert " lightning " in checkpoints_command("list", URI)[1]


def test_prune_keeps_newest_of_each_layout(checkpoints_command, s3):
    for step, layout in ((50, "hf"), (100, "hf"), (150, "megatron"), (200, "megatron"), (300, "megatron")):
        manifest(s3, step, layout, ["data"], folder="folder")
    manifest(s3, 20, "hf", ["data"], folder="folder")
    again = s3.get_object(Bucket=BUCKET, Key="jobs/a/step-150/manifest.json")["Body"].read()
    other = again.replace(b'"megatron"', b'"hf"')
    s3.put_object(Bucket=BUCKET, Key="jobs/a/step-150/r2.a1/manifest.json", Body=other)
    s3.put_object(Bucket=BUCKET, Key="jobs/a/step-30/r1.a1/0-aa/data", Body=b"cut off")
    s3.put_object(Bucket=BUCKET, Key="jobs/a/step-250/r1.a1/0-aa/data", Body=b"cut off, of whichever")
    assert checkpoints_command("prune", URI, "--keep", "1", "--yes")[0] == 0
    assert {key.partition("/")[0] for key in stored(s3)} >= {"step-150", "step-250", "step-300"}
    assert {"step-20", "step-30", "step-50", "step-200"}.isdisjoint(key.partition("/")[0] for key in stored(s3))


def test_prune_keeps_objects_referenced_by_kept_checkpoints(run_agent, checkpoints_command, s3, tmp_path):
    run_agent(4)
    s3.put_object(Bucket=BUCKET, Key="jobs/a/step-9/r1.a1/0-aa/data", Body=b"on its way")
    s3.put_object(Bucket=BUCKET, Key="jobs/a/notes.txt", Body=b"mine")
    before = stored(s3)
    code, out, _ = checkpoints_command("prune", URI, "--keep", "2", "--dry-run")
    assert (code, "would delete" in out, stored(s3)) == (0, True, before)
    code, out, err = checkpoints_command("prune", URI, "--keep", "2")
    assert (code, "no terminal" in err, stored(s3)) == (2, True, before)
    assert checkpoints_command("prune", URI, "--keep", "2", "--yes")[0] == 0
    remaining = stored(s3)
    # The file that never changed lies with the first step and is still pointed to.
    assert [key.rpartition("/")[2] for key in remaining if key.startswith("step-1/")] == ["base"]
    assert not [key for key in remaining if key.startswith("step-2/")]
    assert {"step-9/r1.a1/0-aa/data", "notes.txt"} < remaining
    checkpoints = json.loads(checkpoints_command("list", URI, "--json")[1])["checkpoints"]
    assert [(checkpoint["step"], checkpoint["reason"]) for checkpoint in checkpoints] == [
        (9, "its upload did not finish"),
        (4, None),
        (3, None),
        (1, "it was removed, except files that a newer checkpoint shares"),
    ]
    assert (
        checkpoints_command("verify", URI, "--step", "3")[0]
        == checkpoints_command("verify", URI, "--step", "4")[0]
        == 0
    )
    code, out, _ = checkpoints_command("prune", URI, "--keep", "2", "--yes")
    assert (code, "nothing to delete" in out, stored(s3)) == (0, True, remaining)
    run_agent(5, attempt=2)
    assert checkpoints_command("verify", URI, "--step", "5")[0] == 0


def test_prune_refused_while_job_writes(run_agent, checkpoints_command, s3):
    run_agent(3)
    owner = json.loads(s3.get_object(Bucket=BUCKET, Key="jobs/a/claim.json")["Body"].read())
    assert owner["released"]
    s3.put_object(Bucket=BUCKET, Key="jobs/a/claim.json", Body=json.dumps({**owner, "released": False}).encode())
    before = stored(s3)
    code, _, err = checkpoints_command("prune", URI, "--keep", "1", "--yes")
    assert (code, "r1 is writing checkpoints there now" in err, stored(s3)) == (5, True, before)


def test_manifest_with_outside_path_is_incomplete(run_agent, checkpoints_command, s3):
    run_agent(2)
    spoil(s3, "step-2/manifest.json", lambda body: body.replace(b'"path": "data"', b'"path": "../../data"'))
    checkpoints = json.loads(checkpoints_command("list", URI, "--json")[1])["checkpoints"]
    assert [checkpoint["whole"] for checkpoint in checkpoints] == [False, True]
    assert "must be below" in checkpoints[0]["reason"]
    code, out, _ = checkpoints_command("restore", URI)
    assert (code, "step 1" in out) == (0, True)


@pytest.mark.torch
def test_pytorch_checkpoints_recognised_by_metadata(checkpoints_command, s3, tmp_path, sample):
    names = sorted(path.name for path in sample.iterdir())
    for folder in ("step-006", "step-007", "step-008", "step-009"):
        for name in names:
            s3.put_object(Bucket=BUCKET, Key=f"jobs/a/{folder}/{name}", Body=(sample / name).read_bytes())
    shard = next(name for name in names if name.endswith(".distcp"))
    spoil(s3, f"step-008/{shard}", lambda body: body[:-1])
    s3.delete_object(Bucket=BUCKET, Key="jobs/a/step-009/.metadata")
    checkpoints = json.loads(checkpoints_command("list", URI, "--json")[1])["checkpoints"]
    assert [(checkpoint["step"], checkpoint["format"], checkpoint["whole"]) for checkpoint in checkpoints] == [
        (9, None, False),
        (8, "dcp", False),
        (7, "dcp", True),
        (6, "dcp", True),
    ]
    assert "bytes instead of" in checkpoints[1]["reason"]
    code, out, _ = checkpoints_command("verify", URI)
    assert (code, "step 7: complete" in out, "PyTorch keeps no hashes" in out) == (0, True, True)
    assert checkpoints_command("restore", URI, "-o", "here")[0] == 0
    place = tmp_path / "here" / "step-007"
    assert {path.name: path.read_bytes() for path in place.iterdir()} == {n: (sample / n).read_bytes() for n in names}
    assert checkpoints_command("prune", URI, "--keep", "1", "--yes")[0] == 0
    assert {key.partition("/")[0] for key in stored(s3)} == {"step-007", "step-008", "step-009"}
