"""What planning asks of targets: which of them sell a type, and why a place cannot be built on one."""

from collections.abc import Collection, Iterable, Iterator
from itertools import product

from launcher.catalog.load import Catalog
from launcher.model.candidate_group import CandidateGroup
from launcher.model.capacity import NOT_YET, OFFERED_PLAN
from launcher.model.enums import Level, PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.finding import Finding, error, warning
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.target import CLUSTER
from launcher.planning.drivers import driver_refusals
from launcher.planning.networks import network_findings
from launcher.planning.registry import registry_findings
from launcher.planning.security import security_findings
from launcher.targets.registry import TARGETS, target_of, training_targets


def is_sold(facts: InstanceType, option: PurchaseOption, kind: TargetKind) -> bool:
    """Whether a type is sold on a target under a purchase option that the target supports."""
    target = target_of(kind)
    if target.sagemaker == CLUSTER and not facts.ml:
        return False
    if option is PurchaseOption.TRAINING_PLAN:
        return facts.training_plans
    if option in (PurchaseOption.SPOT, PurchaseOption.CAPACITY_BLOCK):
        return option.value in facts.usage_classes
    return target.is_managed or "on-demand" in facts.usage_classes


def unnamed_capacity(request: PlanRequest, place: Place) -> Iterator[Finding]:
    """Capacity that a target uses only if the user bought it before, and that the plan does not name."""
    option, purchase = place.option, request.purchase
    if option not in target_of(place.target).trains:
        return
    block, plan = purchase.reservation, purchase.training_plan
    if option is PurchaseOption.CAPACITY_BLOCK and (block is None or block.id.endswith(NOT_YET)):
        message = "nodes of a Capacity Block need the ID of the purchased block"
        yield error("block-without-id", "purchase.reservation", message, "give purchase.reservation.id")
    if option is PurchaseOption.TRAINING_PLAN and (plan is None or plan.arn.endswith(OFFERED_PLAN)):
        message = "instances of a training plan need the ARN of the purchased training plan"
        yield error("plan-without-arn", "purchase.training_plan", message, "give purchase.training_plan.arn")


def request_findings(request: PlanRequest, catalog: Catalog) -> tuple[Finding, ...]:
    """The findings of a whole request on its only allowed target; empty if several targets are allowed."""
    kinds, purchase = request.target.kind, request.purchase
    planned = purchase.training_plan is not None or purchase.option == (PurchaseOption.TRAINING_PLAN,)
    taking = [target for target in training_targets() if PurchaseOption.TRAINING_PLAN in TARGETS[target].trains]
    if kinds is not None and planned and not set(taking) & set(kinds):
        message = f"a training plan's instances are SageMaker's, got {', '.join(kinds)}"
        return (error("training-plan-target", "target.kind", message, f"set target.kind to {' or '.join(taking)}"),)
    if kinds is None or len(kinds) != 1 or not target_of(kinds[0]).trains:
        return ()
    places = list(_requested_places(request, kinds[0], catalog))
    # A warning refuses no place; each candidate has its own.
    refused = [
        [found for found in _refusals(request, place, catalog) if found.level is Level.ERROR] for place in places
    ]
    whole = {(finding.code, finding.path): finding for group in refused for finding in group}
    say = error if places and all(refused) else warning
    return tuple(say(finding.code, finding.path, finding.message, finding.hint) for finding in whole.values())


def _requested_places(request: PlanRequest, kind: TargetKind, catalog: Catalog) -> Iterator[Place]:
    """Every named type under every named option, at the minimum node count; else a type that is sold in all ways."""
    target, purchase = request.target, request.purchase
    options = purchase.option or (PurchaseOption.ON_DEMAND,)
    if purchase.training_plan is not None:
        options = (PurchaseOption.TRAINING_PLAN,)
    for name in target.instance_type or _sold_by_every_option(catalog):
        for option in options:
            if name in catalog.instance_types:
                region = (
                    target.region[0]
                    if target.region
                    else purchase.training_plan.region
                    if purchase.training_plan
                    else ""
                )
                yield Place(
                    target=kind,
                    instance_type=name,
                    nodes=target.nodes.minimum if target.nodes is not None else 1,
                    region=region,
                    az_id=target.az_id,
                    option=option,
                    plan_kind=purchase.plan_kind,
                )


def _sold_by_every_option(catalog: Catalog) -> tuple[str, ...]:
    """A training type that is sold in every way: on demand, on spot, in blocks and in training plans."""
    types = (
        instance_type
        for instance_type in catalog.instance_types.values()
        if instance_type.chip is not None and instance_type.chip.trains
    )
    names = (type_.name for type_ in types if type_.ml and type_.training_plans and "spot" in type_.usage_classes)
    return tuple(names)[:1]


def group_remarks(request: PlanRequest, groups: Iterable[CandidateGroup], catalog: Catalog) -> tuple[Finding, ...]:
    """The remarks on the groups that a plan requests, each once."""
    if request.target.kind is None and request.purchase.training_plan is None:
        return ()
    remarks = (
        remark
        for group in groups
        for remark in target_of(group.target).remarks(
            request, group.place(0, group.node_counts[0], 0), catalog.instance_types
        )
    )
    return tuple({finding.code: finding for finding in remarks}.values())


def place_findings(request: PlanRequest, place: Place, catalog: Catalog) -> tuple[Finding, ...]:
    """All findings of planning against one place on its target.

    Raises:
        ImpossibleError: the address range of its network cannot be split.
    """
    findings = network_findings(request, place, catalog)
    return (*findings, *_refusals(request, place, catalog))


def _refusals(request: PlanRequest, place: Place, catalog: Catalog) -> tuple[Finding, ...]:
    """The refusals of the place's target, security requirements that it cannot satisfy, and types its region lacks."""
    return (
        *security_findings(request, place),
        *registry_findings(request, place, catalog),
        *driver_refusals(request, place, catalog),
        *target_of(place.target).refusals(request, place, catalog.instance_types),
    )


def terms_of(
    request: PlanRequest, option: PurchaseOption, kinds: Iterable[SavingsPlanKind]
) -> Iterator[tuple[SavingsPlanKind | None, int | None]]:
    """The commitments of an option that a request leaves open, each with its years; `kinds` are of Savings Plans."""
    years = (request.purchase.term_years,) if request.purchase.term_years else (1, 3)
    if option is PurchaseOption.SAVINGS_PLAN:
        yield from product(kinds, years)
    elif option is PurchaseOption.RESERVED:
        yield from product((None,), years)
    else:
        yield None, None


def locations_of(
    request: PlanRequest, catalog: Catalog, name: str, option: PurchaseOption, known: Collection[str]
) -> Iterator[tuple[str, str | None]]:
    """Regions that have a type, each with the pinned zone, the zones with their own spot price, or any zone (None)."""
    az_id = request.target.az_id
    pinned = catalog.region_of_az(az_id) if az_id is not None else None
    for region in dict.fromkeys(request.target.region or catalog.commercial(known)):
        if region not in known or (pinned is not None and region != pinned):
            continue
        zones: tuple[str | None, ...] = (az_id,)
        if option is PurchaseOption.SPOT and az_id is None:
            zones = catalog.selector.spot_zones(name, region)
        yield from ((region, zone) for zone in zones)
