"""Updates that a service refuses although CloudFormation would try them: found in the difference, with the reason."""

import copy

import pytest

from launcher.catalog.updates import load_replacing, load_service_rules
from launcher.cdk import service_rules
from launcher.cdk.difference import stack_change
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
    }
}


def altered(change):
    template = copy.deepcopy(TEMPLATE)
    change({key: resource["Properties"] for key, resource in template["Resources"].items()}, template)
    return template


def refused(change):
    resources = stack_change("s", TEMPLATE, altered(change), REPLACING).resources
    keys = [key for resource in resources for key in resource.keys if key.needs is Needs.NEW_CLUSTER]
    assert all(key.why and key.plan_key for key in keys)
    return {key.path for key in keys}


def another_type(properties, _template):
    properties["Config"]["ProductionVariants"][0]["InstanceType"] = "ml.g6.2xlarge"


def another_variant(properties, template):
    another_type(properties, template)
    properties["Config"]["ProductionVariants"][0]["VariantName"] = "g6-2xlarge"
    properties["Range"]["ResourceId"] = "endpoint/chat/variant/g6-2xlarge"


def components(properties, _template):
    del properties["Config"]["ProductionVariants"][0]["ModelName"]


def another_template(properties, template):
    template["Resources"]["Other"] = template["Resources"].pop("Template")
    properties["Group"]["LaunchTemplate"]["Id"] = {"Ref": "Other"}


def own_image(properties, _template):
    properties["Template"]["LaunchTemplateData"] = {"UserData": "a", "ImageId": "ami-1"}


@pytest.mark.parametrize(
    "change, paths",
    [
        (another_type, {"ProductionVariants/InstanceType"}),
        (another_variant, {"ProductionVariants/VariantName"}),
        (components, {"ProductionVariants"}),
        (lambda properties, _: properties["Shared"].update(StorageCapacity=2400), {"StorageCapacity"}),
        (another_template, {"LaunchTemplate/Id"}),
        (own_image, {"LaunchTemplate"}),
    ],
)
def test_update_that_the_service_refuses_needs_a_new_cluster(change, paths):
    assert refused(change) == paths


def without_scaling(properties, template):
    another_type(properties, template)
    del template["Resources"]["Range"]


@pytest.mark.parametrize(
    "change",
    [
        lambda properties, _: properties["Config"]["ProductionVariants"][0].update(ModelName={"Ref": "Newer"}),
        lambda properties, _: properties["Shared"].update(StorageCapacity=7200),
        lambda properties, _: properties["Template"]["LaunchTemplateData"].update(UserData="b"),
        lambda properties, _: properties["Group"]["LaunchTemplate"].update(Version="2"),
        without_scaling,
    ],
)
def test_update_that_the_service_takes_is_not_refused(change):
    assert refused(change) == set()


def test_new_stack_is_never_refused():
    assert all(not resource.keys for resource in stack_change("s", None, TEMPLATE, REPLACING).resources)


def test_every_rule_of_the_table_is_applied():
    assert {rule.name for rule in load_service_rules()} == set(service_rules._APPLIES)
