"""Facts of an existing network, read from EC2; botocore checks requests and answers."""

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.catalog.load import load
from launcher.model.errors import AwsError, ImpossibleError
from launcher.planning.networks import network_findings
from launcher.planning.pin import pinned_plan
from launcher.workflow.quote.existing_network import describe_network
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request
from tests.plans import NOW, request_of

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
    request = describe_network(request_of(PLAN), session(stubbed_ec2))
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
        describe_network(request_of(PLAN), session(stubbed_ec2))
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
        describe_network(request_of(plan), session(stubbed_ec2))
    (finding,) = caught.value.findings
    assert (finding.path, finding.code) == ("network.security_group_ids", "group-outside-vpc")
    assert "sg-0fedcba9876543210 belongs to vpc-0fedcba9876543210" in finding.message


def test_missing_subnet_is_named(stubbed_ec2):
    stubbed_ec2.add_client_error(
        "describe_subnets", "InvalidSubnetID.NotFound", f"The subnet ID '{SUBNET}' does not exist"
    )
    with pytest.raises(AwsError, match="InvalidSubnetID"):
        describe_network(request_of(PLAN), session(stubbed_ec2))


def test_new_network_needs_no_request(stubbed_ec2):
    request = request_of({**PLAN, "network": {"cidr": "10.1.0.0/16"}})
    assert describe_network(request, session(stubbed_ec2)) is request


class TestShared:
    """A network that clusters share by its name: its NAT is paid for once."""

    EXPORT = "slipway-team-shared-network:VpcId"

    @pytest.fixture
    def described_with(self):
        """The request after the account said who imports the network's VPC; None: there is no such network."""
        client = boto3.client(
            "cloudformation", region_name="us-east-2", aws_access_key_id="a", aws_secret_access_key="b"
        )

        def describe(users):
            request = request_of(PLAN | {"network": {"name": "team"}})
            exports = [] if users is None else [{"Name": self.EXPORT, "ExportingStackId": "arn:aws:stack/x"}]
            with Stubber(client) as stub:
                stub.add_response("list_exports", {"Exports": exports})
                if users is not None:
                    stub.add_response("list_imports", {"Imports": users}, {"ExportName": self.EXPORT})
                made = describe_network(
                    request, Session(environment={}, region="us-east-2", clients={"cloudformation": client})
                )
                stub.assert_no_pending_responses()
            return made

        return describe

    @pytest.mark.parametrize(
        "users, shared_by",
        [
            (None, ()),
            ([], ()),
            (["slipway-n-training"], ()),
            (
                ["slipway-n-training", "slipway-b-training", "slipway-a-training"],
                ("slipway-a-training", "slipway-b-training"),
            ),
        ],
    )
    def test_other_clusters_of_the_network_are_its_users(self, described_with, users, shared_by):
        assert described_with(users).network.shared_by == shared_by

    def test_users_are_not_in_the_digest(self, described_with):
        catalog = load()
        alone, shared = (pinned_plan(described_with(users), catalog) for users in (None, ["slipway-a-training"]))
        assert alone.digest == shared.digest

    def test_second_job_pays_for_its_data_and_not_for_a_second_nat(self, described_with, tmp_path):
        def lines(users):
            request, catalog = described_with(users), load()
            return {
                line.name: line
                for line in price_request(tmp_path, request, catalog, NOW, PriceOptions()).quote(1).components
            }

        first, second = lines(None), lines(["slipway-a-training"])
        gone = {"NAT gateway", "public IPv4 address of the NAT"}
        assert set(first) - set(second) == gone
        assert second["NAT data"].usd == first["NAT data"].usd > 0

    def test_network_without_zones_has_those_of_its_region_whatever_the_type(self):
        catalog = load()
        zones = {
            pinned_plan(
                request_of({**PLAN, "target": {**PLAN["target"], "instance_type": name}, "network": {"name": "team"}}),
                catalog,
            ).request.network.az_ids
            for name in ("p5.48xlarge", "trn2.48xlarge", "g6e.2xlarge")
        }
        assert zones == {("use2-az1", "use2-az2", "use2-az3")}
