"""Tags of a plan file, and cost allocation tags, on every resource that supports tags."""

import pytest

from launcher.model.enums import TargetKind
from launcher.model.tags import CLUSTER_TAG
from launcher.targets.registry import TARGETS
from tests.checks import some
from tests.infra.reading import OWN, given, lacking

CLUSTERS = ("parallelcluster", "hyperpod-slurm", "eks", "hyperpod-eks")

BASE = """
slipway: 1
name: tagged
tags: {CostCenter: ML-42, owner: team@example.com}
budget: {max_usd: 500}
"""
CLUSTER = """
target: {kind: %s, region: us-east-2, instance_type: p5.48xlarge, nodes: 2}
purchase: {option: on-demand}
storage: {lustre_gib: 1200}
"""


EKS = "network: {api_cidrs: [52.94.76.0/24]}\n"


def plan_text(kind):
    """A plan for a kind of cluster; one of EKS says who reaches its API, and has no file system."""
    text = BASE + CLUSTER % kind
    return text.replace("storage: {lustre_gib: 1200}\n", EKS) if kind.endswith("eks") else text


@pytest.mark.parametrize("kind", CLUSTERS)
def test_every_taggable_cluster_resource_has_plan_tags(synthesised, kind):
    """An endpoint's is in serving/test_serving_rules.py."""
    assembly = synthesised(plan_text(kind))
    # The one that `report --billed` asks for, and a budget is held by.
    required_tags = {**OWN, CLUSTER_TAG: "tagged"}
    assert lacking(assembly, required_tags) == []
    for stack in assembly.manifest.values():
        assert stack["properties"]["tags"].items() >= required_tags.items()


def test_every_deployed_target_kind_is_tag_tested():
    assert {kind.value for kind, facts in TARGETS.items() if facts.deployed} == {
        *CLUSTERS,
        TargetKind.EC2.value,
        TargetKind.PCS.value,
        TargetKind.SAGEMAKER_ENDPOINT.value,
        TargetKind.SAGEMAKER_TRAINING.value,
    }


def test_eks_nodes_and_volumes_have_plan_tags(synthesised):
    """A node group hands its tags to no instance: what is billed has those of its launch template."""
    assembly = synthesised(plan_text("eks"))
    assert_tagged(assembly, {"instance", "volume", "network-interface"})


def assert_tagged(assembly, kinds):
    """Every launch template has the plan's tags itself, and gives them to the kinds of resource that it creates."""
    templates = [
        resource["Properties"]
        for template in assembly.templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::EC2::LaunchTemplate"
    ]
    for launch_template in some(templates):
        specified = [*launch_template["LaunchTemplateData"]["TagSpecifications"], *launch_template["TagSpecifications"]]
        tagged = {one["ResourceType"]: given(one["Tags"]) for one in specified}
        assert tagged.keys() == {*kinds, "launch-template"} | (tagged.keys() & {"spot-instances-request"})
        assert all(tags.items() >= {**OWN, CLUSTER_TAG: "tagged"}.items() for tags in tagged.values())
    return templates


@pytest.mark.parametrize("kind", ["eks", "pcs"])
def test_spot_requests_of_nodes_have_plan_tags(synthesised, kind):
    text = plan_text(kind).replace("option: on-demand", "option: spot")
    templates = assert_tagged(synthesised(text), {"instance", "volume", "network-interface"})
    kinds = [
        {one["ResourceType"] for one in template["LaunchTemplateData"]["TagSpecifications"]} for template in templates
    ]
    assert any("spot-instances-request" in group for group in kinds)
    # EC2 takes these tags of spot requests alone: the system group and the login node are on demand.
    assert not all("spot-instances-request" in group for group in kinds)


def test_parallelcluster_nodes_have_plan_tags(synthesised):
    assembly = synthesised(BASE + CLUSTER % "parallelcluster")
    tags = assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]["Tags"]
    assert given(tags).items() >= {**OWN, CLUSTER_TAG: "tagged"}.items()
