"""The price requests of a plan, of one place, or of everything; this module sends none."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from launcher.catalog.bill import EVERYWHERE
from launcher.catalog.load import Catalog
from launcher.catalog.selector import SAGEMAKER
from launcher.catalog.usage_types import item_questions
from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.instance_type import InstanceType
from launcher.model.names import nearest_name
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.sizing import HEAD_NODES, LOGIN_NODE
from launcher.targets.registry import TARGETS, target_of

ON_DEMAND, SPOT = PurchaseOption.ON_DEMAND.value, PurchaseOption.SPOT.value
CAPACITY_BLOCK, TRAINING_PLAN = PurchaseOption.CAPACITY_BLOCK.value, PurchaseOption.TRAINING_PLAN.value
SAVINGS_PLAN = PurchaseOption.SAVINGS_PLAN.value
BILL_ITEM, SPOT_BAND = "bill-item", "spot-band"
PRICE_FILE, SPOT_PAGE = "price-file", "spot-page"
"""The requests to AWS's public files; the names of a price file request are services."""
REGIONAL = frozenset((SPOT, CAPACITY_BLOCK, TRAINING_PLAN))
"""Kinds that are queried in the region itself; the others have one endpoint for all regions."""
ML_OPTIONS = (PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN, PurchaseOption.TRAINING_PLAN)
"""Purchase options of `ml.` instances; spot, blocks and reservations are EC2's.

HyperPod's spot price follows from EC2's spot price and its own on-demand rate: both are queried with the picked
place."""
Places = Mapping[str, tuple[str, ...]]
"""Regions by type."""
FIRST_REGIONS = ("us-east-1", "us-east-2", "us-west-2")
"""Regions whose price files are read if none is named: a file of EC2 has hundreds of megabytes."""
EVERY_TYPE = ("all types",)


@record
class Question:
    """One query to one service: a kind of price, for types and regions.

    `count` is the size of a Capacity Block or training plan; `reserved` also queries reserved rates.
    """

    kind: str
    names: tuple[str, ...]
    regions: tuple[str, ...]
    count: int = 1
    reserved: bool = False

    @property
    def key(self) -> str:
        """The identity of the question in the record of an unfinished refresh."""
        reserved = " reserved" if self.reserved else ""
        return f"{self.kind}{reserved} {self.count} {','.join(self.names)} {','.join(self.regions)}"

    @property
    def text(self) -> str:
        """The question in words for the user."""
        where = self.regions[0] if len(self.regions) == 1 else f"{len(self.regions)} regions"
        where = "all regions" if where == EVERYWHERE else where
        subject = self.names[0] if len(self.names) == 1 else f"{len(self.names)} types"
        return f"{self.kind.replace('-', ' ')} of {subject} in {where}"


def for_plan(request: PlanRequest, catalog: Catalog) -> tuple[Question, ...]:
    """The prices that the candidates of a plan and its head and login nodes need.

    On-demand prices are always queried: spot is compared with them, and the other instances of the cluster use them.

    Raises:
        ImpossibleError: the plan names a type or a region that the catalog does not know.
    """
    _check(request, catalog)
    options = request.purchase.option or tuple(PurchaseOption)
    if request.purchase.option is None and request.purchase.reservation is not None:
        options = (PurchaseOption.CAPACITY_BLOCK,)
    types = _types(request, catalog)
    places = {type_.name: _regions(request, catalog, type_.name) for type_ in types}
    nodes = request.target.nodes
    kinds = request.target.kind or tuple(TargetKind)
    hosts = _hosts(request, kinds, (nodes.minimum, nodes.maximum) if nodes is not None else None)
    heads = dict.fromkeys(hosts, tuple(sorted({region for place in places.values() for region in place})))
    count = nodes.minimum if nodes is not None else 1
    # Reserved rates are in the answers for on demand: they need no query of their own.
    questions = [*_on_demand({**heads, **places}, places if _commits(options) else {})]
    if PurchaseOption.SPOT in options:
        questions += _spot({type_.name: places[type_.name] for type_ in types if SPOT in type_.usage_classes})
    if PurchaseOption.CAPACITY_BLOCK in options:
        questions += [block for name in types for block in _blocks(request, catalog, name, count)]
    targets = [target_of(kind) for kind in kinds]
    if PurchaseOption.TRAINING_PLAN in options and any(
        PurchaseOption.TRAINING_PLAN in target.trains for target in targets
    ):
        questions += _training_plans({type_.name: places[type_.name] for type_ in types if type_.training_plans}, count)
    ml = {f"ml.{type_.name}": places[type_.name] for type_ in types if type_.ml or _is_in_sagemaker(type_)}
    if any(target.is_managed for target in targets) and any(option in options for option in ML_OPTIONS):
        questions += _by_name(SAGEMAKER, ml)
    if PurchaseOption.SAVINGS_PLAN in options:
        kind = request.purchase.plan_kind
        questions += _by_name(SAVINGS_PLAN, places if kind is not SavingsPlanKind.SAGEMAKER else {})
        questions += _by_name(
            SAVINGS_PLAN, ml if kind in (None, SavingsPlanKind.SAGEMAKER) and request.target.kind else {}
        )
    return tuple(questions)


