"""Task governance of HyperPod with EKS: shown equals deployed, in order, where CloudFormation supports it."""

import re

import pytest
import yaml

from launcher.model import eks
from launcher.targets.hyperpod_eks.rules import GOVERNANCE_REGIONS
from tests.checks import some
from tests.infra.reading import behind, key_of, shown
from tests.infra.registry import regions, types_in

KIND = "hyperpod-eks"
CLUSTER = "AWS::SageMaker::Cluster"


@pytest.fixture
def governed(named):
    return named("p5-queue")


@pytest.fixture
def spot(named):
    return named("p5en-spot", usd_per_hour="151.91")


def test_so_is_task_governance(governed, catalog):
    for kind, request in some(yaml.safe_load(shown(governed, catalog)["governance.yaml"]).items()):
        made = governed.only("training", f"AWS::SageMaker::{kind}")
        own = key_of(governed, CLUSTER)
        assert made.pop("ClusterArn") == {"Fn::GetAtt": [own, "ClusterArn"]}
        tags = [{tag["Key"]: tag["Value"] for tag in side.pop("Tags")} for side in (request, made)]
        assert tags[0].items() <= tags[1].items()
        assert made == request


def test_without_a_queue_there_is_none(spot, catalog):
    assert "governance.yaml" not in shown(spot, catalog)
    types = {resource["Type"] for resource in spot.template("training")["Resources"].values()}
    assert not {"AWS::SageMaker::ClusterSchedulerConfig", "AWS::SageMaker::ComputeQuota"} & types
    names = {resource["AddonName"] for resource in spot.resources("training", "AWS::EKS::Addon").values()}
    assert eks.GOVERNANCE[0] not in names


def test_task_governance_comes_after_nodes_and_its_addon_and_the_quota_after_the_priorities(governed):
    quota, policy = (key_of(governed, f"AWS::SageMaker::{each}") for each in ("ComputeQuota", "ClusterSchedulerConfig"))
    addon = key_of(governed, "AWS::EKS::Addon", AddonName=eks.GOVERNANCE[0])
    assert {key_of(governed, CLUSTER), addon} <= behind(governed, policy)
    assert {policy, addon} <= behind(governed, quota)
    assert key_of(governed, CLUSTER) in behind(governed, addon)


def test_pods_of_the_teams_namespace_are_lent_the_jobs_role(spot, governed):
    namespaces = [
        {resource["Namespace"] for resource in made.resources("training", "AWS::EKS::PodIdentityAssociation").values()}
        for made in (spot, governed)
    ]
    assert namespaces[1] - namespaces[0] == {"hyperpod-ns-research"}


def test_task_governance_is_for_where_cloudformation_has_it():
    """Elsewhere the stack would fail after the machines are there."""
    wanted = {"AWS::SageMaker::ClusterSchedulerConfig", "AWS::SageMaker::ComputeQuota"}
    known = {region for region in regions() if wanted <= types_in(region)}
    assert {each for each in known if not re.match(r"us-iso|eu-iso|eusc", each)} == set(GOVERNANCE_REGIONS)
