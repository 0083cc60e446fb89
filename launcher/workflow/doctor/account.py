"""Requirements on the account and this computer: credentials, region, bootstrap, programs."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from launcher.aws import bootstrap, regions
from launcher.aws.log_groups import log_groups
from launcher.aws.service_roles import FSX, SERVICE_ROLES, SPOT, has_service_role, make_command
from launcher.aws.session import CredentialsError
from launcher.cdk import toolchain
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, advice, failed_check, ok
from launcher.model.enums import PurchaseOption
from launcher.model.errors import AwsError, SlipwayError
from launcher.model.request import DEFAULT_QUALIFIER, OWN_QUALIFIER
from launcher.model.sizing import LOG_RETENTION_DAYS
from launcher.model.units import number_of
from launcher.rendering.policies import TARGET_POLICIES, PolicyAccount, bootstrap_command, execution_policies
from launcher.submit.session import INSTALLATION, PLUGIN, missing_program
from launcher.targets.registry import target_of
from launcher.workflow.doctor.examination import Examination, Subject

MIN_BOOTSTRAP = 6
"""The bootstrap version that assemblies with file assets require (aws-cdk-lib 2.275.0, cloud-assembly manifest,
requiresBootstrapStackVersion); tests/infra compares the number with the manifests of the examples."""


def credentials(subject: Subject) -> Iterator[Check]:
    """The owner of the credentials; without credentials no other check can run."""
    name, requirement = "credentials", "credentials are valid"
    try:
        caller = subject.caller
    except CredentialsError as problem:
        yield failed_check(name, requirement, problem.message, problem.hint)
        return
    yield ok(name, requirement, f"account {caller.account}, {caller.arn}")


def region(subject: Subject) -> Iterator[Check]:
    """Check that the account may use the region."""
    name, requirement = "region", f"{subject.region} is enabled"
    status = regions.opt_in_status(subject.session("ec2", region=subject.sessions.home), subject.region)
    if status is None:
        yield failed_check(name, requirement, "AWS has no region of this name in this partition")
    elif status == "not-opted-in":
        fix = by_administrator(f"aws account enable-region --region-name {subject.region}")
        yield failed_check(name, requirement, "the account has not opted in to it", fix)
    else:
        yield ok(name, requirement, status)


def check_bootstrap(subject: Subject) -> Iterator[Check]:
    """Check that the CDK can deploy in the region: its parameter, its version, and its staging bucket."""
    name = "bootstrap"
    qualifier = subject.plan.request.security.qualifier if subject.plan is not None else None
    requirement = f"{bootstrap.version_parameter(qualifier)} is at least {MIN_BOOTSTRAP}"
    version = bootstrap.version(subject.session("ssm"), qualifier)
    fix = _bootstrap(subject, qualifier)
    if version is None and _has_own(subject, qualifier):
        got = f"the region has a bootstrap with the qualifier {OWN_QUALIFIER}, and the plan names another"
        yield failed_check(name, requirement, got, f"security: {{qualifier: {OWN_QUALIFIER}}}; or {fix}")
        return
    if version is None:
        yield failed_check(name, requirement, "the CDK was never bootstrapped in this region", fix)
        return
    if version < MIN_BOOTSTRAP:
        yield failed_check(name, requirement, f"version {version}", fix)
        return
    bucket = bootstrap.staging_bucket(qualifier, subject.account, subject.region)
    bucket_exists = bootstrap.bucket_is_there(subject.session("s3"), bucket)
    if bucket_exists:
        yield ok(name, requirement, f"version {version}, bucket {bucket}")
    else:
        why = "is gone" if bucket_exists is False else "is not readable by this account"
        yield failed_check(name, requirement, f"version {version}, but its bucket {bucket} {why}", fix)


def _has_own(subject: Subject, qualifier: str | None) -> bool:
    """Whether the region has the bootstrap of `slipway policies`, and the plan names another one."""
    if subject.plan is None or qualifier == OWN_QUALIFIER:
        return False
    try:
        return bootstrap.version(subject.session("ssm"), OWN_QUALIFIER) is not None
    except AwsError:  # The caller's policies may allow the plan's bootstrap only.
        return False


def _bootstrap(subject: Subject, qualifier: str | None) -> str:
    target = subject.plan.place.target if subject.plan is not None else None
    names = execution_policies([target] if target is not None and target in TARGET_POLICIES else None)
    account = PolicyAccount(
        id=subject.account,
        partition=subject.caller.partition,
        qualifier=qualifier or DEFAULT_QUALIFIER,
        boundary_arn=None,
    )
    arns = map(account.policy_arn, names)
    command = bootstrap_command(account, subject.region, arns, qualified=qualifier is not None)
    first = f"{subject.policies_command} writes those policies first"
    return by_administrator(command, f"{first}; without them, CloudFormation has full permissions")


def service_roles(subject: Subject) -> Iterator[Check]:
    """The service-linked roles that spot instances and file systems need; CloudFormation creates neither."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    needed = [SPOT] if plan.place.option is PurchaseOption.SPOT and not target_of(plan.place.target).is_managed else []
    needed += [FSX] if plan.request.storage.lustre_gib else []
    for service in needed:
        name, requirement = "service role", f"{SERVICE_ROLES[service]} exists"
        command = by_administrator(make_command(service))
        if has_service_role(subject.session("iam"), service):
            yield ok(name, requirement, "it exists")
        elif service == FSX:
            # The policies of `slipway policies` let CloudFormation make this one.
            yield advice(
                name,
                requirement,
                "not yet: CloudFormation creates it if it has permission",
                command,
            )
        elif target_of(plan.place.target).pods:
            # Node groups are Auto Scaling groups, whose own role may make it (AutoScalingServiceRolePolicy).
            yield advice(name, requirement, "not yet: EC2 Auto Scaling creates it", command)
        else:
            yield failed_check(name, requirement, "the account has never used this service", command)