def for_place(place: Place, request: PlanRequest) -> tuple[Question, ...]:
    """The price requests for one candidate of a plan, including its head and login nodes."""
    regions = (place.region,)
    name, ml = place.instance_type, f"ml.{place.instance_type}"
    commits = _commits((place.option,))
    hosts = _hosts(request, (place.target,), (place.nodes,))
    questions = [*_on_demand(dict.fromkeys((*hosts, name), regions), {name: regions} if commits else {})]
    if target_of(place.target).is_managed:
        questions += _by_name(SAGEMAKER, {ml: regions})
    match place.option:
        case PurchaseOption.SPOT:
            questions += _spot({name: regions})
        case PurchaseOption.CAPACITY_BLOCK:
            questions.append(Question(kind=CAPACITY_BLOCK, names=(name,), regions=regions, count=place.nodes))
        case PurchaseOption.TRAINING_PLAN:
            questions += _training_plans({name: regions}, place.nodes)
        case PurchaseOption.SAVINGS_PLAN:
            questions += _by_name(SAVINGS_PLAN, {ml if place.plan_kind is SavingsPlanKind.SAGEMAKER else name: regions})
        case _:
            pass
    return tuple(questions)


def for_everything(catalog: Catalog) -> tuple[Question, ...]:
    """The requests for every price that the catalog can store."""
    types = catalog.instance_types.values()
    # UltraServers are sold in Capacity Blocks alone.
    places = {type_.name: catalog.regions_of(type_.name) for type_ in types if not type_.name.startswith("u-")}
    chips = {type_.name: places[type_.name] for type_ in types if type_.accelerator and type_.name in places}
    ml = {f"ml.{type_.name}": catalog.regions_of(type_.name) for type_ in types if type_.ml or _is_in_sagemaker(type_)}
    questions = [*_on_demand(places, chips)]
    questions += _spot({name: chips[name] for name in chips if SPOT in catalog.instance_types[name].usage_classes})
    for type_ in types:
        regions = catalog.regions_offering(type_.name, PurchaseOption.CAPACITY_BLOCK)
        questions += [Question(kind=CAPACITY_BLOCK, names=(type_.name,), regions=(region,)) for region in regions]
    questions += _training_plans(
        {type_.name: places[type_.name] for type_ in types if type_.training_plans and type_.name in places}, 1
    )
    questions += [*_by_name(SAGEMAKER, ml), *_by_name(SAVINGS_PLAN, chips), *_by_name(SAVINGS_PLAN, ml)]
    return tuple(questions)


def within(questions: Iterable[Question], regions: Collection[str]) -> tuple[Question, ...]:
    """The requests, limited to some regions."""
    cut = (
        replace(question, regions=tuple(name for name in question.regions if name in regions)) for question in questions
    )
    return tuple(question for question in cut if question.regions)


def _check(request: PlanRequest, catalog: Catalog) -> None:
    target = request.target
    unknown = [
        _unknown_finding("instance type", "target.instance_type", name, catalog.instance_types)
        for name in (*(target.instance_type or ()), *target.fallback_types)
        if name not in catalog.instance_types
    ]
    unknown += [
        _unknown_finding("region", "target.region", region, catalog.regions)
        for region in target.region or ()
        if region not in catalog.regions
    ]
    if unknown:
        raise ImpossibleError(f"{request.name}: there are no prices to request", findings=unknown)


def _unknown_finding(kind: str, path: str, name: str, known: Collection[str]) -> Finding:
    return error(
        f"unknown-{kind.replace(' ', '-')}", path, f"no {kind} {name} in the catalog", nearest_name(name, known)
    )


def _types(request: PlanRequest, catalog: Catalog) -> list[InstanceType]:
    named = request.target.instance_type
    if named is not None:
        return [catalog.instance_types[name] for name in dict.fromkeys((*named, *request.target.fallback_types))]
    kinds = {target_kind.value for target_kind in request.target.kind or TargetKind}
    return [
        instance_type
        for instance_type in catalog.instance_types.values()
        if instance_type.accelerator and kinds & set(instance_type.targets)
    ]


