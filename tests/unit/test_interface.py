"""The Python interface returns what the commands print, imports quickly, and its examples run."""

import doctest
import inspect
import json
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

import launcher
from launcher.cli import app
from launcher.model.errors import UnreadableInputError
from launcher.records import run_folder
from launcher.records.submission import HeadNode
from tests.unit.cli.reports import REPORT
from tests.unit.records.submissions import submission

ROOT = Path(__file__).resolve().parents[2]
PLAN = ROOT / "examples" / "open" / "llama31-8b-sft.yaml"


@pytest.mark.long
@pytest.mark.parametrize(
    "call,words",
    [
        (lambda: launcher.plan(PLAN), ["plan", str(PLAN)]),
        (lambda: launcher.quote(str(PLAN), 2), ["quote", str(PLAN), "--pick", "2"]),
        (lambda: launcher.compare(PLAN), ["compare", str(PLAN)]),
        (
            lambda: launcher.compare(ROOT / "examples/serve/llama31-8b.yaml"),
            ["compare", "examples/serve/llama31-8b.yaml"],
        ),
        (lambda: launcher.sweep(PLAN, {"nodes": [1, 2]}), ["plan", str(PLAN), "--sweep", "nodes=1,2"]),
    ],
)
def test_interface_function_returns_the_json_of_the_command(call, words, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["slipway", *words, "--json"])
    with pytest.raises(SystemExit):
        app.main()
    printed, returned = json.loads(capsys.readouterr().out), json.loads(json.dumps(call()))
    for document in (printed, returned):
        for key in ("as_of", "expires_at", "findings"):
            document.pop(key, None)
    if words[0] == "plan" and "--sweep" not in words:
        assert printed.pop("next") == returned.pop("next")
    assert returned == printed


def test_import_of_launcher_loads_no_other_module():
    code = "import json, sys; import launcher; print(json.dumps([n for n in sys.modules if n.startswith('launcher')]))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["launcher"]


def test_interface_has_the_listed_names_only():
    for name in launcher.__all__:
        assert getattr(launcher, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'plam'"):
        _ = launcher.plam


def test_rows_are_flat_with_numeric_money():
    (first, *_) = launcher.rows(launcher.plan(PLAN))
    assert isinstance(first["usd.mid"], float)
    assert isinstance(first["price.source"], str)
    assert not any(isinstance(value, dict | list) for value in first.values())


@pytest.mark.long
def test_examples_of_the_python_page_run(monkeypatch):
    monkeypatch.chdir(ROOT)
    tested = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert tested.attempted > 8
    assert tested.failed == 0


@pytest.mark.parametrize(
    "values",
    [
        *({"max_usd": "5"}, {"max_usd": Decimal("NaN")}, {"max_usd": Decimal(-1)}, {"max_usd": 5}, {"region": 5}),
        *({"prices_as_of": "2026-01-01"}, {"prices_as_of": datetime(2026, 1, 1, tzinfo=UTC)}, {"now": "x"}, {"now": 0}),
        *({"now": date(2026, 1, 1)}, {"now": datetime(1, 1, 1, tzinfo=UTC)}, {"max_price_age": True}, {"cache": "x"}),
        *({"max_price_age": -1}, {"everything": "no"}, {"prices_as_of": date(1, 1, 1)}),
    ],
    ids=str,
)
def test_options_of_another_type_are_refused_with_the_name(values):
    with pytest.raises(UnreadableInputError, match=f"^Options.{next(iter(values))} must be "):
        launcher.Options(**values)


def test_valid_options_are_accepted():
    now = datetime(2026, 11, 20, 12, 0, 0, 7, tzinfo=UTC)
    assert launcher.Options(now=now, max_usd=Decimal(5), everything=True, prices_as_of=date(2026, 1, 1)).moment() == (
        now.replace(microsecond=0)
    )


def test_launch_from_a_program_above_max_usd_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "plan.yaml").write_text(
        "slipway: 1\nname: limited\nworkload: {train: {hours: 1}}\n"
        "target: {instance_type: g6e.xlarge, nodes: 1, region: us-east-1}\npurchase: {option: on-demand}\n",
        encoding="utf-8",
    )
    lines: list[str] = []
    with pytest.raises(launcher.SlipwayError) as caught:
        launcher.launch("plan.yaml", max_usd=Decimal("0.05"), sandbox=True, notify=lines.append)
    assert caught.value.exit_code == 3
    assert not (tmp_path / ".slipway").exists()


