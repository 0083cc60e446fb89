"""The way of a new network's nodes to the internet: where public addresses replace the NAT gateway."""

import pytest

from launcher.model.enums import NatMode
from launcher.planning.nat import MOST_PUBLIC_NODES, nat_mode
from launcher.planning.networks import network_findings
from launcher.planning.pin import pinned_plan
from tests.plans import request_of


@pytest.fixture(scope="module")
def plan_of(catalog):
    """The plan of a g5.2xlarge in us-east-1 with other keys of the target, the network and the storage."""

    def make(network=None, storage=None, **target):
        target = {"kind": "parallelcluster", "region": "us-east-1", "instance_type": "g5.2xlarge", "nodes": 1, **target}
        data = {"slipway": 1, "name": "n", "target": target, "purchase": {"option": "on-demand"}}
        return pinned_plan(request_of(data | {"network": network or {}, "storage": storage or {}}), catalog)

    return make


def mode(plan, catalog):
    return nat_mode(plan.request, plan.place, catalog.instance_types)


class TestAuto:
    @pytest.mark.parametrize("kind", ["parallelcluster", "pcs"])
    def test_single_card_nodes_get_public_addresses(self, plan_of, catalog, kind):
        storage = {"lustre_gib": 1200} if kind == "pcs" else {}
        assert mode(plan_of(kind=kind, storage=storage), catalog) is NatMode.NONE

    @pytest.mark.parametrize(
        "target",
        [
            {"instance_type": "p5.48xlarge", "region": "us-east-2"},
            {"instance_type": "trn1.32xlarge"},
            {"fallback_types": ["p4d.24xlarge"]},
            {"kind": "eks"},
            {"kind": "hyperpod-slurm"},
            {"nodes": MOST_PUBLIC_NODES + 1},
        ],
    )
    def test_several_cards_other_targets_or_many_nodes_keep_nat_gateway(self, plan_of, catalog, target):
        assert mode(plan_of(**target), catalog) is NatMode.GATEWAY

    def test_login_nodes_keep_nat_gateway(self, plan_of, catalog):
        assert mode(plan_of(storage={"login_nodes": 1}), catalog) is NatMode.GATEWAY

    def test_shared_network_keeps_nat_gateway(self, plan_of, catalog):
        shared = {"name": "team", "az_ids": ["use1-az1", "use1-az2", "use1-az4", "use1-az5", "use1-az6"]}
        assert mode(plan_of(shared), catalog) is NatMode.GATEWAY

    @pytest.mark.parametrize(
        "network, target",
        [({"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"]}, {}), ({}, {"cluster": "c"})],
    )
    def test_existing_network_or_cluster_has_no_nat_mode(self, plan_of, catalog, network, target):
        assert mode(plan_of(network, **target), catalog) is None

    def test_training_jobs_have_no_nat_mode(self, plan_of, catalog):
        data = {"slipway": 1, "name": "n", "workload": {"train": {"hours": 1}}, "purchase": {"option": "on-demand"}}
        target = {"kind": "sagemaker-training", "region": "us-east-1", "instance_type": "g5.2xlarge", "nodes": 1}
        assert mode(pinned_plan(request_of(data | {"target": target}), catalog), catalog) is None


class TestChosen:
    def test_planned_nat_gateway_is_created(self, plan_of, catalog):
        assert mode(plan_of({"nat": "gateway"}), catalog) is NatMode.GATEWAY

    def test_planned_public_addresses_accepted_for_many_nodes(self, plan_of, catalog):
        plan = plan_of({"nat": "none"}, nodes=MOST_PUBLIC_NODES + 1)
        assert mode(plan, catalog) is NatMode.NONE
        assert network_findings(plan.request, plan.place, catalog) == ()

    @pytest.mark.parametrize(
        "network, target, reason",
        [
            ({}, {"instance_type": "p4d.24xlarge"}, "several network cards, got p4d.24xlarge"),
            ({}, {"fallback_types": ["trn1.32xlarge"]}, "several network cards, got trn1.32xlarge"),
            ({}, {"kind": "eks"}, "only nodes of parallelcluster or pcs"),
        ],
    )
    def test_impossible_public_addresses_refused_with_reason(self, plan_of, catalog, network, target, reason):
        plan = plan_of({"nat": "none"} | network, **target)
        (finding,) = network_findings(plan.request, plan.place, catalog)
        assert (finding.code, finding.path, finding.hint) == ("no-public-addresses", "network.nat", "set it to auto")
        assert reason in finding.message

    def test_nat_choice_in_existing_network_refused(self, plan_of, catalog):
        existing = {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"], "nat": "none"}
        plan = plan_of(existing)
        (finding,) = network_findings(plan.request, plan.place, catalog)
        assert (finding.code, finding.path) == ("network-exists", "network.nat")
