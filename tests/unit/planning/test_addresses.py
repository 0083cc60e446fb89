"""Addresses: how Slipway divides a VPC, and how many a cluster needs in either EFA layout."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.model.enums import EfaLayout, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.planning.addresses import address_findings, addresses, addresses_per_node, ranges
from launcher.planning.pin import pinned_plan
from launcher.targets.registry import target_of
from tests.plans import request_of


def plan_of(catalog, **extra):
    data = {
        "slipway": 1,
        "name": "many",
        "target": {"region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 4},
        "purchase": {"option": "on-demand"},
    }
    for key, value in extra.items():
        data[key] = {**data.get(key, {}), **value}
    return pinned_plan(request_of(data), catalog)


def take(plan, instances):
    return addresses(plan.request, plan.place, instances)


def address_findings_of(plan, instances):
    return address_findings(plan.request, plan.place, instances)


class TestRanges:
    @given(second=st.integers(0, 255), size=st.integers(16, 25))
    def test_subnets_lie_in_vpc_without_overlap(self, second, size):
        cut = ranges(f"10.{second}.0.0/{size}")
        assert cut.private.subnet_of(cut.vpc)
        assert cut.public.subnet_of(cut.vpc)
        assert not cut.private.overlaps(cut.public)
        assert cut.private.num_addresses == cut.vpc.num_addresses // 2

    @pytest.mark.parametrize(
        "cidr", ["10.0.0.1/16", "10.0.0.0/8", "10.0.0.0/26", "8.8.0.0/16", "10.0.0/16", "300.0.0.0/16"]
    )
    def test_invalid_cidr_refused(self, cidr):
        with pytest.raises(ImpossibleError) as refusal:
            ranges(cidr)
        assert [finding.path for finding in refusal.value.findings] == ["network.cidr"]


class TestCount:
    @pytest.mark.parametrize(
        "kind, name, least",
        [
            ("hyperpod-eks", "p5.48xlarge", 81),
            ("eks", "p5.48xlarge", 50),
            ("eks", "g6e.8xlarge", 15),
            ("hyperpod-slurm", "p5.48xlarge", 32),
            ("sagemaker-training", "g5.2xlarge", 2),
            ("sagemaker-training", "g5.48xlarge", 5),
            ("sagemaker-training", "p5.48xlarge", 32),
            ("ec2", "p5.48xlarge", 1),
        ],
    )
    def test_node_takes_addresses_that_guides_of_its_target_name(self, catalog, kind, name, least):
        facts, target = catalog.instance_types[name], target_of(TargetKind(kind))
        layout = target.efa_layout or EfaLayout.AUTO
        assert target.node_addresses(facts, addresses_per_node(facts, layout)) == least

    @pytest.mark.parametrize(
        "name, combined",
        [("p5.48xlarge", 32), ("p5en.48xlarge", 16), ("trn2.48xlarge", 16), ("trn1.32xlarge", 8), ("p4d.24xlarge", 4)],
    )
    def test_classic_efa_layout_takes_one_address_per_interface(self, catalog, name, combined):
        facts = catalog.instance_types[name]
        assert addresses_per_node(facts, EfaLayout.CLASSIC) == combined
        assert addresses_per_node(facts, EfaLayout.AUTO) == 1

    def test_every_subnet_consumer_counts_addresses(self, catalog):
        instances = catalog.instance_types
        assert take(plan_of(catalog), instances) == 4 + 1
        assert take(plan_of(catalog, target={"fallback_types": ["p4d.24xlarge"]}), instances) == 4 + 4 + 1
        assert take(plan_of(catalog, storage={"login_nodes": 2}), instances) == 4 + 1 + 2 + 8
        assert take(plan_of(catalog, storage={"lustre_gib": 4800}), instances) == 4 + 1 + 1 + 8


class TestFindings:
    def test_enough_addresses_give_no_finding(self, catalog):
        assert address_findings_of(plan_of(catalog), catalog.instance_types) == ()

    def test_too_few_addresses_refused(self, catalog):
        plan = plan_of(catalog, target={"nodes": 200}, network={"cidr": "10.0.0.0/24"})
        (finding,) = address_findings_of(plan, catalog.instance_types)
        assert (finding.level, finding.path) == ("error", "network.cidr")
        assert "has 123 addresses, the cluster takes 201 with 200 nodes" in finding.message

    def test_existing_network_addresses_are_not_checked(self, catalog):
        network = {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"], "cidr": "10.0.0.0/24"}
        assert (
            address_findings_of(plan_of(catalog, target={"nodes": 200}, network=network), catalog.instance_types) == ()
        )
