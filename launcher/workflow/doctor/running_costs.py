"""The `cost` command: Slipway's stacks in an account, their owner, their start and their dollars per hour."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal

from launcher.aws import endpoints, functions, hyperpod, instances, regions, stacks
from launcher.aws.clients import Sessions
from launcher.aws.instances import RunningInstance
from launcher.aws.metrics import Metric, latest
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.catalog.load import Catalog
from launcher.model.errors import AwsError
from launcher.model.hyperpod import WORKERS
from launcher.model.money import Price
from launcher.model.monitoring import GUARD_EVERY_MINUTES, GUARD_METRICS, NAMESPACE
from launcher.model.report import instances_text
from launcher.model.spending import StackCost
from launcher.model.tags import CLUSTER_TAG, NETWORK_TAG
from launcher.model.target import Runs, Target
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.rendering.cluster import owner_in
from launcher.rendering.names import NETWORK_STACK, SERVING_STACK, STORE_STACK, TRAINING_STACK
from launcher.targets.clusters import cluster_at
from launcher.targets.registry import TARGETS
from launcher.workflow.cluster.guard_stop import read_endpoint_stop, read_nodes_stop
from launcher.workflow.doctor.rates import hourly_rate

RUNNING, NODE_HOURS = GUARD_METRICS
PARTS = (TRAINING_STACK, SERVING_STACK, NETWORK_STACK, STORE_STACK)
AT_ONCE = 8
GIB = 2**30
STORED_WITHIN, STORED_PERIOD = timedelta(days=3), timedelta(days=1)
"""S3 reports the size of a bucket once a day (S3 user guide, storage metrics)."""
NOT_STARTED = "REVIEW_IN_PROGRESS"
REPORTS = 3
UNREPORTED = f"its guard has reported no number of nodes in the last {REPORTS * GUARD_EVERY_MINUTES} minutes"
"""The case in the first minutes of a cluster."""
UNCOUNTED = f"counted now: {UNREPORTED}"
_FAILED = ("ROLLBACK_COMPLETE", "ROLLBACK_FAILED", stacks.NOT_REMOVED)
"""States of a stack whose creation or removal failed: resources of its template are gone, others may remain."""
NAMED = 3
"""Remaining resources that a note names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The stacks with their costs, and the regions that did not answer, with the reason.

    `cluster` is the cluster or endpoint whose stacks are listed; None: all.
    """

    as_of: datetime
    stacks: tuple[StackCost, ...]
    unanswered: tuple[tuple[str, str], ...]
    cluster: str | None = None


def survey(
    sessions: Sessions,
    catalog: Catalog,
    now: datetime,
    *,
    only: str | None = None,
    cluster: str | None = None,
    sandbox: bool = False,
) -> Surveyed:
    """Slipway's stacks with their costs, the most expensive first.

    Args:
        sessions: Sessions of the account, or of the sandbox.
        catalog: Prices.
        now: UTC.
        only: The region to search; None: every region that the account may use.
        cluster: The cluster or endpoint whose stacks are listed; None: all.
        sandbox: Whether `sessions` are of the sandbox, where only a launch that follows its job calls the guard.
    """
    names = [only] if only is not None else sorted(regions.enabled_regions(sessions.session(sessions.home, "ec2")))
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        answers = list(pool.map(lambda name: _region(sessions, catalog, now, name, cluster), names))
    stack_costs = [cost for answer in answers if not isinstance(answer, AwsError) for cost in answer]
    failed = [
        (name, answer.message) for name, answer in zip(names, answers, strict=True) if isinstance(answer, AwsError)
    ]
    if sandbox:
        stack_costs = [_without_schedule(stack_cost) for stack_cost in stack_costs]
    stack_costs.sort(key=lambda stack_cost: (-(stack_cost.usd_per_hour or 0), stack_cost.region, stack_cost.name))
    return Surveyed(as_of=now, stacks=tuple(stack_costs), unanswered=tuple(failed), cluster=cluster)


def _without_schedule(cost: StackCost) -> StackCost:
    """The cost of a stack in a sandbox, where only a launch that follows its job calls the guard."""
    note = cost.note.replace(UNREPORTED, "in the sandbox only a launch calls the guard")
    return replace(cost, down_command=f"{cost.down_command} --sandbox", note=note)


def _region(
    sessions: Sessions, catalog: Catalog, now: datetime, region: str, cluster: str | None
) -> Sequence[StackCost] | AwsError:
    try:
        session = sessions.session(region, "cloudformation")
        own_stacks = [
            stack
            for stack in (*stacks.tagged_stacks(session, CLUSTER_TAG), *stacks.tagged_stacks(session, NETWORK_TAG))
            if stack.status != NOT_STARTED and cluster in {None, stack.tags.get(CLUSTER_TAG)}
        ]
        for service in ("lambda", "cloudwatch", "ec2", "sagemaker", "ssm") if own_stacks else ():
            session = sessions.session(region, service)
        return costs(session, catalog, now, own_stacks)
    except AwsError as problem:
        return problem


def costs(session: Session, catalog: Catalog, now: datetime, states: Iterable[StackState]) -> list[StackCost]:
    """The costs of Slipway stacks, one entry for each."""
    return [_cost(session, catalog, now, stack, part) for stack, part in _parts(states)]


def _parts(states: Iterable[StackState]) -> Iterator[tuple[StackState, str]]:
    """Each stack with its part; additional stacks of ParallelCluster are counted with the cluster."""
    for stack in states:
        part = next((suffix for suffix in PARTS if stack.name.endswith(f"-{suffix}")), None)
        if part is not None and stack.name.startswith("slipway-"):
            yield stack, part


def _cost(session: Session, catalog: Catalog, now: datetime, stack: StackState, part: str) -> StackCost:
    since = stacks.changed_at(session, stack) or now
    cluster = stack.tags.get(CLUSTER_TAG, "")  # a shared network belongs to none
    erase = " --checkpoints" if part == STORE_STACK else ""
    unpriced = StackCost(
        name=stack.name,
        kind=part,
        region=session.region,
        owner=owner_in(stack.tags),
        since=since,
        usd_per_hour=None,
        usd_so_far=None,
        ends_at=None,
        down_command=f"slipway down {cluster} --region {session.region}{erase}",
        note="",
    )
    price = {NETWORK_STACK: _network, STORE_STACK: _store}.get(part, _cluster_rate)
    if stack.status in _FAILED:
        return _rest(unpriced, session, catalog, stack)
    return price(unpriced, session, catalog, now, stack)


def _rest(cost: StackCost, session: Session, catalog: Catalog, stack: StackState) -> StackCost:
    """The resources that a failed creation or removal has left, at the prices of the stack's template."""
    # ParallelCluster starts instances outside of its stack: they run on after a failed creation.
    if cost.kind == TRAINING_STACK and instances.running(session, f"slipway-{stack.tags[CLUSTER_TAG]}"):
        return _unguarded_cost(cost, session, catalog, stack)
    listed = stacks.resources(session, stack.name)
    rest = {each.logical_id: each for each in listed if each.physical_id and each.status != stacks.REMOVED}
    if not rest:
        return replace(cost, usd_per_hour=Decimal(0), note=f"{stack.status}, and no resource remains")
    rate = hourly_rate([stacks.template(session, stack.name)], catalog, session.region, only=rest)
    names = ", ".join(f"{each.type} {each.physical_id.rpartition('/')[2]}" for each in list(rest.values())[:NAMED])
    notes = [f"{stack.status}, and {names}{f' and {len(rest) - NAMED} more' if len(rest) > NAMED else ''} remain"]
    # Services with a fee bill these resources while they exist, and list no price for them.
    charged = {type_ for target in TARGETS.values() if target.fee_keys for type_ in target.left_resources}
    unpriced = [*rate.unknown, *(each.type for each in rest.values() if each.type in charged)]
    notes += [f"without {' and '.join(unpriced)}, which has no price"] if unpriced else []
    # $0 would say that the rest is free.
    usd = None if unpriced and not rate.usd else rate.usd
    return replace(cost, usd_per_hour=usd, note="; ".join(notes))


