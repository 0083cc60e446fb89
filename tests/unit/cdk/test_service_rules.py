"""Updates that a service refuses although CloudFormation would try them: found in the difference, with the reason."""

import copy

import pytest

from launcher.catalog.updates import load_replacing, load_service_rules
from launcher.cdk.difference import stack_change
from launcher.cdk.service_rules import service_changes
from launcher.model.update import Needs

REPLACING = load_replacing()
VARIANT = {"VariantName": "g5-2xlarge", "InstanceType": "ml.g5.2xlarge", "ModelName": {"Ref": "Model"}}
TEMPLATE = {
    "Resources": {
        "Config": {"Type": "AWS::SageMaker::EndpointConfig", "Properties": {"ProductionVariants": [VARIANT]}},
        "Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": {"EndpointConfigName": {"Ref": "Config"}}},
        "Range": {
            "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
            "Properties": {"ResourceId": "endpoint/chat/variant/g5-2xlarge"},
        },
        "Shared": {"Type": "AWS::FSx::FileSystem", "Properties": {"StorageCapacity": 4800}},
        "Template": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"UserData": "a"}}},
        "Group": {
            "Type": "AWS::EKS::Nodegroup",
            "Properties": {"LaunchTemplate": {"Id": {"Ref": "Template"}, "Version": "1"}},
        },
        "Cluster": {
            "Type": "AWS::PCS::Cluster",
            "Properties": {"Name": "small", "Size": "SMALL", "Scheduler": {"Type": "SLURM", "Version": "25.05"}},
        },
        "PcsTemplate": {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": {"UserData": "a"}}},
        "Nodes": {
            "Type": "AWS::PCS::ComputeNodeGroup",
            "Properties": {
                "Name": "p5-48xlarge",
                "InstanceConfigs": [{"InstanceType": "p5.48xlarge"}],
                "ScalingConfiguration": {"MinInstanceCount": 0, "MaxInstanceCount": 20},
                "CustomLaunchTemplate": {"TemplateId": {"Ref": "PcsTemplate"}, "Version": "1"},
            },
        },
    }
}


def alter(change):
    template = copy.deepcopy(TEMPLATE)
    change({key: resource["Properties"] for key, resource in template["Resources"].items()}, template)
    return template


def changes_of(new, needs, old=None):
    """The paths of the changed keys with one requirement, each of which has a reason."""
    resources = stack_change("s", TEMPLATE if old is None else old, new, REPLACING).resources
    keys = [key for resource in resources for key in resource.keys if key.needs is needs]
    assert all(key.why and key.old != key.new for key in keys)
    return {key.path for key in keys}


def refusal(change):
    return changes_of(alter(change), Needs.NEW_CLUSTER)


