"""Compares a HyperPod cluster and its file system with the plan."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.aws import hyperpod, lustre
from launcher.aws.hyperpod import PodState
from launcher.model import eks
from launcher.model.enums import PurchaseOption
from launcher.model.hyperpod import CONTROLLER, LOGIN, WORKERS, ml_name
from launcher.model.kubernetes import team_queue
from launcher.model.sizing import LOGIN_NODE, head_node
from launcher.rendering.cluster import queue_name
from launcher.targets.registry import target_of
from launcher.workflow.cluster.readback.reading import BilledInstances, Reading

IN_SERVICE = "InService"
AVAILABLE = "AVAILABLE"
DATA_FOLDER = "/data"
"""The folder of the training data in the file system (infra/parts/hyperpod_lustre.py)."""
CHANGES = frozenset(("NEW", "CHANGED", "DELETED"))


def cluster(reading: Reading) -> None:
    """The groups with types and counts, Slurm's roles, the recovery of instances, the subnet and security groups."""
    checks, plan, outputs = reading.checks, reading.plan, reading.main.outputs
    state = hyperpod.describe_cluster(reading.session, outputs["ClusterName"])
    place = plan.place
    checks.equal("HyperPod cluster", IN_SERVICE, state.status)
    checks.equal("faulty instances are replaced", "Automatic", state.node_recovery)
    checks.equal("HyperPod's subnet", (outputs["PrivateSubnetId"],), state.subnets)
    groups = (outputs["NodeSecurityGroupId"], *plan.request.network.security_group_ids)
    checks.equal("HyperPod's security groups", frozenset(groups), frozenset(state.security_groups))
    if target_of(place.target).pods:
        _nodes(reading, state)
    else:
        _slurm(reading, state)


def _nodes(reading: Reading, state: PodState) -> None:
    """The instance groups that are nodes of the EKS cluster; the guard may have deleted the workers."""
    checks, plan = reading.checks, reading.plan
    place, bought = plan.place, plan.request.purchase.training_plan
    system = (ml_name(head_node(place.nodes, plan.request.storage.head_node)), 1)
    checks.equal("its nodes join", reading.main.outputs["EksArn"], state.eks_arn)
    checks.equal("instance groups", frozenset((eks.SYSTEM, eks.WORKERS)), frozenset(state.groups))
    nodes = (ml_name(place.instance_type), _nodes_now(state, place.nodes))
    for name, expected in ((eks.SYSTEM, system), (eks.WORKERS, nodes)):
        group = state.groups.get(name)
        if group is not None:
            checks.equal(f"group {name}", expected, (group.instance_type, group.desired))
    workers = state.groups.get(eks.WORKERS)
    if workers is not None:
        checks.equal("workers on spot", place.option is PurchaseOption.SPOT, workers.spot)
        checks.equal("workers' training plan", None if bought is None else bought.arn, workers.training_plan_arn)


def _nodes_now(state: PodState, planned: int) -> int:
    """The expected number of workers: 0 after the guard has deleted them, until a launch creates them again."""
    workers = state.groups.get(WORKERS)
    return 0 if workers is not None and not workers.desired else planned


def quotas(reading: Reading) -> None:
    """The quota of the queue's team: every instance of the jobs' type."""
    checks, place, queue = reading.checks, reading.plan.place, team_queue(reading.plan.request.target.queue)
    for quota_id in reading.ids("AWS::SageMaker::ComputeQuota"):
        quota = hyperpod.describe_quota(reading.session, quota_id)
        shares = quota.get("ComputeQuotaConfig", {}).get("ComputeQuotaResources", ())
        instances = {share["InstanceType"]: int(share.get("Count", 0)) for share in shares}
        checks.holds("quota is in force", quota["Status"] in ("Created", "Updated"))
        checks.equal("quota's cluster", reading.main.outputs["ClusterArn"], quota.get("ClusterArn"))
        checks.equal("quota's team", None if queue is None else queue.team, quota["ComputeQuotaTarget"]["TeamName"])
        checks.equal("quota's instances", {ml_name(place.instance_type): place.nodes}, instances)


