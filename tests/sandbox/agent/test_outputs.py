"""Outputs: the plan's files are stored when the command ends, and downloaded to this machine."""

import signal

import pytest

from launcher.agent.output_manifest import parse_outputs
from launcher.model.errors import ImpossibleError
from launcher.workflow.run.outputs import fetch_outputs, stored_outputs
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

WRITES = """
set -e
mkdir -p out/model/deep "$SLIPWAY_CHECKPOINT_DIR/final"
printf weights-$SLIPWAY_ATTEMPT >out/model/deep/weights
printf same >out/model/config
printf merged >"$SLIPWAY_CHECKPOINT_DIR/final/merged"
printf log >"$SLIPWAY_CHECKPOINT_DIR/trainer.log"
"""
NAMED = ("out/model", "${SLIPWAY_CHECKPOINT_DIR}/final")
HELD = {"out/model/deep/weights": "weights-1", "out/model/config": "same", "final/merged": "merged"}


def job(node, then="", outputs=NAMED, **changes):
    changes = {"plan_uri": f"s3://{BUCKET}/{PREFIX.rstrip('/')}", **changes}
    node.job(command=("bash", "-c", WRITES + then), outputs=outputs, **changes)


def manifest(bucket):
    return parse_outputs(bucket.read("outputs/r1/manifest.json").decode())


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_outputs_stored_at_end_and_fetched(node, bucket, objects, tmp_path):
    job(node)
    assert node.run() == 0
    (stored,) = node.events("outputs-stored")
    assert (stored["files"], stored["bytes"]) == (3, len("weights-1samemerged"))
    target = tmp_path / "here"
    fetch_outputs(objects, stored_outputs(objects, None), target, lambda _: None)
    assert contents(target) == HELD
    with pytest.raises(ImpossibleError, match="exists already"):
        fetch_outputs(objects, stored_outputs(objects, "r1"), target, lambda _: None)
    with pytest.raises(ImpossibleError, match="no outputs of the run r2"):
        stored_outputs(objects, "r2")


def test_other_files_left_in_checkpoint_folder_are_named(node, bucket):
    job(node)
    assert node.run() == 0
    (event,) = node.events("files-left")
    lost = "not stored and lost with the node, in the checkpoint folder: trainer.log (3 bytes); "
    assert event["reason"].startswith(lost)
    assert event["bytes"] == 3


def test_link_to_a_stored_checkpoint_is_not_named_as_left(node):
    save = 'cd "$SLIPWAY_CHECKPOINT_DIR"; mkdir step-1; echo 1 >step-1/a; ln -s step-1 latest; touch step-1/_DONE'
    node.job(command=("bash", "-c", save))
    assert node.run() == 0
    assert [event["step"] for event in node.events("checkpoint-uploaded")] == [1]
    assert not node.events("files-left")


@pytest.mark.parametrize("mode", ["agent", "none"])
def test_outputs_stored_at_notice_and_replaced_by_later_attempt(node, bucket, mode):
    job(node, "trap 'exit 0' USR1; while :; do sleep 0.1; done", mode=mode)
    agent = node.start()
    node.wait_until(lambda: list(node.folder.glob("node/*/*/checkpoints/trainer.log")))
    agent.send_signal(signal.SIGUSR1)
    assert agent.wait(timeout=60) == 75
    first = {file.path: file for file in manifest(bucket).files}
    assert set(first) == set(HELD)
    job(node, mode=mode)
    assert node.run(attempt=2) == 0
    second = {file.path: file for file in manifest(bucket).files}
    same = {path for path in HELD if second[path].key == first[path].key}
    assert same == {"out/model/config", "final/merged"}
    assert bucket.read(second["out/model/deep/weights"].key) == b"weights-2"
    assert first["out/model/deep/weights"].key in bucket.expiring()


@pytest.mark.parametrize("lacking", ["no/such", "out/*.json"])
def test_missing_output_fails_job_and_other_outputs_are_stored(node, bucket, lacking):
    job(node, outputs=(lacking, "out/model"))
    assert node.run() == 78
    (missing,) = node.events("output-missing")
    assert missing["reason"].startswith(f"{lacking}: ")
    (failed,) = node.events("failed")
    assert "optional: true" in failed["reason"]
    assert len(manifest(bucket).files) == 2


def test_missing_optional_output_is_no_failure(node, bucket):
    job(node, outputs=("no/such", "out/model"), optional_outputs=("no/such",))
    assert node.run() == 0
    assert not node.events("output-missing")
    assert len(manifest(bucket).files) == 2


def test_output_patterns_store_matching_files(node, bucket):
    job(node, outputs=("out/**/w*", "${SLIPWAY_CHECKPOINT_DIR}/f*/*"))
    assert node.run() == 0
    assert {file.path for file in manifest(bucket).files} == {"out/model/deep/weights", "final/merged"}
    (left,) = node.events("files-left")
    assert "folder: trainer.log (3 bytes);" in left["reason"]


def test_failed_command_keeps_exit_code_with_missing_outputs(node, bucket):
    job(node, "exit 3", outputs=("no/such", "out/model"))
    assert node.run() == 3


def test_completed_job_with_unstorable_outputs_fails(node, bucket):
    job(node, plan_uri="s3://no-such-bucket/x", final_upload_s=1.0)
    assert node.run() == 74
    assert "its outputs are not in the store" in node.events("failed")[0]["reason"]


def test_damaged_output_leaves_no_local_files(node, bucket, objects, tmp_path):
    job(node)
    assert node.run() == 0
    key = next(file.key for file in manifest(bucket).files if file.path == "final/merged")
    bucket.write(key, b"MERGED")
    with pytest.raises(ImpossibleError, match="final/merged has SHA-256"):
        fetch_outputs(objects, stored_outputs(objects, None), tmp_path / "here", lambda _: None)
    assert not (tmp_path / "here").exists()
