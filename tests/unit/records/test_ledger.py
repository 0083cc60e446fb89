"""Ledger entries: as JSON, as lines of the index, as totals, and in FOCUS columns."""

import csv
import io
import json
import subprocess
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.answers.ledger import document, rows
from launcher.model.ledger import Grouping, Ledger, LedgerEntry, Shared, group_totals, total
from launcher.model.money import UsdRange
from launcher.model.report import EndedBy
from launcher.records.focus import COLUMNS, focus_csv
from launcher.records.ledger_document import entry_document, parse_entry
from launcher.records.ledger_index import LedgerIndex, entry_of_line, line_of
from tests.plans import ROOT

VALIDATOR = ROOT / ".venv-focus" / "bin"
BEGUN = datetime(2026, 10, 30, 12, tzinfo=UTC)


def entry(**changes) -> LedgerEntry:
    """A run of a hundred hours over the end of a month."""
    ledger_entry = LedgerEntry(
        name="llama",
        run="20261030T120000Z",
        origin="0123456789ab",
        started_at=BEGUN,
        ended_at=BEGUN + timedelta(hours=100),
        status="succeeded",
        simulated=False,
        monthly=False,
        target="parallelcluster",
        instance_type="p5.48xlarge",
        nodes=2,
        region="us-east-2",
        purchase_option="spot",
        quoted_usd=UsdRange(low=Decimal("3000.5"), mid=Decimal(4000), high=Decimal("6000.25")),
        usd_per_hour=Decimal("40.7264"),
        hours=99.5,
        usd_at_quoted_rate=Decimal("4052.2768"),
        billed_usd=None,
        tokens=2_000_000_000,
        epochs=1.5,
        interruptions=2,
        lost_h=0.75,
        tags={"team": "speech", "note": "tab\there, “quotes”"},
        usd_used=Decimal("4052.2768"),
        shared=Shared(cluster="llama", reservation="cr-1", tail_h=0.5, list_usd_per_hour=Decimal(110)),
    )
    return ledger_entry._replace(**changes)


amounts = st.decimals(0, 10**9, places=4)
some_entries = st.builds(
    lambda name, begun, took, usd, tokens, tags, simulated, cause, reason: entry(
        name=name,
        started_at=begun,
        ended_at=begun + took,
        usd_at_quoted_rate=usd,
        usd_used=usd,
        tokens=tokens,
        tags=tags,
        simulated=simulated,
        ended_by=cause,
        guard_reason=reason,
    ),
    st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True),
    st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - given by timezones
    st.timedeltas(timedelta(seconds=1), timedelta(days=90)),
    st.none() | amounts,
    st.none() | st.integers(0, 10**14),
    st.dictionaries(st.text(min_size=1, max_size=9), st.text(max_size=9), max_size=3),
    st.booleans(),
    st.none() | st.sampled_from(EndedBy),
    st.sampled_from((None, "its 2 hours have ended")),
)


class TestForms:
    @pytest.mark.long
    @given(some_entries)
    def test_ledger_entry_reads_back_from_json(self, ledger_entry):
        assert parse_entry(json.loads(json.dumps(entry_document(ledger_entry)))) == ledger_entry

    @given(some_entries)
    def test_ledger_entry_reads_back_from_an_index_line(self, ledger_entry):
        line = line_of(ledger_entry)
        assert "\n" not in line
        assert entry_of_line(line) == ledger_entry

    @pytest.mark.parametrize(
        "key, value, message",
        [
            ("hours", "9", "hours must be float"),
            ("usd_per_hour", "1e9", "not an amount of dollars"),
            ("schema", "slipway.report/1", "expected 'slipway.ledger-entry/1'"),
            ("ended_by", "meteor", "ended_by: 'meteor' is not a valid"),
            ("tags", {"team": 5}, "tags.team must be str"),
            ("started_at", "1889-01-01", "not the time of a run"),
        ],
    )
    def test_damaged_ledger_entry_is_refused_with_the_reason(self, key, value, message):
        with pytest.raises(ValueError, match=message):
            parse_entry(entry_document(entry()) | {key: value})

    def test_ledger_csv_row_has_a_cell_for_every_column(self):
        columns, lines = rows([entry(), entry(quoted_usd=None, tokens=None)])
        assert [len(line) for line in lines] == [len(columns)] * 2
        assert dict(zip(columns, lines[0], strict=True))["usd_per_million_tokens"] == "2.026138"


class TestSums:
    def test_ledger_entry_derives_cost_per_token_and_epoch_and_lost_dollars(self):
        one = entry(billed_usd=Decimal(3000))
        assert (one.usd, one.usd_per_million_tokens, one.usd_per_epoch) == (3000, Decimal("1.5"), 2000)
        assert one.usd_lost == Decimal("30.5448")

    def test_simulated_run_costs_zero_and_is_counted(self):
        total_usd = total([entry(), entry(simulated=True)])
        assert (total_usd.runs, total_usd.simulated, total_usd.usd_at_quoted_rate) == (2, 1, Decimal("4052.2768"))
        assert entry(simulated=True).usd == 0

    def test_entry_with_unknown_amount_is_counted_as_incomplete(self):
        total_usd = total([entry(), entry(usd_at_quoted_rate=None, usd_used=None)])
        assert (total_usd.incomplete, total_usd.usd_at_quoted_rate) == (1, Decimal("4052.2768"))
        # Per token: of the runs whose dollars and tokens are known.
        assert total_usd.usd_per_million_tokens == Decimal("2.026138")

    @pytest.mark.long
    @given(st.lists(some_entries, max_size=6))
    def test_ledger_groups_add_up_to_the_total(self, entries):
        whole = total(entries)
        for by in (Grouping.NAME, Grouping.TYPE, Grouping.MONTH):
            groups = group_totals(entries, by)
            assert sum(group.runs for group in groups) == whole.runs
            assert sum((group.usd_at_quoted_rate for group in groups), Decimal(0)) == whole.usd_at_quoted_rate

    def test_run_is_counted_under_each_tag(self):
        keys = [
            ledger_total.key
            for ledger_total in group_totals([entry(tags={"team": "a", "cost": "7"}), entry(tags={})], Grouping.TAG)
        ]
        assert keys == ["cost=7", "no tag", "team=a"]

    def test_ledger_document_has_every_key_of_the_contract(self):
        json_document = document(Ledger(source="here", entries=(entry(),)))
        assert json_document["schema"] == "slipway.ledger/1"
        assert set(json_document["runs"][0]) >= {
            *("name", "run", "started_at", "ended_at", "status", "quoted_usd", "usd_at_quoted_rate", "billed_usd"),
            *("tokens", "usd_per_million_tokens", "interruptions", "lost_h", "tags", "usd_used"),
        }


