"""Facts of an existing network, read from EC2; botocore checks requests and answers."""

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import AwsError, ImpossibleError
from launcher.planning.networks import network_findings
from launcher.planning.pin import pinned_plan
from launcher.workflow.quote.existing_network import described
from tests.plans import request_of

VPC, SUBNET = "vpc-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60718"
PLAN = {
    "slipway": 1,
    "name": "n",
    "target": {"region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
    "network": {"vpc_id": VPC, "subnet_ids": [SUBNET]},
}


@pytest.fixture
def stubbed_ec2():
    client = boto3.client("ec2", region_name="us-east-2", aws_access_key_id="a", aws_secret_access_key="b")
    with Stubber(client) as stub:
        yield stub
        stub.assert_no_pending_responses()


def session(stub):
    return Session(environment={}, region="us-east-2", clients={"ec2": stub.client})


def answer(**fields):
    return {
        "Subnets": [
            {
                "SubnetId": SUBNET,
                "VpcId": VPC,
                "AvailabilityZoneId": "use2-az1",
                "AvailabilityZone": "us-east-2a",
                "CidrBlock": "10.0.0.0/24",
                "AvailableIpAddressCount": 2,
                "MapPublicIpOnLaunch": True,
                "State": "available",
                **fields,
            }
        ]
    }


def test_subnet_facts_from_ec2_are_checked_without_digest_change(stubbed_ec2):
    stubbed_ec2.add_response("describe_subnets", answer(), {"SubnetIds": [SUBNET]})
    request = described(request_of(PLAN), session(stubbed_ec2))
    (facts,) = request.network.subnets
    assert (facts.id, facts.az_id, facts.free_addresses, facts.public_addresses) == (SUBNET, "use2-az1", 2, True)
    catalog = load()
    before = pinned_plan(request_of(PLAN), catalog)
    plan = pinned_plan(request, catalog)
    assert plan.digest == before.digest
    codes = {finding.code for finding in network_findings(plan.request, plan.place, catalog)}
    assert codes == {"public-subnet", "too-few-addresses"}


def test_subnet_of_other_vpc_refused(stubbed_ec2):
    stubbed_ec2.add_response("describe_subnets", answer(VpcId="vpc-0fedcba9876543210"), {"SubnetIds": [SUBNET]})
    with pytest.raises(ImpossibleError) as caught:
        described(request_of(PLAN), session(stubbed_ec2))
    (finding,) = caught.value.findings
    assert finding.path == "network.subnet_ids"
    assert "vpc-0fedcba9876543210" in finding.message


def test_security_group_of_other_vpc_refused(stubbed_ec2):
    groups = ["sg-0a1b2c3d4e5f60718", "sg-0fedcba9876543210"]
    plan = {**PLAN, "network": {**PLAN["network"], "security_group_ids": groups}}
    security_groups = [
        {"GroupId": name, "VpcId": vpc} for name, vpc in zip(groups, (VPC, "vpc-0fedcba9876543210"), strict=True)
    ]
    stubbed_ec2.add_response("describe_subnets", answer(), {"SubnetIds": [SUBNET]})
    stubbed_ec2.add_response("describe_security_groups", {"SecurityGroups": security_groups}, {"GroupIds": groups})
    with pytest.raises(ImpossibleError) as caught:
        described(request_of(plan), session(stubbed_ec2))
    (finding,) = caught.value.findings
    assert (finding.path, finding.code) == ("network.security_group_ids", "group-outside-vpc")
    assert "sg-0fedcba9876543210 belongs to vpc-0fedcba9876543210" in finding.message


def test_missing_subnet_is_named(stubbed_ec2):
    stubbed_ec2.add_client_error(
        "describe_subnets", "InvalidSubnetID.NotFound", f"The subnet ID '{SUBNET}' does not exist"
    )
    with pytest.raises(AwsError, match="InvalidSubnetID"):
        described(request_of(PLAN), session(stubbed_ec2))


def test_new_network_needs_no_request(stubbed_ec2):
    request = request_of({**PLAN, "network": {"cidr": "10.1.0.0/16"}})
    assert described(request, session(stubbed_ec2)) is request
