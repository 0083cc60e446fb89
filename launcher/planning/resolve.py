"""From a request to its candidates: every place the facts allow, each with the work it takes there."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from launcher.catalog.load import Catalog
from launcher.model.enums import PlanKind, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.plan import Place
from launcher.model.request import PlanRequest
from launcher.model.training import TrainingFacts
from launcher.model.work import Work
from launcher.planning.checks import check
from launcher.planning.work import Estimator

COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Node counts tried when the request leaves them open: the powers of two a Capacity Block is sold in."""
TRIED = (PurchaseOption.ON_DEMAND, PurchaseOption.SPOT, PurchaseOption.CAPACITY_BLOCK)
INFERENCE_ONLY = ("Inferentia2",)
"""Chips that no training software supports."""
COMMITMENTS = (PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A place and the work it takes there; no money yet."""

    place: Place
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """All candidates of a request, how many combinations were looked at, and what was found on the way."""

    candidates: tuple[Candidate, ...]
    considered: int
    findings: tuple[Finding, ...]
    estimator: Estimator

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the plan."""
        return tuple(each for each in self.findings if each.level == "error")


def resolve(request: PlanRequest, catalog: Catalog, facts: TrainingFacts) -> Resolution:
    """The candidates of a request.

    A request with errors has none; one that no machine can serve has an error that says why.
    """
    findings = list(check(request, catalog))
    estimator = Estimator(request=request, catalog=catalog, facts=facts)
    if any(each.level == "error" for each in findings):
        return Resolution(candidates=(), considered=0, findings=tuple(findings), estimator=estimator)
    places = [place for name in _types(request, catalog) for place in _places_of(request, catalog, name)]
    candidates: list[Candidate] = []
    misfits: dict[str, str] = {}
    for place in places:
        work = estimator.work(place.instance_type, place.nodes)
        if work.misfit is None:
            candidates.append(Candidate(place=place, work=work))
        else:
            misfits[place.instance_type] = work.misfit
    if not candidates:
        findings.append(_none_left(request, places, misfits))
    return Resolution(
        candidates=tuple(candidates), considered=len(places), findings=tuple(findings), estimator=estimator
    )


def _types(request: PlanRequest, catalog: Catalog) -> Iterator[InstanceType]:
    """The types to try: the pinned ones, or every one with accelerators that the targets take."""
    if request.target.instance_type is not None:
        for name in request.target.instance_type:
            yield catalog.instance_types[name]
        return
    for facts in catalog.instance_types.values():
        if facts.accelerator not in (None, *INFERENCE_ONLY) and TargetKind.PARALLELCLUSTER in facts.targets:
            yield facts


def _counts(request: PlanRequest, facts: InstanceType, option: PurchaseOption) -> tuple[int, ...]:
    """The node counts to try for one option."""
    asked = request.target.nodes
    if asked is None:
        counts = COUNTS
    elif asked.minimum == asked.maximum:
        counts = (asked.minimum,)
    else:
        inside = [each for each in COUNTS if asked.minimum < each < asked.maximum]
        counts = tuple(sorted({asked.minimum, *inside, asked.maximum}))
    if option is PurchaseOption.CAPACITY_BLOCK and request.purchase.reservation is None:
        return tuple(each for each in counts if each in facts.block_counts)
    return counts


def _places_of(request: PlanRequest, catalog: Catalog, facts: InstanceType) -> Iterator[Place]:
    """Every place one type can be had in, by region, option and count."""
    asked = request.purchase.option
    options = asked if asked is not None else _open_options(request)
    known = catalog.regions_of(facts.name)
    regions = [each for each in (request.target.region or tuple(sorted(known))) if each in known]
    az_id = request.target.az_id
    if az_id is not None:
        regions = [each for each in regions if each == catalog.region_of_az(az_id)]
    for region, option in product(regions, options):
        if not _sold(facts, option):
            continue
        zones = _zones(catalog, facts.name, region, option, az_id)
        commitments = list(_commitments(request, option))
        for nodes, zone, (kind, term) in product(_counts(request, facts, option), zones, commitments):
            yield Place(
                target=TargetKind.PARALLELCLUSTER,
                instance_type=facts.name,
                nodes=nodes,
                region=region,
                az_id=zone,
                option=option,
                plan_kind=kind,
                term_years=term,
            )


def _open_options(request: PlanRequest) -> tuple[PurchaseOption, ...]:
    """The options to try when none is pinned; a pinned reservation leaves one."""
    if request.purchase.reservation is not None:
        return (PurchaseOption.CAPACITY_BLOCK,)
    return (*TRIED, *COMMITMENTS)


def _sold(facts: InstanceType, option: PurchaseOption) -> bool:
    """Whether a type is sold that way at all."""
    if option is PurchaseOption.SPOT:
        return "spot" in facts.usage_classes
    if option is PurchaseOption.CAPACITY_BLOCK:
        return "capacity-block" in facts.usage_classes
    return option is PurchaseOption.ON_DEMAND or option in COMMITMENTS


def _zones(
    catalog: Catalog, name: str, region: str, option: PurchaseOption, pinned: str | None
) -> tuple[str | None, ...]:
    """The zones to try: the pinned one, the ones with a spot price, or any."""
    if pinned is not None:
        return (pinned,)
    if option is PurchaseOption.SPOT:
        return tuple(catalog.spot(name, region)) or (None,)
    return (None,)


def _commitments(request: PlanRequest, option: PurchaseOption) -> Iterator[tuple[PlanKind | None, int | None]]:
    """The commitments of one option: kind and term, or nothing."""
    terms = (request.purchase.term_years,) if request.purchase.term_years else (1, 3)
    if option is PurchaseOption.SAVINGS_PLAN:
        asked = request.purchase.plan_kind
        yield from product((asked,) if asked else (PlanKind.COMPUTE, PlanKind.EC2_INSTANCE), terms)
    elif option is PurchaseOption.RESERVED:
        yield from product((None,), terms)
    else:
        yield None, None


def _none_left(request: PlanRequest, places: list[Place], misfits: Mapping[str, str]) -> Finding:
    """Why no candidate is left."""
    if misfits:
        name, reason = next(iter(misfits.items()))
        more = f" (and {len(misfits) - 1} more types)" if len(misfits) > 1 else ""
        return error(
            "nothing-fits", "target", f"no candidate is left: {name}: {reason}{more}", "allow more nodes or other types"
        )
    if not places:
        asked = ", ".join(request.purchase.option or ()) or "any option"
        return error(
            "nothing-offered", "target", f"no candidate is left: nothing that was asked for is sold as {asked}"
        )
    return error("nothing-left", "target", "no candidate is left")
