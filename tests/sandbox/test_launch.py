"""A priced launch from end to end: quoted, deployed, interrupted, resumed from S3, finished, reported."""

import json
import os
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from launcher.model.report import Report, RunStatus
from launcher.records.run_folder import RunFolder
from launcher.sandbox.slurm import daemons
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import launch_quote
from launcher.workflow.run.launch_options import LaunchOptions
from tests.sandbox.example_plans import SAVING, TRAINER_STEPS, patient_work

PLAN = """
slipway: 1
name: tiny
workload: {train: {model: {params_b: 0.0002}, method: pretrain, hours: 0.5}}
target: {kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}
purchase: {option: spot}
checkpoint: {interval: 30, keep: 3, grace_seconds: 20}
"""
WITH_SLURM = daemons.available() and os.environ.get("SLURM") != "0"
SCHEDULERS = [
    pytest.param("slurm", marks=[pytest.mark.slurm, pytest.mark.xdist_group("slurm-launch")]),
    # Only the scheduler differs: it is launched again in make test-all.
    pytest.param("local", marks=[pytest.mark.xdist_group("launch"), *([pytest.mark.slow] if WITH_SLURM else [])]),
]


@dataclass(frozen=True)
class Launched:
    folder: RunFolder
    report: Report
    messages: list[str]

    def log(self, attempt: int) -> str:
        return (self.folder.logs / f"attempt-{attempt}.log").read_text()

    def steps(self, attempt: int) -> list[int]:
        return [int(step) for step in re.findall(r"^step (\d+)/", self.log(attempt), re.MULTILINE)]


@pytest.fixture(scope="module", params=SCHEDULERS)
def launch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Launched:
    root = tmp_path_factory.mktemp("launch")
    run = {"command": [sys.executable, "patient.py", *SAVING], "workdir": str(patient_work(root))}
    (root / "plan.yaml").write_text(f"{PLAN}run: {json.dumps(run)}\n")
    priced = price(root / "plan.yaml", datetime.now(UTC), PriceOptions(any_age=True))
    rank, quoted = pick(priced, None)
    messages: list[str] = []
    options = LaunchOptions(
        root=root,
        sandbox=True,
        interrupt_after_s=0.5,
        notify=messages.append,
        progress=lambda now: messages.append(str(now)),
        scheduler=request.param,
    )
    folder, report = launch_quote(priced, rank, quoted, options)
    assert report.scheduler == request.param
    return Launched(folder=folder, report=report, messages=messages)


def test_job_is_interrupted_once_resumed_and_finished(launch: Launched) -> None:
    assert launch.report.status is RunStatus.SUCCEEDED
    assert launch.report.simulated
    first, second = launch.report.attempts
    assert (first.ended_by, first.exit_code, first.resumed_from_step) == ("spot-interruption", 75, 0)
    assert (second.ended_by, second.exit_code, second.last_step) == ("completed", 0, TRAINER_STEPS)
    assert second.resumed_from_step > 0
    assert second.resumed_from_step == first.last_step


def test_steps_before_checkpoint_are_not_repeated(launch: Launched) -> None:
    resumed = launch.report.attempts[1].resumed_from_step
    assert min(launch.steps(1)) <= resumed
    assert min(launch.steps(2)) > resumed


def test_restore_appears_in_s3_requests(launch: Launched) -> None:
    step = launch.report.attempts[1].resumed_from_step
    lines = (launch.folder.logs / "s3-requests.jsonl").read_text().splitlines()
    requests = [json.loads(line) for line in lines]
    began = launch.report.attempts[1].started_at.isoformat()
    ours = [request for request in requests if f"/step-{step}/" in request["path"]]
    written = [request for request in ours if request["method"] == "PUT" and request["time"] < began]
    read = [request for request in ours if request["method"] == "GET" and request["time"] >= began]
    assert written
    assert read
    assert all(request["status"] in (200, 206) for request in read)


def test_weights_equal_undisturbed_run(launch: Launched, undisturbed: str) -> None:
    assert undisturbed in launch.log(2)


def test_run_folder_holds_all_records_of_launch(launch: Launched) -> None:
    names = {path.name for path in launch.folder.path.iterdir()}
    assert {
        "plan.json",
        "quote.json",
        "rendered",
        "cdk.out",
        "outputs.json",
        "report.json",
        "events.jsonl",
        "logs",
    } <= names
    quote: dict[str, Any] = launch.folder.read_json("quote.json")
    outputs: dict[str, Any] = launch.folder.read_json("outputs.json")
    assert quote["schema"] == "slipway.quote/1"
    assert {output["PlanDigest"] for output in outputs.values() if "PlanDigest" in output} == {quote["digest"]}
    assert (launch.folder.path.parent / "latest").resolve() == launch.folder.path.resolve()


def test_deployment_is_verified_and_unemulated_resources_named(launch: Launched) -> None:
    verified = launch.report.verified_resources
    assert any("checkpoint bucket" in resource for resource in verified)
    assert any("private subnet zone" in resource for resource in verified)
    assert any("cluster queue" in resource for resource in verified)
    assert all(status == "CREATE_COMPLETE" for _, status in launch.report.stacks)
    # Every service of a training cluster is asked; what stays open is a part that the sandbox does not have.
    expected = (
        "VPC range",
        "NAT instance forwards traffic",
        "flow log",
        "guard:",
        "event rules",
        "alarms on",
        "topic:",
        "boundary",
    )
    assert not [start for start in expected if not any(resource.startswith(start) for resource in verified)]
    assert not [resource for resource in launch.report.not_emulated if "Slipway has no check for it" in resource]
    assert any("EFA interfaces" in resource for resource in launch.report.not_emulated)
    assert not any("CDKToolkit" in resource or "ECR" in resource for resource in launch.report.not_emulated)


def test_plan_of_run_folder_has_quoted_digest(launch: Launched) -> None:
    again = price(launch.folder.path / "plan.json", datetime.now(UTC), PriceOptions(any_age=True))
    assert again.quotes[0].digest == launch.folder.read_json("quote.json")["digest"]
