"""The permissions of a cluster's nodes beyond ParallelCluster's own needs: their jobs' part of S3."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.parts.registry import pull_statements
from launcher.model.monitoring import (
    BUDGET_FOLDER,
    COMPILED_FOLDER,
    GUARD_FOLDER,
    KEPT,
    NAMESPACE,
    SENT_FOLDER,
    STORE_TAG,
    SUPERSEDED,
    nodes_namespace,
)
from launcher.model.reach import Reach
from launcher.model.secret import secret_reference

PATH = "/parallelcluster/"
"""ParallelCluster's own provider may attach only policies below this path (its policies.yaml, statement IamPolicy)."""
OWN_PATH = "/slipway/"
"""The path of all other policies of stacks, which CloudFormation may attach to roles (permissions/policies.toml,
base)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreAccess:
    """The store for a policy: bucket ARN, and prefix without leading and trailing slashes ("" is the entire bucket)."""

    bucket_arn: str
    prefix: str

    def objects(self, below: str = "") -> str:
        """The ARN of every object below the prefix, or below a folder of it."""
        folder = "/".join(part for part in (self.prefix, below) if part)
        return f"{self.bucket_arn}/{folder}/*" if folder else f"{self.bucket_arn}/*"


class NodePolicy(Construct):
    """A managed policy for head and compute nodes, one statement per purpose.

    ParallelCluster's `S3Access` would need less text, but grants `s3:*`.

    Attributes:
        arn: the policy's ARN.
        resource: the policy.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        store: StoreAccess,
        kms_key_arn: str | None,
        fetched: tuple[assets.Asset, ...],
        secrets: tuple[str, ...],
        compile_cache: bool,
        image: str | None,
        path: str = PATH,
        in_store: Sequence[iam.PolicyStatement] | None = None,
        starts_nodes: bool = False,
        grants_key: bool = False,
        reached: Sequence[Reach] = (),
        conditions: Mapping[str, Mapping[str, Any]] | None = None,
        reports_as: str | None = None,
    ) -> None:
        """`kms_key_arn` None: S3's own key.

        `compile_cache`: jobs share a cache of compiled programs, whose lock files they delete. `starts_nodes`: one
        node starts the others, whose root volumes may use the key. `grants_key`: a service makes the volumes.

        `in_store` None: the permissions of all jobs that
        share one role. `reached` are the plan's S3 places other than the store, under `conditions`. `reports_as` is the
        cluster of nodes whose other policies allow metrics in every namespace.
        """
        super().__init__(scope, id_)
        statements = list(in_store) if in_store is not None else store_statements(store, compile_cache=compile_cache)
        if kms_key_arn is not None:
            statements.append(
                iam.PolicyStatement(
                    sid="UseKey", actions=["kms:Decrypt", "kms:GenerateDataKey"], resources=[kms_key_arn]
                )
            )
            statements += volume_statements(kms_key_arn) if starts_nodes else ()
            statements += [key_grant_statement(kms_key_arn)] if grants_key else []
        if fetched:
            scripts = [asset.bucket.arn_for_objects(asset.s3_object_key) for asset in fetched]
            statements.append(iam.PolicyStatement(sid="GetSetUpScripts", actions=["s3:GetObject"], resources=scripts))
        statements.extend(_reach_statements(reached, conditions or {}))
        statements.extend(secret_statements(secrets))
        statements.extend(pull_statements(image))
        statements.extend(guard_statements(store, reports_as))
        self.resource = iam.CfnManagedPolicy(
            self,
            "Policy",
            path=path,
            description="Slipway nodes: checkpoints of their jobs",
            policy_document=iam.PolicyDocument(statements=statements),
        )
        self.arn = self.resource.ref


def volume_statements(key_arn: str) -> list[iam.PolicyStatement]:
    """Permissions to start an instance whose volumes use a key, by EBS's regional default or by its image.

    EBS user guide, Amazon EBS encryption, permissions: only EC2 gets a grant, and every call comes through EC2.
    """
    through = f"ec2.*.{Aws.URL_SUFFIX}"
    return [
        iam.PolicyStatement(
            sid="EncryptVolumes",
            actions=[
                "kms:Decrypt",
                "kms:DescribeKey",
                "kms:GenerateDataKeyWithoutPlaintext",
                "kms:ReEncryptFrom",
                "kms:ReEncryptTo",
            ],
            resources=[key_arn],
            conditions={"StringLike": {"kms:ViaService": through}},
        ),
        iam.PolicyStatement(
            sid="CreateVolumeGrants",
            actions=["kms:CreateGrant"],
            resources=[key_arn],
            conditions={"StringLike": {"kms:ViaService": through}, "Bool": {"kms:GrantIsForAWSResource": "true"}},
        ),
    ]


def key_grant_statement(key_arn: str) -> iam.PolicyStatement:
    """Permission to grant a key to SageMaker for the volumes of its instances."""
    return iam.PolicyStatement(
        sid="CreateKeyGrant",
        actions=["kms:CreateGrant"],
        resources=[key_arn],
        conditions={"Bool": {"kms:GrantIsForAWSResource": "true"}},
    )


def finding_statement(store: StoreAccess) -> iam.PolicyStatement:
    """Permission to list the jobs' part of the store."""
    return iam.PolicyStatement(
        sid="ListCheckpoints",
        actions=["s3:ListBucket"],
        resources=[store.bucket_arn],
        conditions={"StringLike": {"s3:prefix": [f"{store.prefix}/*" if store.prefix else "*"]}},
    )


