"""The service quotas that a plan uses, and the amount of each."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TypeAlias

from launcher.catalog.quotas import QuotaName, quota_of
from launcher.model.administrator import by_administrator
from launcher.model.enums import Egress, PurchaseOption
from launcher.model.finding import Finding, error, warning
from launcher.model.hyperpod import ml_name
from launcher.model.idle import warm_minutes
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Plan
from launcher.model.record import record
from launcher.model.sizing import (
    COMPUTE_ROOT_GIB,
    HEAD_ROOT_GIB,
    LOGIN_NODE,
    LOGIN_ROOT_GIB,
    NAT_INSTANCE,
    NAT_ROOT_GIB,
)
from launcher.model.units import number_of
from launcher.planning.disks import training_volume_gib
from launcher.planning.nat import egress
from launcher.targets.registry import target_of

RUN_TIME = "training-job/run-time"
DEFAULT_QUOTA = "default-quota"
"""The code of a finding about a quota whose default is too small."""
TOO_SMALL = "quota-too-small"
"""The code of a finding about a quota of the account, as just read, that does not allow a plan."""
GIB_PER_TIB = 1024
AccountQuotas: TypeAlias = Mapping[tuple[str, str, str], tuple[float, str]]
"""The values of an account's quotas with their codes, by region, service and name in lower case."""


def default_run_s(quotas: Mapping[str, QuotaName]) -> int:
    """The longest run of a training job in an account that has not asked for more, in seconds."""
    return quotas[RUN_TIME].default or 0


def account_run_s(region: str, quotas: Mapping[str, QuotaName], account: AccountQuotas) -> float | None:
    """The longest run of a training job that an account allows in a region, in seconds; None if it was not read."""
    known = account.get((region, quotas[RUN_TIME].service, quotas[RUN_TIME].name.casefold()))
    return None if known is None else known[0]


def run_time_s(plan: Plan, quotas: Mapping[str, QuotaName]) -> int:
    """The run time that a plan's training job asks for: its time limit, else at most what every account has."""
    hours = plan.request.run.time_limit_h
    return default_run_s(quotas) if hours is None else math.ceil(hours * 3600)


@record
class QuotaNeed:
    """The amount that one quota must leave available."""

    service: str
    # Empty if only `code` is known.
    name: str
    code: str
    unit: str
    # In the quota's unit; `least` is the smallest possible amount if the unit is unknown.
    amount: int
    least: int
    # The resource in words.
    what: str
    confirmed: bool
    # The value that every account has, None if unknown.
    default: int | None = None

    def in_unit(self, amount: int) -> str:
        """An amount with the quota's unit, of which some have no plural."""
        if not self.unit.endswith("s"):
            return f"{amount:,} {self.unit}".rstrip()
        return number_of(amount, self.unit.removesuffix("s"))


@record
class UnnamedQuota:
    """A quota that exists according to all sources, but whose name no source gives."""

    what: str
    reason: str


def increase_command(region: str, service: str, code: str, value: float) -> str:
    """The command that asks AWS for a higher quota."""
    return (
        f"aws service-quotas request-service-quota-increase --region {region} --service-code {service} "
        f"--quota-code {code} --desired-value {value:.0f}"
    )


def account_findings(
    needs: Iterable[QuotaNeed | UnnamedQuota], region: str, account: AccountQuotas
) -> Iterator[Finding]:
    """An error for each of the account's quotas that is below what a plan needs, with the request for more."""
    for need in needs:
        known = account.get(_account_key(need, region)) if isinstance(need, QuotaNeed) else None
        if isinstance(need, QuotaNeed) and known is not None and need.least > known[0]:
            value, code = known
            message = (
                f"the account's quota '{need.name}' in {region} is {need.in_unit(int(value))},"
                f" the plan needs {need.amount:,} ({need.what})"
            )
            hint = by_administrator(increase_command(region, need.service, code, need.amount))
            yield error(TOO_SMALL, "target.nodes", message, hint)


