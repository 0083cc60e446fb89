"""What a deployment says when an interruption ends its own sandbox."""

import pytest

from launcher.model.errors import InterruptedAtQuestionError
from launcher.workflow.deploy.deployment import report_ended_sandbox


@pytest.mark.parametrize("error, ends, lines", [(KeyboardInterrupt, True, 1), (KeyboardInterrupt, False, 0)])
def test_interruption_reports_the_removed_sandbox(error, ends, lines):
    messages = []
    with pytest.raises(error), report_ended_sandbox(messages.append, ends=ends):
        raise error
    assert len(messages) == lines
    assert all("nothing of it exists" in message for message in messages)


def test_interruption_at_the_question_sends_no_message():
    messages = []
    with pytest.raises(InterruptedAtQuestionError), report_ended_sandbox(messages.append, ends=True):
        raise InterruptedAtQuestionError
    assert messages == []
