"""The findings of a training candidate: its nodes, disks, network, capacity, command and prices."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

from launcher.model.enums import PREPAID, CheckpointMode, Level, PurchaseOption
from launcher.model.finding import Finding, info, warning
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price, Range
from launcher.model.plan import Plan
from launcher.model.sizing import COMPUTE_ROOT_GIB, IMAGE_GIB, SYSTEM_GIB
from launcher.model.units import GB_PER_GIB
from launcher.planning.drivers import driver_remarks
from launcher.planning.fetching import connection_findings
from launcher.planning.job_command import CODE as CHIPS_IDLE
from launcher.planning.nat import egress_remarks
from launcher.planning.registry import budget_findings
from launcher.pricing.blocks import before_it_begins, begins, until
from launcher.pricing.compute import boot_hours
from launcher.pricing.hyperpod import surcharge
from launcher.pricing.idle_tail import never_stops
from launcher.pricing.network_choice import choice_findings
from launcher.pricing.own_cluster import against_cluster
from launcher.pricing.refusals import may_be_late
from launcher.pricing.stop_findings import retry_findings, run_time_findings, time_findings
from launcher.pricing.training_candidate import TrainingCandidate
from launcher.pricing.trust import market_findings, trust_findings
from launcher.pricing.uncounted import unpriced_lines
from launcher.targets.registry import target_of

NODES_OF_A_WHOLE_RESTORE = 32
"""Number of nodes up to which the agent restores by copying every file to every node: a choice of this project."""


def left_up_usd_per_hour(candidate: TrainingCandidate, per_hour: Decimal | None) -> Decimal | None:
    """The hourly cost after the job until the cluster is removed; includes the nodes if nothing stops them."""
    place, request = candidate.place, candidate.context.request
    if not candidate.context.bill.own_cluster:
        return Decimal(0)
    # A block's nodes end with the block, and are paid already.
    nodes_stay = place.option not in PREPAID and never_stops(place.target, request)
    if nodes_stay and per_hour is None:
        return None
    compute = per_hour if nodes_stay and per_hour is not None else Decimal(0)
    return compute + candidate.other_costs.up_usd_per_hour(nodes=nodes_stay)


def findings_of(candidate: TrainingCandidate, plan: Plan, hours: Range) -> tuple[Finding, ...]:
    """All findings on a candidate whose job takes so many hours; its refusals come first."""
    price, place, context = candidate.offer.price, candidate.place, candidate.context
    findings = list(candidate.refusals)
    findings.extend(market_findings(candidate))
    facts = context.catalog.instance_types[place.instance_type]
    findings.extend(_place_findings(candidate, plan, _node_findings))
    if context.job_command.programs:
        findings.extend(_idle_chips(candidate, facts))
    findings.extend(choice_findings(candidate))
    findings.extend(_place_findings(candidate, plan, _network_findings))
    findings.extend(_not_begun(candidate))
    findings.extend(_place_findings(candidate, plan, _account_findings))
    if isinstance(price, Price) and price.usd == 0:
        message = f"the price of the nodes is $0 an hour ({price.source}): the total does not include them"
        findings.append(warning("zero-price", "purchase", message))
    target = target_of(place.target)
    if target.per_job:
        findings.extend(against_cluster(candidate))
    if target.in_service_network:
        findings.extend(run_time_findings(plan, hours, context.quotas))
    elif target.is_managed and isinstance(price, Price):
        more = surcharge(place, candidate.work, price, hours.mid, context.catalog)
        findings += [] if more is None else [more]
    start_h = candidate.charge.start_h if candidate.charge else boot_hours(candidate.place, candidate.work)
    findings.extend(time_findings(place, context.request, hours, start_h))
    findings.extend(retry_findings(context.request, candidate.failures, candidate.hours))
    findings.extend(warning(*late) for late in may_be_late(hours, place, context))
    findings.extend(trust_findings(candidate))
    findings.extend(unpriced_lines(candidate.other_summary.unpriced))
    return tuple(findings)


def _place_findings(
    candidate: TrainingCandidate, plan: Plan, find: Callable[[TrainingCandidate, Plan], Iterator[Finding]]
) -> tuple[Finding, ...]:
    """Findings that no purchase option changes, computed once for the nodes and the network of a place."""
    place, known = candidate.place, candidate.context.of_places
    where = (place.target, place.instance_type, place.nodes, place.region, place.az_id)
    key = (find, *where, plan.request.network.nat, candidate.work.checkpoint_gb)
    if key not in known:
        known[key] = tuple(find(candidate, plan))
    return known[key]


def _node_findings(candidate: TrainingCandidate, _plan: Plan) -> Iterator[Finding]:
    place = candidate.place
    facts = candidate.context.catalog.instance_types[place.instance_type]
    # A type whose interfaces are unknown may have EFA.
    if place.nodes > 1 and not facts.efa_interfaces and "efa_interfaces" not in facts.unknown:
        message = f"{place.instance_type} has no EFA: {place.nodes} nodes communicate over TCP"
        yield warning("no-efa", "target.nodes", message, "use 1 node, or a type with EFA")
    yield from _restore_by_all(candidate)
    yield from _disk_too_small(candidate, facts)


def _network_findings(candidate: TrainingCandidate, plan: Plan) -> Iterator[Finding]:
    place, catalog = candidate.place, candidate.context.catalog
    yield from egress_remarks(plan.request, place, catalog.instance_types)
    yield from connection_findings(place, plan.request, catalog.instance_types[place.instance_type], catalog)


def _account_findings(candidate: TrainingCandidate, _plan: Plan) -> Iterator[Finding]:
    place, context = candidate.place, candidate.context
    yield from budget_findings(context.request, place.region)
    yield from driver_remarks(context.request, place, context.catalog)


def _idle_chips(candidate: TrainingCandidate, facts: InstanceType) -> Iterator[Finding]:
    """Findings on chips that a job's command of known programs leaves without work."""
    price, place, context = candidate.offer.price, candidate.place, candidate.context
    from launcher.planning.idle_chips import idle_findings
    from launcher.planning.launchers import nodes_of

    usd_per_hour = price.usd * place.nodes if isinstance(price, Price) else None
    nodes = nodes_of(facts, place.nodes, usd_per_hour)
    counted = _counted_chips(candidate, f"{nodes.count * nodes.workers} {nodes.noun}s")
    for finding in idle_findings(context.job_command, context.request.run.env, nodes):
        waste = finding.code == CHIPS_IDLE and finding.level is Level.WARNING
        yield replace(finding, message=f"{finding.message}{counted}") if waste else finding


