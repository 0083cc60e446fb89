"""The documentation: no dead links, and every command in tutorial and guides is valid."""

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from launcher import plan_file
from launcher.cli.app import app
from tests.checks import some
from tests.guides import MARKS, PAGES, blocks, lines, marked
from tests.plans import ROOT

PLACES = ("*.md", "docs/**/*.md", "examples/**/*.md")
WRITTEN = sorted({path for place in PLACES for path in ROOT.glob(place)})
PLAN = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)
PLANS = [path for path in WRITTEN if PLAN.search(path.read_text(encoding="utf-8"))]
README_LINES = 120


def anchors(path: Path) -> set[str]:
    """The ids of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    plain = (re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", title).lower() for title in titles)
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", title).strip()) for title in plain}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_of_every_page_have_an_existing_target(page):
    dead = []
    for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert dead == []


def parse_page(arguments):
    """What the CLI makes of a command line: it ends the test where it takes no such option or command."""
    command: Any = get_command(app)
    context = command.make_context("slipway", arguments)
    while hasattr(command, "commands"):
        remaining = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, remaining)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES)
def test_every_documented_command_is_accepted_by_the_cli(page):
    for block in blocks(page):
        for line in lines(block):
            arguments = shlex.split(line)
            if arguments[0] == "slipway" and "--version" not in arguments:
                parse_page(arguments[1:])


@pytest.mark.parametrize("page", PAGES)
def test_every_documented_block_is_tested_or_marked_with_a_reason(page):
    # A fence in another language would be run by no test; README shows one screen.
    assert set(re.findall(r"^```(\w+)", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)) <= {"sh", "yaml"}
    for block in some(blocks(page)):
        assert block.mark in MARKS
        assert bool(block.why) == (block.mark == "aws"), block


@pytest.mark.parametrize("block", marked("install"), ids=lambda block: str(block.place))
def test_documented_installation_gives_the_slipway_command(block):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    shell = ["sh", "-ec", f"{block.text}\ncommand -v slipway"]
    done = subprocess.run(shell, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("/.venv/bin/slipway")


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/tutorial.md"])
def test_documented_guide_commands_succeed(page, slipway, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for block in some(blocks(page)):
        if not block.mark:
            for line in lines(block):
                code, _, err = slipway(*shlex.split(line)[1:])
                assert code == 0, err


@pytest.mark.parametrize("page", PLANS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documented_plans_are_accepted_by_the_parser(page):
    for text in PLAN.findall(page.read_text(encoding="utf-8")):
        plan_file.loads(json.dumps({"slipway": 1, "name": "page"} | yaml.safe_load(text)))


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("add-*.md")), ids=lambda path: path.stem)
def test_constants_of_modules_named_by_guide_exist(page):
    named = re.findall(r"`([A-Z][A-Z_]+)`\s+of\s+`([\w/]+[.]py)`", page.read_text(encoding="utf-8"))
    lacking = [
        f"{name} of {module}"
        for name, module in named
        if not re.search(rf"^{name}\b", (ROOT / module).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert not lacking


def test_readme_length_is_within_the_limit():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_every_page_of_the_docs_is_in_the_site():
    settings = yaml.load((ROOT / "ci/site/mkdocs.yml").read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506
    named = set(re.findall(r"[\w/-]+\.md", str(settings["nav"])))
    assert named - {"repository/examples/README.md"} == {
        path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")
    }
    assert settings["theme"]["font"] == "false"
    assert settings["strict"] == "true"


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))
def test_list_item_contents_are_indented_for_python_markdown(page):
    """Python-Markdown counts in steps of 4 columns, and reads no new item in the lines of a further paragraph."""
    text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^ {1,3}(?:[-*] |\d+\. |\|).*|(?<=\n\n)(?: {1,3}| {5,7})\S.*", text, re.MULTILINE) == []
    further = [block for block in text.split("\n\n") if re.match(r" {4}(?![-*] |\d+\. )\S", block)]
    assert [block for block in further if re.search(r"^(?:[-*]|\d+\.) ", block, re.MULTILINE)] == []
