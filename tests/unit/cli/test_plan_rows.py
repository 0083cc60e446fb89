"""Rows of a plan's table have the same values as the full quotes."""

import json
import re
from dataclasses import replace

import pytest

from launcher.answers.plan_document import candidates
from launcher.answers.plan_rows import TableRow, counted_notes, note_of, notes_below, table_row
from launcher.cli import output
from launcher.planning.quotas import DEFAULT_QUOTA
from launcher.records.quote_document import candidate
from tests.plans import EXAMPLES
from tests.unit.pricing.conftest import price_over

WIDE = {
    "workload": {"train": {"hours": None, "tokens_b": 2, "runs": 3}},
    "target": {
        "instance_type": ["p5.48xlarge", "p5e.48xlarge", "trn2.48xlarge"],
        "region": ["us-east-2", "eu-west-2"],
        "nodes": {"min": 1, "max": 2},
    },
    "purchase": {"option": "any"},
    "budget": {"max_usd": 900},
}


@pytest.fixture(scope="module")
def wide():
    """Every candidate of a plan with commitments, blocks, spot, lines without a price and types without one."""
    return price_over(WIDE, everything=True)


def test_row_values_equal_quote_values(wide):
    types = wide.catalog.instance_types
    rows = list(wide.rows)
    assert len({row.plan.place.option for row in rows}) > 3
    assert {row.usd is None for row in rows} == {True, False}
    for rank, row in enumerate(rows, start=1):
        quote = wide.quote(rank)
        # A row does not name the account's quotas.
        quote = replace(quote, findings=tuple(each for each in quote.findings if each.code != DEFAULT_QUOTA))
        assert candidate(row, rank, types) == candidate(quote, rank, types)
        assert table_row(str(rank), row) == table_row(str(rank), quote)
        assert row.components == tuple(
            component for component in quote.components if component.unpriced and component.group != "compute"
        )


def test_long_document_is_printed_row_by_row(wide, capsys):
    types = wide.catalog.instance_types
    data = {"schema": "slipway.plan/1", "candidates": [], "next": 'a "word"', "findings": []}
    rows = [candidate(row, rank, types) for rank, row in enumerate(wide.rows, start=1)]
    output.long_document(data, "candidates", map(json.dumps, rows))
    text = capsys.readouterr().out
    assert json.loads(text) == {**data, "candidates": rows}
    assert sum(line.startswith("    {") for line in text.splitlines()) == len(rows)
    output.long_document(data, "candidates", iter(()))
    assert json.loads(capsys.readouterr().out) == data


def test_text_of_a_row_is_that_of_its_object(wide):
    types = wide.catalog.instance_types
    rows = [candidate(row, rank, types) for rank, row in enumerate(wide.rows, start=1)]
    assert list(candidates(wide)) == [json.dumps(row, ensure_ascii=False) for row in rows]


def test_note_shown_whole_in_table_not_repeated_below():
    def row(rank, note):
        return TableRow(id=str(rank), wide=(), narrow=(), note=note, below=note, unpriced="")

    lines = ["  1  first  billed 24 h at least", "  2  second  billed 48 h at l…", "  3  third"]
    rows = [row(1, "billed 24 h at least"), row(2, "billed 48 h at least"), row(3, "")]
    assert notes_below(rows, lines, 80) == ["  2: billed 48 h at least"]


def test_note_of_unpriced_row_starts_with_reason(wide):
    (first, *_) = [row for row in wide.rows if row.no_price_reason]
    assert note_of(first).startswith(first.no_price_reason)


def test_notes_of_long_table_are_counted(wide):
    rows = [table_row(str(rank), row) for rank, row in enumerate(wide.rows, start=1)]
    noted = [row for row in rows if row.below]
    unpriced = [row for row in rows if row.unpriced]
    notes = " ".join(" ".join(counted_notes([*noted, *unpriced], 80)).split())
    assert notes.startswith(f"{len(noted)} rows have a note")
    assert f"{len(unpriced)} have no price" in notes


@pytest.mark.parametrize("target", ["{instance_type: p5.48xlarge, nodes: 8, region: us-east-1}", "{region: us-east-1}"])
def test_first_screen_shows_each_id_once(slipway, tmp_path, target):
    plan = tmp_path / "p.yaml"
    plan.write_text(
        "slipway: 1\nname: x\nworkload: {train: {model: llama-3.1-70b, tokens_b: 10}}\n"
        f"purchase: {{option: capacity-block}}\ntarget: {target}\nbudget: {{max_usd: 100}}\n",
        encoding="utf-8",
    )
    _, out, _ = slipway("plan", str(plan), "--prices-as-of", "2026-11-20")
    ids = re.findall(r"^    ([0-9a-f]{6}) ", out, re.MULTILINE)
    assert ids
    assert len(set(ids)) == len(ids)
    assert "every row exceeds budget.max_usd, $100" in out
    _, out, _ = slipway("plan", str(plan), "--prices-as-of", "2026-11-20", "--max-usd", "90")
    assert "every row exceeds --max-usd, $90" in out
    _, out, _ = slipway("quote", str(plan), "--prices-as-of", "2026-11-20")
    assert "exceeded: a launch is refused" in out
    assert "FILE" not in out
    assert "--max-usd" not in out
    _, out, _ = slipway("quote", str(plan), "--prices-as-of", "2026-11-20", "--max-usd", "90")
    text = "Budget $90.00 exceeded: a launch is refused where 1 run in 10 costs more than --max-usd"
    assert text in " ".join(out.split())


@pytest.mark.parametrize("name", ["hyperpod-eks/trn2-training-plan", "hyperpod/p5-training-plan"])
def test_first_screen_of_training_plan_fits_80_columns(slipway, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = slipway("plan", str(EXAMPLES / f"{name}.yaml"), "--prices-as-of", "2026-11-20")
    assert (code, "train plan" in out) == (0, True)
    assert max(map(len, out.splitlines())) <= 80