def marking_statement(sid: str, objects: str, conditions: Mapping[str, Mapping[str, Any]]) -> iam.PolicyStatement:
    """Permission to mark an object as superseded or retained, with that one tag.

    Any other tag could control another team's policy or lifecycle rule.
    """
    key = f"s3:RequestObjectTag/{STORE_TAG}"
    return iam.PolicyStatement(
        sid=sid,
        actions=["s3:PutObjectTagging"],
        resources=[objects],
        conditions={
            "StringEquals": {**conditions.get("StringEquals", {}), key: [KEPT, SUPERSEDED]},
            "ForAllValues:StringEquals": {"s3:RequestObjectTagKeys": [STORE_TAG]},
        },
    )


def store_statements(store: StoreAccess, *, compile_cache: bool) -> list[iam.PolicyStatement]:
    """The jobs' permissions on the store: list, read and write; delete nothing except the locks of the cache."""
    statements = [
        finding_statement(store),
        iam.PolicyStatement(
            sid="WriteCheckpoints",
            actions=["s3:AbortMultipartUpload", "s3:GetObject", "s3:PutObject"],
            resources=[store.objects()],
        ),
        marking_statement("MarkSuperseded", store.objects(), {}),
    ]
    if compile_cache:
        statements.append(
            iam.PolicyStatement(
                sid="UnlockCompileCache", actions=["s3:DeleteObject"], resources=[store.objects(COMPILED_FOLDER)]
            )
        )
    return statements


def guard_statements(store: StoreAccess, reports_as: str | None = None) -> Iterator[iam.PolicyStatement]:
    """Deny nodes what the guard writes: its stop objects, its marks, and metrics of guards and of other clusters.

    `reports_as` is the cluster of nodes that another policy allows every namespace: ParallelCluster gives its nodes
    CloudWatchAgentServerPolicy, which has no condition.
    """
    yield iam.PolicyStatement(
        sid="DenyGuardWrites",
        effect=iam.Effect.DENY,
        actions=["s3:DeleteObject", "s3:PutObject"],
        resources=[store.objects(BUDGET_FOLDER), store.objects(f"{GUARD_FOLDER}/*/{SENT_FOLDER}")],
    )
    if reports_as is not None:
        yield iam.PolicyStatement(
            sid="DenyGuardMetrics",
            effect=iam.Effect.DENY,
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={
                "StringLike": {"cloudwatch:namespace": [NAMESPACE, f"{NAMESPACE}/*"]},
                "StringNotEquals": {"cloudwatch:namespace": nodes_namespace(reports_as)},
            },
        )


def _reach_statements(
    reached: Sequence[Reach], conditions: Mapping[str, Mapping[str, Any]]
) -> Iterator[iam.PolicyStatement]:
    """Permissions for the trainer's own checkpoints, with deletion, for data that nodes fetch, and for both keys."""
    for writes, title in ((True, "OwnCheckpoints"), (False, "Data")):
        places = [reach for reach in reached if reach.writes is writes]
        for number, source in enumerate(places):
            bucket, _, prefix = source.uri.removeprefix("s3://").partition("/")
            place = StoreAccess(bucket_arn=f"arn:{Aws.PARTITION}:s3:::{bucket}", prefix=prefix.strip("/"))
            listed = [place.prefix, f"{place.prefix}/*"] if place.prefix else ["*"]
            changes = ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts", "s3:PutObject")
            yield iam.PolicyStatement(
                sid=f"List{title}{number or ''}",
                actions=["s3:ListBucket"],
                resources=[place.bucket_arn],
                conditions={**conditions, "StringLike": {"s3:prefix": listed}},
            )
            yield iam.PolicyStatement(
                sid=f"{'Write' if writes else 'Read'}{title}{number or ''}",
                actions=sorted({"s3:GetObject", *(changes if writes else ())}),
                resources=[place.objects()],
                conditions=conditions,
            )
        keys = sorted({reach.kms_key_arn for reach in places if reach.kms_key_arn is not None})
        if keys:
            actions = ["kms:Decrypt", *(["kms:GenerateDataKey"] if writes else [])]
            yield iam.PolicyStatement(sid=f"UseKeyOf{title}", actions=actions, resources=keys, conditions=conditions)


def secret_statements(secrets: tuple[str, ...]) -> Iterator[iam.PolicyStatement]:
    """Permissions to read secrets and parameters, and to decrypt them with keys of their own.

    Each service decrypts with the reader's rights, and names what it decrypts in the encryption context (Secrets
    Manager user guide, secret encryption and decryption; Systems Manager user guide, KMS encryption for SecureString
    parameters).
    """
    services = (
        ("Secrets", "secretsmanager", "secretsmanager:GetSecretValue", "SecretARN"),
        ("Parameters", "ssm", "ssm:GetParameter", "PARAMETER_ARN"),
    )
    for title, service, action, key in services:
        references = [reference for reference in map(secret_reference, secrets) if reference.service == service]
        if references:
            arns = sorted({reference.arn for reference in references})
            yield iam.PolicyStatement(sid=f"Read{title}", actions=[action], resources=arns)
            yield iam.PolicyStatement(
                sid=f"UseKeysOf{title}",
                actions=["kms:Decrypt"],
                resources=sorted({reference.keys_arn for reference in references}),
                conditions={
                    "StringLike": {"kms:ViaService": f"{service}.*"},
                    "StringEquals": {f"kms:EncryptionContext:{key}": arns},
                },
            )
