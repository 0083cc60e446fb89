"""Priced launches of training jobs in the sandbox: managed spot interrupted and resumed, and other endings."""

import hashlib
import json
import os
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from threading import Timer

import pytest

from launcher.aws import training_jobs
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError, ImpossibleError
from launcher.model.report import RunStatus
from launcher.records.submission import FILE
from launcher.workflow.deploy.difference import update_obstacle
from launcher.workflow.history.attempts import read_events
from launcher.workflow.quote.fresh import Picked, gated_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.plan_launch import Fallback
from launcher.workflow.run.submission_watch import NoCapacityError
from tests.sandbox.job_trainers import GLOO, TRAINER

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("training-job")]

STEPS = 300
PLAN = """
slipway: 1
name: jobbed
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: sagemaker-training, region: us-east-2, instance_type: {type}, nodes: {nodes}}}
purchase: {{option: {option}, wait_for_capacity_minutes: {wait}{bought}}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20{mode}}}
run: {{command: {command}, workdir: work{run}}}
"""
PRICED = PriceOptions(any_age=True, everything=True)


def plan(command, *, type_="p5.48xlarge", nodes=2, option="spot", wait=30, mode="", bought="", run=""):
    values = {"command": json.dumps(command), "type": type_, "bought": bought, "run": run}
    return PLAN.format(**values, nodes=nodes, option=option, wait=wait, mode=mode)


def small(command, **more):
    """One node on demand that stores no checkpoint."""
    return plan(command, type_="g5.xlarge", nodes=1, mode=", mode: none", **{"option": "on-demand", **more})


def write(folder, text, script):
    (folder / "plan.yaml").write_text(text)
    (folder / "work").mkdir()
    (folder / "work" / "train.py").write_text(script)
    return folder / "plan.yaml"


def launching(folder, messages, **more):
    options = {"root": folder, "sandbox": True, "scheduler": "local", **more}
    return LaunchOptions(notify=messages.append, progress=lambda now: messages.append(str(now)), **options)


def launch(folder, text, script, *, messages, **more):
    """A launch to its end: the run's folder and its report."""
    priced = price(write(folder, text, script), datetime.now(UTC), PriceOptions(any_age=True))
    return launch_quote(priced, *pick(priced, None), launching(folder, messages, **more))


def window(name, begins, ends):
    """A training plan that was bought, from and until so many seconds from now."""
    now, arn = datetime.now(UTC), f"arn:aws:sagemaker:us-east-2:123456789012:training-plan/{name}"
    start, end = (f"{now + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}" for seconds in (begins, ends))
    return f", training_plan: {{arn: '{arn}', count: 2, fee_usd: 9, starts_at: {start}, ends_at: {end}}}"


def run_undisturbed(part):
    """What a node's run comes to that nothing disturbs."""
    state = b""
    for step in range(1, STEPS + 1):
        state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    return state.hex()


def test_two_nodes_lost_without_notice_finish_with_undisturbed_result(tmp_path):
    messages = []
    text = plan(["python3", "train.py", str(STEPS)])
    run, report = launch(tmp_path, text, TRAINER, messages=messages, interrupt_after_s=0.5)
    assert (report.status, report.scheduler, report.simulated) == (RunStatus.SUCCEEDED, "sagemaker", True)
    first, *_, last = report.attempts
    assert (first.ended_by, first.last_step > 0) == ("node-lost", True)
    assert 0 < last.resumed_from_step < STEPS == last.last_step
    log = (run.logs / f"attempt-{len(report.attempts)}.log").read_text()
    assert f"begins at {last.resumed_from_step}\n" in log
    assert f"ends with {run_undisturbed(0)}" in log
    assert f"[algo-2] ends with {run_undisturbed(1)}" in log
    assert "SageMaker reclaims the instances without notice" in messages
    assert report.billable.seconds < report.billable.trained_seconds < report.billable.quoted_seconds
    submission = run.read_json(FILE)
    assert (submission["scheduler"], submission["target"], submission["job"]) == (
        "sagemaker",
        "sagemaker-training",
        submission["folder"],
    )


