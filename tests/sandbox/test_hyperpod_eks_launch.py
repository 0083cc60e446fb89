"""A priced launch on HyperPod with EKS in the sandbox: a team's queue, two pods, a node taken, resumed, finished."""

from datetime import UTC, datetime

import pytest

from launcher.model.report import RunStatus
from launcher.records.submission import FILE
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import LaunchOptions, launch_quote
from tests.sandbox.test_kubernetes_launch import STEPS, TRAINER, undisturbed

pytest.importorskip("kubernetes")
pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("launch")]

PLAN = f"""
slipway: 1
name: hyperpodded
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: hyperpod-eks, region: us-east-1, instance_type: p5.48xlarge, nodes: 2,
  queue: hyperpod-ns-research-localqueue, priority: training-priority}}
network: {{api_cidrs: [198.51.100.0/24]}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
guardrails: {{ttl_h: 5}}
run: {{operator: hyperpod-pytorchjob, command: [python3, train.py, "{STEPS}"], workdir: work}}
"""


def test_the_operators_job_is_interrupted_once_and_finishes_as_if_nothing_had_been(tmp_path, monkeypatch):
    # What is in a person's cache makes no difference here.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLIPWAY_HYPERPOD_CHART", raising=False)
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(TRAINER)
    priced = price(tmp_path / "plan.yaml", datetime.now(UTC), PriceOptions(sandbox=True))
    rank, quoted = pick(priced, None)
    told = []
    options = LaunchOptions(
        root=tmp_path,
        sandbox=True,
        interrupt_after_s=0.5,
        tell=told.append,
        progress=lambda now: told.append(str(now)),
        scheduler="local",
    )
    folder, report = launch_quote(priced, rank, quoted, options)
    assert (report.status, report.scheduler, report.simulated) == (RunStatus.SUCCEEDED, "kubernetes", True)
    first, *_, last = report.attempts
    assert first.ended_by == "pod-end"
    assert 0 < last.resumed_from_step < STEPS == last.last_step
    log = (folder.logs / f"attempt-{len(report.attempts)}.log").read_text()
    assert f"ends with {undisturbed()}" in log
    kept = folder.read_json(FILE)
    assert (kept["scheduler"], kept["head_node"]["kind"]) == ("kubernetes", "HyperPodPyTorchJob")
    assert kept["folder"] == f"hyperpod-ns-research/{kept['job']}", "the team's, which the quota makes"
    assert any("EC2 takes ip-10-0-" in line for line in told)
    assert any("a small one of the sandbox's own takes its place" in each for each in report.not_emulated)