def _account_key(need: QuotaNeed, region: str) -> tuple[str, str, str]:
    return region, need.service, need.name.casefold()


def default_findings(
    needs: Iterable[QuotaNeed | UnnamedQuota], region: str, account: AccountQuotas
) -> Iterator[Finding]:
    """A warning for each quota whose value in an account that never asked for more is below what a plan needs.

    Quotas whose values in the account are known have none.
    """
    for need in needs:
        if not isinstance(need, QuotaNeed) or _account_key(need, region) in account:
            continue
        if need.default is not None and need.amount > need.default:
            message = (
                f"the default of the quota '{need.name}' is {need.in_unit(need.default)},"
                f" the plan needs {need.amount:,} ({need.what})"
            )
            hint = "slipway doctor FILE reads the account's value, and prints the request for more"
            if need.code:
                command = increase_command(region, need.service, need.code, need.amount)
                hint = f"if the account has no more: {by_administrator(command)}"
            yield warning(DEFAULT_QUOTA, "target.nodes", message, hint)


def quota_needs(
    plan: Plan,
    instances: Mapping[str, InstanceType],
    quotas: Mapping[str, QuotaName],
) -> tuple[QuotaNeed | UnnamedQuota, ...]:
    """The quota usage of all resources in a plan's stacks.

    Args:
        plan: the plan.
        instances: the catalog's types, by name.
        quotas: the catalog's quotas, by key.
    """
    if plan.request.target.cluster is not None:
        return ()
    target = target_of(plan.place.target)
    if plan.request.workload.serve is not None and target.is_managed:
        return tuple(_endpoint(plan, quotas))
    if target.in_service_network:
        closed = egress(plan.request, plan.place, instances) is not None
        network = network_needs(plan, instances, quotas) if closed else ()
        return (*_jobs(plan, instances, quotas), *network)
    instance_quotas = _sagemaker if target.is_managed else _ec2
    cluster_needs = [
        _quota_need(quotas[quota], quotas[quota].name, 1, f"cluster {plan.cluster_name}") for quota in target.quotas
    ]
    return (
        *instance_quotas(plan, instances, quotas),
        *cluster_needs,
        *network_needs(plan, instances, quotas),
        *node_needs(plan, instances, quotas),
        *storage_needs(plan, quotas),
    )


def _endpoint(plan: Plan, quotas: Mapping[str, QuotaName]) -> Iterator[QuotaNeed]:
    """An endpoint's instances, by type and of all endpoints: an account may have others.

    No AWS page says whether those quotas count instances of a training plan. The plan's own quota, "instances in
    reserved capacity across training plans", limits its purchase, which is over.
    """
    serve, place = plan.request.workload.serve, plan.place
    most = max(serve.max_instances or place.nodes if serve is not None else place.nodes, 1)
    keys = ["endpoint/instances"]
    if place.option is not PurchaseOption.TRAINING_PLAN:
        yield _type_need(quotas["endpoint/on-demand"], place.instance_type, most)
        keys.append("endpoint/all")
    for key in keys:
        yield _quota_need(quotas[key], quotas[key].name, most, "the endpoint")


