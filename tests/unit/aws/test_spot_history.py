"""Spot prices per zone from EC2's price history, through real boto3."""

import pytest

from launcher.aws.spot_history import spot
from launcher.model.errors import AwsError
from tests.emulators.price_entries import spot_entry
from tests.plans import NOW

P5, TRN = "p5.48xlarge", "trn1.32xlarge"


def prices(answer):
    return {(rate.key.name, rate.key.zone): str(rate.usd) for rate in answer.rates}


def entry(name, letter, price, hour="10", **fields):
    return spot_entry(name, "us-east-2", f"us-east-2{letter}", price, since=f"2026-11-20T{hour}:00:00.000Z", **fields)


def test_zone_names_become_zone_ids(price_services, session_of):
    price_services.zones = {"us-east-2": {"us-east-2a": "use2-az3", "us-east-2b": "use2-az1"}}
    price_services.spot = [entry(P5, "a", "18.5"), entry(P5, "b", "19.25"), entry(TRN, "a", "2.15")]
    history = spot(session_of("us-east-2"), (P5, TRN), NOW)
    assert prices(history) == {(P5, "use2-az3"): "18.5", (P5, "use2-az1"): "19.25", (TRN, "use2-az3"): "2.15"}
    assert {rate.key.region for rate in history.rates} == {"us-east-2"}
    assert price_services.operations() == ["DescribeSpotPriceHistory", "DescribeAvailabilityZones"]


def test_zone_ids_in_the_spot_answer_save_a_query(price_services, session_of):
    price_services.spot = [entry(P5, "a", "18.5", zone_id="use2-az3")]
    assert prices(spot(session_of("us-east-2"), (P5,), NOW)) == {(P5, "use2-az3"): "18.5"}
    (request,) = price_services.requests
    assert request.body["ProductDescription.1"] == "Linux/UNIX"
    assert request.body["StartTime"].startswith("2026-11-20T12:00:00")
    assert request.region == "us-east-2"


def test_newest_spot_entry_of_a_zone_counts_over_all_pages(price_services, session_of):
    price_services.page_size = 1
    price_services.spot = [
        entry(P5, "a", price, hour, zone_id="use2-az3") for price, hour in (("18", "08"), ("20", "11"), ("19", "09"))
    ]
    (rate,) = spot(session_of("us-east-2"), (P5,), NOW).rates
    assert str(rate.usd) == "20"
    assert rate.note == "since 2026-11-20 11:00 UTC"
    assert price_services.operations() == ["DescribeSpotPriceHistory"] * 3


def test_zero_spot_price_is_refused_and_other_zones_are_kept(price_services, session_of):
    price_services.spot = [entry(P5, "a", "0.000000", zone_id="use2-az3"), entry(P5, "b", "19", zone_id="use2-az1")]
    history = spot(session_of("us-east-2"), (P5,), NOW)
    assert prices(history) == {(P5, "use2-az1"): "19"}
    (refusal,) = history.refusals
    assert (refusal.key.zone, refusal.reason) == ("use2-az3", "the price is $0.000000, expected more than 0")


def test_spot_zone_without_an_id_is_an_error(price_services, session_of):
    price_services.spot = [entry(P5, "a", "18.5")]
    with pytest.raises(AwsError, match="us-east-2a is no zone of this account"):
        spot(session_of("us-east-2"), (P5,), NOW)
