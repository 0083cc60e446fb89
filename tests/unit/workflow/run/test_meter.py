"""The meter of a running job: progress, speed, and the forecast cost beside its quote."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from moto import mock_aws

from launcher.agent.forecast import Point
from launcher.answers.meter import MeterDocument, line
from launcher.cli.console import StepPrinter
from launcher.model.errors import UnreadableInputError
from launcher.model.meter import Terms, meter
from launcher.model.money import Range, UsdRange
from launcher.model.run_cost import RunCost, RunRates
from launcher.records import run_folder
from launcher.records.command_record import recorded_command
from launcher.workflow.run.meter import MeterReader, meter_of, quoted_figures
from tests.unit.cli.reports import QUOTE

NOW = datetime(2026, 11, 20, 14, tzinfo=UTC)
EVENTS = [
    {"event": "attempt-started", "attempt": 1, "time": "2026-11-20T11:00:00Z"},
    {"event": "interrupted", "attempt": 1, "time": "2026-11-20T12:00:00Z", "ended_by": "spot-interruption"},
    {"event": "attempt-started", "attempt": 2, "time": "2026-11-20T12:30:00Z"},
    {"event": "checkpoint-uploaded", "attempt": 2, "step": 400, "time": "2026-11-20T13:50:00Z"},
]


@pytest.fixture
def metered_run(tmp_path):
    def make(*, events=EVENTS, quote=QUOTE, budget="500"):
        folder = run_folder.create("job", datetime(2026, 11, 20, 11, tzinfo=UTC), tmp_path)
        folder.write_json("quote.json", quote)
        folder.write_json("plan.json", {"budget": {"max_usd": budget}})
        (folder.path / "job").mkdir()
        (folder.path / "job" / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
        # The first attempt's lines come before; a million tokens a step, twenty seconds each, one in three slower.
        lines = [{"step": 300, "tokens": 3e8, "seconds": 5000.0}]
        seconds = 100.0
        for step in range(301, 401):
            seconds += 26 if step % 3 == 0 else 17
            lines.append({"step": step, "steps": 1000, "tokens": step * 10**6, "seconds": seconds})
        text = "".join(json.dumps(metric) + "\n" for metric in lines) + '{"step": 401, "sec'
        (folder.path / "job" / "metrics.jsonl").write_text(text)
        return folder

    return make


def test_meter_shows_step_rate_time_and_dollars(metered_run):
    reading = meter_of(metered_run(), NOW)
    assert (reading.step, reading.steps, reading.tokens, reading.interruptions) == (400, 1000, 400_000_000, 1)
    assert reading.tokens_per_s == pytest.approx(50_000, rel=0.01)
    assert reading.mfu == pytest.approx(0.42 * 5 / 6, rel=0.01)
    assert reading.left_h.mid == pytest.approx(600 * 20 / 3600, rel=0.01)
    assert (reading.left_h.low, reading.left_h.high) == pytest.approx((600 * 17 / 3600, 600 * 26 / 3600))
    # An hour of the first attempt and one and a half of the second; what was quoted beside the hours is 220 - 5 x 40.
    assert (reading.hours, reading.usd) == (2.5, 100)
    assert float(reading.forecast.mid) == pytest.approx(100 + 20 + 40 * reading.left_h.mid, abs=0.01)
    assert reading.next_checkpoint_s == 300
    assert reading.warnings == {}


def test_next_checkpoint_predicted_from_saved_times(metered_run):
    """A trainer that saves by itself, every five minutes but once; the first attempt's are left out."""
    times = ["11:10", "13:20", "13:25", "13:30", "13:50", "13:55"]
    saved = [{**EVENTS[3], "time": f"2026-11-20T{time}:00Z"} for time in times]
    assert meter_of(metered_run(events=[*EVENTS[:3], *saved]), NOW).next_checkpoint_s == 0


@pytest.mark.parametrize(
    "ending, resumed, counted",
    [
        ("pod-end", True, 1),  # a drain, an eviction, spot handling
        ("pod-end", False, 0),  # its job was cancelled
        (None, True, 1),  # the machine took the agent with it
        ("failure", True, 0),
        ("spot-interruption", False, 1),
    ],
)
def test_attempt_with_lost_node_counts_as_interruption(metered_run, ending, resumed, counted):
    ended = [] if ending is None else [EVENTS[1] | {"ended_by": ending}]
    reading = meter_of(metered_run(events=[EVENTS[0], *ended, *(EVENTS[2:] if resumed else [])]), NOW)
    assert reading.interruptions == counted


