"""The ledger of a folder: what is read from run folders, what the index saves, and the command."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest

from launcher.answers.ledger import document
from launcher.answers.ledger import page as ledger_page
from launcher.answers.report import page
from launcher.model.enums import COMMITTED, PREPAID
from launcher.model.ledger import total
from launcher.model.report import EndedBy, RunStatus
from launcher.records import run_folder
from launcher.records.codec import money
from launcher.records.command_record import recorded_command
from launcher.records.ledger_index import entry_of_line, line_of
from launcher.records.quote_document import quote_document
from launcher.records.report_document import read_report
from launcher.records.run_folder import DRY_RUN, RunFolder
from launcher.workflow.history import ledger_entries
from launcher.workflow.history.accuracy import run_accuracies
from launcher.workflow.history.ledger import INDEX, folder_ledger
from launcher.workflow.history.ledger_entries import lost_hours
from launcher.workflow.history.run_story import LaunchLog
from launcher.workflow.run.meter import quoted_figures
from launcher.workflow.run.running_ledger import with_running
from tests.unit.cli.reports import QUOTE as METERED
from tests.unit.pricing.conftest import price_over

QUOTE = {
    **METERED,
    "target": "parallelcluster",
    "instance_type": "p5.48xlarge",
    "nodes": 2,
    "region": "us-east-2",
    "purchase_option": "spot",
    "usd_per_hour": "40",
    "usd": {"low": "300", "mid": "400", "high": "600"},
    "hours": {"low": 6.0, "mid": 8.0, "high": 12.0},
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
def ledger_run(tmp_path, monkeypatch):
    """Makes the folder of a run."""
    monkeypatch.chdir(tmp_path)

    def make(name="tiny", hour=12, **changes) -> RunFolder:
        folder = run_folder.create(name, datetime(2026, 11, 20, hour, tzinfo=UTC), tmp_path)
        folder.write_json("plan.json", {"tags": {"team": "speech"}})
        folder.write_json("quote.json", QUOTE)
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
        (folder.path / "job").mkdir()
        (folder.path / "job" / "metrics.jsonl").write_text("".join(json.dumps(metric) + "\n" for metric in METRICS))
        folder.write_json("report.json", report(**changes))
        return folder

    return make


@pytest.fixture
def ledger_command(slipway):
    return lambda *arguments: slipway("ledger", *arguments)


class TestEntries:
    def test_ledger_entry_equals_run_folder(self, ledger_run, tmp_path):
        ledger_run()
        (entry,) = folder_ledger(tmp_path).entries
        assert (entry.name, entry.status, entry.hours, entry.interruptions, entry.lost_h) == (
            *("tiny", "succeeded", 4.0, 1),
            0.5,
        )
        # Four hours at $40, and the $80 that the quote has beside its eight.
        assert (entry.usd, entry.tokens, entry.epochs, entry.tags) == (240, 8_000_000, 1.0, {"team": "speech"})
        assert (entry.usd_per_million_tokens, entry.usd_per_epoch, entry.usd_lost) == (30, 240, 20)

    def test_ledger_says_in_one_line_why_the_guard_stopped_a_run(self, ledger_run, tmp_path, ledger_command):
        ledger_run("succeeds", 11)
        folder = ledger_run()
        reason = "3 nodes in a row failed to boot (i-1, i-2, i-3). The last lines of i-3:\n  an accelerator is missing"
        folder.write_json("report.json", {**report(status="cancelled"), "guard_reason": reason})
        short, words = (
            "3 nodes in a row failed to boot (i-1, i-2, i-3). The last lines of i-3:",
            "the guard stopped its nodes",
        )
        for _ in range(2):
            # From the run folders, then from the index.
            ledger = folder_ledger(tmp_path)
            assert [entry.guard_reason for entry in ledger.entries] == [short, None]
            lines = ledger_page(ledger, 200, by=None, everything=False)
            assert [line.strip() for line in lines if words in line] == [f"tiny, 2026-11-20 12:00: {words}: {short}"]
        assert [run["guard_reason"] for run in document(ledger)["runs"]] == [short, None]
        (_, stopped, other) = csv.reader(io.StringIO(ledger_command("--csv").out))
        assert (stopped[-1], other[-1]) == (short, "")

    def test_billed_amount_replaces_used_amount(self, ledger_run, tmp_path):
        folder = ledger_run()
        assert folder_ledger(tmp_path).entries[0].billed_usd is None
        folder.write_json("billed.json", {"billed_usd": "171.25"})
        assert folder_ledger(tmp_path).entries[0].usd == Decimal("171.25")

    def test_sandbox_run_without_report_is_simulated(self, ledger_run, tmp_path):
        folder = ledger_run()
        (folder.path / "report.json").unlink()
        assert not folder_ledger(tmp_path).entries[0].simulated
        with recorded_command(folder, "deploy", sandbox=True, done="deployed in the sandbox, which has ended"):
            pass
        assert folder_ledger(tmp_path).entries[0].simulated

    def test_dry_run_is_no_run_of_ledger_also_when_read_from_index(self, ledger_run, tmp_path):
        folder = ledger_run()
        (folder.path / "report.json").unlink()
        with recorded_command(folder, "launch", done=DRY_RUN):
            pass
        assert [folder_ledger(tmp_path).entries for _ in range(2)] == [(), ()]

    def test_run_without_quote_is_reported_as_unread(self, ledger_run, tmp_path):
        (ledger_run().path / "quote.json").unlink()
        assert folder_ledger(tmp_path).unread[0][1].endswith("holds no quote.json")

    def test_attempt_without_end_event_loses_hours_since_checkpoint(self):
        assert lost_hours([*EVENTS[:2], EVENTS[3], EVENTS[4]]) == 1.0
        seen = {"event": "attempt-lost", "lost": 1, "last_seen": at(13, 45), "time": at(15)}
        assert lost_hours([*EVENTS[:2], EVENTS[3], EVENTS[4], seen]) == 0.25
        # Cancelled, or still running: nothing that anybody wanted.
        assert lost_hours([*EVENTS[:2], {"event": "cancelled", "time": at(15)}]) == 0
        assert lost_hours(EVENTS[:2]) == 0

    @pytest.mark.parametrize("cause", EndedBy)
    def test_end_of_last_attempt_has_the_same_word_in_ledger_and_report(
        self, ledger_run, tmp_path, ledger_command, slipway, cause
    ):
        folder = ledger_run()
        ends = {EndedBy.COMPLETED: "completed", EndedBy.CANCEL: "cancelled", EndedBy.BUDGET: "stopped"}
        last = {**EVENTS[4], "event": ends.get(cause, "failed"), "ended_by": cause.value}
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in [*EVENTS[:4], last]))
        document = report(status="failed")
        document["attempts"][1]["ended_by"] = cause.value
        folder.write_json("report.json", document)
        for _ in ("from the folder", "from the index"):
            assert folder_ledger(tmp_path).entries[0].ended_by is cause
        listed, reported = (
            json.loads(call("--json")[1]) for call in (ledger_command, partial(slipway, "report", "tiny"))
        )
        assert listed["runs"][0]["ended_by"] == reported["attempts"][-1]["ended_by"] == cause.value
        assert next(csv.DictReader(io.StringIO(ledger_command("--csv")[1])))["ended_by"] == cause.value

    def test_node_lost_without_an_ending_event_is_a_loss_as_in_its_report(self, ledger_run, tmp_path, ledger_command):
        folder = ledger_run(status="failed")
        saved = {"event": "checkpoint-uploaded", "attempt": 2, "step": 9, "time": at(16)}
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in [*EVENTS[:4], saved]))
        document = report(status="failed")
        document["attempts"][1] |= {"ended_by": "node-lost", "exit_code": None}
        folder.write_json("report.json", document)
        (entry,) = folder_ledger(tmp_path).entries
        assert (entry.ended_by, entry.interruptions, entry.lost_h) == (EndedBy.NODE_LOST, 2, 1.0)
        assert entry.ended_at == datetime(2026, 11, 20, 16, 30, tzinfo=UTC)
        assert "failed, node lost" in ledger_command()[1]

    def test_cancelled_run_whose_nodes_the_guard_stopped_has_its_cause(self, ledger_run, ledger_command):
        folder = ledger_run(status="cancelled")
        document = report(status="cancelled") | {"guard_reason": "its 2 hours have ended"}
        document["attempts"][1] |= {"ended_by": "time-limit"}
        folder.write_json("report.json", document)
        assert "cancelled, time limit" in " ".join(ledger_command()[1].split())
        document["attempts"][1] |= {"ended_by": "cancel"}
        folder.write_json("report.json", document)
        assert "cancelled, cancel" not in " ".join(ledger_command()[1].split())

    def test_damaged_run_is_named_beside_others(self, ledger_run, tmp_path, ledger_command):
        ledger_run()
        (ledger_run(hour=13).path / "quote.json").write_text('{"nodes": "two"}')
        ledger = folder_ledger(tmp_path)
        assert len(ledger.entries) == 1
        assert ledger.unread[0][0] == "tiny/20261120T130000Z"
        code, out, _ = ledger_command()
        assert (code, "? tiny/20261120T130000Z" in out) == (0, True)


BLOCK = {"id": "cr-0a1b2c3d4e5f67890", "starts_at": "2026-11-20T11:30:00Z", "ends_at": "2026-11-21T11:30:00Z"}
TRAINING_PLAN = {"target": {"kind": "hyperpod-slurm"}, "purchase": {"option": "training-plan"}}


@pytest.fixture
def bought(tmp_path, monkeypatch):
    """A run in AWS of exactly the hours that its real quote says, bought in a way; and that quote."""
    monkeypatch.chdir(tmp_path)

    def make(purchase, *, after_h=0.0):
        changes = purchase if "purchase" in purchase else {"purchase": purchase}
        priced = price_over(changes, any_age=True)
        quoted = priced.quote(1)
        begun = datetime(2026, 11, 20, 12, tzinfo=UTC) + timedelta(hours=after_h)
        folder = run_folder.create("job", begun, tmp_path)
        folder.write_json("plan.json", json.loads(quoted.plan.text))
        folder.write_json("quote.json", quote_document(quoted, 1, priced.catalog.instance_types))
        ended = {"event": "completed", "attempt": 1, "ended_by": "completed", "exit_code": 0}
        times = (begun, begun + timedelta(hours=quoted.hours.mid))
        events = [
            event | {"time": time.isoformat()}
            for event, time in zip([{"event": "attempt-started", "attempt": 1}, ended], times, strict=True)
        ]
        folder.events.write_text("".join(json.dumps(event) + "\n" for event in events))
        LaunchLog(folder=folder, quoted=quoted, simulated=False, status=RunStatus.SUCCEEDED).write()
        return folder, quoted

    return make


class TestUsed:
    @pytest.mark.parametrize(
        "purchase",
        [
            {"option": "on-demand"},
            {"option": "spot"},
            *(
                {"option": option.value, "term_years": 3, "owned": owned}
                for option in COMMITTED
                for owned in (True, False)
            ),
            {"option": "capacity-block"},
            {"option": "capacity-block", "reservation": BLOCK | {"count": 2, "fee_usd": 1800}},
            TRAINING_PLAN,
        ],
        ids=str,
    )
    def test_run_of_quoted_hours_used_quoted_dollars(self, bought, tmp_path, purchase):
        folder, quoted = bought(purchase)
        entries = folder_ledger(tmp_path).once
        (entry,), whole = entries.entries, total(entries.entries)
        assert round(entry.usd_used + whole.usd_unused, 2) == round(quoted.usd.mid, 2) == round(whole.quoted_usd, 2)
        report = read_report(folder.read_json("report.json"))
        assert round(report.usd_used + report.usd_unused, 2) == round(quoted.usd.mid, 2)
        # What is prepaid is borne by its hours, whatever was left of it.
        prepaid = quoted.plan.place.option in PREPAID
        assert bool(whole.usd_unused) is prepaid
        (of_run,), _ = run_accuracies(tmp_path)
        assert (of_run.usd_ratio, of_run.hours_ratio) == pytest.approx((1, 1))
        agent = quoted_figures(folder)
        forecast = agent["usd_per_hour"] * quoted.hours.mid + agent["other_usd"]
        assert forecast == pytest.approx(float(quoted.usd.mid), abs=0.01)

    def test_two_runs_in_capacity_block_pay_fee_once(self, bought, tmp_path, ledger_command):
        purchase = {"option": "capacity-block", "reservation": BLOCK | {"fee_usd": 1800}}
        (_, quoted), _ = bought(purchase), bought(purchase, after_h=11)
        whole = total(folder_ledger(tmp_path).once.entries)
        beside = quoted.usd.mid - 1800
        assert whole.usd_used + whole.usd_unused == pytest.approx(1800 + 2 * beside, abs=Decimal("0.5"))
        assert whole.quoted_usd == 1800 + 2 * beside
        unused_fee = 1800 - 2 * 75 * Decimal(repr(quoted.hours.mid))
        assert round(whole.usd_unused, 2) == round(unused_fee, 2)
        _, out, _ = ledger_command()
        assert f"cr-0a1b2c3d4e5f67890: ${unused_fee:,.0f} of its fee of $1,800 was used by no run" in out
        _, out, _ = ledger_command("--focus")
        *_, unused = sorted(csv.DictReader(io.StringIO(out)), key=lambda row: row["x_Status"])
        assert (unused["x_Status"], Decimal(unused["BilledCost"])) == ("unused", whole.usd_unused)

    def test_consecutive_runs_share_cluster_costs(self, bought, tmp_path):
        _, quoted = bought({"option": "on-demand"})
        apart = folder_ledger(tmp_path).entries[0].usd_used
        bought({"option": "on-demand"}, after_h=quoted.hours.mid)
        first, second = sorted(folder_ledger(tmp_path).once.entries, key=lambda entry: entry.started_at)
        rates = quoted.rates
        shared = (quoted.usd_per_hour + rates.cluster_usd_per_hour) * Decimal(repr(rates.start_h + rates.tail_h))
        assert first.usd_used == apart
        assert float(second.usd_used) == pytest.approx(float(apart - shared), abs=0.01)

    def test_focus_list_price_of_spot_is_on_demand(self, bought, ledger_command):
        _, quoted = bought({"option": "spot"})
        _, out, _ = ledger_command("--focus")
        (row,) = csv.DictReader(io.StringIO(out))
        hours = Decimal(repr(quoted.hours.mid + quoted.rates.start_h + quoted.rates.tail_h))
        more = (Decimal("55.04") - quoted.usd_per_hour) * hours
        assert float(row["ListCost"]) == pytest.approx(float(Decimal(row["BilledCost"]) + more), abs=0.01)
        assert float(row["ListUnitPrice"]) * float(row["PricingQuantity"]) == pytest.approx(float(row["ListCost"]))

    def test_report_shows_used_dollars_and_cost_of_standing_cluster(self, bought):
        folder, quoted = bought({"option": "capacity-block"})
        document = folder.read_json("report.json") | {"stacks": [{"name": "job-training", "status": "CREATE_COMPLETE"}]}
        text = " ".join(" ".join(page(read_report(document), 200)).split())
        actual = document["actual"]
        used, unused = Decimal(actual["usd_used"]), Decimal(actual["usd_unused"])
        assert f"${used:,.0f}: job hours at" in text
        assert f"left ${unused:,.0f} of the prepaid fee unused: ${quoted.usd.mid:,.0f} in all" in text
        assert document["left_up_usd_per_hour"] == money(quoted.left_up_usd_per_hour)
        assert f"While it stays up, it costs ${quoted.left_up_usd_per_hour:,.2f}/h until slipway down job." in text


class TestRunning:
    @pytest.mark.parametrize(
        "events, attempts",
        [(EVENTS[:1], []), (EVENTS[:4], report()["attempts"][:1])],
        ids=["first attempt", "second attempt"],
    )
    def test_running_job_hours_and_dollars_equal_report(self, ledger_run, ledger_command, slipway, events, attempts):
        folder = ledger_run()
        folder.write_json("report.json", report(status="running") | {"attempts": attempts})
        (folder.path / "job" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        (row,) = json.loads(ledger_command("--json").out)["runs"]
        actual = json.loads(slipway("report", "tiny", "--json").out)["actual"]
        # Both count until now: a minute may pass between the two.
        assert row["hours"] == pytest.approx(actual["hours"], abs=1 / 60)
        assert row["hours"] > 24
        assert float(row["usd_used"]) == pytest.approx(float(actual["usd_used"]), abs=1.0)
        assert float(row["usd_used"]) > 24 * 40

    def test_running_job_without_attempt_used_0_dollars(self, ledger_run, ledger_command):
        folder = ledger_run()
        folder.write_json("report.json", report(status="running") | {"attempts": []})
        folder.events.write_text("")
        (row,) = json.loads(ledger_command("--json").out)["runs"]
        assert (row["status"], row["hours"], float(row["usd_used"])) == ("running", 0.0, 0.0)

    def test_copy_of_running_job_from_its_submission_has_unknown_hours_and_dollars(self, ledger_run, tmp_path):
        folder = ledger_run()
        folder.write_json("report.json", report(status="running") | {"attempts": []})
        folder.events.write_text("")
        copies = with_running(folder_ledger(tmp_path), tmp_path, datetime.now(UTC), copied=True)
        (row,) = document(copies)["runs"]
        assert (row["hours"], row["usd_used"], row["usd_at_quoted_rate"]) == (None, None, None)
        (line,) = (
            line for line in ledger_page(copies, 80, by=None, everything=False) if "tiny" in line and "running" in line
        )
        assert line.count("–") == 2
        assert total(copies.entries).hours == 0
        assert [entry_of_line(line_of(entry)) for entry in copies.entries] == list(copies.entries)


class TestIndex:
    def test_only_changed_run_folders_are_read_again(self, ledger_run, tmp_path, monkeypatch):
        changed = ledger_run()
        ledger_run(name="other")
        first = folder_ledger(tmp_path)
        opened = []
        real = ledger_entries.entry_of
        monkeypatch.setattr(ledger_entries, "entry_of", lambda name, folder: opened.append(name) or real(name, folder))
        assert folder_ledger(tmp_path) == first
        assert opened == []
        changed.write_json("report.json", report(status="failed"))
        assert {entry.name: entry.status for entry in folder_ledger(tmp_path).entries} == {
            "tiny": "failed",
            "other": "succeeded",
        }
        assert opened == ["tiny"]

    def test_removed_run_disappears_from_ledger(self, ledger_run, tmp_path):
        folder = ledger_run()
        folder_ledger(tmp_path)
        folder.path.rename(tmp_path / "elsewhere")
        assert folder_ledger(tmp_path).entries == ()

    @pytest.mark.parametrize("keep", [0, 1, 40, 120])
    def test_truncated_ledger_index_is_rebuilt(self, ledger_run, tmp_path, keep):
        ledger_run()
        whole = folder_ledger(tmp_path)
        path = tmp_path / INDEX
        path.write_bytes(path.read_bytes()[:keep])
        assert folder_ledger(tmp_path) == whole
        assert folder_ledger(tmp_path) == whole


class TestCommand:
    def test_ledger_json_csv_focus_and_page_agree(self, ledger_run, ledger_command):
        ledger_run()
        ledger_run(name="toy", hour=13, simulated=True)
        code, out, _ = ledger_command("--json", "--by", "type")
        document = json.loads(out)
        assert (code, document["schema"], [run["name"] for run in document["runs"]]) == (
            0,
            "slipway.ledger/1",
            ["toy", "tiny"],
        )
        assert [run["ended_by"] for run in document["runs"]] == ["completed", "completed"]
        assert (document["total"]["usd_used"], document["groups"][0]["key"]) == ("240", "p5.48xlarge")
        _, out, _ = ledger_command("--csv")
        assert [row["usd"] for row in csv.DictReader(io.StringIO(out))] == ["0", "240"]
        _, out, _ = ledger_command("--focus")
        assert sum(Decimal(row["BilledCost"]) for row in csv.DictReader(io.StringIO(out))) == 240
        _, out, _ = ledger_command()
        assert "1 run: $240 used, quoted $400." in out
        assert "1 interruption; 0.5 h of work was lost ($20.00)." in out

    def test_ledger_since_filters_by_date(self, ledger_run, ledger_command):
        ledger_run()
        _, out, _ = ledger_command("--since", "2026-11-20", "--json")
        assert len(json.loads(out)["runs"]) == 1
        _, out, _ = ledger_command("--since", "2026-11-21", "--json")
        assert json.loads(out)["runs"] == []

    def test_invalid_ledger_arguments_refused(self, ledger_run, ledger_command, monkeypatch):
        assert ledger_command("--csv", "--json")[0] == 2
        assert ledger_command("--csv", "--by", "name")[0] == 2
        monkeypatch.setenv("SLIPWAY_LEDGER", "/shared/ledger")
        code, _, err = ledger_command()
        assert (code, "expected s3://BUCKET" in err) == (2, True)

    def test_ledger_of_empty_folder_has_message_and_writes_no_file(self, ledger_command, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        code, out, _ = ledger_command()
        assert (code, "No runs here." in out) == (0, True)
        assert list(tmp_path.iterdir()) == []
