"""The stack of a PCS cluster: launch templates as AWS's own, shown equals deployed, and external rules."""

import base64
import hashlib
import json
from email import message_from_string

import pytest
import yaml

from launcher.model import pcs
from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.efa_rules import stack_findings
from launcher.rendering.names import symbolic_names
from tests.checks import some

KIND = "pcs"
GROUP, TEMPLATE, QUEUE = "AWS::PCS::ComputeNodeGroup", "AWS::EC2::LaunchTemplate", "AWS::PCS::Queue"
WITH_FALLBACK = """
slipway: 1
name: small
target:
  {kind: pcs, region: us-east-2, instance_type: p6-b200.48xlarge, nodes: 2, fallback_types: [g5.xlarge],
   ami: ami-0123456789abcdef0}
purchase: {option: on-demand}
"""
RESERVED = """
slipway: 1
name: small
target: {kind: pcs, region: us-east-1, instance_type: p6-b300.48xlarge, nodes: 2}
purchase: {option: on-demand, reservation: {id: cr-0fedcba9876543210, count: 2}}
"""
LAYOUTS = {
    # awsome-distributed-ai 95b939cd, add-cng-p5.yaml, add-cng-p6-b200.yaml: efa on every card, DeviceIndex 1 but on the
    # first; add-cng-p6-b300.yaml: the first card plain, DeviceIndex 0 everywhere.
    "p5.48xlarge": [(0, 0, "efa"), *((card, 1, "efa") for card in range(1, 32))],
    "p5en.48xlarge": [(0, 0, "efa"), *((card, 1, "efa") for card in range(1, 16))],
    "p6-b200.48xlarge": [(0, 0, "efa"), *((card, 1, "efa") for card in range(1, 8))],
    "p6-b300.48xlarge": [(0, 0, None), *((card, 0, "efa") for card in range(1, 17))],
}


@pytest.fixture
def p5en_block(named):
    return named("p5en-capacity-block")


@pytest.fixture
def p5_pcs_spot(named):
    return named("p5-spot")


def groups(assembly):
    """Properties of each node group, with the data of its launch template."""
    templates = assembly.resources("training", TEMPLATE)
    return {
        resource["Name"]: (
            resource,
            templates[resource["CustomLaunchTemplate"]["TemplateId"]["Ref"]]["LaunchTemplateData"],
        )
        for resource in assembly.resources("training", GROUP).values()
    }


def user_data(data):
    return data["UserData"]["Fn::Base64"]


class TestInterfaces:
    @pytest.mark.parametrize("name", LAYOUTS)
    def test_network_interfaces_equal_aws_templates(self, synthesised, p5_pcs_spot, p5en_block, catalog, name):
        others = {"p6-b200.48xlarge": WITH_FALLBACK, "p6-b300.48xlarge": RESERVED}
        assembly = {"p5.48xlarge": p5_pcs_spot, "p5en.48xlarge": p5en_block}.get(name) or synthesised(others[name])
        _, data = groups(assembly)[name.replace(".", "-")]
        network_interfaces = data["NetworkInterfaces"]
        shown = [
            (interface["NetworkCardIndex"], interface["DeviceIndex"], interface.get("InterfaceType"))
            for interface in network_interfaces
        ]
        assert shown == LAYOUTS[name]
        facts = catalog.instance_types[name]
        assert len(network_interfaces) == facts.network_cards
        assert sum(interface.get("InterfaceType") == "efa" for interface in network_interfaces) == facts.efa_interfaces
        assert all(interface["Groups"] and interface["SubnetId"] for interface in network_interfaces)
        assert "SecurityGroupIds" not in data
        assert list(stack_findings(assembly.template("training"), facts)) == []

    def test_type_without_efa_has_no_explicit_interfaces(self, synthesised):
        _, data = groups(synthesised(WITH_FALLBACK))["g5-xlarge"]
        assert "NetworkInterfaces" not in data
        assert len(data["SecurityGroupIds"]) == 1


class TestMachines:
    def test_user_data_is_multipart_within_size_limit(self, example):
        for _, data in some(groups(example).values()):
            text = user_data(data)
            parts = message_from_string(text).get_payload()
            assert [part.get_content_type() for part in parts] == ["text/cloud-config"]
            commands = yaml.safe_load(parts[0].get_payload())["runcmd"]
            assert any("qr(^slurmd) => 0" in command for command in commands)
            assert len(base64.b64encode(text.encode())) <= 16_384

    def test_nodes_require_imdsv2_and_encrypted_volumes(self, example):
        for _, data in some(groups(example).values()):
            assert data["MetadataOptions"]["HttpTokens"] == "required"
            (root,) = data["BlockDeviceMappings"]
            assert (root["DeviceName"], root["Ebs"]["Encrypted"]) == ("/dev/sda1", True)

    def test_compute_node_groups_use_latest_template_version(self, example):
        for group, _ in some(groups(example).values()):
            assert group["CustomLaunchTemplate"]["Version"]["Fn::GetAtt"][1] == "LatestVersionNumber"

    def test_instance_profile_and_role_have_pcs_path(self, example):
        profile = example.only("training", "AWS::IAM::InstanceProfile")
        role = example.resources("training", "AWS::IAM::Role")[profile["Roles"][0]["Ref"]]
        assert profile["Path"] == role["Path"] == pcs.ROLE_PATH
        assert "AWSPCSComputeNodePolicy" in json.dumps(role["ManagedPolicyArns"])

    def test_lifecycle_scripts_pinned_by_checksum(self, example):
        files = {
            hashlib.sha256(path.read_bytes()).hexdigest() for path in example.folder.glob("asset.*") if path.is_file()
        }
        for group, _ in some(groups(example).values()):
            for script in group["NodeLifecycleActions"]["Stages"]["NodeBootstrapped"]:
                assert script["ScriptSource"]["Checksum"] in files
                assert len(script["Arguments"]) <= 20

    def test_launch_templates_have_no_plan_tags(self, example):
        for _, data in some(groups(example).values()):
            keys = {tag["Key"] for specification in data["TagSpecifications"] for tag in specification["Tags"]}
            assert {"slipway:cluster", "slipway:machine"} <= keys
            assert not {"slipway:plan", "slipway:digest"} & keys


