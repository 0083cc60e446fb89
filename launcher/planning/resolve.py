"""From a request to its offers: every place that the facts allow, with the node counts that fit. No prices yet."""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

from launcher.catalog.load import Catalog
from launcher.model.candidate_group import CandidateGroup
from launcher.model.enums import COMMITTED, PREPAID, Level, PurchaseOption, TargetKind
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import TRAINING_PLAN_COUNTS
from launcher.model.instance_type import InstanceType
from launcher.model.measurement import Measurement
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.model.training import TrainingFacts
from launcher.model.units import number_of
from launcher.planning import targets
from launcher.planning.checks import SPOT_WITHOUT_CHECKPOINTS, check
from launcher.planning.job_command import JobCommand
from launcher.planning.limits import lack, limits
from launcher.planning.networks import layout_findings
from launcher.planning.reserved import reserved_group
from launcher.planning.work import Estimator
from launcher.targets.registry import target_of, training_targets

NODE_COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Node counts tried if the request leaves them open: the powers of two in which Capacity Blocks are sold."""
BEYOND = (128, 256, 512, 1024)
"""Also tried if a range extends that far, or a deadline needs more nodes than COUNTS: a choice of this project."""
TRIED = (PurchaseOption.ON_DEMAND, PurchaseOption.SPOT, PurchaseOption.CAPACITY_BLOCK)
SPARE_SHARE = 1.1
"""Factor on the nodes needed for the bare hours, also tried on spot under a deadline: a choice of this project."""


@record
class Resolution:
    """The candidate groups of a request, the number of combinations examined, and the findings."""

    groups: tuple[CandidateGroup, ...]
    considered: int
    findings: tuple[Finding, ...]
    estimator: Estimator

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the plan."""
        return tuple(finding for finding in self.findings if finding.level is Level.ERROR)


def resolve_training(
    request: PlanRequest,
    catalog: Catalog,
    facts: TrainingFacts,
    measured: tuple[Measurement, ...] = (),
    job_command: JobCommand = JobCommand(),  # noqa: B008 - a frozen record
) -> Resolution:
    """The candidate groups of a request.

    A request with errors has none; a request that no instance type can serve has an error with the reason. `measured`
    are the user's own runs, for the hours around the job; the runs that correct the rate are in the facts. The hours
    count the chips that `job_command` uses.
    """
    # Spot without checkpoints is priced, so that the user sees its cost; its gate refuses it.
    findings = [finding for finding in check(request, catalog) if finding.code != SPOT_WITHOUT_CHECKPOINTS]
    estimator = Estimator(request=request, catalog=catalog, facts=facts, measured=measured, job_command=job_command)
    findings += limits(request, catalog, estimator)
    findings += layout_findings(request.network)
    findings += targets.request_findings(request, catalog)
    if any(finding.level is Level.ERROR for finding in findings):
        return Resolution(groups=(), considered=0, findings=tuple(findings), estimator=estimator)
    reserved, remarks = reserved_group(request, catalog)
    findings += remarks
    sold = (reserved,) if reserved is not None else tuple(_groups(request, catalog))
    sold = tuple(_in_time(group, request, estimator) for group in sold)
    findings += targets.group_remarks(request, sold, catalog)
    considered = sum(group.combinations for group in sold)
    misfits: dict[str, str] = {}
    groups = tuple(_fitting(sold, estimator, misfits))
    if not groups and not any(finding.level is Level.ERROR for finding in findings):
        findings.append(_none_left(request, catalog, sold, misfits))
    return Resolution(groups=groups, considered=considered, findings=tuple(findings), estimator=estimator)


def _groups(request: PlanRequest, catalog: Catalog) -> Iterator[CandidateGroup]:
    """Every group that is sold, before the check whether the job fits."""
    options, named = request.purchase.option or (*TRIED, *COMMITTED), request.purchase.plan_kind
    places: dict[tuple[str, PurchaseOption], tuple[tuple[str, str | None], ...]] = {}
    for target in _targets(request):
        for facts in _types(request, catalog, target):
            for option in options:
                if option not in target_of(target).trains or not targets.is_sold(facts, option, target):
                    continue
                if (facts.name, option) not in places:
                    regions = _regions(catalog, facts.name, option)
                    every = targets.locations_of(request, catalog, facts.name, option, regions)
                    places[facts.name, option] = tuple(every)
                known = places[facts.name, option]
                locations = target_of(target).locations(request, option, known)
                counts = _node_counts(request, facts, option)
                kinds = (named,) if named is not None else target_of(target).savings_plans
                terms = tuple(targets.terms_of(request, option, kinds))
                if locations and counts and terms:
                    yield CandidateGroup(target, facts.name, option, locations, counts, terms)


