"""Offerings of Capacity Blocks and training plans, as EC2 and SageMaker describe them."""

from datetime import UTC, datetime, timedelta

import pytest
from botocore.exceptions import ClientError

NOW = datetime.now(UTC)
BLOCK = {"InstanceType": "p5.48xlarge", "InstanceCount": 2, "CapacityDurationHours": 48, "AllAvailabilityZones": True}
PLAN = {
    "InstanceType": "ml.p5.48xlarge",
    "InstanceCount": 2,
    "DurationHours": 48,
    "TargetResources": ["hyperpod-cluster"],
}


def test_capacity_block_offering_has_window_and_fee(client):
    ec2 = client("ec2")
    after = NOW + timedelta(days=10)
    (first,) = ec2.describe_capacity_block_offerings(**BLOCK)["CapacityBlockOfferings"]
    (later,) = ec2.describe_capacity_block_offerings(**BLOCK, StartDateRange=after)["CapacityBlockOfferings"]
    assert first["StartDate"] > NOW
    assert later["StartDate"] >= after
    assert (first["EndDate"] - first["StartDate"], f"{first['EndDate']:%H:%M}") == (timedelta(hours=48), "11:30")
    (longer,) = ec2.describe_capacity_block_offerings(**BLOCK | {"CapacityDurationHours": 96})["CapacityBlockOfferings"]
    assert float(longer["UpfrontFee"]) == pytest.approx(2 * float(first["UpfrontFee"]), abs=0.01)
    for window in ({"EndDateRange": NOW + timedelta(hours=30)}, {"StartDateRange": NOW + timedelta(weeks=9)}):
        assert not ec2.describe_capacity_block_offerings(**BLOCK, **window)["CapacityBlockOfferings"]
    assert not ec2.describe_capacity_block_offerings(**BLOCK | {"InstanceType": "g6.xlarge"})["CapacityBlockOfferings"]


@pytest.mark.parametrize(
    "changes,code",
    [
        ({"CapacityDurationHours": 30}, "InvalidParameterValue"),
        ({"CapacityDurationHours": 24 * 15}, "InvalidParameterValue"),
        ({"CapacityDurationHours": 24 * 189}, "InvalidParameterValue"),
        ({"InstanceCount": 65}, "InvalidParameterValue"),
        ({"UltraserverType": "u-p6e-gb200x72"}, "InvalidParameterCombination"),
    ],
)
def test_unsold_capacity_block_refused(client, changes, code):
    with pytest.raises(ClientError) as refused:
        client("ec2").describe_capacity_block_offerings(**BLOCK | changes)
    assert refused.value.response["Error"]["Code"] == code


def test_training_plan_offering_matches_target(client):
    sagemaker = client("sagemaker")
    (offered,) = sagemaker.search_training_plan_offerings(**PLAN, StartTimeAfter=NOW)["TrainingPlanOfferings"]
    (capacity,) = offered["ReservedCapacityOfferings"]
    assert offered["TargetResources"] == ["hyperpod-cluster"]
    assert (capacity["InstanceCount"], capacity["DurationHours"]) == (2, 48)
    assert capacity["EndTime"] - capacity["StartTime"] == timedelta(hours=48)
    assert float(offered["UpfrontFee"]) > 0
    for changes in ({"InstanceType": "ml.g6.xlarge"}, {"TargetResources": ["notebook"]}):
        with pytest.raises(ClientError, match="failed to satisfy constraint") as refused:
            sagemaker.search_training_plan_offerings(**PLAN | changes)
        assert refused.value.response["Error"]["Code"] == "ValidationException"


def refusal(call, **params):
    with pytest.raises(ClientError) as refused:
        call(**params)
    return refused.value.response["Error"]["Code"]


def test_bought_capacity_block_becomes_reservation_once(client):
    ec2 = client("ec2")
    query = BLOCK | {"CapacityDurationHours": 72}
    (offered,) = ec2.describe_capacity_block_offerings(**query)["CapacityBlockOfferings"]
    order = {"CapacityBlockOfferingId": offered["CapacityBlockOfferingId"], "InstancePlatform": "Linux/UNIX"}
    bought = ec2.purchase_capacity_block(**order)["CapacityReservation"]
    assert (bought["State"], bought["TotalInstanceCount"], bought["ReservationType"]) == (
        "scheduled",
        2,
        "capacity-block",
    )
    assert (bought["StartDate"], bought["EndDate"]) == (offered["StartDate"], offered["EndDate"])
    assert bought["AvailabilityZoneId"].startswith("usw2-az")
    assert refusal(ec2.purchase_capacity_block, **order) == "InvalidCapacityBlockOfferingIdExpired"
    assert not ec2.describe_capacity_block_offerings(**query)["CapacityBlockOfferings"]
    name = bought["CapacityReservationId"]
    (capacity_reservation,) = ec2.describe_capacity_reservations(CapacityReservationIds=[name])["CapacityReservations"]
    assert capacity_reservation == bought
    for filters, count in (({"state": "scheduled", "instance-type": "p5.48xlarge"}, 1), ({"state": "active"}, 0)):
        request_filters = [{"Name": key, "Values": [value]} for key, value in filters.items()]
        assert len(ec2.describe_capacity_reservations(Filters=request_filters)["CapacityReservations"]) == count
    (more,) = ec2.describe_capacity_block_extension_offerings(
        CapacityReservationId=name, CapacityBlockExtensionDurationHours=24
    )["CapacityBlockExtensionOfferings"]
    assert more["CapacityBlockExtensionStartDate"] == bought["EndDate"]
    assert float(more["UpfrontFee"]) == pytest.approx(float(offered["UpfrontFee"]) / 3)
    long = {"CapacityReservationId": name, "CapacityBlockExtensionDurationHours": 24 * 182}
    assert not ec2.describe_capacity_block_extension_offerings(**long)["CapacityBlockExtensionOfferings"]


@pytest.mark.parametrize(
    "call,params,code",
    [
        ("purchase_capacity_block", {"CapacityBlockOfferingId": "cb-0"}, "InvalidCapacityBlockOfferingIdMalformed"),
        ("purchase_capacity_block", {}, "InvalidCapacityBlockOfferingIdNotFound"),
        ("purchase_capacity_block", {"InstancePlatform": "BeOS"}, "InvalidParameterValue"),
        (
            "describe_capacity_reservations",
            {"CapacityReservationIds": [f"cr-{0:017}"]},
            "InvalidCapacityReservationId.NotFound",
        ),
        ("describe_capacity_reservations", {"CapacityReservationIds": ["x"]}, "InvalidCapacityReservationId.Malformed"),
        ("describe_capacity_reservations", {"Filters": [{"Name": "owner", "Values": ["x"]}]}, "InvalidParameterValue"),
        (
            "describe_capacity_block_extension_offerings",
            {"CapacityReservationId": f"cr-{0:017}", "CapacityBlockExtensionDurationHours": 24},
            "InvalidCapacityReservationId.NotFound",
        ),
    ],
)
def test_purchase_without_offering_refused(client, call, params, code):
    if call == "purchase_capacity_block":
        params = {"CapacityBlockOfferingId": f"cb-{0:017}", "InstancePlatform": "Linux/UNIX"} | params
    assert refusal(getattr(client("ec2"), call), **params) == code
