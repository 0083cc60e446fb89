"""Priced launches of jobs on plain instances in the sandbox: interrupted, abandoned, refused, cancelled."""

import json
import os
import re
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.answers.report import page as report_page
from launcher.aws import auto_scaling, functions, stacks
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError, SecondJobError
from launcher.model.report import EndedBy, RunStatus
from launcher.records.report_document import stored_report
from launcher.records.run_folder import latest
from launcher.records.stored_quote import stored_quote
from launcher.records.submission import FILE, read_submission
from launcher.workflow.cluster.instance_jobs import InstanceJobs, reach_instances
from launcher.workflow.history.attempts import read_events
from launcher.workflow.history.ledger_entries import entry_of
from launcher.workflow.quote.fresh import gated_quote
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from launcher.workflow.run.status import run_state
from launcher.workflow.run.submission_watch import NoCapacityError
from tests.infra.guard_modules import guard_module
from tests.sandbox.job_trainers import GLOO, TRAINER, undisturbed
from tests.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("instances")]

STEPS = 300
PLAN = """
slipway: 1
name: {name}
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: ec2, region: us-east-2, instance_type: {type}, nodes: {nodes}}}
purchase: {{option: {option}, wait_for_capacity_minutes: {wait}}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 3{mode}}}
run: {{command: {command}, workdir: work{run}}}
"""


def plan(command, *, name="bare", type_="g6e.8xlarge", nodes=2, option="spot", wait=30, mode="", run=""):
    values = {"command": json.dumps(command), "type": type_, "run": run, "name": name}
    return PLAN.format(**values, nodes=nodes, option=option, wait=wait, mode=mode)


def small(command, **more):
    """One node on demand that stores no checkpoint."""
    return plan(command, type_="g5.xlarge", nodes=1, mode=", mode: none", **{"option": "on-demand", **more})


def write(folder, text, script):
    folder.mkdir(exist_ok=True)
    (folder / "plan.yaml").write_text(text)
    (folder / "work").mkdir()
    (folder / "work" / "train.py").write_text(script)
    return folder / "plan.yaml"


def launch(folder, text, script, *, messages, **more):
    """A launch to its end: the run's folder and its report."""
    how = {"selection": None, "notify": lambda _: None}
    picked = gated_quote(write(folder, text, script), datetime.now(UTC), PriceOptions(any_age=True), **how)
    options = {"root": folder, "sandbox": True, "scheduler": "local", "progress": lambda _: None, **more}
    told = LaunchOptions(notify=messages.append, **options)
    return launch_quote(*picked, told)


def session_of(sandbox):
    return Session(environment=sandbox.process_environment(os.environ), region="us-east-2")


def group_of(sandbox, name):
    return auto_scaling.describe(session_of(sandbox), f"slipway-{name}")


class Closing(list):
    """The messages of a launch whose computer is closed at a message."""

    def __init__(self, beginning):
        super().__init__()
        self.beginning = beginning

    def append(self, message):
        super().append(message)
        if message.startswith(self.beginning):
            raise KeyboardInterrupt


def test_two_nodes_one_reclaimed_with_notice_finish_with_undisturbed_result(tmp_path, sandbox):
    messages = []
    text = plan(["python3", "train.py", str(STEPS)])
    slow = TRAINER.replace("0.05", "0.15")
    run, report = launch(tmp_path, text, slow, messages=messages, interrupt_after_s=0.2, emulator=sandbox)
    assert (report.status, report.scheduler, report.simulated) == (RunStatus.SUCCEEDED, "ec2", True)
    first, *_, last = report.attempts
    assert first.ended_by == "spot-interruption"
    assert 0 < last.resumed_from_step < STEPS == last.last_step
    log = (run.logs / f"attempt-{len(report.attempts)}.log").read_text()
    assert f"begins at {last.resumed_from_step}\n" in log
    assert f"ends with {undisturbed(0, STEPS)}" in log
    submission = run.read_json(FILE)
    assert (submission["scheduler"], submission["target"]) == ("ec2", "ec2")
    # The image that was shown before the question, and pinned.
    pinned = run.read_json("quote.json")["image"]
    stack = stacks.find(session_of(sandbox), "slipway-bare-training")
    assert (pinned["kept"], stack.inputs["ImageId"]) == (False, pinned["id"])
    until(lambda: not group_of(sandbox, "bare").desired)
    assert group_of(sandbox, "bare").job == submission["job"]