def _in_time(group: CandidateGroup, request: PlanRequest, estimator: Estimator) -> CandidateGroup:
    """The group, extended by the fewest nodes that meet the deadline, if intermediate counts are sold.

    The hours fall with every node, so a binary search finds the number. Spot takes longer than the bare hours, so
    Slipway also tries a tenth more nodes. If the number of nodes is open, Slipway also tries those in `BEYOND`.
    """
    deadline_h = request.purchase.deadline_h
    if deadline_h is None or group.option in PREPAID:
        return group

    def late(nodes: int) -> bool:
        return estimator.work(group.instance_type, nodes).hours.mid > deadline_h

    open_end = request.target.nodes is None and len(group.node_counts) > 1
    pairs = pairwise((*group.node_counts, *BEYOND) if open_end else group.node_counts)
    gap = next(((few, many) for few, many in pairs if late(few) and not late(many)), None)
    if gap is None:
        return group
    few, many = gap
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if late(middle) else (few, middle)
    more = {many, min(gap[1], math.ceil(many * SPARE_SHARE))} if group.option is PurchaseOption.SPOT else {many}
    return group._replace(node_counts=tuple(sorted({*group.node_counts, *more})))


def _targets(request: PlanRequest) -> tuple[TargetKind, ...]:
    """The targets to try; jobs for an existing cluster go to the first target unless the plan names another."""
    kinds, built = request.target.kind, training_targets()
    if kinds is None:
        return built[:1] if request.target.cluster is not None else built
    return tuple(target_kind for target_kind in built if target_kind in kinds)


def _fitting(
    groups: tuple[CandidateGroup, ...], estimator: Estimator, misfits: dict[str, str]
) -> Iterator[CandidateGroup]:
    """The groups with the counts on which the job runs; `misfits` collects why types drop out.

    Counts on which it runs only with a leaner recipe than planned stay where no other count of the group is left.
    """
    known: dict[tuple[str, tuple[int, ...]], tuple[int, ...]] = {}
    for group in groups:
        counts = (group.instance_type, group.node_counts)
        if counts not in known:
            good: list[int] = []
            tight: list[int] = []
            for nodes in group.node_counts:
                work = estimator.work(group.instance_type, nodes)
                if work.misfit is not None:
                    misfits[group.instance_type] = work.misfit
                else:
                    (good if work.tight is None else tight).append(nodes)
            known[counts] = tuple(good or tight)
        if known[counts]:
            yield group._replace(node_counts=known[counts])


def _types(request: PlanRequest, catalog: Catalog, target: TargetKind) -> Iterator[InstanceType]:
    """The types to try: the pinned ones, or every type with accelerators that the target supports."""
    train = request.workload.train
    if request.target.instance_type is not None:
        types = [catalog.instance_types[name] for name in dict.fromkeys(request.target.instance_type)]
    else:
        every = catalog.instance_types.values()
        types = [
            instance_type for instance_type in every if instance_type.chip is not None and instance_type.chip.trains
        ]
        types = [instance_type for instance_type in types if target in instance_type.targets]
    for facts in types:
        # One without a chip is pinned, for a job of given hours: nothing of it is computed.
        if train is None or facts.accelerator is None or lack(catalog.accelerators[facts.accelerator], train) is None:
            yield facts


def _node_counts(request: PlanRequest, facts: InstanceType, option: PurchaseOption) -> tuple[int, ...]:
    """The node counts to try for one option; several nodes only with EFA, unless the user requested them."""
    nodes = request.target.nodes
    joined = facts.efa_interfaces > 0 or "efa_interfaces" in facts.unknown
    counts: tuple[int, ...]
    if nodes is None:
        counts = NODE_COUNTS if joined else NODE_COUNTS[:1]
    elif nodes.minimum == nodes.maximum or not joined:
        counts = (nodes.minimum,)
    else:
        inside = [count for count in (*NODE_COUNTS, *BEYOND) if nodes.minimum < count < nodes.maximum]
        counts = tuple(sorted({nodes.minimum, *inside, nodes.maximum}))
    if option is PurchaseOption.CAPACITY_BLOCK:
        return tuple(count for count in counts if count in facts.block_counts)
    if option is PurchaseOption.TRAINING_PLAN:
        return tuple(count for count in counts if count in TRAINING_PLAN_COUNTS)
    return counts


def _regions(catalog: Catalog, name: str, option: PurchaseOption) -> tuple[str, ...]:
    """The regions that have a type; for Reserved Instances only regions that sell them."""
    reserved = option is PurchaseOption.RESERVED
    return catalog.regions_offering(name, option) if reserved else catalog.regions_of(name)


def _none_left(
    request: PlanRequest, catalog: Catalog, sold: tuple[CandidateGroup, ...], misfits: Mapping[str, str]
) -> Finding:
    if misfits:
        name, reason = next(iter(misfits.items()))
        more = f" (and {number_of(len(misfits) - 1, 'more type')})" if len(misfits) > 1 else ""
        message = f"no candidate is left: {name}: {reason}{more}"
        return error("nothing-fits", "target", message, "allow more nodes or other types")
    options = ", ".join(request.purchase.option or ()) or "any option"
    types = request.target.instance_type
    if sold or types is None:
        return error("nothing-offered", "target", f"no candidate is left: nothing in this plan is sold as {options}")
    name = types[0]
    requested_regions, known = ", ".join(request.target.region or ()) or "any region", catalog.regions_of(name)
    where = f"it is offered in {', '.join(known)}" if known else "no known region offers it"
    return error(
        "nothing-offered", "target", f"no candidate is left: {name} in {requested_regions} as {options}", where
    )
