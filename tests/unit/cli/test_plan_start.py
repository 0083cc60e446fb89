"""A command imports only what it needs, and parses its arguments without Pydantic."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from launcher.cli import app as command_line
from launcher.cli.coercion import Plain, lighten

PLAN = """
slipway: 1
name: x
workload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}
target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
"""


def test_plan_command_loads_no_pydantic_and_no_other_command(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text(PLAN)
    script = (
        "import json, sys; sys.argv = ['slipway', 'plan', 'plan.yaml', '--max-price-age', '400', '--max-usd', '9.5']\n"
        "from launcher.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as left: print(json.dumps([left.code, sorted(sys.modules)]))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    code, modules = json.loads(done.stdout.splitlines()[-1])
    assert code == 0
    assert "launcher.pricing.candidate" in modules
    unwanted = {"pydantic", "rich", "statistics", "launcher.cli.launch", "launcher.cli.deploy", "launcher.cli.quote"}
    unwanted |= {"launcher.answers.plan_table", "launcher.catalog.model_config", "launcher.model.schedule"}
    unwanted |= {"launcher.planning.launchers", "launcher.planning.posterior", "launcher.records.measurements"}
    assert not unwanted & set(modules)


def test_every_command_module_registers_a_command() -> None:
    whole = get_command(command_line.app)
    names = set(getattr(whole, "commands"))  # noqa: B009 - typer carries its own click
    assert set(command_line.COMMANDS) <= names
    for name in command_line.COMMANDS:
        alone = get_command(command_line.application((name,)))
        assert name in getattr(alone, "commands")  # noqa: B009


def parse_page(**changes: Any) -> dict[str, object]:
    """What a command with one parameter of each kind gets from some words."""
    got: dict[str, object] = {}
    app = typer.Typer()

    @app.command()
    def run(
        *,
        file: Path,
        name: str = "none",
        count: int = typer.Option(1, min=1, max=9),
        hours: float | None = typer.Option(None, min=0),
        usd: Decimal = typer.Option("1", parser=Decimal),
        loud: bool = False,
        many: list[str] = typer.Option([]),
    ) -> None:
        got.update(file=file, name=name, count=count, hours=hours, usd=usd, loud=loud, many=many)

    command = get_command(app)
    lighten(command)
    command([str(word) for word in changes["words"]], standalone_mode=False)
    return got


def test_arguments_parse_to_annotated_types() -> None:
    arguments = ["a/b", "--name", "x", "--count", "3", "--hours", "0.5", "--usd", "2.50", "--loud"]
    assert parse_page(words=[*arguments, "--many", "p", "--many", "q"]) == {
        "file": Path("a/b"),
        "name": "x",
        "count": 3,
        "hours": 0.5,
        "usd": Decimal("2.50"),
        "loud": True,
        "many": ["p", "q"],
    }
    assert parse_page(words=["a"])["count"] == 1
    assert parse_page(words=["a"])["hours"] is None


@pytest.mark.parametrize(
    "words",
    [
        *(["a", "--count", word] for word in ("x", "0", "10", "1.5")),
        *(["a", "--hours", word] for word in ("x", "-0.1", "nan", "inf")),
        [],
    ],
)
def test_arguments_of_wrong_type_refused_naming_parameter(words: list[str]) -> None:
    refusal: Any
    with pytest.raises(command_line._USAGE_ERROR) as refusal:
        parse_page(words=words)
    assert refusal.value.exit_code == 2
    assert refusal.value.param.name == (words[1].removeprefix("--") if words else "file")


@pytest.mark.parametrize("line", ["slipway launch plan.yaml --region us-", "slipway portfolio plan"])
def test_completion_loads_no_pydantic_or_catalog(line: str) -> None:
    script = (
        "import atexit, sys; sys.argv = ['slipway']\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr))\n"
        "from launcher.cli.app import main\n"
        "main()\n"
    )
    shell = {"_SLIPWAY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **shell}, capture_output=True, text=True, check=False
    )
    loaded = done.stderr.split()
    assert done.returncode == 0
    assert "launcher.cli.completion" in loaded
    assert not {"pydantic", "rich.console", "launcher.catalog.catalog", "launcher.plan_file"} & set(loaded)


def test_already_converted_value_passes_unchanged() -> None:
    assert Plain(int).coerce(5, None, None) == 5
    assert Plain(int).coerce(None, None, None) is None
