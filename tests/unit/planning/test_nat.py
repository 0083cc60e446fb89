"""The way of a new network's nodes to the internet: where public addresses replace the NAT gateway."""

import pytest

from launcher.model.enums import Egress
from launcher.planning.nat import MOST_PUBLIC_NODES, egress, egress_remarks, interface_endpoints
from launcher.planning.networks import network_findings
from launcher.planning.pin import pinned_plan
from launcher.targets.registry import target_of
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
    return egress(plan.request, plan.place, catalog.instance_types)


class TestAuto:
    @pytest.mark.parametrize("kind", ["parallelcluster", "pcs"])
    def test_single_card_nodes_get_public_addresses(self, plan_of, catalog, kind):
        storage = {"lustre_gib": 1200} if kind == "pcs" else {}
        assert mode(plan_of(kind=kind, storage=storage), catalog) is Egress.PUBLIC_ADDRESSES

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
        assert mode(plan_of(**target), catalog) is Egress.NAT_GATEWAY

    def test_login_nodes_keep_nat_gateway(self, plan_of, catalog):
        assert mode(plan_of(storage={"login_nodes": 1}), catalog) is Egress.NAT_GATEWAY

    def test_shared_network_keeps_nat_gateway(self, plan_of, catalog):
        shared = {"name": "team", "az_ids": ["use1-az1", "use1-az2", "use1-az4", "use1-az5", "use1-az6"]}
        assert mode(plan_of(shared), catalog) is Egress.NAT_GATEWAY

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
        assert mode(plan_of({"nat": "gateway"}), catalog) is Egress.NAT_GATEWAY

    def test_planned_public_addresses_accepted_for_many_nodes(self, plan_of, catalog):
        plan = plan_of({"nat": "none"}, nodes=MOST_PUBLIC_NODES + 1)
        assert mode(plan, catalog) is Egress.PUBLIC_ADDRESSES
        assert network_findings(plan.request, plan.place, catalog) == ()

    @pytest.mark.parametrize(
        "network, target, reason",
        [
            ({}, {"instance_type": "p4d.24xlarge"}, "several network cards, got p4d.24xlarge"),
            ({}, {"fallback_types": ["trn1.32xlarge"]}, "several network cards, got trn1.32xlarge"),
            ({}, {"kind": "eks"}, "only nodes of parallelcluster or pcs"),
            ({"private": True}, {"kind": "pcs"}, "network.private keeps nodes without public addresses"),
        ],
    )
    def test_impossible_public_addresses_refused_with_reason(self, plan_of, catalog, network, target, reason):
        plan = plan_of({"nat": "none"} | network, **target)
        (finding,) = network_findings(plan.request, plan.place, catalog)
        assert (finding.code, finding.path, finding.hint) == ("no-public-addresses", "network.nat", "set it to auto")
        assert reason in finding.message

    @pytest.mark.parametrize(
        "target", [{}, {"kind": "eks"}, {"kind": "ec2"}, {"instance_type": "p5.48xlarge", "region": "us-east-2"}]
    )
    def test_planned_nat_instance_accepted_on_every_target(self, plan_of, catalog, target):
        plan = plan_of({"nat": "instance"}, **target)
        assert mode(plan, catalog) is Egress.NAT_INSTANCE
        assert network_findings(plan.request, plan.place, catalog) == ()

    def test_private_nodes_with_auto_keep_nat_gateway(self, plan_of, catalog):
        assert mode(plan_of({"private": True}, kind="ec2"), catalog) is Egress.NAT_GATEWAY

    def test_nat_choice_in_existing_network_refused(self, plan_of, catalog):
        existing = {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"], "nat": "none"}
        plan = plan_of(existing)
        (finding,) = network_findings(plan.request, plan.place, catalog)
        assert (finding.code, finding.path) == ("network-exists", "network.nat")


class TestEndpoints:
    """Plain instances without a way to the internet: private subnets with the endpoints that they need."""

    BASE = ("autoscaling", "ec2", "logs", "ssm", "ssmmessages")
    OWN = "123456789012.dkr.ecr.us-east-1.amazonaws.com/team:1"

    @pytest.fixture
    def closed_plan(self, catalog):
        def make(network=None, run=None, **target):
            target = {"kind": "ec2", "region": "us-east-1", "instance_type": "g5.2xlarge", "nodes": 1, **target}
            data = {"slipway": 1, "name": "n", "workload": {"train": {"hours": 2}}, "target": target}
            data |= {"purchase": {"option": "on-demand"}, "run": {"command": ["true"], **(run or {})}}
            return pinned_plan(request_of(data | {"network": {"nat": "none", **(network or {})}}), catalog)

        return make

    @pytest.mark.parametrize(
        "network, target",
        [({"private": True}, {}), ({}, {"instance_type": "p5.48xlarge", "region": "us-east-2", "nodes": 2})],
    )
    def test_private_nodes_and_several_cards_get_endpoints(self, closed_plan, catalog, network, target):
        plan = closed_plan(network, **target)
        assert mode(plan, catalog) is Egress.ENDPOINTS
        assert interface_endpoints(plan.request, target_of(plan.place.target), Egress.ENDPOINTS) == self.BASE
        assert network_findings(plan.request, plan.place, catalog) == ()
        (finding,) = egress_remarks(plan.request, plan.place, catalog.instance_types)
        assert (finding.code, finding.level) == ("no-internet", "warning")

    def test_one_card_without_private_keeps_public_addresses(self, closed_plan, catalog):
        assert mode(closed_plan(), catalog) is Egress.PUBLIC_ADDRESSES

    def test_images_and_secrets_add_their_services_once(self, closed_plan):
        secret = "arn:aws:secretsmanager:us-east-1:123456789012:secret:"
        run = {"image": self.OWN, "secrets": {"A": f"{secret}a", "B": f"{secret}b"}}
        plan = closed_plan({"private": True, "endpoints": ["logs"]}, run)
        services = interface_endpoints(plan.request, target_of(plan.place.target), Egress.ENDPOINTS)
        assert sorted(services) == sorted({*self.BASE, "ecr.api", "ecr.dkr", "secretsmanager"})
        assert services[0] == "logs"

    @pytest.mark.parametrize(
        "run, path",
        [
            ({"image": "nvcr.io/nvidia/pytorch:25.01-py3"}, "run.image"),
            ({"image": "public.ecr.aws/docker/library/python:3.12"}, "run.image"),
            ({"image": OWN.replace("us-east-1", "eu-west-1")}, "run.image"),
            ({"setup": ["export A=1", "pip install -r requirements.txt"]}, "run.setup[1]"),
            ({"setup": ["uv sync"]}, "run.setup[0]"),
            ({"setup": ["curl -LO https://example.com/x"]}, "run.setup[0]"),
        ],
    )
    def test_needed_internet_refused_with_path(self, closed_plan, catalog, run, path):
        plan = closed_plan({"private": True}, run)
        (finding,) = network_findings(plan.request, plan.place, catalog)
        assert (finding.level, finding.path) == ("error", path)
        assert "gateway or instance" in finding.hint

    @pytest.mark.parametrize("line", ["source venv/bin/activate", "export PIP_NO_INDEX=1", "ls /scratch/uv"])
    def test_setup_without_downloads_is_allowed(self, closed_plan, catalog, line):
        plan = closed_plan({"private": True}, {"setup": [line], "image": self.OWN})
        assert network_findings(plan.request, plan.place, catalog) == ()
