"""Reconciling a quote with a bill: every dollar in one place, and differences that add up."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.catalog.billed import billed_as
from launcher.model.bill import BilledRow, ChargeKind, Period, QuotedLine, Upfront
from launcher.records.stored_quote import read_quote
from launcher.workflow.history.bill import reconcile
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price
from launcher.workflow.quote.quoted_lines import quoted_lines
from tests.plans import EXAMPLES, NOW, PLANS

BEGAN = datetime(2026, 11, 10, tzinfo=UTC)


def row(usage_type, quantity, usd, *, service="AmazonEC2", kind=ChargeKind.USAGE, spread=None, hours=1, at=0):
    begin = BEGAN + timedelta(hours=at)
    return BilledRow(
        service=service,
        usage_type=usage_type,
        kind=kind,
        quantity=Decimal(str(quantity)),
        unit="Hrs",
        usd=Decimal(str(usd)),
        spread_usd=Decimal(str(usd if spread is None else spread)),
        begin=begin,
        end=begin + timedelta(hours=hours),
    )


def line(usage_type, quantity, usd, *, services=("AmazonEC2",), **more):
    return QuotedLine(
        names=(usage_type or "by service",),
        services=services,
        usage_type=usage_type,
        unit="hour",
        quantity=None if quantity is None else Decimal(str(quantity)),
        usd=None if usd is None else Decimal(str(usd)),
        **more,
    )


def test_bill_of_quoted_hours_and_rates_has_no_difference(quotes):
    lines = quoted_lines(read_quote(quotes()))
    exact = [quoted_line for quoted_line in lines if quoted_line.usage_type]
    rows = [
        row(f"USE2-{quoted_line.usage_type}", quoted_line.quantity, quoted_line.usd, service=quoted_line.services[0])
        for quoted_line in exact
    ]
    reconciled = reconcile(lines, rows, Upfront.PAID)
    assert len(exact) > 8
    assert reconciled.unquoted == ()
    assert {compared_line.difference_usd for compared_line in reconciled.lines if compared_line.line in exact} == {
        Decimal(0)
    }
    assert {compared_line.of_quantity_usd for compared_line in reconciled.lines if compared_line.line in exact} == {
        Decimal(0)
    }


def test_hour_and_rate_differences_are_separated(quotes):
    lines = quoted_lines(read_quote(quotes()))
    machines = lines[0]
    parts = ("2 x p5.48xlarge on-demand", "start-up of the nodes", "idle tail")
    assert machines.names == parts
    rate = machines.usd / machines.quantity
    hours = machines.quantity + 4
    reconciled = reconcile(lines, [row("USE2-BoxUsage:p5.48xlarge", hours, hours * (rate - 1))], Upfront.PAID)
    bill_line = reconciled.lines[0]
    assert bill_line.of_quantity_usd == pytest.approx(4 * rate)
    assert bill_line.of_rate_usd == pytest.approx(-hours)
    assert bill_line.of_quantity_usd + bill_line.of_rate_usd == bill_line.difference_usd


def test_discount_changes_rate_and_not_quantity():
    quoted_line = line("BoxUsage:p5.48xlarge", 10, 100)
    rows = [
        row("USE2-BoxUsage:p5.48xlarge", 10, 100, spread=60),
        row("USE2-BoxUsage:p5.48xlarge", 10, -100, spread=0, kind=ChargeKind.DISCOUNT),
    ]
    paid, spread = (reconcile((quoted_line,), rows, upfront).lines[0] for upfront in Upfront)
    assert (paid.quantity, paid.usd, paid.of_rate_usd) == (10, 0, -100)
    assert (spread.quantity, spread.usd, spread.of_rate_usd) == (10, 60, -40)


def test_line_without_usage_type_compared_in_dollars_and_fee_assigned():
    system, block = line("", None, 50, services=("AmazonFSx",)), line("", None, 900, takes_fees=True)
    rows = [
        row("USE2-Lustre-Something", 3, 40, service="AmazonFSx"),
        row("", 1, 1000, kind=ChargeKind.FEE),
        row("USE2-EBS:SnapshotUsage", 1, 2),
    ]
    reconciled = reconcile((system, block), rows, Upfront.PAID)
    assert [(compared_line.usd, compared_line.of_quantity_usd) for compared_line in reconciled.lines] == [
        (40, None),
        (1000, None),
    ]
    (unquoted,) = reconciled.unquoted
    assert (unquoted.usage_type, unquoted.usd) == ("USE2-EBS:SnapshotUsage", 2)


def test_separate_cloudwatch_charges_belong_to_lines(quotes):
    """Vended logs and GetMetricData; what else CloudWatch bills is in no line."""
    billed = [("DataProcessing-Bytes", 1), ("EU-VendedLog-Bytes", 8), ("CW:GMD-Metrics", 4), ("DashboardsUsageHour", 2)]
    rows = [row(name, usd, usd, service="AmazonCloudWatch") for name, usd in (*billed, ("CW:Canary-runs", 16))]
    reconciled = reconcile(quoted_lines(read_quote(quotes())), rows, Upfront.PAID)
    usd = {name: compared_line.usd for compared_line in reconciled.lines for name in compared_line.line.names}
    assert (usd["CloudWatch logs"], usd["CloudWatch requests"], usd["dashboard"]) == (9, 4, 2)
    assert [charge.usage_type for charge in reconciled.unquoted] == ["CW:Canary-runs"]


def test_usage_type_of_two_services_goes_to_own_service():
    stored = line("TimedStorage-ByteHrs", 100, 3, services=("AmazonS3",))
    logs = line("TimedStorage-ByteHrs", 10, 1, services=("AmazonCloudWatch",))
    rows = [
        row("USE2-TimedStorage-ByteHrs", 90, 2, service="AmazonS3"),
        row("USE2-TimedStorage-ByteHrs", 5, 1, service="AmazonECR"),
    ]
    reconciled = reconcile((stored, logs), rows, Upfront.PAID)
    assert [compared_line.usd for compared_line in reconciled.lines] == [2, 0]
    assert [charge.service for charge in reconciled.unquoted] == ["AmazonECR"]


AMOUNTS = st.decimals(-1000, 1000, places=9, allow_nan=False)
ROWS = st.builds(
    row,
    st.sampled_from(("USE2-BoxUsage:p5.48xlarge", "BoxUsage:m6i.xlarge", "USE2-NatGateway-Hours", "Odd", "")),
    st.decimals(0, 1000, places=9),
    AMOUNTS,
    service=st.sampled_from(("AmazonEC2", "AmazonFSx", "Other", "")),
    kind=st.sampled_from(list(ChargeKind)),
    spread=AMOUNTS,
)


@pytest.mark.long
@given(st.lists(ROWS), st.sampled_from(list(Upfront)))
def test_every_dollar_is_in_exactly_one_place(rows, upfront):
    lines = (
        line("BoxUsage:p5.48xlarge", 10, 100, takes_fees=True),
        line("NatGateway-Hours", 7, 3),
        line("BoxUsage:m6i.xlarge", 3, None),
        line("", None, 5, services=("AmazonFSx",)),
    )
    reconciled = reconcile(lines, rows, upfront)
    assert reconciled.usd + reconciled.credits_usd + reconciled.tax_usd == sum(
        billed_row.dollars(upfront) for billed_row in rows
    )
    for compared_line in reconciled.lines:
        if compared_line.of_quantity_usd is not None:
            assert compared_line.of_quantity_usd + compared_line.of_rate_usd == compared_line.difference_usd


@given(st.integers(0, 200), st.sampled_from([1, 24]), st.integers(1, 150), st.integers(0, 59))
def test_every_row_belongs_to_one_of_two_consecutive_periods(hour, span, edge, minutes):
    begin = hour - hour % span
    one = row("x", 1, 1, hours=span, at=begin)
    change = BEGAN + timedelta(hours=edge, minutes=minutes)
    periods = Period(BEGAN, change), Period(change, BEGAN + timedelta(days=60))
    containing = [period.contains(one) for period in periods]
    # The hour or day in which the next run began is that run's, unless the first one has no other.
    assert sum(containing) == 1 or (containing == [True, True] and edge < span)


@pytest.mark.long
@pytest.mark.parametrize("path", PLANS, ids=lambda path: str(path.relative_to(EXAMPLES)))
def test_every_line_of_example_quotes_is_known(path):
    priced = price(path, NOW, PriceOptions(any_age=True))
    shown, unknown = {}, set()
    for rank, candidate in enumerate(priced.candidates, start=1):
        shown.setdefault((candidate.place.target, candidate.place.option), rank)
    for rank in shown.values():
        quoted = priced.quote(rank)
        unknown |= {
            component.name
            for component in quoted.components
            if component.group != "compute" and billed_as(component.name) is None
        }
        machines = [component.name for component in quoted.components if component.group == "compute"]
        unknown |= {machines[0]} if machines and billed_as(machines[0]) is None else set()
    assert unknown == set()
