"""A HyperPod cluster and its file system against the plan."""

from launcher.aws import hyperpod
from launcher.model.hyperpod import CONTROLLER, LOGIN, WORKERS, ml_name
from launcher.model.sizing import LOGIN_NODE, head_node
from launcher.model.target import target_of
from launcher.rendering.cluster import queue_name
from launcher.workflow.deploy.readback.reading import Reading

IN_SERVICE = "InService"
AVAILABLE = "AVAILABLE"
DATA_FOLDER = "/data"
"""Where the training data are in the file system (infra/parts/hyperpod_lustre.py)."""
CHANGES = frozenset(("NEW", "CHANGED", "DELETED"))


def cluster(reading: Reading) -> None:
    """The groups with their types and counts, Slurm's parts, the recovery of instances, and where it is."""
    checks, plan, outputs = reading.checks, reading.plan, reading.main.outputs
    state = hyperpod.describe_cluster(reading.session, outputs["ClusterName"])
    place, storage = plan.place, plan.request.storage
    checks.equal("HyperPod cluster", IN_SERVICE, state.status)
    checks.equal("faulty instances are replaced", "Automatic", state.node_recovery)
    checks.equal("HyperPod's subnet", (outputs["PrivateSubnetId"],), state.subnets)
    checks.equal("HyperPod's security group", (outputs["NodeSecurityGroupId"],), state.security_groups)
    workers = state.groups.get(WORKERS)
    # Its guard may have deleted them; a launch makes them again.
    nodes = 0 if workers is not None and not workers.wanted else place.nodes
    wanted = {
        CONTROLLER: (ml_name(head_node(place.nodes, storage.head_node)), 1, "Controller"),
        WORKERS: (ml_name(place.instance_type), nodes, "Compute"),
    }
    if storage.login_nodes:
        wanted[LOGIN] = (ml_name(LOGIN_NODE), storage.login_nodes, "Login")
    checks.equal("instance groups", frozenset(wanted), frozenset(state.groups))
    for name, group in state.groups.items():
        checks.equal(f"group {name}", wanted.get(name), (group.instance_type, group.wanted, group.node_type))
    if workers is not None:
        bought = plan.request.purchase.training_plan
        checks.equal("workers' partition", (queue_name(place.instance_type),), workers.partitions)
        checks.equal("workers' training plan", None if bought is None else bought.arn, workers.training_plan_arn)
    if reading.cluster is not None:
        running = [(each.name, each.maximum) for each in reading.cluster(outputs["ClusterName"]).queues]
        there = [(queue_name(place.instance_type), place.nodes)] if nodes else []
        checks.equal("Slurm's partitions and nodes", there, running)


def file_systems(reading: Reading) -> None:
    """The file system's size, speed and key, in the machines' subnet."""
    checks, storage = reading.checks, reading.plan.request.storage
    for each in reading.ids("AWS::FSx::FileSystem"):
        state = hyperpod.describe_file_system(reading.session, each)
        checks.equal("file system", AVAILABLE, state.lifecycle)
        if storage.kms_key_arn is not None:
            checks.equal("file system's key", storage.kms_key_arn, state.kms_key_arn)
        checks.equal(
            "file system, GiB", target_of(reading.plan.place.target).shared_gib(storage.lustre_gib), state.capacity_gib
        )
        checks.equal("file system, MB/s per TiB", storage.lustre_mb_s_per_tib, state.mb_s_per_tib)
        checks.equal("file system's subnet", (reading.main.outputs["PrivateSubnetId"],), state.subnets)


def data_links(reading: Reading) -> None:
    """The training data, shown in the cluster's own file system and kept as its bucket is."""
    checks, train = reading.checks, reading.plan.request.workload.train
    for each in reading.ids("AWS::FSx::DataRepositoryAssociation"):
        state = hyperpod.describe_link(reading.session, each)
        checks.equal("link to the training data", AVAILABLE, state.lifecycle)
        checks.equal("training data", None if train is None else train.data.uri, state.uri)
        checks.equal("training data's folder", DATA_FOLDER, state.path)
        checks.equal("training data's file system", reading.ids("AWS::FSx::FileSystem"), (state.file_system,))
        checks.equal("changes that the folder follows", CHANGES, state.follows)
