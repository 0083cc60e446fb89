"""The permissions of pods in an EKS cluster, and the function that counts pods for the guard."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.parts.eks_cluster import EksCluster
from infra.parts.hyperpod_chart import INTERFACES, function_in
from infra.parts.node_policy import StoreAccess, finding_statement, marking_statement
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.monitoring import (
    BOOTS_FOLDER,
    COMPILED_FOLDER,
    COUNTER_MEMORY_MB,
    GUARD_FOLDER,
    JOURNAL_FOLDER,
    MESSAGE_FOLDER,
)
from launcher.model.sizing import LOG_RETENTION_DAYS

_SECONDS = 60
_OWN = f"${{{ACCOUNT_KEY}}}"


def pod_counter(
    stack: Construct, id_: str, *, cluster: EksCluster, subnet_id: str, security_group_id: str
) -> lambda_.CfnFunction:
    """The function that counts pods for the guard (templates/chart/pods.py): it reads the cluster, changes nothing."""
    scope = Construct(stack, id_)
    log = logs.CfnLogGroup(scope, "Log", retention_in_days=LOG_RETENTION_DAYS)
    log.apply_removal_policy(RemovalPolicy.DESTROY)
    role = _role(scope, log)
    cluster.admit(scope, "Entry", role, policy="AmazonEKSViewPolicy")
    place = lambda_.CfnFunction.VpcConfigProperty(subnet_ids=[subnet_id], security_group_ids=[security_group_id])
    does = f"counts the pods of {cluster.name} for the guard"
    function = function_in(scope, cluster, role, log, place, does=does, seconds=_SECONDS, memory_mb=COUNTER_MEMORY_MB)
    # Lambda makes and removes the function's interfaces with the role.
    function.node.add_dependency(role)
    return function


def _role(scope: Construct, log: logs.CfnLogGroup) -> iam.Role:
    """The function's role for AWS itself; its access entry grants its permissions in the cluster."""
    statements = [
        # Lambda refuses a function in a subnet whose role is limited to interfaces that exist.
        iam.PolicyStatement(sid="AttachToSubnet", actions=list(INTERFACES), resources=["*"]),
        iam.PolicyStatement(
            sid="WriteLog", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.attr_arn]
        ),
    ]
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        description="Counts the pods of a cluster",
        inline_policies={"Count": iam.PolicyDocument(statements=statements)},
    )


def pod_statements(store: StoreAccess, *, compile_cache: bool, owner: str | None) -> list[iam.PolicyStatement]:
    """The jobs' permissions on the store: list and read everything, change only their own objects.

    Args:
        store: the checkpoint store of the jobs.
        compile_cache: whether jobs share a cache of compiled programs.
        owner: the service account whose checkpoints are at the store's top level, because its plan names the store;
            None: no such account, and every account has its own folder.
    """
    statements = [
        finding_statement(store),
        iam.PolicyStatement(sid="ReadCheckpoints", actions=["s3:GetObject"], resources=[store.objects()]),
        *_changes(store, _OWN, title=""),
        iam.PolicyStatement(
            sid="WriteMessages",
            actions=["s3:PutObject"],
            resources=[store.objects(f"{GUARD_FOLDER}/*/{MESSAGE_FOLDER}")],
        ),
        # Boots are reported with the nodes' own role, which pods cannot use.
        iam.PolicyStatement(
            sid="DenyBootReports",
            effect=iam.Effect.DENY,
            actions=["s3:PutObject"],
            resources=[store.objects(f"{GUARD_FOLDER}/*/{MESSAGE_FOLDER}/{BOOTS_FOLDER}")],
        ),
    ]
    if owner is not None:
        statements += _changes(store, "", title="WherePlanned", conditions={"StringEquals": {ACCOUNT_KEY: owner}})
    if compile_cache:
        statements.append(
            iam.PolicyStatement(
                sid="WriteCompileCache",
                actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
                resources=[store.objects(COMPILED_FOLDER)],
            )
        )
    return statements


def _changes(
    store: StoreAccess, folder: str, *, title: str, conditions: Mapping[str, Any] | None = None
) -> list[iam.PolicyStatement]:
    journal = "/".join(part for part in (folder, JOURNAL_FOLDER) if part)
    return [
        iam.PolicyStatement(
            sid=f"WriteCheckpoints{title}",
            actions=["s3:AbortMultipartUpload", "s3:PutObject"],
            resources=[store.objects(folder)],
            conditions=conditions,
        ),
        marking_statement(f"MarkSuperseded{title}", store.objects(folder), conditions or {}),
        iam.PolicyStatement(
            sid=f"DeleteJournal{title}",
            actions=["s3:DeleteObject"],
            resources=[store.objects(journal)],
            conditions=conditions,
        ),
    ]