def programs(subject: Subject) -> Iterator[Check]:
    """Node.js for the CDK CLI, and for HyperPod the session plug-in, both on this computer."""
    name, requirement = "CDK and Node", f"Node {toolchain.OLDEST_NODE} or newer, and the pinned CDK CLI"
    try:
        command = toolchain.cdk_command(subject.environment)
    except SlipwayError as problem:
        yield failed_check(name, requirement, problem.message, problem.hint)
    else:
        yield ok(name, requirement, f"{os.path.basename(command[0])}, aws-cdk")  # noqa: PTH119 - a command's word
    row = target_of(subject.plan.place.target) if subject.plan is not None else None
    if row is None or not row.is_managed or not row.trains or row.per_job:
        return
    requirement = f"aws and {PLUGIN} are on PATH: HyperPod receives jobs over a session"
    missing = missing_program(subject.environment)
    if missing is None:
        yield ok(PLUGIN, requirement, "they are")
    else:
        yield failed_check(PLUGIN, requirement, f"{missing} is missing", f"install it: {INSTALLATION[missing]}")


def shared_log(subject: Subject) -> Iterator[Check]:
    """Check how long the account retains a log group that jobs write to and no stack owns.

    The guard sets a retention only if that deletes nothing (templates/guard/training_jobs.py).
    """
    group = target_of(subject.plan.place.target).shared_log if subject.plan is not None else ""
    if not group:
        return
    name, requirement = "log retention", f"log group {group} expires its events"
    job_logs = next(
        (log_group for log_group in log_groups(subject.session("logs"), group) if log_group.name == group), None
    )
    days = timedelta(days=LOG_RETENTION_DAYS)
    if job_logs is not None and job_logs.retention_days is not None:
        yield ok(name, requirement, f"after {number_of(job_logs.retention_days, 'day')}")
    elif job_logs is None or datetime.now(UTC) - job_logs.created < days:
        yield ok(name, requirement, f"the guard of the deployed plan sets {number_of(days.days, 'day')}")
    else:
        got = (
            f"no retention since {job_logs.created:%Y-%m-%d}; the guard deletes no events of other jobs of the account"
        )
        fix = f"aws logs put-retention-policy --region {subject.region} --log-group-name {group} --retention-in-days"
        yield advice(name, requirement, got, by_administrator(f"{fix} {days.days}"))


def boundary(subject: Subject) -> Iterator[Check]:
    """Recommended for an account: spending limits, notifications, a permissions boundary, cost tags."""
    if subject.plan is None:
        return
    request = subject.plan.request
    if request.budget.max_usd is None:
        yield advice("budget", "budget.max_usd is set", "no limit on the quote", "budget: {max_usd: ...}")
    else:
        yield ok("budget", "budget.max_usd is set", f"${request.budget.max_usd:,}")
    if request.guardrails.notify:
        yield ok("notifications", "guardrails.notify has a recipient", ", ".join(request.guardrails.notify))
    else:
        fix = "guardrails: {notify: [you@example.com]}"
        yield advice(
            "notifications", "guardrails.notify has a recipient", "no one is notified of idle or failed nodes", fix
        )
    if request.tags:
        yield ok("tags", "tags name the owner", ", ".join(f"{key}={value}" for key, value in request.tags.items()))
    else:
        got = "only Slipway's own: the bill cannot be split by owner or cost centre"
        yield advice("tags", "tags name the owner", got, "tags: {owner: ..., cost-center: ...}")
    arn = request.security.permissions_boundary_arn
    if arn is not None:
        yield ok("boundary", "roles have a permissions boundary", arn)
    else:
        fix = "security: {permissions_boundary_arn: ...}; docs/deployer-policy.md has the policy"
        got = "no boundary: anyone who may deploy can create roles with any permission"
        yield advice("boundary", "roles have a permissions boundary", got, fix)


ACCOUNT = (
    Examination("credentials", "credentials are valid", credentials),
    Examination("region", "the region is enabled", region),
    Examination("bootstrap", "the CDK is bootstrapped", check_bootstrap),
    Examination("CDK and Node", "the CDK CLI can run here", programs),
    Examination("service role", "service-linked roles exist", service_roles),
    Examination("log retention", "shared log groups expire their events", shared_log),
    Examination("advice", "limits and recipients", boundary),
)
"""The checks for every plan, and for an account without a plan."""
