"""The quote of a run is read back by its types."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from launcher.model.errors import UnreadableInputError
from launcher.records import run_folder
from launcher.records.stored_quote import QUOTE_FILE, stored_quote
from launcher.workflow.run.meter import terms
from tests.unit.cli.reports import QUOTE


@pytest.fixture
def quoted_run(tmp_path):
    def make(**changes):
        folder = run_folder.create("x", datetime.now(UTC), tmp_path)
        folder.write_json(QUOTE_FILE, QUOTE | changes)
        return folder

    return make


def test_stored_quote_has_amounts_and_ranges(quoted_run):
    quote = stored_quote(quoted_run())
    assert (quote.usd.mid, quote.hours.high, quote.training.mfu.mid) == (Decimal(220), 7.0, 0.42)


def test_stored_quote_of_an_earlier_version_has_a_cost_without_rates(quoted_run):
    assert "rates" not in QUOTE
    assert stored_quote(quoted_run()).cost.paid_usd(5.0) == Decimal(220)


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"nodes": "2"}, "nodes must be int, got str"),
        ({"usd": {"low": 1, "mid": "2", "high": "3"}}, "usd.low must be str, got int"),
        ({"hours": {"low": 3.0, "mid": 2.0, "high": 1.0}}, "range out of order"),
        ({"components": [{"name": "a"}]}, r"components\[0\].group is missing"),
    ],
)
def test_damaged_quote_is_refused_with_the_path(quoted_run, changes, reason):
    with pytest.raises(UnreadableInputError, match=f"{QUOTE_FILE} is not a quote: .*{reason}"):
        stored_quote(quoted_run(**changes))


@pytest.mark.parametrize("limit", ["lots", "NaN", "1e9999999"])
def test_damaged_budget_is_refused_with_the_key(quoted_run, limit):
    folder = quoted_run()
    folder.write_json("plan.json", {"budget": {"max_usd": limit}})
    with pytest.raises(UnreadableInputError, match=r"plan.json: budget.max_usd: not an amount of dollars"):
        terms(folder)