def _slurm(reading: Reading, state: PodState) -> None:
    checks, plan, outputs = reading.checks, reading.plan, reading.main.outputs
    place, storage = plan.place, plan.request.storage
    workers, nodes = state.groups.get(WORKERS), _nodes_now(state, place.nodes)
    expected = {
        CONTROLLER: (ml_name(head_node(place.nodes, storage.head_node)), 1, "Controller"),
        WORKERS: (ml_name(place.instance_type), nodes, "Compute"),
    }
    if storage.login_nodes:
        expected[LOGIN] = (ml_name(LOGIN_NODE), storage.login_nodes, "Login")
    checks.equal("instance groups", frozenset(expected), frozenset(state.groups))
    for name, group in state.groups.items():
        checks.equal(f"group {name}", expected.get(name), (group.instance_type, group.desired, group.node_type))
    if workers is not None:
        bought = plan.request.purchase.training_plan
        checks.equal("workers' partition", (queue_name(place.instance_type),), workers.partitions)
        checks.equal("workers' training plan", None if bought is None else bought.arn, workers.training_plan_arn)
    if reading.queues is not None:
        running = [(queue.name, queue.maximum) for queue in reading.queues(outputs["ClusterName"])]
        planned = [(queue_name(place.instance_type), place.nodes)] if nodes else []
        checks.equal("Slurm's partitions and nodes", planned, running)


def file_systems(reading: Reading) -> None:
    """The file system's size, throughput and key, and its place in the nodes' subnet."""
    checks, storage = reading.checks, reading.plan.request.storage
    for file_system_id in reading.ids("AWS::FSx::FileSystem"):
        described = lustre.describe_file_system(reading.session, file_system_id)
        checks.equal("file system", AVAILABLE, described["Lifecycle"])
        if storage.kms_key_arn is not None:
            checks.equal("file system's key", storage.kms_key_arn, described.get("KmsKeyId"))
        gib = target_of(reading.plan.place.target).shared_gib(storage.lustre_gib)
        checks.equal("file system, GiB", gib, described["StorageCapacity"])
        mb_s_per_tib = described.get("LustreConfiguration", {}).get("PerUnitStorageThroughput")
        checks.equal("file system, MB/s per TiB", storage.lustre_mb_s_per_tib, mb_s_per_tib)
        subnets = tuple(described.get("SubnetIds", ()))
        checks.equal("file system's subnet", (reading.main.outputs["PrivateSubnetId"],), subnets)


def data_links(reading: Reading) -> None:
    """The link to the training data: the cluster's own file system shows them and follows changes of the bucket."""
    checks, train = reading.checks, reading.plan.request.workload.train
    for link_id in reading.ids("AWS::FSx::DataRepositoryAssociation"):
        link = lustre.describe_link(reading.session, link_id)
        file_system, events = (
            link.get("FileSystemId", ""),
            link.get("S3", {}).get("AutoImportPolicy", {}).get("Events", ()),
        )
        checks.equal("link to the training data", AVAILABLE, link["Lifecycle"])
        checks.equal("training data", None if train is None else train.data.uri, link["DataRepositoryPath"])
        checks.equal("training data's folder", DATA_FOLDER, link.get("FileSystemPath"))
        checks.equal("training data's file system", reading.ids("AWS::FSx::FileSystem"), (file_system,))
        checks.equal("changes that the folder follows", CHANGES, frozenset(events))


def group_instances(properties: Mapping[str, Any], _resources: Mapping[str, Any]) -> Iterator[BilledInstances]:
    """The instances of each group."""
    for group in properties["InstanceGroups"]:
        name, count = group["InstanceType"].removeprefix("ml."), int(group["InstanceCount"])
        yield BilledInstances(type=name, count=count, managed=True, nodes=group["InstanceGroupName"] == WORKERS)
