"""The market's buying guides, recomputed by the launcher itself: which of their figures hold, and which do not.

Prices that the history reaches are taken with `--prices-as-of`; the others with `price_overrides`.
"""

from datetime import date
from decimal import Decimal

import pytest

from launcher.catalog.load import load
from launcher.model.enums import PurchaseOption
from launcher.model.money import Price, Unpriced

BEFORE_THE_CUT = date(2025, 3, 31)
TODAY = date(2026, 11, 20)

FIXED = [
    # type, option, instances, hours, $ an instance-hour, printed by the guide, what it comes to
    ("g5.xlarge", "on-demand", 1, 6, "1.006", "6.04", "6.036"),
    ("trn1.2xlarge", "on-demand", 1, 6, "1.34", "8.04", "8.04"),
    ("p4d.24xlarge", "on-demand", 16, 192, "32.77", "102400", "100669.44"),
    ("p4d.24xlarge", "reserved", 16, 192, "12.48", "38400", "38338.56"),
    ("trn1.32xlarge", "on-demand", 16, 192, "21.50", "66048", "66048"),
    ("trn1.32xlarge", "reserved", 16, 192, "7.59", "23330", "23316.48"),
    ("trn1.32xlarge", "on-demand", 8, 720, "21.50", "123840", "123840"),
    ("trn1.32xlarge", "reserved", 8, 720, "7.59", "43718", "43718.40"),
    ("trn1.32xlarge", "on-demand", 1, 730, "21.50", "15695", "15695"),
]
SPOT = [
    ("g5.xlarge", 1, 6, "0.35", "2.10", "2.10"),
    ("trn1.2xlarge", 1, 6, "0.47", "2.82", "2.82"),
    ("trn1.32xlarge", 16, 192, "6.45", "19776", "19814.40"),
    ("trn1.32xlarge", 16, 192, "10.75", "32976", "33024"),
]
WRONG = {"102400": "1.7 % too high", "38400": "0.2 % too high", "23330": "0.1 %", "19776": "-0.2 %", "32976": "-0.1 %"}
"""What the guides print that their own rate, count and hours do not give."""


def is_wrong(printed: str, exact: str) -> bool:
    """Whether a printed figure is further off than rounding makes it: half a cent, or 0.05 %."""
    off = abs(Decimal(printed) - Decimal(exact))
    return off > Decimal("0.005") and off / Decimal(exact) > Decimal("0.0005")


def line(priced_plan, index=0):
    return priced_plan.quote(1).components[index]


def plan(instance_type, option, nodes, hours, rate, **purchase):
    return {
        "workload": {"train": {"model": None, "hours": hours}},
        "target": {"instance_type": instance_type, "nodes": nodes, "region": "us-east-1"},
        "purchase": {"option": option, "price_overrides": {f"{instance_type}/{option}": rate}, **purchase},
    }


@pytest.mark.parametrize("case", FIXED)
def test_fixed_price_is_rate_times_nodes_times_hours(priced, case):
    instance_type, option, nodes, hours, rate, printed, exact = case
    term = {"term_years": 3} if option == "reserved" else {}
    bill_line = line(priced(plan(instance_type, option, nodes, hours, rate, **term)))
    assert bill_line.usd == Decimal(exact)
    assert bill_line.quantity == nodes * hours
    assert (printed in WRONG) is is_wrong(printed, exact)


@pytest.mark.parametrize("case", SPOT)
def test_spot_without_interruptions_costs_the_dollars_of_the_guides(priced, case):
    instance_type, nodes, hours, rate, printed, exact = case
    changes = plan(instance_type, "spot", nodes, hours, rate, interruptions_per_node_hour=0)
    assert line(priced({**changes, "checkpoint": {"interval": 1800}})).usd == Decimal(exact)
    assert (printed in WRONG) is is_wrong(printed, exact)


def test_spot_with_interruptions_costs_more_than_the_guides_say(priced):
    changes = plan("trn1.32xlarge", "spot", 16, 192, "6.45", interruptions_per_node_hour=0.01)
    assert line(priced({**changes, "checkpoint": {"interval": 1800}})).usd > Decimal("19814.40")


