"""Plugins of an organisation: its policy at launch, and its price sources."""

import json
import sys
from decimal import Decimal
from importlib.metadata import entry_points

import pytest

from launcher.catalog.load import load
from launcher.catalog.tables import ON_DEMAND, SOURCES
from launcher.model.errors import ImpossibleError
from launcher.workflow.quote.plugins import GROUP, names, plugin_findings
from tests.documents import read_document

PLAN = """slipway: 1
name: job
workload: {train: {hours: 1}}
target: {kind: parallelcluster, instance_type: g6e.xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
run: {command: [python, train.py]}
"""
QUOTE = {"schema": "slipway.quote/1", "usd": {"high": "120"}}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package with an entry point of the group, as pip does: a module and its metadata on the path."""

    def install(body, name="acme"):
        module = f"{name}_policy"
        (tmp_path / f"{module}.py").write_text(body)
        metadata = tmp_path / f"{name}_policy-1.0.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-policy\nVersion: 1.0\n")
        (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {module}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        return name

    yield install
    for module in [module for module in sys.modules if module.endswith("_policy")]:
        del sys.modules[module]


def test_no_plugin_gives_no_findings():
    assert (names(), plugin_findings(QUOTE)) == ((), ())
    assert not entry_points(group=GROUP)


def test_plugin_gets_quote_and_findings_carry_plugin_name(installed):
    installed(
        "def check(quote):\n"
        "    if float(quote['usd']['high']) > 100:\n"
        "        return [{'level': 'error', 'code': 'too-dear', 'message': 'above $100', 'hint': 'ask finance'}]\n"
    )
    (finding,) = plugin_findings(QUOTE)
    assert (finding.level, finding.code, finding.hint) == ("error", "acme-too-dear", "ask finance")
    assert "plugin acme" in finding.message
    assert plugin_findings({**QUOTE, "usd": {"high": "99"}}) == ()


@pytest.mark.parametrize(
    "body",
    [
        "def check(quote): raise KeyError('usd')",
        "def check(quote): return [{'level': 'fatal', 'code': 'x', 'message': 'y'}]",
        "def check(quote): return ['no']",
        "def check(quote): return [{'level': 'info', 'code': 'x', 'message': 'y', 'more': 1}]",
        "import nosuchmodule_of_anybody",
        "def check(quote): raise SystemExit(0)",
        "raise SystemExit(0)",
        "check = 3",
        "def chek(quote): return []",
    ],
)
def test_failing_plugin_refuses_and_is_named(installed, body):
    installed(body)
    with pytest.raises(ImpossibleError, match="plugin acme failed") as refused:
        plugin_findings(QUOTE)
    assert "acme of slipway.plugins" in refused.value.hint


def test_plugin_cannot_change_quote_of_other_plugin(installed):
    installed("def check(quote): quote['usd']['high'] = '0'", name="a")
    installed("def check(quote): return [{'level': 'info', 'code': 'x', 'message': quote['usd']['high']}]", name="b")
    assert "120" in plugin_findings(QUOTE)[0].message


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a plan that a launch accepts."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (place / "plan.yaml").write_text(PLAN)
    (place / "train.py").write_text("print(1)\n")
    return place


@pytest.mark.parametrize("command", ["launch", "deploy"])
def test_plugin_error_refuses_launch_and_deployment_with_5(slipway, installed, folder, command):
    installed("def check(quote): return [{'level': 'error', 'code': 'region', 'message': 'only eu-west-1'}]")
    result = slipway(command, "plan.yaml", "--yes", "--json", "--max-price-age", "9999")
    assert result.code == 5, result.err
    document = read_document(result.out)
    assert [finding["code"] for finding in document["findings"]] == ["acme-region"]


def test_plugin_prices_are_used_after_refresh(slipway, installed, folder):
    row = ["g6e.xlarge", "us-east-1", "", "1.11", "2026-11-01", "listed", "acme", ""]
    tables = {
        ON_DEMAND.path: (ON_DEMAND.columns, row),
        SOURCES.path: (SOURCES.columns, ["acme", "secondary", "Acme", ""]),
    }
    body = f"TABLES = {json.dumps({path: [list(head), cells] for path, (head, cells) in tables.items()})}\n"
    body += (
        "def prices(folder):\n"
        "    for path, (head, row) in TABLES.items():\n"
        "        target = folder / path\n"
        "        target.parent.mkdir(parents=True, exist_ok=True)\n"
        "        target.write_text(','.join(head) + '\\n' + ','.join(row) + '\\n')\n"
    )
    installed(body)
    result = slipway("prices", "refresh", "--from", "acme")
    assert result.code == 0, result.err
    cache = folder.parent / "cache/slipway/prices"
    price = load(overlay=cache).on_demand("g6e.xlarge", "us-east-1")
    assert (price.usd, price.source) == (Decimal("1.11"), "Acme")


def test_plugin_without_prices_refused(slipway, installed, folder):
    installed("def check(quote): return []")
    result = slipway("prices", "refresh", "--from", "acme")
    assert (result.code, "plugin acme has no prices" in result.err) == (5, True)


def test_version_command_names_price_dates_and_plugins(slipway, installed, folder):
    installed("")
    document = read_document(slipway("version", "--json").out)
    assert document["plugins"] == ["acme"]
    tables = {table["name"]: table for table in document["prices"]}
    assert tables["on_demand"]["newest"] >= "2026-10-15"
    assert all(table["oldest"] <= table["newest"] and not table["refreshed"] for table in tables.values())
    assert "plugins: acme" in slipway("version").out