def assert_entered(nodes, instance, capfd):
    """An instance is entered in its job's folder by each command, and its ports are reached."""
    assert nodes.names == (instance,)
    until(lambda: "job=left-" in nodes.read(instance, ["sh", "-c", "echo job=$SLIPWAY_JOB_NAME"]))
    assert nodes.read(instance, ["ls", "-d", "work"]) == "work\n"
    capfd.readouterr()
    assert nodes.run(instance, ["sh", "-c", "pwd; exit 4"]) == 4
    folder = f"instances/{instance}/opt/slipway/job\n"
    command = capfd.readouterr()
    assert command.out.endswith(folder)
    assert not command.err
    keyboard, (reads, writes) = os.dup(0), os.pipe()
    os.write(writes, b"pwd; exit 3\n")
    os.close(writes)
    os.dup2(reads, 0)
    try:
        assert nodes.shell(instance) == 3
    finally:
        os.dup2(keyboard, 0)
    assert capfd.readouterr().out.endswith(folder)
    opened = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as free:
        port, local = server.getsockname()[1], free.getsockname()[1]
        free.close()
        threading.Thread(target=nodes.tunnel, args=(instance, port, local, opened.set), daemon=True).start()
        assert opened.wait(PATIENCE_S)
        with socket.create_connection(("127.0.0.1", local)) as near, server.accept()[0] as far:
            near.sendall(b"board")
            assert far.recv(5) == b"board"


def test_job_survives_closed_launcher_and_lost_instance_and_second_launch_refused(tmp_path, sandbox, capfd):
    text = plan(["python3", "train.py", str(STEPS)], name="left", nodes=1)
    with pytest.raises(KeyboardInterrupt):
        launch(tmp_path / "one", text, TRAINER, messages=Closing("attempt 1 started"), emulator=sandbox)
    submission = recorded_anyhow(tmp_path / "one", sandbox)
    source = reach_instances(submission, sandbox.process_environment(os.environ)).source
    messages = []
    with pytest.raises(SecondJobError, match=f"job {submission.job} runs on the instances of left"):
        launch(tmp_path / "two", text, TRAINER, messages=messages, emulator=sandbox)
    assert not [line for line in messages if "slipway down" in line and "remove" in line], messages
    (instance,) = group_of(sandbox, "left").running
    assert isinstance(source, InstanceJobs)
    assert_entered(replace(source, sessions=sandbox.sessions).nodes(submission.submitted_job), instance, capfd)
    until(lambda: source.read(submission.submitted_job, {"events.jsonl": 0})["events.jsonl"])
    sandbox.fail_node("slipway-left", instance)
    facts = until(lambda: (facts := source.facts(submission.submitted_job)).state.final and facts)
    assert (facts.state, facts.restarts) == ("completed", 1)
    log = source.read(submission.submitted_job, {"log.txt": 0})["log.txt"].data.decode()
    assert f"ends with {undisturbed(0, STEPS)}" in log
    until(lambda: not group_of(sandbox, "left").desired and not group_of(sandbox, "left").states)


def recorded_anyhow(root, sandbox):
    """The submission of a launch whose own sandbox would have ended with it."""
    document = latest("left", root).read_json(FILE)
    document["head_node"]["instance"] = "a sandbox that stays"
    latest("left", root).write_json(FILE, document)
    return read_submission(latest("left", root))


