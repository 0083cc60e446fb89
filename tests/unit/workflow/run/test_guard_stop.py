"""Why the guard stopped a job's nodes: in the followed launch, `status`, the report and the ledger."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from moto import mock_aws

from launcher.agent.shape import moment
from launcher.answers import report as report_page
from launcher.answers import status as status_page
from launcher.answers.html import report as html_report
from launcher.aws.session import Session
from launcher.model.enums import TargetKind
from launcher.model.job import JobFacts, JobState, Submitted
from launcher.model.report import RunStatus
from launcher.records.report_document import report_document, stored_report
from launcher.records.run_folder import RunFolder
from launcher.records.run_state import RunState
from launcher.records.submission import HeadNode, Submission
from launcher.workflow.cluster.guard_stop import NO_STOP, guard_stop
from launcher.workflow.history.attempts import read_events, record_stop, recorded_stop
from launcher.workflow.run.status import run_state, running_state, without_removed
from launcher.workflow.run.submission_watch import REQUEUE_S, STOP_AGAIN_S, JobCancelledError, Mirror, RemoteWatch
from launcher.workflow.run.timeline import timeline
from tests.unit.records.reports import ENDPOINT, REPORT

REASON = "3 nodes in a row failed to boot (i-1, i-2, i-3). The last lines of i-3:\n  an accelerator is missing"
WAITING = JobFacts(state=JobState.PENDING, word="PENDING", reason="Resources", restarts=0, nodes=(), attempt=None)
REGION, FOLDER = "us-east-2", "jobs/.guard/8131d980"
VARIABLES = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}


class Scheduler:
    """A scheduler with one waiting job."""

    def __init__(self, *, cancels=True):
        self.answer, self.cancels, self.cancelled = WAITING, cancels, []

    def facts(self, _job):
        return self.answer

    def cancel(self, job, *, only_pending=False):
        self.cancelled.append((job.job, only_pending))
        return self.cancels

    def read(self, _job, offsets):
        return dict.fromkeys(offsets)

    def log_name(self, _job):
        return "log"


@pytest.fixture
def follow(tmp_path):
    """A watch of a scheduler, the guard's reasons in turn, and the clock."""

    def make(scheduler, *reasons):
        answers, now = list(reasons), [0.0]
        watch = RemoteWatch(
            mirror=Mirror(source=scheduler, job=Submitted(job="7", key="k", folder="f"), folder=tmp_path / "mirror"),
            poll_s=1.0,
            notify=lambda _: None,
            guard_stop=lambda: answers.pop(0),
            clock=lambda: now[0],
        )
        return watch, now

    return make


def test_launch_with_failed_boots_ends_with_6_and_log_lines(follow):
    scheduler = Scheduler()
    watch, now = follow(scheduler, NO_STOP[:2], (REASON, False))
    assert not watch.ended()
    now[0] = STOP_AGAIN_S + 1
    with pytest.raises(JobCancelledError, match="an accelerator is missing") as raised:
        watch.ended()
    assert raised.value.exit_code == 6
    assert scheduler.cancelled == [("7", True)]


def test_guard_stop_is_read_once_a_minute(follow):
    watch, now = follow(Scheduler(), NO_STOP[:2])
    for second in range(0, 50, 5):
        now[0] = float(second)
        assert not watch.ended()


def test_running_job_is_not_ended_by_failed_boots(follow):
    scheduler = Scheduler()
    scheduler.answer = replace(WAITING, state=JobState.RUNNING, word="RUNNING")
    watch, _ = follow(scheduler, (REASON, False))
    assert not watch.ended()
    assert scheduler.cancelled == []


@pytest.mark.parametrize("reason", ["", "its 2 hours have ended", "no further instance fits the $40 of budget.max_usd"])
def test_job_that_the_guard_has_stopped_ends_with_the_reason(follow, reason):
    scheduler, lines = Scheduler(), []
    scheduler.answer = replace(WAITING, state=JobState.CANCELLED, word="stopped", reason="")
    watch, _ = follow(scheduler, (reason, False))
    watch.notify = lines.append
    assert watch.ended()
    assert lines == ([f"the guard stopped the nodes of job 7: {reason}"] if reason else [])


def test_job_of_pods_that_failed_with_its_stopped_nodes_ends_with_the_reason(follow):
    scheduler, lines = Scheduler(), []
    scheduler.answer = replace(WAITING, state=JobState.FAILED, word="Failed", reason="")
    watch, now = follow(scheduler, ("its 2 hours have ended", True))
    watch.notify = lines.append
    assert not watch.ended()
    now[0] = REQUEUE_S + 1
    assert watch.ended()
    (line,) = lines
    assert line == "the guard stopped the nodes of job 7: its 2 hours have ended"


