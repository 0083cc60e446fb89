import json

import pytest

from launcher.agent.checkpoint.pace import Pace
from launcher.agent.events import EventLog
from launcher.agent.interval import daly_interval_s
from launcher.agent.node.progress import Metrics


@pytest.fixture
def make_pace(tmp_path):
    """Makes a pace; what it writes to the interval file, and its events."""
    written = []

    def make(interval_s=600.0, mtbf_s=None, write=written.append):
        log = EventLog(tmp_path / "events.jsonl")
        metrics = Metrics(tmp_path / "metrics.jsonl")
        return Pace(interval_s, mtbf_s=mtbf_s, write=write, metrics=metrics, log=log), written

    return make


def events(tmp_path):
    path = tmp_path / "events.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_begins_with_the_interval_of_the_quote(make_pace):
    pace, written = make_pace(600.0, mtbf_s=86400.0)
    assert (written, pace.interval_s) == ([600.0], 600.0)


def test_interval_is_the_daly_optimum_of_the_measured_write_time(make_pace, tmp_path):
    pace, written = make_pace(600.0, mtbf_s=86400.0)
    pace.record_write(1, 30.0)
    assert written[-1] == pytest.approx(daly_interval_s(checkpoint_s=30.0, mtbf_s=86400.0))
    (change,) = events(tmp_path)
    assert (change["event"], change["before"], change["checkpoint_seconds"]) == ("interval", 600.0, 30.0)


def test_one_slow_write_among_several_changes_little(make_pace):
    pace, written = make_pace(600.0, mtbf_s=86400.0)
    for seconds in (30.0, 30.0, 300.0, 30.0, 30.0):
        pace.record_write(1, seconds)
    assert written[-1] == pytest.approx(daly_interval_s(checkpoint_s=30.0, mtbf_s=86400.0))


def test_small_changes_are_left_alone(make_pace, tmp_path):
    pace, written = make_pace(daly_interval_s(checkpoint_s=30.0, mtbf_s=86400.0), mtbf_s=86400.0)
    pace.record_write(1, 31.0)
    assert (len(written), events(tmp_path)) == (1, [])


def test_interval_is_not_shorter_than_an_upload(make_pace):
    pace, written = make_pace(600.0, mtbf_s=86400.0)
    pace.record_write(1, 0.1)
    pace.record_upload(1, seconds=900.0, size_bytes=1)
    assert written[-1] == 900.0


def test_write_time_reported_by_the_trainer_goes_before_the_measured_one(make_pace):
    pace, written = make_pace(600.0, mtbf_s=86400.0)
    pace.record_write(1, 100.0)
    pace.record_reported(2.0)
    pace.record_write(2, 100.0)
    assert written[-1] == pytest.approx(daly_interval_s(checkpoint_s=2.0, mtbf_s=86400.0))


def test_hastened_interval_lasts_for_one_checkpoint(make_pace):
    pace, written = make_pace(600.0)
    pace.hasten()
    assert written[-1] == 1.0
    pace.record_write(1, 5.0)
    assert written[-1] == 600.0
    pace.record_write(2, 5.0)
    assert len(written) == 3


def test_haste_does_not_lengthen_a_short_interval(make_pace):
    pace, written = make_pace(0.2)
    pace.hasten()
    assert written == [0.2, 0.2]


def test_writes_the_costs_down(make_pace, tmp_path):
    pace, _ = make_pace()
    pace.record_write(7, 1.25)
    pace.record_upload(7, seconds=3.5, size_bytes=1000)
    pace.record_upload(8, seconds=1.0, size_bytes=10)
    first, second = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert first.pop("time").endswith("Z")
    assert first == {"checkpoint_step": 7, "checkpoint_seconds": 1.25, "upload_seconds": 3.5, "checkpoint_bytes": 1000}
    assert second["checkpoint_seconds"] is None


def test_failing_disk_is_reported_as_scratch_error(make_pace, tmp_path):
    def write(seconds):
        raise OSError("no space")

    pace, _ = make_pace(write=write)
    pace.hasten()
    assert {event["event"] for event in events(tmp_path)} == {"scratch-error"}
