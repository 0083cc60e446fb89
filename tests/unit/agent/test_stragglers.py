"""Nodes that slow a job down: measured on each node, compared on the first, named with their cost."""

import json
import subprocess
import sys
import time

import pytest

from launcher.agent.events import EventLog
from launcher.agent.node import rates, straggler_watch
from launcher.agent.node.forecast_watch import Remaining
from launcher.agent.node.gathering import Gathered, Listener, children, parse
from launcher.agent.node.rates import NodeRates, WorkRate
from launcher.agent.node.spread import NO_RATES, join_rates, one
from launcher.agent.node.straggler_watch import HOLDS_S, StragglerWatch
from tests.waiting import until

LEFT = Remaining(hours=10.0, step_s=2.0)


def spread_of(*steps_per_s):
    spread = NO_RATES
    for part, rate in enumerate(steps_per_s):
        spread = join_rates(spread, one(part, f"n{part}", rate))
    return spread


class Watched:
    """The first node's comparison, over states that the test gives; time passes by hand."""

    def __init__(self, path, *, usd_per_hour=80.0, remaining=LEFT):
        self.path, self.now, self.state = path, 0.0, Gathered()
        log = EventLog(path, run="r", attempt=1, node="n0")
        self.watch = StragglerWatch(lambda: self.state, lambda: remaining, log, usd_per_hour=usd_per_hour)

    def passes(self, seconds, **spreads):
        """Compare every 30 s for so long."""
        self.state = Gathered(**spreads)
        for _ in range(int(seconds / 30)):
            self.watch.poll(self.now)
            self.now += 30.0

    def events(self):
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []


@pytest.fixture
def watched(tmp_path):
    return Watched(tmp_path / "events.jsonl")


def test_straggler_after_20_minutes_is_reported_once_with_the_cost(watched):
    # 0.8 steps a second of own work against 1.0: a quarter of a second in each step of two.
    slow = spread_of(1.0, 1.0, 0.8, 1.0)
    watched.passes(HOLDS_S - 30, work=slow)
    assert watched.events() == []
    watched.passes(2 * HOLDS_S, work=slow)
    (event,) = watched.events()
    assert (event["event"], event["slow_node"], event["part"], event["basis"]) == ("straggler", "n2", 2, "work")
    assert event["percent"] == pytest.approx(25, abs=1)
    assert event["share"] == pytest.approx(0.125, abs=0.004)
    assert event["at_most"] is False
    assert event["reason"].startswith("n2 is 25 % slower than the other nodes for 20 minutes: 1.25 s of its own work")
    # 10 h x 0.125 x $80
    usd = float(event["reason"].rpartition("$")[2])
    assert usd == pytest.approx(100, abs=3)


@pytest.mark.parametrize("slowest", [0.92, 1.0, 1.3])
def test_node_within_10_percent_or_faster_is_not_named(watched, slowest):
    watched.passes(2 * HOLDS_S, work=spread_of(1.0, slowest, 1.0))
    assert watched.events() == []


def test_straggler_recovered_before_the_report_starts_again(watched):
    slow, even = spread_of(1.0, 0.8), spread_of(1.0, 1.0)
    for _ in range(4):
        watched.passes(HOLDS_S - 60, work=slow)
        watched.passes(60, work=even)
    assert watched.events() == []


def test_recovery_of_a_reported_straggler_is_reported(watched):
    watched.passes(HOLDS_S + 60, work=spread_of(1.0, 0.8))
    watched.passes(60, work=spread_of(1.0, 1.0))
    assert [event["event"] for event in watched.events()] == ["straggler", "straggler-over"]
    assert watched.events()[-1]["slow_node"] == "n1"


def test_two_nodes_are_compared_with_each_other(watched):
    watched.passes(HOLDS_S + 60, work=spread_of(0.5, 1.0))
    assert [event["slow_node"] for event in watched.events()] == ["n0"]


def test_chips_are_compared_without_reports_of_the_trainer_and_bound_the_cost(watched):
    watched.passes(HOLDS_S + 60, chips=spread_of(1755.0, 1410.0, 1740.0))
    (event,) = watched.events()
    assert (event["slow_node"], event["basis"]) == ("n1", "chips")
    assert "its slowest chip works at 1,410 MHz" in event["reason"]
    assert "this costs at most 1.9 h and $" in event["reason"]


