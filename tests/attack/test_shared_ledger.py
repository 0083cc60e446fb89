"""A shared ledger, its people with wrong clocks and damaged indexes, strange objects beside the entries; from a seed.

What must never happen: a reader who sees fewer runs than there are, an older word of a run than its folder's last one,
an error, an object more at every look.
"""

import dataclasses
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.workflow.history.ledger_shared import ENTRIES, shared_ledger
from tests.attack.odd import damaged

PEOPLE = 4
STRANGE = (
    "99999999T999999999999Z-x-0.json",
    "00010101T000000000000Z-x-0.json",
    "99991231T235959999999Z-x-0.json",
    "a b",
)


@dataclasses.dataclass
class Person:
    """Somebody with runs in a folder, a clock and an index."""

    name: str
    clock: timedelta
    store: Objects
    runs: list[LedgerEntry] = dataclasses.field(default_factory=list)

    def looks(self):
        local_ledger = Ledger(source="here", entries=tuple(self.runs))
        now = datetime.now(UTC) + self.clock
        return shared_ledger(self.store.uri, self.store.session.environment, local_ledger, now, lambda _: None)

    @property
    def index(self):
        return next(Path(self.store.session.environment["XDG_CACHE_HOME"]).glob("**/*.index"), None)


def run_of(name, number):
    at = datetime(2026, 11, 20, tzinfo=UTC) + timedelta(minutes=number)
    return LedgerEntry(
        *(name, f"{at:%Y%m%dT%H%M%SZ}", name, at, at, "succeeded", False, False, "eks", "p5.48xlarge", 1, "us-east-2"),
        *("spot", None, Decimal(20), 2.0, Decimal(40), None, None, None, 0, 0.0, {}),
    )


def person(chance, number, endpoint, place, folder):
    environment = {
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_ENDPOINT_URL": endpoint,
        "XDG_CACHE_HOME": str(folder / f"{number}"),
    }
    clock = timedelta(days=chance.choice((0, 0, 0.01, -0.5, 3, -3, 40, -40, 4000)))
    store = Objects.at(Session(environment=environment, region="us-east-1"), place)
    return Person(name=f"person-{number}", clock=clock, store=store)


def act(chance, one):
    """What a person does before the next look."""
    kind = chance.random()
    if kind < 0.5 or not one.runs:
        one.runs.append(run_of(one.name, len(one.runs)))
    elif kind < 0.75:
        at = chance.randrange(len(one.runs))
        one.runs[at] = one.runs[at]._replace(billed_usd=Decimal(chance.randrange(1, 10_000)))
    elif kind < 0.9 and one.index:
        one.index.write_bytes(damaged(chance, one.index.read_text()))
    else:
        one.store.put(ENTRIES + chance.choice(STRANGE), b"[" * 5000)


@pytest.mark.parametrize("rounds", [1, pytest.param(30, marks=pytest.mark.slow)])
def test_every_reader_of_a_shared_ledger_sees_the_latest_entry_of_every_run(endpoint, seed, rounds, tmp_path):
    chance = random.Random(seed)
    for number in range(rounds):
        place = f"s3://ledger-{seed}-{number}/team"
        people = [person(chance, index, endpoint, place, tmp_path / f"{number}") for index in range(PEOPLE)]
        people[0].store.session.client("s3").create_bucket(Bucket=people[0].store.bucket)
        for _ in range(15):
            one = chance.choice(people)
            act(chance, one)
            one.looks()
        expected = {run.identity: run for user in people for run in user.runs}
        before = len(people[0].store.list_objects())
        for user in people:
            assert {run.identity: run for run in user.looks().entries} == expected, (number, user.name, user.clock)
        assert len(people[0].store.list_objects()) == before, number
