"""`security.roles`: how stacks use existing roles, and the permissions such roles need."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

from launcher.catalog.permissions import load_permissions
from launcher.model.enums import TargetKind
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.named_role import named_roles
from launcher.planning.pin import pinned_plan
from launcher.rendering.names import symbolic_names
from launcher.rendering.policies import (
    BOUNDARY,
    PERSON,
    TARGET_POLICIES,
    PolicyAccount,
    execution_policies,
    render_policy,
)
from launcher.rendering.role_policies import render_role
from launcher.targets.parallelcluster.files import cluster_yaml
from launcher.targets.registry import TARGETS
from tests.checks import some
from tests.infra.iam import ACCOUNT, actions, allows, listed, misplaced, unknown_actions
from tests.infra.named_roles import ROLES, request
from tests.infra.pcluster_driver import ask
from tests.infra.registry import schemas
from tests.plans import ROOT, request_of

PERMISSIONS = load_permissions()
CLUSTERS = ["parallelcluster", "hyperpod-slurm", "eks", "hyperpod-eks"]
MADE_FOR = {
    "parallelcluster": (),
    "hyperpod-slurm": ("ExecutionRole",),
    "eks": ("NodeRole", "EksRole", "PodRole"),
    "hyperpod-eks": ("ExecutionRole", "EksRole", "PodRole"),
}
"""Roles that stacks make where none are named, by what their logical ids begin with."""
AWS = {
    name: {
        action
        for statement in listed(role_policy["Document"]["Statement"])
        for action in listed(statement.get("Action", []))
    }
    for name, role_policy in json.loads(aws_managed_policies_data).items()
}


@pytest.fixture(scope="module")
def stacks(synthesised):
    """The stacks of a kind, with its roles named or its own."""
    return lambda kind, named=True: synthesised(json.dumps(request(kind, named=named)))


def roles(assembly):
    return assembly.resources("training", "AWS::IAM::Role")


def texts(assembly):
    return json.dumps(assembly.template("training"))


@pytest.mark.parametrize("kind", CLUSTERS)
def test_named_role_replaces_created_role(stacks, kind):
    created, named = roles(stacks(kind, named=False)), roles(stacks(kind))
    for prefix in MADE_FOR[kind]:
        assert any(name.startswith(prefix) for name in created)
        assert not any(name.startswith(prefix) for name in named)
    assert any("Guard" in name for name in named), "the guard's role stays the stack's"


def test_parallelcluster_nodes_have_named_roles(stacks):
    assembly = stacks("parallelcluster")
    configuration = assembly.only("training", "Custom::PclusterCluster")["ClusterConfiguration"]
    assert configuration["HeadNode"]["Iam"] == {"InstanceRole": ROLES["head_node"]}
    assert configuration["LoginNodes"]["Pools"][0]["Iam"] == {"InstanceRole": ROLES["login_nodes"]}
    assert [queue["Iam"] for queue in configuration["Scheduling"]["SlurmQueues"]] == [{"InstanceRole": ROLES["nodes"]}]
    # What the provider's own policies lack: they reach roles below /parallelcluster/ alone.
    documents = [
        resource["PolicyDocument"] for resource in assembly.resources("training", "AWS::IAM::ManagedPolicy").values()
    ]
    for key in ("head_node", "login_nodes", "nodes"):
        assert allows(documents, "iam:PassRole", ROLES[key], PassedToService="ec2.amazonaws.com")
        assert not allows(documents, "iam:PassRole", ROLES[key], PassedToService="lambda.amazonaws.com")
        assert allows(documents, "iam:GetRole", ROLES[key])


@pytest.mark.parametrize("kind", ["hyperpod-slurm", "hyperpod-eks"])
def test_hyperpod_nodes_have_named_role(stacks, kind):
    groups = stacks(kind).only("training", "AWS::SageMaker::Cluster")["InstanceGroups"]
    assert {group["ExecutionRole"] for group in groups} == {ROLES["nodes"]}
    assert "ExecutionRole" in schemas()["AWS::SageMaker::Cluster"]["definitions"]["ClusterInstanceGroup"]["properties"]


@pytest.mark.parametrize("kind", ["eks", "hyperpod-eks"])
def test_eks_control_plane_and_pods_have_named_roles(stacks, kind):
    assembly = stacks(kind)
    assert assembly.only("training", "AWS::EKS::Cluster")["RoleArn"] == ROLES["control_plane"]
    associations = assembly.resources("training", "AWS::EKS::PodIdentityAssociation")
    assert [association["RoleArn"] for key, association in associations.items() if "Operator" not in key] == [
        ROLES["pods"]
    ] * 2
    nodes = assembly.resources("training", "AWS::EKS::Nodegroup").values()
    assert {node["NodeRole"] for node in nodes} <= {ROLES["nodes"]}


# --------------------------------------------------------------------------------------------------- who may give them

GIVEN = PolicyAccount(
    id=ACCOUNT,
    qualifier="hnb659fds",
    boundary_arn=None,
    lists={"roles": tuple(ROLES.values()), "machines": (ROLES["nodes"],)},
)
FREE = PolicyAccount(id=ACCOUNT, qualifier="hnb659fds", boundary_arn=None)


def policy(name, account=GIVEN):
    return json.loads(render_policy(PERMISSIONS, name, account).text)


@pytest.mark.parametrize("kind", [*CLUSTERS, "sagemaker-endpoint"])
def test_execution_policies_pass_named_roles_only_to_planned_service(kind):
    documents = [policy(name) for name in TARGET_POLICIES[TargetKind(kind)]]
    without = [policy(name, FREE) for name in TARGET_POLICIES[TargetKind(kind)]]
    for use in some(TARGETS[TargetKind(kind)].roles):
        arn = ROLES[use.key]
        assert allows(documents, "iam:PassRole", arn, PassedToService=use.service)
        assert not allows(without, "iam:PassRole", arn, PassedToService=use.service)
        assert not allows(documents, "iam:PassRole", arn, PassedToService="lambda.amazonaws.com")
        for action in ("iam:PutRolePolicy", "iam:AttachRolePolicy", "iam:DeleteRole", "iam:UpdateAssumeRolePolicy"):
            assert not allows(documents, action, arn, PolicyARN=f"arn:aws:iam::{ACCOUNT}:policy/slipway/x")


def test_boundary_allows_passing_named_roles():
    assert allows([policy(BOUNDARY)], "iam:PassRole", ROLES["nodes"], PassedToService="ec2.amazonaws.com")
    assert not allows([policy(BOUNDARY, FREE)], "iam:PassRole", ROLES["nodes"], PassedToService="ec2.amazonaws.com")


def test_person_policy_passes_hyperpod_node_role_only_to_sagemaker():
    """UpdateCluster names the role of its groups; whoever calls it passes that role on, as the registry's handler."""
    assert "iam:PassRole" in PERMISSIONS.actions("AWS::SageMaker::Cluster")
    machine_role = f"arn:aws:iam::{ACCOUNT}:role/slipway-x-training-ExecutionRole4E5F6A7B-x"
    for arn in (machine_role, ROLES["nodes"]):
        assert allows([policy(PERSON)], "iam:PassRole", arn, PassedToService="sagemaker.amazonaws.com")
    guard = f"arn:aws:iam::{ACCOUNT}:role/slipway-x-training-GuardrailsGuardRole4E5F6A7B-x"
    assert not allows([policy(PERSON)], "iam:PassRole", guard, PassedToService="sagemaker.amazonaws.com")
    assert not allows([policy(PERSON)], "iam:PassRole", machine_role, PassedToService="lambda.amazonaws.com")