def _regions(request: PlanRequest, catalog: Catalog, name: str) -> tuple[str, ...]:
    """The regions that a plan allows for a type: the named ones, even if the catalog lacks the type there."""
    regions = request.target.region or catalog.commercial(catalog.regions_of(name))
    zone = request.target.az_id
    return tuple(region for region in regions if zone is None or region == catalog.region_of_az(zone))


def _hosts(request: PlanRequest, kinds: Iterable[TargetKind], counts: tuple[int, ...] | None) -> tuple[str, ...]:
    """The head and login nodes of clusters with the given node counts, of any size for None; an endpoint has none."""
    targets = [target for target in map(target_of, kinds) if target.head is not None]
    if request.workload.serve is not None:
        return ()
    chosen = request.storage.head_node
    if chosen:
        heads = {chosen}
    elif counts is None:
        heads = {name for _, name in HEAD_NODES} | {target.head_instance(1, None) for target in targets}
    else:
        heads = {target.head_instance(count, None) for target in targets for count in counts}
    return tuple(sorted(heads)) + ((LOGIN_NODE,) if request.storage.login_nodes else ())


def _commits(options: Collection[PurchaseOption]) -> bool:
    return PurchaseOption.RESERVED in options or PurchaseOption.SAVINGS_PLAN in options


def _is_in_sagemaker(facts: InstanceType) -> bool:
    return any(target.kind in facts.targets for target in TARGETS.values() if target.is_managed)


def _on_demand(places: Places, reserved: Places) -> Iterator[Question]:
    for name, regions in places.items():
        if regions:
            yield Question(kind=ON_DEMAND, names=(name,), regions=regions, reserved=name in reserved)


def _by_name(kind: str, places: Places) -> Iterator[Question]:
    for name, regions in places.items():
        if regions:
            yield Question(kind=kind, names=(name,), regions=regions)


def _spot(places: Places) -> Iterator[Question]:
    for region in sorted({region for regions in places.values() for region in regions}):
        names = tuple(sorted(name for name, regions in places.items() if region in regions))
        yield Question(kind=SPOT, names=names, regions=(region,))


def _training_plans(places: Places, count: int) -> Iterator[Question]:
    for name, regions in places.items():
        for region in regions:
            yield Question(kind=TRAINING_PLAN, names=(name,), regions=(region,), count=count)


def _blocks(request: PlanRequest, catalog: Catalog, facts: InstanceType, count: int) -> Iterator[Question]:
    if CAPACITY_BLOCK not in facts.usage_classes:
        return
    named = request.target.region is not None or request.target.az_id is not None
    sold = catalog.regions_offering(facts.name, PurchaseOption.CAPACITY_BLOCK)
    for region in _regions(request, catalog, facts.name):
        if named or region in sold:
            # EC2 sells blocks of these sizes only: for another size, the rate of one instance is asked for.
            size = count if count in facts.block_counts else 1
            yield Question(kind=CAPACITY_BLOCK, names=(facts.name,), regions=(region,), count=size)


def public_files(questions: Sequence[Question], catalog: Catalog, regions: Sequence[str]) -> tuple[Question, ...]:
    """The files to read: price files of `regions`, the spot page, the advisor's bands."""
    kinds = {question.kind for question in questions}
    everywhere = tuple(catalog.regions)
    downloads = [Question(kind=SPOT_PAGE, names=EVERY_TYPE, regions=everywhere)] if SPOT in kinds else []
    downloads.append(bands(catalog))
    instances = [name for kind, name in ((ON_DEMAND, "AmazonEC2"), (SAGEMAKER, "AmazonSageMaker")) if kind in kinds]
    # A file of a service may hold several items: it is read once.
    pairs = [(name, region) for region in regions for name in instances] + list(item_questions(regions))
    downloads += [Question(kind=PRICE_FILE, names=(name,), regions=(region,)) for name, region in dict.fromkeys(pairs)]
    return tuple(downloads)


def bands(catalog: Catalog) -> Question:
    """The request for the Spot advisor's bands, of every type in every region: they are one file."""
    return Question(kind=SPOT_BAND, names=EVERY_TYPE, regions=tuple(catalog.regions))


def bands_and_items(questions: Sequence[Question], catalog: Catalog) -> tuple[Question, ...]:
    """Additional inputs of prices: the Spot Advisor's bands, and the bill items of the regions."""
    regions = dict.fromkeys(region for question in questions for region in question.regions)
    items = (Question(kind=BILL_ITEM, names=(name,), regions=(where,)) for name, where in item_questions(regions))
    return (bands(catalog), *items)


def unpublished_kinds(questions: Sequence[Question]) -> tuple[str, ...]:
    """The requested kinds of price that AWS never publishes without an account."""
    kinds = {question.kind for question in questions}
    return tuple(kind for kind in (CAPACITY_BLOCK, TRAINING_PLAN, SAVINGS_PLAN) if kind in kinds)
