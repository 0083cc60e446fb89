"""Plans for EKS: purchase options, and keys that do not apply."""

import pytest

from launcher.catalog.training import load_training
from launcher.model import eks
from launcher.model.enums import EfaLayout
from launcher.planning.pin import pinned_plan
from launcher.planning.resolve import resolve_training
from launcher.planning.targets import place_findings
from tests.checks import some
from tests.plans import laid_over, request_of

BASE = {
    "slipway": 1,
    "name": "small",
    "workload": {"train": {"hours": 1}},
    "target": {"kind": "eks", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
}


def codes(catalog, **sections):
    plan = pinned_plan(request_of(laid_over(BASE, sections)), catalog)
    return [finding.code for finding in place_findings(plan.request, plan.place, catalog)]


@pytest.mark.parametrize(
    "sections,expected",
    [
        ({}, []),
        ({"purchase": {"option": "spot"}}, []),
        ({"target": {"queue": "gpus"}}, ["queue-without-cluster"]),
        ({"target": {"queue": "gpus", "cluster": "shared"}}, []),
        ({"run": {"operator": "pytorchjob"}}, ["operator-without-cluster"]),
        ({"run": {"operator": "job"}}, []),
        ({"storage": {"login_nodes": 1}}, ["eks-unused"]),
        ({"target": {"ami": "ami-0123456789"}}, ["eks-unused"]),
        ({"target": {"nodes": 451}}, ["too-many-nodes"]),
    ],
)
def test_unsupported_eks_options_refused(catalog, sections, expected):
    assert codes(catalog, **sections) == expected


class TestInterfaces:
    @pytest.mark.parametrize("layout", EfaLayout)
    def test_efa_interface_count_equals_catalog(self, catalog, layout):
        for facts in some(catalog.instance_types.values()):
            if "efa_interfaces" in facts.unknown:
                continue
            interfaces = eks.interfaces(facts, layout)
            assert sum("efa" in interface.kind for interface in interfaces) == facts.efa_interfaces, facts.name
            assert len({(interface.card, interface.device) for interface in interfaces}) == len(interfaces)
            assert not interfaces or (interfaces[0].card, interfaces[0].device) == (0, 0)

    def test_first_interface_is_never_efa_only(self, catalog):
        for facts in some(catalog.instance_types.values()):
            first = next(iter(eks.interfaces(facts, EfaLayout.AUTO)), None)
            assert first is None or first.kind == "interface"


def test_open_target_is_compared_on_every_kind(catalog):
    request = request_of(laid_over(BASE, {"target": {"kind": "any"}}))
    groups = resolve_training(request, catalog, load_training()).groups
    assert {group.target.value for group in groups} == {
        "ec2",
        "eks",
        "hyperpod-eks",
        "hyperpod-slurm",
        "parallelcluster",
        "sagemaker-training",
    }
