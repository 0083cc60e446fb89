"""The stack of an EKS cluster: shown equals deployed, EFA is counted from the catalog, and external rules."""

import hashlib
import json
import re
from collections import Counter

import pytest
import yaml

from launcher.cdk.commands import Assembly as Synthesised
from launcher.cdk.control_part import control_part
from launcher.model.errors import ImpossibleError
from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from launcher.workflow.deploy.steps import OUTPUT_OF_NODES
from tests.checks import some
from tests.infra.conftest import EKS_FILES, HYPERPOD_EKS_FILES
from tests.infra.reading import rules, variables

KIND = "eks"
BASE = """
slipway: 1
name: small
target: {{kind: eks, region: {region}, instance_type: {type}, nodes: {nodes}}}
purchase: {{option: on-demand}}
"""


ASSOCIATION = "AWS::EKS::PodIdentityAssociation"


def statements(assembly):
    """What the pods' role may do, by the names of its statements."""
    (policy,) = assembly.resources("training", "AWS::IAM::ManagedPolicy").values()
    return {statement["Sid"]: statement for statement in policy["PolicyDocument"]["Statement"]}


def last(value):
    """The end of an ARN: what follows the bucket, where that is a reference."""
    return value if isinstance(value, str) else value["Fn::Join"][1][-1]


@pytest.fixture
def p5_block(named):
    return named("p5-capacity-block")


@pytest.fixture
def trn1_spot(named):
    return named("trn1-spot", usd_per_hour="5.9")


def groups(assembly):
    return {
        resource["NodegroupName"]: resource
        for resource in assembly.resources("training", "AWS::EKS::Nodegroup").values()
    }


def user_data_of(data):
    """The texts of a template's user data, without the values that only an account knows."""
    return "".join(part for part in data["UserData"]["Fn::Base64"]["Fn::Join"][1] if isinstance(part, str))


def templates_of(assembly):
    """The launch template's data of each node group, by the group's name."""
    launch_templates = assembly.resources("training", "AWS::EC2::LaunchTemplate")
    return {
        name: launch_templates[group["LaunchTemplate"]["Id"]["Ref"]]["LaunchTemplateData"]
        for name, group in groups(assembly).items()
    }


def show(assembly, catalog):
    """The cluster's file as it is shown."""
    job = JobSettings(run="r", checkpoint_interval_s=600.0)
    names = symbolic_names(assembly.plan)
    files = render(assembly.plan, instances=catalog.instance_types, names=names, job=job)
    return yaml.safe_load(files.file("cluster.yaml").text)


