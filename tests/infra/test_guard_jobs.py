"""How the guard reads a job's nodes: their heartbeats in the store, with moto."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from launcher.model.report import EndedBy
from tests.infra.guard_account import NOW, client

pytestmark = pytest.mark.xdist_group("guard")

CPU = {"CoreCount": 96, "ThreadsPerCore": 2}
BUCKET, FOLDER = "slipway-tiny-checkpoints", "jobs/.guard/stack"


@pytest.fixture
def watch_idle(aws, guard_of):
    """Watch two nodes that EC2's metrics call idle."""
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    aws.nodes(2)

    def start(now=NOW, **variables):
        guard = guard_of(now=now, FOLDER_URI=f"s3://{BUCKET}/{FOLDER}", **{"HUNG_MINUTES": "30", **variables})
        guard.all_idle = bool
        instances = guard.instances
        # moto describes no CPU options.
        guard.instances = lambda *states: [{**node, "CpuOptions": CPU} for node in instances(*states)]
        guard.watch()
        return aws.fleet

    return start


def beat(part, still_minutes, *, over=False, body=None):
    heartbeat = {"schema": "slipway.heartbeat/1", "job": "tiny", "still_s": still_minutes * 60, "over": over}
    key = f"{FOLDER}/messages/running/run-{part}.json"
    client("s3").put_object(Bucket=BUCKET, Key=key, Body=(json.dumps(heartbeat) if body is None else body).encode())


def test_idle_nodes_without_heartbeat_are_stopped(watch_idle):
    assert watch_idle() == "STOP_REQUESTED"


@pytest.mark.parametrize("still", [(0, 0), (60, 0), (29, 29)])
def test_job_with_one_active_node_keeps_all_nodes(aws, watch_idle, still):
    for part, minutes in enumerate(still):
        beat(part, minutes)
    assert (watch_idle(), aws.messages) == ("RUNNING", [])


def test_hung_job_on_all_nodes_reported_and_stopped(aws, watch_idle):
    beat(0, 30)
    beat(1, 45)
    assert watch_idle() == "STOP_REQUESTED"
    ((_, text),) = aws.messages
    assert "its job tiny shows no CPU, no network and no step for 30 minutes" in text
    stop = client("s3").get_object(Bucket=BUCKET, Key=f"{FOLDER}/sent/stopped.json")["Body"].read()
    assert json.loads(stop)["ended_by"] == EndedBy.FAILURE


@pytest.mark.parametrize("load", [{"percent": 50}, {"percent": 0.1, "mb": 400}])
def test_hung_heartbeats_do_not_stop_nodes_that_ec2_shows_active(aws, watch_idle, load):
    """Whoever may write to the store, such as another plan's job, can replace the heartbeats of this job."""
    (active, _) = [node["InstanceId"] for node in client("ec2").describe_instances()["Reservations"][0]["Instances"]]
    aws.busy(active, **load)
    beat(0, 30)
    beat(1, 45)
    assert (watch_idle(), aws.messages) == ("RUNNING", [])


def test_hung_job_stops_nodes_whose_activity_ended_before_the_limit(aws, watch_idle):
    (active, _) = [node["InstanceId"] for node in client("ec2").describe_instances()["Reservations"][0]["Instances"]]
    aws.busy(active, 50, since=timedelta(hours=2), until=timedelta(minutes=30))
    beat(0, 30)
    assert watch_idle() == "STOP_REQUESTED"


def test_hung_job_without_limit_keeps_running(aws, watch_idle):
    beat(0, 10_000)
    assert watch_idle(HUNG_MINUTES="0") == "RUNNING"


def test_hung_job_on_prepaid_nodes_reported_without_stop(aws, watch_idle):
    beat(0, 30)
    assert watch_idle(PREPAID="true") == "RUNNING"
    ((_, text),) = aws.messages
    assert "shows no CPU" in text


def test_heartbeat_of_finished_job_keeps_no_nodes(watch_idle):
    beat(0, 0, over=True)
    assert watch_idle() == "STOP_REQUESTED"


def test_heartbeat_older_than_15_minutes_keeps_no_nodes(watch_idle):
    beat(0, 0)
    assert watch_idle(now=datetime.now(UTC) + timedelta(minutes=16)) == "STOP_REQUESTED"


@pytest.mark.parametrize("minutes, fleet", [((0,), "RUNNING"), ((29, 40), "RUNNING"), ((45, 40), "STOP_REQUESTED")])
def test_job_without_agent_judged_by_least_idle_node_metric(aws, watch_idle, minutes, fleet):
    for minute in minutes:
        aws.earlier("JobStillMinutes", minute)
    assert watch_idle() == fleet
    hung = "its job in Slurm shows no CPU, no network and no step for 30 minutes. Its compute fleet is being stopped"
    assert [hung in text for _, text in aws.messages] == [True] * (fleet != "RUNNING")


def test_active_heartbeat_outweighs_still_metric_of_other_job(aws, watch_idle):
    aws.earlier("JobStillMinutes", 40)
    beat(0, 0)
    assert watch_idle() == "RUNNING"


def test_old_still_metric_of_slurm_job_keeps_no_nodes(aws, watch_idle):
    aws.earlier("JobStillMinutes", 0)
    assert watch_idle(now=NOW + timedelta(minutes=16)) == "STOP_REQUESTED"


@pytest.mark.parametrize("body", ["", "[", "{}", '{"over": false, "job": "x", "still_s": "long"}', "[" * 5000])
def test_invalid_heartbeat_counts_as_work_without_message(aws, watch_idle, body):
    beat(0, 0, body=body)
    assert (watch_idle(), aws.messages) == ("RUNNING", [])
