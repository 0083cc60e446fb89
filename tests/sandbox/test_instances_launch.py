"""Priced launches of jobs on plain instances in the sandbox: interrupted, refused, cancelled, stopped, taken down."""

import hashlib
import json
import os
from datetime import UTC, datetime

import pytest

from launcher.aws import auto_scaling
from launcher.aws.session import Session
from launcher.model.errors import DeploymentFailedError
from launcher.model.report import RunStatus
from launcher.records.submission import FILE
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import LaunchOptions, launch_quote
from launcher.workflow.run.submission_watch import NoCapacityError
from tests.sandbox.test_training_job_launch import GLOO, TRAINER

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("instances")]

STEPS = 300
PLAN = """
slipway: 1
name: bare
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: ec2, region: us-east-2, instance_type: {type}, nodes: {nodes}}}
purchase: {{option: {option}, wait_for_capacity_minutes: {wait}}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20{mode}}}
run: {{command: {command}, workdir: work{run}}}
"""


def plan(command, *, type_="g6e.8xlarge", nodes=2, option="spot", wait=30, mode="", run=""):
    values = {"command": json.dumps(command), "type": type_, "run": run}
    return PLAN.format(**values, nodes=nodes, option=option, wait=wait, mode=mode)


def written(folder, text, script):
    (folder / "plan.yaml").write_text(text)
    (folder / "work").mkdir()
    (folder / "work" / "train.py").write_text(script)
    return folder / "plan.yaml"


def launching(folder, messages, **more):
    options = {"root": folder, "sandbox": True, "scheduler": "local", **more}
    return LaunchOptions(notify=messages.append, progress=lambda now: messages.append(str(now)), **options)


def launched(folder, text, script, *, messages, **more):
    """A launch to its end: the run's folder and its report."""
    priced = price(written(folder, text, script), datetime.now(UTC), PriceOptions(any_age=True))
    return launch_quote(priced, *pick(priced, None), launching(folder, messages, **more))


def undisturbed(part):
    """What a node's run comes to that nothing disturbs."""
    state = b""
    for step in range(1, STEPS + 1):
        state = hashlib.sha256(state + f"{part} {step}".encode()).digest()
    return state.hex()


class Printed(list):
    def append(self, message):
        print(message, flush=True)
        super().append(message)


def group_in(sandbox):
    session = Session(environment=sandbox.process_environment(os.environ), region="us-east-2")
    return auto_scaling.describe(session, "slipway-bare")


def test_two_nodes_one_reclaimed_with_notice_finish_with_the_undisturbed_result(tmp_path, sandbox):
    messages = Printed()
    text = plan(["python3", "train.py", str(STEPS)])
    run, report = launched(tmp_path, text, TRAINER, messages=messages, interrupt_after_s=0.5, emulator=sandbox)
    assert (report.status, report.scheduler, report.simulated) == (RunStatus.SUCCEEDED, "ec2", True)
    *_, last = report.attempts
    assert 0 < last.resumed_from_step < STEPS == last.last_step
    log = (run.logs / f"attempt-{len(report.attempts)}.log").read_text()
    assert f"begins at {last.resumed_from_step}\n" in log
    assert f"ends with {undisturbed(0)}" in log
    submission = run.read_json(FILE)
    assert (submission["scheduler"], submission["target"]) == ("ec2", "ec2")
    assert group_in(sandbox).desired == 0