class TestControlPlane:
    def test_control_plane_is_private_logged_and_uses_access_entries(self, p5_block):
        cluster = p5_block.only("training", "AWS::EKS::Cluster")
        assert cluster["ResourcesVpcConfig"]["EndpointPrivateAccess"] is True
        assert cluster["ResourcesVpcConfig"]["EndpointPublicAccess"] is False
        assert "PublicAccessCidrs" not in cluster["ResourcesVpcConfig"]
        assert cluster["UpgradePolicy"] == {"SupportType": "STANDARD"}
        assert cluster["AccessConfig"] == {
            "AuthenticationMode": "API",
            "BootstrapClusterCreatorAdminPermissions": False,
        }
        types = {enabled_type["Type"] for enabled_type in cluster["Logging"]["ClusterLogging"]["EnabledTypes"]}
        assert types == {"api", "audit", "authenticator", "controllerManager", "scheduler"}
        logs = p5_block.resources("training", "AWS::Logs::LogGroup").values()
        assert any(log.get("LogGroupName") == "/aws/eks/slipway-p5-eks/cluster" for log in logs)

    def test_public_api_access_limited_to_plan_ranges(self, synthesised):
        assembly = synthesised(EKS_FILES["trn1-spot"].read_text() + "network: {api_cidrs: [52.94.76.0/24]}\n")
        access = assembly.only("training", "AWS::EKS::Cluster")["ResourcesVpcConfig"]
        assert (access["EndpointPublicAccess"], access["PublicAccessCidrs"]) == (True, ["52.94.76.0/24"])

    @pytest.mark.parametrize("path", [*EKS_FILES.values(), *HYPERPOD_EKS_FILES.values()], ids=lambda path: path.stem)
    def test_control_plane_part_deploys_before_nodes(self, synthesised, plan_at, tmp_path, path):
        """What is deployed first is of the templates that were shown, and refers to nothing that comes later."""
        whole = Synthesised.read(synthesised(plan_at(path)).folder)
        part = control_part(whole, tmp_path / "part")
        assert part.digests == whole.digests
        (name,) = (stack for stack in part.stacks if stack.endswith("-training"))
        first, all_ = (json.loads(assembly.templates[name].read_text()) for assembly in (part, whole))
        types = {resource["Type"] for resource in first["Resources"].values()}
        assert {"AWS::EKS::Cluster", "AWS::EKS::AccessEntry"} <= types
        assert not types & {"AWS::EKS::Nodegroup", "AWS::SageMaker::Cluster", "AWS::EKS::Addon"}
        assert first["Resources"].items() <= all_["Resources"].items()
        assert {"ClusterName", "ClusterEndpoint", "AccessRoleArn", "PlanDigest"} <= set(first["Outputs"])
        assert OUTPUT_OF_NODES in set(all_["Outputs"]) - set(first["Outputs"])
        named = re.findall(r'"(?:Ref|Fn::GetAtt)": (?:\[)?"(\w+)"', json.dumps([first["Resources"], first["Outputs"]]))
        assert set(named) & all_["Resources"].keys() <= first["Resources"].keys()
        # The CLI uploads a template under the digest of its text, once.
        digest = hashlib.sha256(part.templates[name].read_bytes()).hexdigest()
        assert digest in (part.folder / "manifest.json").read_text()
        assert digest not in (whole.folder / "manifest.json").read_text()
        for other in set(part.stacks) - {name}:
            assert part.templates[other].read_bytes() == whole.templates[other].read_bytes()

    def test_control_plane_interfaces_are_in_two_zones(self, example):
        subnets = example.resources("training", "AWS::EC2::Subnet").values()
        zones = [subnet["AvailabilityZoneId"] for subnet in subnets]
        assert len(set(zones)) == 2
        assert example.plan.place.az_id in zones
        assert all(subnet["CidrBlock"].endswith("/28") for subnet in subnets)

    def test_every_addon_has_pinned_version(self, example):
        addons = example.resources("training", "AWS::EKS::Addon").values()
        assert {addon["AddonName"] for addon in addons} >= {
            "vpc-cni",
            "kube-proxy",
            "coredns",
            "eks-pod-identity-agent",
        }
        assert all(re.fullmatch(r"v\d+\.\d+\.\d+-eksbuild\.\d+", addon["AddonVersion"]) for addon in addons)

    def test_rendered_cluster_file_equals_template(self, example, catalog):
        file = show(example, catalog)
        cluster, outputs = example.only("training", "AWS::EKS::Cluster"), file["Cluster"]
        assert (outputs["Name"], outputs["Version"]) == (cluster["Name"], cluster["Version"])
        addons = example.resources("training", "AWS::EKS::Addon").values()
        assert {(addon["AddonName"], addon["AddonVersion"]) for addon in file["Addons"]} == {
            (addon["AddonName"], addon["AddonVersion"]) for addon in addons
        }
        for outputs in file["NodeGroups"]:
            group, data = groups(example)[outputs["NodegroupName"]], templates_of(example)[outputs["NodegroupName"]]
            for key in ("AmiType", "CapacityType", "ScalingConfig"):
                assert outputs[key] == group[key]
            assert outputs["InstanceType"] == data["InstanceType"]
            assert outputs["RootVolumeGib"] == data["BlockDeviceMappings"][0]["Ebs"]["VolumeSize"]
            interfaces = [
                {key: interface[key] for key in ("NetworkCardIndex", "DeviceIndex", "InterfaceType")}
                for interface in data.get("NetworkInterfaces", [])
            ]
            assert outputs.get("NetworkInterfaces", []) == interfaces


class TestOrder:
    """Nodes come after what they cannot do without, and pods after nodes."""

    def test_node_groups_depend_on_network_and_addons(self, example):
        resources = example.template("training")["Resources"]
        names = {
            resource["Properties"]["AddonName"]: key
            for key, resource in resources.items()
            if resource["Type"] == "AWS::EKS::Addon"
        }
        kinds = Counter(resource["Type"] for resource in resources.values())
        for resource in resources.values():
            if resource["Type"] == "AWS::EKS::Nodegroup":
                assert {names[addon] for addon in ("vpc-cni", "kube-proxy")} <= set(resource["DependsOn"])
                assert any("ToItself" in other for other in resource["DependsOn"])
        assert kinds["AWS::EKS::Nodegroup"] == 2

    def test_coredns_depends_on_system_nodes_and_not_workers(self, example):
        resources = example.template("training")["Resources"]
        (coredns,) = (
            resource
            for resource in resources.values()
            if resource["Type"] == "AWS::EKS::Addon" and resource["Properties"]["AddonName"] == "coredns"
        )
        waited = [resources[key]["Properties"].get("NodegroupName") for key in coredns["DependsOn"]]
        assert "system" in waited
        assert "workers" not in waited


