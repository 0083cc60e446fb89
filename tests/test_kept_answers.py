"""Answers of linters that are kept from run to run."""

import pytest

from tests.infra.linting import SOURCES
from tests.kept_answers import kept, sources


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """Ask a question by its key; how often it was really put."""
    monkeypatch.delenv("CI", raising=False)
    put = []

    def ask(answer, *key):
        return kept(key, lambda: put.append(key) or answer, tmp_path / "answers"), len(put)

    return ask


def test_equal_question_has_the_kept_answer_and_another_is_put(asked):
    assert asked(["a finding"], "text", "1.0") == (["a finding"], 1)
    assert asked(["another"], "text", "1.0") == (["a finding"], 1)
    assert asked([], "text", "1.1") == ([], 2)
    assert asked(["another"], "text changed", "1.0") == (["another"], 3)


def test_ci_puts_every_question(asked, monkeypatch):
    asked([], "text")
    monkeypatch.setenv("CI", "true")
    assert asked(["a finding"], "text") == (["a finding"], 2)


def test_answer_that_is_no_json_is_not_kept(asked):
    finding = object()
    assert asked([finding], "text") == ([finding], 1)
    assert asked([finding], "text") == ([finding], 2)


def test_sources_of_the_linters_are_part_of_the_key():
    assert {path.name for path in SOURCES} == {"iam.py", "linting.py", "template_policies.py"}
    assert all("def " in text for text in sources(*SOURCES))
