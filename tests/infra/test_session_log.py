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
def log_session(synthesised):
    return synthesised(PLAN.format(kind="parallelcluster", groups=f"[{GROUP}]", key=KEY, logins=1, logged="true"))


def only(assembly, kind, prefix):
    matching = {
        key: resource for key, resource in assembly.resources("training", kind).items() if key.startswith(prefix)
    }
    ((key, resource),) = matching.items()
    return key, resource


def configuration(assembly):
    return assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]


def test_session_document_logs_to_retained_encrypted_group(log_session):
    name, log = only(log_session, "AWS::Logs::LogGroup", "SessionLog")
    _, document = only(log_session, "AWS::SSM::Document", "SessionLog")
    assert (log["KmsKeyId"], log_session.template("training")["Resources"][name]["DeletionPolicy"]) == (KEY, "Retain")
    assert document["DocumentType"] == "Session"
    assert document["Content"]["sessionType"] == "Standard_Stream"
    assert document["Content"]["inputs"] == {
        "cloudWatchLogGroupName": {"Ref": name},
        "cloudWatchEncryptionEnabled": True,
        "cloudWatchStreamingEnabled": True,
    }
    assert set(document) <= set(schemas()["AWS::SSM::Document"]["properties"])


def test_session_document_without_key_disables_encryption(synthesised):
    assembly = synthesised(PLAN.format(kind="parallelcluster", groups="[]", key="null", logins=1, logged="true"))
    _, document = only(assembly, "AWS::SSM::Document", "SessionLog")
    assert document["Content"]["inputs"]["cloudWatchEncryptionEnabled"] is False


def test_session_log_policy_on_head_and_login_nodes_only(log_session):
    key, policy = only(log_session, "AWS::IAM::ManagedPolicy", "SessionLog")
    cluster = configuration(log_session)
    session_policy = {"Policy": {"Ref": key}}
    assert session_policy in cluster["HeadNode"]["Iam"]["AdditionalIamPolicies"]
    assert session_policy in cluster["LoginNodes"]["Pools"][0]["Iam"]["AdditionalIamPolicies"]
    assert session_policy not in cluster["Scheduling"]["SlurmQueues"][0]["Iam"]["AdditionalIamPolicies"]
    text = json.dumps(policy["PolicyDocument"])
    assert "logs:PutLogEvents" in text
    assert "logs:CreateLogGroup" not in text


def test_connect_output_uses_logging_session_document(log_session):
    outputs = log_session.template("training")["Outputs"]
    key, _ = only(log_session, "AWS::SSM::Document", "SessionLog")
    assert {"Ref": key} in outputs["Connect"]["Value"]["Fn::Join"][1]
    assert outputs["SessionDocument"]["Value"] == {"Ref": key}


def test_existing_security_groups_added_to_cluster_groups(log_session):
    cluster = configuration(log_session)
    for networking in (cluster["HeadNode"]["Networking"], cluster["Scheduling"]["SlurmQueues"][0]["Networking"]):
        cluster_group, given = networking["AdditionalSecurityGroups"]
        assert "NodeSecurityGroup" in json.dumps(cluster_group)
        assert given == GROUP


def test_plan_without_session_log_and_groups_creates_none(synthesised):
    assembly = synthesised(PLAN.format(kind="parallelcluster", groups="[]", key="null", logins=1, logged="false"))
    assert not assembly.resources("training", "AWS::SSM::Document")
    assert "SessionDocument" not in assembly.template("training")["Outputs"]
    assert len(configuration(assembly)["HeadNode"]["Networking"]["AdditionalSecurityGroups"]) == 1


NETWORK = "vpc_id: vpc-0a1b2c3d4e5f60718, subnet_ids: [subnet-0a1b2c3d4e5f60718"


def on_eks(**more):
    """Such a plan for EKS, whose control plane takes subnets of two zones."""
    text = PLAN.format(kind="eks", groups=f"[{GROUP}]", logins=0, **more)
    return text.replace(NETWORK, f"{NETWORK}, subnet-0a1b2c3d4e5f60719")


def test_eks_nodes_log_shell_sessions(synthesised):
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


def test_existing_security_groups_on_every_eks_node_interface(synthesised):
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
def test_hyperpod_nodes_log_shell_sessions(synthesised, kind):
    """By a document of the account's own, as AWS's template for HyperPod and its easy-ssh.sh have it."""
    assembly = synthesised(on_hyperpod(kind, key=KEY, logged="true"))
    document, _ = only(assembly, "AWS::SSM::Document", "SessionLog")
    key, policy = only(assembly, "AWS::IAM::ManagedPolicy", "SessionLog")
    _, role = only(assembly, "AWS::IAM::Role", "ExecutionRole")
    assert policy["Path"] == "/slipway/"
    assert {"Ref": key} in role["ManagedPolicyArns"]
    outputs = assembly.template("training")["Outputs"]
    assert outputs["SessionDocument"]["Value"] == {"Ref": document}
    shell = outputs["Connect" if kind == "hyperpod-slurm" else "ShellOnANode"]["Value"]["Fn::Join"][1]
    assert {"Ref": document} in shell
    assert "sagemaker-cluster:" in json.dumps(shell)


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks"])
def test_existing_security_groups_added_to_hyperpod_groups(synthesised, kind):
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
        role
        for key, role in assembly.resources("training", "AWS::IAM::Role").items()
        if key.startswith("ExecutionRole")
    )
    text = json.dumps(role["Policies"])
    assert f":security-group/{GROUP}" in text
    assert (
        schemas()["AWS::SageMaker::Cluster"]["definitions"]["VpcConfig"]["properties"]["SecurityGroupIds"]["maxItems"]
        == 5
    )
