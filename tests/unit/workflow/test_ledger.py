"""The ledger of a folder: what is read of run folders, what the index spares, and the command."""

import csv
import io
import json
import sys
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from launcher.cli.app import main
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.records.run_folder import RunFolder
from launcher.workflow.ledger import entries
from launcher.workflow.ledger.book import INDEX, folder_ledger
from launcher.workflow.ledger.entries import lost_hours

QUOTE = {
    "target": "parallelcluster",
    "instance_type": "p5.48xlarge",
    "nodes": 2,
    "region": "us-east-2",
    "purchase_option": "spot",
    "usd_per_hour": "40",
    "usd": {"low": "300", "mid": "400", "high": "600"},
    "serving": None,
}


def at(hour: int, minute: int = 0) -> str:
    return f"2026-11-20T{hour:02}:{minute:02}:00+00:00"


def attempt(begin, end, by, code):
    return {
        "started_at": begin,
        "ended_at": end,
        "exit_code": code,
        "ended_by": by,
        "resumed_from_step": 0,
        "last_step": 5,
    }


def report(*, simulated=False, status="succeeded"):
    return {
        "name": "tiny",
        "status": status,
        "scheduler": "slurm",
        "simulated": simulated,
        "attempts": [
            attempt(at(12), at(14), "spot-interruption", 75),
            attempt(at(14, 30), at(16, 30), "completed", 0),
        ],
        "quoted": {"usd": "400", "hours": 8.0, "usd_per_hour": "40", "prices_as_of": "2026-11-20"},
        "stacks": [],
        "verified_resources": [],
        "not_emulated": [],
    }


