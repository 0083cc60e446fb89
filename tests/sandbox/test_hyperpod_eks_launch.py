"""A priced launch on HyperPod with EKS in the sandbox: a team's queue, two pods, a node taken, resumed, finished."""

import pytest

from launcher.records.submission import FILE
from tests.sandbox.kubernetes_launch import STEPS, launched

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.xdist_group("launch")]

PLAN = f"""
slipway: 1
name: hyperpodded
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: hyperpod-eks, region: us-east-1, instance_type: p5.48xlarge, nodes: 2,
  queue: hyperpod-ns-research-localqueue, priority: training-priority}}
network: {{api_cidrs: [52.94.76.0/24]}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
guardrails: {{ttl_h: 5}}
run: {{operator: hyperpod-pytorchjob, command: [python3, train.py, "{STEPS}"], workdir: work}}
"""


def test_operator_job_interrupted_once_finishes_with_undisturbed_result(tmp_path, monkeypatch):
    # What is in a person's cache makes no difference here.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLIPWAY_HYPERPOD_CHART", raising=False)
    folder, report = launched(tmp_path, PLAN)
    submission = folder.read_json(FILE)
    assert (submission["scheduler"], submission["head_node"]["kind"]) == ("kubernetes", "HyperPodPyTorchJob")
    assert submission["folder"] == f"hyperpod-ns-research/{submission['job']}", "the team's, which the quota makes"
    assert any("the sandbox uses its own small chart" in resource for resource in report.not_emulated)
