"""Why a cluster cannot use a network: each finding has the expected value, the actual value and the fix."""

import pytest

from launcher.model.errors import ImpossibleError
from launcher.planning.networks import layout_findings, network_findings, subnet_id
from launcher.planning.pin import pinned_plan
from tests.plans import request_of

SUBNET = "subnet-0a1b2c3d4e5f60718"
OTHER = "subnet-0fedcba9876543210"


@pytest.fixture(scope="module")
def findings_of(catalog):
    """The findings of a plan for two p5 nodes in us-east-2 with a network."""

    def make(network, **target):
        target = {"region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2, **target}
        data = {"slipway": 1, "name": "n", "target": target, "purchase": {"option": "on-demand"}, "network": network}
        plan = pinned_plan(request_of(data), catalog)
        return network_findings(plan.request, plan.place, catalog)

    return make


def existing(**facts):
    """An existing network with one subnet, as the launcher describes it."""
    whole = {"id": SUBNET, "az_id": "use2-az1", "free_addresses": 4091, "public_addresses": False, **facts}
    return {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": [SUBNET], "subnets": [whole]}


class TestExisting:
    def test_suitable_private_subnet_accepted(self, findings_of):
        assert findings_of(existing()) == ()

    @pytest.mark.parametrize(
        "facts, target, code, message",
        [
            (
                {"az_id": "use1-az4"},
                {},
                "subnet-outside-region",
                "lies in use1-az4 (us-east-1), the plan is for us-east-2",
            ),
            ({}, {"az_id": "use2-az2"}, "subnet-outside-zone", "lies in use2-az1, the plan is in use2-az2"),
            ({"public_addresses": True}, {}, "public-subnet", "public addresses, which AWS refuses"),
            ({"free_addresses": 2}, {}, "too-few-addresses", "has 2 addresses, the cluster takes 3 with 2 nodes"),
        ],
    )
    def test_unsuitable_subnet_refused_with_fix(self, findings_of, facts, target, code, message):
        (finding,) = findings_of(existing(**facts), **target)
        assert (finding.code, finding.path) == (code, "network.subnet_ids")
        assert message in finding.message
        assert finding.hint

    def test_subnet_in_zone_without_type_warns_with_offering_zones(self, findings_of):
        (finding,) = findings_of(existing(), instance_type="trn1.32xlarge")
        assert (finding.code, finding.path) == ("zone-not-offered", "network.subnet_ids")
        assert finding.message.endswith("the catalog knows trn1.32xlarge in use2-az3, not in use2-az1")
        assert "name a subnet in use2-az3" in finding.hint

    @pytest.mark.parametrize("name, several", [("p5.48xlarge", True), ("g6.4xlarge", False), ("g5.xlarge", False)])
    def test_public_subnet_reason_names_several_cards_only_for_such_types(self, findings_of, name, several):
        (finding,) = findings_of(existing(public_addresses=True), instance_type=name)
        assert finding.code == "public-subnet"
        assert ("several network cards" in finding.message) is several

    @pytest.mark.parametrize(
        "target, more, refused",
        [
            ({"kind": "ec2", "instance_type": "g6.4xlarge", "nodes": 1}, {}, False),
            ({"kind": "ec2", "instance_type": "p5.48xlarge", "nodes": 1}, {}, False),
            ({"kind": "ec2", "instance_type": "p5.48xlarge", "nodes": 2}, {}, True),
            ({"kind": "ec2", "instance_type": "g6.4xlarge", "nodes": 1}, {"private": True}, True),
            ({"kind": "parallelcluster", "instance_type": "g6.4xlarge", "nodes": 1}, {}, True),
        ],
    )
    def test_public_subnet_accepted_for_plain_instances_with_one_interface(self, findings_of, target, more, refused):
        codes = [finding.code for finding in findings_of(existing(public_addresses=True) | more, **target)]
        assert codes == (["public-subnet"] if refused else [])

    def test_subnet_without_known_facts_accepted(self, findings_of):
        assert findings_of({"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": [SUBNET]}) == ()

    def test_subnet_in_planned_zone_is_chosen(self, catalog):
        facts = [
            {"id": name, "az_id": zone, "free_addresses": 9}
            for name, zone in ((OTHER, "use2-az1"), (SUBNET, "use2-az2"))
        ]
        network = {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": [OTHER, SUBNET], "subnets": facts}
        target = {"region": "us-east-2", "az_id": "use2-az2", "instance_type": "p5.48xlarge", "nodes": 2}
        data = {"slipway": 1, "name": "n", "target": target, "purchase": {"option": "spot"}, "network": network}
        assert subnet_id(pinned_plan(request_of(data), catalog)) == SUBNET

    @pytest.mark.parametrize("key, value", [("name", "team"), ("az_ids", ["use2-az1"]), ("endpoints", ["ssm"])])
    def test_creation_keys_in_existing_network_refused(self, findings_of, key, value):
        (finding,) = findings_of({**existing(), key: value})
        assert (finding.code, finding.path) == ("network-exists", f"network.{key}")


class TestShared:
    @pytest.mark.parametrize(
        "network, target, code",
        [
            ({"az_ids": ["use2-az1"]}, {}, "zones-without-name"),
            ({"name": "team", "az_ids": ["use2-az1", "use2-az1"]}, {}, "zone-twice"),
            ({"name": "team", "az_ids": ["use2-az1", "use1-az4"]}, {}, "zone-outside-region"),
            ({"name": "team", "az_ids": ["use2-az1"]}, {"az_id": "use2-az2"}, "zone-outside-network"),
        ],
    )
    def test_conflicting_shared_network_keys_refused(self, findings_of, network, target, code):
        (finding,) = findings_of(network, **target)
        assert finding.code == code
        assert finding.path.startswith(("network.", "target."))

    def test_open_region_needs_named_zones(self):
        (finding,) = layout_findings(request_of({"slipway": 1, "name": "n", "network": {"name": "team"}}).network)
        assert (finding.code, finding.path) == ("zones-missing", "network.az_ids")

    def test_valid_shared_network_accepted(self, findings_of):
        assert findings_of({"name": "team", "az_ids": ["use2-az1", "use2-az3"]}) == ()

    def test_shared_network_zone_with_too_few_addresses_refused(self, findings_of):
        (finding,) = findings_of({"name": "team", "az_ids": ["use2-az1"], "cidr": "10.0.0.0/20"}, nodes=300)
        assert "the private subnet 10.0.8.0/24 has 251 addresses, the cluster takes 301" in finding.message

    @pytest.mark.parametrize("network", [{"cidr": "10.0.0.0/22"}, {"az_ids": ["use2-az9"]}])
    def test_impossible_shared_network_ranges_refused(self, findings_of, network):
        with pytest.raises(ImpossibleError):
            findings_of({"name": "team", "az_ids": ["use2-az1"], **network})


def test_subnet_facts_do_not_change_digest(catalog):
    def digest(free):
        data = {
            "slipway": 1,
            "name": "n",
            "target": {"region": "us-east-2", "instance_type": "p5.48xlarge"},
            "purchase": {"option": "spot"},
            "network": existing(free_addresses=free),
        }
        return pinned_plan(request_of(data), catalog).digest

    assert digest(100) == digest(200)