def another_type(properties, _template):
    properties["Config"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.2xlarge"


def another_variant(properties, template):
    another_type(properties, template)
    properties["Config"]["ProductionVariants"][0]["VariantName"] = "g6-2xlarge"
    properties["Range"]["ResourceId"] = "endpoint/chat/variant/g6-2xlarge"


def renamed_variant(properties, _template):
    properties["Config"]["ProductionVariants"][0]["VariantName"] = "other"
    properties["Range"]["ResourceId"] = "endpoint/chat/variant/other"


def components(properties, _template):
    del properties["Config"]["ProductionVariants"][0]["ModelName"]


def another_type_without_range(properties, template):
    another_type(properties, template)
    del template["Resources"]["Range"]


def another_pcs_type(properties, _template):
    """Another type of node in a group of another name, which exists beside the old one during the update."""
    properties["Nodes"].update(Name="p5en-48xlarge", InstanceConfigs=[{"InstanceType": "p5en.48xlarge"}])


def another_slurm(version):
    return lambda properties, _: properties["Cluster"].update(Scheduler={"Type": "SLURM", "Version": version})


def another_template(properties, template):
    template["Resources"]["Other"] = template["Resources"].pop("Template")
    properties["Group"]["LaunchTemplate"]["Id"] = {"Ref": "Other"}


def own_image(properties, _template):
    properties["Template"]["LaunchTemplateData"] = {"UserData": "a", "ImageId": "ami-1"}


REFUSED = [
    (another_type, {"ProductionVariants/InstanceType"}),
    (another_type_without_range, {"ProductionVariants/InstanceType"}),
    (another_variant, {"ProductionVariants/InstanceType", "ProductionVariants/VariantName"}),
    (renamed_variant, {"ProductionVariants/VariantName"}),
    (another_pcs_type, {"Size"}),
    (another_slurm("24.11"), {"Scheduler/Version"}),
    (another_slurm("27.05"), {"Scheduler/Version"}),
    (components, {"ProductionVariants"}),
    (lambda properties, _: properties["Shared"].update(StorageCapacity=2400), {"StorageCapacity"}),
    (another_template, {"LaunchTemplate/Id"}),
    (own_image, {"LaunchTemplate"}),
]


@pytest.mark.parametrize("change, paths", REFUSED)
def test_update_refused_by_the_service_needs_a_new_cluster(change, paths):
    assert refusal(change) == paths


@pytest.mark.parametrize(
    "change",
    [
        lambda properties, _: properties["Config"]["ProductionVariants"][0].update(ModelName={"Ref": "Newer"}),
        lambda properties, _: properties["Shared"].update(StorageCapacity=7200),
        lambda properties, _: properties["Template"]["LaunchTemplateData"].update(UserData="b"),
        lambda properties, _: properties["Group"]["LaunchTemplate"].update(Version="2"),
        another_slurm("25.11"),
        another_slurm("26.05"),
        lambda properties, _: properties["Nodes"]["ScalingConfiguration"].update(MaxInstanceCount=30),
    ],
)
def test_update_accepted_by_the_service_is_not_refused(change):
    assert refusal(change) == set()


def test_type_of_a_variant_without_scalable_target_changes_in_place():
    fixed = alter(lambda _, template: template["Resources"].pop("Range"))
    new = copy.deepcopy(fixed)
    new["Resources"]["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.2xlarge"
    assert changes_of(new, Needs.NEW_CLUSTER, old=fixed) == set()


def another_type_of_components():
    """The templates before and after a change of the type below inference components."""
    old = alter(components)
    new = copy.deepcopy(old)
    new["Resources"]["Config"]["Properties"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.2xlarge"
    return old, new


def test_type_of_a_variant_with_components_is_refused():
    old, new = another_type_of_components()
    assert "ProductionVariants/InstanceType" in changes_of(new, Needs.NEW_CLUSTER, old=old)


def test_pcs_type_of_few_nodes_changes_beside_the_old_group():
    small = alter(lambda properties, _: properties["Nodes"]["ScalingConfiguration"].update(MaxInstanceCount=8))
    new = copy.deepcopy(small)
    new["Resources"]["Nodes"]["Properties"].update(Name="p5en", InstanceConfigs=[{"InstanceType": "p5en.48xlarge"}])
    assert changes_of(new, Needs.NEW_CLUSTER, old=small) == set()


ENDING = [
    (
        lambda properties, _: properties["PcsTemplate"]["LaunchTemplateData"].update(UserData="b"),
        {"CustomLaunchTemplate"},
    ),
    (lambda properties, _: properties["Nodes"].update(AmiId="ami-2"), {"CustomLaunchTemplate"}),
    (
        lambda properties, _: properties["Nodes"]["ScalingConfiguration"].update(MaxInstanceCount=10),
        {"ScalingConfiguration/MaxInstanceCount"},
    ),
    (
        lambda properties, _: properties["Template"]["LaunchTemplateData"].update(UserData="b"),
        {"LaunchTemplate"},
    ),
]


@pytest.mark.parametrize("change, paths", ENDING)
def test_update_ending_nodes_is_reported_with_the_effect(change, paths):
    assert changes_of(alter(change), Needs.NOTHING) == paths


def test_new_stack_is_never_refused():
    assert all(not resource.keys for resource in stack_change("s", None, TEMPLATE, REPLACING).resources)


def test_every_service_rule_of_the_table_applies_to_an_update_here():
    updates = [(TEMPLATE, alter(change)) for change, _ in (*REFUSED, *ENDING)]
    updates.append(another_type_of_components())
    reasons = {key.why for old, new in updates for keys in service_changes(old, new).values() for key in keys}
    assert {rule.name for rule in load_service_rules() if rule.why not in reasons} == set()
