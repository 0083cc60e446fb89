"""Examples of training jobs and PCS lose their first node, and end with the weights of an undisturbed run."""

import pytest

from launcher.model.report import RunStatus
from tests.sandbox.example_plans import TRAINER_STEPS, launched

pytestmark = [pytest.mark.cdk, pytest.mark.server, pytest.mark.slow, pytest.mark.xdist_group("launch")]


@pytest.mark.parametrize(
    "name, how",
    [("sagemaker/p5-spot.yaml", ("sagemaker", "node-lost")), ("pcs/p5-spot.yaml", ("local", "spot-interruption"))],
)
def test_example_is_interrupted_and_resumes_to_undisturbed_result(name, how, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder, report, _ = launched(name, tmp_path)
    first, *_, last = report.attempts
    assert (report.status, report.scheduler, first.ended_by) == (RunStatus.SUCCEEDED, *how)
    assert 0 < last.resumed_from_step < last.last_step == TRAINER_STEPS
    assert undisturbed in (folder.logs / f"attempt-{len(report.attempts)}.log").read_text()
