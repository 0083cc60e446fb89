"""The story of a price: plan file to ranked quotes. Nothing is called and nothing is spent."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from launcher import plan_file
from launcher.catalog import load as catalog_load
from launcher.catalog.load import Catalog
from launcher.catalog.training import load_training
from launcher.model.document import resolve as resolved_plan
from launcher.model.enums import CheckpointMode, Level, PurchaseOption
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.finding import Finding
from launcher.model.quote import Quote
from launcher.model.request import PlanRequest
from launcher.model.workload import ModelDimensions
from launcher.planning.checks import SPOT_WITHOUT_CHECKPOINTS
from launcher.planning.limits import computes
from launcher.planning.resolve import Resolution, resolve
from launcher.planning.targets import place_findings
from launcher.planning.work import cluster_hours
from launcher.pricing.alternatives import Alternative, alternatives
from launcher.pricing.candidate import Candidate, cheapest_fixed, ranked, training_candidate
from launcher.pricing.context import PricingContext
from launcher.pricing.gate import OVER_BUDGET, GateRules, spending_limit
from launcher.pricing.quoting import quote
from launcher.pricing.screening import all_places, best_places

LEAST_DIGEST = 6
NVIDIA, NEURON = "nvidia", "neuron"
"""Families of accelerators: GPUs, and Trainium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceOptions:
    """What the command line adds to a plan file; `cache` is the folder of refreshed prices, where there is one.

    `despite_verdict` deploys an endpoint that the comparison advises against. `runs` is the folder from whose runs a
    serving plan takes load tests; None takes none.
    """

    region: str | None = None
    everything: bool = False
    prices_as_of: date | None = None
    max_price_age: int | None = None
    max_usd: Decimal | None = None
    sandbox: bool = False
    cache: Path | None = None
    runs: Path | None = None
    despite_verdict: bool = False


