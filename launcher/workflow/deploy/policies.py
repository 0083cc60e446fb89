"""The `policies` command: the IAM policies that an account needs for one plan, or for all of Slipway's resources."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from launcher.catalog.permissions import Permissions, load_permissions
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.named_role import NamedRole, named_roles
from launcher.model.request import DEFAULT_QUALIFIER, OWN_QUALIFIER, PlanRequest
from launcher.model.target import SAGEMAKER
from launcher.rendering.policies import (
    BOUNDARY,
    DOCTOR,
    HYPERPOD_JOBS,
    MAX_CHARACTERS,
    PERSON,
    TARGET_POLICIES,
    PolicyAccount,
    RenderedPolicy,
    bootstrap_command,
    execution_policies,
    policy_name,
    render_policy,
)
from launcher.rendering.role_policies import limited_lists, render_role, render_store
from launcher.targets.registry import target_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRequest:
    """The request besides a plan: the account, the bootstrapped region, and requirements of the account."""

    account: str
    region: str
    qualifier: str | None = None
    boundary_arn: str | None = None
    # They are linked to file systems.
    buckets: tuple[str, ...] = ()
    # Jobs read and write them.
    job_buckets: tuple[str, ...] = ()
    # ARNs that jobs read.
    secrets: tuple[str, ...] = ()
    # Places in S3, s3://BUCKET/PREFIX, that `report --billed --export` reads.
    exports: tuple[str, ...] = ()
    # ARNs of the HyperPod clusters whose nodes users may enter; empty: those that the plan can make.
    hyperpods: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountPolicies:
    """The policies of an account: CloudFormation's, the user's, and the boundary if Slipway defines it.

    `roles` are the policies of the roles that a plan names, by role name.
    """

    account: PolicyAccount
    execution: tuple[RenderedPolicy, ...]
    person: tuple[RenderedPolicy, ...]
    boundary: RenderedPolicy
    bootstrap: str
    roles: Mapping[str, RenderedPolicy] = field(default_factory=dict)

    @property
    def every(self) -> tuple[RenderedPolicy, ...]:
        """All policies; the boundary first, because the others may name it."""
        return (self.boundary, *self.execution, *self.person, *self.roles.values())


def policies_of(request_options: PolicyRequest, request: PlanRequest | None = None) -> AccountPolicies:
    """The policies for everything that Slipway deploys, or for one plan.

    Raises:
        ImpossibleError: CloudFormation deploys nothing of the plan, or a policy is longer than IAM accepts.
    """
    targets, buckets = None, set(request_options.buckets)
    named: dict[str, NamedRole] = {}
    qualifier, boundary = request_options.qualifier, request_options.boundary_arn
    if request is not None:
        targets = _targets(request)
        kinds = TARGET_POLICIES if targets is None else targets
        named = {role.name: role for kind in kinds for role in named_roles(request, target_of(kind))}
        qualifier = qualifier or request.security.qualifier
        boundary = boundary or request.security.permissions_boundary_arn
        train = request.workload.train
        if train is not None and train.data.uri is not None:
            buckets.add(train.data.uri.removeprefix("s3://").partition("/")[0])
    account = PolicyAccount(
        id=request_options.account,
        partition=_partition(request_options.region),
        qualifier=qualifier or OWN_QUALIFIER,
        boundary_arn=boundary,
        data_buckets=tuple(sorted(buckets)),
        lists={
            "hyperpods": request_options.hyperpods or _hyperpods(request_options, request, targets),
            **_bills(request_options),
            "roles": tuple(sorted({role.arn for role in named.values()})),
            "machines": tuple(sorted({role.arn for role in named.values() if role.use.service == SAGEMAKER})),
        },
    )
    account = replace(account, lists={**account.lists, **_limited_arns(request_options, request, account)})
    permissions, names = load_permissions(), execution_policies(targets)
    target_policies = dict.fromkeys(name for target in targets or TARGET_POLICIES for name in target_of(target).person)
    target_policies |= {HYPERPOD_JOBS: None} if request_options.hyperpods else {}
    person = [render_policy(permissions, name, account) for name in (PERSON, DOCTOR, *target_policies)]
    for policy in person:
        _refuse_long(policy, "name fewer HyperPod clusters, or none: users may then enter all of them")
    store = None if request is None else render_store(permissions, request, account)
    return AccountPolicies(
        account=account,
        execution=tuple(render_policy(permissions, name, account) for name in names),
        person=(*person, *([] if store is None else [store])),
        boundary=_boundary(permissions, account),
        bootstrap=bootstrap_command(
            account,
            request_options.region,
            map(account.policy_arn, names),
            qualified=account.qualifier != DEFAULT_QUALIFIER,
        ),
        roles={}
        if request is None
        else {name: render_role(permissions, request, role, account) for name, role in named.items()},
    )


def _hyperpods(
    options: PolicyRequest, request: PlanRequest | None, targets: tuple[TargetKind, ...] | None
) -> tuple[str, ...]:
    """The HyperPod clusters of the plan's regions, or none if its targets make none.

    SageMaker names a cluster by an id of its own choice. The Service Authorization Reference lists no cluster, and so
    none of its tags, among the resources of ssm:StartSession (document, instance, managed-instance, task).
    """
    if not any("hyperpod" in target_of(kind).policies for kind in targets or TARGET_POLICIES):
        return ()
    regions = (request.target.region if request is not None else None) or ("*",)
    partition = _partition(options.region)
    return tuple(f"arn:{partition}:sagemaker:{region}:{options.account}:cluster/*" for region in regions)


def _bills(options: PolicyRequest) -> Mapping[str, tuple[str, ...]]:
    """The buckets and objects of billing exports, and the keys that may encrypt them."""
    arn = f"arn:{_partition(options.region)}"
    places = [export.removeprefix("s3://").rstrip("/").partition("/") for export in options.exports]
    return {
        "billbuckets": tuple(sorted({f"{arn}:s3:::{bucket}" for bucket, _, _ in places})),
        # A place may be one file; a folder has a slash, so that no other folder's name begins with it.
        "billobjects": tuple(
            sorted(
                f"{arn}:s3:::{bucket}/{objects}"
                for bucket, _, prefix in places
                for objects in ((prefix, f"{prefix}/*") if prefix else ("*",))
            )
        ),
        "billkeys": (f"{arn}:kms:*:*:key/*",) if places else (),
    }


def _limited_arns(
    options: PolicyRequest, request: PlanRequest | None, account: PolicyAccount
) -> Mapping[str, tuple[str, ...]]:
    """The ARNs that the boundary allows beyond Slipway's names: those of the plan and those of the command."""
    own = {} if request is None else limited_lists(request, account)
    buckets = [f"arn:{account.partition}:s3:::{bucket}{end}" for bucket in options.job_buckets for end in ("", "/*")]
    return {
        "places": tuple(sorted({*own.get("places", ()), *buckets})),
        **{
            name: tuple(sorted({*own.get(name, ()), *(arn for arn in options.secrets if f":{service}:" in arn)}))
            for name, service in (("secrets", "secretsmanager"), ("parameters", "ssm"))
        },
    }


