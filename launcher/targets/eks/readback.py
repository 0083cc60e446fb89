"""Compares an EKS cluster and its node groups with the plan."""

from collections.abc import Iterator, Mapping
from typing import Any

from launcher.aws import eks as access
from launcher.aws import node_groups
from launcher.catalog.load import load
from launcher.model import eks
from launcher.model.hyperpod import WORKERS
from launcher.model.kubernetes import team_queue
from launcher.targets.hyperpod_eks.files import namespaces_of
from launcher.workflow.cluster.readback import training
from launcher.workflow.cluster.readback.reading import BilledInstances, Readers, Reading

ACTIVE = "ACTIVE"


def cluster(reading: Reading) -> None:
    """The control plane: its state, its version, and whether its API is public."""
    checks, plan = reading.checks, reading.plan
    state = access.describe(reading.session, reading.main.outputs["ClusterName"])
    checks.equal("EKS cluster", ACTIVE, None if state is None else state.status)
    if state is None:
        return
    checks.equal("Kubernetes", eks.VERSION, state.version)
    checks.equal("its API is public", bool(plan.request.network.api_cidrs), not state.private)


def groups(reading: Reading) -> None:
    """The node groups: state, number of nodes, purchase option. The minimum of the jobs' node group is 0."""
    checks, plan, name = reading.checks, reading.plan, reading.main.outputs["ClusterName"]
    system = node_groups.describe_group(reading.session, name, eks.SYSTEM)
    checks.equal("system node group", (ACTIVE, 1, 1), (system.status, system.minimum, system.maximum))
    state = node_groups.describe_group(reading.session, name, eks.WORKERS)
    checks.equal("node group", ACTIVE, state.status)
    checks.equal("nodes", (0, plan.place.nodes), (state.minimum, state.maximum))
    checks.equal("bought as", eks.CAPACITY_TYPES[plan.place.option], state.capacity_type)


def templates(reading: Reading) -> None:
    """The launch template of the jobs' nodes: their type, their EFA interfaces, their capacity reservation."""
    checks, plan, name = reading.checks, reading.plan, reading.main.outputs["ClusterName"]
    state = node_groups.describe_group(reading.session, name, eks.WORKERS)
    checks.holds("node group has a launch template", state.template is not None)
    if state.template is None:
        return
    planned = eks.interfaces(load().instance_types[plan.place.instance_type], plan.request.target.efa_layout)
    training.launch_template(reading, state.template, (interface.kind for interface in planned))


def addons(reading: Reading) -> None:
    """The add-ons and their versions."""
    hyperpod = bool(reading.ids("AWS::SageMaker::Cluster"))
    governed = team_queue(reading.plan.request.target.queue) is not None
    for name, version in eks.hyperpod_addons(governed=governed) if hyperpod else eks.ADDONS:
        status_and_version = access.addon_version(reading.session, reading.main.outputs["ClusterName"], name)
        reading.checks.equal(f"add-on {name}", (ACTIVE, version), status_and_version)


def entries(reading: Reading) -> None:
    """The access entries: the role that the launcher assumes."""
    outputs = reading.main.outputs
    policies = access.access_policies(reading.session, outputs["ClusterName"], outputs["AccessRoleArn"])
    reading.checks.equal("access entry of the jobs' role", ("AmazonEKSClusterAdminPolicy",), policies)


def pod_roles(reading: Reading) -> None:
    """The role granted to the jobs' pods, in each namespace."""
    for namespace in namespaces_of(reading.plan):
        name = reading.main.outputs["ClusterName"]
        roles = access.granted_roles(reading.session, name, namespace, reading.plan.name)
        reading.checks.equal(f"role granted to pods in {namespace}", 1, len(roles))


def group_instances(properties: Mapping[str, Any], resources: Mapping[str, Any]) -> Iterator[BilledInstances]:
    """The instances of a node group, from its launch template."""
    template = resources[properties["LaunchTemplate"]["Id"]["Ref"]]["Properties"]["LaunchTemplateData"]
    count = int(properties["ScalingConfig"]["MaxSize"])
    yield BilledInstances(type=template["InstanceType"], count=count, nodes=properties["NodegroupName"] == WORKERS)


CONTROL_PLANE: Readers = (
    (cluster, ("AWS::EKS::Cluster",)),
    (addons, ("AWS::EKS::Addon",)),
    (entries, ("AWS::EKS::AccessEntry",)),
    (pod_roles, ("AWS::EKS::PodIdentityAssociation",)),
)
