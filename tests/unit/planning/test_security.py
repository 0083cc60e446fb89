"""What an account demands of machines: what each target can give, and what it refuses with the way out."""

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
OTHERS = [TargetKind.HYPERPOD_SLURM, TargetKind.EKS, TargetKind.HYPERPOD_EKS]


def codes(findings):
    return {each.code: each for each in findings}


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize(
    "changes,code,path",
    [
        (LOGGED, "sessions-unlogged", "security.session_log"),
        (GROUPED, "groups-unused", "network.security_group_ids"),
    ],
    ids=["log", "groups"],
)
def test_a_target_that_cannot_says_which_one_can(kind, changes, code, path):
    request = request_of(laid_over(laid_over(BASE, changes), {"target": {"kind": kind.value}}))
    finding = codes(request_findings(request, load()))[code]
    assert (finding.level, finding.path) == ("error", path)
    assert "parallelcluster" in finding.hint


def test_a_parallelcluster_can():
    plan = pinned_plan(request_of(laid_over(laid_over(BASE, LOGGED), GROUPED)), load())
    assert security_findings(plan.request, plan.place) == ()
    assert check(plan.request, load()) == ()


def test_a_job_for_a_cluster_that_is_there_asks_for_nothing():
    changes = {"target": {"kind": "hyperpod-slurm", "cluster": "team"}}
    plan = pinned_plan(request_of(laid_over(laid_over(BASE, LOGGED), changes)), load())
    assert security_findings(plan.request, plan.place) == ()


@pytest.mark.parametrize(
    "network,code",
    [
        ({"vpc_id": None, "subnet_ids": [], "security_group_ids": [GROUP]}, "groups-without-vpc"),
        ({"security_group_ids": [GROUP, GROUP]}, "group-twice"),
        ({"security_group_ids": [f"sg-0000000{each}" for each in range(4)]}, "too-many-groups"),
    ],
)
def test_groups_that_ec2_would_refuse(network, code):
    finding = codes(check(request_of(laid_over(BASE, {"network": network})), load()))[code]
    assert (finding.level, finding.path) == ("error", "network.security_group_ids")
