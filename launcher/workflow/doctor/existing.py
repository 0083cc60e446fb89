"""Resources that a plan names and does not create: images, buckets, free names, security groups and roles."""

import json
from collections.abc import Iterator

from launcher.aws import roles as account_roles
from launcher.aws import stacks
from launcher.aws.identity import Decision, simulate_permissions
from launcher.aws.images import ami_state, ecr_image, is_in_ecr
from launcher.aws.networks import SecurityGroup, security_group
from launcher.aws.objects import Objects
from launcher.aws.session import error_code
from launcher.catalog.permissions import load_permissions
from launcher.model.administrator import by_administrator
from launcher.model.diagnosis import Check, failed_check, ok, unknown
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.named_role import NamedRole, named_roles
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.model.tags import CLUSTER_TAG
from launcher.rendering.names import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK
from launcher.rendering.role_policies import role_statements
from launcher.submit.jobs import SchedulerError
from launcher.submit.kubernetes.connection import ApiRefusedError
from launcher.targets.registry import target_of
from launcher.workflow.cluster import kubernetes_cluster
from launcher.workflow.cluster.kubernetes_checks import checks
from launcher.workflow.doctor.examination import Examination, Subject
from launcher.workflow.doctor.rights import NO_ROLE, account_of, context_of, judge, one_of

AVAILABLE = "available"
"""A tag of every stack that Slipway creates."""
_PODS = "pods.eks.amazonaws.com"
_UNKNOWN = 401


def machine_image(subject: Subject) -> Iterator[Check]:
    """The machine image of the nodes, if the plan names one."""
    ami = subject.plan.request.target.ami if subject.plan is not None else None
    if ami is None:
        return
    requirement = f"target.ami {ami} in {subject.region}"
    state = ami_state(subject.session("ec2"), ami)
    if state == AVAILABLE:
        yield ok("machine image", requirement, state)
    else:
        got = f"it is {state}" if state is not None else "no AMI that this account can read"
        yield failed_check("machine image", requirement, got, "use an AMI of this region, or share it with the account")


def container_image(subject: Subject) -> Iterator[Check]:
    """The container images that the plan names; only images in ECR can be checked."""
    for path, name in _named_images(subject.plan):
        requirement = f"{path} {name}"
        image = ecr_image(name)
        if image is None:
            yield unknown("container image", requirement, "only images in ECR can be checked; the nodes will pull it")
        elif is_in_ecr(subject.session("ecr", region=image.region), image):
            yield ok("container image", requirement, "it exists")
        else:
            yield failed_check("container image", requirement, "no such image", "push it, or set another image")


