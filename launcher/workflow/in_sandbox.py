"""A sandbox as the stories of `launch` and `deploy` use it: one of their own, or one that runs already."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from launcher.deploy.runner import SubprocessRunner
from launcher.model.plan import Plan
from launcher.planning.networks import subnet_id
from launcher.planning.pin import zone
from launcher.sandbox.environment import ACCOUNT
from launcher.sandbox.sandbox import Sandbox
from launcher.workflow.deploy import Setting, Tell
from launcher.workflow.price import Priced
from launcher.workflow.readback.reading import ClusterState, QueueState


@contextmanager
def sandbox_for(region: str, scheduler: str, given: Sandbox | None, tell: Tell) -> Iterator[Sandbox]:
    """The sandbox that was given, which goes on afterwards; without one a new one, which ends with the block."""
    if given is not None:
        yield given
        return
    tell("starting an embedded AWS on this machine")
    with Sandbox(region=region, scheduler=scheduler) as box:
        yield box


def furnished(box: Sandbox, plan: Plan) -> tuple[str, ...]:
    """Make stand-ins for the VPC and the buckets that a plan names as being there; what was made."""
    network, request = plan.request.network, plan.request
    zones = {each.id: each.az_id for each in network.subnets}
    own = subnet_id(plan)
    if own is not None and own not in zones and plan.place.az_id is not None:
        zones[own] = plan.place.az_id
    train = request.workload.train
    uris = (request.checkpoint.uri, train.data.uri if train is not None else None)
    buckets = [uri.removeprefix("s3://").partition("/")[0] for uri in uris if uri is not None]
    return box.furnish(vpc_id=network.vpc_id, zones=zones, buckets=buckets)


def setting_in(box: Sandbox, priced: Priced, plan: Plan, tell: Tell) -> Setting:
    """What a deployment into a sandbox happens in."""
    return Setting(
        runner=SubprocessRunner(),
        environment=box.process_environment(os.environ),
        account=ACCOUNT,
        zone=zone(plan.place, priced.catalog),
        instances=priced.catalog.instance_types,
        cluster=lambda name: cluster_state(box, name),
        tell=tell,
        max_usd=priced.desk.rules.max_usd,
    )


def cluster_state(box: Sandbox, name: str) -> ClusterState:
    """A cluster as its scheduler runs it: its nodes, gathered by queue."""
    queues: dict[str, QueueState] = {}
    for node in box.nodes(name):
        before = queues.get(node.partition)
        queues[node.partition] = QueueState(
            name=node.partition,
            instance_type=node.instance_type,
            capacity_type=node.capacity_type,
            maximum=(before.maximum if before else 0) + 1,
        )
    return ClusterState(name=name, queues=tuple(queues.values()))
