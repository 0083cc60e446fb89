"""What the pods of a cluster's jobs may do in its store: each job changes the folder of its own plan alone.

One role is lent to all of them, to each under the service account of its plan. EKS Pod Identity says in a session tag
which account that is, and the role's policy names the folder by the tag (EKS user guide, pod-id-abac). Without the tag
the statements that name it hold for nothing (IAM user guide, reference_policies_variables).
"""

from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_iam as iam

from infra.parts.node_policy import StoreAccess, finding_statement, marking_statement
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.monitoring import COMPILED_FOLDER, GUARD_FOLDER, JOURNAL_FOLDER, WORD_FOLDER

_OWN = f"${{{ACCOUNT_KEY}}}"


def pod_statements(store: StoreAccess, *, compile_cache: bool, owner: str | None) -> list[iam.PolicyStatement]:
    """Jobs' part of the store: they find and read all of it, and change what is their own.

    Args:
        store: where jobs write.
        compile_cache: whether jobs share a cache of compiled programs.
        owner: the account whose checkpoints lie in the store itself, since its plan names the place; None: there is
            none, and all have folders.
    """
    found = [
        finding_statement(store),
        iam.PolicyStatement(sid="ReadCheckpoints", actions=["s3:GetObject"], resources=[store.objects()]),
        *_changes(store, _OWN, title=""),
        iam.PolicyStatement(
            sid="TellGuard", actions=["s3:PutObject"], resources=[store.objects(f"{GUARD_FOLDER}/*/{WORD_FOLDER}")]
        ),
    ]
    if owner is not None:
        found += _changes(store, "", title="WherePlanned", conditions={"StringEquals": {ACCOUNT_KEY: owner}})
    if compile_cache:
        found.append(
            iam.PolicyStatement(
                sid="KeepCompiledPrograms",
                actions=["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:PutObject"],
                resources=[store.objects(COMPILED_FOLDER)],
            )
        )
    return found


def _changes(
    store: StoreAccess, folder: str, *, title: str, conditions: Mapping[str, Any] | None = None
) -> list[iam.PolicyStatement]:
    """What a job may change in a folder: it deletes from its journal alone."""
    journal = "/".join(part for part in (folder, JOURNAL_FOLDER) if part)
    return [
        iam.PolicyStatement(
            sid=f"KeepCheckpoints{title}",
            actions=["s3:AbortMultipartUpload", "s3:PutObject"],
            resources=[store.objects(folder)],
            conditions=conditions,
        ),
        marking_statement(f"MarkSuperseded{title}", store.objects(folder), conditions or {}),
        iam.PolicyStatement(
            sid=f"TidyJournal{title}",
            actions=["s3:DeleteObject"],
            resources=[store.objects(journal)],
            conditions=conditions,
        ),
    ]
