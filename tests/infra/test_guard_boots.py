"""Nodes that do not boot: the guard stops them after three in a row, with the reason; its own code with moto.

Jobs can write the same objects: the guard counts only those of instances that EC2 lists as ended nodes of its cluster.
"""

import json
from datetime import timedelta

import pytest
from moto.ec2.models import ec2_backends
from moto.s3.models import s3_backends

from launcher.rendering.node import login_boots_uri
from tests.infra.guard_account import ACCOUNT, NOW, REGION, client, dated_listing, launch_as

pytestmark = pytest.mark.xdist_group("guard")

BUCKET, FOLDER = "slipway-tiny-checkpoints", "jobs/.guard/stack"
LOOK = timedelta(minutes=5)
REASON = "slipway: p5.48xlarge has 8 NVIDIA devices, found 7\nmachine.sh: ip-10-0-1-7: an accelerator is missing\n"
VERDICT = f"{FOLDER}/sent/stopped.json"


COMPUTE = {"parallelcluster:cluster-name": "slipway-tiny", "parallelcluster:node-type": "Compute"}


def instance(node, *, launched, ended, tags=COMPUTE):
    launch_as(node, launched, ended=ended, **tags)


@pytest.fixture
def boots(aws, monkeypatch):
    """Write how boots ended, minutes before the check."""
    store = client("s3")
    store.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    dates = {}

    def write(*ends, text=REASON, instances=instance):
        failed = {node for node, end, _ in ends if end == "failed"}
        for node, end, minutes in ends:
            at = NOW - timedelta(minutes=minutes)
            if instances is not None:
                instances(node, launched=at - timedelta(minutes=8), ended=node in failed)
            key = f"{FOLDER}/messages/boots/{at:%Y%m%dT%H%M%SZ}-{node}-{end}.txt"
            s3_backends[ACCOUNT]["aws"].put_object(BUCKET, key, text.encode())  # a request takes five times as long
            dates[key] = at

    monkeypatch.setattr(store, "list_objects_v2", dated_listing(store, dates))
    return write


@pytest.fixture
def check(aws, guard_of):
    """One check of the guard of a cluster that was deployed an hour ago."""

    def run(now=NOW, **variables):
        settings = {"FOLDER_URI": f"s3://{BUCKET}/{FOLDER}", "IDLE_MINUTES": "0", **variables}
        guard = guard_of(now=now, **settings)
        guard.deployed_at = lambda: NOW - timedelta(hours=8)
        guard.watch()
        return guard

    return run


def verdict():
    listed = client("s3").list_objects_v2(Bucket=BUCKET, Prefix=VERDICT).get("Contents", [])
    return json.loads(client("s3").get_object(Bucket=BUCKET, Key=VERDICT)["Body"].read()) if listed else None


FAILED = [("i-1", "failed", 30), ("i-2", "failed", 20), ("i-3", "failed", 10)]


def test_ready_login_node_does_not_keep_nodes_that_fail_to_boot(aws, boots, check):
    """The login node of a PCS cluster becomes ready where nodes of jobs fail for their accelerators."""
    boots(*FAILED)
    at = NOW - timedelta(minutes=5)
    folder = login_boots_uri(f"s3://{BUCKET}/{FOLDER}/messages").removeprefix(f"s3://{BUCKET}/")
    client("s3").put_object(Bucket=BUCKET, Key=f"{folder}/{at:%Y%m%dT%H%M%SZ}-i-9-ready.txt", Body=b"ready")
    check()
    assert aws.fleet == "STOP_REQUESTED"


def test_three_failed_boots_in_a_row_stop_fleet_with_log_lines(aws, boots, check):
    boots(*FAILED)
    check()
    assert aws.fleet == "STOP_REQUESTED"
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: compute fleet stopped"
    assert "3 nodes in a row failed to boot (i-1, i-2, i-3); each try is billed" in text
    assert "an accelerator is missing" in text
    assert verdict()["schema"] == "slipway.guard-stop/1"
    assert verdict()["jobs_wait"] is False
    assert "an accelerator is missing" in verdict()["text"]


