"""A cluster of AWS Parallel Computing Service: its facts, its fees, and its rules for one place."""

from collections.abc import Iterator, Mapping
from typing import ClassVar

from launcher.model import pcs
from launcher.model.administrator import by_administrator
from launcher.model.enums import EfaLayout, OperatingSystem, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import IDLE_METRICS, JOB_METRICS
from launcher.model.pcs import IMAGE_PARAMETER, LOGIN, SIZES, SLURM_VERSION, is_advanced, size_of
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.tags import CLUSTER_TAG, PURPOSE_TAG
from launcher.model.target import EC2, Fee, Guard, HeadNode, InstanceTags, Locations, RoleUse, VolumeKey
from launcher.model.units import HOURS_PER_MONTH
from launcher.model.update import KeyChange, Needs, Properties
from launcher.targets.bases import Ec2Target, shared_folder

CLUSTER_TYPE, GROUP_TYPE, QUEUE_TYPE = "AWS::PCS::Cluster", "AWS::PCS::ComputeNodeGroup", "AWS::PCS::Queue"
CONTROLLER, NODE, ACCOUNTING, STORAGE = "pcs/controller", "pcs/node", "pcs/accounting", "pcs/accounting-storage"
STORED_GB = 1
"""Assumed size of the accounting records: AWS publishes no size, and a record of a job is a few kilobytes."""
_PLAN_KEYS = {"Size": "target.nodes", "Name": "name", "Networking": "network"}
"""Keys of a cluster that require a new cluster with the same name, with the plan keys that decide them."""
_TO_PARALLELCLUSTER = f"target.kind: {TargetKind.PARALLELCLUSTER}"