def _boundary(permissions: Permissions, account: PolicyAccount) -> RenderedPolicy:
    boundary = render_policy(permissions, BOUNDARY, account)
    _refuse_long(boundary, "name fewer buckets and secrets; secrets whose names begin with slipway need no ARN")
    return boundary


def _refuse_long(policy: RenderedPolicy, hint: str) -> None:
    if policy.characters > MAX_CHARACTERS:
        message = f"{policy_name(policy.name)} has {policy.characters:,} characters; IAM accepts {MAX_CHARACTERS:,}"
        raise ImpossibleError(message, hint=hint)


def _targets(request: PlanRequest) -> tuple[TargetKind, ...] | None:
    kinds = request.target.kind
    if not kinds:
        return None
    deployable = tuple(kind for kind in kinds if kind in TARGET_POLICIES)
    if not deployable:
        named = ", ".join(kind.value for kind in kinds)
        allowed = ", ".join(policy.value for policy in TARGET_POLICIES)
        raise ImpossibleError(f"target.kind: {named} has no stacks here", hint=f"CloudFormation makes {allowed}")
    return deployable


def _partition(region: str) -> str:
    """The AWS partition of a region.

    >>> _partition("us-east-2"), _partition("cn-north-1"), _partition("us-gov-west-1")
    ('aws', 'aws-cn', 'aws-us-gov')
    """
    starts = {"cn-": "aws-cn", "us-gov-": "aws-us-gov"}
    return next((partition for start, partition in starts.items() if region.startswith(start)), "aws")
