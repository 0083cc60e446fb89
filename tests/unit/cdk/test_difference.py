"""Comparing two templates of a stack: new, changed, replaced and removed resources, and impossible changes."""

import copy
import json
from pathlib import Path

import pytest

from launcher.catalog.updates import load_replacing
from launcher.cdk.difference import Change, broken_exports, imports, stack_change
from launcher.model.service_updates import EKS_TYPE
from launcher.model.update import Needs
from launcher.targets.eks.target import Eks
from launcher.targets.hyperpod_slurm.target import HyperPodSlurm
from launcher.targets.pcs.target import Pcs

GOLDEN = Path(__file__).parents[2] / "golden/infra"
REPLACING = load_replacing()
NETWORK = json.loads((GOLDEN / "p5-spot/network.json").read_text())
HYPERPOD = json.loads((GOLDEN / "hyperpod-p5-plan/training.json").read_text())


def with_change(template, kind, **properties):
    """The template with other properties of its one resource of a type."""
    modified = copy.deepcopy(template)
    (key,) = [key for key, resource in modified["Resources"].items() if resource["Type"] == kind]
    modified["Resources"][key]["Properties"] |= properties
    return modified


def fates(old, new):
    return {resource.type: resource.change for resource in stack_change("s", old, new, REPLACING).resources}


def test_unchanged_template_gives_no_changes():
    again = json.loads(json.dumps(NETWORK).replace("<sha256>", "4f"))
    change = stack_change("s", NETWORK, again, REPLACING)
    assert (change.new, change.same, change.resources) == (False, True, ())


def test_missing_stack_gives_only_new_resources():
    change = stack_change("s", None, NETWORK, REPLACING)
    assert change.new
    assert change.count(Change.NEW) == len(NETWORK["Resources"])


@pytest.mark.parametrize(
    "kind,properties,change,because",
    [
        ("AWS::FSx::FileSystem", {"StorageCapacity": 2400}, Change.CHANGED, ("StorageCapacity",)),
        ("AWS::FSx::FileSystem", {"KmsKeyId": "k"}, Change.REPLACED, ("KmsKeyId",)),
        (
            "AWS::FSx::FileSystem",
            {"LustreConfiguration": {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 500}},
            Change.REPLACED,
            ("LustreConfiguration/PerUnitStorageThroughput",),
        ),
        ("AWS::SageMaker::Cluster", {"NodeRecovery": "None"}, Change.CHANGED, ("NodeRecovery",)),
        ("AWS::SageMaker::Cluster", {"ClusterName": "another"}, Change.REPLACED, ("ClusterName",)),
    ],
)
def test_changed_property_decides_on_replacement(kind, properties, change, because):
    stack_diff = stack_change("s", HYPERPOD, with_change(HYPERPOD, kind, **properties), REPLACING)
    (matched,) = [resource for resource in stack_diff.resources if resource.type == kind]
    assert (matched.change, matched.because) == (change, because)


def test_replacement_propagates_to_resources_with_immutable_references():
    fate_by_type = fates(NETWORK, with_change(NETWORK, "AWS::EC2::VPC", CidrBlock="10.9.0.0/16"))
    assert {fate_by_type[f"AWS::EC2::{name}"] for name in ("VPC", "Subnet", "RouteTable", "NatGateway", "Route")} == {
        Change.REPLACED
    }
    # The file system is changed in a property that stays; the machines only hold its name.
    fate_by_type = fates(HYPERPOD, with_change(HYPERPOD, "AWS::FSx::FileSystem", KmsKeyId="k"))
    assert fate_by_type["AWS::SageMaker::Cluster"] is Change.CHANGED


def test_conditional_replacement_is_reported_as_possible():
    fate_by_type = fates(NETWORK, with_change(NETWORK, "AWS::EC2::VPC", InstanceTenancy="dedicated"))
    assert fate_by_type == {"AWS::EC2::VPC": Change.MAYBE_REPLACED}


