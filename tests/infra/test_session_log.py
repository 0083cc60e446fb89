"""`security.session_log` and `network.security_group_ids` in the templates of clusters."""

import json

import pytest

from tests.checks import some
from tests.infra.registry import schemas

KEY = "arn:aws:kms:us-east-2:123456789012:key/00000000-0000-0000-0000-000000000000"
PLAN = """
slipway: 1
name: entered
target: {{kind: {kind}, region: us-east-2, instance_type: p5.48xlarge, nodes: 2, az_id: use2-az1}}
purchase: {{option: on-demand}}
network: {{vpc_id: vpc-0a1b2c3d4e5f60718, subnet_ids: [subnet-0a1b2c3d4e5f60718], security_group_ids: {groups}}}
storage: {{kms_key_arn: {key}, login_nodes: {logins}}}
security: {{session_log: {logged}}}
"""
GROUP = "sg-0a1b2c3d4e5f60718"


@pytest.fixture(scope="module")
def logged(synthesised):
    return synthesised(PLAN.format(kind="parallelcluster", groups=f"[{GROUP}]", key=KEY, logins=1, logged="true"))


def only(assembly, kind, prefix):
    matching = {
        key: resource for key, resource in assembly.resources("training", kind).items() if key.startswith(prefix)
    }
    ((key, resource),) = matching.items()
    return key, resource


def configuration(assembly):
    return assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]


def test_the_document_writes_to_a_group_that_outlives_the_stack(logged):
    name, log = only(logged, "AWS::Logs::LogGroup", "SessionLog")
    _, document = only(logged, "AWS::SSM::Document", "SessionLog")
    assert (log["KmsKeyId"], logged.template("training")["Resources"][name]["DeletionPolicy"]) == (KEY, "Retain")
    assert document["DocumentType"] == "Session"
    assert document["Content"]["sessionType"] == "Standard_Stream"
    assert document["Content"]["inputs"] == {
        "cloudWatchLogGroupName": {"Ref": name},
        "cloudWatchEncryptionEnabled": True,
        "cloudWatchStreamingEnabled": True,
    }
    assert set(document) <= set(schemas()["AWS::SSM::Document"]["properties"])


def test_without_a_key_the_agent_is_not_configured_to_ask_for_one(synthesised):
    assembly = synthesised(PLAN.format(kind="parallelcluster", groups="[]", key="null", logins=1, logged="true"))
    _, document = only(assembly, "AWS::SSM::Document", "SessionLog")
    assert document["Content"]["inputs"]["cloudWatchEncryptionEnabled"] is False


def test_machines_that_people_enter_may_write_it_and_nodes_may_not(logged):
    key, policy = only(logged, "AWS::IAM::ManagedPolicy", "SessionLog")
    cluster = configuration(logged)
    session_policy = {"Policy": {"Ref": key}}
    assert session_policy in cluster["HeadNode"]["Iam"]["AdditionalIamPolicies"]
    assert session_policy in cluster["LoginNodes"]["Pools"][0]["Iam"]["AdditionalIamPolicies"]
    assert session_policy not in cluster["Scheduling"]["SlurmQueues"][0]["Iam"]["AdditionalIamPolicies"]
    text = json.dumps(policy["PolicyDocument"])
    assert "logs:PutLogEvents" in text
    assert "logs:CreateLogGroup" not in text


def test_the_shell_that_is_printed_is_the_logged_one(logged):
    outputs = logged.template("training")["Outputs"]
    key, _ = only(logged, "AWS::SSM::Document", "SessionLog")
    assert {"Ref": key} in outputs["Connect"]["Value"]["Fn::Join"][1]
    assert outputs["SessionDocument"]["Value"] == {"Ref": key}


def test_existing_groups_stand_beside_the_clusters_own(logged):
    cluster = configuration(logged)
    for networking in (cluster["HeadNode"]["Networking"], cluster["Scheduling"]["SlurmQueues"][0]["Networking"]):
        cluster_group, given = networking["AdditionalSecurityGroups"]
        assert "NodeSecurityGroup" in json.dumps(cluster_group)
        assert given == GROUP


def test_without_the_two_nothing_of_them_is_made(synthesised):
    assembly = synthesised(PLAN.format(kind="parallelcluster", groups="[]", key="null", logins=1, logged="false"))
    assert not assembly.resources("training", "AWS::SSM::Document")
    assert "SessionDocument" not in assembly.template("training")["Outputs"]
    assert len(configuration(assembly)["HeadNode"]["Networking"]["AdditionalSecurityGroups"]) == 1