class Pcs(Ec2Target):
    """A PCS cluster: Slurm's controller is AWS's, a login node accepts the jobs, nodes start with jobs."""

    kind = TargetKind.PCS
    title = "a PCS cluster"
    short = "PCS"
    example = "pcs/p5-spot.yaml"
    head = HeadNode(name="login node")
    # The controller is the service's: the login node only serves sessions.
    smallest_head = "m6i.large"
    guard = Guard(
        module="pcs",
        variable="PCS",
        events=(),
        spot_notices=True,
        idle="idle nodes",
        metrics_a_node=IDLE_METRICS,
        job_metrics=JOB_METRICS,
    )
    instance_tags = InstanceTags(cluster=CLUSTER_TAG, role=PURPOSE_TAG, node="node", prefix="")
    # The home folder of its nodes: they have no other shared folder.
    min_shared_gib = 1200
    # AWS's templates attach an interface with an address to every card.
    efa_layout = EfaLayout.CLASSIC
    public_nodes = True
    needs_internet = "its nodes install packages at boot"
    volume_key = VolumeKey.NAMED
    starts_volumes = "pcs.amazonaws.com/AWSServiceRoleForPCS"
    own_outputs = ("PcsClusterId",)
    left_resources: ClassVar[Mapping[str, str]] = {"AWS::PCS::Cluster": "PcsClusterId"}
    removed_by_cdk = False
    fee_keys = (CONTROLLER, NODE, ACCOUNTING, STORAGE)
    fee_service = r"(aws|amazon)?(pcs|parallelcomputing(service)?)"
    software = (f"slurm/{SLURM_VERSION}",)
    policies = ("network", "pcs")
    person = ("pcs-jobs", "nodes")
    quotas = ("pcs/clusters",)
    registry_types = (CLUSTER_TYPE, GROUP_TYPE, QUEUE_TYPE)
    roles = (
        RoleUse(
            key="nodes",
            service=EC2,
            needs=("jobs", "values", "nodes-of-pcs", "session-manager"),
            entered=True,
            pulls=True,
        ),
    )

    def image_parameter(self, facts: InstanceType) -> str | None:
        """AWS's PCS-ready image."""
        return IMAGE_PARAMETER

    def fees(self, request: PlanRequest, nodes: int, facts: InstanceType) -> tuple[Fee, ...]:
        """Fees for controller and accounting by size while the cluster is up, and for each instance while it runs."""
        size = (size_of(request, nodes) or SIZES[-1]).name.lower()
        tier = "advanced" if is_advanced(facts.family) else "standard"
        return (
            Fee(
                name=f"PCS controller, {size}", key=CONTROLLER, item=f"pcs.controller-{size}", unit="hour", an_hour_up=1
            ),
            Fee(
                name=f"PCS node management, {tier}",
                key=NODE,
                item=f"pcs.node-{tier}",
                unit="instance-hour",
                a_node_hour=nodes,
            ),
            Fee(
                name="PCS node management, login node",
                key=NODE,
                item="pcs.node-standard",
                unit="instance-hour",
                an_hour_up=1,
            ),
            Fee(
                name=f"PCS accounting, {size}", key=ACCOUNTING, item=f"pcs.accounting-{size}", unit="hour", an_hour_up=1
            ),
            *_storage(request),
        )

    def locations(self, request: PlanRequest, option: PurchaseOption, known: Locations) -> Locations:
        """The known locations if the plan names its target or gives its fees; without fees there is no total."""
        given = {"/".join(key.split("/")[:2]) for key in request.purchase.price_overrides}
        return known if request.target.kind is not None or {CONTROLLER, NODE, ACCOUNTING} <= given else ()

    def refusals(
        self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]
    ) -> tuple[Finding, ...]:
        """Every reason why a place cannot be a PCS cluster; empty if it can."""
        rules = (
            _image(request, place, instances),
            _capacity(place),
            _limits(request, place),
            _unused_keys(request),
            _roles(request),
        )
        return tuple(finding for rule in rules for finding in rule)

    def remarks(self, request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
        """Unconfirmed behavior of a place on PCS, and costs that the user did not request."""
        return tuple(self._remarks(request, place, instances[place.instance_type]))

    def _remarks(self, request: PlanRequest, place: Place, facts: InstanceType) -> Iterator[Finding]:
        block = place.option is PurchaseOption.CAPACITY_BLOCK
        yield from shared_folder(self, "pcs-shared-folder", "PCS", request)
        if facts.neuron:
            message = (
                f"Trainium on PCS is not confirmed: no public template attaches EFA to {facts.name},"
                " jobs take whole nodes"
            )
            yield warning("pcs-trainium-unconfirmed", "target.instance_type", message, _TO_PARALLELCLUSTER)
        if not block and request.purchase.reservation is not None:
            message = (
                "targeting a reservation from a PCS launch template is not confirmed: AWS's own templates use "
                "open reservations only"
            )
            yield warning("pcs-reservation-unconfirmed", "purchase.reservation", message, _TO_PARALLELCLUSTER)
        if not block and place.nodes > 1:
            message = (
                f"AWS does not document whether PCS starts {place.nodes} nodes together:"
                " some nodes may wait and be billed"
            )
            yield warning(
                "pcs-partial-fleet", "target.nodes", message, "with a Capacity Block, all nodes are available"
            )

    def key_changes(self, resource_type: str, old: Properties, new: Properties) -> Iterator[KeyChange]:
        """Changes that require a new cluster: its name, size and network, and the type of the login group.

        CloudFormation creates another login group before it removes the old one, but the name is in use.
        """
        if resource_type == CLUSTER_TYPE:
            for key, plan_key in _PLAN_KEYS.items():
                if old.get(key) != new.get(key):
                    yield KeyChange(
                        path=key, old=old.get(key), new=new.get(key), needs=Needs.NEW_CLUSTER, plan_key=plan_key
                    )
        was, becomes = self.head_type(resource_type, old), self.head_type(resource_type, new)
        if was is not None and becomes is not None and was != becomes:
            yield KeyChange(
                path="InstanceConfigs", old=was, new=becomes, needs=Needs.NEW_CLUSTER, plan_key="storage.head_node"
            )

    def head_type(self, resource_type: str, properties: Properties) -> str | None:
        """The instance type of a login group; None for any other group."""
        named = resource_type == GROUP_TYPE and properties.get("Name") == LOGIN
        return str(properties["InstanceConfigs"][0]["InstanceType"]) if named else None


def _storage(request: PlanRequest) -> tuple[Fee, ...]:
    """The fee for accounting storage; none if the plan sets only a price of accounting, which then includes storage."""
    given = {"/".join(key.split("/")[:2]) for key in request.purchase.price_overrides}
    if ACCOUNTING in given and STORAGE not in given:
        return ()
    key = STORAGE if STORAGE in given else ACCOUNTING
    an_hour = STORED_GB / HOURS_PER_MONTH
    name, item = f"PCS accounting storage, {STORED_GB} GB", "pcs.accounting-storage"
    return (Fee(name=name, key=key, item=item, unit="GB-month", an_hour_up=an_hour),)


def _image(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    target = request.target
    types = [name for name in (place.instance_type, *target.fallback_types) if name in instances]
    neuron = [name for name in types if instances[name].neuron]
    if target.ami is not None:
        return
    if neuron:
        message = (
            f"Slurm {pcs.SLURM_VERSION} in PCS has no GRES for {neuron[0]}, and the PCS-ready AMI has no Neuron driver"
        )
        hint = f"set target.ami to your own AMI with Neuron and the PCS agent, or {_TO_PARALLELCLUSTER}"
        yield error("pcs-trainium", "target.instance_type", message, hint)
    if target.os is not OperatingSystem.UBUNTU2404:
        message = f"the PCS-ready AMI is for {OperatingSystem.UBUNTU2404}, got {target.os}"
        yield error("pcs-os", "target.os", message, "set target.os to ubuntu2404, or target.ami to your own AMI")
    if request.run.image is not None:
        message = f"the PCS-ready AMI has neither enroot nor docker to run {request.run.image}"
        hint = "install what the command needs in run.setup, or set target.ami to your own AMI that has it"
        yield error("pcs-container", "run.image", message, hint)


def _capacity(place: Place) -> Iterator[Finding]:
    """The refusal of purchase options that a compute node group does not support."""
    if place.option not in pcs.PURCHASES:
        message = f"{place.option} does not buy PCS nodes, allowed: {', '.join(pcs.PURCHASES)}"
        yield error("option-without-nodes", "purchase.option", message)


def _limits(request: PlanRequest, place: Place) -> Iterator[Finding]:
    least, most = pcs.CLUSTER_NAME_LENGTH
    name = f"slipway-{request.name}"
    if request.target.cluster is None and len(name) > most:
        message = f"PCS takes {least} to {most} characters for a cluster, {name} has {len(name)}"
        yield error("pcs-name", "name", message, f"at most {most - len('slipway-')} characters")
    groups = 2 + len(request.target.fallback_types)
    if groups > pcs.MAX_GROUPS:
        message = f"a PCS cluster has at most {pcs.MAX_GROUPS} node groups, the login node's among them, got {groups}"
        yield error("pcs-groups", "target.fallback_types", message, f"at most {pcs.MAX_GROUPS - 2} fallback types")
    if pcs.size_of(request, place.nodes) is None:
        largest, train = pcs.SIZES[-1], request.workload.train
        jobs = 1 if train is None else train.runs
        message = (
            f"the largest PCS controller takes {largest.nodes:,} instances and {largest.jobs:,} jobs, the plan has"
            f" {pcs.instances_of(request, place.nodes):,} and {jobs:,}"
        )
        yield error("pcs-size", "target.nodes", message, f"fewer nodes or runs, or {_TO_PARALLELCLUSTER}")


def _unused_keys(request: PlanRequest) -> Iterator[Finding]:
    if request.storage.login_nodes:
        message = f"a PCS cluster has 1 login node, which receives the jobs, got {request.storage.login_nodes} more"
        yield error("pcs-unused", "storage.login_nodes", message, "set storage.login_nodes to 0")


def _roles(request: PlanRequest) -> Iterator[Finding]:
    arn = request.security.roles.nodes
    if arn is not None and not pcs.is_own_role(arn):
        message = f"PCS accepts a role with the path {pcs.ROLE_PATH}, or with a name that begins with AWSPCS, got {arn}"
        yield error(
            "pcs-role",
            "security.roles.nodes",
            message,
            f"create the role: {by_administrator('aws iam create-role --path /aws-pcs/')}",
        )
