"""A plan priced at several values of its keys: each point equals the plan with those values."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.answers.sweep import page
from launcher.cli import app
from launcher.model.errors import UnreadableInputError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.quote.sweep import sweep

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
PLAN = """slipway: 1
name: job
workload: {train: {model: llama-3.1-8b, tokens_b: 2.0, sequence_length: 4096}}
target: {kind: parallelcluster, instance_type: [p5.48xlarge, p4d.24xlarge], nodes: 1, region: us-east-1}
purchase: {option: [on-demand, spot]}
"""


@pytest.fixture
def sweep_file(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def test_every_sweep_point_equals_plan_with_values(sweep_file):
    grid = sweep(sweep_file, ["nodes=1,2", "workload.train.sequence_length=4096,8192"], NOW, PriceOptions())
    assert [tuple(point.values.values()) for point in grid.points] == [(1, 4096), (1, 8192), (2, 4096), (2, 8192)]
    sweep_file.write_text(PLAN.replace("nodes: 1", "nodes: 2").replace("4096", "8192"), encoding="utf-8")
    assert price(sweep_file, NOW, PriceOptions()).quote(1).usd == grid.points[-1].best.usd
    assert grid.cheapest.best.usd.mid == min(point.best.usd.mid for point in grid.points)


def test_infeasible_sweep_point_is_row_with_reason(sweep_file):
    grid = sweep(sweep_file, ["model=llama-3.1-8b,llama-3.1-405b"], NOW, PriceOptions())
    assert [point.best is None for point in grid.points] == [False, True]
    for width in (80, 120):
        lines = page(grid, width)
        assert max(len(line) for line in lines) <= width
        assert any("llama-3.1-405b" in line and "GiB" in line for line in lines)


@pytest.mark.parametrize(
    "wanted,message",
    [
        (["nodes"], "takes KEY=VALUE"),
        (["nodes="], "takes KEY=VALUE"),
        (["nodos=1"], "no such key"),
        (["uri=s3://a/b"], "workload.train.data.uri or checkpoint.uri"),
        (["nodes=many"], "must be any, a number"),
        (["nodes=1", "target.nodes=2"], "given twice"),
        (["nodes=" + ",".join(map(str, range(1, 66)))], "at most 64"),
        (["nodes={a}"], "plain values"),
        (["nodes=[1"], "plain values"),
    ],
)
def test_invalid_sweep_refused(sweep_file, wanted, message):
    with pytest.raises(UnreadableInputError) as caught:
        sweep(sweep_file, wanted, NOW, PriceOptions())
    messages = [caught.value.message, *(finding.message for finding in caught.value.findings)]
    assert any(message in line for line in messages), messages


def test_sweep_command_prints_one_table_or_json(sweep_file, monkeypatch, capsys):
    arguments = ["slipway", "plan", str(sweep_file), "--sweep", "nodes=1,2", "--sweep", "sequence_length=4096,8192"]
    monkeypatch.setenv("COLUMNS", "120")
    shown = []
    for more in ([], ["--json"]):
        monkeypatch.setattr(sys, "argv", arguments + more)
        with pytest.raises(SystemExit) as caught:
            app.main()
        assert caught.value.code == 0
        shown.append(capsys.readouterr().out)
    assert shown[0].count("p4d.24xlarge") + shown[0].count("p5.48xlarge") >= 4
    assert "██" in shown[0]
    document = json.loads(shown[1])
    assert (document["schema"], document["keys"]) == (
        "slipway.sweep/1",
        ["target.nodes", "workload.train.sequence_length"],
    )
    assert [point["candidate"]["nodes"] for point in document["points"]] == [1, 1, 2, 2]
    assert Path(sweep_file).read_text(encoding="utf-8") == PLAN