# --------------------------------------------------------------------------------------------------- what they must do


def required_actions(kind, key, **more):
    """The actions that a role of a plan has to allow."""
    plan_request = request_of(request(kind, **more))
    (role,) = (
        named_role for named_role in named_roles(plan_request, TARGETS[TargetKind(kind)]) if named_role.use.key == key
    )
    return actions(json.loads(render_role(PERMISSIONS, plan_request, role, FREE).text))


def grant(assembly, prefix):
    """What the stack's own role may do: by our own policies, and by those of AWS."""
    template = assembly.template("training")["Resources"]
    (role,) = (
        resource["Properties"]
        for key, resource in template.items()
        if key.startswith(prefix) and resource["Type"] == "AWS::IAM::Role"
    )
    documents = [inline_policy["PolicyDocument"] for inline_policy in role.get("Policies", ())]
    managed = set()
    for managed_policy in role.get("ManagedPolicyArns", ()):
        if "Ref" in managed_policy:
            documents.append(template[managed_policy["Ref"]]["Properties"]["PolicyDocument"])
        else:
            managed |= AWS[json.dumps(managed_policy).rpartition("/")[2].rstrip('"}]')]
    return {action for document in documents for action in actions(document)}, managed


@pytest.mark.parametrize(
    "kind,key,prefix",
    [
        ("hyperpod-slurm", "nodes", "ExecutionRole"),
        ("hyperpod-eks", "nodes", "ExecutionRole"),
        ("hyperpod-eks", "pods", "PodRole"),
        ("eks", "nodes", "NodeRole"),
        ("eks", "control_plane", "EksRole"),
        ("eks", "pods", "PodRole"),
    ],
)
def test_named_role_actions_equal_stack_role_actions(stacks, kind, key, prefix):
    ours, managed = grant(stacks(kind, named=False), prefix)
    needed = required_actions(kind, key)
    assert ours <= needed
    assert needed <= ours | managed


