"""The names of checkpoints in a plan: a layout, or a pattern with one group and its tracker."""

import pytest

from launcher.catalog.load import load
from launcher.planning.checks import check
from tests.plans import laid_over, request_of

BASE = {
    "slipway": 1,
    "name": "n",
    "workload": {"train": {"model": "llama-3.1-8b", "method": "full", "hours": 2}},
    "target": {"kind": "parallelcluster", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
    "run": {"command": ["python", "train.py"]},
}


def paths_and_messages(**checkpoint):
    findings = check(request_of(laid_over(BASE, {"checkpoint": checkpoint})), load())
    return [(finding.path, finding.message) for finding in findings if finding.path.startswith("checkpoint")]


@pytest.mark.parametrize(
    "checkpoint",
    [
        {"layout": "megatron"},
        {"pattern": r"llama_v3-(\d+)steps"},
        {"pattern": r"ckpt\.pt|best\.pt"},
        {"pattern": r"run-(\d+)", "tracker": {"file": "newest.txt", "text": "run-{step}"}},
        {"mode": "own", "uri": "s3://team/runs", "kms_key_arn": "arn:aws:kms:us-east-2:123456789012:key/1"},
    ],
    ids=["layout", "pattern", "fixed", "tracker", "own"],
)
def test_valid_checkpoint_settings_give_no_finding(checkpoint):
    assert paths_and_messages(**checkpoint) == []


@pytest.mark.parametrize(
    "checkpoint,path,message",
    [
        (
            {"pattern": r"(run)-(\d+)"},
            "checkpoint.pattern",
            r"'(run)-(\\d+)' has 2 groups; it must have one, the step, or none for fixed names",
        ),
        (
            {"pattern": "run-", "tracker": {"file": "latest", "text": "{step}"}},
            "checkpoint.pattern",
            "'run-' has 0 groups; it must have one, the step",
        ),
        (
            {"pattern": "run-("},
            "checkpoint.pattern",
            "'run-(' is not a regular expression: missing ), unterminated subpattern",
        ),
        (
            {"pattern": r"run-(\d+)", "layout": "hf"},
            "checkpoint.layout",
            "checkpoint.layout hf and checkpoint.pattern are both given",
        ),
        ({"tracker": {"file": "latest"}}, "checkpoint.tracker", "checkpoint.tracker needs checkpoint.pattern"),
        (
            {"pattern": r"run-(\d+)", "tracker": {"file": "latest", "text": "newest"}},
            "checkpoint.tracker.text",
            "'newest' names no checkpoint",
        ),
        ({"mode": "own"}, "checkpoint.uri", "mode own names no place where the trainer keeps its checkpoints"),
        ({"uri": "/fsx/runs"}, "checkpoint.uri", "got /fsx/runs; mode agent stores checkpoints in S3"),
        (
            {"mode": "own", "uri": "/fsx/runs"},
            "checkpoint.uri",
            "/fsx/runs is lost with its node unless a shared file system is mounted there",
        ),
    ],
)
def test_invalid_checkpoint_settings_refused_with_path(checkpoint, path, message):
    ((where, text),) = paths_and_messages(**checkpoint)
    assert (where, text[: len(message)]) == (path, message)


@pytest.mark.parametrize(
    "run, checkpoint, paths",
    [
        ({}, {"uri": "s3://mine--use2-az1--x-s3/runs"}, ["checkpoint.uri"]),
        ({}, {"mode": "own", "uri": "s3://mine--use2-az1--x-s3"}, ["checkpoint.uri"]),
        ({"data": [{"uri": "s3://d--use2-az1--x-s3/a/", "path": "/data"}]}, {}, ["run.data[0].uri"]),
        ({"data": [{"uri": "s3://d--x-s3-copy/a/", "path": "/data"}]}, {"uri": "s3://mine/x--x-s3"}, []),
    ],
    ids=["the agent's", "the trainer's own", "data", "similar names"],
)
def test_directory_bucket_refused_at_every_path(run, checkpoint, paths):
    findings = check(request_of(laid_over(BASE, {"run": run, "checkpoint": checkpoint})), load())
    assert [finding.path for finding in findings if finding.code == "directory-bucket"] == paths