@pytest.mark.parametrize("ending, waits", [("spot-interruption", True), ("failure", True), ("completed", False)])
def test_meter_of_a_waiting_job_counts_from_its_next_attempt(metered_run, ending, waits):
    event = "completed" if ending == "completed" else "interrupted"
    ended = EVENTS[1] | {"event": event, "attempt": 2, "ended_by": ending, "time": "2026-11-20T13:55:00Z"}
    text = line(meter_of(metered_run(events=[*EVENTS, ended]), NOW), bar=False)
    assert (", once the next attempt begins · " in text) is waits


def test_meter_line_shows_all_values(metered_run):
    text = line(meter_of(metered_run(), NOW), bar=True)
    assert text.startswith("▰▰▰▰▰▰▰▰▱▱▱▱▱▱▱▱▱▱▱▱ step 400 of 1,000 (40%) · ")
    for part in (
        "tokens/s, quoted 60,000, MFU 0.35",
        "$100 so far, forecast $253, quoted $220 (180–300), budget.max_usd $500",
        "1 interruption, 0.8 expected · next checkpoint in 5 min",
    ):
        assert part in text
    late = meter_of(metered_run(), NOW + timedelta(minutes=10))
    assert line(late, bar=False).endswith("checkpoint 5 min late")


def test_dollars_so_far_exclude_future_costs(metered_run):
    """Seconds into a job nodes have started, and neither idle tail nor storage has cost anything."""
    rates = {"cluster_usd_per_hour": "0.3", "other_usd_per_hour": "1", "start_h": 0.25, "tail_h": 0.1}
    began = datetime(2026, 11, 20, 11, 0, 36, tzinfo=UTC)
    folder = metered_run(
        events=EVENTS[:1], quote=QUOTE | {"rates": rates | {"prepaid_usd": None, "list_usd_per_hour": None}}
    )
    reading = meter_of(folder, began)
    assert (reading.hours, reading.usd) == (0.01, Decimal("10.66")), "0.26 hours at $40 and at $1"
    later = meter_of(folder, began + timedelta(hours=1))
    assert later.usd - reading.usd == 41
    assert reading.forecast is None or reading.forecast.low > reading.usd
    ended = RunCost(usd=Decimal(220), hours=5.0, usd_per_hour=Decimal(40), rates=RunRates(start_h=0.25))
    assert ended.usd_so_far(5.0) == Decimal(210) < ended.used_usd(5.0) == Decimal(220)


def test_attempts_on_other_types_count_at_their_own_rate(metered_run):
    """EC2 chose a type at half of the quoted rate for the second attempt."""
    rates = {"cluster_usd_per_hour": "0", "other_usd_per_hour": "0", "prepaid_usd": None, "list_usd_per_hour": None}
    quote = QUOTE | {"rates": rates | {"type_usd_per_hour": {"g6e.xlarge": "40", "g6.xlarge": "20"}}}
    placed = [event | {"instance_types": ["g6.xlarge"], "zones": ["us-east-2b"]} for event in EVENTS[2:3]]
    alone = meter_of(metered_run(quote=quote), NOW)
    other = meter_of(metered_run(events=[*EVENTS[:2], *placed, *EVENTS[3:]], quote=quote), NOW)
    running_h = Decimal(repr(other.hours)) - 1
    assert other.usd == alone.usd - 20 * running_h
    left_h = other.left_h.mid
    assert float(other.forecast.mid) == pytest.approx(float(alone.forecast.mid) - 20 * (1.5 + left_h), abs=0.02)
    figures = quoted_figures(metered_run(quote=quote))
    rates = [figures[name] for name in ("usd_per_hour", "usd_per_hour.g6e.xlarge", "usd_per_hour.g6.xlarge")]
    assert rates == [40.0, 40.0, 20.0]


def test_forecast_beyond_budget_or_range_reported_once(metered_run, capsys):
    reading = meter_of(
        metered_run(budget="200", quote=QUOTE | {"usd": {"low": "180", "mid": "220", "high": "240"}}), NOW
    )
    assert set(reading.warnings) == {"budget", "quote"}
    person = StepPrinter()
    person.meter(reading)
    person.meter(reading)
    err = capsys.readouterr().err
    assert err.count("is above the $200.00 of budget.max_usd") == err.count("is outside of the quoted range") == 1
    assert err.count("step 400 of 1,000") == 2


@pytest.mark.parametrize(
    "plan_usd, command_usd, name",
    [("500", "200", "--max-usd"), (None, "200", "--max-usd"), ("200", "500", "budget.max_usd")],
)
def test_meter_with_max_usd_warns_of_the_lower_limit_by_its_name(metered_run, plan_usd, command_usd, name):
    folder = metered_run(budget=plan_usd, quote=QUOTE | {"max_usd": command_usd})
    reading, figures = meter_of(folder, NOW), quoted_figures(folder)
    assert reading.quoted.budget_usd == 200
    assert reading.warnings["budget"].endswith(f"is above the $200.00 of {name}")
    assert f", {name} $200" in line(reading, bar=False)
    assert {figures.get("budget_usd"), figures.get("launch_usd")} == {200.0, None}
    assert ("launch_usd" in figures) is (name == "--max-usd")