def _counted_chips(candidate: TrainingCandidate, every: str) -> str:
    """What the hours count while chips are idle; "" for hours that the plan or the user's own runs give."""
    train, work = candidate.context.request.workload.train, candidate.work
    if train is None or work.training is None or train.throughput_tokens_per_s is not None:
        return ""
    if work.counted_chips is None:
        return f"; the hours assume that all {every} work"
    return work.counted_chips and f"; {work.counted_chips}"


def _disk_too_small(candidate: TrainingCandidate, facts: InstanceType) -> Iterator[Finding]:
    """A warning if a node's disk cannot hold the image and the checkpoints that it stores at the same time.

    At a restore a node has the files of all nodes; it also writes one copy of its own part and uploads another.
    """
    nodes, gigabytes = candidate.place.nodes, candidate.work.checkpoint_gb
    if candidate.context.request.checkpoint.mode is not CheckpointMode.AGENT or gigabytes is None:
        return
    # Without the size of the disks nothing can be said about them.
    if "nvme_gb" in facts.unknown:
        return
    needed = gigabytes * (1 + 1.5 / nodes) + IMAGE_GIB * GB_PER_GIB
    root = (COMPUTE_ROOT_GIB - SYSTEM_GIB) * GB_PER_GIB
    disk = facts.nvme_gb or root
    if needed <= disk:
        return
    subject = "its NVMe disks have" if facts.nvme_gb else f"its root volume of {COMPUTE_ROOT_GIB} GiB has"
    message = (
        f"a node of {facts.name} needs about {needed:,.0f} GB for checkpoints of {gigabytes:,.0f} GB and an image;"
        f" {subject} {disk:,.0f} GB free"
    )
    fix = "a type with larger NVMe disks, or checkpoint.mode: dcp, which keeps no copy on the node"
    yield warning("disk-too-small", "target.instance_type", message, fix)


def _not_begun(candidate: TrainingCandidate) -> Iterator[Finding]:
    """A finding for capacity that begins later: a new cluster is billed from its deployment, a training job is not."""
    context, option = candidate.context, candidate.place.option
    starts_at = begins(context.request.purchase, option, context.now)
    if starts_at is None:
        return
    key = "training_plan" if option is PurchaseOption.TRAINING_PLAN else "reservation"
    path = f"purchase.{key}.starts_at"
    if target_of(candidate.place.target).per_job:
        when = until(starts_at, context.now)
        yield info("not-begun", path, f"begins {when}: a job that is launched now waits until then, and is not billed")
    elif rate := left_up_usd_per_hour(candidate, None):
        message = before_it_begins(starts_at, context.now, rate)
        yield warning("not-begun", path, message, "run slipway launch FILE when it starts")


def _restore_by_all(candidate: TrainingCandidate) -> Iterator[Finding]:
    nodes, gigabytes = candidate.place.nodes, candidate.work.checkpoint_gb
    if candidate.context.request.checkpoint.mode is not CheckpointMode.AGENT or nodes <= NODES_OF_A_WHOLE_RESTORE:
        return
    amount = "" if gigabytes is None else f", {gigabytes:,.0f} GB and {nodes * gigabytes / 1000:,.0f} TB together"
    message = f"at a restore, each of the {nodes} nodes reads the files of all nodes{amount}"
    fix = "checkpoint.mode: dcp has each rank read its own shards"
    yield warning("restore-by-all", "checkpoint.mode", message, fix)