@pytest.mark.parametrize(
    "ends",
    [
        FAILED[:2],
        [*FAILED, ("i-4", "ready", 5)],
        [("i-0", "ready", 12), ("i-1", "failed", 10), ("i-2", "failed", 9), ("i-3", "failed", 8)],
        [("i-1", "failed", 3), ("i-1", "failed", 2), ("i-1", "failed", 1)],
        [("i-1", "failed", 500), ("i-2", "failed", 400), ("i-3", "failed", 10)],
    ],
    ids=["two", "a-later-one-is-ready", "others-became-ready-just-now", "one-node-three-times", "hours-apart"],
)
def test_interrupted_or_old_failed_boots_stop_no_fleet(aws, boots, check, ends):
    boots(*ends)
    check()
    assert (aws.fleet, aws.messages, verdict()) == ("RUNNING", [], None)


def test_node_with_one_failed_script_counts_as_failed(aws, boots, check):
    boots(*[(f"i-{n}", end, 40 - 10 * n - k) for n in range(3) for k, end in enumerate(("ready", "failed"))])
    check()
    assert aws.fleet == "STOP_REQUESTED"


def test_restarted_fleet_not_stopped_for_old_failed_boots(aws, boots, check):
    boots(*FAILED)
    check()
    aws.set_fleet("RUNNING")
    check(now=NOW + LOOK)
    assert aws.fleet == "RUNNING"
    boots(("i-4", "failed", -1), ("i-5", "failed", -2), ("i-6", "failed", -3))
    check(now=NOW + 2 * LOOK)
    assert aws.fleet == "STOP_REQUESTED"
    assert "i-6" in verdict()["text"]


def test_failed_boots_of_prepaid_nodes_reported_without_stop(aws, boots, check):
    boots(*FAILED)
    check(PREPAID="true")
    assert aws.fleet == "RUNNING"
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: nodes do not boot"
    assert "an accelerator is missing" in text
    check(now=NOW + LOOK, PREPAID="true")
    assert aws.messages == []


@pytest.mark.parametrize("text", ["", "\x1b]0;title\x07\n::error::x\n", "x" * 100_000, "a\r\nb\u202ec\n"])
def test_boot_log_text_is_truncated_and_printable(aws, boots, check, text):
    boots(*FAILED, text=text)
    check()
    said = verdict()["text"]
    assert len(said) < 1500
    assert all(character.isprintable() or character == "\n" for character in said)


def test_thousands_of_boot_objects_need_one_listing(aws, boots, check):
    boots(*[(f"i-{n:04}", "failed", 60 - n / 100) for n in range(1200)], instances=None)
    for n in range(3):
        instance(f"i-{n:04}", launched=NOW - timedelta(minutes=65), ended=True)
    check()
    assert aws.fleet == "STOP_REQUESTED"


TEAMS = {**COMPUTE, "parallelcluster:cluster-name": "slipway-team"}


def running(node, *, launched, **_):
    instance(node, launched=launched, ended=False)


def message_of_other_cluster(node, *, launched, **_):
    instance(node, launched=launched, ended=True, tags=TEAMS)


def ended_after_hours(node, *, launched, **_):
    instance(node, launched=launched - timedelta(hours=2), ended=True)


@pytest.mark.parametrize("instances", [None, running, message_of_other_cluster, ended_after_hours])
def test_forged_failed_boots_stop_no_fleet(aws, boots, check, instances):
    """A job writes them: for instances that never were, its own nodes, another cluster's, nodes that have worked."""
    boots(*FAILED, instances=instances)
    check()
    assert (aws.fleet, aws.messages, verdict()) == ("RUNNING", [], None)


def test_forged_boots_between_real_ones_are_not_counted(aws, boots, check):
    boots(*FAILED[:2])
    boots(("i-9", "failed", 5), ("i-8", "failed", 4), instances=running)
    check()
    assert (aws.fleet, verdict()) == ("RUNNING", None)


def test_failed_boots_that_ec2_has_forgotten_still_count(aws, boots, check):
    """EC2 lists a terminated instance for an hour; slow boots take longer."""
    boots(*FAILED[:2])
    check(now=NOW - timedelta(minutes=15))
    backend = ec2_backends[ACCOUNT][REGION]
    backend.reservations.clear()
    boots(FAILED[2])
    check()
    assert aws.fleet == "STOP_REQUESTED"