def test_deleted_resource_is_removed_or_retained():
    fate_by_type = fates(json.loads((GOLDEN / "p5-spot/checkpoints.json").read_text()), {"Resources": {}})
    assert fate_by_type["AWS::S3::Bucket"] is Change.RETAINED
    assert fates(NETWORK, {"Resources": {}})["AWS::EC2::NatGateway"] is Change.REMOVED


def test_resource_of_another_type_under_the_same_name_is_replaced():
    old = {"Resources": {"A": {"Type": "AWS::SNS::Topic"}}}
    assert fates(old, {"Resources": {"A": {"Type": "AWS::S3::Bucket"}}}) == {"AWS::S3::Bucket": Change.REPLACED}


def test_export_of_a_replaced_or_removed_resource_is_broken():
    moved = with_change(NETWORK, "AWS::EC2::VPC", CidrBlock="10.9.0.0/16")
    broken = broken_exports(NETWORK, moved, stack_change("s", NETWORK, moved, REPLACING))
    assert set(imports(json.loads((GOLDEN / "p5-spot/training.json").read_text()))) & broken.keys()
    assert all("is replaced" in reason for reason in broken.values())
    without_exports = {**NETWORK, "Outputs": {}}
    assert set(
        broken_exports(NETWORK, without_exports, stack_change("s", NETWORK, without_exports, REPLACING)).values()
    ) == {"it goes"}
    assert broken_exports(NETWORK, NETWORK, stack_change("s", NETWORK, NETWORK, REPLACING)) == {}


NAMED = {
    "node-group": {"Type": "AWS::EKS::Nodegroup", "Properties": {"NodegroupName": "a", "AmiType": "x"}},
    "subnet": {"Type": "AWS::EC2::Subnet", "Properties": {"CidrBlock": "a", "AvailabilityZoneId": "x"}},
    "unnamed": {"Type": "AWS::EKS::Nodegroup", "Properties": {"AmiType": "x"}},
    "renamed": {"Type": "AWS::EKS::Nodegroup", "Properties": {"NodegroupName": "x", "AmiType": "x"}},
}


@pytest.mark.parametrize("case", NAMED)
def test_replaced_resource_with_a_fixed_name_needs_a_new_cluster(case):
    """CloudFormation makes a replacement before it removes what it takes the place of."""
    old = NAMED[case]
    new = json.loads(json.dumps(old).replace('"x"', '"y"'))
    (resource,) = stack_change("s", {"Resources": {"A": old}}, {"Resources": {"A": new}}, REPLACING).resources
    assert resource.change is Change.REPLACED
    assert [key.needs for key in resource.keys] == ([Needs.NEW_CLUSTER] if case in ("node-group", "subnet") else [])
    reasons = {
        "node-group": " replaces the resource, and there cannot be two resources of that name",
        "subnet": " replaces the resource, and there cannot be two subnets of that range",
    }
    assert all((key.why or "").endswith(reasons[case]) and " -> " in key.why for key in resource.keys)


SLURM = {"Name": "a", "Scheduler": {"Version": "25.05"}}


def test_replacement_that_the_target_refuses_names_the_key_of_the_plan():
    old = {"A": {"Type": "AWS::PCS::Cluster", "Properties": {**SLURM, "Size": "SMALL"}}}
    new = {"A": {"Type": "AWS::PCS::Cluster", "Properties": {**SLURM, "Size": "MEDIUM"}}}
    (resource,) = stack_change("s", {"Resources": old}, {"Resources": new}, REPLACING, Pcs().key_changes).resources
    assert resource.change is Change.REPLACED
    (key,) = resource.keys
    assert (key.path, key.old, key.new, key.plan_key) == ("Size", "SMALL", "MEDIUM", "target.nodes")


def out(table, gateway="n"):
    """A default route of a table."""
    properties = {"RouteTableId": {"Ref": table}, "DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": gateway}
    return {"Type": "AWS::EC2::Route", "Properties": properties}