def test_lines_of_nodes_are_lines_of_the_launch(follow):
    scheduler, lines = Scheduler(), []
    reason = "3 instances could not start the job; the last:\nmkfs.xfs: no space left on device"
    scheduler.answer = replace(WAITING, state=JobState.FAILED, word="failed", reason=reason)
    watch, now = follow(scheduler, NO_STOP[:2])
    watch.notify = lines.append
    assert not watch.ended()
    now[0] = REQUEUE_S + 1
    assert watch.ended()
    assert lines == [f"job 7 failed: {reason.splitlines()[0]}", "mkfs.xfs: no space left on device"]


@pytest.fixture
def submission():
    """A job's submission to a cluster whose guard has a folder in a store (moto)."""
    with mock_aws():
        session = Session(environment=VARIABLES, region=REGION)
        session.client("s3").create_bucket(Bucket="store", CreateBucketConfiguration={"LocationConstraint": REGION})
        body = {
            "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
            "Outputs": {"GuardMessageUri": {"Value": f"s3://store/{FOLDER}/messages"}},
        }
        session.client("cloudformation").create_stack(StackName="slipway-tiny-training", TemplateBody=json.dumps(body))
        yield Submission(
            key="k",
            target=TargetKind.PCS,
            head_node=HeadNode(via="ssm", instance="i-1", region=REGION),
            cluster="tiny",
            folder="f",
            store_uri="s3://store/jobs",
            checkpoint_uri="s3://store/jobs/tiny",
            work={},
            asked_at=datetime.now(UTC) - timedelta(minutes=5),
            job="7",
        )


def test_waiting_job_stays_after_a_stop_and_the_reason_is_shown_once(follow):
    scheduler, lines = Scheduler(), []
    watch, now = follow(scheduler, *[("its 2 hours have ended", True)] * 3)
    watch.notify = lines.append
    for _ in range(3):
        assert not watch.ended()
        now[0] += STOP_AGAIN_S + 1
    assert scheduler.cancelled == []
    assert [line for line in lines if line.startswith("the guard")] == [
        "the guard stopped the nodes: its 2 hours have ended"
    ]
    (told,) = [line for line in lines if line.startswith("job 7 waits until nodes start again")]
    assert "slipway cancel NAME" in told


def test_job_that_found_no_nodes_after_a_stop_ends_with_the_reason_of_the_guard(follow):
    scheduler = Scheduler()
    watch, now = follow(scheduler, ("its 2 hours have ended", True), ("its 2 hours have ended", True))
    watch.waits_s, watch.give_up = 60.0, lambda: True
    assert not watch.ended()
    now[0] = STOP_AGAIN_S + 1
    scheduler.cancel = lambda *_args, **_kind: setattr(scheduler, "answer", None)
    with pytest.raises(JobCancelledError, match=r"stopped the nodes \(its 2 hours have ended\), and none started"):
        watch.ended()


def test_cancelled_job_of_a_cluster_whose_idle_nodes_stopped_later_names_no_guard(follow):
    scheduler, lines = Scheduler(), []
    scheduler.answer = replace(WAITING, state=JobState.CANCELLED, word="CANCELLED", reason="")
    watch, _ = follow(scheduler, ("its 2 nodes have been idle for 5 minutes", True))
    watch.notify = lines.append
    assert watch.ended()
    assert lines == []


def write(body):
    client = Session(environment=VARIABLES, region=REGION).client("s3")
    client.put_object(Bucket="store", Key=f"{FOLDER}/sent/stopped.json", Body=body)


def stop(**more):
    return json.dumps({"schema": "slipway.guard-stop/1", "at": "2026-11-28T09:00:00Z", "text": REASON, **more})


def test_reason_of_a_stop_is_newer_than_submission_and_last_attempt(submission):
    began, later = datetime.now(UTC) - timedelta(minutes=1), datetime.now(UTC) + timedelta(minutes=5)
    assert guard_stop(submission, VARIABLES, None) == NO_STOP
    write(stop())
    stopped = (REASON, False, {})
    assert guard_stop(submission, VARIABLES, None) == guard_stop(submission, VARIABLES, began) == stopped
    assert guard_stop(submission, VARIABLES, later) == NO_STOP
    assert guard_stop(replace(submission, asked_at=later), VARIABLES, began) == NO_STOP
    write(stop(jobs_wait=True))
    assert guard_stop(submission, VARIABLES, None) == (REASON, True, {})
    write(stop(ended_by="budget"))
    assert guard_stop(submission, VARIABLES, None).end["ended_by"] == "budget"
    # S3's own time: the guard's clock in the sandbox counts faster.
    assert moment(guard_stop(submission, VARIABLES, None).end["at"]) > datetime.now(UTC) - timedelta(minutes=1)


