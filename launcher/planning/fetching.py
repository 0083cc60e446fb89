"""What the nodes of a job fetch from outside AWS before its first step, and how long that takes.

All nodes of a private network fetch through one NAT gateway or NAT instance, whose bandwidth they share.
"""

from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.catalog.training_images import training_image
from launcher.model.enums import Egress, Method, TargetKind
from launcher.model.finding import Finding, warning
from launcher.model.instance_type import InstanceType
from launcher.model.money import Assumption, Range
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.units import GB_PER_GIB, HOUR_S, MINUTE_S, billed_gb
from launcher.model.work import Work
from launcher.model.workload import ModelDimensions
from launcher.planning.nat import ecr_region, egress
from launcher.planning.outside_command import store_gb_per_s
from launcher.targets.registry import target_of

NAT_GB_PER_NODE = 20.0
"""Packages and a container image fetched through the NAT by each node: an assumption."""
IMAGE_GB = 10.0
"""The container image among them, compressed: an assumption. A node fetches an image in ECR of its own region from S3,
through the network's gateway endpoint (ECR user guide, interface VPC endpoints: layers are in S3)."""
LOG_GB_PER_NODE_HOUR = 0.05
"""Cluster, job and flow logs of one node: an assumption."""
NATS = (Egress.NAT_GATEWAY, Egress.NAT_INSTANCE)
"""The ways that all nodes share."""
WEIGHT_BYTES = 2.0
"""Bytes of a parameter on model hubs."""
NAT_GBPS = (5.0, 100.0)
"""Gbit/s of a NAT gateway: what it supports, and what it scales to by itself. How fast it scales is not documented, so
the mean rate of a job is taken as equally likely, in logarithms, anywhere between these bounds.
Its million packets per second, 12 Gbit/s in packets of 1,500 bytes, are not the limit."""
NAT_INSTANCE_GBPS = (0.781, 5.0)
"""Gbit/s of a NAT instance (m6i.large): its baseline, and what an instance with fewer than 32 vCPUs gets through an
internet gateway in a burst, which lasts 5 to 60 minutes."""
NAT_INSTANCE_SOURCE = "EC2 instance types guide, network specifications; EC2 user guide, instance network bandwidth"
NAT_PERCENTILES, NAT_INSTANCE_PERCENTILES = (
    tuple(least * (most / least) ** chance for chance in (0.1, 0.5, 0.9))
    for least, most in (NAT_GBPS, NAT_INSTANCE_GBPS)
)
"""Gbit/s that one job in ten gets at most, one in two, and nine in ten."""
NAT_CONNECTIONS = 55_000
"""Simultaneous connections of one gateway address to one destination."""
NAT_SOURCE = "VPC user guide, NAT gateway basics, read 2026-11-28"
BITS = 8
HUB_CONNECTIONS = 8
"""Files that a process fetches at the same time from a model hub (huggingface_hub, snapshot_download: max_workers)."""


def fetched_weights_gb(request: PlanRequest, catalog: Catalog) -> float:
    """Billed GB of weights that each node of a fine-tuning job fetches from outside AWS; 0 if the job needs none.

    Hubs store two bytes a parameter (bf16). A job that fetches from S3 (`run.data`) bypasses the NAT gateway.
    """
    train = request.workload.train
    if train is None or train.model is None or train.method is Method.PRETRAIN or request.run.data:
        return 0.0
    known = train.model if isinstance(train.model, ModelDimensions) else catalog.find_model(train.model)
    return 0.0 if known is None else billed_gb(WEIGHT_BYTES * known.params_b)


def packages_gb(request: PlanRequest, kind: TargetKind, facts: InstanceType, region: str) -> float:
    """Billed GB of packages that each node fetches through a NAT, and of an image outside ECR of the region."""
    image = request.run.image or (training_image(facts, region) if target_of(kind).pods else None)
    return NAT_GB_PER_NODE - (IMAGE_GB if ecr_region(image) == region else 0.0)


def nat_gb_per_node(
    request: PlanRequest, kind: TargetKind, facts: InstanceType, region: str, catalog: Catalog
) -> float:
    """Billed GB that each node fetches through a NAT: packages, weights, an image outside ECR of the region."""
    return packages_gb(request, kind, facts, region) + fetched_weights_gb(request, catalog)


def own_fetch_h(weights: float, facts: InstanceType) -> float:
    """Hours in which each node fetches the weights (`fetched_weights_gb`) at its own speed."""
    return weights * GB_PER_GIB / store_gb_per_s(facts) / HOUR_S


def shared_fetch_h(egress_mode: Egress, facts: InstanceType, nodes: int, *, packages: float, weights: float) -> Range:
    """Hours in which all nodes fetch weights and packages through one NAT gateway or NAT instance.

    The start-up of a node contains its packages; through the NAT, those of all nodes come at the same time.

    Args:
        egress_mode: one of `NATS`.
        facts: the instance type.
        nodes: the number of nodes.
        packages: billed GB of them for each node (`packages_gb`).
        weights: billed GB of them for each node (`fetched_weights_gb`).
    """
    own, once_gb = store_gb_per_s(facts), packages * GB_PER_GIB
    each_gb = weights * GB_PER_GIB + once_gb

    def hours(gbps: float) -> float:
        return (max(each_gb * nodes / (gbps / BITS), each_gb / own) - once_gb / own) / HOUR_S

    slow, middle, fast = NAT_INSTANCE_PERCENTILES if egress_mode is Egress.NAT_INSTANCE else NAT_PERCENTILES
    return Range(low=hours(fast), mid=hours(middle), high=hours(slow))


def fetching_lines(place: Place, work: Work) -> tuple[Assumption, ...]:
    """The hours of fetching in a quote, with what limits them; none where the user's own runs measured the start-up."""
    hours = work.fetch_hours(place)
    if hours is None or not hours.high:
        return ()
    egress_mode = work.egress(place)
    span, limit = f"{hours.mid * MINUTE_S:.2g}", "at the node's own speed, assumption, not measured"
    if egress_mode in NATS:
        rates = f"NAT gateway of {NAT_GBPS[0]:g} Gbit/s that scales to {NAT_GBPS[1]:g} ({NAT_SOURCE})"
        if egress_mode is Egress.NAT_INSTANCE:
            slow, fast = NAT_INSTANCE_GBPS
            rates = f"NAT instance of {slow:g} Gbit/s, {fast:g} in a burst ({NAT_INSTANCE_SOURCE})"
        limit = f"{hours.low * MINUTE_S:.2g} to {hours.high * MINUTE_S:.2g}: all {place.nodes} through one {rates}"
    return (
        Assumption(
            name="of it, weights and packages on their way to the nodes", value=span, unit="minutes", source=limit
        ),
    )


def connection_findings(place: Place, request: PlanRequest, facts: InstanceType, catalog: Catalog) -> Iterator[Finding]:
    """A warning if the processes of all nodes could open more connections to one host than a NAT gateway allows."""
    count = place.nodes * facts.training_workers * HUB_CONNECTIONS
    if count <= NAT_CONNECTIONS or egress(request, place, catalog.instance_types) is not Egress.NAT_GATEWAY:
        return
    if fetched_weights_gb(request, catalog):
        message = (
            f"{place.nodes} nodes x {facts.training_workers} processes x {HUB_CONNECTIONS} files open {count:,}"
            f" connections to a model hub; a NAT gateway allows {NAT_CONNECTIONS:,} to one destination ({NAT_SOURCE})"
        )
        hint = "read the weights from S3 (run.data), which bypasses the gateway, or fetch them in one process a node"
        yield warning("nat-connections", "network.nat", message, hint)
