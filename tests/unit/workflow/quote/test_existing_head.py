"""An existing cluster keeps its way to the internet, even if `network.nat: auto` takes another for a new one."""

import json
from datetime import UTC, datetime

import boto3
import pytest
import yaml
from botocore.stub import Stubber

from launcher.aws.session import Session
from launcher.model.enums import NatMode
from launcher.planning.pin import pinned_plan
from launcher.workflow.quote.existing_head import existing_nat_mode
from launcher.workflow.quote.fresh import Kept, gated_quote
from launcher.workflow.quote.options import PriceOptions
from tests.plans import request_of

NOW = datetime(2026, 11, 20, tzinfo=UTC)
PLAN = {
    "slipway": 1,
    "name": "n",
    "workload": {"train": {"hours": 1}},
    "target": {"kind": "eks", "region": "us-east-1", "instance_type": "g5.2xlarge", "nodes": 1},
    "purchase": {"option": "on-demand"},
    "run": {"command": ["python", "-c", "pass"]},
}
STACK_ID = "arn:aws:cloudformation:us-east-1:123456789012:stack/slipway-n-network/0e5"
SUBNET = {"Type": "AWS::EC2::Subnet"}


@pytest.fixture
def nat_mode_of(catalog):
    """The way of an existing network with some resources; None: no such stack."""

    def make(resources=None, *, code=None, stack_name="slipway-n-network", **network):
        client = boto3.client(
            "cloudformation", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b"
        )
        plan = pinned_plan(request_of(PLAN | {"network": network}), catalog)
        stack = {"StackName": stack_name, "StackId": STACK_ID, "StackStatus": "CREATE_COMPLETE"}
        stack["CreationTime"] = NOW
        with Stubber(client) as stub:
            asked = {"StackName": stack_name}
            if code is not None:
                stub.add_client_error("describe_stacks", code, "Stack with id slipway-n-network does not exist")
            elif resources is not None:
                stub.add_response("describe_stacks", {"Stacks": [stack]}, asked)
                body = json.dumps({"Resources": {str(index): each for index, each in enumerate(resources)}})
                stub.add_response("get_template", {"TemplateBody": body}, {**asked, "TemplateStage": "Original"})
            nat_mode = existing_nat_mode(
                plan, Session(environment={}, region="us-east-1", clients={"cloudformation": client})
            )
            stub.assert_no_pending_responses()
        return nat_mode

    return make


@pytest.mark.parametrize(
    "resources, nat_mode",
    [
        ([SUBNET, {"Type": "AWS::EC2::NatGateway"}], NatMode.GATEWAY),
        ([SUBNET, {"Type": "AWS::EC2::Instance"}], NatMode.INSTANCE),
        ([SUBNET, {"Type": "AWS::EC2::InternetGateway"}], NatMode.NONE),
        ([SUBNET, {"Type": "AWS::EC2::VPCEndpoint"}], NatMode.NONE),
        ([], None),
    ],
)
def test_nat_mode_of_existing_network_is_read_from_its_template(nat_mode_of, resources, nat_mode):
    assert nat_mode_of(resources) is nat_mode


def test_nat_mode_of_a_shared_network_is_read_from_its_stack(nat_mode_of):
    resources = [SUBNET, {"Type": "AWS::EC2::Instance"}]
    nat_mode = nat_mode_of(resources, stack_name="slipway-team-shared-network", name="team", az_ids=["use1-az1"])
    assert nat_mode is NatMode.INSTANCE


@pytest.mark.parametrize("code", ["ValidationError", "AccessDenied"])
def test_missing_or_unreadable_stack_has_no_nat_mode(nat_mode_of, code):
    assert nat_mode_of(code=code) is None


@pytest.mark.parametrize(
    "network",
    [
        {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"]},
    ],
)
def test_named_network_needs_no_request(nat_mode_of, network):
    assert nat_mode_of(**network) is None


@pytest.fixture
def quote_plan(tmp_path):
    def make(kept, **parts):
        path, said = tmp_path / "plan.yaml", []
        path.write_text(yaml.safe_dump(PLAN | parts))
        picked = gated_quote(path, NOW, PriceOptions(), selection=None, notify=said.append, deployed=lambda _plan: kept)
        return picked.quoted.plan.request.network.nat, said

    return make


def test_new_cluster_gets_the_cheapest_nat_mode(quote_plan):
    assert quote_plan(Kept()) == (NatMode.INSTANCE, [])
    assert quote_plan(Kept(nat=NatMode.INSTANCE)) == (NatMode.INSTANCE, [])


def test_existing_cluster_keeps_its_nat_gateway(quote_plan):
    nat, said = quote_plan(Kept(nat=NatMode.GATEWAY))
    assert nat is NatMode.GATEWAY
    assert said == ["cluster n keeps network.nat: gateway; a new cluster would get: instance"]


def test_second_plan_of_a_shared_network_takes_its_nat(quote_plan):
    shared = {"name": "team", "az_ids": ["use1-az1", "use1-az2"]}
    nat, said = quote_plan(Kept(nat=NatMode.INSTANCE), network=shared)
    assert nat is NatMode.INSTANCE
    assert said == ["network team keeps network.nat: instance; a new network would get: gateway"]
    assert quote_plan(Kept(nat=NatMode.INSTANCE), network={**shared, "nat": "instance"}) == (NatMode.INSTANCE, [])
    nat, said = quote_plan(Kept(nat=NatMode.INSTANCE), network={**shared, "nat": "gateway"})
    assert nat is NatMode.GATEWAY
    changes = "from network.nat: instance to gateway, for each of its clusters"
    assert said == [f"warning: this changes the shared network team {changes}"]


def test_nat_mode_in_the_plan_overrides_the_existing_network(quote_plan):
    assert quote_plan(Kept(nat=NatMode.INSTANCE), network={"nat": "gateway"}) == (NatMode.GATEWAY, [])


def test_public_addresses_are_not_kept_where_they_cannot_be(quote_plan):
    assert quote_plan(Kept(nat=NatMode.NONE)) == (NatMode.INSTANCE, [])
