"""A ledger shared by several people, in the S3 of a sandbox."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.ledger import Ledger, LedgerEntry
from launcher.records.ledger_document import entry_document
from launcher.workflow.history.ledger_shared import ENTRIES, send, shared_ledger

NOW = datetime.now(UTC)
"""S3 stamps objects with the clock of the machine."""

WRITER = """
import json, os, sys
from datetime import UTC, datetime
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.records.ledger_document import parse_entry
from launcher.workflow.history.ledger_shared import send

store = Objects.at(Session(environment=dict(os.environ), region="us-east-1"), sys.argv[1])
entry = parse_entry(json.loads(sys.argv[2]))
for number in range(int(sys.argv[3])):
    send(store, entry._replace(run=f"20261120T12{number // 60:02}{number % 60:02}Z"), datetime.now(UTC))
    print(number, flush=True)
"""
"""A person's launcher, as far as the ledger sees it."""


def entry(**changes) -> LedgerEntry:
    ledger_entry = LedgerEntry(
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
        purchase_option="spot",
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
    return ledger_entry._replace(**changes)


@pytest.fixture
def ledger_store(sandbox, request, tmp_path):
    environment = sandbox.process_environment(os.environ) | {"XDG_CACHE_HOME": str(tmp_path)}
    session = Session(environment=environment, region="us-east-1")
    bucket = f"ledger-{hashlib.sha256(request.node.name.encode()).hexdigest()[:20]}"
    session.client("s3").create_bucket(Bucket=bucket)
    return Objects.at(session, f"s3://{bucket}/team")


def read(store, *entries, now=NOW, notify=lambda _: None):
    return shared_ledger(store.uri, store.session.environment, Ledger(source="here", entries=entries), now, notify)


def test_folder_entries_sent_once_without_sandbox_runs(ledger_store):
    messages = []
    entries = (entry(), entry(run="20261120T110000Z", simulated=True), entry(run="20261120T115900Z", status="running"))
    assert read(ledger_store, *entries, notify=messages.append).entries == (entry(),)
    assert messages == ["sent 1 missing run of this folder"]
    assert read(ledger_store, *entries, now=NOW + timedelta(hours=1)).entries == (entry(),)
    assert len(ledger_store.list_objects()) == 1


def test_later_entry_of_run_counts(ledger_store):
    read(ledger_store, entry())
    billed = entry(billed_usd=Decimal("41.5"))
    assert read(ledger_store, billed, now=NOW + timedelta(days=9)).entries == (billed,)
    # A folder that knows less takes nothing back: each run is of one folder, and this one is of another.
    other = entry(origin="ffffffffffff", name="other")
    entries = read(ledger_store, other, now=NOW + timedelta(days=10)).entries
    assert sorted(entries, key=lambda record: record.name) == [billed, other]


@pytest.mark.parametrize("days", [40, -40])
def test_entry_sent_with_wrong_clock_stays_correctable(ledger_store, tmp_path, days):
    """By S3's clock; a look with the wrong clock is one more, and sends nothing twice."""

    def wrong():
        return datetime.now(UTC) + timedelta(days=days)

    read(ledger_store, entry(), now=wrong())
    for number in range(3):
        send(ledger_store, entry(name=f"right-{number}"), datetime.now(UTC))
        assert len(read(ledger_store).entries) == 2 + number
    billed = entry(billed_usd=Decimal("41.5"))
    for _ in range(2):
        assert billed in read(ledger_store, billed, now=wrong()).entries
        assert billed in read(ledger_store, billed).entries
    assert len(ledger_store.list_objects()) == 5
    corrected = entry(billed_usd=Decimal(39))
    read(ledger_store, corrected, now=wrong())
    shutil.rmtree(tmp_path)
    assert corrected in read(ledger_store).entries


def test_copied_ledger_keeps_latest_entry_of_each_run(ledger_store):
    """All objects of a copy have the moment of the copy."""
    billed = entry(billed_usd=Decimal("41.5"))
    send(ledger_store, billed, NOW - timedelta(days=30))
    send(ledger_store, entry(), NOW - timedelta(days=60))
    assert read(ledger_store).entries == (billed,)


def test_damaged_index_line_is_reread_from_store(ledger_store, tmp_path):
    for number in range(8):
        send(ledger_store, entry(name=f"run-{number}"), NOW - timedelta(days=40 - number))
    whole = read(ledger_store).entries
    (index,) = tmp_path.glob("**/*.index")
    lines = index.read_bytes().splitlines()
    for spoilt in (lines[3][:60], lines[3].replace(b"\t20\t", b"\t21\t"), b"\xff" * 80):
        index.write_bytes(b"\n".join([*lines[:3], spoilt, *lines[4:]]) + b"\n")
        assert read(ledger_store).entries == whole
        assert sorted(index.read_bytes().splitlines()) == sorted(lines)


def test_ledger_read_requests_only_recent_entries(ledger_store):
    read(ledger_store, entry())
    assert read(ledger_store).entries == (entry(),)
    # Written by somebody whose clock was two days late is still found, and what is older was read already.
    send(ledger_store, entry(name="late"), NOW - timedelta(hours=47))
    send(ledger_store, entry(name="ancient"), NOW - timedelta(days=30))
    assert {record.name for record in read(ledger_store).entries} == {"llama", "late"}


def test_invalid_ledger_object_named_and_left_out(ledger_store):
    send(ledger_store, entry(), NOW)
    ledger_store.put(f"{ENTRIES}20261120T120000000000Z-odd-0123.json", b'{"schema": "slipway.ledger-entry/1"}')
    for number in ("99999999T999999999999Z", "00010101T000000000000Z", "20270229T000000000000Z"):
        ledger_store.put(f"{ENTRIES}{number}-x-0.json", b"{}")
    ledger_store.put(f"{ENTRIES}notes.txt", b"not ours")
    for after in range(3):
        messages = []
        assert len(read(ledger_store, notify=messages.append).entries) == 1 + after
        assert len([line for line in messages if "left out" in line]) == (4 if after == 0 else 2)
        send(ledger_store, entry(name=f"later-{after}"), datetime.now(UTC))


def test_simultaneous_and_killed_writers_leave_whole_entries(ledger_store):
    """Every run that a writer had been told of is there, whole; nothing of the one it was killed in is."""

    def start(name, count):
        command = [
            sys.executable,
            "-c",
            WRITER,
            ledger_store.uri,
            json.dumps(entry_document(entry(name=name))),
            str(count),
        ]
        return subprocess.Popen(command, env=dict(ledger_store.session.environment), stdout=subprocess.PIPE, text=True)

    one, two, killed = start("one", 20), start("two", 20), start("killed", 100_000)
    for _ in range(5):
        last = int(killed.stdout.readline())
    killed.kill()
    last = max([last, *(int(line) for line in killed.stdout)])
    killed.wait()
    assert (one.wait(), two.wait()) == (0, 0)
    for writer in (one, two, killed):
        writer.stdout.close()
    names = [record.name for record in read(ledger_store, now=datetime.now(UTC)).entries]
    assert (names.count("one"), names.count("two")) == (20, 20)
    assert last + 1 <= names.count("killed") <= last + 2