def guard_at(sandbox, name, now):
    """One check of a plan's deployed guard, at a time."""
    session = session_of(sandbox)
    resources = stacks.resources(session, f"slipway-{name}-training")
    (function,) = [each.physical_id for each in resources if each.type == "AWS::Lambda::Function"]
    variables = {**functions.describe(session, function).environment, "AWS_REGION": "us-east-2"}
    with guard_module("ec2") as module:
        module.respond(module.InstanceGuard(module.Settings.of(variables), session.client, now), {})


def test_job_stopped_at_its_time_to_live_has_reason_of_guard_in_launch_status_and_report(tmp_path, sandbox):
    text = plan(["python3", "train.py", "9000"], name="lives", nodes=1) + "guardrails: {ttl_h: 2}\n"
    messages = []

    def ends(_):
        """The first time that the launch looks after the first checkpoint: two hours are over."""
        if not any(state.saved_step for state in progress):
            return False
        guard_at(sandbox, "lives", datetime.now(UTC) + timedelta(hours=2))
        progress.clear()
        return False

    progress = []
    with pytest.raises(DeploymentFailedError, match="was cancelled"):
        launch(tmp_path, text, TRAINER, messages=messages, emulator=sandbox, stop_when=ends, progress=progress.append)
    reason = "its 2 hours have ended"
    assert any(line.endswith(f": {reason}") and line.startswith("the guard stopped") for line in messages), messages
    folder = latest("lives", tmp_path)
    state = run_state("lives", folder, sandbox.process_environment(os.environ))
    for report in (stored_report(folder), state.report):
        assert (report.guard_reason, report.attempts[-1].ended_by) == (reason, EndedBy.TIME_LIMIT)
    assert state.attempts[-1].ended_by == entry_of("lives", folder).ended_by == EndedBy.TIME_LIMIT
    until(lambda: not group_of(sandbox, "lives").states)