def test_control_plane_role_needs_the_least_of_the_eks_guide():
    """EKS user guide, "Amazon EKS cluster IAM role": a policy of one's own in place of AmazonEKSClusterPolicy."""
    least = {"ec2:CreateTags", "ec2:DescribeInstances", "ec2:DescribeNetworkInterfaces", "ec2:DescribeVpcs"}
    least |= {"ec2:DescribeDhcpOptions", "ec2:DescribeAvailabilityZones", "ec2:DescribeInstanceTopology"}
    key = f"arn:aws:kms:us-east-2:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    needed = required_actions("eks", "control_plane", storage={"kms_key_arn": key})
    assert {*least, "kms:DescribeKey"} <= needed
    assert "kms:DescribeKey" not in required_actions("eks", "control_plane")


PCLUSTER = ROOT / ".venv-pcluster"
CONDITIONAL = {"elasticloadbalancing", "resource-groups", "secretsmanager", "ssm", "s3", "elasticfilesystem"}
"""Services of statements that ParallelCluster adds for what no configuration of ours has; s3 is compared by hand."""


@pytest.mark.pcluster
@pytest.mark.parametrize(
    "key,file,places",
    [
        ("nodes", "cdk_builder_utils.py", ["ComputeNodeIamResources"]),
        ("login_nodes", "cdk_builder_utils.py", ["LoginNodesIamResources"]),
        ("head_node", "cdk_builder_utils.py", ["HeadNodeIamResources"]),
        ("nodes", "slurm_builder.py", ["_add_policies_to_compute_node_role"]),
        ("head_node", "slurm_builder.py", ["_add_policies_to_head_node_role", "_add_private_hosted_zone"]),
    ],
)
def test_parallelcluster_node_actions_cover_package_source(key, file, places):
    (path,) = PCLUSTER.glob(f"lib/python3.*/site-packages/pcluster/templates/{file}")
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    values = {
        text.value
        for place in ast.walk(tree)
        if isinstance(place, ast.ClassDef | ast.FunctionDef) and place.name in places
        for text in ast.walk(place)
        if isinstance(text, ast.Constant)
        and isinstance(text.value, str)
        and ":" in text.value
        and " " not in text.value
    }
    given = {
        action
        for action in values
        if unknown_actions({"Statement": [{"Action": action}]}) == [] and not action.startswith("aws:")
    }
    assert given
    lacking = given - required_actions("parallelcluster", key)
    # The zone's records are taken away by a function with a role of its own.
    assert {action for action in lacking if action.partition(":")[0] not in CONDITIONAL} <= {
        "route53:ListResourceRecordSets"
    }


