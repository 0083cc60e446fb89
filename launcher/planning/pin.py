"""The single plan of a request with every choice pinned; `cdk synth` builds it from a plan file or a plan.json."""

from collections.abc import Iterator
from dataclasses import replace

from launcher.catalog.load import Catalog
from launcher.model.document import plan_at
from launcher.model.enums import Level, PurchaseOption, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.plan import Place, Plan
from launcher.model.request import PlanRequest
from launcher.model.sizing import NAT_INSTANCE
from launcher.planning.checks import check
from launcher.planning.pins import Pins, pins_of
from launcher.targets.registry import taking, training_targets


def pinned_plan(request: PlanRequest, catalog: Catalog) -> Plan:
    """The plan of a request that pins type, region and purchase option.

    An open number of nodes becomes the minimum, or one. An open target becomes the first that supports the purchase
    option. An open zone stays open (see `zone`). A complete request gives a plan with its own digest.

    Args:
        request: a plan file as read.
        catalog: the catalog.

    Raises:
        ImpossibleError: a choice is not pinned, or the request has errors; with all findings.
    """
    request = with_shared_zones(request, catalog)
    findings = [finding for finding in check(request, catalog) if finding.level is Level.ERROR]
    pins = pins_of(request, ("p5.48xlarge", "us-east-2", "spot"))
    findings += [*([] if isinstance(pins, Pins) else pins), *_not_built(request)]
    if findings or not isinstance(pins, Pins):
        raise ImpossibleError(f"{request.name} is not one plan yet", findings=findings)
    nodes = request.target.nodes.minimum if request.target.nodes is not None else 1
    return plan_at(request, pins.place(request, _target(request), nodes))


def with_shared_zones(request: PlanRequest, catalog: Catalog) -> PlanRequest:
    """The request with all zones of its region for a shared network that names none; unchanged for other requests.

    They are the zones of a common type, whatever the plan's own: the template of a shared network is the same for
    every plan.
    """
    network, target = request.network, request.target
    if network.name is None or network.az_ids or network.vpc_id is not None:
        return request
    pinned = (catalog.region_of_az(target.az_id),) if target.az_id is not None else target.region
    if pinned is None or len(pinned) != 1:
        return request
    common = catalog.instance_types[NAT_INSTANCE].az_ids
    zones = tuple(sorted(az_id for az_id in common if catalog.region_of_az(az_id) == pinned[0]))
    return replace(request, network=replace(network, az_ids=zones))


def _not_built(request: PlanRequest) -> Iterator[Finding]:
    built = training_targets()
    if request.target.kind is not None and not set(built) & set(request.target.kind):
        got, allowed = ", ".join(request.target.kind), " or ".join(built)
        yield error("target-not-built", "target.kind", f"must be or allow {allowed}, got {got}")


def _target(request: PlanRequest) -> TargetKind:
    """The first allowed target that supports the request's purchase option, else the first allowed target."""
    kinds = request.target.kind
    allowed = tuple(target for target in training_targets() if kinds is None or target in kinds)
    return taking((request.purchase.option or (PurchaseOption.ON_DEMAND,))[0], allowed)


def zone(place: Place, catalog: Catalog) -> str | None:
    """The id of the zone of a place's nodes: the pinned one, else the region's first zone known to offer the type.

    None if the catalog knows no zone.
    """
    if place.az_id is not None:
        return place.az_id
    return catalog.first_zone(place.instance_type, place.region)
