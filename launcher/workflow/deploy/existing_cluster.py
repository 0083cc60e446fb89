"""An existing cluster: found by its name or definition, compared with the plan, and not deployed again.

A change of the job changes the plan's digest, which is in an output and in tags of the cluster. If the cluster's own
definition is the same, nothing is deployed.
"""

from collections.abc import Sequence

from launcher.aws import networks, stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.bundle import Bundle
from launcher.model.errors import ImpossibleError
from launcher.model.names import nearest_name
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.model.units import number_of
from launcher.records.run_folder import RunFolder
from launcher.rendering.names import TRAINING_STACK
from launcher.targets.clusters import cluster_of
from launcher.workflow.cluster.readback.reading import QueueState, StackVerification
from launcher.workflow.cluster.readback.training import COMPLETE, fits
from launcher.workflow.cluster.verify import verify_joined
from launcher.workflow.deploy.context import DeployContext, Deployed
from launcher.workflow.deploy.stack_deployment import Deployment
from launcher.workflow.deploy.steps import plan_lines


def cluster_for(folder: RunFolder, quoted: Quote, bundle: Bundle, context: DeployContext) -> Deployed:
    """The cluster of a quoted plan: the one it names, the one that exists as described, or a new deployment.

    Raises:
        ImpossibleError: the named cluster does not exist, or differs from what the plan was priced with.
        DeploymentFailedError: a deployment failed, or the deployed resources differ from the plan.
    """
    plan, notify = quoted.plan, context.notify
    session = Session(environment=context.environment, region=plan.place.region)
    if plan.request.target.cluster is not None:
        return _join_cluster(folder, quoted, context, session)
    deployment = Deployment.synthesise(folder, quoted, bundle, context).with_image()
    difference = deployment.difference()
    if difference.none:
        notify(f"cluster {plan.cluster_name} exists as planned: nothing is deployed")
        context.approve()
        return _read_back(folder, context, deployment.verify_resources(deployed_now=False))
    with deployment.approval(difference, plan_lines(plan)) as approval:
        return deployment.bring_up(approval)


def _join_cluster(folder: RunFolder, quoted: Quote, context: DeployContext, session: Session) -> Deployed:
    """The existing cluster that a plan names: other plans deployed it, and this plan only has to fit."""
    plan = quoted.plan
    stack = find(session, plan.cluster_name)
    read = context.queues
    queues = read(stack.outputs["ClusterName"]) if read is not None else cluster_of(plan).queues(session, stack)
    refuse_unless_fits(plan, queues)
    refuse_unless_in_zone(plan, session, stack.outputs["PrivateSubnetId"])
    context.notify(f"cluster {plan.cluster_name} exists: nothing is deployed")
    context.approve()
    checked = verify_joined(plan, session, stack)
    return _read_back(folder, context, checked)


def _read_back(folder: RunFolder, context: DeployContext, checked: StackVerification) -> Deployed:
    outputs = {stack.name: stack.outputs for stack in checked.stacks}
    folder.write_json("outputs.json", outputs)
    context.notify(
        f"read back and as planned: {number_of(len(checked.verified), 'fact')}, stacks: {len(checked.stacks)}"
    )
    return Deployed(outputs=outputs, verification=checked)


def find(session: Session, cluster: str) -> StackState:
    """The training stack of a cluster that plans name.

    Raises:
        ImpossibleError: no such stack exists, or it is incomplete.
    """
    suffix = f"-{TRAINING_STACK}"
    stack_state = stacks.find(session, f"slipway-{cluster}{suffix}")
    if stack_state is None:
        clusters = [
            name.removeprefix("slipway-").removesuffix(suffix)
            for name in stacks.names(session)
            if name.startswith("slipway-") and name.endswith(suffix)
        ]
        hint = nearest_name(cluster, clusters) or f"clusters in the region: {', '.join(sorted(clusters)) or 'none'}"
        raise ImpossibleError(
            f"target.cluster: no cluster {cluster} in {session.region}",
            hint=f"{hint}; without target.cluster the plan gets its own cluster",
        )
    if stack_state.status not in COMPLETE:
        hint = f"wait, or repair it with slipway deploy FILE of the plan of {cluster}"
        raise ImpossibleError(f"target.cluster: cluster {cluster} is not ready: {stack_state.status}", hint=hint)
    return stack_state


def refuse_unless_fits(plan: Plan, queues: Sequence[QueueState]) -> None:
    """Refuse unless a queue of the cluster has the instances that the plan was priced with.

    Raises:
        ImpossibleError: no queue has them; the error lists the existing queues.
    """
    place = plan.place
    if fits(place.instance_type, place.nodes, place.option, queues):
        return
    available = ", ".join(
        f"{queue.name} ({queue.maximum} x {queue.instance_type}, {queue.capacity_type.lower().replace('_', ' ')})"
        for queue in queues
    )
    request_text = f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}"
    raise ImpossibleError(
        f"target.cluster: no queue of {plan.cluster_name} has {request_text}; available: {available or 'none'}",
        hint="set what the cluster has: target.instance_type, target.nodes, purchase.option",
    )


def refuse_unless_in_zone(plan: Plan, session: Session, subnet_id: str) -> None:
    """Continue only if the price is for the cluster's zone: spot prices differ between zones.

    Raises:
        ImpossibleError: the price is for another zone.
    """
    zone_id = networks.subnets(session, (subnet_id,))[0].az_id
    if plan.place.az_id not in (None, zone_id):
        raise ImpossibleError(
            f"target.cluster: {plan.cluster_name} is in {zone_id}, and the price is of {plan.place.az_id}",
            hint=f"target.az_id: {zone_id}",
        )
