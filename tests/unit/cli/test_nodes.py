"""`slipway nodes`: its screens at 80 and 120 columns, its documents, and its refusals."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.answers.nodes import action_document, action_lines, document, page
from launcher.cli import output
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeUse
from launcher.model.enums import TargetKind
from launcher.model.straggler import Straggler
from launcher.records import run_folder
from launcher.targets.clusters import cluster_at
from launcher.workflow.run.cluster_nodes import ListedNodes, PlannedAction, idle_since_job

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
CLUSTERS = ("parallelcluster", "pcs", "eks", "hyperpod-slurm", "hyperpod-eks")


def node(number, use, **more):
    fields = {
        "name": f"ip-10-0-1-{number}.us-east-2.compute.internal",
        "instance": f"i-{number:017x}",
        "instance_type": "p5.48xlarge",
        "group": "workers",
        "use": use,
        "state": use.value.upper(),
        "reason": "",
        "job": "job-1" if use is NodeUse.BUSY else None,
        "up_since": AT - timedelta(hours=5),
        "idle_since": None if use is NodeUse.BUSY else AT - timedelta(hours=2),
    }
    return ClusterNode(**{**fields, **more})


NODES = (
    node(1, NodeUse.BUSY),
    node(2, NodeUse.IDLE),
    node(3, NodeUse.DOWN, reason="Kubelet stopped posting node status", boot=("[  12.3] nvidia: Xid 79", "x" * 150)),
    node(4, NodeUse.OFF, instance=None, up_since=None),
)
LISTED = ListedNodes(
    name="big",
    run="20261128T120000Z",
    cluster="big",
    target=TargetKind.EKS,
    region="us-east-2",
    simulated=False,
    as_of=AT,
    usd_per_hour=Decimal("55.04"),
    nodes=NODES,
)


@pytest.mark.parametrize("width", [80, 120])
def test_nodes_screen_fits_width_and_names_failing_node_with_boot_reason(width):
    lines = page(LISTED, width)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    assert "big · cluster big in us-east-2 · 4 nodes · $55.04 an hour each" in text
    assert "Kubelet stopped posting node status" in text
    assert "nvidia: Xid 79" in text
    assert lines[-1] == "  next: slipway nodes big replace 2"


def test_idle_dollars_counted_since_idle_and_absent_without_instance():
    rows = document(LISTED)["nodes"]
    assert [row["usd_since_idle"] for row in rows] == [None, "110.08", "110.08", None]
    assert [row["number"] for row in rows] == [0, 1, 2, 3]
    unpriced = document(replace(LISTED, usd_per_hour=None))
    assert {row["usd_since_idle"] for row in unpriced["nodes"]} == {None}


@pytest.mark.parametrize("width", [80, 120])
def test_nodes_screen_names_slow_node_with_its_cost(width):
    slow = Straggler(
        node="n1", percent=30, basis="work", at_most=False, reason="n1 is 30 % slower than the other nodes",
        hours_until_end=2.0, usd_until_end=Decimal(110), usd_per_hour=Decimal(55), replace_hours=0.5,
        replace_usd=Decimal(28),
    )  # fmt: skip
    lines = page(replace(LISTED, stragglers=(slow,)), width)
    assert max(map(len, lines)) <= width
    text = " ".join("\n".join(lines).split())
    assert "warning: n1 is 30 % slower than the other nodes until the end this costs 2 h and $110" in text
    assert "slipway nodes big replace n1 --dry-run" in text
    assert document(replace(LISTED, stragglers=(slow,)))["stragglers"][0]["node"] == "n1"


def test_nodes_screen_of_empty_cluster_has_sentence():
    assert "it has no nodes now" in page(replace(LISTED, nodes=()), 80)[-1]


@pytest.mark.parametrize("width", [80, 120])
def test_action_screen_shows_effects_on_job_node_and_cost(width):
    effect = NodeEffect(job="job job-1 ends " * 12, node="it goes " * 12, cost="$55.04 an hour " * 8)
    planned = PlannedAction(listed=LISTED, action=NodeAction.REPLACE, node=NODES[0], effect=effect)
    lines = action_lines(planned, width)
    assert max(map(len, lines)) <= width
    assert [line[4:8] for line in lines if line[4:8].strip()][1:] == ["job ", "node", "cost"]
    assert action_document(planned, done=False)["done"] is False


@pytest.mark.parametrize("kind", CLUSTERS)
@pytest.mark.parametrize("action", [action for action in NodeAction if action is not NodeAction.CHECK])
def test_every_cluster_kind_describes_every_node_action(kind, action):
    facts = NodeFacts(node=NODES[0], usd_per_hour=Decimal("55.04"), job_usd_per_hour=Decimal("220.16"), unsaved_s=600.0)
    effect = cluster_at(kind).node_effect(action, facts)
    assert all(sentence.strip() for sentence in (effect.job, effect.node, effect.cost))
    assert "$55.04 an hour" in effect.cost
    assert "job-1" in effect.job


@pytest.mark.parametrize("kind", CLUSTERS)
def test_resumed_node_of_running_job_accepts_other_jobs(kind):
    facts = NodeFacts(node=NODES[0], usd_per_hour=Decimal("55.04"))
    assert cluster_at(kind).node_effect(NodeAction.RESUME, facts).job == "job job-1 continues"


@pytest.mark.parametrize("of_job, hours", [(3, 1), (2, 2)], ids=["all nodes were the job's", "one was not"])
def test_node_is_idle_since_end_of_attempt_that_had_all_nodes(empty_run, of_job, hours):
    events = [
        {"event": "attempt-started", "attempt": 1, "time": (AT - timedelta(hours=4)).isoformat()},
        {"event": "cancelled", "attempt": 1, "time": (AT - timedelta(hours=1)).isoformat(), "exit_code": 143},
    ]
    (empty_run.path / "job").mkdir()
    (empty_run.path / "job" / "events.jsonl").write_text("".join(f"{json.dumps(event)}\n" for event in events))
    busy, idle, down = idle_since_job(NODES[:3], empty_run, of_job)
    assert busy.idle_since is None
    assert (idle.idle_since, down.idle_since) == (AT - timedelta(hours=hours),) * 2


@pytest.fixture
def empty_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return run_folder.create("tiny", AT, tmp_path)


def test_action_without_node_refused(empty_run, slipway):
    code, _, err = slipway("nodes", "tiny", "drain", "--yes")
    assert (code, "drain needs a node" in err, "slipway nodes tiny lists them" in err) == (2, True, True)


def test_action_without_terminal_requires_yes(empty_run, slipway):
    code, _, err = slipway("nodes", "tiny", "replace", "0")
    assert (code, "cannot ask whether to replace 0: no terminal" in err, "--yes" in err) == (2, True, True)


def test_nodes_of_run_without_plan_is_error_document(empty_run, slipway):
    code, out, _ = slipway("nodes", "tiny", "--json")
    assert code == 2
    assert json.loads(out)["schema"] == "slipway.error/1"


@pytest.mark.parametrize("takes_s, said", [(0.0, False), (0.4, True)])
def test_slow_reading_of_nodes_is_reported_on_standard_error(monkeypatch, capsys, takes_s, said):
    monkeypatch.setattr(output, "SLOW_S", 0.1)
    with output.stage_if_slow("reading the nodes of tiny"):
        time.sleep(takes_s)
    time.sleep(0.2)
    captured = capsys.readouterr()
    assert ("reading the nodes of tiny" in captured.err, captured.out) == (said, "")