def _ec2(
    plan: Plan, instances: Mapping[str, InstanceType], quotas: Mapping[str, QuotaName]
) -> Iterator[QuotaNeed | UnnamedQuota]:
    """The vCPUs of the nodes and of the other instances; queues of fallback types are used one at a time."""
    place, storage = plan.place, plan.request.storage
    target = target_of(place.target)
    other_instances = {target.head_instance(place.nodes, storage.head_node): 1} if target.head is not None else {}
    if storage.login_nodes:
        other_instances[LOGIN_NODE] = other_instances.get(LOGIN_NODE, 0) + storage.login_nodes
    if egress(plan.request, place, instances) is Egress.NAT_INSTANCE:
        other_instances[NAT_INSTANCE] = other_instances.get(NAT_INSTANCE, 0) + 1
    needs: dict[str, tuple[int, str]] = {}
    for name, count in other_instances.items():
        key = quota_of(quotas, name.partition(".")[0], PurchaseOption.ON_DEMAND)
        if key is not None:
            _add(needs, key, instances, name, count)
    bought = place.option in (PurchaseOption.CAPACITY_BLOCK, PurchaseOption.RESERVED) and (
        plan.request.purchase.reservation is not None
    )
    types = () if bought else (place.instance_type, *plan.request.target.fallback_types)
    largest: dict[str, tuple[int, str]] = {}
    for name in types:
        resource = f"{place.nodes} x {name}"
        key = quota_of(quotas, instances[name].family, place.option)
        if key is None:
            yield UnnamedQuota(what=resource, reason=f"no source names the {place.option.value} quota of this family")
            continue
        amount = place.nodes * instances[name].vcpus
        if amount > largest.get(key, (0, ""))[0]:
            largest[key] = (amount, resource)
    for key, (amount, resource) in largest.items():
        before, names = needs.get(key, (0, ""))
        needs[key] = (before + amount, f"{names}, {resource}" if names else resource)
    for key, (amount, resource) in needs.items():
        quota = quotas[key]
        yield _quota_need(quota, quota.name, amount, resource, least=amount if quota.unit else place.nodes)


def _add(
    needs: dict[str, tuple[int, str]], key: str, instances: Mapping[str, InstanceType], name: str, count: int
) -> None:
    facts = instances.get(name)
    before, names = needs.get(key, (0, ""))
    resource = f"{count} x {name}"
    needs[key] = (before + count * (facts.vcpus if facts else 0), f"{names}, {resource}" if names else resource)


def _sagemaker(
    plan: Plan, instances: Mapping[str, InstanceType], quotas: Mapping[str, QuotaName]
) -> Iterator[QuotaNeed | UnnamedQuota]:
    """Instances by type and in total; the controller and the login nodes are instances, too."""
    del instances
    place, storage = plan.place, plan.request.storage
    spot = place.option is PurchaseOption.SPOT
    kind = quotas["hyperpod/spot" if spot else "hyperpod/on-demand"]
    yield _type_need(kind, place.instance_type, place.nodes)
    other_instances = {target_of(place.target).head_instance(place.nodes, storage.head_node): 1}
    if storage.login_nodes:
        other_instances[LOGIN_NODE] = other_instances.get(LOGIN_NODE, 0) + storage.login_nodes
    for name, count in other_instances.items():
        yield _type_need(quotas["hyperpod/on-demand"], name, count)
    total = place.nodes + sum(other_instances.values())
    resource = f"{number_of(total, 'instance')} of cluster {plan.cluster_name}"
    for key in ("hyperpod/cluster-instances", "hyperpod/instances"):
        yield _quota_need(quotas[key], quotas[key].name, total, resource)
    if spot:
        quota = quotas["hyperpod/spot-instances"]
        yield _quota_need(quota, quota.name, place.nodes, f"{place.nodes} x {ml_name(place.instance_type)}")


def _jobs(plan: Plan, instances: Mapping[str, InstanceType], quotas: Mapping[str, QuotaName]) -> Iterator[QuotaNeed]:
    """Instances of training jobs by type; on demand, spot and the warm pool have one quota each.

    No source names the quota of instances in training plans for jobs.
    """
    place, facts = plan.place, instances[plan.place.instance_type]
    yield _quota_need(quotas[RUN_TIME], quotas[RUN_TIME].name, run_time_s(plan, quotas), "the longest run of the job")
    spot = place.option is PurchaseOption.SPOT
    in_job = quotas["training-job/spot-instances" if spot else "training-job/instances"]
    yield _quota_need(in_job, in_job.name, place.nodes, "the job")
    if not facts.nvme_gb:
        volume = quotas["training-job/volume"]
        yield _quota_need(volume, volume.name, training_volume_gib(plan.request, place.nodes, facts), "the job")
    if place.option is PurchaseOption.TRAINING_PLAN:
        return
    kinds = ["spot" if spot else "on-demand"]
    kinds += ["warm-pool"] if warm_minutes(plan.request) else []
    for kind in kinds:
        yield _type_need(quotas[f"training-job/{kind}"], facts.name, place.nodes)
    in_all = quotas["training-job/all-spot" if spot else "training-job/all"]
    yield _quota_need(in_all, in_all.name, place.nodes, "the job")


