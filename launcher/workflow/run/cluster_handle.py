"""The cluster of a job: its own, the one that its plan names, or the one of a named head node."""

from collections.abc import Mapping

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.model.bundle import Bundle
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.records.run_folder import RunFolder
from launcher.records.submission import HeadNode
from launcher.rendering.kubernetes_job import namespace_of
from launcher.rendering.names import deployed_names, stack_name, symbolic_names
from launcher.submit.jobs import SchedulerError
from launcher.targets.clusters import cluster_of
from launcher.targets.registry import target_of
from launcher.workflow.cluster import kubernetes_cluster
from launcher.workflow.cluster.deployed import ClusterHandle
from launcher.workflow.cluster.kubernetes_checks import checks, refuse_unless_well
from launcher.workflow.cluster.pod_identity import grant
from launcher.workflow.deploy.account import Account
from launcher.workflow.deploy.existing_cluster import cluster_for

UNREACHED = "is its API private? launch from its network, or set account.context to the context of a tunnel"
LOCAL = "local"
"""The `target.ssh_host` that means this computer."""


def cluster_handle(quoted: Quote, bundle: Bundle, folder: RunFolder, account: Account) -> ClusterHandle:
    """The cluster of a plan, deployed if needed. A sandbox never connects to a head node outside.

    Raises:
        SlipwayError: deployment failed, or the cluster does not exist or differs from the priced plan.
    """
    plan = quoted.plan
    session = Session(environment=account.context.environment, region=plan.place.region)
    if plan.request.target.ssh_host is not None and not account.is_simulated:
        handle = handle_over_ssh(plan, session)
        account.context.approve()
        return handle
    if plan.request.target.cluster is not None and target_of(plan.place.target).pods:
        return _existing_handle(plan, session, account)
    done = cluster_for(folder, quoted, bundle, account.context)
    return ClusterHandle(
        head_node=account.head_node(plan, done, session),
        names=deployed_names(done.training),
        name=done.cluster_name,
        outputs=done.training,
        verification=done.verification,
        unreached=cluster_of(plan).reach_hint(plan, done.training),
    )


def _existing_handle(plan: Plan, session: Session, account: Account) -> ClusterHandle:
    context, notify = account.context, account.context.notify
    existing = kubernetes_cluster.find(plan, session)
    try:
        inspection = kubernetes_cluster.inspect_cluster(plan, existing, context.environment)
    except SchedulerError as problem:
        hint = problem.hint or UNREACHED
        raise ImpossibleError(f"{problem.message}; nothing was submitted", hint=hint) from problem
    facts = context.instances[plan.place.instance_type]
    refuse_unless_well(plan, checks(plan, facts, inspection), notify)
    notify(f"cluster {plan.cluster_name} exists: Slipway provisions nothing, and the quote does not include its cost")
    context.approve()
    if existing.pod_identity is not None and not inspection.granted:
        grant(existing.pod_identity, namespace_of(plan), existing.account(plan), session, notify, wait=account.pause)
    return ClusterHandle(
        head_node=account.entry(existing.head_node),
        names=existing.names,
        name=None,
        unreached=UNREACHED,
        by_slipway=existing.by_slipway,
        operator=inspection.operator,
        account=existing.account(plan),
    )


def handle_over_ssh(plan: Plan, session: Session) -> ClusterHandle:
    """An existing Slurm behind a head node, in AWS or elsewhere; nothing is deployed.

    If the plan also names a cluster that Slipway deployed, the job uses that cluster's store.

    Raises:
        ImpossibleError: the plan does not say where its jobs write.
    """
    target, outputs = plan.request.target, _outputs(plan, session)
    if outputs is None:
        kubernetes_cluster.refuse_without_store(plan)
    via = "local" if target.ssh_host == LOCAL else "ssh"
    return ClusterHandle(
        head_node=HeadNode(via=via, host=target.ssh_host, region=plan.place.region),
        names=deployed_names(outputs) if outputs is not None else symbolic_names(plan),
        name=outputs.get("ClusterName") if outputs is not None else None,
    )


def _outputs(plan: Plan, session: Session) -> Mapping[str, str] | None:
    """The outputs of a named cluster's training stack; None without a stack or without an account."""
    if plan.request.target.cluster is None:
        return None
    try:
        stack_state = stacks.find(session, stack_name(plan, "training"))
    except AwsError:
        return None
    return None if stack_state is None else stack_state.outputs
