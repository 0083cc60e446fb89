"""The permissions of a role that a plan names: for the doctor, and as a policy document."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from launcher.catalog.permissions import Permissions
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.monitoring import (
    BOOTS_FOLDER,
    BUDGET_FOLDER,
    COMPILED_FOLDER,
    GUARD_FOLDER,
    JOBS_PREFIX,
    JOURNAL_FOLDER,
    MESSAGE_FOLDER,
    SENT_FOLDER,
)
from launcher.model.named_role import NamedRole
from launcher.model.names import ECR
from launcher.model.reach import reached_locations
from launcher.model.request import PlanRequest
from launcher.model.secret import secret_reference
from launcher.rendering.policies import (
    STORE,
    PolicyAccount,
    RenderedPolicy,
    render_policy,
    rendered_policy,
    rendered_statements,
)

_SECRETS = {"secrets": "secretsmanager", "parameters": "ssm"}
"""Services that store the values that jobs fetch, by the name of the list of their ARNs."""


def needs(request: PlanRequest, role: NamedRole) -> tuple[str, ...]:
    """The parts of permissions/roles.toml that a role of a plan must allow."""
    use, image = role.use, request.run.image or ""
    sessions = ("sessions",) if use.entered and request.security.session_log else ()
    images = ("images",) if use.pulls and ECR.match(image) else ()
    in_vpc = request.network.vpc_id is not None or request.network.is_closed
    interfaces = ("interfaces",) if use.joins_vpc and in_vpc else ()
    return (*use.needs, *sessions, *images, *interfaces)


def account_of(request: PlanRequest, account: PolicyAccount) -> PolicyAccount:
    """The account with the resources that a plan's roles must reach."""
    return replace(account, lists={**account.lists, **_lists(request, account)})


def _lists(request: PlanRequest, account: PolicyAccount) -> Mapping[str, tuple[str, ...]]:
    """ARNs by their placeholder; a bucket that a stack will create is an ARN pattern."""
    uri, serve, key = request.checkpoint.store_uri, request.workload.serve, request.storage.kms_key_arn
    store, objects = _places(account, uri or "s3://slipway-*")
    models = (
        []
        if serve is None
        else [model_place for model_place in (serve.model_uri, serve.artifacts_uri) if model_place is not None]
    )
    references = [secret_reference(text) for text in request.run.secrets.values()]
    loaded = [_places(account, model) for model in models]
    cluster_roles = f"arn:{account.partition}:iam::{account.id}:role/parallelcluster/*"
    return {
        "store": store,
        "objects": objects,
        "guarded": _guard_objects(objects[0], named=uri is not None),
        **_pods(objects[0], named=uri is not None),
        "model": tuple(arn for buckets, _ in loaded for arn in buckets),
        "files": tuple(arn for _, files in loaded for arn in files),
        "key": () if key is None else (key,),
        **_reached_resources(request, account),
        "nodes": (request.security.roles.nodes or cluster_roles,),
        **{
            name: tuple(sorted({reference.arn for reference in references if reference.service == service}))
            for name, service in _SECRETS.items()
        },
        **{
            f"{name.removesuffix('s')}keys": tuple(
                sorted({reference.keys_arn for reference in references if reference.service == service})
            )
            for name, service in _SECRETS.items()
        },
    }


def limited_lists(request: PlanRequest, account: PolicyAccount) -> Mapping[str, tuple[str, ...]]:
    """The places, secrets and parameters of a plan that its roles reach, for the permissions boundary."""
    lists = _lists(request, account)
    names = ("ownbuckets", "ownobjects", "databuckets", "dataobjects", "model", "files")
    places = {arn for name in names for arn in lists[name]}
    if request.checkpoint.store_uri is not None:
        places |= {*lists["store"], *lists["objects"]}
    return {"places": tuple(sorted(places)), **{name: lists[name] for name in _SECRETS}}


def _reached_resources(request: PlanRequest, account: PolicyAccount) -> Mapping[str, tuple[str, ...]]:
    """Buckets, objects and keys of the trainer's own places and of the data that nodes fetch."""
    values = {}
    for word, writes in (("own", True), ("data", False)):
        places = [reach for reach in reached_locations(request) if reach.writes is writes]
        arns = [_places(account, place.uri) for place in places]
        values[f"{word}buckets"] = tuple(sorted({arn for buckets, _ in arns for arn in buckets}))
        values[f"{word}objects"] = tuple(sorted({arn for _, objects in arns for arn in objects}))
        values[f"{word}keys"] = tuple(sorted({place.kms_key_arn for place in places if place.kms_key_arn is not None}))
    return values


def _pods(objects: str, *, named: bool) -> Mapping[str, tuple[str, ...]]:
    """The objects that pods change: all below a URI that the plan names, else the folder of their service account."""
    folder = objects.removesuffix("/*") if named else f"{objects.removesuffix('/*')}/{JOBS_PREFIX}"
    account_folder = f"{folder}/${{{ACCOUNT_KEY}}}"
    journals = [folder, account_folder] if named else [account_folder]
    return {
        "own": (f"{folder if named else account_folder}/*",),
        "journal": tuple(f"{journal}/{JOURNAL_FOLDER}/*" for journal in journals),
        "messages": (f"{folder}/{GUARD_FOLDER}/*/{MESSAGE_FOLDER}/*",),
        "boots": (f"{folder}/{GUARD_FOLDER}/*/{MESSAGE_FOLDER}/{BOOTS_FOLDER}/*",),
        "compiled": (f"{folder}/{COMPILED_FOLDER}/*",),
    }


def _guard_objects(objects: str, *, named: bool) -> tuple[str, ...]:
    """The objects that only the guard writes; the folder of a store that a stack creates is unknown."""
    folder = objects.removesuffix("/*") if named else objects
    return (f"{folder}/{BUDGET_FOLDER}/*", f"{folder}/{GUARD_FOLDER}/*/{SENT_FOLDER}/*")


def _places(account: PolicyAccount, uri: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    arn, folder = f"arn:{account.partition}:s3:::{bucket}", prefix.strip("/")
    return (arn,), (f"{arn}/{folder}/*" if folder else f"{arn}/*",)


def role_statements(
    permissions: Permissions, request: PlanRequest, role: NamedRole, account: PolicyAccount
) -> list[dict[str, Any]]:
    """The statements that a role needs."""
    whole = account_of(request, account)
    return [statement for part in needs(request, role) for statement in rendered_statements(permissions, part, whole)]


def render_role(
    permissions: Permissions, request: PlanRequest, role: NamedRole, account: PolicyAccount
) -> RenderedPolicy:
    """The policy of a role, for the role's owner to attach."""
    statements = role_statements(permissions, request, role, account)
    return rendered_policy(f"role_{role.use.key}", f"what role {role.name} needs as {role.path}", statements)


def render_store(permissions: Permissions, request: PlanRequest, account: PolicyAccount) -> RenderedPolicy | None:
    """The policy of Slipway's users for the bucket and key that a plan names; None if it names neither."""
    if request.checkpoint.store_uri is None and request.storage.kms_key_arn is None:
        return None
    lists = _lists(request, account)
    if request.checkpoint.store_uri is None:
        lists = {"key": lists["key"]}
    return render_policy(permissions, STORE, replace(account, lists=lists))
