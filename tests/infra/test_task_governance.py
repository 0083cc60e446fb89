"""Task governance of HyperPod with EKS: shown equals deployed, in order, where CloudFormation supports it."""

import pytest
import yaml

from launcher.model import eks
from tests.checks import some
from tests.infra.reading import behind, key_of, shown

KIND = "hyperpod-eks"
CLUSTER = "AWS::SageMaker::Cluster"


@pytest.fixture
def p5_queue(named):
    return named("p5-queue")


def test_task_governance_config_equals_rendered_file(p5_queue, catalog):
    for kind, request in some(yaml.safe_load(shown(p5_queue, catalog)["governance.yaml"]).items()):
        properties = p5_queue.only("training", f"AWS::SageMaker::{kind}")
        cluster_key = key_of(p5_queue, CLUSTER)
        assert properties.pop("ClusterArn") == {"Fn::GetAtt": [cluster_key, "ClusterArn"]}
        tags = [{tag["Key"]: tag["Value"] for tag in side.pop("Tags")} for side in (request, properties)]
        assert tags[0].items() <= tags[1].items()
        assert properties == request


def test_plan_without_queue_has_no_task_governance(p5en_spot, catalog):
    assert "governance.yaml" not in shown(p5en_spot, catalog)
    types = {resource["Type"] for resource in p5en_spot.template("training")["Resources"].values()}
    assert not {"AWS::SageMaker::ClusterSchedulerConfig", "AWS::SageMaker::ComputeQuota"} & types
    names = {resource["AddonName"] for resource in p5en_spot.resources("training", "AWS::EKS::Addon").values()}
    assert eks.GOVERNANCE[0] not in names


def test_task_governance_depends_on_nodes_and_quota_on_priorities(p5_queue):
    quota, policy = (key_of(p5_queue, f"AWS::SageMaker::{kind}") for kind in ("ComputeQuota", "ClusterSchedulerConfig"))
    addon = key_of(p5_queue, "AWS::EKS::Addon", AddonName=eks.GOVERNANCE[0])
    assert {key_of(p5_queue, CLUSTER), addon} <= behind(p5_queue, policy)
    assert {policy, addon} <= behind(p5_queue, quota)
    assert key_of(p5_queue, CLUSTER) in behind(p5_queue, addon)


def test_team_namespace_pods_have_job_role(p5en_spot, p5_queue):
    namespaces = [
        {
            resource["Namespace"]
            for resource in assembly.resources("training", "AWS::EKS::PodIdentityAssociation").values()
        }
        for assembly in (p5en_spot, p5_queue)
    ]
    assert namespaces[1] - namespaces[0] == {"hyperpod-ns-research"}
