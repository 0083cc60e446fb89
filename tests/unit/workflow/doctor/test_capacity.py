"""The doctor on instances, networks, reservations, images, data and names."""

from datetime import timedelta

import pytest

from launcher.model.diagnosis import Outcome
from launcher.workflow.doctor.capacity import CAPACITY
from launcher.workflow.doctor.existing import ARTEFACTS
from tests.emulators.aws_account import Refused
from tests.unit.workflow.doctor.conftest import NOW, REGION, client
from tests.unit.workflow.doctor.reservations import BLOCK, HELD

EXAMINED = (*CAPACITY, *ARTEFACTS)

pytestmark = pytest.mark.server


def name_of(diagnosis, name):
    return [check for check in diagnosis.checks if check.name == name]


def test_type_not_offered_in_zone_fails_naming_zones(ready_account, examined, probe_plan):
    ready_account.canned["ec2.DescribeInstanceTypeOfferings"] = {
        "InstanceTypeOfferings": [
            {"InstanceType": "p5.48xlarge", "LocationType": "availability-zone-id", "Location": "use2-az3"}
        ]
    }
    (check,) = name_of(examined(probe_plan()), "type offered")
    assert (check.result, check.fix) == (Outcome.FAILED, "target.az_id: one of use2-az3")
    ready_account.canned["ec2.DescribeInstanceTypeOfferings"] = {"InstanceTypeOfferings": []}
    assert "does not offer this type" in name_of(examined(probe_plan()), "type offered")[0].got


def test_fitting_reservation_passes(ready_account, examined, probe_plan):
    ready_account.canned["ec2.DescribeCapacityReservations"] = {"CapacityReservations": [HELD]}
    (check,) = name_of(examined(probe_plan(BLOCK)), "reservation")
    assert check.result is Outcome.OK
    assert check.got.startswith("active, 2 of 2 x p5.48xlarge in use2-az1")


def test_future_capacity_block_gets_cost_until_start(ready_account, examined, probe_plan):
    later = {"State": "scheduled", "AvailableInstanceCount": 0, "StartDate": NOW + timedelta(days=2)}
    ready_account.canned["ec2.DescribeCapacityReservations"] = {"CapacityReservations": [{**HELD, **later}]}
    (check,) = name_of(examined(probe_plan(BLOCK)), "begin")
    assert check.result is Outcome.ADVICE
    assert "in 2.0 days: a cluster deployed now costs $6.00 a day until then, $12.00 in all" in check.got


@pytest.mark.parametrize(
    "changed,words",
    [
        ({"State": "expired"}, "it is expired"),
        ({"InstanceType": "p5e.48xlarge"}, "the plan asks for p5.48xlarge"),
        ({"AvailabilityZoneId": "use2-az2"}, "the plan is for use2-az1"),
        ({"TotalInstanceCount": 1}, "2 nodes requested, but it has 1"),
        ({"AvailableInstanceCount": 1}, "1 of its instances are free"),
        ({"EndDate": NOW}, "it is over"),
    ],
)
def test_unfit_reservation_fails_with_reason(ready_account, examined, probe_plan, changed, words):
    ready_account.canned["ec2.DescribeCapacityReservations"] = {"CapacityReservations": [{**HELD, **changed}]}
    (check,) = name_of(examined(probe_plan(BLOCK)), "reservation")
    assert check.result is Outcome.FAILED
    assert words in check.got


def test_missing_reservation_fails_with_aws_message(ready_account, examined, probe_plan):
    ready_account.canned["ec2.DescribeCapacityReservations"] = Refused(
        "InvalidCapacityReservationId.NotFound", "The capacity reservation does not exist"
    )
    (check,) = name_of(examined(probe_plan(BLOCK)), "reservation")
    assert check.result is Outcome.FAILED
    assert "no such reservation" in check.got


def test_missing_machine_image_fails_and_available_image_passes(ready_account, examined, probe_plan):
    text = BLOCK.replace("az_id: use2-az1", "az_id: use2-az1, ami: ami-0123456789abcdef0")
    ready_account.canned["ec2.DescribeCapacityReservations"] = {"CapacityReservations": [HELD]}
    ready_account.canned["ec2.DescribeImages"] = Refused("InvalidAMIID.NotFound", "The image id does not exist")
    (check,) = name_of(examined(probe_plan(text)), "machine image")
    assert (check.result, check.got) == (Outcome.FAILED, "no AMI that this account can read")
    ready_account.canned["ec2.DescribeImages"] = {
        "Images": [{"ImageId": "ami-0123456789abcdef0", "State": "available"}]
    }
    assert name_of(examined(probe_plan(text)), "machine image")[0].result is Outcome.OK


@pytest.mark.parametrize(
    "image,result",
    [
        ("123456789012.dkr.ecr.us-east-2.amazonaws.com/team/train:1", Outcome.FAILED),
        ("public.ecr.aws/team/train:1", Outcome.UNKNOWN),
    ],
)
def test_container_image_is_looked_up_only_in_ecr(examined, probe_plan, image, result):
    text = (
        "slipway: 1\nname: probe\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
        "target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: us-east-2}\n"
        f"purchase: {{option: spot}}\nrun: {{image: '{image}'}}\n"
    )
    assert name_of(examined(probe_plan(text)), "container image")[0].result is result


def test_data_check_reports_missing_bucket_objects_or_success(ready_account, examined, probe_plan):
    text = (
        "slipway: 1\nname: probe\n"
        "workload: {train: {model: llama-3.1-8b, tokens_b: 2.0, data: {uri: s3://corpus-of-team/a, gib: 1}}}\n"
        "target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 2, region: us-east-2}\n"
        "purchase: {option: spot}\n"
    )
    assert name_of(examined(probe_plan(text)), "data")[0].got == "no such bucket"
    s3 = client(ready_account, "s3")
    s3.create_bucket(Bucket="corpus-of-team", CreateBucketConfiguration={"LocationConstraint": REGION})
    assert name_of(examined(probe_plan(text)), "data")[0].got == "no objects there"
    s3.put_object(Bucket="corpus-of-team", Key="a/part-1", Body=b"x")
    assert name_of(examined(probe_plan(text)), "data")[0].result is Outcome.OK


def test_foreign_stack_with_planned_name_fails(ready_account, examined, probe_plan):
    stacks = client(ready_account, "cloudformation")
    body = '{"Resources": {"T": {"Type": "AWS::SNS::Topic"}}}'
    stacks.create_stack(StackName="slipway-probe-training", TemplateBody=body)
    results = {check.asked: check.result for check in name_of(examined(probe_plan()), "stack name")}
    assert results["stack slipway-probe-training is free or Slipway's"] is Outcome.FAILED
    assert results["stack slipway-probe-network is free or Slipway's"] is Outcome.OK
    stacks.delete_stack(StackName="slipway-probe-training")
    stacks.create_stack(
        StackName="slipway-probe-training", TemplateBody=body, Tags=[{"Key": "slipway:cluster", "Value": "probe"}]
    )
    assert {check.result for check in name_of(examined(probe_plan()), "stack name")} == {Outcome.OK}