class TestCapacity:
    def test_spot_nodes_scale_from_zero_in_placement_group(self, p5_pcs_spot):
        group, data = groups(p5_pcs_spot)["p5-48xlarge"]
        assert group["PurchaseOption"] == "SPOT"
        assert group["ScalingConfiguration"] == {"MinInstanceCount": 0, "MaxInstanceCount": 1}
        assert data["Placement"]["GroupName"]["Ref"]
        assert "CapacityReservationSpecification" not in data

    def test_capacity_block_nodes_have_fixed_size_without_placement_group(self, p5en_block):
        group, data = groups(p5en_block)["p5en-48xlarge"]
        assert group["PurchaseOption"] == "CAPACITY_BLOCK"
        assert group["ScalingConfiguration"] == {"MinInstanceCount": 4, "MaxInstanceCount": 4}
        target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
        assert target == {"CapacityReservationId": "cr-0fedcba9876543210"}
        assert (data["InstanceMarketOptions"], data["InstanceType"]) == (
            {"MarketType": "capacity-block"},
            "p5en.48xlarge",
        )
        assert "Placement" not in data

    def test_reservation_without_block_has_target_and_no_market(self, synthesised):
        _, data = groups(synthesised(RESERVED))["p6-b300-48xlarge"]
        assert "InstanceMarketOptions" not in data
        assert data["CapacityReservationSpecification"]["CapacityReservationTarget"]


class TestCluster:
    def test_cluster_settings_are_supported_by_pcs(self, example):
        cluster = example.only("training", "AWS::PCS::Cluster")
        slurm = cluster["SlurmConfiguration"]
        parameter_values = {
            setting["ParameterName"]: setting["ParameterValue"] for setting in slurm["SlurmCustomSettings"]
        }
        assert parameter_values == dict(pcs.SETTINGS)
        assert set(parameter_values) <= pcs.CLUSTER_SETTINGS
        assert (cluster["Size"], cluster["Scheduler"]) == ("SMALL", {"Type": "SLURM", "Version": "25.11"})
        assert len(cluster["Networking"]["SubnetIds"]) == 1

    def test_login_node_group_is_in_no_queue(self, example):
        named = {group["Name"]: key for key, group in example.resources("training", GROUP).items()}
        queues = example.resources("training", QUEUE).values()
        queued_groups = [
            one["ComputeNodeGroupId"]["Fn::GetAtt"][0]
            for queue in queues
            for one in queue["ComputeNodeGroupConfigurations"]
        ]
        assert named["login"] not in queued_groups
        assert sorted(queued_groups) == sorted(key for name, key in named.items() if name != "login")

    def test_image_is_parameter_unless_plan_names_one(self, example, synthesised):
        assert {json.dumps(group["AmiId"]) for group, _ in groups(example).values()} == {'{"Ref": "ImageId"}'}
        assembly = synthesised(WITH_FALLBACK)
        assert {group["AmiId"] for group, _ in groups(assembly).values()} == {"ami-0123456789abcdef0"}
        assert "ImageId" not in assembly.template("training").get("Parameters", {})

    def test_log_groups_have_vended_log_prefix(self, example):
        names = [
            resource.get("LogGroupName", "")
            for resource in example.resources("training", "AWS::Logs::LogGroup").values()
        ]
        vended = [name for name in names if name]
        assert len(vended) == len(example.resources("training", "AWS::Logs::Delivery")) == 3
        assert all(name.startswith("/aws/vendedlogs/pcs/cluster/PCS_") for name in vended)

    def test_each_fallback_type_has_queue(self, synthesised):
        queues = synthesised(WITH_FALLBACK).resources("training", QUEUE).values()
        assert {queue["Name"] for queue in queues} == {"p6-b200-48xlarge", "g5-xlarge"}

    def test_rendered_files_equal_template(self, example, catalog):
        plan = example.plan
        job = JobSettings(run="r", checkpoint_interval_s=600.0)
        files = render(plan, instances=catalog.instance_types, names=symbolic_names(plan), job=job)
        shown = yaml.safe_load(files.file("cluster.yaml").text)
        assert shown["Cluster"]["Size"] == example.only("training", "AWS::PCS::Cluster")["Size"]
        for node_group in shown["ComputeNodeGroups"]:
            group, data = groups(example)[node_group["Name"]]
            assert group["ScalingConfiguration"] == node_group["ScalingConfiguration"]
            assert group["PurchaseOption"] == node_group["PurchaseOption"]
            assert group["InstanceConfigs"] == [{"InstanceType": node_group["InstanceType"]}]
            assert data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"] == node_group["RootVolume"]["VolumeSize"]
            assert len(data.get("NetworkInterfaces", [])) == len(node_group.get("NetworkInterfaces", []))
            assert ("Placement" in data) == node_group["PlacementGroup"]
