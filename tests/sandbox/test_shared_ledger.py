"""A ledger that several people share, in the S3 of a sandbox."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.records.ledger_document import entry_document
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.ledger.shared import ENTRIES, send, shared_ledger
from tests.plans import NOW

WRITER = """
import json, os, sys
from datetime import UTC, datetime
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.records.ledger_document import parse_entry
from launcher.workflow.ledger.shared import send

store = Objects.at(Session(environment=dict(os.environ), region="us-east-1"), sys.argv[1])
entry = parse_entry(json.loads(sys.argv[2]))
for number in range(int(sys.argv[3])):
    send(store, entry._replace(run=f"20261120T12{number // 60:02}{number % 60:02}Z"), datetime.now(UTC))
    print(number, flush=True)
"""
"""A person's launcher, as far as the ledger sees it."""


def entry(**changes) -> LedgerEntry:
    made = LedgerEntry(
        name="llama",
        run="20261120T100000Z",
        origin="0123456789ab",
        started_at=NOW - timedelta(hours=2),
        ended_at=NOW,
        status="succeeded",
        simulated=False,
        monthly=False,
        target="parallelcluster",
        instance_type="p5.48xlarge",
        nodes=1,
        region="us-east-2",
        option="spot",
        quoted_usd=None,
        usd_per_hour=Decimal(20),
        hours=2.0,
        usd_at_quoted_rate=Decimal(40),
        billed_usd=None,
        tokens=None,
        epochs=None,
        interruptions=0,
        lost_h=0.0,
        tags={},
    )
    return made._replace(**changes)


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(region="us-east-1", scheduler="local") as started:
        yield started


@pytest.fixture
def store(sandbox, request, tmp_path):
    environment = sandbox.process_environment(os.environ) | {"XDG_CACHE_HOME": str(tmp_path)}
    session = Session(environment=environment, region="us-east-1")
    bucket = request.node.name.replace("_", "-")[:60].rstrip("-")
    session.client("s3").create_bucket(Bucket=bucket)
    return Objects.at(session, f"s3://{bucket}/team")


def read(store, *own, now=NOW, say=lambda _: None):
    return shared_ledger(store.uri, store.session.environment, Ledger(source="here", entries=own), now, say)


def test_what_the_folder_has_is_sent_once_and_the_sandbox_is_not(store):
    said = []
    own = (entry(), entry(run="20261120T110000Z", simulated=True), entry(run="20261120T115900Z", status="running"))
    assert read(store, *own, say=said.append).entries == (entry(),)
    assert said == ["1 runs of this folder were not in it yet: sent"]
    assert read(store, *own, now=NOW + timedelta(hours=1)).entries == (entry(),)
    assert len(store.found()) == 1


def test_a_later_entry_of_a_run_counts(store):
    read(store, entry())
    billed = entry(billed_usd=Decimal("41.5"))
    assert read(store, billed, now=NOW + timedelta(days=9)).entries == (billed,)
    # A folder that knows less takes nothing back: each run is of one folder, and this one is of another.
    other = entry(origin="ffffffffffff", name="other")
    found = read(store, other, now=NOW + timedelta(days=10)).entries
    assert sorted(found, key=lambda each: each.name) == [billed, other]


def test_only_what_came_since_is_asked_for(store):
    read(store, entry())
    assert read(store).entries == (entry(),)
    # Written by somebody whose clock was two days late is still found, and what is older was read already.
    send(store, entry(name="late"), NOW - timedelta(hours=47))
    send(store, entry(name="ancient"), NOW - timedelta(days=30))
    assert {each.name for each in read(store).entries} == {"llama", "late"}


def test_what_is_no_entry_is_named_and_hides_no_other(store):
    send(store, entry(), NOW)
    store.put(f"{ENTRIES}20261120T120000000000Z-odd-0123.json", b'{"schema": "slipway.ledger-entry/1"}')
    store.put(f"{ENTRIES}notes.txt", b"not ours")
    said = []
    assert read(store, say=said.append).entries == (entry(),)
    assert len(said) == 1
    assert "left out" in said[0]


def test_two_writers_at_once_and_one_that_is_killed(store):
    """Every run that a writer had been told of is there, whole; nothing of the one it was killed in is."""

    def start(name, count):
        words = [sys.executable, "-c", WRITER, store.uri, json.dumps(entry_document(entry(name=name))), str(count)]
        return subprocess.Popen(words, env=dict(store.session.environment), stdout=subprocess.PIPE, text=True)

    one, two, killed = start("one", 20), start("two", 20), start("killed", 100_000)
    for _ in range(5):
        last = int(killed.stdout.readline())
    killed.kill()
    last = max([last, *(int(line) for line in killed.stdout)])
    killed.wait()
    assert (one.wait(), two.wait()) == (0, 0)
    for each in (one, two, killed):
        each.stdout.close()
    found = [each.name for each in read(store, now=datetime.now(UTC)).entries]
    assert (found.count("one"), found.count("two")) == (20, 20)
    assert last + 1 <= found.count("killed") <= last + 2