@pytest.mark.slow
class TestEndings:
    """What else a job comes to, in one sandbox that stays for all of them."""

    @pytest.mark.torch
    def test_torchrun_on_two_nodes_needs_no_options(self, tmp_path, sandbox):
        command = ["python3", "-m", "torch.distributed.run", "--nproc-per-node=1", "train.py"]
        text = plan(command, name="gloo", option="on-demand", mode=", mode: none")
        run, report = launch(tmp_path, text, GLOO, messages=[], emulator=sandbox)
        assert report.status is RunStatus.SUCCEEDED
        assert re.search(r"^rank 0 of 2 sums to 3$", (run.logs / "attempt-1.log").read_text(), re.MULTILINE)

    def test_finally_failing_command_in_targeted_reservation_fails_launch_with_exit_code(self, tmp_path, sandbox):
        messages, ec2 = [], session_of(sandbox).client("ec2")
        reserved = ec2.create_capacity_reservation(
            InstanceType="g5.xlarge",
            InstancePlatform="Linux/UNIX",
            InstanceCount=1,
            AvailabilityZoneId="use2-az1",
            InstanceMatchCriteria="targeted",
        )["CapacityReservation"]["CapacityReservationId"]
        text = small(["python3", "train.py"], name="fails").replace("nodes: 1", "nodes: 1, az_id: use2-az1")
        text = text.replace("option: on-demand", f"option: on-demand, reservation: {{id: {reserved}}}")
        with pytest.raises(DeploymentFailedError) as refused:
            launch(tmp_path, text, "raise SystemExit(3)", messages=messages, emulator=sandbox)
        assert refused.value.exit_code == 6
        assert any("failed: it failed more often than run.retries allows; ended with exit 3" in m for m in messages)
        until(lambda: not group_of(sandbox, "fails").desired)
        started = ec2.describe_instances(Filters=[{"Name": "instance-type", "Values": ["g5.xlarge"]}])["Reservations"]
        used = [instance.get("CapacityReservationId") for each in started for instance in each["Instances"]]
        assert reserved in used

    def test_no_capacity_in_any_zone_cancels_job_and_empties_group(self, tmp_path, sandbox):
        sandbox.limit_instances(lacking=["g5.xlarge"])
        try:
            text = small(["true"], name="none", wait=0.05)
            with pytest.raises(NoCapacityError, match=r"do not have sufficient g5\.xlarge capacity") as refused:
                launch(tmp_path, text, "", messages=[], emulator=sandbox, give_up=lambda: True)
        finally:
            sandbox.limit_instances()
        assert (refused.value.exit_code, group_of(sandbox, "none").desired) == (6, 0)
        assert json.loads((latest("none", tmp_path).path / FILE).read_text())["cancelled"]

    def test_job_without_capacity_and_without_another_candidate_waits_on_and_runs(self, tmp_path, sandbox):
        """The launch says that the limit is over; the job runs when there is capacity."""
        sandbox.limit_instances(lacking=["g5.xlarge"])
        said = "no capacity within 0.05 minutes: the job continues to wait; slipway cancel waits ends it"
        messages = []

        def free():
            """Capacity after the message, or without it after a minute."""
            for _ in range(600):
                if said in messages:
                    break
                time.sleep(0.1)
            sandbox.limit_instances()

        text, capacity = small(["true"], name="waits", wait=0.05), threading.Thread(target=free)
        capacity.start()
        try:
            _, report = launch(tmp_path, text, "", messages=messages, emulator=sandbox)
        finally:
            capacity.join()
        assert report.status is RunStatus.SUCCEEDED
        assert messages.count(said) == 1

    def test_capacity_refused_in_two_zones_starts_job_in_third(self, tmp_path, sandbox):
        zones = ("use2-az1", "use2-az2", "use2-az3")
        sandbox.limit_instances(lacking=[f"g5.xlarge/{zone}" for zone in zones[:2]])
        text = small(["true"], name="third") + f"network: {{name: zones, az_ids: [{', '.join(zones)}]}}\n"
        try:
            run, report = launch(tmp_path, text, "", messages=[], emulator=sandbox)
        finally:
            sandbox.limit_instances()
        assert report.status is RunStatus.SUCCEEDED
        (node,) = {event["node"] for event in read_events(run.events) if event["event"] == "attempt-started"}
        (found,) = session_of(sandbox).client("ec2").describe_instances(InstanceIds=[node])["Reservations"]
        ec2 = session_of(sandbox).client("ec2")
        names = {zone["ZoneName"]: zone["ZoneId"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]}
        assert names[found["Instances"][0]["Placement"]["AvailabilityZone"]] == "use2-az3"

    def test_fallback_type_starts_without_capacity_of_first_type(self, tmp_path, sandbox):
        """Launch line, report, ledger and cost name the type and the zone, and count the type's own rate."""
        sandbox.limit_instances(lacking=["g5.xlarge"])
        messages = []
        text = small(["true"], name="other").replace("nodes: 1", "nodes: 1, fallback_types: [g6.xlarge]")
        try:
            run, report = launch(tmp_path, text, "", messages=messages, emulator=sandbox)
        finally:
            sandbox.limit_instances()
        assert report.status is RunStatus.SUCCEEDED
        (attempt,) = report.attempts
        (zone,) = attempt.zones
        assert attempt.instance_types == ("g6.xlarge",)
        assert any(message.startswith("started: 1 x g5.xlarge or g6.xlarge for job") for message in messages)
        assert any(re.search(rf"attempt 1 started on i-\w+ \(g6\.xlarge {zone}\)", message) for message in messages)
        shown = "\n".join(report_page(report, 80))
        assert f"attempt 1 on g6.xlarge {zone}" in shown
        assert "job hours at $0.8048 an hour on g6.xlarge" in shown
        quoted = stored_quote(run)
        assert dict(quoted.rates.type_usd_per_hour) == {"g5.xlarge": Decimal("1.006"), "g6.xlarge": Decimal("0.8048")}
        assert report.usd_at_quoted_rate == pytest.approx(Decimal("0.8048") * Decimal(report.actual_hours), abs=0.0001)
        assert report.usd_used < quoted.cost.used_usd(report.actual_hours)
        entry = entry_of("other", run)
        assert (entry.places, entry.other_types) == ((f"g6.xlarge {zone}",), ("g6.xlarge",))
        assert entry.usd_used == report.usd_used

    def test_time_to_live_ends_instances_of_a_launch_without_a_budget(self, tmp_path, sandbox, monkeypatch):
        """The guard's own code, called as often as on AWS, here every two seconds instead of five minutes."""
        monkeypatch.setattr("launcher.workflow.run.guard_calls.GUARD_EVERY_S", 2.0)
        messages = []
        text = plan(["python3", "train.py", "3000"], name="old", nodes=1) + "guardrails: {ttl_h: 0.01}\n"
        with pytest.raises(DeploymentFailedError, match="was cancelled"):
            launch(tmp_path, text, TRAINER, messages=messages, emulator=sandbox)
        assert any("the guard stopped the nodes of job" in message for message in messages)
        report = stored_report(latest("old", tmp_path))
        assert (report.status, report.guard_reason) == (RunStatus.CANCELLED, "its 0.01 hours have ended")
        assert report.attempts[-1].ended_by is EndedBy.TIME_LIMIT
        until(lambda: not group_of(sandbox, "old").states)

    def test_cancelled_job_saves_before_instances_end(self, tmp_path, sandbox):
        text = plan(["python3", "train.py", "3000"], name="cancelled", nodes=1)
        with pytest.raises(DeploymentFailedError, match="was cancelled") as refused:
            launch(tmp_path, text, TRAINER, messages=[], emulator=sandbox, stop_when=lambda _: True)
        assert refused.value.exit_code == 6
        (report,) = tmp_path.glob(".slipway/runs/cancelled/2*/report.json")
        document = json.loads(report.read_text())
        assert document["status"] == "cancelled"
        until(lambda: not group_of(sandbox, "cancelled").states)

    def test_instances_failing_to_start_job_replaced_twice_with_log_lines(self, tmp_path, sandbox, monkeypatch):
        monkeypatch.setattr("launcher.targets.ec2.files.INSTANCE_SCRIPT", "templates/kubernetes/fetch_job.py")
        messages = []
        with pytest.raises(DeploymentFailedError) as failed:
            launch(tmp_path, small(["true"], name="unfit"), "", messages=messages, emulator=sandbox)
        assert "the lines above name the reason" in failed.value.hint
        assert any("3 instances could not start the job; the last:" in message for message in messages)
        until(lambda: not group_of(sandbox, "unfit").desired)

    def test_unreadable_secret_named_in_log_of_job(self, tmp_path, sandbox):
        arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:none-AbCdEf"
        text = small(["true"], name="unread", run=f", secrets: {{HF_TOKEN: '{arn}'}}")
        with pytest.raises(DeploymentFailedError, match="the job failed"):
            launch(tmp_path, text, "", messages=[], emulator=sandbox)
        (log,) = tmp_path.glob(".slipway/runs/unread/2*/logs/attempt-1.log")
        assert re.match(
            r"slipway: cannot read the job's secrets: run.secrets.HF_TOKEN: .*ResourceNotFound", log.read_text()
        )

    def test_whole_secret_named_in_log_of_job_and_set_for_command(self, tmp_path, sandbox):
        secrets = session_of(sandbox).client("secretsmanager")
        arn = secrets.create_secret(Name="whole", SecretString='{"user": "ada"}')["ARN"]
        script = "import os; print('has', os.environ['LOGIN'], 'SLIPWAY_REMARKS' in os.environ)"
        text = small(["python3", "train.py"], name="whole", run=f", secrets: {{LOGIN: '{arn}'}}")
        run, _ = launch(tmp_path, text, script, messages=[], emulator=sandbox)
        log = (run.logs / "attempt-1.log").read_text()
        assert "LOGIN is the whole JSON text of a secret with the keys ['user']" in log
        assert 'has {"user": "ada"} False' in log