def network_needs(
    plan: Plan, instances: Mapping[str, InstanceType], quotas: Mapping[str, QuotaName]
) -> Iterator[QuotaNeed]:
    """What a new network uses; nothing of an existing one."""
    if plan.request.network.vpc_id is not None:
        return
    yield _quota_need(quotas["vpc/networks"], quotas["vpc/networks"].name, 1, "the cluster's VPC")
    head, address = target_of(plan.place.target).head, "the NAT gateway's address"
    egress_mode = egress(plan.request, plan.place, instances)
    if egress_mode is not Egress.ENDPOINTS:
        yield _quota_need(quotas["vpc/internet-gateways"], quotas["vpc/internet-gateways"].name, 1, "the cluster's VPC")
    if egress_mode is Egress.NAT_GATEWAY:
        yield _quota_need(quotas["vpc/nat-gateways"], quotas["vpc/nat-gateways"].name, 1, "the cluster's VPC")
    else:
        address = "the head node's address" if head is not None and head.elastic_address else ""
    if address:
        yield _quota_need(quotas["vpc/addresses"], quotas["vpc/addresses"].name, 1, address)


def node_needs(
    plan: Plan, instances: Mapping[str, InstanceType], quotas: Mapping[str, QuotaName]
) -> Iterator[QuotaNeed]:
    """Network interfaces of the nodes, one a card where they are linked, and volumes of those that EC2 runs."""
    place, target = plan.place, target_of(plan.place.target)
    cards = instances[place.instance_type].network_cards if place.nodes > 1 or target.efa_on_one_node else 1
    nodes, interfaces = f"{place.nodes} x {place.instance_type}", quotas["vpc/interfaces"]
    yield _quota_need(interfaces, interfaces.name, place.nodes * max(1, cards), nodes)
    for key in target.node_quotas:
        yield _quota_need(quotas[key], quotas[key].name, place.nodes, nodes)
    if not target.is_managed:
        gib = place.nodes * COMPUTE_ROOT_GIB + plan.request.storage.login_nodes * LOGIN_ROOT_GIB
        gib += HEAD_ROOT_GIB if target.head is not None else 0
        gib += NAT_ROOT_GIB if egress(plan.request, place, instances) is Egress.NAT_INSTANCE else 0
        volumes = quotas["ebs/gp3"]
        yield _quota_need(volumes, volumes.name, math.ceil(gib / GIB_PER_TIB), f"root volumes of {nodes}")


def storage_needs(plan: Plan, quotas: Mapping[str, QuotaName]) -> Iterator[QuotaNeed]:
    """The file system of a cluster."""
    gib = plan.request.storage.lustre_gib
    if gib:
        yield _quota_need(quotas["fsx/lustre"], quotas["fsx/lustre"].name, gib, "the cluster's file system")


def _type_need(quota: QuotaName, name: str, count: int) -> QuotaNeed:
    """The need of a quota that each type has; its default is that of the families which its row names."""
    need = _quota_need(quota, quota.of(ml_name(name)), count, f"{count} x {ml_name(name)}")
    known = any(fnmatchcase(name.partition(".")[0], pattern) for pattern in quota.families)
    return need if known else replace(need, default=None)


def _quota_need(quota: QuotaName, name: str, amount: int, resource: str, least: int | None = None) -> QuotaNeed:
    return QuotaNeed(
        service=quota.service,
        name=name,
        code=quota.code,
        unit=quota.unit,
        amount=amount,
        least=amount if least is None else least,
        what=resource,
        confirmed=quota.confirmed,
        default=quota.default,
    )