class TestNodes:
    @pytest.mark.parametrize(
        "name,interfaces,addresses",
        [
            ("p5.48xlarge", 32, 1),
            ("p5en.48xlarge", 16, 1),
            ("p4d.24xlarge", 4, 1),
            ("p6-b300.48xlarge", 16, 1),
            ("trn2.48xlarge", 16, 1),
            ("g5.xlarge", 0, 0),
        ],
    )
    def test_efa_interfaces_of_nodes_equal_catalog(self, synthesised, name, interfaces, addresses):
        image = "run: {image: team/trainer:1}\n"
        region = "us-west-2" if name == "p6-b300.48xlarge" else "us-east-2"
        assembly = synthesised(BASE.format(region=region, type=name, nodes=1 if name == "g5.xlarge" else 2) + image)
        data = templates_of(assembly)["workers"]
        kinds = Counter(interface["InterfaceType"] for interface in data.get("NetworkInterfaces", []))
        assert (kinds["efa-only"], kinds["interface"]) == (interfaces, addresses)
        places = [
            (interface["NetworkCardIndex"], interface["DeviceIndex"]) for interface in data.get("NetworkInterfaces", [])
        ]
        assert len(set(places)) == len(places)
        assert all("SubnetId" not in interface for interface in data.get("NetworkInterfaces", []))
        for interface in data.get("NetworkInterfaces", [{"Groups": data.get("SecurityGroupIds")}]):
            assert len(interface["Groups"]) == 2, "EKS's own group lets nodes reach the control plane"
        together = assembly.resources("training", "AWS::EC2::PlacementGroup")
        assert [group["Strategy"] for group in together.values()] == (["cluster"] if interfaces else [])

    def test_capacity_block_node_group_stays_at_size_without_placement_group(self, p5_block):
        group, data = groups(p5_block)["workers"], templates_of(p5_block)["workers"]
        assert (group["CapacityType"], group["AmiType"]) == ("CAPACITY_BLOCK", "AL2023_x86_64_NVIDIA")
        # Before the block begins a node would fail the group, and the stack with it: a launch sets them.
        assert group["ScalingConfig"] == {"MinSize": 0, "MaxSize": 2, "DesiredSize": 0}
        assert data["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
        target = data["CapacityReservationSpecification"]["CapacityReservationTarget"]
        assert target == {"CapacityReservationId": "cr-0123456789abcdef0"}
        assert p5_block.resources("training", "AWS::EC2::PlacementGroup") == {}

    def test_spot_neuron_node_group_has_ami_taint_and_raid0(self, trn1_spot):
        group, data = groups(trn1_spot)["workers"], templates_of(trn1_spot)["workers"]
        assert (group["CapacityType"], group["AmiType"]) == ("SPOT", "AL2023_x86_64_NEURON")
        assert group["ScalingConfig"]["MinSize"] == 0
        # The cluster's own pods stay off nodes that come and go; the agents of every node do not.
        (taint,) = group["Taints"]
        assert (taint["Key"], taint["Effect"]) == ("aws.amazon.com/neuron", "PREFER_NO_SCHEDULE")
        assert "Taints" not in groups(trn1_spot)["system"]
        assert "strategy: RAID0" in user_data_of(data)
        # Nodes report whether they joined, each stack below its own folder; the system node is no try of theirs.
        assert "/opt/slipway/joined.sh" in user_data_of(data)
        assert "AWS::StackId" in json.dumps(data["UserData"])
        assert "UserData" not in templates_of(trn1_spot)["system"]
        assert data["MetadataOptions"] == {"HttpPutResponseHopLimit": 1, "HttpTokens": "required"}

    def test_launch_template_contains_no_plan_digest(self, example):
        """A tag that changes with every plan would be a new launch template, which EKS rolls out."""
        for data in some(templates_of(example).values()):
            assert example.plan.digest not in json.dumps(data)


class TestRights:
    def test_pods_assume_role_through_pod_identity(self, example):
        associations = example.resources("training", ASSOCIATION).values()
        assert {(association["Namespace"], association["ServiceAccount"]) for association in associations} == {
            ("slipway", example.plan.name),
            ("hyperpod-slipway", example.plan.name),
        }
        roles = example.resources("training", "AWS::IAM::Role")
        (name,) = {association["RoleArn"]["Fn::GetAtt"][0] for association in associations}
        (trust,) = roles[name]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "pods.eks.amazonaws.com"}
        assert set(trust["Action"]) == {"sts:AssumeRole", "sts:TagSession"}

    def test_cluster_access_role_trusts_plan_principals(self, synthesised):
        arns = [f"arn:aws:iam::123456789012:{principal}" for principal in ("role/team/trains", "user/pipeline")]
        named = f"security: {{kubernetes_access: {json.dumps(arns)}}}\n"
        for files, name in ((EKS_FILES, "trn1-spot"), (HYPERPOD_EKS_FILES, "p5en-spot")):
            roles = synthesised(files[name].read_text() + named).resources("training", "AWS::IAM::Role")
            access = next(role for key, role in roles.items() if key.startswith("EksAccess"))
            (trust,) = access["AssumeRolePolicyDocument"]["Statement"]
            assert trust["Principal"] == {"AWS": arns}

    def test_launcher_role_has_cluster_admin_access_entry(self, example):
        entries = example.resources("training", "AWS::EKS::AccessEntry").values()
        (entry,) = [entry for entry in entries if "ClusterAdmin" in json.dumps(entry["AccessPolicies"])]
        role = example.resources("training", "AWS::IAM::Role")[entry["PrincipalArn"]["Fn::GetAtt"][0]]
        assert "Policies" not in role
        assert "ManagedPolicyArns" not in role
        assert example.template("training")["Outputs"]["AccessRoleArn"]["Value"] == entry["PrincipalArn"]

    def test_pod_counter_of_guard_has_view_access(self, example):
        from infra.parts.guardrails import guard_of

        entries = example.resources("training", "AWS::EKS::AccessEntry").values()
        (entry,) = [entry for entry in entries if "ClusterAdmin" not in json.dumps(entry["AccessPolicies"])]
        assert "AmazonEKSViewPolicy" in json.dumps(entry["AccessPolicies"])
        functions = example.resources("training", "AWS::Lambda::Function")
        ((key, counter),) = [item for item in functions.items() if item[1]["Handler"] == "chart.handler"]
        assert counter["Role"] == entry["PrincipalArn"]
        assert all(len(counter["VpcConfig"][field]) == 1 for field in ("SubnetIds", "SecurityGroupIds"))
        assert counter["MemorySize"] == guard_of(example.plan).counter_mb, "the bill counts it"
        assert variables(example)["PODS_FUNCTION"] == {"Fn::GetAtt": [key, "Arn"]}

    def test_access_role_only_manages_pod_identity_associations(self, example):
        outputs = example.template("training")["Outputs"]
        (access,) = outputs["AccessRoleArn"]["Value"]["Fn::GetAtt"][:1]
        (lends,) = (
            resource["PolicyDocument"]
            for resource in example.resources("training", "AWS::IAM::Policy").values()
            if {"Ref": access} in resource["Roles"]
        )
        (key,) = example.resources("training", "AWS::EKS::Cluster")
        statements_by_key = {statement["Sid"]: statement for statement in lends["Statement"]}
        assert set(statements_by_key) == {"AssociatePods", "DisassociatePods", "GetRole", "PassRole"}
        assert statements_by_key["AssociatePods"]["Resource"] == {"Fn::GetAtt": [key, "Arn"]}
        name = example.resources("training", "AWS::EKS::Cluster")[key]["Name"]
        assert (
            statements_by_key["DisassociatePods"]["Resource"]["Fn::Join"][1][-1] == f":podidentityassociation/{name}/*"
        )
        assert (
            statements_by_key["GetRole"]["Resource"]
            == statements_by_key["PassRole"]["Resource"]
            == outputs["PodRoleArn"]["Value"]
        )
        assert statements_by_key["PassRole"]["Condition"] == {
            "StringEquals": {"iam:PassedToService": "pods.eks.amazonaws.com"}
        }

    def test_pods_write_only_folder_of_service_account(self, example):
        statements_by_sid = statements(example)
        account_folder, message_folder = (
            "/jobs/${aws:PrincipalTag/kubernetes-service-account}",
            "/jobs/.guard/*/messages/*",
        )
        writing = {
            statement["Sid"]: last(statement["Resource"])
            for statement in statements_by_sid.values()
            if statement["Effect"] == "Allow" and statement["Action"] not in ("s3:GetObject", "s3:ListBucket")
        }
        denied = statements_by_sid["DenyGuardWrites"]
        assert denied["Effect"] == "Deny"
        assert [last(resource) for resource in denied["Resource"]] == ["/jobs/.budget/*", "/jobs/.guard/*/sent/*"]
        compiled = {"WriteCompileCache": "/jobs/.compile-cache/*"} if "WriteCompileCache" in statements_by_sid else {}
        assert writing == {
            "WriteCheckpoints": f"{account_folder}/*",
            "MarkSuperseded": f"{account_folder}/*",
            "DeleteJournal": f"{account_folder}/.runs/*",
            "WriteMessages": message_folder,
            **compiled,
        }
        assert last(statements_by_sid["ReadCheckpoints"]["Resource"]) == "/jobs/*"
        tags = {resource.get("DisableSessionTags") for resource in example.resources("training", ASSOCIATION).values()}
        assert tags == {None}, "without session tags nothing could be written"

    def test_pods_at_planned_uri_have_root_only_for_plan_account(self, synthesised):
        text = BASE.format(region="us-east-2", type="p5.48xlarge", nodes=1)
        assembly = synthesised(f"{text}checkpoint: {{uri: s3://team/runs}}\n")
        statements_by_sid = statements(assembly)
        tag = "aws:PrincipalTag/kubernetes-service-account"
        for sid, below in (("WriteCheckpoints", ""), ("MarkSuperseded", ""), ("DeleteJournal", ".runs/")):
            assert last(statements_by_sid[sid]["Resource"]).endswith(f":s3:::team/runs/${{{tag}}}/{below}*")
            whole = statements_by_sid[f"{sid}WherePlanned"]
            assert last(whole["Resource"]).endswith(f":s3:::team/runs/{below}*")
            assert whole["Condition"]["StringEquals"][tag] == assembly.plan.name

    def test_own_checkpoints_writable_only_by_plan_account(self, synthesised):
        text = BASE.format(region="us-east-2", type="p5.48xlarge", nodes=1)
        assembly = synthesised(f"{text}checkpoint: {{mode: own, uri: s3://team/runs}}\n")
        statements_by_sid = statements(assembly)
        assert last(statements_by_sid["WriteOwnCheckpoints"]["Resource"]) == ":s3:::team/runs/*"
        tag = "aws:PrincipalTag/kubernetes-service-account"
        for sid in ("WriteOwnCheckpoints", "ListOwnCheckpoints"):
            assert statements_by_sid[sid]["Condition"]["StringEquals"] == {tag: assembly.plan.name}

    def test_guard_scales_only_worker_node_group(self, trn1_spot, p5_block):
        guard_variables = variables(trn1_spot)
        assert (guard_variables["EKS"], guard_variables["PREPAID"], guard_variables["USD_PER_NODE_HOUR"]) == (
            "slipway-trn1-eks",
            "false",
            "2.950000",
        )
        handlers = {
            resource["Handler"] for resource in trn1_spot.resources("training", "AWS::Lambda::Function").values()
        }
        assert handlers == {"eks.handler", "chart.handler"}
        assert set(rules(trn1_spot)) == {"Schedule", "Notices"}
        assert set(rules(p5_block)) == {"Schedule", "BlockEnds"}
        text = json.dumps(list(trn1_spot.resources("training", "AWS::IAM::Role").values()))
        assert "eks:UpdateNodegroupConfig" in text
        assert "nodegroup/slipway-trn1-eks/workers/*" in text


class TestRefusals:
    @pytest.mark.parametrize(
        "extra,code",
        [
            ("storage: {lustre_gib: 1200}", "eks-unused"),
            ("network: {vpc_id: vpc-0123456789abcdef0, subnet_ids: [subnet-0123456789abcdef0]}", "one-zone"),
            ("network: {name: team, az_ids: [use2-az1]}", "one-zone"),
        ],
    )
    def test_unsupported_options_on_eks_refused(self, synthesised, extra, code):
        with pytest.raises(ImpossibleError) as refusal:
            synthesised(BASE.format(region="us-east-2", type="p5.48xlarge", nodes=2) + extra + "\n")
        assert [finding.code for finding in refusal.value.findings] == [code]

    def test_cluster_in_shared_network_creates_no_subnets(self, synthesised):
        shared = "network: {name: team, az_ids: [use2-az1, use2-az2]}\n"
        assembly = synthesised(BASE.format(region="us-east-2", type="p5.48xlarge", nodes=2) + shared)
        assert assembly.resources("training", "AWS::EC2::Subnet") == {}
        assert len(assembly.only("training", "AWS::EKS::Cluster")["ResourcesVpcConfig"]["SubnetIds"]) == 2
