"""Every Kubernetes example is launched, loses its first node, and ends like an undisturbed run."""

import pytest

from launcher.model.report import RunStatus
from tests.plans import EXAMPLES
from tests.sandbox.example_plans import TRAINER_STEPS, launched

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("kubernetes-examples")]

ELSEWHERE = {"kubernetes/p5-second-job.yaml"}
"""For the cluster that hyperpod-eks/p5-queue.yaml makes, which has to be there."""
STAND = ("kubernetes/p5-existing.yaml", "kubernetes/p5en-hyperpod-spot.yaml", "kubernetes/trn2-hyperpod-plan.yaml")
MADE = (
    "eks/p5-capacity-block.yaml",
    "eks/trn1-spot.yaml",
    "hyperpod-eks/p5-queue.yaml",
    "hyperpod-eks/p5en-spot.yaml",
    "hyperpod-eks/trn2-training-plan.yaml",
)
SLOW = [pytest.mark.slow, pytest.mark.cdk]


def test_example_list_is_complete():
    folders = ("eks", "hyperpod-eks", "kubernetes")
    plan_files = {f"{folder}/{path.name}" for folder in folders for path in (EXAMPLES / folder).glob("*.yaml")}
    assert plan_files == {*STAND, *MADE, *ELSEWHERE}


@pytest.mark.parametrize(
    "name", [*(pytest.param(example, marks=SLOW) for example in (*STAND[1:], *MADE)), pytest.param(STAND[0])]
)
def test_example_is_interrupted_and_resumes_to_undisturbed_result(name, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLIPWAY_HYPERPOD_CHART", raising=False)
    folder, report, messages = launched(name, tmp_path)
    assert (report.status, report.scheduler) == (RunStatus.SUCCEEDED, "kubernetes")
    first, *_, last = report.attempts
    assert first.ended_by == "spot-interruption"
    assert 0 < last.resumed_from_step < last.last_step == TRAINER_STEPS
    assert undisturbed in (folder.logs / f"attempt-{len(report.attempts)}.log").read_text()
    if name in STAND:
        assert report.stacks == ()
        assert any("exists: Slipway provisions nothing" in message for message in messages)
        cluster = "platform" if name == STAND[0] else "research"
        assert f"{cluster}: emulated; your own is not read" in report.not_emulated
    else:
        assert any("read back and as planned" in message for message in messages)
