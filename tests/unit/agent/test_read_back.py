"""A node without room for a second copy of a checkpoint does not read one back."""

import shutil

import pytest

from launcher.agent.checkpoint.pace import Pace
from launcher.agent.checkpoint.read_back import ReadBack
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.events import EventLog
from launcher.agent.job import READ_BACK, CheckpointSpec, JobSpec
from launcher.agent.manifest import Manifest, StoredFile
from launcher.agent.node.progress import Metrics
from launcher.workflow.history.attempts import read_events
from tests.waiting import until

FILE = StoredFile(path="data", bytes=1000, sha256="0" * 64, key="step-3/x/data", part=0)
WHOLE = Manifest(
    run="r1", attempt=1, step=3, folder="step-3", part=None, parts=1, files=(FILE,), written_at="now", seconds=1.0
)


@pytest.fixture
def spec(tmp_path):
    paths = {name: str(tmp_path / name) for name in ("workdir", "scratch", "events", "metrics")}
    policy = CheckpointSpec(uri="s3://nobody-asks/x")
    return JobSpec(run="r1", name="tiny", command=("true",), checkpoint=policy, env={READ_BACK: "1"}, **paths)


def test_read_back_without_space_is_skipped_with_an_event(spec, tmp_path, monkeypatch):
    log = EventLog(tmp_path / "events", attempt=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10_000, 7_001, 2_999))
    scratch = Scratch(tmp_path / "scratch", job="tiny", run="r1", uri=str(spec.checkpoint.uri))
    with scratch:
        metrics = Metrics(tmp_path / "metrics")
        pace = Pace(600.0, mtbf_s=None, write=scratch.write_interval, metrics=metrics, log=log)
        ReadBack(spec, scratch, pace, log, part=0).checkpoint_stored(WHOLE)
        until(lambda: read_events(tmp_path / "events"))
        (event,) = read_events(tmp_path / "events")
        assert (event["event"], event["step"]) == ("read-back-skipped", 3)
        assert "1,000 bytes, of which 3 times as many should be free, and 2,999 are" in event["reason"]
        until(lambda: not scratch.read_back.exists())


def test_read_back_of_a_killed_agent_is_removed(spec, tmp_path):
    scratch = Scratch(tmp_path / "scratch", job="tiny", run="r1", uri="s3://b/x")
    with scratch:
        (scratch.read_back / "step-3").mkdir(parents=True)
    with scratch:
        assert not scratch.read_back.exists()
        (scratch.read_back / "step-3").mkdir(parents=True)
    with Scratch(tmp_path / "scratch", job="other", run="r2", uri="s3://b/y"):
        assert not scratch.read_back.exists()
