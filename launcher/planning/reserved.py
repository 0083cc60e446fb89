"""Purchased capacity: a reservation or a training plan has one place and gives one candidate."""

from launcher.catalog.load import Catalog
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import COMMITTED, PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.request import PlanRequest, Reservation, TrainingPlanReference
from launcher.targets.registry import taking, target_of, training_targets


def reserved_group(request: PlanRequest, catalog: Catalog) -> tuple[CandidateGroup | None, list[Finding]]:
    """The single candidate group of a request that names a reservation or a training plan, and its warnings.

    Count and window come from the plan file; for an open type or region Slipway uses the first that is sold this way.
    None without either.
    """
    bought, reservation = request.purchase.training_plan, request.purchase.reservation
    if bought is not None:
        return _group(request, catalog, bought, PurchaseOption.TRAINING_PLAN)
    if reservation is not None:
        options = request.purchase.option
        option = options[0] if options is not None else PurchaseOption.CAPACITY_BLOCK
        return _group(request, catalog, reservation, option)
    return None, []


def _group(
    request: PlanRequest, catalog: Catalog, reserved: Reservation | TrainingPlanReference, option: PurchaseOption
) -> tuple[CandidateGroup, list[Finding]]:
    path, name = (
        ("training_plan", reserved.arn) if isinstance(reserved, TrainingPlanReference) else ("reservation", reserved.id)
    )
    kinds = request.target.kind
    allowed = (
        tuple(training_target for training_target in training_targets() if kinds is None or training_target in kinds)
        or training_targets()
    )
    reaching = tuple(target_kind for target_kind in allowed if target_of(target_kind).takes_reservations)
    target = taking(option, allowed if isinstance(reserved, TrainingPlanReference) else reaching or allowed)
    findings = [
        warning(
            f"{path.replace('_', '-')}-unchecked",
            f"purchase.{path}",
            f"{name}: count and window come from the file, not checked with AWS",
        )
    ]
    types = request.target.instance_type or _sold_ahead(catalog, option)
    region = _region(request, catalog, reserved, types[0])
    if len(request.target.instance_type or ()) != 1:
        code = f"{path.replace('_', '-')}-type"
        findings.append(warning(code, "target.instance_type", f"taken as {types[0]}", "pin the type it holds"))
    if len(request.target.region or ()) != 1 and isinstance(reserved, Reservation) and request.target.az_id is None:
        findings.append(
            warning("reservation-region", "target.region", f"taken as {region}", "pin the region it lies in")
        )
    nodes = request.target.nodes
    count = reserved.count or (nodes.minimum if nodes else 1)
    if nodes is not None:
        count = max(nodes.minimum, min(nodes.maximum, count))
    years = request.purchase.term_years
    committed = option in COMMITTED
    terms = ((request.purchase.plan_kind, years or 1),) if committed else ((None, None),)
    return CandidateGroup(target, types[0], option, ((region, request.target.az_id),), (count,), terms), findings


def _sold_ahead(catalog: Catalog, option: PurchaseOption) -> tuple[str, ...]:
    in_training_plans = option is PurchaseOption.TRAINING_PLAN
    types = (
        instance_type
        for instance_type in catalog.instance_types.values()
        if instance_type.accelerator and instance_type.targets
    )
    return tuple(type_.name for type_ in types if (type_.training_plans if in_training_plans else type_.block_counts))


def _region(
    request: PlanRequest, catalog: Catalog, reserved: Reservation | TrainingPlanReference, instance_type: str
) -> str:
    """The region it lies in: the plan's, the zone's, the ARN's, or the first that offers the type."""
    if request.target.region:
        return request.target.region[0]
    if request.target.az_id is not None and (known := catalog.region_of_az(request.target.az_id)) is not None:
        return known
    if isinstance(reserved, TrainingPlanReference):
        return reserved.region
    return next(iter(catalog.regions_of(instance_type)), next(iter(catalog.regions)))
