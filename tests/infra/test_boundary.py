"""SlipwayBoundary under IAM's rules: it stops no role of any plan, and closes the ways from a role to the account."""

import json

import pytest

from launcher.model.errors import ImpossibleError
from launcher.workflow.deploy.policies import PolicyRequest, policies_of
from tests.checks import some
from tests.infra.deployer import FREE, policy
from tests.infra.guarded_plans import BOUNDARY, KINDS, RATE, guarded_plan
from tests.infra.iam import ACCOUNT, allows
from tests.infra.provider_calls import calls
from tests.infra.role_policies import REGION, aws_managed, managed_policies, roles
from tests.infra.role_requests import requests

LIMIT = policy("boundary")
ANYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}
"""The inline policy that whoever deploys may give to a role slipway-x."""
_PLACE = f"{REGION}:{ACCOUNT}"
_EC2 = f"arn:aws:ec2:{_PLACE}"
THEIRS = {"TagKeys": ["slipway:cluster"]}
ESCAPES = {
    # Of the review: code and commands of others, their stacks, secrets, buckets, keys.
    "another function's code": ("lambda:UpdateFunctionCode", f"arn:aws:lambda:{_PLACE}:function:payroll", {}),
    "code of the guard": (
        "lambda:UpdateFunctionCode",
        f"arn:aws:lambda:{_PLACE}:function:slipway-x-training-Guard",
        {},
    ),
    "a command on an instance": ("ssm:SendCommand", f"{_EC2}:instance/i-1", {}),
    "a session on an instance": ("ssm:StartSession", f"{_EC2}:instance/i-1", {}),
    "another stack": ("cloudformation:UpdateStack", f"arn:aws:cloudformation:{_PLACE}:stack/admin/1", {}),
    "a stack with CloudFormation's role": (
        "cloudformation:UpdateStack",
        f"arn:aws:cloudformation:{_PLACE}:stack/slipway-y-training/1",
        {"ResourceTag/slipway_cluster": "y"},
    ),
    "a change set of such a stack": (
        "cloudformation:CreateChangeSet",
        f"arn:aws:cloudformation:{_PLACE}:stack/slipway-y-training/1",
        {"ResourceTag/slipway_cluster": "y"},
    ),
    "a secret": ("secretsmanager:GetSecretValue", f"arn:aws:secretsmanager:{_PLACE}:secret:prod-db-AbCdEf", {}),
    "a parameter": ("ssm:GetParameter", f"arn:aws:ssm:{_PLACE}:parameter/prod/password", {}),
    "a bucket's policy": ("s3:PutBucketPolicy", "arn:aws:s3:::payroll", {}),
    "the policy of a store": ("s3:PutBucketPolicy", "arn:aws:s3:::slipway-other-store", {}),
    "another bucket's objects": ("s3:GetObject", "arn:aws:s3:::payroll/2026.csv", {}),
    "an asset of a later deployment": (
        "s3:PutObject",
        f"arn:aws:s3:::cdk-hnb659fds-assets-{ACCOUNT}-us-east-2/x.zip",
        {},
    ),
    "a key's policy": ("kms:PutKeyPolicy", f"arn:aws:kms:{_PLACE}:key/1", {}),
    "a ciphertext": ("kms:Decrypt", f"arn:aws:kms:{_PLACE}:key/1", {}),
    "a grant to oneself": (
        "kms:CreateGrant",
        f"arn:aws:kms:{_PLACE}:key/1",
        {"ViaService": "s3.us-east-2.amazonaws.com", "GrantIsForAWSResource": "false"},
    ),
    # More of the same kinds.
    "a role without the boundary": ("iam:CreateRole", f"arn:aws:iam::{ACCOUNT}:role/parallelcluster/slipway-x/r", {}),
    "a role of CloudFormation's": (
        "iam:PassRole",
        f"arn:aws:iam::{ACCOUNT}:role/cdk-hnb659fds-cfn-exec-role-1-us-east-2",
        {"PassedToService": "lambda.amazonaws.com"},
    ),
    "a role of another team": (
        "iam:PassRole",
        f"arn:aws:iam::{ACCOUNT}:role/parallelcluster/hpc/r",
        {"PassedToService": "ec2.amazonaws.com"},
    ),
    "its own role to CloudFormation": (
        "iam:PassRole",
        f"arn:aws:iam::{ACCOUNT}:role/slipway-x",
        {"PassedToService": "cloudformation.amazonaws.com"},
    ),
    "its boundary": ("iam:DeleteRolePermissionsBoundary", f"arn:aws:iam::{ACCOUNT}:role/slipway-x", {}),
    "its boundary's text": ("iam:CreatePolicyVersion", BOUNDARY, {}),
    "another role's trust": ("iam:UpdateAssumeRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/admin", {}),
    "a policy of a role of Slipway's": (
        "iam:PutRolePolicy",
        f"arn:aws:iam::{ACCOUNT}:role/slipway-y",
        {"PermissionsBoundary": BOUNDARY},
    ),
    "another role": ("sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/admin", {}),
    "a user": ("iam:CreateAccessKey", f"arn:aws:iam::{ACCOUNT}:user/admin", {}),
    "an instance of another team": ("ec2:TerminateInstances", f"{_EC2}:instance/i-1", {}),
    "the start of another's instance": (
        "ec2:ModifyInstanceAttribute",
        f"{_EC2}:instance/i-1",
        {"ResourceTag/slipway_cluster": "x"},
    ),
    "Slipway's tag on another's instance": ("ec2:CreateTags", f"{_EC2}:instance/i-1", THEIRS),
    "Slipway's tag on another's volume": ("ec2:CreateTags", f"{_EC2}:volume/vol-1", THEIRS),
    "Slipway's tag on another's group": ("ec2:CreateTags", f"{_EC2}:security-group/sg-1", THEIRS),
    "another's security group": ("ec2:AuthorizeSecurityGroupIngress", f"{_EC2}:security-group/sg-1", {}),
    "another's volume": ("ec2:AttachVolume", f"{_EC2}:volume/vol-1", {}),
    "a public image": ("ec2:ModifySnapshotAttribute", f"{_EC2}:snapshot/snap-1", {}),
    "a password": ("ec2:GetPasswordData", f"{_EC2}:instance/i-1", {"ResourceTag/slipway_cluster": "x"}),
    "an administrator of another's EKS": ("eks:CreateAccessEntry", f"arn:aws:eks:{_PLACE}:cluster/prod", {}),
    "an administrator of Slipway's EKS": ("eks:CreateAccessEntry", f"arn:aws:eks:{_PLACE}:cluster/slipway-y", {}),
    "a role for another's pods": ("eks:CreatePodIdentityAssociation", f"arn:aws:eks:{_PLACE}:cluster/prod", {}),
    "credentials of another's pods": ("eks-auth:AssumeRoleForPodIdentity", f"arn:aws:eks:{_PLACE}:cluster/prod", {}),
    "another's table": ("dynamodb:PutItem", f"arn:aws:dynamodb:{_PLACE}:table/orders", {}),
    "the state of another's ParallelCluster": (
        "dynamodb:UpdateItem",
        f"arn:aws:dynamodb:{_PLACE}:table/parallelcluster-hpc",
        {},
    ),
    "a notebook": (
        "sagemaker:CreatePresignedNotebookInstanceUrl",
        f"arn:aws:sagemaker:{_PLACE}:notebook-instance/x",
        {},
    ),
    "a domain": ("sagemaker:CreatePresignedDomainUrl", f"arn:aws:sagemaker:{_PLACE}:user-profile/d/x", {}),
    "another's HyperPod": ("sagemaker:UpdateCluster", f"arn:aws:sagemaker:{_PLACE}:cluster/abc", {}),
    "nodes of another's HyperPod": ("sagemaker:BatchDeleteClusterNodes", f"arn:aws:sagemaker:{_PLACE}:cluster/abc", {}),
    "another's training job": ("sagemaker:StopTrainingJob", f"arn:aws:sagemaker:{_PLACE}:training-job/x", {}),
    "another's endpoint": ("sagemaker:DeleteEndpoint", f"arn:aws:sagemaker:{_PLACE}:endpoint/prod", {}),
    "another's PCS cluster": ("pcs:UpdateComputeNodeGroup", f"arn:aws:pcs:{_PLACE}:cluster/x/computenodegroup/y", {}),
    "another's log": ("logs:PutSubscriptionFilter", f"arn:aws:logs:{_PLACE}:log-group:/aws/lambda/payroll", {}),
    "words of another's log": (
        "logs:GetLogEvents",
        f"arn:aws:logs:{_PLACE}:log-group:/aws/lambda/payroll:log-stream:x",
        {},
    ),
    "the audit log": ("logs:DeleteLogGroup", f"arn:aws:logs:{_PLACE}:log-group:CloudTrail/audit", {}),
    "a DNS name": (
        "route53:ChangeResourceRecordSets",
        "arn:aws:route53:::hostedzone/Z1",
        {"ChangeResourceRecordSetsNormalizedRecordNames": ["www.example.com"]},
    ),
    "an image of a container": ("ecr:PutImage", f"arn:aws:ecr:{_PLACE}:repository/prod", {}),
    "a deleted image": ("ecr:BatchDeleteImage", f"arn:aws:ecr:{_PLACE}:repository/prod", {}),
    "a subscriber of a topic": ("sns:Subscribe", f"arn:aws:sns:{_PLACE}:alerts", {}),
    "an alarm": ("cloudwatch:DeleteAlarms", f"arn:aws:cloudwatch:{_PLACE}:alarm:payroll", {}),
    "the organisation": ("organizations:LeaveOrganization", "*", {}),
    "the trail": ("cloudtrail:StopLogging", f"arn:aws:cloudtrail:{REGION}:{ACCOUNT}:trail/audit", {}),
}
"""What a role under the boundary may not do whatever its policies say: action, ARN, and context."""
_ROLE, _OWN = f"arn:aws:iam::{ACCOUNT}:role", f"arn:aws:iam::{ACCOUNT}:role/slipway-x"
_EXECUTION = f"{_ROLE}/cdk-hnb659fds-cfn-exec-role-{ACCOUNT}-{REGION}"
_ADMINISTRATOR = {"PermissionsBoundary": "arn:aws:iam::aws:policy/AdministratorAccess"}
CHAINS = (
    # A role of one's own may be passed only to the services of clusters: others run code of the caller under it.
    *(
        ("iam:PassRole", _OWN, {"PassedToService": f"{service}.amazonaws.com"})
        for service in (
            "glue",
            "codebuild",
            "cloudformation",
            "ssm",
            "events",
            "scheduler",
            "ecs-tasks",
            "batch",
            "states",
        )
    ),
    *(
        ("iam:PassRole", role, {"PassedToService": f"{service}.amazonaws.com"})
        for role in (f"{_ROLE}/Admin", _EXECUTION)
        for service in ("lambda", "ec2", "sagemaker", "cloudformation", "pods.eks")
    ),
    *((f"iam:{action}", BOUNDARY, {}) for action in ("CreatePolicyVersion", "SetDefaultPolicyVersion", "DeletePolicy")),
    *(
        (f"iam:{action}", role, {})
        for action in ("UpdateAssumeRolePolicy", "DeleteRolePermissionsBoundary", "PutRolePolicy", "AttachRolePolicy")
        for role in (_OWN, f"{_ROLE}/Admin")
    ),
    *(
        ("iam:PutRolePermissionsBoundary", role, _ADMINISTRATOR)
        for role in (_OWN, f"{_ROLE}/parallelcluster/slipway-x")
    ),
    *(("iam:CreateRole", f"{_ROLE}/parallelcluster/slipway-x/n", context) for context in ({}, _ADMINISTRATOR)),
    *(
        ("sts:AssumeRole", role, {})
        for role in (f"{_ROLE}/Admin", _EXECUTION.replace("cfn-exec", "deploy"), f"{_ROLE}/slipway-other-training-Role")
    ),
    ("iam:AddRoleToInstanceProfile", f"arn:aws:iam::{ACCOUNT}:instance-profile/web", {}),
    ("iam:CreateOpenIDConnectProvider", f"arn:aws:iam::{ACCOUNT}:oidc-provider/x", {}),
    ("ssm:StartAutomationExecution", f"arn:aws:ssm:{REGION}::automation-definition/AWS-RunShellScript:1", {}),
    ("ssm:CreateAssociation", f"arn:aws:ssm:{REGION}::document/AWS-RunShellScript", {}),
    ("cloudformation:CreateStackSet", f"arn:aws:cloudformation:{_PLACE}:stackset/x", {}),
    ("cloudformation:ExecuteChangeSet", f"arn:aws:cloudformation:{_PLACE}:stack/CDKToolkit/1", {}),
    ("lambda:CreateFunctionUrlConfig", f"arn:aws:lambda:{_PLACE}:function:slipway-x-training-Guard", {}),
    ("lambda:CreateEventSourceMapping", f"arn:aws:lambda:{_PLACE}:event-source-mapping:*", {}),
    ("ec2:ReplaceIamInstanceProfileAssociation", f"{_EC2}:instance/i-1", {"ResourceTag/slipway_cluster": "y"}),
    ("ec2:ModifyInstanceAttribute", f"{_EC2}:instance/i-1", {}),
    ("ec2-instance-connect:SendSSHPublicKey", f"{_EC2}:instance/i-1", {}),
    ("ec2-instance-connect:SendSerialConsoleSSHPublicKey", f"{_EC2}:instance/i-1", {}),
    ("sagemaker:CreateTrainingJob", f"arn:aws:sagemaker:{_PLACE}:training-job/x", {}),
    ("sagemaker:CreateNotebookInstance", f"arn:aws:sagemaker:{_PLACE}:notebook-instance/x", {}),
    ("sagemaker:CreatePresignedNotebookInstanceUrl", f"arn:aws:sagemaker:{_PLACE}:notebook-instance/x", {}),
    ("sagemaker:CreateProcessingJob", f"arn:aws:sagemaker:{_PLACE}:processing-job/x", {}),
    ("eks:AssociateAccessPolicy", f"arn:aws:eks:{_PLACE}:access-entry/slipway-x/role/{ACCOUNT}/r/1", {}),
    ("secretsmanager:PutResourcePolicy", f"arn:aws:secretsmanager:{_PLACE}:secret:slipway-x-abc", {}),
    ("s3:PutReplicationConfiguration", "arn:aws:s3:::slipway-x-store", {}),
    ("kms:ScheduleKeyDeletion", f"arn:aws:kms:{_PLACE}:key/1", {}),
    *(
        (action, "*", {})
        for action in ("scheduler:CreateSchedule", "states:CreateStateMachine", "glue:CreateDevEndpoint")
    ),
    *(
        (action, "*", {})
        for action in ("codebuild:StartBuild", "ecs:RunTask", "batch:SubmitJob", "bedrock:CreateAgent")
    ),
)
"""Known chains from a role to an administrator, at the step that the boundary must refuse."""


