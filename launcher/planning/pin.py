"""The one plan of a request that leaves nothing to choose: what `cdk synth` builds from a plan file or a plan.json."""

from collections.abc import Iterator

from launcher.catalog.load import Catalog
from launcher.model.document import plan_at
from launcher.model.enums import Level, PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Place, Plan
from launcher.model.request import PlanRequest
from launcher.model.target import taking, training_targets
from launcher.planning.checks import check


def pinned_plan(request: PlanRequest, catalog: Catalog) -> Plan:
    """The plan of a request that pins type, region and purchase option.

    Nodes that are open are the least asked for, or one; an open target is the first that takes the purchase option; an
    open zone stays open (see `zone`). A request that is already whole gives a plan with its own digest.

    Args:
        request: a plan file as read.
        catalog: what exists.

    Raises:
        ImpossibleError: something must be pinned first, or the request has errors; with all findings.
    """
    found = [each for each in check(request, catalog) if each.level is Level.ERROR]
    found += _open(request)
    if found:
        raise ImpossibleError(f"{request.name} is not one plan yet", findings=found)
    target, purchase = request.target, request.purchase
    assert target.instance_type is not None and target.region is not None and purchase.option is not None  # noqa: S101, PT018 - _open
    place = Place(
        target=_target(request),
        instance_type=target.instance_type[0],
        nodes=target.nodes.minimum if target.nodes is not None else 1,
        region=target.region[0],
        az_id=target.az_id,
        option=purchase.option[0],
        plan_kind=purchase.plan_kind,
        term_years=purchase.term_years,
    )
    return plan_at(request, place)


def _open(request: PlanRequest) -> Iterator[Finding]:
    """One finding for each choice that is still open."""
    pins = (
        ("target.instance_type", request.target.instance_type, "p5.48xlarge"),
        ("target.region", request.target.region, "us-east-2"),
        ("purchase.option", request.purchase.option, "spot"),
    )
    for path, values, example in pins:
        if values is None or len(values) != 1:
            got = "any" if values is None else ", ".join(values)
            yield error("not-pinned", path, f"must be one value, got {got}", f"pin it, for instance {example}")
    built = training_targets()
    if request.target.kind is not None and not set(built) & set(request.target.kind):
        got, allowed = ", ".join(request.target.kind), " or ".join(built)
        yield error("target-not-built", "target.kind", f"must be or allow {allowed}, got {got}")


def _target(request: PlanRequest) -> TargetKind:
    """The target of a request that pins one way of buying: the first it allows that takes it, else the first."""
    kinds = request.target.kind
    allowed = tuple(each for each in training_targets() if kinds is None or each in kinds)
    return taking((request.purchase.option or (PurchaseOption.ON_DEMAND,))[0], allowed)


def zone(place: Place, catalog: Catalog) -> str | None:
    """The id of the zone of a place's nodes: the pinned one, else the first of the region known to offer the type.

    None where the catalog knows no zone.
    """
    if place.az_id is not None:
        return place.az_id
    return catalog.first_zone(place.instance_type, place.region)
