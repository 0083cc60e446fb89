"""The jobs on a cluster that is to be removed, by the objects that their agents write (moto's S3)."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from moto import mock_aws

from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.workflow.deploy.running_jobs import FRESH, MAX_READ, running_jobs

REGION = "us-east-2"
FOLDER = "jobs/.guard/8131d980/messages/running/"


@pytest.fixture
def beats():
    """Write heartbeats; the jobs that are found some time later."""
    with mock_aws():
        session = Session(
            environment={"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}, region=REGION
        )
        client = session.client("s3")
        client.create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
        stack = StackState(
            id="id",
            name="slipway-a-training",
            status="CREATE_COMPLETE",
            protected=False,
            outputs={"StoreUri": "s3://store/jobs", "GuardMessageUri": "s3://store/jobs/.guard/8131d980/messages"},
            tags={},
        )

        def found(*documents, later=timedelta(0), cluster=stack):
            for number, document in enumerate(documents):
                body = document if isinstance(document, str) else json.dumps(document)
                client.put_object(Bucket="store", Key=f"{FOLDER}run-{number}.json", Body=body)
            return running_jobs(session, cluster, datetime.now(UTC) + later)

        found.session, found.stack = session, stack  # type: ignore[attr-defined]
        yield found


def beat(job, *, attempt=1, over=False):
    return {"schema": "slipway.heartbeat/1", "run": "r", "job": job, "attempt": attempt, "part": 0, "over": over}


def test_running_jobs_are_jobs_with_fresh_heartbeats(beats):
    found = beats(beat("gpt", attempt=2), beat("gpt", attempt=2), beat("sft"), beat("old", over=True), "{", '"x"', "[]")
    assert found == (("gpt", "running, attempt 2, on 2 nodes"), ("sft", "running, attempt 1, on 1 node"))


@pytest.mark.parametrize(
    "cluster", [None, StackState(id="i", name="n", status="x", protected=False, outputs={}, tags={})]
)
def test_running_jobs_of_no_cluster_are_none(beats, cluster):
    assert beats(beat("gpt"), cluster=cluster) == ()


def test_running_jobs_with_stale_heartbeats_are_not_named(beats):
    assert beats(beat("gpt"), later=FRESH + timedelta(minutes=1)) == ()


def test_running_jobs_of_many_nodes_are_read_in_part(beats):
    assert beats(*[beat("gpt")] * (MAX_READ + 3)) == (("gpt", f"running, attempt 1, on at least {MAX_READ} nodes"),)


def test_unreadable_running_jobs_are_reported_as_not_known(beats):
    beats.session.client("s3").delete_bucket(Bucket="store")
    ((name, reason),) = beats()
    assert name == "jobs not known"
    assert "NoSuchBucket" in reason
