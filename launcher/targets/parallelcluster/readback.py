"""Compares a ParallelCluster with the plan: its queues as its scheduler runs them, or its own stack and head node."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.aws import instances, stacks
from launcher.targets.parallelcluster.target import ParallelCluster
from launcher.workflow.cluster.readback.reading import BilledInstances, Reading
from launcher.workflow.cluster.readback.training import BOUGHT_AS, COMPLETE, ON_DEMAND


def cluster(reading: Reading) -> None:
    """The cluster's queues as its scheduler runs them; if the scheduler is not reachable, its stack and head node."""
    checks, place = reading.checks, reading.plan.place
    if reading.queues is None:
        name = reading.main.outputs["ClusterName"]
        state = stacks.find(reading.session, name)
        reading.checks.holds(f"ParallelCluster's stack {name}", state is not None and state.status in COMPLETE)
        head_type = ParallelCluster().head_instance(place.nodes, reading.plan.request.storage.head_node)
        reading.checks.holds(f"head node {head_type} runs", head_type in instances.running(reading.session, name))
        return
    queues = reading.queues(reading.main.outputs["ClusterName"])
    types = (place.instance_type, *reading.plan.request.target.fallback_types)
    checks.equal("cluster queues", frozenset(types), frozenset(queue.instance_type for queue in queues))
    queue = next((queue for queue in queues if queue.instance_type == place.instance_type), None)
    if queue is not None:
        checks.equal("cluster nodes at most", place.nodes, queue.maximum)
        checks.equal("cluster capacity type", BOUGHT_AS.get(place.option, ON_DEMAND), queue.capacity_type)


def cluster_instances(properties: Mapping[str, Any], _resources: Mapping[str, Any]) -> Iterator[BilledInstances]:
    """The first queue is the priced one; later queues replace it and do not run in addition to it."""
    configuration = properties["ClusterConfiguration"]
    yield BilledInstances(type=configuration["HeadNode"]["InstanceType"], count=1)
    for pool in configuration.get("LoginNodes", {}).get("Pools", ()):
        yield BilledInstances(type=pool["InstanceType"], count=int(pool["Count"]))
    for resource in configuration["Scheduling"]["SlurmQueues"][0]["ComputeResources"]:
        kind = resource.get("InstanceType") or resource["Instances"][0]["InstanceType"]
        yield BilledInstances(
            type=kind, count=int(resource["MaxCount"]), nodes=True, with_jobs=not int(resource.get("MinCount", 0))
        )
