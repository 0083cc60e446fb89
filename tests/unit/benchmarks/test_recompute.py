"""Twelve quotes compared with an independent program that reads only the plan and price files."""

import ast
from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import recompute, recompute_prices
from launcher.catalog.load import load
from launcher.plan_file import load as load_plan
from launcher.records.quote_document import quote_document
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request
from tests.checks import some

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
CATALOG = load()


def quote_plan(path):
    """The first quote of a plan, as its JSON has it."""
    priced = price_request(path, load_plan(path), CATALOG, NOW, PriceOptions())
    return quote_document(priced.quote(1), 1, CATALOG.instance_types)


@pytest.mark.parametrize("path", recompute.PLANS, ids=lambda path: path.stem)
def test_quote_equals_the_independent_recomputation(path):
    quote = quote_plan(path)
    recomputed = recompute.recompute(recompute.read(path), quote, NOW.date())
    off = recompute.deviations(quote, recomputed)
    assert max(abs(deviation) for deviation in off.values()) <= recompute.tolerance(quote), off


def test_recomputation_without_tail_or_price_forecast_deviates(monkeypatch):
    """The program sees what it is for: without either a total is off by more than it lets pass."""
    tail, spot = recompute.PLANS[:2]
    none = {**recompute.read(tail), "guardrails": {"idle_minutes": 0.1}}
    assert recompute.deviations(quote_plan(tail), recompute.recompute(none, quote_plan(tail), NOW.date()))["mid"] > 0.3
    process = recompute_prices.spot_process()
    monkeypatch.setattr(recompute_prices, "spot_process", lambda: {**process, "half_life_days": 1e6, "zones_alike": 1})
    with pytest.raises(LookupError, match="forecast of no row"):
        recompute.recompute(recompute.read(spot), quote_plan(spot), NOW.date())


@pytest.mark.parametrize("module", [recompute, recompute_prices])
def test_recomputation_imports_no_launcher_module(module):
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert not [name for name in some(names) if name.partition(".")[0] in ("launcher", "infra")]


def test_recomputed_plans_cover_every_purchase_option():
    options = {quote_plan(path)["purchase_option"] for path in recompute.PLANS}
    expected = {"on-demand", "spot", "capacity-block", "training-plan", "savings-plan", "reserved", "bedrock"}
    assert options == expected
