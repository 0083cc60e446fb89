"""The guard counts each check once, however often Lambda delivers its event."""

from datetime import timedelta

import pytest

from tests.infra.guard_account import NOW
from tests.infra.guard_modules import guard_module

pytestmark = pytest.mark.xdist_group("guard")

LOOK = timedelta(minutes=5)
SUM = {
    "STOP_AT_USD": "500",
    "STOP_URI": "s3://slipway-tiny-checkpoints/jobs/.budget/stack/500.json",
    "STOP_SETTLE_MINUTES": "5",
    "STOP_RESERVE_MINUTES": "15",
    "STOP_ENDING_MINUTES": "5",
    "NODES": "2",
    "OTHER_USD_PER_HOUR": "1",
    "USD_PER_NODE_HOUR": "55",
    "IDLE_MINUTES": "0",
}


@pytest.fixture
def deliver(module, guard_of):
    """Have Lambda deliver the event of a look, so many minutes late and so often."""

    def call(due, *, late=0, times=1, **variables):
        for number in range(times):
            guard = guard_of(now=due + timedelta(minutes=late, seconds=20 * number), **variables)
            guard.deployed_at = lambda: NOW - timedelta(hours=3)
            module.respond(guard, {"detail-type": "Scheduled Event", "time": due.isoformat()})

    return call


@pytest.mark.parametrize("times", [1, 3])
def test_repeated_delivery_of_check_counts_once(aws, deliver, times):
    """80 minutes of two nodes at $55 and $1 beside are $148; counted for each delivery they would be $444."""
    aws.nodes(2)
    for step in range(16):
        deliver(NOW - LOOK * (15 - step), times=times, **SUM)
    assert aws.metric("NodeHours") == [pytest.approx(2 * 80 / 60)]
    assert aws.metric("EstimatedSpend") == [pytest.approx(2 * 80 / 60 * 55)]
    assert aws.messages == []


def test_late_check_recorded_at_scheduled_time(aws, deliver):
    aws.nodes(1)
    deliver(NOW, late=4)
    assert aws.metric("RunningNodes") == [1]


@pytest.mark.parametrize("event", [{}, {"time": "soon"}, {"time": None}, {"time": "2026-11-20T12:00:00"}])
def test_event_without_valid_time_scheduled_now(event):
    with guard_module("schedule") as looks:
        assert looks.scheduled_at(event, NOW) == NOW
