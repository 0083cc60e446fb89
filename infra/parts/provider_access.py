"""The permissions of ParallelCluster's provider beyond its default, and its permissions boundary."""

from collections.abc import Sequence

from aws_cdk import Aws, CfnStack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.node_policy import volume_statements
from infra.parts.published import published_template


def provider_parameters(
    stack: Construct,
    id_: str,
    *,
    boundary_arn: str | None,
    data_uri: str | None,
    key_arn: str | None,
    role_arns: Sequence[str] = (),
) -> dict[str, str]:
    """The provider's role, as parameters of the provider's stack; empty if the default role is sufficient.

    The provider creates its own role, but cannot give it a permissions boundary. If the account requires a boundary,
    the role comes from AWS's published policies (policies.yaml, written for ParallelCluster's API), which can.

    `data_uri` (`s3://bucket/prefix`) is the data that a file system of the cluster imports; None: no data. `key_arn`
    None: the services' own keys. `role_arns` are existing roles that the cluster's nodes get.
    """
    scope = Construct(stack, id_)
    statements = [] if data_uri is None else _data_statements(data_uri)
    if key_arn is not None:
        statements += _key_statements(key_arn)
    if role_arns:
        statements += _role_statements(role_arns)
    if boundary_arn is None:
        return {"AdditionalIamPolicies": _policy(scope, statements)} if statements else {}
    published = CfnStack(
        scope,
        "Policies",
        template_url=published_template(scope, "policies/policies.yaml"),
        parameters={
            "EnableIamAdminAccess": "true",
            "PermissionsBoundaryPolicy": boundary_arn,
            "AdditionalPolicies": _policy(scope, [*statements, *_own_statements()]),
        },
    )
    return {"CustomLambdaRole": published.get_att("Outputs.ParallelClusterLambdaRoleArn").to_string()}


def _policy(scope: Construct, statements: list[iam.PolicyStatement]) -> str:
    return iam.CfnManagedPolicy(
        scope,
        "Policy",
        description="Slipway: what ParallelCluster's provider needs for this cluster",
        policy_document=iam.PolicyDocument(statements=statements),
    ).ref


def _data_statements(data_uri: str) -> list[iam.PolicyStatement]:
    """Permissions to link a file system to a bucket: the union of AWS's two lists for the call.

    The lists are ParallelCluster's published policies (aws/aws-parallelcluster 003dc38, parallelcluster-policies.yaml,
    EnableFSxS3Access) and CloudFormation's handler (registry, AWS::FSx::DataRepositoryAssociation).
    """
    bucket, _, prefix = data_uri.removeprefix("s3://").partition("/")
    arn = f"arn:{Aws.PARTITION}:s3:::{bucket}"
    folder = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
    linked = (
        f"arn:{Aws.PARTITION}:iam::{Aws.ACCOUNT_ID}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
    )
    return [
        iam.PolicyStatement(
            sid="FsxServiceRole",
            actions=["iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "iam:PutRolePolicy"],
            resources=[linked],
        ),
        iam.PolicyStatement(
            sid="ReadDataBucket", actions=["s3:Get*", "s3:List*", "s3:PutBucketPolicy"], resources=[arn]
        ),
        iam.PolicyStatement(sid="ReadData", actions=["s3:Get*", "s3:PutObject"], resources=[f"{arn}/{folder}*"]),
    ]


def _key_statements(arn: str) -> list[iam.PolicyStatement]:
    """Permissions to encrypt file systems (FSx for Lustre user guide, encryption at rest) and head nodes' root volumes.

    AWS's published policies, which the provider's role has, include no key.
    """
    return [
        iam.PolicyStatement(
            sid="EncryptFileSystem",
            actions=["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey"],
            resources=[arn],
            conditions={"StringLike": {"kms:ViaService": f"fsx.*.{Aws.URL_SUFFIX}"}},
        ),
        *volume_statements(arn),
    ]


def _role_statements(arns: Sequence[str]) -> list[iam.PolicyStatement]:
    """Permissions to give nodes existing roles: to read these, and to add them to instance profiles.

    AWS's published policies allow only roles below /parallelcluster/.
    """
    return [
        iam.PolicyStatement(sid="ReadRoles", actions=["iam:GetRole"], resources=list(arns)),
        iam.PolicyStatement(
            sid="PassRoles",
            actions=["iam:PassRole"],
            resources=list(arns),
            conditions={"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}},
        ),
    ]


def _own_statements() -> list[iam.PolicyStatement]:
    """Permissions that the provider's own role has and the published role lacks: for its bucket and event rules.

    The bucket's name is generated from the names of the stack and of its resource PclusterCustomResourceBucket; the
    latter is in lower case and may be truncated.
    """
    bucket = f"arn:{Aws.PARTITION}:s3:::slipway-*-pclustercustom*"
    rules = f"arn:{Aws.PARTITION}:events:{Aws.REGION}:{Aws.ACCOUNT_ID}:rule/*"
    return [
        iam.PolicyStatement(
            sid="StoreEvents",
            actions=["s3:DeleteObject", "s3:GetObject", "s3:ListBucket", "s3:ListBucketVersions", "s3:PutObject"],
            resources=[bucket],
        ),
        iam.PolicyStatement(
            sid="PollingRules",
            actions=["events:DeleteRule", "events:PutRule", "events:PutTargets", "events:RemoveTargets"],
            resources=[rules],
        ),
    ]
