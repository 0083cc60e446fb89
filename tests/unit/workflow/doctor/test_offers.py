"""Current offers of AWS for a plan, with the total of each and the command that buys it."""

from datetime import timedelta

import pytest

from launcher.answers.capacity import document, page
from launcher.model.capacity import OfferKind
from launcher.workflow.doctor.offers import capacity
from launcher.workflow.quote.options import PriceOptions
from tests.emulators.aws_account import EC2_DENIED
from tests.unit.workflow.doctor.conftest import NOW, PLAN, block

pytestmark = pytest.mark.server


@pytest.fixture
def find_offers(offering, tmp_path):
    def find(text=PLAN):
        path = tmp_path / "plan.yaml"
        path.write_text(text, encoding="utf-8")
        return capacity(path, NOW, PriceOptions(any_age=True), environment=offering.environment, notify=lambda _: None)

    return find


def of(offered, kind):
    return [offer for offer in offered.offers if offer.offer.kind is kind]


def test_capacity_block_offer_has_fee_and_purchase_command(find_offers):
    two, one = sorted(of(find_offers(), OfferKind.CAPACITY_BLOCK), key=lambda offer: offer.lead_time_h)
    assert (one.offer.fee_usd, one.offer.az_id, round(one.lead_time_h, 1)) == (2500, "use2-az1", 71.5)
    assert one.usd.mid > 2500
    assert one.usd.mid < two.usd.mid
    assert one.purchase_command == (
        "aws ec2 purchase-capacity-block --region us-east-2 --instance-platform Linux/UNIX "
        "--capacity-block-offering-id cb-00000000000000001"
    )


def test_cheapest_and_soonest_offers_are_marked(find_offers):
    result = find_offers(PLAN + "purchase: {option: capacity-block}\n")
    assert result.cheapest.offer.id == "cb-00000000000000001"
    assert result.soonest.offer.id == "cb-00000000000000002"
    text = "\n".join(page(result, 120, everything=False))
    assert "cheapest" in text
    assert "in 7 h" in text
    assert "purchase-capacity-block" in text


def test_capacity_block_with_other_types_is_left_out(offering, find_offers):
    mixed = block(3, 1, "1.00", CapacityBlockOfferingSegments=[{"InstanceType": "p5e.48xlarge", "InstanceCount": 1}])
    offering.canned["ec2.DescribeCapacityBlockOfferings"] = {"CapacityBlockOfferings": [mixed]}
    assert not of(find_offers(), OfferKind.CAPACITY_BLOCK)


def test_deadline_keeps_only_offers_ending_before(find_offers):
    offers = of(find_offers(PLAN + "purchase: {deadline_h: 60}\n"), OfferKind.CAPACITY_BLOCK)
    assert [offer.offer.id for offer in offers] == ["cb-00000000000000002"]


def test_owned_capacity_block_is_free_and_extendable(offering, find_offers):
    offering.canned["ec2.DescribeCapacityReservations"] = {
        "CapacityReservations": [
            {
                "CapacityReservationId": "cr-0123456789abcdef0",
                "AvailabilityZoneId": "use2-az1",
                "InstanceType": "p5.48xlarge",
                "TotalInstanceCount": 2,
                "AvailableInstanceCount": 2,
                "State": "active",
                "StartDate": NOW - timedelta(hours=20),
                "EndDate": NOW + timedelta(hours=4),
                "ReservationType": "capacity-block",
            }
        ]
    }
    offering.canned["ec2.DescribeCapacityBlockExtensionOfferings"] = {
        "CapacityBlockExtensionOfferings": [
            {
                "CapacityBlockExtensionOfferingId": "cbe-1",
                "InstanceType": "p5.48xlarge",
                "InstanceCount": 2,
                "AvailabilityZoneId": "use2-az1",
                "CapacityBlockExtensionStartDate": NOW + timedelta(hours=4),
                "CapacityBlockExtensionEndDate": NOW + timedelta(hours=28),
                "CapacityBlockExtensionDurationHours": 24,
                "UpfrontFee": "1990.00",
                "CurrencyCode": "USD",
            }
        ]
    }
    result = find_offers()
    (reservation,) = of(result, OfferKind.RESERVATION)
    (longer,) = of(result, OfferKind.EXTENSION)
    assert reservation.purchase_command is None
    assert "--capacity-reservation-id cr-0123456789abcdef0" in longer.purchase_command
    assert longer.usd.mid >= 1990


def test_spot_is_scored_with_pool_of_three_types(offering, find_offers):
    (spot,) = of(find_offers(), OfferKind.SPOT)
    assert (spot.offer.score, spot.offer.az_id) == (3, "use2-az1")
    sent = next(sent for name, sent in offering.requests if name == "ec2.GetSpotPlacementScores")
    assert sent["TargetCapacity"] == "384"
    assert sum(name.startswith("InstanceType.") for name in sent) == 3


def test_denied_offer_request_is_named_beside_others(offering, find_offers):
    offering.canned["ec2.DescribeCapacityBlockOfferings"] = EC2_DENIED
    result = find_offers()
    assert not of(result, OfferKind.CAPACITY_BLOCK)
    assert of(result, OfferKind.ON_DEMAND)
    assert any("Capacity Blocks" in question for question, _ in result.unanswered)
    assert "? Capacity Blocks" in "\n".join(page(result, 120, everything=True))


def test_empty_offers_are_reported(offering, find_offers):
    offering.canned["ec2.DescribeCapacityBlockOfferings"] = {"CapacityBlockOfferings": []}
    result = find_offers(PLAN + "purchase: {option: capacity-block}\n")
    assert result.offers == ()
    assert "AWS offers none of these instances" in "\n".join(page(result, 80, everything=False))


def test_unanswered_offer_requests_claim_no_absence(offering, find_offers):
    offering.canned["ec2.DescribeCapacityBlockOfferings"] = EC2_DENIED
    text = "\n".join(page(find_offers(PLAN + "purchase: {option: capacity-block}\n"), 80, everything=False))
    assert "AWS offers none" not in text
    assert "did not answer these requests:" in text
    assert "available now" not in text


def test_capacity_document_has_contract_keys(find_offers):
    json_document = document(find_offers())
    keys = {"kind", "id", "region", "az_id", "instance_type", "count", "starts_at", "ends_at", "lead_time_h"}
    keys |= {"usd_fee", "usd_total", "purchase_command"}
    assert json_document["schema"] == "slipway.capacity/1"
    assert all(keys <= set(offer) for offer in json_document["offers"])


@pytest.mark.parametrize(
    "kind, resource",
    [
        ("sagemaker-training", "training-job"),
        ("hyperpod-eks", "hyperpod-cluster"),
        ("any", "hyperpod-cluster"),
    ],
)
def test_training_plans_are_searched_for_the_target_of_the_plan_file(offering, find_offers, kind, resource):
    searched = set()

    def answer(body):
        searched.update(body["TargetResources"])
        return {"TrainingPlanOfferings": []}

    offering.canned["sagemaker.SearchTrainingPlanOfferings"] = answer
    text = PLAN.replace("target: {", f"target: {{kind: {kind}, ")
    find_offers(f"{text}purchase: {{option: training-plan}}\n")
    assert searched == {resource}
