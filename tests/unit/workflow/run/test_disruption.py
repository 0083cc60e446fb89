"""When the sandbox simulates the loss of a node, and the message when it could not."""

import threading
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from launcher.workflow.run import disruption as module
from launcher.workflow.run.disruption import Disruption, fail_node, interrupt_job, reclaim_instance


@dataclass
class Facts:
    nodes: tuple[str, ...]


class Mirror:
    def sync(self) -> None:
        """Nothing is far away."""


@dataclass
class Watch:
    facts: Facts | None
    mirror: Mirror = field(default_factory=Mirror)


@dataclass
class Loss:
    node: str
    drained: bool = True


@dataclass
class Box:
    """The edge of the sandbox: which nodes it took."""

    lost: list[str] = field(default_factory=list)
    taken: threading.Event = field(default_factory=threading.Event)

    def lose_node(self, cluster: str, node: str, *, notice_s: float) -> Loss:
        assert (cluster, notice_s) == ("tiny", 120.0)
        self.lost.append(node)
        self.taken.set()
        return Loss(node)

    def fail_node(self, cluster: str, node: str) -> None:
        self.lost.append(node)

    def replace_node(self, cluster: str, node: str) -> None:
        """Another comes."""


@dataclass
class Clock:
    now: float = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake_clock = Clock()
    monkeypatch.setattr(module, "time", fake_clock)
    return fake_clock


def disruption_of(sandbox: Box, nodes: tuple[str, ...] = ("n1",), strike: Any = reclaim_instance) -> Any:
    messages: list[str] = []
    watch: Any = Watch(Facts(nodes))
    box, folder = cast("Any", sandbox), cast("Any", None)
    return Disruption(
        sandbox=box,
        cluster="tiny",
        watch=watch,
        folder=folder,
        after_s=8.0,
        notify=messages.append,
        strike=strike,
    )


def test_disruption_follows_first_complete_checkpoint(clock: Clock) -> None:
    sandbox = Box()
    disruption = disruption_of(sandbox)
    disruption.command_started()
    clock.now += 20
    disruption.first_checkpoint()
    clock.now += 7.9
    disruption.check(None)
    assert sandbox.lost == []
    clock.now += 0.2
    disruption.check(None)
    disruption.check(None)
    assert disruption.finish() == ""
    assert sandbox.lost == ["n1"]


def test_disruption_without_checkpoint_follows_start_by_38_seconds(clock: Clock) -> None:
    sandbox = Box()
    disruption = disruption_of(sandbox)
    disruption.command_started()
    clock.now += 37.9
    disruption.check(None)
    assert sandbox.lost == []
    clock.now += 0.2
    disruption.check(None)
    disruption.first_checkpoint()  # too late: it was played
    clock.now += 60
    disruption.check(None)
    assert disruption.finish() == ""
    assert sandbox.lost == ["n1"]


@pytest.mark.parametrize("strike", [reclaim_instance, fail_node, interrupt_job])
@pytest.mark.parametrize(
    "calls,why",
    [
        ([], "the job ended before its command started"),
        (["command_started"], "the job ended earlier than 38 s after its command started, and stored no checkpoint"),
        (["command_started", "first_checkpoint"], "the job ended earlier than 8 s after its first complete checkpoint"),
    ],
    ids=["no start", "no checkpoint", "a checkpoint"],
)
def test_job_ending_before_disruption_gives_reason(clock: Clock, strike: Any, calls: list[str], why: str) -> None:
    sandbox = Box()
    disruption = disruption_of(sandbox, strike=strike)
    for call in calls:
        getattr(disruption, call)()
    clock.now += 7
    disruption.check(None)
    assert disruption.finish().startswith(why)
    assert sandbox.lost == []


def test_job_on_no_node_gives_reason(clock: Clock) -> None:
    disruption = disruption_of(Box(), nodes=())
    disruption.first_checkpoint()
    clock.now += 9
    disruption.check(None)
    assert disruption.finish() == "the job ran on no node"
