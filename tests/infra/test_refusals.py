"""Invalid input is refused with findings and fixes before synthesis."""

import pytest

from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.planning.pin import pinned_plan
from tests import plans

VPC, SUBNET = "vpc-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60718"
BLOCK = {"option": "capacity-block", "reservation": {"id": "cr-0123456789abcdef0"}}
TARGET = {"region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 4}


def existing(**facts):
    whole = {"id": SUBNET, "az_id": "use2-az1", "free_addresses": 4091, **facts}
    return {"vpc_id": VPC, "subnet_ids": [SUBNET], "subnets": [whole]}


BAD = {
    "type-not-in-region": ({"target": {"region": "eu-west-3"}}, "not-offered", "it is offered in"),
    "subnet-in-another-region": ({"network": existing(az_id="use1-az4")}, "subnet-outside-region", "us-east-2"),
    "subnet-with-public-addresses": ({"network": existing(public_addresses=True)}, "public-subnet", "private subnet"),
    "too-few-addresses": (
        {"target": {"efa_layout": "classic"}, "network": {"cidr": "10.0.0.0/24"}},
        "too-few-addresses",
        "efa_layout: auto",
    ),
    "too-few-left-in-a-subnet": ({"network": existing(free_addresses=3)}, "too-few-addresses", "a larger subnet"),
    "block-in-another-zone": (
        {"target": {"az_id": "use2-az2"}, "purchase": BLOCK, "network": existing()},
        "subnet-outside-zone",
        "the reservation is in use2-az2",
    ),
    "block-without-id": ({"purchase": {"option": "capacity-block"}}, "block-without-id", "purchase.reservation.id"),
    "spot-with-reservation": (
        {"purchase": {**BLOCK, "option": "spot"}},
        "spot-with-reservation",
        "capacity-block, or remove the reservation",
    ),
    "placement-with-reservation": (
        {"target": {"placement_group": True}, "purchase": BLOCK},
        "placement-with-reservation",
        "placement_group to auto",
    ),
    "red-hat-without-an-image": ({"target": {"os": "rhel9"}}, "os-without-agent", "target.ami"),
    "rocky-without-an-image": ({"target": {"os": "rocky8"}}, "os-without-agent", "amazon-ssm-agent"),
    "existing-cluster": ({"target": {"cluster": "shared"}}, "nothing-to-build", "remove target.cluster"),
    "unreachable-address": ({"guardrails": {"notify": ["arn:aws:s3:::b"]}}, "notify-unreachable", "email address"),
}


def request_of(extra):
    data = {"slipway": 1, "name": "bad", "target": TARGET, "purchase": {"option": "on-demand"}, **extra}
    data["target"] = {**TARGET, **extra.get("target", {})}
    return plans.request_of(data)


@pytest.mark.parametrize("extra, code, message", BAD.values(), ids=BAD)
def test_invalid_plan_refused_with_path_and_fix(catalog, tmp_path, extra, code, message):
    from infra.build import build_app

    with pytest.raises(ImpossibleError) as refusal:
        build_app(pinned_plan(request_of(extra), catalog), outdir=tmp_path)
    findings = {finding.code: finding for finding in refusal.value.findings}
    assert code in findings
    assert findings[code].path
    assert message in f"{findings[code].message} {findings[code].hint}"
    assert list(tmp_path.iterdir()) == []


def test_too_long_name_refused_on_reading():
    with pytest.raises(UnreadableInputError) as refusal:
        request_of({"name": "x" * 41})
    assert "1 to 40" in f"{refusal.value.message} {refusal.value.findings}"


@pytest.mark.parametrize("key", ["usd_per_hour", "max_usd"])
@pytest.mark.parametrize("value", ["free", "-1", "0", "nan"])
def test_context_money_must_be_positive_amount(catalog, tmp_path, key, value):
    from infra.build import build_app

    with pytest.raises(UnreadableInputError, match=f"context {key} must be dollars above 0, got {value}"):
        build_app(pinned_plan(request_of({}), catalog), context={key: value}, outdir=tmp_path)
