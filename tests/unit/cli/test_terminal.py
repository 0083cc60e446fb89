"""Features of an interactive terminal: colour, pager, and short pages before a question."""

import os
import pty
import re
import sys
from dataclasses import replace

import pytest

from launcher.answers.quote_brief import page
from launcher.cli.output import say
from launcher.model.finding import warning
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from tests import warm_launcher
from tests.plans import NOW, ROOT
from tests.screen import rows

PLAN = """
slipway: 1
name: x
workload: {train: {hours: 1}}
target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
purchase: {option: on-demand}
"""


def type_command(arguments, *, answer=b"", folder, warm=(), **environment):
    """What a command prints to a terminal of 80 columns, and its exit code; `warm`: the processes that stay."""
    printed = bytearray()

    def read(descriptor):
        data = os.read(descriptor, 4096)
        printed.extend(data)
        if answer and printed.rstrip().endswith(b"[y/N]:"):
            os.write(descriptor, answer)
        return data

    code = (
        f"import os, sys; os.chdir({str(folder)!r}); os.environ.update({environment!r}); "
        f"sys.argv = {['slipway', *arguments]!r}; "
        f"from {'tests.warm_launcher' if warm else 'launcher.__main__'} import main; main(*{warm!r})"
    )
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(ROOT)
    try:
        status = pty.spawn([sys.executable, "-c", code], read, lambda descriptor: b"")
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    return bytes(printed).decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


@pytest.fixture
def warm(warm_app, warm_cli, warm_server):
    """The persistent processes of a command that deploys, as warm_launcher.main takes them."""
    return (*warm_launcher.words(warm_app.command(), warm_cli.command())[2:], warm_server.address)


@pytest.fixture
def plan_folder(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN, encoding="utf-8")
    (tmp_path / "train.py").touch()
    return tmp_path


TERMINAL = {"TERM": "xterm", "COLUMNS": "80", "LINES": "200", "NO_COLOR": ""}


def soft_rows(shown):
    """How many rows of 80 columns a screen has: the terminal breaks what is wider."""
    return sum(max(1, -(-len(row) // 80)) for row in rows(shown))


@pytest.mark.long
def test_launch_question_fits_25_lines(plan_folder, warm):
    shown, code = type_command(
        ["launch", "plan.yaml", "--sandbox"], answer=b"n\n", folder=plan_folder, warm=warm, **TERMINAL
    )
    before = shown.split("[y/N]")[0]
    assert code == 7
    assert soft_rows(before) <= 25
    for word in ("Total", "off: ", "$55.07/h", "more: -v"):
        assert word in before
    assert "assumptions" not in before


@pytest.mark.long
def test_endpoint_question_fits_31_lines(tmp_path, warm):
    plan = ROOT / "examples" / "serve" / "pinned" / "llama31-8b-inf2.yaml"
    (tmp_path / "plan.yaml").write_text(plan.read_text(encoding="utf-8"), encoding="utf-8")
    arguments = ["deploy", "plan.yaml", "--sandbox", "--despite-verdict"]
    shown, code = type_command(arguments, answer=b"n\n", folder=tmp_path, warm=warm, **TERMINAL)
    before = shown.split("[y/N]")[0]
    assert code == 7
    assert soft_rows(before) <= 31
    assert "image huggingface-vllm-inference-neuronx:0.11.0" in before


def test_quote_screen_fits_terminal_and_pipe_gets_whole_text(monkeypatch):
    priced = price(ROOT / "examples" / "hyperpod-eks" / "p5en-spot.yaml", NOW, PriceOptions(any_age=True))
    quoted = replace(priced.quote(1), findings=(warning("a", "", "long " * 60, "fix " * 20), *priced.quote(1).findings))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    shown = page(quoted, 1, 80, priced)
    assert len(shown) <= 23
    assert max(map(len, shown)) <= 80
    assert not any("…" in line for line in shown)
    policies = " ".join(" ".join(shown).split())
    assert all(f"{policy.name} {policy.value}" in policies for policy in quoted.policies if policy.on)
    assert "long " * 60 + "(fix fix" in " ".join(" ".join(shown).split())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    text = " ".join(" ".join(page(quoted, 1, 80, priced)).split())
    assert "…" not in text
    for policy in quoted.policies:
        assert policy.name in text


@pytest.mark.parametrize("width", [80, 120])
def test_warning_before_question_wraps_at_words(width):
    priced = price(ROOT / "examples" / "tiny-gpt.yaml", NOW, PriceOptions(any_age=True))
    remark = warning("a", "workload.train.stack", "word " * 40 + "last", "fix " * 20 + "end")
    shown = page(replace(priced.quote(1), findings=(remark,)), 1, width, priced)
    assert max(map(len, shown)) <= width
    text = " ".join(" ".join(shown).split())
    assert f"warning: workload.train.stack: {'word ' * 40}last ({'fix ' * 20}end)" in text
    assert "…" not in text


@pytest.mark.long
def test_verbose_after_subcommand_shows_assumptions(plan_folder, warm):
    arguments = ["launch", "plan.yaml", "--sandbox", "-v"]
    shown, _ = type_command(arguments, answer=b"n\n", folder=plan_folder, warm=warm, **TERMINAL)
    assert "assumptions" in shown
    assert "can be launched now" in shown


def test_refusal_is_coloured_and_at_top_of_quote(plan_folder):
    shown, _ = type_command(["quote", "plan.yaml", "--max-usd", "1"], folder=plan_folder, **TERMINAL)
    assert re.search(r"\x1b\[1;31m +Launch +refused", shown)
    assert shown.index("refused") < shown.index("compute")


@pytest.mark.parametrize("changes", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_color_or_dumb_terminal_prints_no_escape_codes(plan_folder, changes):
    shown, _ = type_command(["quote", "plan.yaml"], folder=plan_folder, **TERMINAL | changes)
    assert "1 run in 10 above" in shown
    assert "\x1b" not in shown


def test_long_output_in_terminal_uses_pager(plan_folder):
    pager = plan_folder / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\nhead -n 3\n", encoding="utf-8")
    pager.chmod(0o755)
    shown, code = type_command(
        ["quote", "plan.yaml", "--explain"], folder=plan_folder, **TERMINAL | {"LINES": "20", "PAGER": str(pager)}
    )
    assert (shown.split()[0], code) == ("PAGED", 0)
    for arguments, lines in ((["quote", "plan.yaml"], "60"), (["quote", "plan.yaml", "--no-pager"], "20")):
        shown, _ = type_command(arguments, folder=plan_folder, **TERMINAL | {"LINES": lines, "PAGER": str(pager)})
        assert "PAGED" not in shown


def test_help_shows_whole_summaries(plan_folder):
    shown, _ = type_command(["--help"], folder=plan_folder, **TERMINAL)
    assert "..." not in shown.partition("Commands:")[2]
    assert re.search(r"launch +Price a plan, deploy its cluster, run its job to the end, and", shown)


def test_messages_wrap_at_blanks_in_terminal_except_commands(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "60")
    command = f"  next: slipway quote {'x' * 60} --pick 1"
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda answer=terminal: answer, raising=False)
        say(f"  {'words ' * 20}", command)
    lines = capsys.readouterr().err.splitlines()
    assert lines.count(command) == 2
    broken = lines[: lines.index(command)]
    assert len(broken) == 3
    assert all(len(line) <= 60 and line.startswith("  words") for line in broken)
    assert lines[-2] == f"  {'words ' * 20}"
