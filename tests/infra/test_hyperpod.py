"""HyperPod with Slurm: the shown cluster, its rules, role, scripts and file system."""

import json
import re

import pytest
import yaml

from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.rendering.names import HYPERPOD_OUTPUTS, symbolic_names
from launcher.targets.hyperpod_slurm.files import cluster_text, lifecycle_files
from tests.checks import some
from tests.infra.conftest import HYPERPOD_FILES
from tests.infra.reading import garbage, with_words
from tests.plans import request_of

KIND = "hyperpod-slurm"
CLUSTER = "AWS::SageMaker::Cluster"


def cluster(assembly):
    return assembly.only("training", CLUSTER)


def groups(assembly):
    return {group["InstanceGroupName"]: group for group in cluster(assembly)["InstanceGroups"]}


def statements(assembly):
    """Of the machines' role, by their name."""
    roles = assembly.resources("training", "AWS::IAM::Role").values()
    (role,) = (role for role in roles if "sagemaker.amazonaws.com" in json.dumps(role["AssumeRolePolicyDocument"]))
    return role, {statement["Sid"]: statement for statement in role["Policies"][0]["PolicyDocument"]["Statement"]}


class TestCluster:
    def test_cluster_template_equals_rendered_file(self, example, catalog):
        """Every id in the template is exchanged for the word that stands for it in the rendered file."""
        plan, facts = example.plan, catalog.instance_types
        text = cluster_text(plan, instances=facts, names=symbolic_names(plan))
        shown, properties = yaml.safe_load(text), cluster(example)
        assert {tag["Key"]: tag["Value"] for tag in properties.pop("Tags")} == {
            tag["Key"]: tag["Value"] for tag in shown.pop("Tags")
        }
        assert with_words(properties, shown) == shown

    def test_slurm_has_one_controller_and_workers_in_queue_of_type(self, example):
        instance_groups = groups(example)
        parts = {name: group["SlurmConfig"]["NodeType"] for name, group in instance_groups.items()}
        assert parts["controller"] == "Controller"
        assert parts["workers"] == "Compute"
        assert instance_groups["controller"]["InstanceCount"] == 1
        assert "PartitionNames" not in instance_groups["controller"]["SlurmConfig"]
        place = example.plan.place
        assert instance_groups["workers"]["SlurmConfig"]["PartitionNames"] == [place.instance_type.replace(".", "-")]
        assert (instance_groups["workers"]["InstanceType"], instance_groups["workers"]["InstanceCount"]) == (
            f"ml.{place.instance_type}",
            place.nodes,
        )

    def test_faulty_instances_are_replaced_after_deep_health_checks(self, example):
        assert cluster(example)["NodeRecovery"] == "Automatic"
        assert groups(example)["workers"]["OnStartDeepHealthChecks"] == ["InstanceStress", "InstanceConnectivity"]
        assert "OnStartDeepHealthChecks" not in groups(example)["controller"]

    def test_slurm_config_strategy_is_merge(self, example):
        assert cluster(example)["Orchestrator"] == {"Slurm": {"SlurmConfigStrategy": "Merge"}}

    def test_training_plan_applies_only_to_workers(self, named):
        instance_groups = groups(named("p5-training-plan"))
        arn = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/p5-december"
        assert instance_groups["workers"]["TrainingPlanArn"] == arn
        assert "TrainingPlanArn" not in instance_groups["controller"]
        assert "NodeProvisioningMode" not in cluster(named("p5-training-plan"))

    def test_login_nodes_are_separate_instance_group(self, named):
        login = groups(named("trn2-on-demand"))["login"]
        assert (login["SlurmConfig"], login["InstanceType"]) == ({"NodeType": "Login"}, "ml.m6i.large")
        assert "login" not in groups(named("p5-training-plan"))

    def test_spot_workers_use_continuous_provisioning(self, synthesised):
        text = (
            "{slipway: 1, name: spot-pod, target: {kind: hyperpod-slurm, region: us-east-2, instance_type: p5.48xlarge,"
            " nodes: 1, efa_layout: classic}, purchase: {option: spot}}"
        )
        pod = synthesised(text)
        assert groups(pod)["workers"]["CapacityRequirements"] == {"Spot": {}}
        assert groups(pod)["workers"]["NetworkInterface"] == {"InterfaceType": "efa"}
        assert cluster(pod)["NodeProvisioningMode"] == "Continuous"
        assert pod.template("training")["Parameters"].keys() == {"BootstrapVersion"}

    def test_cluster_subnets_are_in_zone_of_capacity(self, named):
        network = named("p5-training-plan").resources("network", "AWS::EC2::Subnet").values()
        assert {subnet["AvailabilityZoneId"] for subnet in network} == {"use2-az1"}