class Heard(list):
    """What a launch says; at a message it acts on the sandbox, with the request that the launch has written."""

    def __init__(self, sandbox, folder, beginning, act):
        super().__init__()
        self.session = Session(environment=sandbox.process_environment(os.environ), region="us-east-2")
        self.folder, self.beginning, self.act = folder, beginning, act

    def append(self, message):
        super().append(message)
        if message.startswith(self.beginning):
            (path,) = self.folder.glob(".slipway/runs/jobbed/2*/rendered/sagemaker/training-job.json")
            self.act(self.session, json.loads(path.read_text()))


@pytest.mark.slow
class TestEndings:
    """What else a job comes to, in one sandbox that stays for all of them."""

    @pytest.mark.torch
    def test_torchrun_on_two_nodes_needs_no_options(self, tmp_path, sandbox):
        command = ["python3", "-m", "torch.distributed.run", "--nproc-per-node=1", "train.py"]
        text = plan(command, type_="g5.xlarge", option="on-demand", mode=", mode: none")
        run, report = launch(tmp_path, text, GLOO, messages=[], emulator=sandbox)
        assert report.status is RunStatus.SUCCEEDED
        log = (run.logs / "attempt-1.log").read_text()
        assert "rank 0 of 2 sums to 3\n" in log
        assert "rank 1 of 2 sums to 3\n" in log

    def test_finally_failing_command_fails_launch_with_reason(self, tmp_path, sandbox):
        messages = []
        with pytest.raises(DeploymentFailedError) as refused:
            launch(tmp_path, small(["python3", "train.py"]), "raise SystemExit(3)", messages=messages, emulator=sandbox)
        assert refused.value.exit_code == 6
        (failure,) = [message for message in messages if "failed: AlgorithmError" in message]
        assert "exit code 3" in failure

    def test_exceeded_quota_refused_with_quota_name(self, tmp_path, sandbox):
        sandbox.limit_training(quotas={"ml.p5.48xlarge": 1})
        try:
            with pytest.raises(DeploymentFailedError, match="is 1 Instances") as refused:
                launch(tmp_path, plan(["true"]), "", messages=[], emulator=sandbox)
        finally:
            sandbox.limit_training()
        assert (refused.value.exit_code, "spot training job usage" in refused.value.hint) == (6, True)

    def test_job_waiting_too_long_for_capacity_is_cancelled(self, tmp_path, sandbox):
        sandbox.limit_training(lacking=("spot", "on-demand"))
        try:
            with pytest.raises(NoCapacityError, match="waiting for capacity") as refused:
                launch(tmp_path, plan(["true"], wait=0.05), "", messages=[], emulator=sandbox, give_up=lambda: True)
        finally:
            sandbox.limit_training()
        assert refused.value.exit_code == 6

    def test_job_without_spot_capacity_moves_to_on_demand(self, tmp_path, sandbox):
        messages = []
        text = plan(["python3", "train.py", "20"], type_="g5.xlarge", nodes=1, option="[spot, on-demand]", wait=0.05)
        path = write(tmp_path, text, TRAINER)
        options = launching(tmp_path, messages, emulator=sandbox)
        fallback = Fallback(
            options=options,
            candidates=lambda: price(path, datetime.now(UTC), PRICED),
            requote=lambda digest: gated_quote(
                path, datetime.now(UTC), PRICED, selection=digest, notify=messages.append
            ),
            options_for=lambda _: options,
            obstacle=partial(update_obstacle, base=tmp_path, environment=sandbox.process_environment({})),
        )
        priced = fallback.candidates()
        (rank,) = [at for at, candidate in enumerate(priced.candidates, start=1) if candidate.place.option == "spot"]
        first = Picked(priced, rank, priced.quote(rank))
        sandbox.limit_training(lacking=["spot"])
        try:
            run, report = fallback.launch(first)
        finally:
            sandbox.limit_training()
        assert report.status is RunStatus.SUCCEEDED
        assert "no capacity yet; the next candidate is 1 x g5.xlarge, on demand, in us-east-2" in messages
        assert json.loads((run.path / "plan.json").read_text())["purchase"]["option"] == "on-demand"

    def test_missing_image_fails_launch_with_image_name(self, tmp_path, sandbox):
        messages = []
        image = "123456789012.dkr.ecr.us-east-2.amazonaws.com/team/none:1"
        with pytest.raises(DeploymentFailedError) as refused:
            launch(tmp_path, small(["true"], run=f", image: '{image}'"), "", messages=messages, emulator=sandbox)
        assert refused.value.exit_code == 6
        assert f"Cannot pull container image {image}" in "\n".join([*messages, str(refused.value)])

    def test_time_limit_fails_launch_with_next_step(self, tmp_path, sandbox):
        messages = []
        text = small(["python3", "train.py"], run=", time_limit_h: 0.001")
        with pytest.raises(DeploymentFailedError) as refused:
            launch(tmp_path, text, "import time; time.sleep(60)", messages=messages, emulator=sandbox)
        assert refused.value.exit_code == 6
        assert any(
            "the job reached its time limit (run.time_limit_h): launch it again" in message for message in messages
        )

    def test_stopped_training_job_is_cancelled(self, tmp_path, sandbox):
        messages = []
        # It says its step, and the launch cancels it then.
        script = TRAINER.replace("0.05", "0.2")
        text = plan(["python3", "train.py", "600"], nodes=1)
        with pytest.raises(DeploymentFailedError, match="was cancelled") as refused:
            launch(tmp_path, text, script, messages=messages, emulator=sandbox, stop_when=lambda _: True)
        assert refused.value.exit_code == 6
        (report,) = tmp_path.glob(".slipway/runs/jobbed/2*/report.json")
        document = json.loads(report.read_text())
        assert (document["status"], document["attempts"][-1]["ended_by"]) == ("cancelled", "cancel")

    def test_cancelled_job_that_handles_no_signal_ends_without_its_grace_time(self, tmp_path, sandbox):
        line = """while true; do echo '{"step": 1}' >> "$SLIPWAY_METRICS"; sleep 0.2; done"""
        command = ["sh", "-c", line]
        messages, began = [], []

        def stop(_):
            began.append(time.monotonic())
            return True

        with pytest.raises(DeploymentFailedError, match="was cancelled"):
            launch(tmp_path, plan(command, nodes=1), "", messages=messages, emulator=sandbox, stop_when=stop)
        assert time.monotonic() - began[0] < 45  # the grace time is 90 s
        (run,) = tmp_path.glob(".slipway/runs/jobbed/2*")
        (notice,) = [event for event in read_events(run / "events.jsonl") if event["event"] == "notice"]
        (end,) = [event for event in read_events(run / "events.jsonl") if event["event"] == "cancelled"]
        assert (notice["source"], end["ended_by"]) == ("cancel", "cancel")

    def test_expired_training_plan_refused(self, tmp_path, sandbox):
        text = plan(["true"], option="training-plan", bought=window("over", -9000, -60))
        with pytest.raises(ImpossibleError) as refused:
            launch(tmp_path, text, "", messages=[], emulator=sandbox)
        message = " ".join([str(refused.value), *(finding.message for finding in refused.value.findings)])
        assert (refused.value.exit_code, "ended at" in message) == (5, True)

    def test_future_training_plan_is_awaited_beyond_wait_limit(self, tmp_path, sandbox):
        def stop(session, request):
            # By then a job on demand would have been given up.
            Timer(8, partial(training_jobs.stop, session, request["TrainingJobName"])).start()

        messages = Heard(sandbox, tmp_path, "created: training job", stop)
        bought = window("later", 86400, 172800)
        text = plan(["true"], option="training-plan", wait=0.05, mode=", mode: none", bought=bought)
        with pytest.raises(DeploymentFailedError, match="was cancelled") as ended:
            launch(tmp_path, text, "", messages=messages, emulator=sandbox, give_up=lambda: True)
        assert not isinstance(ended.value, NoCapacityError)
        assert "the nodes come in 24 h, when the reservation starts: following until then" in messages

    def test_training_job_name_of_another_submission_refused(self, tmp_path, sandbox):
        def create(session, request):
            training_jobs.create(session, {**request, "Tags": []})

        messages = Heard(sandbox, tmp_path, "run.workdir: ", create)
        with pytest.raises(DeploymentFailedError, match="exists already and belongs to another submission") as refused:
            launch(tmp_path, small(["true"]), "", messages=messages, emulator=sandbox)
        assert (refused.value.exit_code, refused.value.hint) == (6, "launch again: each launch has its own name")
