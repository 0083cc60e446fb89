"""An example for HyperPod in the sandbox: deployed, run on two nodes of which one fails, removed."""

import json
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.model.report import Report, RunStatus
from launcher.records.run_folder import RunFolder
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.sandbox.example_plans import TRAINER_STEPS, patient_changes
from tests.sandbox.hyperpod_examples import down, example, remains

REGION = "us-east-2"
SCHEDULERS = [
    pytest.param("slurm", marks=[pytest.mark.slurm, pytest.mark.xdist_group("slurm-launch")]),
    pytest.param("local", marks=[pytest.mark.slow, pytest.mark.xdist_group("launch")]),
]


@dataclass(frozen=True)
class Launched:
    """What a launch of the example left, and what was there of its cluster after `slipway down`."""

    folder: RunFolder
    report: Report
    messages: list[str]
    before: set[str]
    after: set[str]
    kept: set[str]
    left: dict[str, list[object]]

    def steps(self, attempt):
        log = (self.folder.logs / f"attempt-{attempt}.log").read_text()
        return [int(step) for step in re.findall(r"^step (\d+)/", log, re.MULTILINE)]


@pytest.fixture(scope="module", params=SCHEDULERS)
def hyperpod_launch(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("pod")
    plan = example("p5-training-plan", root, patient_changes(root))
    priced = price(plan, datetime.now(UTC), PriceOptions(any_age=True))
    rank, quote = pick(priced, None)
    messages, observed = [], []
    with Sandbox(region=REGION, scheduler=request.param) as sandbox, pytest.MonkeyPatch.context() as patch:
        # The example says python3: it needs NumPy, which stands beside this interpreter.
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

        def notify(line):
            messages.append(line)
            if line.startswith("submitted") or "automatic recovery" in line:
                observed.append({node.instance_id for node in sandbox.nodes("slipway-p5-plan")})

        options = LaunchOptions(
            root=root, sandbox=True, interrupt_after_s=0.2, notify=notify, progress=lambda _: None, emulator=sandbox
        )
        folder, report = launch_quote(priced, rank, quote, options)
        document = down(plan, sandbox, root)
        remaining = remains(sandbox)
    assert report.scheduler == request.param
    before, after = observed
    kinds = {resource["kind"] for resource in document["kept"]}
    return Launched(
        folder=folder, report=report, messages=messages, before=before, after=after, kept=kinds, left=remaining
    )


def test_job_survives_lost_node(hyperpod_launch):
    assert hyperpod_launch.report.status is RunStatus.SUCCEEDED
    first, second = hyperpod_launch.report.attempts
    assert (first.ended_by, first.exit_code, first.resumed_from_step) == ("node-lost", None, 0)
    assert (second.ended_by, second.exit_code, second.last_step) == ("completed", 0, TRAINER_STEPS)
    assert 0 < second.resumed_from_step <= first.last_step < TRAINER_STEPS
    assert first.started_at < first.ended_at <= second.started_at


def test_resumed_attempt_restores_from_s3(hyperpod_launch):
    resumed = hyperpod_launch.report.attempts[1].resumed_from_step
    assert min(hyperpod_launch.steps(1)) <= resumed < min(hyperpod_launch.steps(2))
    lines = (hyperpod_launch.folder.logs / "s3-requests.jsonl").read_text().splitlines()
    began = hyperpod_launch.report.attempts[1].started_at.isoformat()
    ours = [request for request in map(json.loads, lines) if f"/step-{resumed}/" in request["path"]]
    assert [request for request in ours if request["method"] == "PUT" and request["time"] < began]
    assert [request for request in ours if request["method"] == "GET" and request["time"] >= began]


def test_one_of_two_nodes_replaced_without_notice(hyperpod_launch):
    events = [json.loads(line)["event"] for line in hyperpod_launch.folder.events.read_text().splitlines()]
    assert "notice" not in events
    assert len(hyperpod_launch.before) == len(hyperpod_launch.after) == 2
    assert len(hyperpod_launch.before & hyperpod_launch.after) == 1
    assert any("fails, with the job on it" in line for line in hyperpod_launch.messages)


def test_deployment_is_verified_and_unemulated_resources_named(hyperpod_launch):
    verified, not_emulated = hyperpod_launch.report.verified_resources, hyperpod_launch.report.not_emulated
    for start in ("HyperPod cluster: InService", "group workers: ml.p5.48xlarge 2 Compute", "file system, GiB: 1200"):
        assert any(resource.startswith(start) for resource in verified), (start, verified)
    assert any(re.match(r"workers' training plan: arn:aws:sagemaker:.*/p5-december", resource) for resource in verified)
    assert "Slurm's partitions and nodes: p5-48xlarge 2" in verified
    assert not [entry for entry in not_emulated if "Slipway has no check for it" in entry]
    for part in (
        "srun --auto-resume",
        "on_create.sh (its commands as root)",
        "EFA interfaces",
        "OnStartDeepHealthChecks",
    ):
        assert any(part in entry for entry in not_emulated), (part, not_emulated)
    assert any("p5-december: emulated" in entry for entry in not_emulated)


def test_down_retains_only_checkpoints(hyperpod_launch):
    assert hyperpod_launch.left.pop("stacks") == ["slipway-p5-plan-checkpoints"]
    assert hyperpod_launch.kept == {"checkpoints", "logs"}
    assert hyperpod_launch.left == {name: [] for name in ("schedulers", "clusters", "file systems", "links")}