EVENTS = [
    {"event": "attempt-started", "attempt": 1, "time": at(12)},
    {"event": "checkpoint-uploaded", "attempt": 1, "step": 5, "time": at(13, 30)},
    {"event": "interrupted", "attempt": 1, "time": at(14), "ended_by": "spot-interruption", "exit_code": 75},
    {"event": "attempt-started", "attempt": 2, "time": at(14, 30)},
    {"event": "completed", "attempt": 2, "time": at(16, 30), "ended_by": "completed", "exit_code": 0},
]
METRICS = [{"step": 1, "tokens": 4_000_000, "epoch": 0.5}, {"step": 2, "tokens": 8_000_000, "epoch": 1.0}, {"step": 3}]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Makes the folder of a run."""
    monkeypatch.chdir(tmp_path)

    def make(name="tiny", hour=12, **changes) -> RunFolder:
        folder = run_folder.create(name, datetime(2026, 11, 20, hour, tzinfo=UTC), tmp_path)
        folder.write_json("plan.json", {"tags": {"team": "speech"}})
        folder.write_json("quote.json", QUOTE)
        folder.events.write_text("".join(json.dumps(each) + "\n" for each in EVENTS))
        (folder.path / "job").mkdir()
        (folder.path / "job" / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in METRICS))
        folder.write_json("report.json", report(**changes))
        return folder

    return make


@pytest.fixture
def slipway(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["slipway", "ledger", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return run


class TestEntries:
    def test_what_a_run_folder_says(self, run, tmp_path):
        run()
        (found,) = folder_ledger(tmp_path).entries
        assert (found.name, found.status, found.hours, found.interruptions, found.lost_h) == (
            *("tiny", "succeeded", 4.0, 1),
            0.5,
        )
        assert (found.usd, found.tokens, found.epochs, found.tags) == (160, 8_000_000, 1.0, {"team": "speech"})
        assert (found.usd_per_million_tokens, found.usd_per_epoch, found.usd_lost) == (20, 160, 20)

    def test_a_bill_counts_once_it_is_there(self, run, tmp_path):
        folder = run()
        assert folder_ledger(tmp_path).entries[0].billed_usd is None
        folder.write_json("billed.json", {"billed_usd": "171.25"})
        assert folder_ledger(tmp_path).entries[0].usd == Decimal("171.25")

    def test_what_went_to_a_sandbox_and_left_no_report_is_no_real_run(self, run, tmp_path):
        folder = run()
        (folder.path / "report.json").unlink()
        assert not folder_ledger(tmp_path).entries[0].simulated
        with recorded_command(folder, "deploy", sandbox=True, done="deployed in the sandbox, which has ended"):
            pass
        assert folder_ledger(tmp_path).entries[0].simulated

    def test_a_folder_without_a_quote_is_said_to_have_none(self, run, tmp_path):
        (run().path / "quote.json").unlink()
        assert folder_ledger(tmp_path).unread[0][1].endswith("holds no quote.json")

    def test_an_attempt_that_left_no_word_lost_what_came_after_its_last_checkpoint(self):
        assert lost_hours([*EVENTS[:2], EVENTS[3], EVENTS[4]]) == 1.0
        # Cancelled, or still running: nothing that anybody wanted.
        assert lost_hours([*EVENTS[:2], {"event": "cancelled", "time": at(15)}]) == 0
        assert lost_hours(EVENTS[:2]) == 0

    def test_damage_in_one_run_is_named_and_hides_no_other(self, run, tmp_path, slipway):
        run()
        broken = run(hour=13)
        (broken.path / "quote.json").write_text('{"nodes": "two"}')
        found = folder_ledger(tmp_path)
        assert len(found.entries) == 1
        assert found.unread[0][0] == "tiny/20261120T130000Z"
        code, out, _ = slipway()
        assert (code, "? tiny/20261120T130000Z" in out) == (0, True)


class TestIndex:
    def test_only_what_changed_is_read_again(self, run, tmp_path, monkeypatch):
        changed = run()
        run(name="other")
        first = folder_ledger(tmp_path)
        opened = []
        real = entries.entry_of
        monkeypatch.setattr(entries, "entry_of", lambda name, folder: opened.append(name) or real(name, folder))
        assert folder_ledger(tmp_path) == first
        assert opened == []
        changed.write_json("report.json", report(status="failed"))
        assert {each.name: each.status for each in folder_ledger(tmp_path).entries} == {
            "tiny": "failed",
            "other": "succeeded",
        }
        assert opened == ["tiny"]

    def test_a_run_that_was_removed_is_gone(self, run, tmp_path):
        folder = run()
        folder_ledger(tmp_path)
        folder.path.rename(tmp_path / "elsewhere")
        assert folder_ledger(tmp_path).entries == ()

    @pytest.mark.parametrize("keep", [0, 1, 40, 120])
    def test_a_writer_killed_in_the_middle_loses_nothing(self, run, tmp_path, keep):
        run()
        whole = folder_ledger(tmp_path)
        path = tmp_path / INDEX
        path.write_bytes(path.read_bytes()[:keep])
        assert folder_ledger(tmp_path) == whole
        assert folder_ledger(tmp_path) == whole


class TestCommand:
    def test_the_forms(self, run, slipway):
        run()
        run(name="toy", hour=13, simulated=True)
        code, out, _ = slipway("--json", "--by", "type")
        found = json.loads(out)
        assert (code, found["schema"], [each["name"] for each in found["runs"]]) == (
            0,
            "slipway.ledger/1",
            ["toy", "tiny"],
        )
        assert (found["total"]["usd_at_quoted_rate"], found["groups"][0]["key"]) == ("160", "p5.48xlarge")
        _, out, _ = slipway("--csv")
        assert [row["usd"] for row in csv.DictReader(io.StringIO(out))] == ["0", "160"]
        _, out, _ = slipway("--focus")
        assert sum(Decimal(row["BilledCost"]) for row in csv.DictReader(io.StringIO(out))) == 160
        _, out, _ = slipway()
        assert "1 run: $160 at the quoted rates, quoted $400." in out
        assert "1 interruption; 0.5 h of work was lost ($20.00)." in out

    def test_since(self, run, slipway):
        run()
        _, out, _ = slipway("--since", "2026-11-20", "--json")
        assert len(json.loads(out)["runs"]) == 1
        _, out, _ = slipway("--since", "2026-11-21", "--json")
        assert json.loads(out)["runs"] == []

    def test_refusals(self, run, slipway, monkeypatch):
        assert slipway("--csv", "--json")[0] == 2
        assert slipway("--csv", "--by", "name")[0] == 2
        monkeypatch.setenv("SLIPWAY_LEDGER", "/shared/ledger")
        code, _, said = slipway()
        assert (code, "expected s3://BUCKET" in said) == (2, True)

    def test_nothing_here(self, slipway, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, _ = slipway()
        assert (code, "No runs here." in out) == (0, True)
        assert list(tmp_path.iterdir()) == []