def _named_images(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    serve = plan.request.workload.serve
    if plan.request.run.image is not None and serve is None:
        yield "run.image", plan.request.run.image
    if serve is not None and serve.image is not None:
        yield "workload.serve.image", serve.image


def readable(subject: Subject) -> Iterator[Check]:
    """Check that these credentials can list model, artefacts and data; the nodes' role is a separate check."""
    for path, uri in _named_uris(subject.plan):
        requirement = f"{path} {uri}"
        try:
            first_key = Objects.at(subject.session("s3"), uri).first()
        except AwsError as problem:
            if error_code(problem) == "NoSuchBucket":
                yield failed_check("data", requirement, "no such bucket", "name one that exists")
                continue
            raise
        if first_key is None and path != "checkpoint.uri":
            yield failed_check("data", requirement, "no objects there", "upload it, or correct the prefix")
        else:
            yield ok("data", requirement, f"{first_key} and more" if first_key is not None else "the bucket exists")


def _named_uris(plan: Plan | None) -> Iterator[tuple[str, str]]:
    if plan is None:
        return
    train, serve = plan.request.workload.train, plan.request.workload.serve
    named = [("checkpoint.uri", plan.request.checkpoint.store_uri)]
    named += [(reach.path, reach.uri) for reach in reached_locations(plan.request)]
    if train is not None:
        named.append(("workload.train.data.uri", train.data.uri))
    if serve is not None:
        named += [("workload.serve.model_uri", serve.model_uri), ("workload.serve.artifacts_uri", serve.artifacts_uri)]
    yield from ((path, uri) for path, uri in named if uri is not None)


def free_names(subject: Subject) -> Iterator[Check]:
    """Check that the stack names are free, or that the stacks are Slipway's."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    parts = (
        (SERVING_STACK,) if plan.request.workload.serve is not None else (NETWORK_STACK, STORE_STACK, TRAINING_STACK)
    )
    for part in parts:
        name = f"slipway-{plan.cluster_name}-{part}"
        stack_state = stacks.find(subject.session("cloudformation"), name)
        requirement = f"stack {name} is free or Slipway's"
        if stack_state is None:
            yield ok("stack name", requirement, f"{name} is free")
        elif CLUSTER_TAG not in stack_state.tags:
            yield failed_check(
                "stack name",
                requirement,
                "a stack of another owner has this name",
                "choose another name in the plan file",
            )
        elif stack_state.status.endswith("_IN_PROGRESS"):
            message = f"{name} is {stack_state.status}: another deployment is under way"
            yield failed_check("stack name", requirement, message, "wait until it ends")
        elif stack_state.status.endswith("ROLLBACK_FAILED") or stack_state.status == "ROLLBACK_COMPLETE":
            fix = f"slipway down {plan.cluster_name}"
            yield failed_check(
                "stack name", requirement, f"{name} is {stack_state.status}: CloudFormation will not update it", fix
            )
        else:
            yield ok("stack name", requirement, f"{name} is Slipway's ({stack_state.status}) and will be updated")


CONTAINER_IMAGE = Examination("container image", "the image exists", container_image)
DATA = Examination("data", "model, data and checkpoints can be listed", readable)
ARTEFACTS = (
    Examination("machine image", "the image exists", machine_image),
    CONTAINER_IMAGE,
    DATA,
    Examination("stack name", "the names are free", free_names),
)


def existing_cluster(subject: Subject) -> Iterator[Check]:
    """Whether the cluster exists, admits the caller, and has what the job needs."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is None or not target_of(plan.place.target).pods:
        return
    name, requirement = "cluster", f"{plan.cluster_name} exists and allows access"
    try:
        existing = kubernetes_cluster.find(plan, subject.session("cloudformation", "eks"))
        inspection = kubernetes_cluster.inspect_cluster(plan, existing, subject.environment)
    except ApiRefusedError as refused:
        yield failed_check(
            name, requirement, refused.message, _entry(plan.cluster_name) if refused.code == _UNKNOWN else ""
        )
        return
    except SchedulerError as problem:
        yield failed_check(name, requirement, problem.message, "its API may be private: run this inside its network")
        return
    except ImpossibleError as problem:
        yield failed_check(name, requirement, problem.message, problem.hint)
        return
    yield ok(name, requirement, f"{existing.head_node.text()}, Kubernetes {inspection.cluster.version}")
    yield from checks(plan, subject.catalog.instance_types[plan.place.instance_type], inspection)


def _entry(cluster: str) -> str:
    return by_administrator(f"aws eks create-access-entry --cluster-name {cluster} --principal-arn YOUR_ROLE")


EXISTING_KUBERNETES = (Examination("cluster", "the existing cluster accepts the job", existing_cluster),)
"""Requirements of a job on the cluster that it names."""


def groups(subject: Subject) -> Iterator[Check]:
    """Check each security group: it exists, is in the plan's VPC, and is open to itself if EFA needs that."""
    plan = subject.plan
    if plan is None or plan.request.target.cluster is not None:
        return
    facts = subject.catalog.instance_types[plan.place.instance_type]
    strict = target_of(plan.place.target).groups_name_themselves and facts.efa_interfaces > 0
    for name in plan.request.network.security_group_ids:
        requirement = f"{name} is in {plan.request.network.vpc_id}"
        requirement += " and allows all traffic from and to itself, which EFA needs" if strict else ""
        group = security_group(subject.session("ec2"), name)
        yield _check_group(plan, name, requirement, group, strict=strict)


def _check_group(plan: Plan, name: str, requirement: str, group: SecurityGroup | None, *, strict: bool) -> Check:
    """Compare one security group with the plan.

    HyperPod's EFA check fails if any of several groups lacks the rule (awsome-distributed-ai, pull request 259);
    a rule to 0.0.0.0/0 does not cover EFA.
    """
    title, region = "security group", plan.place.region
    if group is None:
        return failed_check(title, requirement, "no such group in the region", "use an existing group, or remove it")
    if group.vpc_id != plan.request.network.vpc_id:
        return failed_check(title, requirement, f"it belongs to {group.vpc_id}", "name groups of that VPC")
    directions = {"ingress": group.lets_itself_in, "egress": group.lets_itself_out}
    lacking = [direction for direction, works in directions.items() if strict and not works]
    if not lacking:
        return ok(title, requirement, "confirmed")
    rule = f"--region {region} --group-id {name} --ip-permissions 'IpProtocol=-1,UserIdGroupPairs=[{{GroupId={name}}}]'"
    fix = by_administrator(" && ".join(f"aws ec2 authorize-security-group-{direction} {rule}" for direction in lacking))
    return failed_check(
        title, requirement, f"it has no rule for {' and '.join(lacking)}: HyperPod's nodes would fail", fix
    )


def roles(subject: Subject) -> Iterator[Check]:
    """Each role: it exists, the right service may assume it, and IAM's simulation grants the needed permissions."""
    plan = subject.plan
    if plan is None:
        return
    for role in named_roles(plan.request, target_of(plan.place.target)):
        yield from _role(subject, plan, role)


def _role(subject: Subject, plan: Plan, role: NamedRole) -> Iterator[Check]:
    title, requirement = "role", f"{role.path} {role.name} exists, and {role.use.service} may assume it"
    if role.account != subject.account:
        yield failed_check(
            title,
            requirement,
            f"it is of account {role.account}, not of {subject.account}",
            "use a role of this account",
        )
        return
    try:
        _, services = account_roles.role(subject.session("iam"), role.name)
    except AwsError as problem:
        if error_code(problem) != NO_ROLE:
            raise
        yield failed_check(
            title,
            requirement,
            "no such role",
            "use an existing role, or remove the key: the stack then creates its own",
        )
        return
    if role.use.service in services:
        yield ok(title, requirement, "yes; conditions of its trust policy were not evaluated")
    else:
        got = f"its trust policy names {', '.join(sorted(services)) or 'no service'}"
        actions = ["sts:AssumeRole", *(["sts:TagSession"] if role.use.service == _PODS else [])]
        allow = {"Effect": "Allow", "Principal": {"Service": role.use.service}, "Action": actions}
        yield failed_check(title, requirement, got, f"add to its trust policy: {json.dumps(allow)}")
    yield _allows(subject, plan, role)


def _allows(subject: Subject, plan: Plan, role: NamedRole) -> Check:
    """Simulate the role's policies for the needed actions, on resource names like those of the stacks."""
    session, decisions = subject.session("iam"), list[Decision]()
    context = {ACCOUNT_KEY: plan.name} if role.use.service == _PODS else {}
    for right in role_statements(load_permissions(), plan.request, role, account_of(subject)):
        if right["Effect"] == "Allow":
            resources = one_of(right["Resource"], plan)
            known = {**context, **context_of(right)}
            decisions += simulate_permissions(session, role.arn, right["Action"], resources, known)
    return judge(subject, "role", f"{role.name} may do the {len(decisions)} things that {role.path} needs", decisions)


EXISTING = (
    Examination("security group", "the plan's own groups fit", groups),
    Examination("role", "the plan's own roles fit", roles),
)
"""Examinations of the account."""