def _cluster_rate(cost: StackCost, session: Session, catalog: Catalog, now: datetime, stack: StackState) -> StackCost:
    guard = guard_function(session, stack.name)
    if guard is None:
        return _unguarded_cost(cost, session, catalog, stack)
    variables = guard.environment
    target = next(
        candidate
        for candidate in TARGETS.values()
        if candidate.guard is not None and candidate.guard.variable in variables
    )
    dimensions = {"Cluster": variables["CLUSTER"]}
    since, every = stacks.changed_at(session, stack) or now, timedelta(minutes=GUARD_EVERY_MINUTES)
    counted = (Metric(namespace=NAMESPACE, name=metric, dimensions=dimensions) for metric in (RUNNING, NODE_HOURS))
    nodes, hours = (latest(session, metric, now, within=REPORTS * every, period=every) for metric in counted)
    # To list the nodes is one more call: only if the guard has reported no number.
    listed = _listed_nodes(session, target, variables, stack) if nodes is None else None
    other_costs = hourly_rate([stacks.template(session, stack.name)], catalog, session.region, nodes=False)
    notes = [f"without {' and '.join(other_costs.unknown)}, which has no price"] if other_costs.unknown else []
    notes += ["without the charges of the service itself, which have no listed price"] if target.fee_keys else []
    rate = variables.get("USD_PER_NODE_HOUR")
    lived_h = Decimal(str(max(0.0, (now - since).total_seconds() / 3600)))
    nodes, count = (listed, f", {UNCOUNTED}") if nodes is None else (nodes, "")
    if target.deployed == (Runs.SERVING,) and not nodes and (reason := read_endpoint_stop(session, stack)):
        nodes = 0
        notes.append(f"the guard stopped the endpoint: {reason}")
    elif not nodes and nodes is not None and (stopped := read_nodes_stop(session, stack)):
        notes.append(f"the guard stopped the nodes, {stopped}")
    elif rate is None:
        notes.append("its quote had no rate of a node-hour")
    elif nodes is None:
        notes.append(UNREPORTED)
    else:
        notes.append(f"{number_of(nodes, 'node')} at the quoted ${rate.rstrip('0').rstrip('.')}{count}")
    per_node = now_per_node = Decimal(rate or 0)
    if target.service_chooses_type and rate and nodes:
        chosen = _tagged_nodes(session, target, variables["CLUSTER"])
        now_per_node = _mean_rate(chosen, catalog, session.region, per_node)
        where = instances_text([each.instance_type for each in chosen], [each.zone for each in chosen])
        of_type = "" if now_per_node == per_node else f": ${now_per_node.normalize():f} a node by the type"
        notes += [f"EC2 runs {where}{of_type}"] if chosen else []
    return replace(
        cost,
        usd_per_hour=now_per_node * Decimal(str(nodes)) + other_costs.usd if rate and nodes is not None else None,
        usd_so_far=per_node * Decimal(str(hours)) + other_costs.usd * lived_h if rate and hours is not None else None,
        ends_at=_end(variables, since),
        note="; ".join(notes),
    )