def test_sandbox_meter_has_no_warnings(metered_run):
    folder = metered_run(budget="1")
    assert meter_of(folder, NOW).warnings
    folder.write_json("report.json", {"simulated": True})
    assert meter_of(folder, NOW).warnings == {}


def test_unknown_meter_values_are_left_out(metered_run):
    bare = QUOTE | {"usd": None, "usd_per_hour": None, "training": None, "spot": None}
    reading = meter_of(metered_run(quote=bare, budget=None), NOW)
    assert (reading.usd, reading.forecast, reading.mfu, reading.next_checkpoint_s) == (None, None, None, None)
    assert "$" not in line(reading, bar=False)
    assert MeterDocument.of(reading).quoted.usd is None
    assert meter_of(metered_run(events=EVENTS[:0]), NOW) is None


def test_damaged_quote_refused_with_sentence(metered_run):
    with pytest.raises(UnreadableInputError, match="is not a quote"):
        meter_of(metered_run(quote=QUOTE | {"hours": 5}), NOW)


def test_reached_or_passed_last_step_has_no_time_left():
    terms = Terms(
        usd=UsdRange(low=Decimal(1), mid=Decimal(2), high=Decimal(3)),
        usd_per_hour=Decimal(1),
        hours=Range(low=1.0, mid=1.0, high=1.0),
        tokens_per_s=None,
        mfu=None,
        interruptions=None,
        interval_s=None,
        budget_usd=None,
    )
    points = [Point(step=step, tokens=None, seconds=float(step)) for step in (8, 9, 11)]
    reading = meter(points, 10, terms, hours=1.0, interruptions=0, saved=[], now=NOW)
    assert reading.left_h == Range(low=0.0, mid=0.0, high=0.0)
    assert reading.forecast.mid == 2


def test_meter_reader_is_silent_between_intervals(metered_run):
    messages = []
    reader = MeterReader(folder=metered_run(), on_reading=messages.append)
    reader.check()
    assert messages == []
    reader.read_at -= 31
    reader.check()
    reader.check()
    assert [reading.step for reading in messages] == [400]


class TestSpotNow:
    """EC2's answers are moto's; what it has no price for, and a call that fails, are words."""

    @pytest.fixture
    def aws(self, monkeypatch):
        monkeypatch.setattr("launcher.workflow.run.meter._cached_prices", {})
        with mock_aws():
            yield {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}

    def quoted(self, **more):
        place = {"target": "parallelcluster", "instance_type": "p5.48xlarge", "region": "us-east-2", "az_id": None}
        return QUOTE | place | {"purchase_option": "spot", "nodes": 2} | more

    def test_meter_shows_current_spot_price_with_age(self, metered_run, aws):
        reading = meter_of(metered_run(quote=self.quoted()), NOW, aws)
        assert reading.spot.usd_per_hour > 0
        assert reading.spot.note.startswith("since 20")
        assert "an hour (since 20" in line(reading, bar=False)

    def test_run_not_on_spot_makes_no_spot_request(self, metered_run, aws):
        assert meter_of(metered_run(quote=self.quoted(purchase_option="on-demand")), NOW, aws).spot is None

    def test_sandbox_meter_has_no_spot_price(self, metered_run, aws):
        folder = metered_run(quote=self.quoted())
        with recorded_command(folder, "launch", sandbox=True, done="done"):
            reading = meter_of(folder, NOW, aws)
        assert (reading.simulated, reading.spot) == (True, None)

    def test_zone_without_spot_price_has_note(self, metered_run, aws):
        reading = meter_of(metered_run(quote=self.quoted(az_id="use2-az9")), NOW, aws)
        assert reading.spot.note == "EC2 has no spot price for use2-az9"
        assert "spot now: EC2 has no spot price for use2-az9" in line(reading, bar=False)

    def test_failed_spot_request_has_note_and_is_cached(self, metered_run, monkeypatch):
        monkeypatch.setattr("launcher.workflow.run.meter._cached_prices", {})
        nowhere = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
        folder = metered_run(quote=self.quoted())
        first = meter_of(folder, NOW, nowhere).spot
        assert first.usd_per_hour is None
        assert first.note.startswith("not read: ")
        assert meter_of(folder, NOW, nowhere).spot is first
