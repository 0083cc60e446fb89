"""The pages of `slipway prices` at 80 and at 120 columns, and their JSON."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from launcher.answers.prices import (
    MAX_ROWS,
    MAX_ROWS_UNFILTERED,
    PLACES,
    diff_page,
    show_page,
)
from launcher.answers.prices_document import diff_document, refresh_document, show_document
from launcher.answers.refresh import refresh_page
from launcher.aws.session import CredentialsError
from launcher.catalog.fetched_prices import Refusal, plain
from launcher.catalog.listing import KINDS
from launcher.catalog.price_moves import Move
from launcher.catalog.selector import Key
from launcher.model.errors import AwsError, UnreadableInputError
from launcher.records.refresh_report import RefreshReport
from launcher.workflow.quote.prices import PriceFilter, check_regions, diff, show
from tests.checks import some
from tests.plans import NOW

P5 = "p5.48xlarge"
MONEY = re.compile(r"-?\d+(\.\d+)?")
CUT = (date(2025, 4, 1), date(2025, 6, 25))


def page(catalog, price_filter, width, *, history=False, everything=False):
    rows = show(catalog, price_filter, NOW, history=history)
    return show_page(rows, price_filter, width, everything=everything, history=history, as_of=catalog.prices_as_of)


def text(lines):
    return "\n".join(lines) + "\n"


class TestShow:
    @pytest.mark.parametrize("width", [80, 120])
    @pytest.mark.parametrize(
        "name, wanted",
        [
            ("trn2", PriceFilter(instance_type="trn2.48xlarge")),
            ("p5-us-east-1", PriceFilter(instance_type=P5, region="us-east-1")),
            ("sagemaker", PriceFilter(region="us-west-2", option="sagemaker")),
        ],
    )
    def test_show_page_equals_golden(self, golden, catalog, name, wanted, width):
        golden(f"prices/show-{name}-{width}.txt", text(page(catalog, wanted, width)))

    @pytest.mark.parametrize("width", [80, 120])
    def test_every_note_is_shown_whole(self, catalog, width):
        for kind in ("spot", "bill-item", "savings-plan"):
            price_filter = PriceFilter(option=kind)
            shown = " ".join(" ".join(page(catalog, price_filter, width, everything=True)).split())
            for row in show(catalog, price_filter, NOW, history=False):
                assert row.note in shown, row

    @pytest.mark.parametrize("width", [80, 120])
    def test_history_page_equals_golden(self, golden, catalog, width):
        price_filter = PriceFilter(instance_type=P5, region="us-east-1", option="capacity-block")
        golden(f"prices/history-{width}.txt", text(page(catalog, price_filter, width, history=True)))

    @pytest.mark.long
    @pytest.mark.parametrize("width", [80, 120])
    @pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "training-plan"])
    def test_show_page_has_no_line_wider_than_terminal(self, catalog, kind, width):
        for history in (False, True):
            lines = page(catalog, PriceFilter(option=kind), width, everything=True, history=history)
            assert [line for line in some(lines) if len(line) > width] == []

    def test_at_80_columns_no_price_age_or_basis_is_missing(self, catalog):
        price_filter = PriceFilter(instance_type=P5, region="us-east-1")
        rows = show(catalog, price_filter, NOW, history=False)
        lines = page(catalog, price_filter, 80, everything=True)
        for row in some(rows):
            pattern = rf" {plain(row.usd)} +{row.age_days} d\*? +{row.basis.value} +\[\d+\]"
            assert any(re.search(pattern, line) for line in lines), row

    def test_at_80_columns_a_bill_item_keeps_place_and_unit(self, catalog):
        price_filter = PriceFilter(option="bill-item")
        rows = [row for row in show(catalog, price_filter, NOW, history=False) if row.usd is not None]
        lines = page(catalog, price_filter, 80, everything=True)
        assert [line for line in lines if line.startswith("  ") and "…," in line] == []
        for row in some(rows):
            assert f"  {row.name}, {row.unit}" in lines
            assert any(line.startswith(f"    {PLACES.get(row.region, row.region)} ") for line in lines)

    def test_unverified_and_unpriced_rows_are_shown_with_reason(self, catalog):
        page_text = text(page(catalog, PriceFilter(instance_type="trn2.48xlarge"), 80))
        assert "85.964  166 d   unverified" in page_text
        assert "unverified: one source that could not be confirmed; it is shown and prices\n  nothing." in page_text
        assert "unpriced: trn2.48xlarge everywhere: AWS lists no on-demand price" in page_text

    def test_rows_without_filter_are_truncated_with_accelerators_first(self, catalog):
        page_text = text(page(catalog, PriceFilter(), 100))
        assert re.search(rf"^  {MAX_ROWS_UNFILTERED} of \d+ shown; --all for the rest", page_text, re.MULTILINE)
        assert "c5.12xlarge" not in page_text
        assert "c5.12xlarge" in text(page(catalog, PriceFilter(option="on-demand"), 100, everything=True))
        assert f"  {MAX_ROWS} of " in text(page(catalog, PriceFilter(option="on-demand"), 100))

    def test_earlier_date_shows_prices_known_on_date(self, catalog):
        price_filter = PriceFilter(instance_type=P5, option="on-demand")
        page_text = text(page(catalog.at(date(2025, 4, 1)), price_filter, 100))
        assert "1 price, as known on 2025-04-01" in page_text
        assert "98.32" in page_text
        assert "55.04" not in page_text

    def test_page_without_known_prices_says_none_known(self, catalog):
        price_filter = PriceFilter(instance_type="trn3", region="us-east-1", option="spot")
        assert page(catalog, price_filter, 80) == ["", "  No price is known."]

    @pytest.mark.parametrize(
        "wanted, message, hint",
        [
            (PriceFilter(instance_type="p5.48xlrge"), "no instance type p5.48xlrge", f"did you mean {P5}?"),
            (PriceFilter(instance_type="ml.p5.48xlrge"), "no instance type p5.48xlrge", f"did you mean {P5}?"),
            (PriceFilter(region="eu-nort-1"), "no region eu-nort-1", "did you mean eu-north-1?"),
            (PriceFilter(option="sport"), "no kind of price sport", "did you mean spot?"),
            (PriceFilter(option="zzz"), "no kind of price zzz", f"one of {', '.join(KINDS)}"),
        ],
    )
    def test_unknown_filter_value_refused_with_suggestion(self, catalog, wanted, message, hint):
        for ask in (lambda: show(catalog, wanted, NOW, history=False), lambda: diff(catalog, wanted, *CUT)):
            with pytest.raises(UnreadableInputError, match=message) as caught:
                ask()
            assert (caught.value.exit_code, caught.value.hint) == (2, hint)

    def test_unknown_region_in_list_refused(self, catalog):
        check_regions(catalog, ["us-east-1"])
        with pytest.raises(UnreadableInputError, match="us-eest-1"):
            check_regions(catalog, ["us-east-1", "us-eest-1"])


class TestShowJson:
    def test_every_row_of_document_has_item_and_price_or_reason(self, catalog):
        newest = datetime(2026, 12, 1, 12, tzinfo=UTC)  # after the last row of the shipped files
        rows = show(catalog, PriceFilter(region="us-east-1"), newest, history=False)
        document = json.loads(json.dumps(show_document(now=newest, prices_as_of=None, rows=rows)))
        assert document["schema"] == "slipway.prices/1"
        assert document["as_of"] == "2026-12-01T12:00:00+00:00"
        assert len(document["rows"]) == len(rows)
        for row in document["rows"]:
            price = row["usd_per_unit"] if row["kind"] == "bill-item" else row["usd_per_hour"]
            assert (price is None) == (row["unpriced"] is not None)
            assert price is None or MONEY.fullmatch(price)
            assert (row["item"] is None) == (row["kind"] != "bill-item")
            assert row["basis"] in {None, "listed", "derived", "memory", "unverified"}
            assert row["source"]
            assert row["age_days"] >= 0

    def test_document_row_has_keys_of_price_kind(self, catalog):
        rows = show(catalog, PriceFilter(instance_type=P5, region="us-east-1"), NOW, history=False)
        document = show_document(now=NOW, prices_as_of=date(2026, 11, 1), rows=rows)
        rows_by_kind = {row["kind"]: row for row in document["rows"]}
        assert document["prices_as_of"] == "2026-11-01"
        assert (rows_by_kind["spot"]["az_id"], rows_by_kind["spot"]["market"]) == (None, "open")
        assert rows_by_kind["savings-plan"]["plan_kind"] == "ec2-instance"
        assert (rows_by_kind["reserved"]["offering_class"], rows_by_kind["reserved"]["term_years"]) == ("standard", 3)
        assert rows_by_kind["sagemaker"]["component"] == "training"
        assert rows_by_kind["spot-range"]["statistic"] == "min"


class TestDiff:
    @pytest.mark.parametrize("width", [80, 120])
    def test_diff_page_across_june_2025_equals_golden(self, golden, catalog, width):
        changes = diff(catalog, PriceFilter(), *CUT)
        golden(f"prices/diff-{width}.txt", text(diff_page(changes, PriceFilter(), CUT, width, everything=False)))

    def test_diff_lists_changes_sorted_by_size(self, catalog):
        days = (date(2026, 2, 1), date(2026, 11, 1))
        price_filter = PriceFilter(option="capacity-block")
        lines = diff_page(diff(catalog, price_filter, *days), price_filter, days, 100, everything=True)
        shares = [float(match[1]) for line in lines if (match := re.search(r"([+-][\d.]+) %", line))]
        assert shares == sorted(shares, key=abs, reverse=True)
        assert len(shares) > 3

    def test_diff_marks_removed_and_new_prices(self, catalog):
        early, late = date(2025, 7, 1), date(2025, 8, 1)
        price_filter = PriceFilter(instance_type="p6-b200.48xlarge", option="on-demand")
        page_text = text(
            diff_page(diff(catalog, price_filter, early, late), price_filter, (early, late), 80, everything=False)
        )
        assert "0 changed, 0 removed, 1 added" in page_text
        assert re.search(r" new  +113\.9328", page_text)

    def test_diff_with_reversed_dates_refused_with_corrected_command(self, catalog):
        with pytest.raises(UnreadableInputError, match="is before") as caught:
            diff(catalog, PriceFilter(), *reversed(CUT))
        assert caught.value.hint == "slipway prices diff 2025-04-01 2025-06-25"

    def test_diff_document_has_prices_before_and_after_and_percent(self, catalog):
        changes = diff(catalog, PriceFilter(instance_type=P5), *CUT)
        document = diff_document(now=NOW, before=CUT[0], after=CUT[1], changes=changes)
        (change,) = document["changes"]
        assert (document["schema"], document["before"], document["after"]) == (
            "slipway.prices/1",
            "2025-04-01",
            "2025-06-25",
        )
        assert (change["what"], change["kind"], change["instance_type"]) == ("changed", "on-demand", P5)
        assert (change["before"]["usd"], change["after"]["usd"], change["percent"]) == ("98.32", "55.04", -44.02)


def report(**fields):
    """A refresh in which everything happened that can."""
    day = date(2026, 11, 19)
    usual = {
        "cache": Path("/home/me/.cache/slipway/prices"),
        "asked": 12,
        "answered": 11,
        "resumed": 3,
        "prices": 1234,
        "jumped": (
            Move(key=Key("spot", P5, "us-east-1", "use1-az2"), before=Decimal(14), before_as_of=day, after=Decimal(28)),
            Move(
                key=Key("reserved", P5, "us-east-1", "", "standard", 3, "no-upfront"),
                before=Decimal("55.5"),
                before_as_of=day,
                after=Decimal("20.25"),
            ),
        ),
        "vanished": (
            Move(key=Key("spot", P5, "us-east-1", "use1-az4"), before=Decimal("19.5"), before_as_of=day, after=None),
        ),
        "refused": (Refusal(key=Key("on-demand", P5, "us-west-2"), reason="the price is $0, expected more than 0"),),
        "failures": (
            (
                "savings plan of p5.48xlarge in 3 regions",
                AwsError("Savings Plan rates of p5.48xlarge: AccessDeniedException: not authorized", hint="ask"),
            ),
        ),
        "skipped_regions": ("af-south-1", "ap-east-1"),
    }
    return RefreshReport(**usual | fields)


class TestRefresh:
    @pytest.mark.parametrize("width", [80, 120])
    def test_refresh_page_equals_golden(self, golden, width):
        lines = refresh_page(report(), width)
        assert [line for line in some(lines) if len(line) > width] == []
        golden(f"prices/refresh-{width}.txt", text(lines))

    def test_refresh_page_omits_empty_counts(self):
        nothing = dict.fromkeys(("jumped", "vanished", "refused", "failures", "skipped_regions"), ())
        lines = refresh_page(report(**nothing, resumed=0, asked=1, answered=1, prices=1), 120)
        assert lines == ["", "  1 price read from AWS, 1 of 1 answer; kept in /home/me/.cache/slipway/prices"]

    def test_refresh_document_has_counts_jumps_and_refusals(self):
        document = json.loads(json.dumps(refresh_document(report(), NOW)))
        assert document["schema"] == "slipway.prices/1"
        refresh = document["refresh"]
        assert (refresh["asked"], refresh["answered"], refresh["resumed"], refresh["prices"]) == (12, 11, 3, 1234)
        assert [(jump["usd_before"], jump["usd_after"], jump["percent"]) for jump in refresh["jumped"]] == [
            ("14", "28", 100.0),
            ("55.5", "20.25", -63.51),
        ]
        assert refresh["jumped"][1]["offering_class"] == "standard"
        assert refresh["vanished"][0]["usd_after"] is None
        assert refresh["refused"][0]["reason"] == "the price is $0, expected more than 0"
        assert refresh["failures"][0]["hint"] == "ask"
        assert refresh["skipped_regions"] == ["af-south-1", "ap-east-1"]

    @pytest.mark.parametrize(
        "fields, whole",
        [({"failures": (), "refused": ()}, True), ({"failures": ()}, False), ({"refused": ()}, False)],
    )
    def test_refresh_is_complete_only_without_failures_and_refusals(self, fields, whole):
        assert report(**fields).complete is whole

    def test_credentials_error_exits_with_1(self):
        assert CredentialsError("none").exit_code == 1
