"""A cluster that stands already: found by its name or by its definition, held against the plan, and not deployed again.

A cluster and a job are two things. A job changes the plan's digest, which stands in an output and in tags of the
cluster it was deployed with; what the cluster is made of stays the same, and then nothing is deployed.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from launcher.aws import networks, stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.cdk.commands import Assembly
from launcher.model.bundle import Bundle
from launcher.model.errors import ImpossibleError
from launcher.model.names import nearest_name
from launcher.model.plan import Plan
from launcher.model.quote import Quote
from launcher.records.run_folder import RunFolder
from launcher.workflow.deploy.readback.reading import ClusterState, QueueState
from launcher.workflow.deploy.readback.training import COMPLETE, ON_DEMAND, fits
from launcher.workflow.deploy.steps import (
    Deployed,
    Setting,
    bring_up,
    plan_words,
    show_difference,
    synthesise,
)
from launcher.workflow.deploy.verify import TRAINING_STACK, Verification, verify, verify_joined

CLUSTER_TYPE = "Custom::PclusterCluster"
JOB_TAGS = frozenset(("slipway:plan", "slipway:digest"))
"""Tags that say which plan a cluster was deployed with (launcher/rendering/cluster.py)."""
JOB_KEYS = frozenset(("PlanDigest", "USD_PER_NODE_HOUR"))
"""The output of the plan's digest, and the guard's rate, which moves with every quote of a spot price."""


def cluster_for(folder: RunFolder, quoted: Quote, bundle: Bundle, setting: Setting) -> Deployed:
    """The cluster of a quoted plan, deployed where it has to be: the one it names, the one it describes, or a new one.

    Raises:
        ImpossibleError: the cluster that the plan names is not there, or has not what the plan was priced with.
        DeploymentFailedError: a deployment failed, or what is there is not what was planned.
    """
    plan, tell = quoted.plan, setting.tell
    session = Session(environment=setting.environment, region=plan.place.region)
    if plan.request.target.cluster is not None:
        return _joined(folder, quoted, setting, session)
    cdk, assembly = synthesise(folder, quoted, setting)
    if is_same(session, assembly):
        tell(f"cluster {plan.cluster_name} stands as planned: nothing is deployed")
        return _kept(folder, quoted, setting, session, assembly)
    show_difference(cdk, assembly, plan_words(plan), tell)
    return bring_up(folder, quoted, bundle, setting, cdk=cdk, assembly=assembly, now=datetime.now(UTC))


def _joined(folder: RunFolder, quoted: Quote, setting: Setting, session: Session) -> Deployed:
    """The cluster that a plan names: other plans deployed it, and this one only has to fit."""
    plan = quoted.plan
    stack = find(session, plan.cluster_name)
    ask = setting.cluster
    running = ask(stack.outputs["ClusterName"]) if ask is not None else described(session, stack)
    refuse_unless_fits(plan, running)
    refuse_unless_in_zone(plan, session, stack.outputs["PrivateSubnetId"])
    setting.tell(f"cluster {plan.cluster_name} is there: nothing is deployed")
    checked = verify_joined(plan, session, stack)
    return _standing(folder, setting, checked)


def _kept(folder: RunFolder, quoted: Quote, setting: Setting, session: Session, assembly: Assembly) -> Deployed:
    """The cluster that a plan describes and that stands already."""
    checked = verify(
        quoted.plan,
        session,
        assembly.stacks,
        cluster=setting.cluster,
        zone=setting.zone,
        usd_per_hour=quoted.usd_per_hour,
        deployed_now=False,
    )
    return _standing(folder, setting, checked)


def _standing(folder: RunFolder, setting: Setting, checked: Verification) -> Deployed:
    """A cluster that stands, with its outputs in the run folder."""
    outputs = {each.name: each.outputs for each in checked.stacks}
    folder.write_json("outputs.json", outputs)
    setting.tell(f"read back and as planned: {len(checked.verified)} facts of {len(checked.stacks)} stacks")
    return Deployed(outputs=outputs, verification=checked)


def find(session: Session, cluster: str) -> StackState:
    """The training stack of a cluster that plans name.

    Raises:
        ImpossibleError: there is none of that name, or it is not whole.
        AwsError: a call failed.
    """
    suffix = f"-{TRAINING_STACK}"
    found = stacks.find(session, f"slipway-{cluster}{suffix}")
    if found is None:
        there = [
            each.removeprefix("slipway-").removesuffix(suffix)
            for each in stacks.names(session)
            if each.startswith("slipway-") and each.endswith(suffix)
        ]
        hint = nearest_name(cluster, there) or f"clusters there: {', '.join(sorted(there)) or 'none'}"
        raise ImpossibleError(
            f"target.cluster: no cluster {cluster} in {session.region}",
            hint=f"{hint}; without target.cluster the plan gets one of its own",
        )
    if found.status not in COMPLETE:
        hint = f"wait, or repair it with slipway deploy and the plan of {cluster}"
        raise ImpossibleError(f"target.cluster: cluster {cluster} is not whole: {found.status}", hint=hint)
    return found


def is_same(session: Session, assembly: Assembly) -> bool:
    """Whether every stack of an assembly stands already, made of the same things.

    Raises:
        AwsError: a call failed.
    """
    for name, path in assembly.templates.items():
        found = stacks.find(session, name)
        if found is None or found.status not in COMPLETE:
            return False
        wanted = json.loads(path.read_text(encoding="utf-8"))
        if without_job(wanted) != without_job(stacks.template(session, name)):
            return False
    return True


def without_job(part: Any) -> Any:
    """A template without what says which job its cluster was deployed with.

    >>> tags = [{"Key": "slipway:digest", "Value": "4f"}, {"Key": "slipway:cluster", "Value": "a"}]
    >>> without_job({"Tags": tags, "Outputs": {"PlanDigest": {"Value": "4f"}}})
    {'Tags': [{'Key': 'slipway:cluster', 'Value': 'a'}], 'Outputs': {}}
    """
    if isinstance(part, Mapping):
        return {key: without_job(value) for key, value in part.items() if key not in JOB_KEYS}
    if isinstance(part, list):
        return [without_job(each) for each in part if not (isinstance(each, Mapping) and each.get("Key") in JOB_TAGS)]
    return part


def described(session: Session, stack: StackState) -> ClusterState:
    """A cluster by the configuration that its stack was deployed with.

    Raises:
        ImpossibleError: the stack holds no ParallelCluster.
        AwsError: a call failed.
    """
    made = stacks.template(session, stack.name).get("Resources", {}).values()
    configurations = [each["Properties"]["ClusterConfiguration"] for each in made if each["Type"] == CLUSTER_TYPE]
    if not configurations:
        raise ImpossibleError(f"target.cluster: stack {stack.name} holds no ParallelCluster")
    queues = [
        QueueState(
            name=queue["Name"],
            instance_type=resource["InstanceType"],
            capacity_type=queue.get("CapacityType", ON_DEMAND),
            maximum=int(resource["MaxCount"]),
        )
        for queue in configurations[0]["Scheduling"]["SlurmQueues"]
        for resource in queue["ComputeResources"]
    ]
    return ClusterState(name=stack.outputs["ClusterName"], queues=tuple(queues))


def refuse_unless_fits(plan: Plan, cluster: ClusterState) -> None:
    """Go on only when a queue of the cluster has what the plan was priced with.

    Raises:
        ImpossibleError: none has, with what there is.
    """
    place = plan.place
    if fits(place.instance_type, place.nodes, place.option, cluster):
        return
    there = ", ".join(
        f"{queue.name} ({queue.maximum} x {queue.instance_type}, {queue.capacity_type.lower().replace('_', ' ')})"
        for queue in cluster.queues
    )
    asked = f"{place.nodes} x {place.instance_type}, {place.option.value.replace('-', ' ')}"
    raise ImpossibleError(
        f"target.cluster: no queue of {plan.cluster_name} has {asked}; there are: {there or 'none'}",
        hint="pin what the cluster has: target.instance_type, target.nodes, purchase.option",
    )


def refuse_unless_in_zone(plan: Plan, session: Session, subnet_id: str) -> None:
    """Go on only when the price is of the zone that the cluster stands in: spot prices differ between zones.

    Raises:
        ImpossibleError: it is of another.
        AwsError: the call failed.
    """
    stands = networks.subnets(session, (subnet_id,))[0].az_id
    if plan.place.az_id not in (None, stands):
        raise ImpossibleError(
            f"target.cluster: {plan.cluster_name} stands in {stands}, and the price is of {plan.place.az_id}",
            hint=f"target.az_id: {stands}",
        )