@pytest.mark.parametrize(
    "old, new, refused",
    [
        (out("Private"), out("Private", "i"), {"DestinationCidrBlock"}),
        (out("Private"), out("Public"), set()),
        (NAMED["subnet"], NAMED["subnet"], {"CidrBlock"}),
        (NAMED["node-group"], NAMED["node-group"], {"NodegroupName"}),
        ({**NAMED["node-group"], "DeletionPolicy": "Retain"}, NAMED["node-group"], {"NodegroupName"}),
        (NAMED["node-group"], NAMED["renamed"], set()),
        (NAMED["unnamed"], NAMED["unnamed"], set()),
    ],
)
def test_new_resource_with_unique_value_of_a_leaving_one_needs_a_new_cluster(old, new, refused):
    resources = stack_change("s", {"Resources": {"A": old}}, {"Resources": {"B": new}}, REPLACING).resources
    keys = [key for resource in resources for key in resource.keys]
    assert {key.path for key in keys if key.needs is Needs.NEW_CLUSTER} == refused
    assert all(key.why.startswith("CloudFormation creates B before it removes A, ") for key in keys)


def test_hyperpod_keeps_its_file_system():
    """Nodes that exist keep the mount of a file system, which a replacement removes (HyperPod references)."""
    faster = {"DeploymentType": "PERSISTENT_2", "PerUnitStorageThroughput": 500}
    replaced = with_change(HYPERPOD, "AWS::FSx::FileSystem", LustreConfiguration=faster)
    resources = stack_change("s", HYPERPOD, replaced, REPLACING, HyperPodSlurm().key_changes).resources
    keys = [key for resource in resources for key in resource.keys]
    assert {(key.path, key.plan_key, key.needs) for key in keys} == {
        (f"InstanceGroups[{group}].InstanceStorageConfigs", "storage", Needs.NEW_CLUSTER)
        for group in ("controller", "workers")
    }


def test_hyperpod_group_names_types_as_the_plan_does():
    larger = json.loads(json.dumps(HYPERPOD).replace("ml.m6i.xlarge", "ml.m6i.2xlarge"))
    resources = stack_change("s", HYPERPOD, larger, REPLACING, HyperPodSlurm().key_changes).resources
    keys = [key for resource in resources for key in resource.keys]
    assert [(key.plan_key, key.old, key.new, key.needs) for key in keys] == [
        ("storage.head_node", "m6i.xlarge", "m6i.2xlarge", Needs.NEW_CLUSTER)
    ]


@pytest.mark.parametrize(
    "key, plan_key", [("ExecutionRole", "security.roles.nodes"), ("ThreadsPerCore", ""), ("LifeCycleConfig", None)]
)
def test_hyperpod_group_keeps_role_and_threads_and_changes_its_script(key, plan_key):
    """Developer guide, Updating SageMaker HyperPod cluster configuration."""
    other = copy.deepcopy(HYPERPOD)
    (cluster,) = [item for item in other["Resources"].values() if item["Type"] == "AWS::SageMaker::Cluster"]
    cluster["Properties"]["InstanceGroups"][1][key] = "another"
    resources = stack_change("s", HYPERPOD, other, REPLACING, HyperPodSlurm().key_changes).resources
    refused = [change for resource in resources for change in resource.keys if change.needs is Needs.NEW_CLUSTER]
    assert [change.plan_key for change in refused] == ([] if plan_key is None else [plan_key])


def test_hyperpod_group_keeps_its_node_type():
    other = json.loads(json.dumps(HYPERPOD).replace('"NodeType": "Compute"', '"NodeType": "Login"'))
    resources = stack_change("s", HYPERPOD, other, REPLACING, HyperPodSlurm().key_changes).resources
    assert [(key.path, key.needs) for resource in resources for key in resource.keys] == [
        ("InstanceGroups[workers].SlurmConfig", Needs.NEW_CLUSTER)
    ]


@pytest.mark.parametrize(
    "wanted, needs", [("1.36", Needs.NOTHING), ("1.37", Needs.NEW_CLUSTER), ("1.34", Needs.NEW_CLUSTER)]
)
def test_eks_version_changes_by_one_minor_version_only(wanted, needs):
    old, new = (
        {"Resources": {"C": {"Type": EKS_TYPE, "Properties": {"Version": version}}}} for version in ("1.35", wanted)
    )
    (resource,) = stack_change("s", old, new, REPLACING, Eks().key_changes).resources
    assert [key.needs for key in resource.keys] == [needs]