def test_hint_of_an_ended_sandbox_has_the_name_of_the_plan(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_folder.create("x", datetime.now(UTC), tmp_path)
    run.write_json("report.json", {**REPORT, "name": "x", "status": "running", "attempts": []})
    submission(HeadNode(via="sandbox", host="ip-10-0-0-1", instance="mark", region="us-east-2"), job="7").write(run)
    with pytest.raises(launcher.SlipwayError, match="has ended") as caught:
        launcher.cancel("x")
    assert caught.value.hint == "slipway report x and slipway logs x show what the run folder contains"


@pytest.mark.parametrize("limit", [1, 2.5, "3"])
def test_max_usd_other_than_decimal_is_refused(limit):
    with pytest.raises(launcher.SlipwayError, match="max_usd must be Decimal"):
        launcher.launch(PLAN, max_usd=limit)


def test_settings_of_a_program_equal_the_ones_of_the_command_line():
    found = launcher.plan(PLAN, launcher.Options(settings=("target.instance_type=p5.48xlarge", "target.nodes=2")))
    assert {(row["instance_type"], row["nodes"]) for row in found["candidates"]} == {("p5.48xlarge", 2)}


def test_name_without_a_run_is_refused_by_each_function(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for function in (launcher.status, launcher.wait, launcher.cancel):
        with pytest.raises(launcher.SlipwayError, match="no run of nosuch"):
            function("nosuch")


def reference():
    """The page with every name of the interface: its signature and its docstring."""
    lines = [
        "# Python reference",
        "",
        "Written from the code; [Python](python.md) has examples. `slipway_aws` exports the same names.",
        "",
    ]
    for name in launcher.__all__:
        value = getattr(launcher, name)
        kind = "class" if isinstance(value, type) else "def"
        signature = str(inspect.signature(value))
        signature = re.sub(
            r"Options\([^()]*(?:\(\))?\)", "Options()", re.sub(r"<function \w+ at \w+>", "silent", signature)
        )
        plain = re.sub(r"(?:[a-z_]+\.)+([A-Z]\w+)", r"\1", signature.replace("PlanFile", "str | PathLike"))
        lines += [f"## {name}", "", f"    {kind} {name}{plain}", "", *_indent(inspect.getdoc(value) or "")]
    return "\n".join(lines).rstrip() + "\n"


def _indent(text):
    """A docstring as Markdown: its sections as lists."""
    for line in text.splitlines():
        entry = re.fullmatch(r" {4}(\w+): (.*)", line)
        if entry is not None:
            yield f"- `{entry[1]}`: {entry[2]}"
        elif re.fullmatch(r"(Args|Returns|Raises):", line):
            yield line
            yield ""
        else:
            yield line.strip() and (f"    {line.strip()}" if line.startswith("        ") else line.strip())
    yield ""


def test_python_reference_equals_the_generated_one(golden):
    golden("../../docs/python-reference.md", reference())


def test_every_interface_function_is_typed_and_documented():
    for name in launcher.__all__:
        value = getattr(launcher, name)
        assert inspect.getdoc(value), name
        if not isinstance(value, type):
            parameters = inspect.signature(value).parameters.values()
            assert all(parameter.annotation is not parameter.empty for parameter in parameters), name
            assert inspect.signature(value).return_annotation is not inspect.Signature.empty, name
