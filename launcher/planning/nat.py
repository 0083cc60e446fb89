"""How the nodes of a new network reach what is outside it: NAT gateway, NAT instance, public addresses, endpoints."""

import re
from collections.abc import Iterator, Mapping

from launcher.model.enums import Egress, NatMode
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import Target
from launcher.targets.registry import TARGETS, target_of

MOST_PUBLIC_NODES = 8
"""Nodes up to which public addresses cost less than a NAT gateway in every run: with the head node's, they are nine
addresses; a gateway costs as much an hour as nine addresses, and has one itself (catalog, prices/bill_items.csv)."""
_CHOSEN = {NatMode.GATEWAY: Egress.NAT_GATEWAY, NatMode.INSTANCE: Egress.NAT_INSTANCE}
AUTO_CODE = "nat-auto"
"""The code of the finding on what `network.nat` auto took."""
OWN_NAT_CODE = "nat-own"
"""The code of the finding on what a second plan pays for a NAT of its own."""
_ECR = re.compile(r"\d{12}\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?/")
"""Images of the account's own registry. ECR's endpoints do not reach public.ecr.aws."""

_DOWNLOAD = (
    r"\b(pip3?|uv|conda|mamba|apt|apt-get|dnf|yum|npm)\s+(.*\s)?(install|sync|add|download|create|update)\b"
    r"|\b(curl|wget)\s|\bgit\s+clone\b|\bhuggingface-cli\s+download\b|\bhf\s+download\b"
)
"""Commands that fetch from package indexes, hubs or other hosts."""
_ONLINE = ("HF_", "HUGGING_FACE_", "WANDB_", "COMET_", "NEPTUNE_", "CLEARML_", "MLFLOW_", "NGC_")
"""Beginnings of variables of programs that connect to a hub or a tracking service."""