@pytest.mark.parametrize("escape", ESCAPES)
def test_administrator_role_under_boundary_cannot_escape(escape):
    assert not escapes(*ESCAPES[escape])


def test_no_known_privilege_escalation_passes_the_boundary():
    passed = [f"{action} on {arn} {context}" for action, arn, context in CHAINS if escapes(action, arn, context)]
    assert passed == []
    # The evaluator decides by the service that gets the role.
    assert escapes("iam:PassRole", _OWN, {"PassedToService": "lambda.amazonaws.com"})


def escapes(action, arn, context):
    return allows([ANYTHING], action, arn, boundary=LIMIT, **context)


@pytest.fixture(scope="module", params=KINDS)
def guard_plan(request, synthesised, catalog):
    """A plan of each kind with every guard on, under the boundary."""
    return request.param, synthesised(guarded_plan(request.param, catalog), **RATE)


def limit_of(assembly):
    """The boundary that `slipway policies PLAN` writes."""
    return json.loads(policies_of(PolicyRequest(account=ACCOUNT, region=REGION), assembly.plan.request).boundary.text)


def test_every_role_of_guarded_plan_keeps_permissions_under_boundary(guard_plan):
    _, assembly = guard_plan
    limit = limit_of(assembly)
    refused = []
    for role in some(roles(assembly)):
        assert role.boundary == BOUNDARY, role.logical_id
        for action, arn, context in some(list(requests(role.documents))):
            if not allows([limit], action, arn, **context) and not _unused_names(action, arn, role):
                refused.append((role.logical_id, action, arn, context))
    assert refused == []