@dataclass(frozen=True, kw_only=True)
class Priced:
    """A request with its candidates, best first; a quote is made of one when it is asked for."""

    path: Path
    context: PricingContext
    resolution: Resolution
    candidates: Sequence[Candidate]
    _made: dict[int, Quote] = field(default_factory=dict)

    @property
    def request(self) -> PlanRequest:
        """The request."""
        return self.context.request

    @property
    def catalog(self) -> Catalog:
        """The prices."""
        return self.context.catalog

    @property
    def now(self) -> datetime:
        """The moment."""
        return self.context.now

    def quote(self, rank: int) -> Quote:
        """The quote of a rank, from 1; one over the budget names the best that is not."""
        made = self._quote(rank)
        if made.gate.exit_code != OVER_BUDGET or self._affordable is None:
            return made
        other, usd = self._affordable
        return replace(made, gate=replace(made.gate, hint=f"{made.gate.hint}, or --pick {other} at ${usd:,.2f}"))

    def _quote(self, rank: int) -> Quote:
        """The quote by itself."""
        if rank not in self._made:
            candidate = self.candidates[rank - 1]
            work = self.resolution.estimator.explained(candidate.work)
            self._made[rank] = quote(candidate, work, self._rival_usd)
        return self._made[rank]

    def digest(self, rank: int) -> str:
        """The digest of a rank's plan, without making its quote."""
        return resolved_plan(self.request, self.candidates[rank - 1].place, self.context.document).digest

    @cached_property
    def quotes(self) -> tuple[Quote, ...]:
        """Every candidate's quote."""
        return tuple(self.quote(rank) for rank in range(1, len(self.candidates) + 1))

    @cached_property
    def _rival_usd(self) -> Decimal | None:
        """The cheapest total that is not on spot."""
        return cheapest_fixed(self.candidates)

    @cached_property
    def _affordable(self) -> tuple[int, Decimal] | None:
        """The first candidate within the budget: its rank and its high estimate; None without one."""
        limit = spending_limit(self.request, self.context.rules)
        for rank, candidate in enumerate(self.candidates, start=1):
            if limit is None or candidate.usd is None or candidate.usd > limit or candidate.refusals:
                continue
            made = self._quote(rank)
            if made.usd is not None and made.usd.high <= limit and made.gate.exit_code != OVER_BUDGET:
                return rank, made.usd.high
        return None

    def family(self, candidate: Candidate) -> str:
        """Whether a candidate is nvidia or neuron."""
        chip = self.catalog.instance_types[candidate.place.instance_type].accelerator
        return self.catalog.accelerators[chip].family if chip else ""

    def cheapest_of(self, family: str) -> int | None:
        """The rank of the cheapest possible candidate of a family that ties nobody down for years; None without one."""
        for rank, candidate in enumerate(self.candidates, start=1):
            tied = candidate.place.term_years is not None and candidate.place.option not in self._asked
            if candidate.usd is not None and not candidate.refusals and not tied and self.family(candidate) == family:
                return rank
        return None

    @property
    def _asked(self) -> tuple[PurchaseOption, ...]:
        """The ways of buying that the plan names; what it owns is not new."""
        return tuple(PurchaseOption) if self.request.purchase.owned else self.request.purchase.option or ()

    @cached_property
    def alternatives(self) -> tuple[Alternative, ...]:
        """What else the job could run on, priced and not deployed; nothing for a cluster without a job."""
        train, asked = self.request.workload.train, self.request.target.instance_type
        kinds = self.request.target.kind
        if train is None or kinds is not None:
            return ()
        types = self.catalog.instance_types
        tried = [types[name] for name in asked] if asked is not None else list(types.values())
        chips = [
            each
            for each in tried
            if each.chip is not None and each.chip.trains and computes(each.chip, train.precision)
        ]
        return alternatives(chips, self.resolution.estimator.work, self.context)

    @property
    def impossible(self) -> bool:
        """Whether there is something against every candidate."""
        return all(each.refusals for each in self.candidates)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of the whole plan."""
        return self.resolution.findings

    @property
    def cluster_hours(self) -> float:
        """Hours a cluster without a job is priced for."""
        return cluster_hours(self.request)

    @property
    def params_b(self) -> float | None:
        """Billions of parameters of the model, where there is one."""
        train = self.request.workload.train
        if train is None or train.model is None:
            return None
        if isinstance(train.model, ModelDimensions):
            return train.model.params_b
        found = self.catalog.find_model(train.model)
        return found.params_b if found else None

    @property
    def next_command(self) -> str:
        """What to type next."""
        return f"slipway quote {self.path} --pick 1"


def price(path: Path, now: datetime, options: PriceOptions) -> Priced:
    """The candidates of a plan file.

    Raises:
        UnreadableInputError: the file cannot be understood.
        ImpossibleError: it is understood and no candidate is left, with every finding.
    """
    request, catalog = asked(path, options)
    return price_request(path, request, catalog, now, options)


def asked(path: Path, options: PriceOptions) -> tuple[PlanRequest, Catalog]:
    """What a plan file asks for, with the command line's region, and the prices to answer with.

    Raises:
        UnreadableInputError: the file cannot be understood.
        ImpossibleError: what it asks for cannot be.
    """
    request = plan_file.load(path)
    if options.region is not None:
        request = replace(request, target=replace(request.target, region=(options.region,)))
    return request, catalog_load.load(prices_as_of=options.prices_as_of, overlay=options.cache)


def refuse_errors(path: Path, findings: Sequence[Finding]) -> None:
    """Go on only with a request that nothing stands against.

    Raises:
        ImpossibleError: something does; with every finding.
    """
    count = sum(each.level is Level.ERROR for each in findings)
    if count:
        message = f"{path} asks for something that cannot be done: {count} problem{'s' if count > 1 else ''}"
        raise ImpossibleError(message, findings=tuple(findings))


def context_for(request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions) -> PricingContext:
    """What every quote of one command has in common."""
    rules = GateRules(
        today=now.date(), max_usd=options.max_usd, max_age_days=options.max_price_age, sandbox=options.sandbox
    )
    return PricingContext(request=request, catalog=catalog, now=now, rules=rules)


def price_request(path: Path, request: PlanRequest, catalog: Catalog, now: datetime, options: PriceOptions) -> Priced:
    """The candidates of a request; `path` is where it was read from.

    Raises:
        ImpossibleError: no candidate is left, with every finding.
    """
    if request.workload.serve is not None:
        # Loaded for serving plans alone: a training plan pays nothing for it.
        from launcher.workflow.quote.serving import price_serving

        return price_serving(path, request, catalog, now, options)
    resolution = resolve(request, catalog, load_training())
    refuse_errors(path, resolution.findings)
    context = context_for(request, catalog, now, options)
    works = resolution.estimator.work
    places = all_places(resolution.groups) if options.everything else best_places(resolution.groups, works, context)
    candidates = ranked(
        training_candidate(
            place, works(place.instance_type, place.nodes), context, place_findings(request, place, catalog)
        )
        for place in places
    )
    if request.purchase.option == (PurchaseOption.SPOT,) and request.checkpoint.mode is CheckpointMode.NONE:
        _refuse_lossy_spot(path, candidates)
    return Priced(path=path, context=context, resolution=resolution, candidates=candidates)


def _refuse_lossy_spot(path: Path, candidates: Sequence[Candidate]) -> None:
    """Refuse a plan that pins spot and never saves, with the hours and dollars that it would be expected to take."""
    best = candidates[0]
    found = [each for each in best.refusals if each.code == SPOT_WITHOUT_CHECKPOINTS]
    total = f", ${best.usd:,.0f}" if best.usd is not None else ""
    findings = [replace(each, message=f"{each.message}{total}") for each in found]
    if findings:
        raise ImpossibleError(f"{path} asks for something that cannot be done: 1 problem", findings=findings)


def pick(priced: Priced, wanted: str | None) -> tuple[int, Quote]:
    """The quote a person picked by rank or digest, with its rank; the first without a wish.

    Raises:
        UnreadableInputError: there is no such rank or digest.
    """
    count = len(priced.candidates)
    if wanted is None:
        return 1, priced.quote(1)
    if wanted.isdecimal() and wanted.isascii() and len(wanted) < LEAST_DIGEST and 1 <= int(wanted) <= count:
        return int(wanted), priced.quote(int(wanted))
    if len(wanted) >= LEAST_DIGEST:
        digests = [priced.digest(rank) for rank in range(1, count + 1)]
        matching = [rank for rank, digest in enumerate(digests, start=1) if digest.startswith(wanted.lower())]
        if len(matching) == 1:
            return matching[0], priced.quote(matching[0])
    raise UnreadableInputError(
        f"--pick {wanted}: no candidate with that rank or digest",
        hint=f"ranks 1 to {count}, or the first {LEAST_DIGEST} letters of a digest or more",
    )
