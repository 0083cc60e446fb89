"""The quote says what `network.nat: auto` took, and its total is no higher than with a way that the plan names."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.model.enums import NatMode
from launcher.planning.nat import AUTO_CODE, OWN_NAT_CODE, egress
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request
from tests.plans import EXAMPLES, request_of

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.fixture
def quote_plan(catalog):
    """The priced plan of a job on an on-demand g5.2xlarge."""

    def make(kind, hours=1.0, nodes=1, picked=None, image=None, **network):
        target = {"kind": kind, "region": "us-east-1", "instance_type": "g5.2xlarge", "nodes": nodes}
        data = {"slipway": 1, "name": "n", "workload": {"train": {"hours": hours}}, "target": target}
        run = {"command": ["python", "-c", "pass"]} | ({"image": image} if image else {})
        data |= {"purchase": {"option": "on-demand"}, "network": network, "run": run}
        return price_request(Path("plan.yaml"), request_of(data), catalog, NOW, PriceOptions(picked=picked))

    return make


@pytest.mark.parametrize("kind, hours, nodes", [("eks", 1.0, 1), ("eks", 60.0, 1), ("parallelcluster", 2.0, 12)])
def test_auto_total_is_the_lowest_of_all_egress_options(quote_plan, kind, hours, nodes):
    taken = quote_plan(kind, hours, nodes).quote(1)
    others = [quote_plan(kind, hours, nodes, nat=mode.value).quote(1) for mode in NatMode]
    allowed = [other for other in others if not any(found.code == "no-public-addresses" for found in other.findings)]
    assert taken.usd.mid == min(other.usd.mid for other in allowed)


def test_quote_names_chosen_egress_with_dollars_of_the_alternatives(quote_plan, catalog):
    quote = quote_plan("eks").quote(1)
    (found,) = [finding for finding in quote.findings if finding.code == AUTO_CODE]
    assert found.message == (
        "auto took NAT instance: $0.16 against $0.53 by NAT gateway; a second plan in us-east-1 pays $0.16 for its own "
        "(network: {name: team, nat: instance} in both shares one)"
    )
    assert quote.plan.request.network.nat is NatMode.INSTANCE
    assert egress(quote.plan.request, quote.plan.place, catalog.instance_types) == "NAT instance"
    network = {line.name for line in quote.components if line.group == "network"}
    assert "NAT instance m6i.large" in network
    assert not {"NAT gateway", "NAT data"} & network


def test_cheaper_egress_that_auto_rejects_shows_the_wait_of_its_nodes(catalog):
    # No price of a trn2 node-hour on demand is known in us-east-2: the wait has no dollars.
    plan = plan_file.load(EXAMPLES / "hyperpod-eks/trn2-training-plan.yaml")
    quote = price_request(Path("plan.yaml"), plan, catalog, NOW, PriceOptions()).quote(1)
    (found,) = [finding for finding in quote.findings if finding.code == AUTO_CODE]
    taken, cheaper = re.findall(r"\$(\d+\.\d\d)", found.message)[:2]
    assert float(cheaper) < float(taken)
    assert re.search(r"by NAT instance, through which nodes wait \d+ min longer", found.message)


@pytest.mark.parametrize("network", [{"nat": "gateway"}, {"name": "team", "az_ids": ["use1-az1", "use1-az2"]}])
def test_quote_of_a_decided_network_names_no_choice(quote_plan, network):
    quote = quote_plan("eks", **network).quote(1)
    assert not [finding for finding in quote.findings if finding.code == AUTO_CODE]


@pytest.mark.parametrize("kind, expected", [("eks", True), ("parallelcluster", False)])
def test_quote_names_the_price_of_a_second_nat_only_where_there_is_one(quote_plan, kind, expected):
    quote = quote_plan(kind).quote(1)
    assert any("pays $0.16 for its own" in finding.message for finding in quote.findings) is expected


def test_quote_of_a_named_gateway_and_of_a_shared_network_name_the_price_of_a_second_nat(quote_plan):
    (found,) = [
        finding for finding in quote_plan("eks", nat="gateway").quote(1).findings if finding.code == OWN_NAT_CODE
    ]
    own = "a second plan in us-east-1 pays $0.08 for its own"
    assert found.message == f"{own} (network: {{name: team}} in both shares one)"
    shared = quote_plan("eks", name="team", az_ids=["use1-az1", "use1-az2"]).quote(1)
    (found,) = [finding for finding in shared.findings if finding.code == OWN_NAT_CODE]
    new = "network team is counted as new: $0.08 less if another cluster uses it already"
    assert found.message == f"{new} (slipway launch FILE --dry-run reads the account)"


@pytest.mark.parametrize("nat", [None, NatMode.INSTANCE])
def test_plan_quoted_at_other_prices_keeps_its_egress(quote_plan, nat):
    priced = quote_plan("eks")
    place, context = priced.quote(1).plan.place, priced.context
    digest = context.base.at(place, nat).digest
    again = quote_plan("eks", picked=digest)
    (quote,) = (again.quote(rank) for rank in range(1, len(again.candidates) + 1) if again.digest(rank) == digest)
    lines = {line.name for line in quote.components}
    assert ("NAT data" in lines) == (nat is not NatMode.INSTANCE)


@pytest.mark.parametrize(
    "image, once",
    [
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/train:1", 10),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1", 20),
        ("docker.io/pytorch/pytorch:2.9", 20),
        (None, 20),
    ],
)
def test_image_in_ecr_of_the_region_passes_the_nat(quote_plan, image, once):
    """Its layers come from S3 through the network's gateway endpoint; another registry is on the internet."""
    quote = quote_plan("parallelcluster", nat="gateway", image=image).quote(1)
    (data,) = [line for line in quote.components if line.name == "NAT data"]
    (assumed,) = [a for a in quote.assumptions if a.name == "packages and images through the NAT gateway"]
    assert assumed.value == f"{once}"
    other = quote_plan("parallelcluster", nat="gateway").quote(1)
    (plain,) = [line for line in other.components if line.name == "NAT data"]
    assert plain.quantity - data.quantity == pytest.approx(quote.plan.place.nodes * (20 - once), abs=0.01)