def test_stop_of_a_stack_of_an_earlier_version_is_read_from_its_folder(submission):
    session = Session(environment=VARIABLES, region=REGION)
    body = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {"GuardMessageUri": {"Value": f"s3://store/{FOLDER}/trouble"}},
    }
    session.client("cloudformation").create_stack(StackName="slipway-old-training", TemplateBody=json.dumps(body))
    session.client("s3").put_object(Bucket="store", Key=f"{FOLDER}/told/stopped.json", Body=stop())
    assert guard_stop(replace(submission, cluster="old"), VARIABLES, None) == (REASON, False, {})


@pytest.mark.parametrize("body", ["", "{", "[]", '{"text"', '"x"'])
def test_unreadable_guard_stop_gives_no_reason(submission, body):
    write(body)
    assert guard_stop(submission, VARIABLES, None) == NO_STOP


def test_guard_stop_of_plain_instances_is_read_without_a_head_node(submission):
    write(stop())
    instances = replace(submission, target=TargetKind.EC2, head_node=HeadNode(via="api", host="h", region=REGION))
    assert guard_stop(instances, VARIABLES, None) == (REASON, False, {})


@pytest.mark.parametrize("via", ["ssh", "local", "context"])
def test_foreign_cluster_has_no_guard_stop(submission, via):
    write(stop())
    other = replace(submission, head_node=HeadNode(via=via, host="h"))
    assert guard_stop(other, VARIABLES, None) == NO_STOP


def test_recorded_reason_of_the_guard_outlives_its_stack(tmp_path):
    folder = RunFolder(path=tmp_path)
    assert recorded_stop(read_events(folder.events)) == ""
    for reason in ("", "its 1 hour has ended", "its 1 hour has ended", REASON):
        assert record_stop(folder, reason) == reason
    assert recorded_stop(read_events(folder.events)) == REASON
    assert len(folder.events.read_text(encoding="utf-8").splitlines()) == 2


def test_recorded_reason_does_not_concern_a_later_attempt(tmp_path):
    folder, began = RunFolder(path=tmp_path), datetime.now(UTC) - timedelta(minutes=5)
    record_stop(folder, REASON, began)
    events = read_events(folder.events)
    assert recorded_stop(events, began) == REASON
    later = datetime.now(UTC) + timedelta(seconds=1)
    assert recorded_stop(events, later) == ""


@pytest.mark.parametrize("reason", [REASON, ""])
def test_reason_of_guard_is_one_text_in_report_status_and_json(tmp_path, reason):
    folder = RunFolder(path=tmp_path)
    folder.write_json("report.json", report_document(replace(report(RunStatus.CANCELLED), guard_reason=reason)))
    stored, state = stored_report(folder), run_state("tiny", folder, {})
    assert stored.guard_reason == state.report.guard_reason == reason
    for document in (report_document(stored), status_page.document(state)):
        assert document["guard_reason"] == (reason or None)
    html = html_report.page(stored, timeline(folder, ()))
    for lines in (report_page.page(stored, 200), status_page.page(state, 200), html.splitlines()):
        assert any("the guard stopped the nodes: 3 nodes in a row" in line for line in lines) is bool(reason)


@pytest.mark.parametrize(
    "reason, facts, told",
    [
        (REASON, WAITING, True),
        ("", WAITING, False),
        (REASON, None, False),
        (REASON, replace(WAITING, state=JobState.RUNNING), False),
    ],
)
def test_status_of_a_job_that_waits_after_a_stop_names_what_to_do(submission, reason, facts, told):
    stopped = replace(report(RunStatus.RUNNING), guard_reason=reason)
    shipped = replace(submission, work={"files": 1, "bytes": 5, "sha256": "0" * 64})
    state = RunState(
        name="tiny", run="r", status="running", submission=shipped, facts=facts, report=stopped, attempts=()
    )
    text = " ".join(line.strip() for line in status_page.page(state, 80))
    advice = "job 7 waits until nodes start again: the stack's output StartFleet has the command; slipway cancel tiny"
    assert (advice in text) is told


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.RUNNING], ids=["failed with its pods", "runs again"])
def test_stop_of_pods_of_job_that_failed_or_runs_again_is_the_cause_of_their_attempt(tmp_path, submission, state):
    again = state is JobState.RUNNING
    reason = "" if again else "its 2 hours have ended"
    folder = RunFolder(path=tmp_path)
    folder.write_json("report.json", report_document(report(RunStatus.RUNNING)))
    write(stop(text="its 2 hours have ended", jobs_wait=True, ended_by="time-limit"))
    now = datetime.now(UTC)
    events = [
        {"event": "attempt-started", "attempt": 1, "time": (now - timedelta(minutes=2)).isoformat()},
        {"event": "interrupted", "attempt": 1, "time": (now + timedelta(seconds=2)).isoformat(), "notice": "pod-end"},
        {"event": "attempt-started", "attempt": 2, "time": (now + timedelta(minutes=1)).isoformat()},
    ]
    (tmp_path / "job").mkdir()
    lines = [f"{json.dumps(event)}\n" for event in events[: 3 if again else 2]]
    (tmp_path / "job" / "events.jsonl").write_text("".join(lines))
    facts = replace(WAITING, state=state, word="Failed", reason="")
    for _ in range(2):
        read = running_state("tiny", folder, submission, facts, VARIABLES)
    assert [attempt.ended_by for attempt in read.attempts] == ["time-limit", *([None] if again else [])]
    assert (read.report.guard_reason, stored_report(folder).guard_reason) == (reason, reason)
    assert len(folder.events.read_text().splitlines()) == 1


