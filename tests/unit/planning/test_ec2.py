"""Plans for plain EC2 instances: each refusal has its path, and small jobs need no NAT gateway."""

from dataclasses import replace

import pytest

from launcher.model.ec2 import NEURON_IMAGE, NVIDIA_IMAGE, hook_s, image_parameter, interfaces
from launcher.model.enums import EfaLayout, Egress
from launcher.planning.nat import egress
from launcher.planning.pin import pinned_plan
from launcher.planning.targets import place_findings
from tests import plans


def request_of(**changes):
    base = {
        "slipway": 1,
        "name": "small",
        "workload": {"train": {"model": "llama-3.1-8b", "method": "lora", "tokens_b": 0.1}},
        "target": {"kind": "ec2", "region": "us-east-2", "instance_type": "g6e.8xlarge", "nodes": 1},
        "purchase": {"option": "on-demand"},
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value} if isinstance(value, dict) else value
    return plans.request_of(base)


def refusal(catalog, **changes):
    """Codes and paths of what planning has against a plan's place."""
    request = request_of(**changes)
    target = request.target
    place = replace(
        pinned_plan(request_of(), catalog).place,
        instance_type=target.instance_type[0],
        nodes=target.nodes.minimum,
        option=request.purchase.option[0],
    )
    return {(finding.code, finding.path) for finding in place_findings(request, place, catalog)}


@pytest.mark.parametrize(
    "changes, code, path",
    [
        ({"target": {"nodes": 9}}, "too-many-nodes", "target.nodes"),
        ({"target": {"instance_type": "c5.12xlarge"}}, "ec2-image", "target.instance_type"),
        ({"target": {"os": "ubuntu2204"}}, "ec2-os", "target.os"),
        ({"target": {"fallback_types": ["trn1.32xlarge"]}}, "ec2-fallback-image", "target.fallback_types"),
        (
            {"target": {"nodes": 2, "fallback_types": ["g6e.2xlarge"]}},
            "ec2-fallback-interfaces",
            "target.fallback_types",
        ),
        ({"storage": {"lustre_gib": 1200}}, "ec2-unused", "storage.lustre_gib"),
        ({"storage": {"head_node": "m6i.xlarge"}}, "ec2-unused", "storage.head_node"),
        ({"run": {"command": ["true"], "container": "enroot", "image": "a/b:1"}}, "ec2-container", "run.container"),
        ({"tags": {"cost/center": "7"}}, "ec2-tag", "tags.cost/center"),
    ],
)
def test_unsupported_ec2_key_refused_with_path(catalog, changes, code, path):
    assert refusal(catalog) == set()
    assert (code, path) in refusal(catalog, **changes)


def test_own_image_lifts_image_refusals(catalog):
    changes = {"target": {"instance_type": "c5.12xlarge", "os": "ubuntu2204", "ami": "ami-0123456789abcdef0"}}
    assert not {code for code, _ in refusal(catalog, **changes)} & {"ec2-image", "ec2-os"}


@pytest.mark.parametrize(
    "type_, nodes, mode",
    [
        ("g6e.8xlarge", 1, Egress.PUBLIC_ADDRESSES),
        ("g6e.8xlarge", 8, Egress.PUBLIC_ADDRESSES),
        ("p5.48xlarge", 1, Egress.PUBLIC_ADDRESSES),
        ("p5.48xlarge", 2, Egress.NAT_GATEWAY),
        ("trn1.32xlarge", 1, Egress.PUBLIC_ADDRESSES),
    ],
)
def test_nat_mode_follows_number_of_network_interfaces(catalog, type_, nodes, mode):
    request = request_of(target={"instance_type": type_, "nodes": nodes})
    place = replace(pinned_plan(request_of(), catalog).place, instance_type=type_, nodes=nodes)
    assert egress(request, place, catalog.instance_types) is mode


def test_several_single_card_nodes_have_one_efa_interface(catalog):
    types = catalog.instance_types
    (only,) = interfaces(types["g6e.8xlarge"], 2, EfaLayout.AUTO)
    assert (only.card, only.device, only.kind) == (0, 0, "efa")
    assert interfaces(types["g6e.8xlarge"], 1, EfaLayout.AUTO) == ()
    assert len(interfaces(types["p5.48xlarge"], 2, EfaLayout.AUTO)) > types["p5.48xlarge"].network_cards


def test_every_accelerated_type_has_image_parameter(catalog):
    for facts in catalog.instance_types.values():
        expected = None if facts.accelerator is None else NEURON_IMAGE if facts.neuron else NVIDIA_IMAGE
        assert image_parameter(facts) == expected


@pytest.mark.parametrize("grace_s, seconds", [(0.0, 120), (60.0, 180), (1e6, 7200)])
def test_lifecycle_hook_time_follows_grace_within_api_limits(grace_s, seconds):
    assert hook_s(grace_s) == seconds
