"""Security requirements of an account: what each target supports, and refusals with a fix."""

from dataclasses import replace

import pytest

from launcher.catalog.load import load
from launcher.model.enums import TargetKind
from launcher.planning.checks import check
from launcher.planning.pin import pinned_plan
from launcher.planning.security import security_findings
from launcher.planning.targets import request_findings
from tests.plans import laid_over, request_of

GROUP = "sg-0a1b2c3d4e5f60718"
BASE = {
    "slipway": 1,
    "name": "n",
    "target": {"kind": "parallelcluster", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
    "purchase": {"option": "on-demand"},
    "network": {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d4e5f60718"]},
}
LOGGED = {"security": {"session_log": True}}
GROUPED = {"network": {"security_group_ids": [GROUP]}}
KEY = "arn:aws:kms:{}:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def codes(findings):
    return {finding.code: finding for finding in findings}


ENCRYPTED = {"security": {"encrypt_traffic": True}}


@pytest.mark.parametrize(
    "changes,code,path,able",
    [
        (LOGGED, "sessions-unlogged", "security.session_log", "parallelcluster"),
        (ENCRYPTED, "traffic-unencrypted", "security.encrypt_traffic", "sagemaker-training"),
    ],
    ids=["log", "traffic"],
)
def test_security_key_unsupported_by_target_names_supporting_target(changes, code, path, able):
    plan = pinned_plan(request_of(laid_over(BASE, changes)), load())
    place = replace(plan.place, target=TargetKind.SAGEMAKER_ENDPOINT)
    finding = codes(security_findings(plan.request, place))[code]
    assert (finding.level, finding.path) == ("error", path)
    assert able in finding.hint


@pytest.mark.parametrize("nodes, warned", [(2, ["traffic-encryption-slows"]), (1, [])])
def test_traffic_encryption_between_training_nodes_gives_warning(nodes, warned):
    changes = {**ENCRYPTED, "target": {"kind": "sagemaker-training", "nodes": nodes}}
    plan = pinned_plan(request_of(laid_over(BASE, changes)), load())
    assert [finding.code for finding in security_findings(plan.request, plan.place)] == warned
    # The warning refuses no plan, also if the plan allows one target alone.
    assert request_findings(plan.request, load()) == ()


@pytest.mark.parametrize("kind", ["sagemaker-training", "sagemaker-endpoint"])
def test_security_groups_in_vpc_accepted_by_every_target(kind):
    plan = pinned_plan(request_of(laid_over(BASE, GROUPED)), load())
    place = replace(plan.place, target=TargetKind(kind))
    assert "groups-unused" not in codes(security_findings(plan.request, place))


@pytest.mark.parametrize("kind", ["parallelcluster", "eks", "hyperpod-slurm", "hyperpod-eks"])
def test_cluster_targets_accept_session_log_and_groups(kind):
    document = laid_over(laid_over(laid_over(BASE, LOGGED), GROUPED), {"target": {"kind": kind}})
    plan = pinned_plan(request_of(document), load())
    assert security_findings(plan.request, plan.place) == ()
    assert check(plan.request, load()) == ()


def test_security_keys_on_existing_cluster_give_no_finding():
    changes = {"target": {"kind": "hyperpod-slurm", "cluster": "team"}}
    plan = pinned_plan(request_of(laid_over(laid_over(BASE, LOGGED), changes)), load())
    assert security_findings(plan.request, plan.place) == ()


@pytest.mark.parametrize("kind", ["parallelcluster", "hyperpod-slurm", "eks"])
@pytest.mark.parametrize(
    "arn,code",
    [
        (KEY.format("us-east-2"), None),
        (KEY.format("eu-west-1"), "key-region"),
        ("arn:aws:kms:us-east-2:123456789012:alias/team", "not-a-key"),
        ("arn:aws:s3:::bucket", "not-a-key"),
    ],
)
def test_kms_key_of_other_region_or_invalid_arn_refused(kind, arn, code):
    document = laid_over(BASE, {"storage": {"kms_key_arn": arn}, "target": {"kind": kind}})
    findings_by_code = codes(request_findings(request_of(document), load()))
    assert [key_code for key_code in ("key-region", "not-a-key") if key_code in findings_by_code] == (
        [code] if code else []
    )
    if code is not None:
        assert (findings_by_code[code].level, findings_by_code[code].path) == ("error", "storage.kms_key_arn")


ROLE = "arn:aws:iam::123456789012:role/team/machines"


@pytest.mark.parametrize(
    "kind,roles,path",
    [
        ("parallelcluster", {"pods": ROLE}, "security.roles.pods"),
        ("parallelcluster", {"login_nodes": ROLE}, "security.roles.login_nodes"),
        ("eks", {"head_node": ROLE}, "security.roles.head_node"),
        ("hyperpod-slurm", {"control_plane": ROLE}, "security.roles.control_plane"),
    ],
)
def test_unused_role_refused(kind, roles, path):
    document = laid_over(BASE, {"target": {"kind": kind}, "security": {"roles": roles}})
    finding = codes(request_findings(request_of(document), load()))["role-unused"]
    assert (finding.level, finding.path) == ("error", path)


def test_roles_of_several_accounts_refused():
    roles = {"nodes": ROLE, "head_node": ROLE.replace("123456789012", "210987654321")}
    findings_by_code = codes(request_findings(request_of(laid_over(BASE, {"security": {"roles": roles}})), load()))
    assert findings_by_code["roles-of-accounts"].path == "security.roles"


def test_named_roles_change_digest_and_empty_roles_do_not():
    catalog = load()
    empty, none, named = (
        pinned_plan(request_of(laid_over(BASE, {"security": {"roles": roles}})), catalog).digest
        for roles in ({}, {"nodes": None}, {"nodes": ROLE})
    )
    assert pinned_plan(request_of(BASE), catalog).digest == empty == none != named


@pytest.mark.parametrize(
    "network,code",
    [
        ({"vpc_id": None, "subnet_ids": [], "security_group_ids": [GROUP]}, "groups-without-vpc"),
        ({"security_group_ids": [GROUP, GROUP]}, "group-twice"),
        ({"security_group_ids": [f"sg-0000000{number}" for number in range(4)]}, "too-many-groups"),
    ],
)
def test_invalid_security_groups_refused(network, code):
    finding = codes(check(request_of(laid_over(BASE, {"network": network})), load()))[code]
    assert (finding.level, finding.path) == ("error", "network.security_group_ids")
