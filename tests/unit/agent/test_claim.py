import json

import pytest

from launcher.agent.checkpoint.claim import STALE_S, Claim, Owner, parse_owner
from launcher.agent.errors import TakenOverError
from launcher.agent.events import EventLog
from launcher.agent.store.objects import Store, StoredText


def owner(**changes):
    return Owner(**{"run": "r1", "attempt": 1, "node": "p5-1", "token": "abc"} | changes)


@pytest.fixture
def claim(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    return Claim(Store("s3://bucket/x"), EventLog(tmp_path / "events"), run="r1", attempt=2, node="p5-2")


class TestText:
    def test_owner_written_as_json_is_parsed_equal(self):
        assert parse_owner(owner(beat=4, released=True).to_json()) == owner(beat=4, released=True)

    @pytest.mark.parametrize(
        "change",
        [{"schema": "slipway.claim/2"}, {"beat": "4"}, {"run": 7}, {"released": 1}, {"more": 1}, {"token": None}],
        ids=str,
    )
    def test_owner_with_an_invalid_field_is_none(self, change):
        assert parse_owner(json.dumps(json.loads(owner().to_json()) | change)) is None

    @pytest.mark.parametrize("text", ["", "{", "[]", "null", "{}"])
    def test_owner_of_invalid_text_is_none(self, text):
        assert parse_owner(text) is None


class TestTakeOver:
    """Which agent may take over a claim; `age_s` is the age that the store reports."""

    @staticmethod
    def stored_text(age_s):
        return StoredText(text="", etag="x", age_s=age_s)

    @pytest.mark.parametrize(
        "there,age_s,free",
        [
            (owner(attempt=1), 0.0, True),
            (owner(attempt=2), 0.0, True),
            (owner(attempt=3, released=True), 0.0, True),
            (owner(run="r0"), STALE_S - 1, False),
            (owner(run="r0"), STALE_S, True),
            (owner(run="r0", released=True), 0.0, True),
        ],
        ids=["earlier attempt", "same attempt", "later, done", "other run", "other run, silent", "other run, done"],
    )
    def test_claim_is_free_by_owner_and_age(self, claim, there, age_s, free):
        assert claim.is_free(there, self.stored_text(age_s)) is free

    def test_a_later_attempt_is_not_disturbed(self, claim):
        with pytest.raises(TakenOverError, match="attempt 3 on p5-1"):
            claim.is_free(owner(attempt=3), self.stored_text(9999.0))
