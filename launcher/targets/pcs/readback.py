"""Compares a PCS cluster with the plan: controller, node groups with their launch templates, queues, logs."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.aws import pcs
from launcher.catalog.load import load
from launcher.model.pcs import LOGIN, PURCHASES, ROLE_PATH, SETTINGS, SLURM_VERSION, interfaces, size_of
from launcher.rendering.cluster import queue_name
from launcher.targets.pcs.target import Pcs
from launcher.workflow.cluster.readback import training
from launcher.workflow.cluster.readback.reading import BilledInstances, Reading


def cluster(reading: Reading) -> None:
    """The controller: its state, size, Slurm version, accounting and network."""
    checks, plan, outputs = reading.checks, reading.plan, reading.main.outputs
    state = pcs.describe_cluster(reading.session, outputs["PcsClusterId"])
    size = size_of(plan.request, plan.place.nodes)
    groups = (outputs["NodeSecurityGroupId"], *plan.request.network.security_group_ids)
    checks.equal("PCS cluster", pcs.ACTIVE, state.status)
    checks.equal("size of its controller", None if size is None else size.name, state.size)
    checks.equal("Slurm", SLURM_VERSION, state.version)
    checks.equal("Slurm's settings", dict(SETTINGS), dict(state.settings))
    checks.equal("accounting", "STANDARD", state.accounting)
    checks.equal("PCS's subnet", (outputs["PrivateSubnetId"],), state.subnets)
    checks.equal("PCS's security groups", frozenset(groups), frozenset(state.security_groups))


def groups(reading: Reading) -> None:
    """The node groups: type, purchase option, number; the guard may have set the jobs' groups to 0."""
    checks, plan = reading.checks, reading.plan
    place, running = plan.place, _groups(reading)
    queue = queue_name(place.instance_type)
    names = {LOGIN, queue, *(queue_name(fallback_type) for fallback_type in plan.request.target.fallback_types)}
    checks.equal("node groups", names, set(running))
    checks.equal("states of the node groups", {pcs.ACTIVE}, {group.status for group in running.values()})
    checks.holds(
        "profiles are PCS's", all(f":instance-profile{ROLE_PATH}" in group.profile for group in running.values())
    )
    checks.equal("images", 1, len({group.image for group in running.values()}))
    if LOGIN in running:
        login, head = running[LOGIN], Pcs().head_instance(place.nodes, plan.request.storage.head_node)
        checks.equal("login node", (head, 1, 1), (login.instance_type, login.minimum, login.maximum))
    if queue in running:
        bought = (place.instance_type, PURCHASES[place.option])
        checks.equal("nodes", bought, (running[queue].instance_type, running[queue].purchase))
        checks.holds(f"at most {place.nodes} nodes", running[queue].maximum in (0, place.nodes))


def _groups(reading: Reading) -> dict[str, pcs.GroupState]:
    return {group.name: group for group in pcs.groups(reading.session, reading.main.outputs["PcsClusterId"])}


def templates(reading: Reading) -> None:
    """The launch template of the jobs' nodes: their type, their network interfaces, their capacity reservation."""
    plan = reading.plan
    group = _groups(reading).get(queue_name(plan.place.instance_type))
    if group is None:
        return
    planned = interfaces(load().instance_types[plan.place.instance_type])
    training.launch_template(reading, group.template, (interface.kind for interface in planned))


def queues(reading: Reading) -> None:
    """The queues: each has the node group of its type, and the login node is in none."""
    names = {group.id: group.name for group in _groups(reading).values()}
    states = pcs.queues(reading.session, reading.main.outputs["PcsClusterId"])
    reading.checks.equal("states of the queues", {pcs.ACTIVE}, {queue.status for queue in states})
    shown = {queue.name: tuple(names.get(one, one) for one in queue.groups) for queue in states}
    planned = (reading.plan.place.instance_type, *reading.plan.request.target.fallback_types)
    reading.checks.equal("queues", {queue_name(name): (queue_name(name),) for name in planned}, shown)
    if reading.queues is not None:
        running = reading.queues(reading.main.outputs["ClusterName"])
        reading.checks.equal("Slurm's partitions", set(shown), {queue.name for queue in running})


def group_instances(properties: Mapping[str, Any], _resources: Mapping[str, Any]) -> Iterator[BilledInstances]:
    """The instances of a node group."""
    counts, name = properties["ScalingConfiguration"], properties["Name"]
    yield BilledInstances(
        type=properties["InstanceConfigs"][0]["InstanceType"],
        count=int(counts["MaxInstanceCount"]),
        nodes=name != LOGIN,
        with_jobs=name != LOGIN and not int(counts["MinInstanceCount"]),
    )