def _unguarded_cost(cost: StackCost, session: Session, catalog: Catalog, stack: StackState) -> StackCost:
    """Instances under a stack without a guard (yet): ParallelCluster's instances, at the listed price."""
    counts = instances.running(session, f"slipway-{stack.tags[CLUSTER_TAG]}")
    if not counts:
        return replace(cost, note=f"{stack.status}, and it has no guard: running nodes are not counted")
    usd, missing = Decimal(0), []
    for type_, count in counts.items():
        price = catalog.on_demand(type_, session.region)
        if isinstance(price, Price):
            usd += count * price.usd
        else:
            missing.append(f"{count} x {type_}")
    listed = ", ".join(f"{count} x {type_}" for type_, count in sorted(counts.items()))
    notes = [f"{stack.status}: {listed} at the listed price"]
    notes += [f"without {', '.join(missing)}, which has no price"] if missing else []
    return replace(cost, usd_per_hour=usd, note="; ".join(notes))


def guard_function(session: Session, stack: str) -> functions.FunctionState | None:
    """The function of a stack's guard; None without one (yet)."""
    for resource in stacks.resources(session, stack):
        if resource.type == "AWS::Lambda::Function" and "GuardFunction" in resource.logical_id and resource.physical_id:
            return functions.describe(session, resource.physical_id)
    return None


def _end(variables: Mapping[str, str], since: datetime) -> datetime | None:
    """When the guard, or the service itself, stops the nodes."""
    ttl, ends = variables.get("TTL_HOURS"), variables.get("ENDS_AT")
    moments = [since + timedelta(hours=float(ttl))] if ttl else []
    moments += [datetime.fromisoformat(ends)] if ends else []
    return min(moments, default=None)