class TestSecurityGroups:
    def test_security_groups_allow_efa_between_members(self, example):
        inward = example.resources("training", "AWS::EC2::SecurityGroupIngress").values()
        outward = example.resources("training", "AWS::EC2::SecurityGroupEgress").values()
        for group in some(cluster(example)["VpcConfig"]["SecurityGroupIds"]):
            rule = {"GroupId": group, "IpProtocol": "-1"}
            assert any({**rule, "SourceSecurityGroupId": group}.items() <= ingress.items() for ingress in inward)
            assert any({**rule, "DestinationSecurityGroupId": group}.items() <= egress.items() for egress in outward)

    def test_nodes_have_outbound_internet_and_no_inbound(self, example):
        group = example.only("training", "AWS::EC2::SecurityGroup")
        assert [egress["CidrIp"] for egress in group["SecurityGroupEgress"]] == ["0.0.0.0/0"]
        outward = example.resources("training", "AWS::EC2::SecurityGroupEgress").values()
        assert not [egress for egress in outward if "CidrIp" in egress]
        for resource in example.resources("training", "AWS::EC2::SecurityGroupIngress").values():
            assert "CidrIp" not in resource

    def test_cluster_depends_on_rules_and_file_system(self, example):
        resources = example.template("training")["Resources"]
        (waits,) = (set(resource["DependsOn"]) for resource in resources.values() if resource["Type"] == CLUSTER)
        kinds = {"AWS::EC2::SecurityGroupIngress", "AWS::EC2::SecurityGroupEgress", "AWS::FSx::FileSystem"}
        assert {key for key, resource in resources.items() if resource["Type"] in kinds} <= waits


class TestFileSystem:
    def test_every_instance_group_mounts_file_system(self, example):
        (key,) = example.resources("training", "AWS::FSx::FileSystem")
        for group in some(groups(example).values()):
            mount = group["InstanceStorageConfigs"][0]["FsxLustreConfig"]
            assert mount == {
                "DnsName": {"Fn::GetAtt": [key, "DNSName"]},
                "MountName": {"Fn::GetAtt": [key, "LustreMountName"]},
                "MountPath": "/fsx",
            }

    def test_plan_without_storage_gets_default_file_system(self, named):
        assert named("trn2-on-demand").only("training", "AWS::FSx::FileSystem")["StorageCapacity"] == 1200
        assert named("trn2-on-demand").resources("training", "AWS::FSx::DataRepositoryAssociation") == {}

    def test_plan_storage_sets_size_key_and_data(self, named):
        pod = named("p5en-lustre")
        file_system, data = (
            pod.only("training", f"AWS::FSx::{kind}") for kind in ("FileSystem", "DataRepositoryAssociation")
        )
        assert (file_system["StorageCapacity"], file_system["LustreConfiguration"]["PerUnitStorageThroughput"]) == (
            9600,
            250,
        )
        assert file_system["KmsKeyId"] == pod.plan.request.storage.kms_key_arn
        assert (data["DataRepositoryPath"], data["FileSystemPath"]) == ("s3://corpus-of-the-team/tokens", "/data")
        volume = groups(pod)["workers"]["InstanceStorageConfigs"][1]["EbsVolumeConfig"]
        assert volume == {"RootVolume": True, "VolumeKmsKeyId": pod.plan.request.storage.kms_key_arn}
        # AWS accepts a key only in this mode.
        assert cluster(pod)["NodeProvisioningMode"] == "Continuous"


class TestScripts:
    def test_lifecycle_scripts_uploaded_to_folder_named_by_digest(self, example, catalog):
        assets = json.loads((example.folder / f"slipway-{example.plan.cluster_name}-training.assets.json").read_text())
        scripts = {}
        for file in assets["files"].values():
            (place,) = file["destinations"].values()
            folder, _, name = place["objectKey"].rpartition("/")
            if folder:
                scripts[name] = (folder, (example.folder / file["source"]["path"]).read_text())
        assert {name: text for name, (_, text) in scripts.items()} == lifecycle_files(
            example.plan, catalog.instance_types
        )
        (folder,) = {folder for folder, _ in scripts.values()}
        assert re.fullmatch(r"slipway-hyperpod/[0-9a-f]{64}", folder)
        for group in groups(example).values():
            assert group["LifeCycleConfig"]["OnInitComplete"] == "on_create.sh"
            assert group["LifeCycleConfig"]["SourceS3Uri"]["Fn::Join"][1][-1] == f"/{folder}"

    def test_lifecycle_folder_changes_with_plan(self, named):
        uris = {json.dumps(groups(named(name))["workers"]["LifeCycleConfig"]["SourceS3Uri"]) for name in HYPERPOD_FILES}
        assert len(uris) == len(HYPERPOD_FILES)

    def test_asset_garbage_collection_keeps_lifecycle_scripts(self, example):
        """A machine that is replaced fetches them anew."""
        assert garbage(example) == []


