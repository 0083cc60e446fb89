"""A priced launch on EKS in the sandbox: deployed, two pods, a node taken with notice, resumed, finished, reported.

`make test` has that launch on HyperPod with EKS (test_hyperpod_eks_launch.py).
"""

import pytest

from launcher.records.submission import FILE
from tests.sandbox.kubernetes_launch import STEPS, launched

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.slow, pytest.mark.xdist_group("launch")]

PLAN = f"""
slipway: 1
name: podded
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: eks, region: us-east-2, instance_type: p5.48xlarge, nodes: 2}}
network: {{api_cidrs: [52.94.76.0/24]}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
run: {{command: [python3, train.py, "{STEPS}"], workdir: work}}
"""


def test_two_pods_interrupted_once_finish_with_undisturbed_result(tmp_path):
    folder, _ = launched(tmp_path, PLAN)
    submission = folder.read_json(FILE)
    assert (submission["scheduler"], submission["head_node"]["kind"]) == ("kubernetes", "Job")
    assert submission["folder"] == f"slipway/{submission['job']}"
