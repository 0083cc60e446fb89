"""Commands that messages name: each exists, has valid arguments, and can be pasted."""

import ast
import re
import shlex
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from typer.main import get_command

from launcher.cli.app import application
from launcher.workflow.quote.commands import COMMAND_FLAGS, command, command_for, next_command
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests.plans import NOW

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = ("infra", "launcher", "templates")
COMMANDS = get_command(application()).commands  # type: ignore[attr-defined]
MENTION = re.compile(r"(?<![.\w/-])slipway ([^;,()`\n]*)")
VALUE = "VALUE"
"""What stands for a value of an f-string: a name, a file, or more words of a command."""
A_DAY = "2026-11-20"
ARGUMENT = re.compile(r"--?[a-z]|[A-Z]{4,}|main$|\d+$|.*[/:>=]|[\w-]+\.(yaml|json)$|--$")
"""A word that belongs to a command, where no option comes before it; the first other one goes on with the sentence."""
SAID = {"did", "gave", "makes", "made", "wrote", "does", "deployed", "need"}
"""What follows the program's name where it is no command."""
BY_MAIL = ("templates",)
"""Whose messages reach people who may have no plan file at hand: the command without it."""


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module and their lines, without docstrings; a value of an f-string is a word."""
    source = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(source))) if "slipway " in source else []  # most modules name no command
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            docstrings |= {id(part) for part in ast.walk(node)}
            parts = (str(part.value) if isinstance(part, ast.Constant) else VALUE for part in node.values)
            yield node.lineno, "".join(parts)
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def mentions() -> Iterator[tuple[str, list[str]]]:
    """Where a command is named, and the words from its name on."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, text in texts(path):
                for match in MENTION.finditer(text):
                    arguments = match[1].rstrip(" .:").split()
                    if (
                        arguments
                        and "-->" not in arguments
                        and arguments[0] not in SAID
                        and not arguments[0].startswith(VALUE)
                    ):
                        yield f"{path.relative_to(ROOT)}:{line}", arguments


def type_command(arguments: list[str]) -> tuple[Any, list[str]]:
    """A command and the words that it is given in a sentence."""
    command, rest = COMMANDS[arguments[0]], arguments[1:]
    below = getattr(command, "commands", None)
    if below:
        command, rest = below[rest[0]], rest[1:]
    takes = {name for param in command.params for name in param.opts if not getattr(param, "is_flag", False)}
    given: list[str] = []
    for word in rest:
        after_option = bool(given) and given[-1].startswith("-") and given[-1] in takes
        if not (after_option or ARGUMENT.match(word) or "--" in given):
            break
        given.append(word)
    end = given.index(">") if ">" in given else len(given)
    return command, given[:end]


def test_every_command_mentioned_in_texts_parses():
    named = list(mentions())
    assert len(named) > 100
    problems = [(where, arguments, refusal(where, arguments)) for where, arguments in named]
    assert [problem for problem in problems if problem[-1]] == []


OF_OPTIONS = {"--region": "us-east-1", "--from-step": "30"}
"""Values of options that a text fills in: not every one may be a day."""


def refusal(where: str, arguments: list[str]) -> str | None:
    """Why a command that a message names cannot be pasted; None where it can."""
    if arguments[0] not in COMMANDS:
        return "no such command"
    command, given = type_command(arguments)
    if given or not where.startswith(BY_MAIL):
        values = {"NAME": "name"}
        before = ["", *given]
        words = [OF_OPTIONS.get(last, values.get(word, word)) for last, word in zip(before, given, strict=False)]
        try:
            command.make_context(arguments[0], [word.replace(VALUE, A_DAY) for word in words])
        except Exception as error:  # noqa: BLE001 - click's, of which typer exports no base
            return str(error)
    return None


def test_next_command_keeps_given_options(tmp_path):
    plan = tmp_path / "my plan.yaml"
    plan.write_text("slipway: 1\nname: a\nworkload: {train: {model: llama-3.1-8b, tokens_b: 1}}\n", encoding="utf-8")
    given = PriceOptions(
        region="us-west-2",
        prices_as_of=date(2026, 11, 1),
        max_price_age=400,
        max_usd=Decimal("1000.50"),
        everything=True,
        settings=("target.os=alinux2023",),
    )
    priced_plan = price(plan, NOW, given)
    flags = [
        "--region",
        "us-west-2",
        "--prices-as-of",
        "2026-11-01",
        "--max-price-age",
        "400",
        "--max-usd",
        "1000.50",
        "--set",
        "target.os=alinux2023",
        "--all",
    ]
    assert shlex.split(next_command(priced_plan)) == [
        "slipway",
        "quote",
        str(plan),
        *flags,
        "--pick",
        priced_plan.short_id(1),
    ]
    for name, takes in COMMAND_FLAGS.items():
        more = {"render": ("-o", "out"), "spike": ("--type", "p5.48xlarge")}.get(name, ())
        arguments = shlex.split(command(priced_plan, name, *more))
        assert [word for word in arguments if word in takes] == list(takes)
        group, _, inner = name.partition(" ")
        known = COMMANDS[group].commands[inner] if inner else COMMANDS[group]
        known.make_context(name, arguments[2 + bool(inner) :])
    for name in ("render", "quote"):
        assert shlex.split(command_for(priced_plan, name, 3))[-2:] == ["--pick", priced_plan.short_id(3)]
    bare = price(plan, NOW, PriceOptions())
    assert command(bare, "launch") == f"slipway launch {shlex.quote(str(plan))}"
