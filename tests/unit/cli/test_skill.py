"""`slipway skill`: its commands run as they stand, spend nothing, and name fields that the JSON has."""

import re
import shlex

from launcher.answers.json_schemas import schema_of
from tests.documents import read_document


def commands(text: str) -> list[list[str]]:
    """The lines of the blocks, as words after the program's name."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    return [shlex.split(line)[1:] for block in blocks for line in block.splitlines() if line]


def test_every_command_of_instructions_runs(tmp_path, monkeypatch, slipway):
    monkeypatch.chdir(tmp_path)
    lines = commands(slipway("skill").out)
    assert len(lines) > 8
    for words in lines:
        result = slipway(*words)
        assert result.code == 0, (words, result.err)
        if "--json" in words:
            assert read_document(result.out)["schema"].startswith("slipway.")


def test_instructions_have_no_spending_command_and_no_yes_flag(slipway):
    for words in commands(slipway("skill").out):
        assert not {"launch", "run", "deploy", "down", "cancel", "--yes", "-y"} & set(words)


def test_fields_named_in_instructions_exist_in_schema(slipway):
    candidate = schema_of("plan")["properties"]["candidates"]["items"]["properties"]
    text = slipway("skill").out
    for name in ("usd", "gate", "id", "findings", "price"):
        assert f"`{name}" in text
        assert name in candidate


def test_instructions_have_skill_front_matter(slipway):
    head = slipway("skill").out.split("---\n")[1]
    assert re.search(r"^name: slipway$", head, re.MULTILINE)
    assert 50 < len(re.search(r"^description: (.*)$", head, re.MULTILINE)[1]) < 1024