NETWORK = "vpc_id: vpc-0a1b2c3d4e5f60718, subnet_ids: [subnet-0a1b2c3d4e5f60718"


def on_eks(**more):
    """Such a plan for EKS, whose control plane takes subnets of two zones."""
    text = PLAN.format(kind="eks", groups=f"[{GROUP}]", logins=0, **more)
    return text.replace(NETWORK, f"{NETWORK}, subnet-0a1b2c3d4e5f60719")


def test_nodes_of_eks_write_the_log_of_their_shells(synthesised):
    assembly = synthesised(on_eks(key=KEY, logged="true"))
    document, _ = only(assembly, "AWS::SSM::Document", "SessionLog")
    policy, _ = only(assembly, "AWS::IAM::ManagedPolicy", "SessionLog")
    _, role = only(assembly, "AWS::IAM::Role", "NodeRole")
    assert {"Ref": policy} in role["ManagedPolicyArns"]
    outputs = assembly.template("training")["Outputs"]
    assert outputs["SessionDocument"]["Value"] == {"Ref": document}
    assert {"Ref": document} in outputs["ShellOnANode"]["Value"]["Fn::Join"][1]
    without = synthesised(on_eks(key="null", logged="false"))
    assert not without.resources("training", "AWS::SSM::Document")
    assert "ShellOnANode" not in without.template("training")["Outputs"]


def test_existing_groups_stand_on_every_interface_of_an_eks_node(synthesised):
    assembly = synthesised(on_eks(key="null", logged="false"))
    for template in some(assembly.resources("training", "AWS::EC2::LaunchTemplate").values()):
        data = template["LaunchTemplateData"]
        lists = [interface["Groups"] for interface in data.get("NetworkInterfaces", ())] or [data["SecurityGroupIds"]]
        assert {len(groups) for groups in lists} == {3}
        assert {groups[2] for groups in lists} == {GROUP}


def on_hyperpod(kind, **more):
    """Such a plan for HyperPod; its control plane, where it has one, takes subnets of two zones."""
    text = PLAN.format(kind=kind, groups=f"[{GROUP}]", logins=0, **more)
    return text.replace(NETWORK, f"{NETWORK}, subnet-0a1b2c3d4e5f60719") if kind == "hyperpod-eks" else text


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks"])
def test_machines_of_hyperpod_write_the_log_of_their_shells(synthesised, kind):
    """By a document of the account's own, as AWS's template for HyperPod and its easy-ssh.sh have it."""
    assembly = synthesised(on_hyperpod(kind, key=KEY, logged="true"))
    document, _ = only(assembly, "AWS::SSM::Document", "SessionLog")
    key, policy = only(assembly, "AWS::IAM::ManagedPolicy", "SessionLog")
    _, role = only(assembly, "AWS::IAM::Role", "MachineRole")
    assert policy["Path"] == "/slipway/"
    assert {"Ref": key} in role["ManagedPolicyArns"]
    outputs = assembly.template("training")["Outputs"]
    assert outputs["SessionDocument"]["Value"] == {"Ref": document}
    shell = outputs["Connect" if kind == "hyperpod-slurm" else "ShellOnANode"]["Value"]["Fn::Join"][1]
    assert {"Ref": document} in shell
    assert "sagemaker-cluster:" in json.dumps(shell)


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks"])
def test_existing_groups_stand_beside_hyperpods_own(synthesised, kind):
    """In the request, within the five that the registry's schema takes, and in what the machines' role may make."""
    assembly = synthesised(on_hyperpod(kind, key="null", logged="false"))
    cluster = assembly.only("training", "AWS::SageMaker::Cluster")
    placed = [
        cluster["VpcConfig"],
        *(group["OverrideVpcConfig"] for group in cluster["InstanceGroups"] if kind == "hyperpod-eks"),
    ]
    for vpc_config in placed:
        cluster_group, given = vpc_config["SecurityGroupIds"]
        assert "NodeSecurityGroup" in json.dumps(cluster_group)
        assert given == GROUP
    (role,) = (
        role for key, role in assembly.resources("training", "AWS::IAM::Role").items() if key.startswith("MachineRole")
    )
    text = json.dumps(role["Policies"])
    assert f":security-group/{GROUP}" in text
    assert (
        schemas()["AWS::SageMaker::Cluster"]["definitions"]["VpcConfig"]["properties"]["SecurityGroupIds"]["maxItems"]
        == 5
    )