class TestRole:
    def test_node_role_reads_only_lifecycle_folder(self, example):
        _, statements_by_sid = statements(example)
        assert statements_by_sid["GetScripts"]["Action"] == "s3:GetObject"
        assert re.search(
            r"/slipway-hyperpod/[0-9a-f]{64}/\*$", statements_by_sid["GetScripts"]["Resource"]["Fn::Join"][1][-1]
        )
        assert "slipway-hyperpod/" in json.dumps(statements_by_sid["ListScripts"]["Condition"])

    def test_role_actions_have_no_wildcard_and_star_resources_are_listed(self, example):
        for role in some(example.resources("training", "AWS::IAM::Role").values()):
            for statement in role["Policies"][0]["PolicyDocument"]["Statement"]:
                actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
                assert not [action for action in actions if "*" in action]
                if statement["Resource"] == "*":
                    assert statement["Sid"] in ("Describe", "DescribeNetwork", "PutMetrics")

    def test_node_role_creates_interfaces_only_in_cluster_subnet(self, example):
        _, statements_by_sid = statements(example)
        text = json.dumps(statements_by_sid["CreateInterfaces"]["Resource"])
        assert ":subnet/*" not in text
        assert ":security-group/*" not in text

    def test_node_role_changes_interfaces_only_in_cluster_subnet(self, example):
        _, statements_by_sid = statements(example)
        for sid, statement in statements_by_sid.items():
            actions = {statement["Action"]} if isinstance(statement["Action"], str) else set(statement["Action"])
            if sid in ("CreateInterfaces", "DetachNetworkInterfaces", "TagInterfaces") or not [
                action for action in actions if action.startswith("ec2:")
            ]:
                continue
            if statement["Resource"] == "*":
                assert all(action.startswith("ec2:Describe") for action in actions)
                continue
            (subnet,) = (
                arn for arn in statements_by_sid["CreateInterfaces"]["Resource"] if ":subnet/" in json.dumps(arn)
            )
            assert statement["Condition"] == {"ArnLike": {"ec2:Subnet": subnet}}, sid
            assert ":network-interface/*" in json.dumps(statement["Resource"])
        assert statements_by_sid["DetachNetworkInterfaces"]["Action"] == "ec2:DetachNetworkInterface"
        assert ":instance/*" in json.dumps(statements_by_sid["DetachNetworkInterfaces"]["Resource"])

    def test_sagemaker_assumes_role_without_unmeetable_condition(self, example):
        role, statements_by_sid = statements(example)
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert (trust["Principal"], "Condition" in trust) == ({"Service": "sagemaker.amazonaws.com"}, False)
        assert statements_by_sid["TagInterfaces"]["Action"] == "ec2:CreateTags"
        assert "Condition" not in statements_by_sid["TagInterfaces"]

    def test_node_role_has_aws_managed_and_job_policies(self, example):
        role, _ = statements(example)
        (jobs,) = example.resources("training", "AWS::IAM::ManagedPolicy")
        assert {"Ref": jobs} in role["ManagedPolicyArns"]
        assert "AmazonSageMakerClusterInstanceRolePolicy" in json.dumps(role["ManagedPolicyArns"])

    def test_permissions_boundary_on_every_role(self, named):
        roles = named("p5en-lustre").resources("training", "AWS::IAM::Role").values()
        arn = "arn:aws:iam::123456789012:policy/engineers"
        assert [role["PermissionsBoundary"] for role in roles] == [arn, arn]


class TestOutputs:
    def test_outputs_contain_values_for_rendering(self, example):
        outputs = example.template("training")["Outputs"]
        hyperpod_outputs = set(HYPERPOD_OUTPUTS.values()) - {"EksArn"}
        assert hyperpod_outputs | {"StoreUri", "PrivateSubnetId", "NodePolicyArn"} <= set(outputs)

    def test_outputs_contain_connect_and_start_fleet_commands(self, named):
        outputs = named("p5-training-plan").template("training")["Outputs"]
        connect = json.dumps(outputs["Connect"]["Value"])
        assert '--target \\\\\\"sagemaker-cluster:' in json.dumps(connect)
        assert "aws sagemaker list-cluster-nodes --region us-east-2 --cluster-name slipway-p5-plan" in connect
        start = outputs["StartFleet"]["Value"]["Fn::Join"][1]
        command = "".join(part if isinstance(part, str) else "token" for part in start)
        (group,) = json.loads(re.search(r"--instance-groups '(.*)'$", command).group(1))
        assert (group["InstanceGroupName"], group["InstanceCount"]) == ("workers", 2)


@pytest.mark.parametrize(
    "extra, code",
    [
        ({"purchase": {"option": "capacity-block"}}, "hyperpod-ec2-capacity"),
        ({"purchase": {"option": "training-plan"}}, "plan-without-arn"),
        ({"target": {"instance_type": "trn1.2xlarge"}}, "not-on-hyperpod"),
        ({"target": {"region": "eu-west-3"}}, "not-offered"),
        ({"network": {"cidr": "10.0.0.0/25"}}, "too-few-addresses"),
        ({"target": {"cluster": "shared"}}, "nothing-to-build"),
    ],
)
def test_invalid_plan_refused_before_synthesis(catalog, tmp_path, extra, code):
    from infra.build import build_app

    target = {"kind": "hyperpod-slurm", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 4}
    plan = {"slipway": 1, "name": "bad", "target": target, "purchase": {"option": "on-demand"}, **extra}
    plan["target"] = {**target, **extra.get("target", {})}
    with pytest.raises(ImpossibleError) as refusal:
        build_app(pinned_plan(request_of(plan), catalog), outdir=tmp_path)
    assert code in {finding.code for finding in refusal.value.findings}
    assert list(tmp_path.iterdir()) == []
