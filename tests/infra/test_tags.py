"""The tags of a plan file on everything that can carry one, by CloudFormation's own registry."""

import pytest

from tests.infra.registry import schemas

OWN = {"CostCenter": "ML-42", "owner": "team@example.com"}
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


def lacking(assembly):
    """Resources that the registry calls taggable and that lack a tag of the plan file."""
    found = []
    for template in assembly.templates.values():
        for name, resource in template["Resources"].items():
            tagging = schemas().get(resource["Type"], {}).get("tagging", {})
            if not tagging.get("taggable"):
                continue
            key = tagging.get("tagProperty", "/properties/Tags").rpartition("/")[2]
            if given(resource.get("Properties", {}).get(key, ())).items() >= OWN.items():
                continue
            found.append((resource["Type"], name))
    return found


def given(tags):
    """Tags as a mapping, whichever of the two forms they have."""
    return tags if isinstance(tags, dict) else {each["Key"]: each["Value"] for each in tags}


@pytest.mark.parametrize("kind", ["parallelcluster", "hyperpod-slurm"])
def test_everything_of_a_cluster_that_can_carry_them_does(synthesised, kind):
    made = synthesised(BASE + CLUSTER % kind)
    assert lacking(made) == []
    for stack in made.manifest.values():
        assert stack["properties"]["tags"].items() >= OWN.items()


def test_nodes_of_a_parallelcluster_carry_them(synthesised):
    made = synthesised(BASE + CLUSTER % "parallelcluster")
    tags = made.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]["Tags"]
    assert given(tags).items() >= OWN.items()