def _unused_names(action, arn, role):
    """Permissions of AWS's own policies that no plan uses.

    Load balancers of an EKS control plane, SageMaker's buckets, inventories and parameters of the whole account for the
    agent of Systems Manager, and imports of a registry's pull-through cache.
    """
    service = action.partition(":")[0]
    other_parameter = arn.startswith(f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/slipway-x")
    control_plane = "eks.amazonaws.com" in role.services
    return (
        other_parameter
        or action in {"ecr:BatchImportUpstreamImage", "ssm:PutComplianceItems", "ssm:PutConfigurePackageResult"}
        or action == "ssm:PutInventory"
        or arn.startswith("arn:aws:s3:::sagemaker-x")
        or (control_plane and service in {"autoscaling", "ec2", "elasticloadbalancing", "iam", "kms"})
    )


def test_parallelcluster_nodes_keep_permissions_under_boundary(synthesised, catalog):
    assembly = synthesised(guarded_plan("parallelcluster", catalog), **RATE)
    own = [document for name, document in managed_policies(assembly).items() if "ProviderAccess" not in name]
    metrics, limit = aws_managed("CloudWatchAgentServerPolicy"), limit_of(assembly)
    refused = [
        (action, arn)
        for action, arn, context in some(list(requests(own)))
        if not allows([limit], action, arn, **context)
    ]
    assert refused == []
    assert allows([metrics], "cloudwatch:PutMetricData", "*", boundary=limit, namespace="CWAgent")


def test_provider_creates_updates_and_deletes_cluster_under_boundary():
    refused = [
        (action, arn, context)
        for action, arn, context in some(calls(FREE.policy_arn("boundary")))
        if not allows([LIMIT], action, arn, **context)
    ]
    assert refused == []


def test_boundary_allows_bucket_policy_only_on_named_bucket():
    assert allows([LIMIT], "s3:PutBucketPolicy", "arn:aws:s3:::corpus-of-the-team")
    assert not allows([LIMIT], "s3:PutBucketPolicy", "arn:aws:s3:::corpus-of-another-team")


def test_boundary_longer_than_iam_limit_refused_with_fix():
    secrets = tuple(f"arn:aws:secretsmanager:{_PLACE}:secret:{'s' * 200}{n}" for n in range(9))
    with pytest.raises(ImpossibleError, match=r"SlipwayBoundary has \d,\d+ characters; IAM accepts 6,144") as refused:
        policies_of(PolicyRequest(account=ACCOUNT, region=REGION, secrets=secrets))
    assert "secrets whose names begin with slipway need no ARN" in str(refused.value.hint)


def test_boundary_allows_named_buckets_and_secrets():
    secret = f"arn:aws:secretsmanager:{_PLACE}:secret:hf-token-AbCdEf"
    parameter = f"arn:aws:ssm:{_PLACE}:parameter/team/token"
    options = PolicyRequest(account=ACCOUNT, region=REGION, job_buckets=("corpus",), secrets=(secret, parameter))
    limit = json.loads(policies_of(options).boundary.text)
    assert allows([limit], "s3:GetObject", "arn:aws:s3:::corpus/a")
    assert allows([limit], "secretsmanager:GetSecretValue", secret)
    assert allows([limit], "ssm:GetParameter", parameter)
    assert not allows([limit], "s3:PutBucketPolicy", "arn:aws:s3:::corpus")
