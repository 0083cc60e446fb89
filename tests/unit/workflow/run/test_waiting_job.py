"""A job that waits too long for nodes, at a scheduler whose answers are given: its pods take several polls to go."""

import json
from dataclasses import replace

import pytest

from launcher.model.job import JobFacts, JobState, Submitted
from launcher.model.stages import Stage, StageNotifier
from launcher.records.run_folder import EVENTS
from launcher.submit.jobs import Chunk
from launcher.workflow.run.submission_watch import Mirror, NoCapacityError, RemoteWatch
from tests.waiting import until

STARTED = (
    f"{json.dumps({'event': 'attempt-started', 'attempt': 1, 'time': '2026-11-27T10:00:00Z', 'node': 'n0'})}\n".encode()
)


def pending(reason=""):
    return JobFacts(state=JobState.PENDING, word="Pending", reason=reason, restarts=0, nodes=(), attempt=None)


class Scheduler:
    """Answers one state for each request, the last one from then on; `events` is the job's file of events."""

    def __init__(self, *states, events=b""):
        self.states, self.events, self.cancelled = list(states), events, 0

    def facts(self, _job):
        return self.states.pop(0) if len(self.states) > 1 else self.states[0]

    def cancel(self, _job, *, only_pending=False):
        assert only_pending
        self.cancelled += 1
        return True

    def read(self, _job, offsets):
        texts = {EVENTS: self.events}
        return {
            name: Chunk(data=texts[name][offset:], size=len(texts[name])) if name in texts else None
            for name, offset in offsets.items()
        }

    def log_name(self, _job):
        return "log"


@pytest.fixture
def watch_of(tmp_path):
    def make(scheduler):
        job = Submitted(job="train", key="train-1", folder="train")
        mirror = Mirror(source=scheduler, job=job, folder=tmp_path / "mirror")
        return RemoteWatch(mirror=mirror, poll_s=0.0, notify=lambda _: None, waits_s=0.0, give_up=lambda: True)

    return make


@pytest.mark.parametrize("answers", [0, 1, 2, 5])
def test_no_capacity_error_raised_after_cancelled_job_is_gone(watch_of, answers):
    """Gone at once, between two polls, or between the order to cancel and the request after it."""
    scheduler = Scheduler(pending("no capacity: too few free GPUs"), *[pending()] * answers, None)
    watch = watch_of(scheduler)
    with pytest.raises(NoCapacityError, match="too few free GPUs"):
        until(watch.ended)
    assert scheduler.cancelled >= 1


def test_job_starting_during_cancellation_ends_without_error(watch_of):
    watch = watch_of(Scheduler(pending("no capacity: too few free GPUs"), pending(), None, events=STARTED))
    assert not watch.ended()
    assert watch.ended()


def test_reason_of_waiting_is_shown_once_though_ec2_names_zones_in_turn(watch_of):
    zones = [pending(f"0 of 1 instances run: no capacity in {zone}") for zone in ("a", "b", "a", "b", "a")]
    watch, lines = watch_of(Scheduler(*zones)), []
    watch.notify, watch.give_up = lines.append, lambda: False
    for _ in zones:
        assert not watch.ended()
    watch.close()
    assert lines == [f"job train waits (0 of 1 instances run: no capacity in {zone})" for zone in ("a", "b")]


@pytest.mark.parametrize("restarts,shown", [(1, "Slurm's delay after a requeue"), (0, "BeginTime")])
def test_requeued_job_waits_for_slurms_delay_in_words(watch_of, restarts, shown):
    watch, lines = watch_of(Scheduler(replace(pending("BeginTime"), restarts=restarts))), []
    watch.notify, watch.give_up = lines.append, lambda: False
    watch.source.release = lambda _job: None
    assert not watch.ended()
    watch.close()
    assert lines[0] == f"job train waits ({shown})"


class Display(StageNotifier):
    """A terminal's display of the work in progress."""

    def __init__(self):
        self.shown = []

    def __call__(self, message):
        pass

    def stage(self, description):
        return Shown(self, self.shown)


class Shown(Stage):
    """A stage that keeps its progress."""

    def __init__(self, notify, shown):
        super().__init__(notify)
        self.shown = shown

    def now(self, progress="", **_):
        self.shown.append(progress)


def test_wait_after_its_limit_names_no_limit(watch_of):
    """No other candidate takes the job's place: it waits on, without a limit."""
    watch, now = watch_of(Scheduler(pending("no capacity"))), [0.0]
    watch.waits_s, watch.give_up, watch.notify = 60.0, lambda: False, Display()
    watch.clock, watch.begun = lambda: now[0], 0.0
    assert not watch.ended()
    now[0] = 61.0
    assert not watch.ended()
    assert watch.notify.shown == ["for capacity, at most 60 s", "for capacity"]
