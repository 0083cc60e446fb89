"""AWS PCS's rules for one place: findings, each with a fix."""

from collections.abc import Iterator, Mapping

from launcher.catalog.load import Catalog
from launcher.model import pcs
from launcher.model.enums import OperatingSystem, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.planning.targets import Locations, Rules
from launcher.targets.hyperpod_slurm.rules import shared_folder
from launcher.targets.pcs.facts import ACCOUNTING, CONTROLLER, NODE

_TO_PARALLELCLUSTER = f"target.kind: {TargetKind.PARALLELCLUSTER}"


def locations(
    request: PlanRequest, _catalog: Catalog, _facts: InstanceType, _option: PurchaseOption, known: Locations
) -> Locations:
    """The known locations if the plan names its target or gives its fees: without them PCS has no total to compare."""
    given = {"/".join(key.split("/")[:2]) for key in request.purchase.price_overrides}
    return known if request.target.kind is not None or {CONTROLLER, NODE, ACCOUNTING} <= given else ()


def refusals(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Every reason why a place cannot be a PCS cluster; empty if it can."""
    rules = (
        _image(request, place, instances),
        _capacity(place),
        _limits(request, place),
        _unused(request),
        _roles(request),
    )
    return tuple(finding for rule in rules for finding in rule)


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


def _unused(request: PlanRequest) -> Iterator[Finding]:
    if request.storage.login_nodes:
        message = f"a PCS cluster has 1 login node, which receives the jobs, got {request.storage.login_nodes} more"
        yield error("pcs-unused", "storage.login_nodes", message, "set storage.login_nodes to 0")


def _roles(request: PlanRequest) -> Iterator[Finding]:
    arn = request.security.roles.nodes
    if arn is not None and not pcs.is_own_role(arn):
        message = f"PCS accepts a role with the path {pcs.ROLE_PATH}, or with a name that begins with AWSPCS, got {arn}"
        yield error(
            "pcs-role", "security.roles.nodes", message, "create the role with aws iam create-role --path /aws-pcs/"
        )


def remarks(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Finding, ...]:
    """Unconfirmed behavior of a place on PCS, and costs that the user did not request."""
    return tuple(_remarks(request, place, instances[place.instance_type]))


def _remarks(request: PlanRequest, place: Place, facts: InstanceType) -> Iterator[Finding]:
    block = place.option is PurchaseOption.CAPACITY_BLOCK
    yield from shared_folder("pcs-shared-folder", "PCS", request, place)
    if facts.neuron:
        message = (
            f"Trainium on PCS is not confirmed: no public template attaches EFA to {facts.name}, jobs take whole nodes"
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
            f"AWS does not document whether PCS starts {place.nodes} nodes together: some nodes may wait and be billed"
        )
        yield warning("pcs-partial-fleet", "target.nodes", message, "with a Capacity Block, all nodes are available")


RULES = Rules(locations=locations, refusals=refusals, remarks=remarks)
