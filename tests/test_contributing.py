"""What the pages for the next person name is there, and the hooks run what `make lint` does."""

import re

import pytest
import yaml

from tests.plans import ROOT

PAGES = (
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/releasing.md",
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("add-*.md"))),
)
ROOMS = ("launcher/", "infra/", "templates/", "tests/", "examples/", "docs/")


def lint() -> str:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    return text[text.index("\nlint:") : text.index("\ntest:")]


@pytest.mark.parametrize("page", PAGES)
def test_files_and_links_named_on_a_page_exist(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = {file for file in re.findall(r"`([\w./-]+\.(?:py|csv|toml|md))`", text) if file.startswith(ROOMS)}
    assert not [file for file in named if not (ROOT / file).exists()]
    links = re.findall(r"\]\(([^)#:]+)\)", text)
    assert not [link for link in links if not ((ROOT / page).parent / link).exists()]


def changes() -> dict[str, list[str]]:
    """The files that CONTRIBUTING.md names for each kind of change."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("## Which file to open") : text.index("## Extend Slipway")]
    rows = [line.split("|")[1:3] for line in table.splitlines() if line.startswith("| ")][1:]
    return {change.strip(): re.findall(r"`(launcher/[\w./]+\.py)`", files) for change, files in rows}


def test_files_of_five_changes_are_named():
    assert len(changes()) == 5


@pytest.mark.parametrize(
    "change, example",
    [
        ("the spot price formula", "[Rr]ate"),
        ("a field of the report", "left_up_usd_per_hour"),
        ("a key of the plan that the job reads", "retries"),
    ],
)
def test_example_of_a_change_is_in_every_named_file(change, example):
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in changes()[change]}
    assert len(texts) >= 3
    assert [file for file, text in texts.items() if not re.search(example, text)] == []


def test_pre_commit_hooks_are_the_linters_of_make_lint():
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert repository["repo"] == "local"
    entries = {hook["id"]: hook["entry"].removeprefix(".venv/bin/") for hook in repository["hooks"]}
    for name in ("ruff", "ruff-format", "mypy", "import-rules"):
        assert f"$(bin)/{entries[name].split()[0]}" in lint()
    assert {entry.split()[0] for entry in entries.values()} >= set(re.findall(r"\$\(bin\)/([\w-]+)", lint()))


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflow_pins_actions_by_commit_and_declares_permissions(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert "permissions" in job
        for step in job["steps"]:
            assert re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}", step.get("uses", "a/b@" + "0" * 40))