def test_policies_with_longest_role_names_fit_iam_limit():
    longest = f"arn:aws-us-gov:iam::{ACCOUNT}:role/{'r' * 64}"
    account = PolicyAccount(
        id=ACCOUNT,
        partition="aws-us-gov",
        qualifier="q" * 10,
        boundary_arn=f"arn:aws-us-gov:iam::{ACCOUNT}:policy/{'b' * 128}",
        data_buckets=("d" * 63,) * 3,
        lists={"roles": (longest,) * 3, "machines": (longest,)},
    )
    for name in (*execution_policies(), PERSON):
        assert render_policy(PERMISSIONS, name, account).characters <= 6144, name
    # `slipway policies` refuses a boundary with more names than IAM accepts.
    one_bucket = replace(account, data_buckets=account.data_buckets[:1])
    assert render_policy(PERMISSIONS, BOUNDARY, one_bucket).characters <= 6144


def test_policy_names_are_unique():
    names = [facts.name for facts in PERMISSIONS.policies]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("kind", [*CLUSTERS, "sagemaker-endpoint"])
def test_named_role_policies_are_valid_for_iam(kind):
    plan_request = request_of(
        request(kind, run={"command": ["x"], "secrets": {"A": f"arn:aws:secretsmanager:us-east-2:{ACCOUNT}:secret:a"}})
    )
    for role in some(named_roles(plan_request, TARGETS[TargetKind(kind)])):
        rendered_policy = render_role(PERMISSIONS, plan_request, role, FREE)
        document = json.loads(rendered_policy.text)
        sids = [statement["Sid"] for statement in document["Statement"]]
        assert len(set(sids)) == len(sids)
        assert rendered_policy.characters <= 6144
        assert unknown_actions(document) == misplaced(document) == []
        arns = [
            arn.replace(f"${{{ACCOUNT_KEY}}}", "x")
            for statement in document["Statement"]
            for arn in statement["Resource"]
        ]
        assert not [arn for arn in arns if "{" in arn], "a word that nothing has filled"


@pytest.mark.parametrize("kind", ["eks", "hyperpod-eks"])
def test_named_pod_role_limited_to_folders_like_stack_role(stacks, kind):
    plan_request = request_of(request(kind))
    (role,) = (
        named_role
        for named_role in named_roles(plan_request, TARGETS[TargetKind(kind)])
        if named_role.use.key == "pods"
    )
    document = json.loads(render_role(PERMISSIONS, plan_request, role, FREE).text)
    managed_policies = stacks(kind, named=False).resources("training", "AWS::IAM::ManagedPolicy").values()
    (stack_policy,) = (
        managed_policy["PolicyDocument"]
        for managed_policy in managed_policies
        if "checkpoints" in managed_policy["Description"]
    )
    for action in ("s3:PutObject", "s3:DeleteObject", "s3:PutObjectTagging"):
        assert ends(document, action) == ends(stack_policy, action) != set(), action


def ends(document, action):
    """The ends of the ARNs that an action is allowed on, but for the cache of programs: not all chips have one."""
    arns = [
        arn
        for statement in document["Statement"]
        if action in listed(statement["Action"]) and statement["Effect"] == "Allow"
        for arn in listed(statement["Resource"])
    ]
    texts = [arn if isinstance(arn, str) else arn["Fn::Join"][1][-1] for arn in arns]
    return {text.partition("/jobs")[2] for text in texts} - {"/.compile-cache/*"}


@pytest.mark.pcluster
def test_parallelcluster_schema_accepts_named_roles(catalog, tmp_path):
    plan = pinned_plan(request_of(request("parallelcluster")), catalog)
    file = tmp_path / "cluster.yaml"
    text = cluster_yaml(plan, instances=catalog.instance_types, names=symbolic_names(plan))
    file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8").count("InstanceRole: ") == 3
    assert ask("schema", [file]) == [[]]
