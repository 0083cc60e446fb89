"""Rates of Capacity Blocks and training plans from their offerings, through real boto3."""

import pytest

from launcher.aws.capacity_block_prices import capacity_blocks
from launcher.aws.training_plans import training_plans
from launcher.model.errors import AwsError
from tests.emulators.aws_prices import Fault
from tests.emulators.price_entries import block, plan
from tests.plans import NOW

P5, TRN2 = "p5.48xlarge", "trn2.48xlarge"


def rates(answer):
    return {rate.key.zone: str(rate.usd) for rate in answer.rates}


class TestCapacityBlocks:
    def test_capacity_block_rate_is_the_fee_per_instance_hour(self, price_services, session_of):
        price_services.blocks = [block(TRN2, "us-east-2", "3433.0368", hours=24, count=4)]
        (rate,) = capacity_blocks(session_of("us-east-2"), TRN2, 4, NOW).rates
        assert str(rate.usd) == "35.760800"
        assert rate.note == "offered from 2026-11-25 11:30 UTC"
        (request,) = price_services.requests
        assert (request.body["InstanceCount"], request.body["CapacityDurationHours"]) == ("4", "24")
        assert request.body["EndDateRange"].startswith("2027-01-16T12:00:00")

    def test_capacity_block_rate_includes_minutes_beyond_whole_hours(self, price_services, session_of):
        price_services.blocks = [block(P5, "us-east-2", "100", hours=24, capacityBlockDurationMinutes=60)]
        assert rates(capacity_blocks(session_of("us-east-2"), P5, 1, NOW)) == {"": "4.000000"}

    def test_dearest_offering_counts_and_local_zones_are_separate(self, price_services, session_of):
        local = {"availabilityZone": "us-east-1-atl-2a", "zoneType": "local-zone"}
        price_services.blocks = [
            block(P5, "us-east-1", "996.672"),
            block(P5, "us-east-1", "1000.8"),
            block(P5, "us-east-1", "24", **local),
        ]
        offered = capacity_blocks(session_of("us-east-1"), P5, 1, NOW)
        assert rates(offered) == {"": "41.700000", "us-east-1-atl-2a": "1.000000"}

    def test_week_is_requested_without_an_offering_for_a_day(self, price_services, session_of):
        price_services.blocks = [block(P5, "us-east-2", "1680", hours=168)]
        assert rates(capacity_blocks(session_of("us-east-2"), P5, 1, NOW)) == {"": "10.000000"}
        assert [request.body["CapacityDurationHours"] for request in price_services.requests] == ["24", "168"]

    def test_capacity_block_segments_are_added_up(self, price_services, session_of):
        segments = [
            {"instanceType": P5, "instanceCount": count, "capacityBlockDurationHours": hours, "upfrontFee": "1"}
            for hours, count in ((10, 1), (14, 2))
        ]
        price_services.blocks = [block(P5, "us-east-2", "76", count=2, capacityBlockOfferingSegmentSet=segments)]
        assert rates(capacity_blocks(session_of("us-east-2"), P5, 2, NOW)) == {"": "2.000000"}

    def test_ultraserver_is_requested_and_priced_as_a_whole(self, price_services, session_of):
        name = "u-p6e-gb200x36"
        price_services.blocks = [
            block("p6e-gb200.36xlarge", "us-east-1", "9142.848", count=9, ultraserverType=name, ultraserverCount=1)
        ]
        assert rates(capacity_blocks(session_of("us-east-1"), name, 1, NOW)) == {"": "380.952000"}
        assert "InstanceType" not in price_services.requests[0].body

    @pytest.mark.parametrize(
        "fields, reason",
        [
            ({"upfrontFee": "0.0"}, "the price is $0.0, expected more than 0"),
            ({"currencyCode": "EUR"}, "the currency is EUR, expected USD"),
            ({"instanceCount": 0}, "the offering states no length or no size"),
            ({"instanceType": "p4d.24xlarge"}, "the offering is of p4d.24xlarge too"),
        ],
    )
    def test_invalid_capacity_block_fee_is_refused_with_the_reason(self, price_services, session_of, fields, reason):
        price_services.blocks = [block(P5, "us-east-2", "996.672") | fields]
        if "instanceType" in fields:
            inside = {"instanceType": "p4d.24xlarge", "instanceCount": 1, "capacityBlockDurationHours": 24}
            price_services.blocks = [block(P5, "us-east-2", "996.672", capacityBlockOfferingSegmentSet=[inside])]
        offered = capacity_blocks(session_of("us-east-2"), P5, 1, NOW)
        assert offered.rates == ()
        assert [refusal.reason for refusal in offered.refusals] == [reason]

    def test_missing_capacity_block_offering_gives_no_price(self, price_services, session_of):
        assert capacity_blocks(session_of("us-east-2"), P5, 1, NOW).rates == ()


class TestTrainingPlans:
    def test_training_plan_rate_is_the_fee_over_all_instance_hours(self, price_services, session_of):
        price_services.plans = [plan(P5, "us-east-2", "1440", (24, 1)), plan(P5, "us-east-2", "2400", (10, 2), (14, 2))]
        (rate,) = training_plans(session_of("us-east-2"), P5, 1, NOW).rates
        assert str(rate.usd) == "60.000000"
        assert rate.key.name == P5
        (request,) = price_services.requests
        assert (request.body["InstanceType"], request.body["TargetResources"]) == (f"ml.{P5}", ["hyperpod-cluster"])

    def test_training_plan_in_another_currency_is_refused(self, price_services, session_of):
        price_services.plans = [plan(P5, "us-east-2", "1440", (24, 1), currency="EUR")]
        offered = training_plans(session_of("us-east-2"), P5, 1, NOW)
        assert [refusal.reason for refusal in offered.refusals] == ["the currency is EUR, expected USD"]

    def test_type_without_sagemaker_training_plans_has_no_rate(self, price_services, session_of):
        price_services.always["SearchTrainingPlanOfferings"] = Fault(
            code="ValidationException", message="Invalid instance type"
        )
        assert training_plans(session_of("us-east-2"), P5, 1, NOW).rates == ()

    def test_other_sagemaker_refusal_is_an_error(self, price_services, session_of):
        price_services.always["SearchTrainingPlanOfferings"] = Fault(
            code="AccessDeniedException", message="not authorized"
        )
        with pytest.raises(AwsError, match=r"training plans of p5.48xlarge in us-east-2: AccessDeniedException"):
            training_plans(session_of("us-east-2"), P5, 1, NOW)