def egress(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Egress | None:
    """How the nodes of a place reach what is outside their network; None if Slipway creates no network for them.

    `network.nat` auto is the cheaper of public addresses and a NAT gateway; a NAT instance has no replacement and nodes
    with endpoints alone reach no package index, so a plan has to ask for them.
    """
    network, target = request.network, request.target
    if network.vpc_id is not None or target.cluster is not None or target.ssh_host is not None:
        return None
    if target_of(place.target).in_service_network:
        return Egress.ENDPOINTS if network.is_closed and _can_be_closed(request, place) else None
    if network.nat in _CHOSEN:
        return _CHOSEN[network.nat]
    reason = obstacle(request, place, instances)
    if network.nat is NatMode.NONE:
        return Egress.ENDPOINTS if reason and _can_be_closed(request, place) else Egress.PUBLIC_ADDRESSES
    return Egress.PUBLIC_ADDRESSES if place.nodes <= MOST_PUBLIC_NODES and not reason else Egress.NAT_GATEWAY


def obstacle(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> str:
    """Why the nodes of a place cannot have public addresses; empty if they can."""
    row, names = target_of(place.target), (place.instance_type, *request.target.fallback_types)
    attached = place.nodes > 1 or row.efa_on_one_node
    several = [name for name in names if name in instances and attached and instances[name].network_cards > 1]
    if not row.public_nodes or request.workload.serve is not None:
        able = " or ".join(kind.value for kind, facts in TARGETS.items() if facts.public_nodes)
        return f"only nodes of {able} can have public addresses"
    if request.network.private:
        return "network.private keeps nodes without public addresses"
    if several:
        return f"EC2 gives no public address to an instance with several network cards, got {', '.join(several)}"
    if request.network.name is not None:
        return f"the clusters that share network {request.network.name} share its NAT"
    if request.storage.has_login_pool and row.login_balancer:
        return "the load balancer of the login nodes is in a private subnet"
    return ""


def possible_egress(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> tuple[Egress, ...]:
    """The ways among which `network.nat` auto takes the cheapest: one where the plan decides, none without a network.

    Clusters that share a network share its NAT gateway. A cluster without a job has no hours to compare.
    """
    planned = egress(request, place, instances)
    if planned is None:
        return ()
    network, train = request.network, request.workload.train
    if network.nat is not None or network.name is not None or train is None:
        return (planned,)
    reason = obstacle(request, place, instances)
    open_modes = (Egress.NAT_GATEWAY, Egress.NAT_INSTANCE)
    if not reason:
        return (*open_modes, Egress.PUBLIC_ADDRESSES)
    return (*open_modes, Egress.ENDPOINTS) if _needs_no_internet(request, place) else open_modes


def _needs_no_internet(request: PlanRequest, place: Place) -> bool:
    """Whether the plan shows that its job works with endpoints alone: its inputs come from S3, and nothing is fetched.

    What the user's program opens itself is not known, so a plan has to name where its inputs come from.
    """
    run, train = request.run, request.workload.train
    steps = (*run.before, *run.after)
    texts = [" ".join(command) for command in (run.command, *(step.command for step in steps)) if command]
    names = (*run.env, *run.secrets)
    return (
        _can_be_closed(request, place)
        and (bool(run.data) or (train is not None and (train.data.uri or "").startswith("s3://")))
        and not any(re.search(_DOWNLOAD, text) for text in texts)
        and not any(name.startswith(_ONLINE) for name in names)
        and not any(_unreachable(request, place))
    )


def _open_hint(place: Place) -> str:
    """How a plan gives its nodes a way to the internet."""
    service = target_of(place.target).in_service_network
    return "remove network.nat and network.private" if service else "set network.nat to gateway or instance"


def _can_be_closed(request: PlanRequest, place: Place) -> bool:
    """Whether the nodes of a place can work with endpoints alone."""
    row = target_of(place.target)
    return row.needed_endpoints is not None and request.network.name is None and request.workload.serve is None


def interface_endpoints(request: PlanRequest, target: Target, chosen: Egress | None) -> tuple[str, ...]:
    """The services with an interface endpoint in a new network, each in one zone: the plan's, and those it needs."""
    network = request.network
    if network.vpc_id is not None:
        return ()
    if chosen is not Egress.ENDPOINTS:
        return network.endpoints
    needed = [*(target.needed_endpoints or ())]
    if request.run.image is not None and not target.is_managed:  # SageMaker pulls the image outside the VPC
        needed += ("ecr.api", "ecr.dkr")
    needed += sorted({arn.split(":")[2] for arn in request.run.secrets.values()})
    return (*network.endpoints, *(service for service in dict.fromkeys(needed) if service not in network.endpoints))


def nat_findings(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """Errors for a network that the nodes of a place cannot have, and what they cannot reach from a closed one."""
    if request.network.nat is not NatMode.NONE:
        return
    reason, chosen = obstacle(request, place, instances), egress(request, place, instances)
    row = target_of(place.target)
    if chosen is Egress.PUBLIC_ADDRESSES and reason:
        closed = f"; endpoints alone are not enough for {row.kind}: {row.needs_internet}" if row.needs_internet else ""
        yield error("no-public-addresses", "network.nat", f"none does not work: {reason}{closed}", "set it to auto")
    if row.in_service_network and request.network.private and chosen is None:
        message = f"none does not work: {row.kind} runs in the service's own network, which reaches the internet"
        hint = "name your own VPC without a route to the internet: network.vpc_id and subnet_ids"
        yield error("no-closed-network", "network.nat", message, hint)
    if chosen is Egress.ENDPOINTS:
        yield from _unreachable(request, place)


def egress_remarks(request: PlanRequest, place: Place, instances: Mapping[str, InstanceType]) -> Iterator[Finding]:
    """What nodes with endpoints alone cannot reach, whatever the plan does."""
    if request.network.nat is NatMode.NONE and egress(request, place, instances) is Egress.ENDPOINTS:
        closed = "network.nat none and network.private"
        reason = closed if request.network.is_closed else obstacle(request, place, instances)
        services = ("S3", *interface_endpoints(request, target_of(place.target), Egress.ENDPOINTS))
        message = f"nodes reach {', '.join(services)} alone, no package index and no model hub: {reason}"
        hint = f"keep weights and data in S3 (run.data), or {_open_hint(place)}"
        yield warning("no-internet", "network.nat", message, hint)


def ecr_region(image: str | None) -> str | None:
    """The region of an image in ECR, None elsewhere: in that region a gateway endpoint reaches its layers in S3.

    >>> ecr_region("123456789012.dkr.ecr.us-east-2.amazonaws.com/train:1"), ecr_region("nvcr.io/nvidia/pytorch:25.01")
    ('us-east-2', None)
    """
    found = None if image is None else _ECR.match(image)
    return None if found is None else found["region"]


def _unreachable(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """An error for each thing in the plan that nodes with endpoints alone cannot reach."""
    # SageMaker pulls the image of a training job outside the job's network.
    image = None if target_of(place.target).in_service_network else request.run.image
    if image is not None and ecr_region(image) != place.region:
        message = f"nodes without a way to the internet reach the images of ECR in {place.region} alone, got {image}"
        yield error("unreachable-image", "run.image", message, f"copy it there, or {_open_hint(place)}")
    data = request.workload.train.data if request.workload.train is not None else None
    if data is not None and data.region not in (None, place.region):
        message = f"S3's gateway endpoint reaches {place.region} alone, the data are in {data.region}"
        yield error("unreachable-data", "workload.train.data.region", message, f"copy them, or {_open_hint(place)}")
    for index, line in enumerate(request.run.setup):
        if re.search(_DOWNLOAD, line):
            message = f"nodes without a way to the internet cannot run {line!r}"
            fix = f"put what it fetches into run.image, target.ami or S3 (run.data), or {_open_hint(place)}"
            yield error("unreachable-packages", f"run.setup[{index}]", message, fix)