def report(status):
    return replace(REPORT, name="tiny", status=status, scheduler="ec2", simulated=True, attempts=())


def test_ended_job_of_removed_instances_has_no_cost_until_down(submission):
    instances = replace(submission, target=TargetKind.EC2, head_node=HeadNode(via="api", host="h", region=REGION))
    costs = replace(report(RunStatus.SUCCEEDED), left_up_usd_per_hour=Decimal("0.03"))
    state = RunState(
        name="tiny", run="r", status="succeeded", submission=instances, facts=None, report=costs, attempts=()
    )
    lines = []
    assert without_removed(state, instances, VARIABLES, lines.append) == state
    Session(environment=VARIABLES, region=REGION).client("cloudformation").delete_stack(
        StackName="slipway-tiny-training"
    )
    ended = without_removed(state, instances, VARIABLES, lines.append)
    assert ended.report.left_up_usd_per_hour is None
    assert lines == ["cluster tiny is gone"]


@pytest.fixture
def endpoint_run(tmp_path):
    """The folder of an endpoint's run, and a function that stores a guard's state in the account (moto)."""
    with mock_aws():
        session = Session(environment=VARIABLES, region=REGION)
        template = json.dumps({"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}})
        session.client("cloudformation").create_stack(StackName="slipway-tiny-serving", TemplateBody=template)
        folder = RunFolder(path=tmp_path)
        plan = {"slipway": 1, "name": "tiny", "target": {"kind": "sagemaker-endpoint", "region": REGION}}
        folder.write_json("plan.json", plan)
        served = replace(ENDPOINT, region=REGION)
        costs = Decimal("1.22")
        folder.write_json(
            "report.json",
            report_document(
                replace(REPORT, name="tiny", attempts=(), endpoint=served, simulated=False, left_up_usd_per_hour=costs)
            ),
        )

        def write_state(**state):
            session.client("ssm").put_parameter(
                Name="/slipway/slipway-tiny-serving/guard", Value=json.dumps(state), Type="String", Overwrite=True
            )

        yield folder, write_state


def test_reason_of_an_ended_endpoint_is_in_status_and_report_and_outlives_its_stack(endpoint_run):
    folder, write_state = endpoint_run
    write_state(spent_usd=1.0)
    assert run_state("tiny", folder, VARIABLES).report.guard_reason == ""
    at = datetime.now(UTC) + timedelta(hours=2)
    write_state(spent_usd=1.0, stop_reason="its 2 hours have ended", stopped_at=at.isoformat())
    for _ in range(2):
        state = run_state("tiny", folder, VARIABLES)
        assert state.report == stored_report(folder)
        assert (state.report.guard_reason, state.report.left_up_usd_per_hour) == ("its 2 hours have ended", None)
        for lines in (report_page.page(state.report, 200), status_page.page(state, 200)):
            assert "  the guard stopped the endpoint: its 2 hours have ended" in lines
        write_state(spent_usd=1.0)


@pytest.mark.parametrize(
    "state",
    [
        {"stop_reason": "its 2 hours have ended", "stopped_at": "2026-01-01T00:00:00+00:00"},
        {"stop_reason": "x", "stopped_at": "?"},
        [],
    ],
    ids=["before the last deployment", "no moment", "no state"],
)
def test_stop_of_an_earlier_deployment_and_an_unreadable_state_give_no_reason(endpoint_run, state):
    folder, _ = endpoint_run
    session = Session(environment=VARIABLES, region=REGION)
    session.client("ssm").put_parameter(
        Name="/slipway/slipway-tiny-serving/guard", Value=json.dumps(state), Type="String"
    )
    assert run_state("tiny", folder, VARIABLES).report.guard_reason == ""
