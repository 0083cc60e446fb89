"""The gate's verdict in the quote of a saved plan or of a run folder, and invalid quotes."""

import json

import pytest

from infra.quoted import gate_decision
from launcher.model.document import document
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.plan_file import SAVED
from tests.plans import NOW

ALLOWED = {"verdict": "allow", "exit_code": 0, "reason": None}


@pytest.fixture
def word(tmp_path, plan_named):
    """The gate's verdict on a run folder's plan with a given quote."""
    plan = plan_named("trn2-capacity-block")

    def word_of(name="plan.json", text=None, **changes):
        path = tmp_path / name
        path.write_text(json.dumps(document(plan.request)))
        quote = {"schema": "slipway.quote/1", "digest": plan.digest, "gate": ALLOWED, "expires_at": None, **changes}
        (tmp_path / "quote.json").write_text(json.dumps(quote) if text is None else text)
        return gate_decision(path, plan, NOW)

    return word_of


@pytest.fixture
def saved_word(tmp_path, plan_named):
    """The word on a saved plan."""
    plan = plan_named("trn2-capacity-block")

    def word_of(**changes):
        path = tmp_path / "saved.json"
        quote = {"schema": "slipway.quote/1", "digest": plan.digest, "gate": ALLOWED, "expires_at": None, **changes}
        path.write_text(json.dumps({"schema": SAVED, "plan": document(plan.request), "quote": quote}))
        return gate_decision(path, plan, NOW)

    return word_of


def test_saved_plan_carries_gate_decision_and_digest(saved_word):
    assert saved_word().text == "the gate allowed this plan"
    dear = saved_word(gate={"verdict": "refuse", "exit_code": 3, "reason": "too dear"})
    assert (dear.text, dear.refusal.exit_code) == ("the gate refused this plan: too dear", 3)
    with pytest.raises(ImpossibleError, match="one was changed"):
        saved_word(digest="0" * 64)
    with pytest.raises(UnreadableInputError, match="is not a quote"):
        saved_word(gate=None)


def test_allowed_quote_gives_no_refusal(word):
    assert word().refusal is None
    passed = word(expires_at="2026-12-01T00:00:00+00:00")
    assert passed.refusal is None
    assert passed.text == "the gate allowed this plan, on prices good until 2026-12-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "changes, code, message",
    [
        ({"name": "mine.json"}, 5, "passed no gate"),
        ({"expires_at": "2026-11-01T00:00:00+00:00"}, 4, "good until 2026-11-01"),
        ({"gate": {"verdict": "refuse", "exit_code": 3, "reason": "too dear"}}, 3, "too dear"),
        ({"gate": {"verdict": "refuse", "exit_code": 4, "reason": "no price"}}, 4, "no price"),
    ],
)
def test_quote_expired_missing_or_refused_is_refused(word, changes, code, message):
    gate_decision = word(**changes)
    assert gate_decision.refusal.exit_code == code
    assert message in gate_decision.text


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "slipway.plan/1"},
        {"gate": None},
        {"gate": {"verdict": "refuse"}},
        {"expires_at": "soon"},
        {"expires_at": "2026-12-01T00:00:00"},
        {"expires_at": 7},
        {"digest": 7},
        {"text": "["},
        {"text": "[" * 100_000},
        {"text": "[]"},
    ],
)
def test_invalid_quote_file_refused(word, changes):
    with pytest.raises(UnreadableInputError, match="is not a quote"):
        word(**changes)


def test_plan_changed_after_quote_refused(word):
    with pytest.raises(ImpossibleError, match="one was changed"):
        word(digest="0" * 64)