class TestIndex:
    def test_later_index_lines_replace_earlier_ones(self, tmp_path):
        index = LedgerIndex(path=tmp_path / "a" / "index")
        for count in range(5):
            index.add({"one": (str(count), entry(nodes=count))}, 1)
        stamp, line = index.load()["one"]
        assert (stamp, entry_of_line(line).nodes) == ("4", 4)
        assert len(index.path.read_text().splitlines()) <= 4

    def test_damaged_index_lines_are_ignored_and_reported(self, tmp_path):
        index = LedgerIndex(path=tmp_path / "index")
        index.add({"one": ("1", entry()), "two": ("1", entry(nodes=1))}, 2)
        assert index.load_checked() == (index.load(), False)
        line = index.path.read_bytes().splitlines()[-1]
        with index.path.open("ab") as stream:
            stream.write(line.replace(b"two", b"six")[:40])
        index.add({"four": ("1", entry())}, 3)
        entries, damaged = index.load_checked()
        assert (set(entries), damaged) == ({"one", "two", "four"}, True)
        assert entry_of_line(entries["four"][1]) == entry()
        index.path.write_bytes(index.path.read_bytes().replace(b"llama", b"lxama", 1))
        assert set(index.load()) == {"two", "four"}
        index.path.write_bytes(b"\xff\xfe\x00 something else")
        assert index.load() == {}


class TestFocus:
    def rows(self, *entries):
        return list(csv.DictReader(io.StringIO(focus_csv(entries))))

    def test_focus_rows_split_a_run_at_the_end_of_a_month(self):
        first, second = self.rows(entry())
        assert (first["ChargePeriodEnd"], second["ChargePeriodStart"]) == ("2026-11-01T00:00:00Z",) * 2
        assert (first["BillingPeriodStart"], second["BillingPeriodEnd"]) == (
            "2026-10-01T00:00:00Z",
            "2026-12-01T00:00:00Z",
        )
        assert Decimal(first["BilledCost"]) + Decimal(second["BilledCost"]) == Decimal("4052.2768")
        assert Decimal(first["PricingQuantity"]) + Decimal(second["PricingQuantity"]) == 199
        assert set(COLUMNS) <= first.keys()

    def test_focus_row_uses_the_bill_in_place_of_the_quoted_rate(self):
        price_rows = self.rows(entry(billed_usd=Decimal("3999.99")))
        assert sum(Decimal(row["BilledCost"]) for row in price_rows) == Decimal("3999.99")
        assert {row["x_CostBasis"] for row in price_rows} == {"billed"}

    def test_focus_rows_of_simulated_runs_cost_zero_and_unpriced_runs_have_none(self):
        (row,) = self.rows(
            entry(simulated=True, ended_at=BEGUN + timedelta(hours=1)), entry(usd_at_quoted_rate=None, usd_used=None)
        )
        assert Decimal(row["BilledCost"]) == Decimal(row["ListCost"]) == 0
        assert row["x_CostBasis"] == "simulated"

    @pytest.mark.focus
    def test_focus_csv_passes_the_official_validator(self, tmp_path):
        path = tmp_path / "ledger.csv"
        shared = Shared(reservation="cr-2", prepaid_usd=Decimal(9000))
        block = entry(purchase_option="capacity-block", target="hyperpod-eks", tags={}, shared=shared)
        formulas = entry(name="=cmd|' /C calc'!A0", origin="@SUM(A1)", tags={"+a": "-b"})
        entries = [entry(), entry(simulated=True), block, formulas]
        path.write_text(focus_csv(entries), encoding="utf-8")
        # It looks for its list of currencies below the current folder.
        place = next((VALIDATOR.parent / "lib").glob("python*/site-packages"))
        command = [VALIDATOR / "focus-validator", "--data-file", path, "--validate-version", "1.0"]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        # It leaves with 0 whatever it finds.
        assert "Validation succeeded" in done.stdout, done.stdout + done.stderr


def test_formulas_in_names_and_tags_become_text_in_csv():
    hostile = entry(name="=cmd|' /C calc'!A0", origin="@SUM(A1)", tags={"+a": "-b\u202e"})
    (row,) = list(csv.DictReader(io.StringIO(focus_csv([hostile]))))[:1]
    assert row["ResourceName"] == "'=cmd|' /C calc'!A0"
    assert json.loads(row["Tags"])["+a"] == "-b\u202e"
    assert not [cell for cell in row.values() if cell.startswith(("=", "+", "@")) or "\u202e" in cell]