@pytest.mark.parametrize(
    "instance_type, before, since",
    [
        ("p5.48xlarge", "98.32", "55.04"),
        ("p4d.24xlarge", "32.7726", "21.957642"),
        ("p4de.24xlarge", "40.96575", "27.44705"),
        ("p5en.48xlarge", "84.80", "63.296"),
    ],
)
def test_list_prices_before_and_since_june_2025(priced, instance_type, before, since):
    target = {"instance_type": instance_type, "nodes": 1, "region": "us-east-1"}
    workload = {"train": {"model": None, "hours": 1}}
    old = priced({"target": target, "workload": workload}, prices_as_of=BEFORE_THE_CUT).quote(1)
    new = priced({"target": target, "workload": workload}).quote(1)
    assert (old.price.usd, new.price.usd) == (Decimal(before), Decimal(since))
    assert old.components[0].usd == Decimal(before).quantize(Decimal("0.0001"))


FROM_HISTORY = [
    # type, day, instances, hours, what the list price of the day comes to, printed by the guide
    ("p4d.24xlarge", BEFORE_THE_CUT, 16, 192, "100677.4272", "102400"),
    ("p4d.24xlarge", TODAY, 16, 192, "67453.8762", None),
    ("trn1.32xlarge", BEFORE_THE_CUT, 16, 192, "66048", "66048"),
    ("trn1.32xlarge", TODAY, 16, 192, "66048", "66048"),
    ("trn1.32xlarge", TODAY, 8, 720, "123840", "123840"),
    ("trn1.32xlarge", TODAY, 1, 730, "15695", "15695"),
]


@pytest.mark.parametrize("case", FROM_HISTORY)
def test_worked_example_holds_at_a_days_list_price(priced, case):
    instance_type, day, nodes, hours, exact, printed = case
    changes = plan(instance_type, "on-demand", nodes, hours, "1", price_overrides={})
    assert line(priced(changes, prices_as_of=day)).usd == pytest.approx(Decimal(exact), abs=Decimal("0.001"))
    if printed is not None:
        assert (printed in WRONG) is is_wrong(printed, exact)


def test_p5en_list_price_is_outside_the_range_of_the_guides():
    low, high = Decimal(110), Decimal(130)
    for day in (BEFORE_THE_CUT, TODAY):
        price = load(prices_as_of=day).on_demand("p5en.48xlarge", "us-east-1")
        assert isinstance(price, Price)
        assert not low <= price.usd <= high


def test_sagemaker_costs_15_percent_more_the_low_end_of_the_15_to_40_of_the_guides():
    known = load()
    managed, raw = (
        known.sagemaker("ml.p5.48xlarge", "us-east-2", "training"),
        known.on_demand("p5.48xlarge", "us-east-2"),
    )
    assert isinstance(managed, Price)
    assert isinstance(raw, Price)
    assert float(managed.usd / raw.usd) == pytest.approx(1.15)


def test_trainium_discount_per_hour_is_2_percent_after_the_price_cut(priced):
    def hourly(instance_type, day):
        price = load(prices_as_of=day).on_demand(instance_type, "us-east-1")
        assert isinstance(price, Price)
        return price.usd

    then = hourly("trn1.32xlarge", BEFORE_THE_CUT) / hourly("p4d.24xlarge", BEFORE_THE_CUT)
    now = hourly("trn1.32xlarge", TODAY) / hourly("p4d.24xlarge", TODAY)
    assert float(then) == pytest.approx(0.66, abs=0.01)
    assert float(now) == pytest.approx(0.979, abs=0.001)


def test_p5e_has_no_price_on_demand():
    assert isinstance(load().on_demand("p5e.48xlarge", "us-east-2"), Unpriced)
    assert load().regions_offering("p5e.48xlarge", PurchaseOption.CAPACITY_BLOCK)


def test_the_chips_of_the_guides_are_the_vendors():
    chips = load().accelerators
    assert chips["H100"].peak_fp8_tflops == 1979
    assert chips["Trainium1"].peak_bf16_tflops == 190