def _listed_nodes(session: Session, target: Target, variables: Mapping[str, str], stack: StackState) -> int | None:
    """Number of nodes that the service lists now; None if it does not list the target's nodes."""
    if target.guard is not None and target.deployed == (Runs.SERVING,):
        endpoint = endpoints.find(session, variables[target.guard.variable])
        return None if endpoint is None else endpoint.instances
    if target.per_job:
        # No head node and no controller: every instance is a node.
        return sum(cluster_at(target.kind).instance_counts(session, stack.outputs).values())
    if target.guard is None or target.head is None:
        return None
    if target.instance_tags is None:
        groups = hyperpod.describe_cluster(session, variables[target.guard.variable]).groups
        return groups[WORKERS].current if WORKERS in groups else None
    return len(_tagged_nodes(session, target, variables["CLUSTER"]))


def _tagged_nodes(session: Session, target: Target, cluster: str) -> list[RunningInstance]:
    """The starting and running nodes of a cluster, by the tags of its target; empty for a target without tags."""
    tags = target.instance_tags
    if tags is None:
        return []
    running = instances.cluster_instances(session, tags.cluster, f"{tags.prefix}{cluster}")
    return [instance for instance in running if instance.tags.get(tags.role) == tags.node]


def _mean_rate(nodes: Sequence[RunningInstance], catalog: Catalog, region: str, quoted: Decimal) -> Decimal:
    """Dollars an hour of a node, where EC2 chose the types: on demand the list price, at most the quoted one.

    The guard has one rate, that of the dearest type that EC2 may choose.
    """
    rates = [quoted]
    # Spot and reserved instances have prices of their own.
    if nodes and not any(node.lifecycle or node.reservation for node in nodes):
        listed = (catalog.on_demand(node.instance_type, region) for node in nodes)
        rates = [min(price.usd, quoted) if isinstance(price, Price) else quoted for price in listed]
    return sum(rates, Decimal(0)) / len(rates)


def _network(cost: StackCost, session: Session, catalog: Catalog, now: datetime, stack: StackState) -> StackCost:
    rate = hourly_rate([stacks.template(session, stack.name)], catalog, session.region)
    if rate.unknown:
        return replace(cost, note=f"{' and '.join(rate.unknown)} has no price")
    lived_h = Decimal(str((now - (stack.made_at or now)).total_seconds() / 3600))
    notes = ["without its traffic"]
    if NETWORK_TAG in stack.tags:
        users = sorted(stacks.importers(session, f"{stack.name}:VpcId"))
        who = f"shared by {', '.join(users)}, removed with the last of them" if users else "used by no cluster"
        notes.insert(0, who)
        clusters = [user.removeprefix("slipway-").removesuffix(f"-{TRAINING_STACK}") for user in users]
        down = f"slipway down {clusters[0]} --region {session.region}" if clusters else ""
        delete = f"aws cloudformation delete-stack --region {session.region} --stack-name {stack.name}"
        cost = replace(cost, down_command=down or delete)
    return replace(cost, usd_per_hour=rate.usd, usd_so_far=rate.usd * lived_h, note="; ".join(notes))


def _store(cost: StackCost, session: Session, catalog: Catalog, now: datetime, stack: StackState) -> StackCost:
    """The storage cost of the checkpoint bucket: its size as S3 last reported it, at the first tier's monthly price."""
    bucket = stack.outputs.get("BucketName")
    price = catalog.bill_item("s3.standard-storage", session.region)
    if bucket is None or not isinstance(price, Price):
        return replace(cost, note="no bucket" if bucket is None else "S3 has no price here")
    dimensions = {"BucketName": bucket, "StorageType": "StandardStorage"}
    metric = Metric(namespace="AWS/S3", name="BucketSizeBytes", dimensions=dimensions, statistic="Average")
    size = latest(session, metric, now, within=STORED_WITHIN, period=STORED_PERIOD)
    if size is None:
        return replace(cost, note="S3 has not reported its size yet: it reports once a day")
    monthly = Decimal(str(size / GIB)) * price.usd
    return replace(cost, usd_per_hour=monthly / Decimal(str(HOURS_PER_MONTH)), note=f"{size / GIB:,.1f} GiB")
