"""What a quote leaves out is said with it."""

PLACE = {"instance_type": "p5.48xlarge", "region": "us-west-2"}


def named(priced, option):
    plan = {"target": PLACE, "purchase": {"option": option}}
    return {each.name: each for each in priced(plan).quote(1).assumptions}


def test_taxes_and_support_are_not_counted_and_support_has_its_rate(priced):
    for option in ("on-demand", "spot", "capacity-block"):
        found = named(priced, option)
        assert {found[name].value for name in ("taxes", "AWS Support")} == {"not counted"}
        assert "takes 9% of the month's first dollars, at least $29" in found["AWS Support"].source


def test_the_least_that_is_billed_is_said_of_what_is_billed_by_the_second(priced):
    assert (named(priced, "spot")["least billed"].value, "least billed" in named(priced, "capacity-block")) == (
        "60",
        False,
    )


def test_only_spot_waits_for_spot_capacity(priced):
    assert named(priced, "spot")["waiting for spot capacity"].value == "not counted"
    assert "waiting for spot capacity" not in named(priced, "on-demand")
