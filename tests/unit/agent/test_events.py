"""The event log on a disk that somebody fills."""

import json
import subprocess

import pytest

from launcher.agent.events import EventLog
from tests.attack.disks import fill, mounted


@pytest.fixture
def small_disk(tmp_path):
    with mounted(tmp_path / "disk", 4 << 20) as place:
        yield place


def events(log):
    # A full disk takes a piece of a line; the whole line comes again.
    return [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]


@pytest.mark.parametrize("count", [1, 40])
def test_events_of_a_full_disk_are_written_at_once(small_disk, count):
    log = EventLog(small_disk / "events.jsonl", run="r1")
    log.append("attempt-started")
    fill(small_disk / "someone-elses")
    for number in range(count):
        log.append("checkpoint-uploaded", step=number, reason="x" * 300)
    assert [event.get("step") for event in events(small_disk / "events.jsonl")] == [None, *range(count)]


def test_events_of_a_full_disk_are_written_after_space_is_freed(small_disk):
    log = EventLog(small_disk / "events.jsonl", run="r1")
    log.append("attempt-started")
    fill(small_disk / "someone-elses")
    for number in range(500):
        log.append("checkpoint-uploaded", step=number, reason="x" * 300)
    (small_disk / "someone-elses").unlink()
    log.append("completed")
    assert [event["event"] for event in events(small_disk / "events.jsonl")] == [
        "attempt-started",
        *["checkpoint-uploaded"] * 500,
        "completed",
    ]


def test_reserved_space_is_not_part_of_the_log_size(tmp_path):
    log = EventLog(tmp_path / "events.jsonl")
    log.append("attempt-started")
    size = (tmp_path / "events.jsonl").stat().st_size
    assert size < 200
    copied = subprocess.run(["cat", tmp_path / "events.jsonl"], capture_output=True, check=True).stdout
    assert len(copied) == size