def test_own_work_outweighs_chips(watched):
    watched.passes(HOLDS_S + 60, work=spread_of(1.0, 1.0), chips=spread_of(1000.0, 500.0))
    assert watched.events() == []


def test_job_without_a_forecast_names_the_node_with_dollars_an_hour(tmp_path):
    watched = Watched(tmp_path / "e.jsonl", remaining=None)
    watched.passes(HOLDS_S + 60, work=spread_of(1.0, 0.8))
    (event,) = watched.events()
    assert event["at_most"] is True
    assert event["reason"].endswith("; this costs at most $16.16 an hour")


def test_median_of_2000_nodes_and_the_slowest_nodes_survive_the_tree():
    parts = 2000
    states = {part: {"node": f"n{part}", "rates": {"work": 0.5 if part in (7, 1999) else 1.0}} for part in range(parts)}
    files: dict[int, dict] = {}
    for part in reversed(range(parts)):
        listener = Listener(part, parts, now=0.0)
        for child in children(part, parts):
            listener.update(child, files[child], 0.0)
        gathered = listener.gather(states[part], 0.0, silent_after_s=20.0)
        files[part] = states[part] | {"below": json.loads(json.dumps(gathered.to_json()))}
    work = parse(files[0]["below"]).work
    assert work.nodes == parts
    assert [rate.node for rate in work.slowest[:2]] == ["n7", "n1999"]
    assert work.median_of_others(work.slowest[0]) == pytest.approx(1.0, rel=0.01)
    assert len(json.dumps(files[0])) < 4096


@pytest.mark.parametrize("rate", [None, 0, -1.0, float("nan"), float("inf"), "1", True, [1]])
def test_invalid_rate_is_left_out(rate):
    assert one(0, "n0", rate) is NO_RATES


def test_own_work_starts_anew_with_the_trainer_and_skips_other_lines(tmp_path):
    path = tmp_path / "node-metrics-0.jsonl"
    work = WorkRate(path)

    def report(*lines):
        with path.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    assert work.poll(0.0) is None
    report({"step": 10, "work_seconds": 5.0}, {"step": 20, "work_seconds": 10.0}, {"loss": 1.0}, {"step": 21})
    assert work.poll(30.0) == pytest.approx(2.0)
    report({"step": 5, "work_seconds": 1.0})
    assert work.poll(60.0) is None
    report({"step": 9, "work_seconds": 5.0})
    assert work.poll(90.0) == pytest.approx(1.0)


def test_rates_of_two_processes_reach_the_first_node(node_peers, tmp_path, monkeypatch):
    """Two trainers work at their own speeds; what their nodes publish is what the first one compares."""
    monkeypatch.setattr(rates, "PUBLISH_S", 0.1)
    program = """
import json, os, sys, time
step_s, work = float(sys.argv[1]), 0.0
for step in range(1, 400):
    begun = time.monotonic()
    time.sleep(step_s)
    work += time.monotonic() - begun
    with open(os.environ["SLIPWAY_NODE_METRICS"], "a") as file:
        file.write(json.dumps({"step": step, "work_seconds": work}) + "\\n")
"""
    nodes, trainers, measured = [node_peers(part) for part in range(2)], [], []
    try:
        for part, step_s in enumerate(("0.02", "0.04")):
            variables = rates.metrics_variables(tmp_path / "metrics.jsonl", part)
            node_rates = NodeRates(rates.node_metrics(tmp_path / "metrics.jsonl", part), nodes[part])
            node_rates.begin()
            measured.append(node_rates)
            trainers.append(subprocess.Popen([sys.executable, "-c", program, step_s], env=variables))
        until(lambda: nodes[0].gather().work.nodes == 2)
        time.sleep(0.5)
        work = nodes[0].gather().work
    finally:
        for trainer in trainers:
            trainer.kill()
            trainer.wait()
        for node_rates in measured:
            node_rates.stop()
    slow = work.slowest[0]
    assert slow.node == "vn1"
    assert straggler_watch.slow_nodes(work)[0][0] == slow
    assert 1 / slow.rate >= 0.04


def test_clock_of_used_gpus_is_weighted_by_utilization(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    lines = "0, 71342, 100, 1755\n1, 71342, 50, 1980\n2, 4, 0, 345\n3, 71342, [N/A], 1755"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{lines}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert rates.chip_clocks() == {0: 1755.0, 1: 990.0}


def test_node_without_a_driver_has_no_clocks(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert rates.chip_clocks() == {}
