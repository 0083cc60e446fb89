"""An existing Kubernetes cluster: the connection to its API, its resources, and whether a plan's job can run there."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.agent.command_line import script_of_shell
from launcher.aws import eks, hyperpod, node_groups, stacks
from launcher.aws.calls import forbidden
from launcher.aws.node_groups import NodeGroupState
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.eks import WORKERS
from launcher.model.emulator import MARK
from launcher.model.enums import Operator
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.names import nearest_name
from launcher.model.plan import Plan
from launcher.records.submission import CONTEXT, EKS, HeadNode
from launcher.rendering.kubernetes_job import namespace_of, operator_of, service_account
from launcher.rendering.names import ClusterNames, deployed_names, stack_name, symbolic_names
from launcher.submit.kubernetes import existing as read
from launcher.submit.kubernetes.connection import Connection
from launcher.submit.kubernetes.existing import DescribedCluster
from launcher.targets.registry import billed_name, target_of
from launcher.workflow.cluster.pod_identity import PodIdentity
from launcher.workflow.cluster.reach import connection_to
from launcher.workflow.cluster.readback.training import COMPLETE

ROLE = "AccessRoleArn"
"""The output of a Slipway cluster that names the role with access to it."""
PODS_ROLE = "PodRoleArn"
"""The output that names the role of each job's pods; each job's pods may write only to their own folder."""
ELASTIC_AGENT = "hyperpodrun"
"""The program through which pods communicate with HyperPod's operator; without it they never count as running."""
_ACTIVE = "ACTIVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingCluster:
    """A cluster that a plan names: the connection to its API, and the outputs that the job's files refer to.

    `by_slipway` says that Slipway deployed it; `eks` is its name in EKS, None if only a kubeconfig context leads to it;
    `pod_identity` is the role that a launch grants to a job's pods, None if jobs share a service account with a role.
    """

    head_node: HeadNode
    names: ClusterNames
    by_slipway: bool
    eks: str | None
    pod_identity: PodIdentity | None = None

    def account(self, plan: Plan) -> str:
        """The service account of a plan's pods."""
        return service_account(plan, dedicated=self.pod_identity is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """An existing cluster that was inspected."""

    existing: ExistingCluster
    cluster: DescribedCluster
    # It runs the job there.
    operator: Operator
    # Permissions that the caller lacks for the job.
    missing_rights: tuple[str, ...]
    # Whether pods of the job's service account get a role; None if that cannot be read.
    granted: bool | None
    # The node group of jobs with its instance type, in a cluster that Slipway deployed with one.
    group: tuple[NodeGroupState, str] | None = None


def find(plan: Plan, session: Session) -> ExistingCluster:
    """The cluster that a plan names: one that Slipway deployed, else one of EKS, or the one of a kubeconfig context.

    In a sandbox the plan's context is not used: it leads outside the sandbox.

    Raises:
        ImpossibleError: it does not exist or is incomplete, or the plan does not say where the job writes.
    """
    target = plan.request.target
    stack = _stack(plan, session)
    if stack is None:
        missing = f"Slipway has deployed no cluster {plan.cluster_name} in {session.region}; "
        refuse_without_store(plan, missing, sandbox=MARK in session.environment)
    names = symbolic_names(plan) if stack is None else deployed_names(stack.outputs)
    pod_identity = None if stack is None else _pod_identity(stack)
    if target.context is not None and MARK not in session.environment:
        head_node = HeadNode(via=CONTEXT, host=target.context, region=session.region)
        name = stack.outputs["ClusterName"] if stack is not None else _eks_name(plan, session, sure=False)
        return ExistingCluster(
            head_node=head_node, names=names, by_slipway=stack is not None, eks=name, pod_identity=pod_identity
        )
    name = stack.outputs["ClusterName"] if stack is not None else _eks_name(plan, session)
    role = stack.outputs.get(ROLE) if stack is not None else None
    head_node = HeadNode(via=EKS, host=name, region=session.region, role=role)
    return ExistingCluster(
        head_node=head_node, names=names, by_slipway=stack is not None, eks=name, pod_identity=pod_identity
    )


def _pod_identity(stack: StackState) -> PodIdentity | None:
    """The pods' role of a cluster; None if the cluster was deployed when its jobs still shared a service account."""
    role, outputs = stack.outputs.get(PODS_ROLE), stack.outputs
    return (
        None if role is None else PodIdentity(cluster=outputs["ClusterName"], pods_role=role, access_role=outputs[ROLE])
    )


def refuse_without_store(plan: Plan, missing: str = "", *, sandbox: bool = False) -> None:
    """Refuse unless the plan says where its job writes; a cluster that Slipway did not deploy has no store.

    `missing` begins the message: that no cluster of Slipway's has the plan's name.

    Raises:
        ImpossibleError: the plan does not say so.
    """
    if plan.request.checkpoint.foreign_store_uri is None:
        hint = "set a URI that its nodes may write to: checkpoint: {uri: s3://bucket/prefix}"
        if sandbox:
            fix = f"slipway deploy FILE --sandbox of the plan of {plan.cluster_name}"
            hint = f"slipway sandbox start, unless one runs, and {fix}; or {hint}"
        raise ImpossibleError(
            f"{missing}checkpoint.uri: {plan.request.checkpoint.uri or 'auto'} gives no S3 location for the job's "
            "files; only a cluster that Slipway deployed has its own bucket",
            hint=hint,
        )


def _stack(plan: Plan, session: Session) -> StackState | None:
    try:
        stack_state = stacks.find(session, stack_name(plan, "training"))
    except AwsError as problem:
        if forbidden(problem):
            return None
        raise
    if stack_state is None or ROLE not in stack_state.outputs:
        return None
    if stack_state.status not in COMPLETE:
        hint = f"wait, or repair it with slipway deploy FILE of the plan of {plan.cluster_name}"
        raise ImpossibleError(
            f"target.cluster: cluster {plan.cluster_name} is not ready: {stack_state.status}", hint=hint
        )
    return stack_state


def _eks_name(plan: Plan, session: Session, *, sure: bool = True) -> str:
    named = plan.cluster_name
    if not sure:
        return named
    below = hyperpod.eks_cluster(session, named) if target_of(plan.place.target).is_managed else None
    cluster = eks.describe(session, below or named)
    if cluster is None:
        cluster_names = eks.names(session)
        hint = (
            nearest_name(named, cluster_names)
            or f"clusters in the region: {', '.join(sorted(cluster_names)) or 'none'}"
        )
        raise ImpossibleError(
            f"target.cluster: no cluster {named} in {session.region}",
            hint=f"{hint}; without target.cluster the plan gets its own cluster",
        )
    if cluster.status != _ACTIVE:
        raise ImpossibleError(
            f"target.cluster: {cluster.name} is {cluster.status.lower()}", hint="wait until it is active"
        )
    return cluster.name


def inspect(plan: Plan, existing: ExistingCluster, connection: Connection, session: Session) -> Inspection:
    """Read the properties of a cluster that a job needs.

    Raises:
        SchedulerError: its API does not answer.
        AwsError: a call failed for another reason than a missing permission.
    """
    namespace, account = namespace_of(plan), existing.account(plan)
    cluster = read.describe(
        connection,
        instance_type=billed_name(plan.place),
        namespace=namespace,
        priority=plan.request.target.priority,
        account=account,
    )
    operator = choose_operator(plan, cluster.operators)
    missing = read.missing_rights(connection, namespace, operator, account)
    granted = True if cluster.role is not None else has_pod_role(existing, session, namespace, account)
    group = _group(existing, session) if existing.by_slipway and not target_of(plan.place.target).is_managed else None
    return Inspection(
        existing=existing, cluster=cluster, operator=operator, missing_rights=missing, granted=granted, group=group
    )


def _group(existing: ExistingCluster, session: Session) -> tuple[NodeGroupState, str] | None:
    """The node group of jobs, and its instance type; None without the permission to read it."""
    try:
        state = node_groups.describe_group(session, str(existing.eks), WORKERS)
        template = node_groups.describe_template(session, state.template) if state.template is not None else None
    except AwsError as problem:
        if forbidden(problem):
            return None
        raise
    return state, "" if template is None else str(template.get("InstanceType", ""))


def choose_operator(plan: Plan, served: tuple[Operator, ...]) -> Operator:
    """The operator for a plan's job: the one that the plan names, or the cluster's most capable one for the job."""
    requested = plan.request.run.operator
    if requested is not None:
        return requested
    command = plan.request.run.command
    arguments = (script_of_shell(command) or "").split() or command[:1]
    runs_elastic_agent = any(word.rpartition("/")[2] == ELASTIC_AGENT for word in arguments)
    able = [operator for operator in served if operator is not Operator.HYPERPOD_PYTORCHJOB or runs_elastic_agent]
    return able[0] if able else operator_of(plan)


def has_pod_role(existing: ExistingCluster, session: Session, namespace: str, account: str) -> bool | None:
    """Whether Pod Identity grants the job's pods a role; None if EKS cannot be read."""
    if existing.eks is None:
        return None
    try:
        return bool(eks.granted_roles(session, existing.eks, namespace, account))
    except AwsError as problem:
        # A context may lead to a cluster that EKS does not know here.
        if forbidden(problem) or existing.head_node.via == CONTEXT:
            return None
        raise


def inspect_cluster(plan: Plan, existing: ExistingCluster, environment: Mapping[str, str]) -> Inspection:
    """Read the properties of a cluster that a job depends on, with a new connection."""
    session = Session(environment=environment, region=plan.place.region)
    connection = connection_to(existing.head_node, environment)
    try:
        return inspect(plan, existing, connection, session)
    finally:
        connection.close()
