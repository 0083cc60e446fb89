"""Plans for AWS PCS: each refusal has its path, and remarks."""

from dataclasses import replace

import pytest

from launcher.catalog.training import load_training
from launcher.model import pcs
from launcher.model.enums import Level, TargetKind
from launcher.planning.addresses import addresses
from launcher.planning.pin import pinned_plan
from launcher.planning.resolve import resolve_training
from launcher.planning.targets import place_findings
from launcher.rendering.cluster import queue_name
from tests import plans

PCS = TargetKind.PCS


def request_of(**changes):
    base = {
        "slipway": 1,
        "name": "small",
        "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
        "target": {"kind": "pcs", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
        "purchase": {"option": "on-demand"},
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) else value
    return plans.request_of(base)


def refusal(catalog, **changes):
    """Codes and paths of what planning has against a plan's place."""
    request = request_of(**changes)
    place = pinned_plan(request_of(), catalog).place
    target = request.target
    place_changes = {
        "instance_type": target.instance_type[0],
        "nodes": target.nodes.minimum,
        "region": target.region[0],
    }
    findings = place_findings(request, replace(place, **place_changes), catalog)
    assert all(finding.level is Level.ERROR and finding.hint for finding in findings)
    return [(finding.code, finding.path) for finding in findings]


@pytest.mark.parametrize(
    "changes, code, path",
    [
        ({"target": {"instance_type": "trn1.32xlarge"}}, "pcs-trainium", "target.instance_type"),
        ({"target": {"fallback_types": ["trn1.32xlarge"]}}, "pcs-trainium", "target.instance_type"),
        ({"target": {"os": "alinux2023"}}, "pcs-os", "target.os"),
        ({"run": {"command": ["x"], "image": "repo/image:1"}}, "pcs-container", "run.image"),
        ({"target": {"region": "us-west-1"}}, "type-not-in-region", "target.region"),
        ({"name": "a" * 33}, "pcs-name", "name"),
        ({"target": {"nodes": 2_048}}, "pcs-size", "target.nodes"),
        (
            {"workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0, "runs": 16_385}}},
            "pcs-size",
            "target.nodes",
        ),
        ({"storage": {"login_nodes": 1}}, "pcs-unused", "storage.login_nodes"),
        (
            {"security": {"roles": {"nodes": "arn:aws:iam::123456789012:role/nodes"}}},
            "pcs-role",
            "security.roles.nodes",
        ),
        (
            {
                "target": {
                    "fallback_types": [f"g5.{size}xlarge" for size in ("", 2, 4, 8, 12, 16, 24, 48)] + ["g6.xlarge"]
                }
            },
            "pcs-groups",
            "target.fallback_types",
        ),
    ],
)
def test_plan_unsupported_by_pcs_refused(catalog, changes, code, path):
    assert (code, path) in refusal(catalog, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"name": "a" * 32},
        {"target": {"nodes": 100}, "network": {"cidr": "10.0.0.0/16"}},
        {"target": {"instance_type": "trn1.32xlarge", "ami": "ami-0123456789abcdef0"}},
        {"security": {"roles": {"nodes": "arn:aws:iam::123456789012:role/aws-pcs/nodes"}}},
        {"security": {"roles": {"nodes": "arn:aws:iam::123456789012:role/AWSPCS-nodes"}}},
    ],
)
def test_plan_supported_by_pcs_accepted(catalog, changes):
    assert refusal(catalog, **changes) == []


@pytest.mark.parametrize(
    "nodes, runs, fallback, word",
    [(31, 1, 0, "SMALL"), (32, 1, 0, "MEDIUM"), (1, 257, 0, "MEDIUM"), (16, 1, 1, "MEDIUM"), (512, 1, 0, "LARGE")],
)
def test_controller_size_follows_nodes_and_runs(nodes, runs, fallback, word):
    train = {"model": "llama-3.1-8b", "tokens_b": 1.0, "runs": runs}
    request = request_of(workload={"train": train}, target={"fallback_types": ["g5.xlarge"][:fallback]})
    assert pcs.size_of(request, nodes).name == word


def codes(catalog, **changes):
    return {finding.code for finding in resolve_training(request_of(**changes), catalog, load_training()).findings}


def test_pcs_remarks_only_with_pcs_target(catalog):
    assert {"pcs-shared-folder", "pcs-partial-fleet"} <= codes(catalog)
    assert not {"pcs-shared-folder", "pcs-partial-fleet"} & codes(
        catalog, target={"nodes": 1}, storage={"lustre_gib": 2400}
    )
    on_demand = {"option": "on-demand", "reservation": {"id": "cr-0fedcba9876543210", "count": 2}}
    assert "pcs-reservation-unconfirmed" in codes(catalog, purchase=on_demand)
    block = {**on_demand, "option": "capacity-block"}
    neuron = {"instance_type": "trn1.32xlarge", "ami": "ami-0123456789abcdef0"}
    assert "pcs-trainium-unconfirmed" in codes(catalog, target=neuron, purchase=block)


def test_open_target_excludes_pcs(catalog):
    resolution = resolve_training(request_of(target={"kind": "any"}), catalog, load_training())
    assert PCS not in {group.target for group in resolution.groups}


def test_every_card_counts_an_address(catalog):
    request = request_of()
    place = pinned_plan(request, catalog).place
    assert addresses(request, place, catalog.instance_types) == 2 * 32 + 1 + 3


def test_every_type_gives_valid_pcs_queue_name(catalog):
    least, most = pcs.NAME_LENGTH
    for name, facts in catalog.instance_types.items():
        if PCS in facts.targets:
            assert least <= len(queue_name(name)) <= most, name
            assert pcs.NAME.fullmatch(queue_name(name)), name
