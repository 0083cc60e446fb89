"""A quote lists the costs that it does not count."""

from decimal import Decimal

PLACE = {"instance_type": "p5.48xlarge", "region": "us-west-2"}


def name_of(priced, option):
    plan = {"target": PLACE, "purchase": {"option": option}}
    return {assumption.name: assumption for assumption in priced(plan).quote(1).assumptions}


def test_taxes_and_support_are_not_counted_and_the_support_rate_is_stated(priced):
    for option in ("on-demand", "spot", "capacity-block"):
        assumptions = name_of(priced, option)
        assert {assumptions[name].value for name in ("taxes", "AWS Support")} == {"not counted"}
        assert "takes 9% of the month's first dollars, at least $29" in assumptions["AWS Support"].source


def test_own_support_rate_is_stated_in_dollars_of_every_total(priced):
    quoted = priced({"target": PLACE, "purchase": {"support_percent": 7.5}}).quote(1)
    plain = priced({"target": PLACE}).quote(1)
    line = next(assumption for assumption in quoted.assumptions if assumption.name.startswith("AWS Support"))
    shares = [Decimal(share) for share in line.value.split(", ")]
    totals = (quoted.usd.low, quoted.usd.mid, quoted.usd.high)
    assert shares == [round(total * Decimal("0.075"), 2) for total in totals]
    assert "7.5 % of this total" in line.source
    assert (quoted.usd, quoted.gate) == (plain.usd, plain.gate)
    assert quoted.plan.digest != plain.plan.digest


def test_monthly_serving_quote_states_the_support_rate(priced):
    serve = {"train": None, "serve": {"model": "llama-3.1-8b", "requests_per_s": 1}}
    plan = {
        "workload": serve,
        "target": {"kind": "any", "instance_type": "g6e.2xlarge"},
        "purchase": {"support_percent": 0},
    }
    lines = {assumption.name: assumption for assumption in priced(plan).quote(1).assumptions}
    assert lines["AWS Support, low, mid, high"].value == "0.00, 0.00, 0.00"


def test_minimum_billed_time_is_stated_for_options_billed_by_the_second(priced):
    assert (name_of(priced, "spot")["least billed"].value, "least billed" in name_of(priced, "capacity-block")) == (
        "60",
        False,
    )


def test_only_spot_waits_for_spot_capacity(priced):
    waiting = name_of(priced, "spot")["waiting for spot capacity"]
    assert (waiting.value, "never how long" in waiting.source) == ("unknown", True)
    assert "waiting for spot capacity" not in name_of(priced, "on-demand")
