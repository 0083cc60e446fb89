"""The check before a commit: the first node asks, the other nodes answer, through real files."""

import time
from dataclasses import replace

import pytest

from launcher.agent.checkpoint import confirmation
from launcher.agent.checkpoint.confirmation import Answers, Question
from launcher.agent.checkpoint.files import local_files
from launcher.agent.checkpoint.finished import FinishedFolder
from tests.waiting import until


@pytest.fixture
def send(tmp_path, monkeypatch):
    """A folder as it was finished and sent."""
    monkeypatch.setattr(confirmation, "_POLL_S", 0.02)
    path = tmp_path / "step-7"
    path.mkdir()
    (path / "weights").write_text("seven")
    return FinishedFolder(step=7, path=path, files=local_files(path))


@pytest.fixture
def question_of_first(node_peers):
    """A question of the first node of two; it is asked until something comes of it."""
    first, second = node_peers(0), node_peers(1)
    question = Question(first)
    return second, lambda step: question.is_confirmed(step, {1}, first.gather())


def test_unchanged_part_is_confirmed(question_of_first, send):
    second, answered = question_of_first
    Answers(second, {7: send}.get).start()
    until(lambda: answered(7))


def test_changed_part_is_confirmed_only_after_the_new_version_is_sent(question_of_first, send):
    second, answered = question_of_first
    (send.path / "weights").write_text("eight")
    parts = {7: send}
    Answers(second, lambda step: parts[step]).start()
    time.sleep(2)
    assert not answered(7)
    parts[7] = replace(send, files=send.survey().files)
    until(lambda: answered(7))


def test_part_removed_after_sending_is_confirmed(question_of_first, send):
    second, answered = question_of_first
    (send.path / "weights").unlink()
    Answers(second, {7: send}.get).start()
    until(lambda: answered(7))


def test_ended_node_is_not_waited_for(question_of_first):
    second, answered = question_of_first
    assert not answered(7)
    second.close(exit_code=0)
    until(lambda: answered(7))


def test_newer_of_two_steps_is_confirmed(question_of_first, send):
    second, answered = question_of_first
    assert not answered(7)
    assert not answered(6)
    Answers(second, {7: send}.get).start()
    until(lambda: answered(7))
    assert not answered(6)
