"""Every example of Kubernetes is launched, loses its first node, and ends as if nothing had been."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from launcher.model.report import RunStatus
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import pick, price
from launcher.workflow.run.launch import LaunchOptions, launch_quote
from tests.plans import EXAMPLES
from tests.sandbox.example_plans import copied

pytest.importorskip("kubernetes")
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
PATIENT = """
import os, sys, time
import train

class Stop(train.Stop):
    looks = 0

    def asked(self):
        self.looks += 1
        while self.looks == 100 and not os.environ["SLIPWAY_RESUME_DIR"] and not super().asked():
            time.sleep(0.05)
        return super().asked()

train.Stop = Stop
sys.exit(train.main())
"""
"""Their trainer, which waits about its fiftieth step until it is interrupted, however quick a machine is."""
SLOW = [pytest.mark.slow, pytest.mark.cdk]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the trainer of the examples says at its end when nothing disturbs it."""
    words = [sys.executable, str(EXAMPLES / "tiny_gpt" / "train.py"), "--steps", "180", "--every", "10"]
    root = tmp_path_factory.mktemp("undisturbed")
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    return next(line for line in done.stdout.splitlines() if line.startswith("weights sha256"))


def test_there_are_no_others():
    folders = ("eks", "hyperpod-eks", "kubernetes")
    found = {f"{each}/{path.name}" for each in folders for path in (EXAMPLES / each).glob("*.yaml")}
    assert found == {*STAND, *MADE, *ELSEWHERE}


def launched(name, root):
    """An example launched into a sandbox of its own: its folder, its report, and what was told."""
    work = shutil.copytree(EXAMPLES / "tiny_gpt", root / "tiny_gpt")
    (work / "patient.py").write_text(PATIENT)
    saves = ('train.py, --steps, "180", --every, "30"', 'patient.py, --steps, "180", --every, "10"')
    there = json.dumps(str((EXAMPLES / "tiny_gpt").resolve())), json.dumps(str(work))
    priced = price(copied(EXAMPLES / name, root, [saves, there]), datetime.now(UTC), PriceOptions(sandbox=True))
    rank, quoted = pick(priced, None)
    told = []
    own = {"root": root, "sandbox": True, "scheduler": "local", "interrupt_after_s": 0.1}
    folder, report = launch_quote(priced, rank, quoted, LaunchOptions(tell=told.append, progress=lambda _: None, **own))
    return folder, report, told


@pytest.mark.parametrize(
    "name", [*(pytest.param(each, marks=SLOW) for each in (*STAND[1:], *MADE)), pytest.param(STAND[0])]
)
def test_it_is_launched_and_resumed(name, undisturbed, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SLIPWAY_HYPERPOD_CHART", raising=False)

    folder, report, told = launched(name, tmp_path)

    assert (report.status, report.scheduler) == (RunStatus.SUCCEEDED, "kubernetes")
    first, *_, last = report.attempts
    assert first.ended_by == "pod-end"
    assert 0 < last.resumed_from_step < last.last_step == 180
    assert undisturbed in (folder.logs / f"attempt-{len(report.attempts)}.log").read_text()
    if name in STAND:
        assert report.stacks == ()
        assert any("exists: nothing is provisioned" in each for each in told)
        cluster = "platform" if name == STAND[0] else "research"
        assert f"{cluster}: a stand-in of that name: your own is not looked at" in report.not_emulated
    else:
        assert any("read back and as planned" in each for each in told)
