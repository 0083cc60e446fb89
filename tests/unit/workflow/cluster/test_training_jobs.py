"""Training jobs behind the common job interface: states, merged logs, and a job that is created only once."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError

from launcher.aws.session import Session
from launcher.aws.training_jobs import NodeLogs
from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.model.job import JobState, Submitted
from launcher.model.report import EndedBy
from launcher.submit.jobs import UnreachableError
from launcher.targets.sagemaker_training.cluster import create_job, refuse_bad_request
from launcher.workflow.cluster.training_jobs import TrainingJobs, facts_of
from launcher.workflow.history.attempts import attempts, close_last

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
JOB = Submitted(job="small-0a1b2c3d", key="small-1", folder="small-0a1b2c3d")
REQUEST = {
    "TrainingJobName": JOB.job,
    "RoleArn": "arn:aws:iam::123456789012:role/slipway-small",
    "ResourceConfig": {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 2},
    "EnableManagedSpotTraining": True,
}


def describe(status="InProgress", secondary="Training", **more):
    description = {
        "TrainingJobArn": f"arn:aws:sagemaker:us-east-2:123456789012:training-job/{JOB.job}",
        "TrainingJobStatus": status,
        "SecondaryStatus": secondary,
        "CreationTime": NOW,
        "SecondaryStatusTransitions": [{"Status": secondary, "StartTime": NOW, "StatusMessage": "words of AWS"}],
        "ResourceConfig": {"InstanceCount": 2},
    }
    return {**description, **more}


@pytest.mark.parametrize(
    "status, secondary, state, word",
    [
        ("InProgress", "Pending", JobState.PENDING, "waiting"),
        ("InProgress", "Starting", JobState.PENDING, "waiting"),
        ("InProgress", "Interrupted", JobState.PENDING, "interrupted"),
        ("InProgress", "Restarting", JobState.PENDING, "interrupted"),
        ("InProgress", "Downloading", JobState.RUNNING, "downloading data and image"),
        ("InProgress", "Training", JobState.RUNNING, "training"),
        ("InProgress", "SomethingNew", JobState.RUNNING, "SomethingNew"),
        ("Stopping", "Stopping", JobState.RUNNING, "stopping"),
        ("Completed", "Completed", JobState.COMPLETED, "completed"),
        ("Failed", "Failed", JobState.FAILED, "failed"),
        ("Stopped", "Stopped", JobState.CANCELLED, "stopped"),
        ("Stopped", "MaxRuntimeExceeded", JobState.FAILED, "stopped"),
        ("Stopped", "MaxWaitTimeExceeded", JobState.FAILED, "stopped"),
    ],
)
def test_every_secondary_status_has_wording_and_unknown_is_running(status, secondary, state, word):
    facts = facts_of(describe(status, secondary))
    assert (facts.state, facts.word) == (state, word)
    assert bool(facts.nodes) == (state is JobState.RUNNING)


def test_capacity_wait_and_interruption_wait_have_different_reasons():
    assert facts_of(describe(secondary="Pending")).reason == "waiting for capacity"
    assert facts_of(describe(secondary="Interrupted")).reason.startswith("it was interrupted")


def test_billed_seconds_are_shown_with_trained_seconds():
    ended = describe("Completed", "Completed", TrainingTimeInSeconds=1000, BillableTimeInSeconds=350)
    spot = facts_of({**ended, "EnableManagedSpotTraining": True})
    assert spot.word == "completed; 350 of 1,000 seconds billed for each instance, 65% off on demand"


def test_failed_training_job_has_reason_and_exit_code():
    reason = "AlgorithmError: out of memory (exit code 137), exit code: 79"
    facts = facts_of(describe("Failed", "Failed", FailureReason=reason, TrainingStartTime=NOW, TrainingEndTime=NOW))
    assert (facts.reason, facts.attempt.exit_code) == (reason, 137)


@pytest.mark.parametrize(
    "reason, ended_by",
    [
        ("InternalServerError: We encountered an internal error. Please try again.", EndedBy.NODE_LOST),
        ("AlgorithmError: ExecuteUserScriptError, exit code: 1", EndedBy.FAILURE),
        ("ClientError: Cannot pull container image", EndedBy.FAILURE),
    ],
)
def test_training_job_whose_instances_failed_lost_its_node_as_when_it_is_started_again(reason, ended_by):
    times = {"TrainingStartTime": NOW, "TrainingEndTime": NOW}
    facts = facts_of(describe("Failed", "Failed", FailureReason=reason, **times))
    started = {"event": "attempt-started", "attempt": 1, "time": NOW.isoformat(), "node": "algo-1"}
    (attempt,) = close_last(attempts([started]), facts)
    assert attempt.ended_by == ended_by
    assert (facts.attempt.exit_code is None) == (ended_by is EndedBy.NODE_LOST)


class Api:
    """A client that returns prepared answers, one per call, and records the requests."""

    def __init__(self, **answers):
        self.answers, self.requests = answers, []

    def __getattr__(self, name):
        def call(**arguments):
            self.requests.append((name, arguments))
            answer = self.answers[name]
            answer = answer.pop(0) if isinstance(answer, list) else answer
            if isinstance(answer, str):
                code, _, message = answer.partition(": ")
                raise ClientError({"Error": {"Code": code, "Message": message}}, name)
            return answer

        return call


def session(**services):
    return Session(environment={}, region="us-east-2", clients=services)


def source(api, logs=None):
    return TrainingJobs(session=session(sagemaker=api, logs=logs), job_files=SimpleNamespace(), settle_s=0.0)


def tags(key):
    return {"Tags": [{"Key": "slipway:run", "Value": key}]}


def test_training_job_of_same_submission_is_reused():
    api = Api(create_training_job="ResourceInUse: taken", describe_training_job=describe(), list_tags=tags(JOB.key))
    create_job(session(sagemaker=api), REQUEST, JOB.key)
    assert [name for name, _ in api.requests] == ["create_training_job", "describe_training_job", "list_tags"]


def test_training_job_name_of_other_submission_refused():
    api = Api(create_training_job="ResourceInUse: taken", describe_training_job=describe(), list_tags=tags("other"))
    with pytest.raises(DeploymentFailedError, match="to another submission") as refused:
        create_job(session(sagemaker=api), REQUEST, JOB.key)
    assert refused.value.exit_code == 6
    assert source(api).find(JOB.key, JOB.folder) is None


def test_exceeded_quota_is_named_with_instance_kind():
    api = Api(create_training_job="ResourceLimitExceeded: The account-level service limit is 0 Instances")
    with pytest.raises(DeploymentFailedError, match="service limit is 0") as refused:
        create_job(session(sagemaker=api), REQUEST, JOB.key)
    assert "'ml.p5.48xlarge for spot training job usage'" in refused.value.hint


def test_invalid_training_job_request_is_never_sent():
    with pytest.raises(ImpossibleError, match="would refuse the request") as refused:
        refuse_bad_request({**REQUEST, "TrainingJobName": "under_score"})
    assert refused.value.exit_code == 5
    assert refused.value.findings


def test_finished_job_is_not_stopped_and_running_job_not_cancelled_as_pending():
    over, runs = Api(describe_training_job=describe("Completed", "Completed")), Api(describe_training_job=describe())
    assert not source(over).cancel(JOB)
    assert not source(runs).cancel(JOB, only_pending=True)
    assert {name for name, _ in (*over.requests, *runs.requests)} == {"describe_training_job"}


def test_cancelled_pending_job_awaited_until_stopped():
    states = [describe(secondary="Pending"), describe("Stopping", "Stopping"), describe("Stopped", "Stopped")]
    api = Api(describe_training_job=states, stop_training_job={})
    job_source = source(api)
    job_source.sleep = lambda _: None
    assert job_source.cancel(JOB, only_pending=True)
    assert [name for name, _ in api.requests].count("stop_training_job") == 1
    assert not states


def test_silent_api_is_unreachable_and_not_end_of_job():
    with pytest.raises(UnreachableError):
        source(Api(describe_training_job="ThrottlingException: slow down")).facts(JOB)
    assert source(Api(describe_training_job="ValidationException: Requested resource not found.")).facts(JOB) is None


def test_logs_of_nodes_are_merged_by_time_with_host_prefix():
    def event(moment, host, text):
        return {"timestamp": moment, "logStreamName": f"{JOB.job}/{host}-170000", "message": text}

    pages = [
        {"events": [event(3, "algo-1", "c\n"), event(1, "algo-10", "a")], "nextToken": "2"},
        {"events": [event(2, "algo-2", "b")]},
        {"events": [event(9, "algo-1", "d")]},
    ]
    logs = Api(filter_log_events=pages)
    read = NodeLogs(session=session(logs=logs), job=JOB.job, settle_s=0.0)
    assert read.read(NOW, whole=False) == b"[algo-10] a\n[algo-2] b\nc\n"
    assert read.read(NOW, whole=True) == b"[algo-10] a\n[algo-2] b\nc\nd\n"
    first, _, later = (arguments for _, arguments in logs.requests)
    assert later["startTime"] == first["endTime"] + 1


def test_missing_log_group_gives_no_lines():
    logs = Api(filter_log_events="ResourceNotFoundException: no group")
    assert NodeLogs(session=session(logs=logs), job=JOB.job, settle_s=0.0).read(NOW, whole=False) == b""


def test_shell_on_training_job_nodes_refused():
    with pytest.raises(ImpossibleError, match="accept no shell") as refused:
        source(Api()).nodes(JOB)
    assert "slipway logs NAME -f" in refused.value.hint
    assert "EnableRemoteDebug" in refused.value.hint
