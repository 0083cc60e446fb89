"""The `portfolio` command: the best option of each plan, one monthly total, and the totals on one accelerator."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from pathlib import Path

from launcher.catalog import load as catalog_load
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.model.finding import Finding, error
from launcher.model.money import UsdRange
from launcher.model.quote import Quote
from launcher.model.record import record
from launcher.model.request import PlanRequest
from launcher.pricing.candidate import Candidate
from launcher.pricing.held_commitments import HeldCommitment, held_commitments, other_usd
from launcher.pricing.priced import Priced
from launcher.workflow.quote.compare import open_choices as opened_training
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request, read_request


@record(slots=False)
class Member:
    """One plan: its candidates as written, and with type and purchase option open."""

    path: Path
    priced: Priced
    wide: Priced

    @property
    def name(self) -> str:
        """The plan's name."""
        return self.priced.request.name

    @property
    def kind(self) -> str:
        """Whether the plan trains, serves, or is only a cluster."""
        workload = self.priced.request.workload
        return "serve" if workload.serve is not None else "train" if workload.train is not None else "cluster"

    @cached_property
    def rank(self) -> int | None:
        """The rank of the plan's best option: priced, possible, and without a term that the plan does not request."""
        return next((rank for rank, candidate in enumerate(self.priced.candidates, 1) if is_usable(candidate)), None)

    @cached_property
    def choice(self) -> Quote | None:
        """The quote of the plan's best option."""
        return None if self.rank is None else self.priced.quote(self.rank)

    @property
    def usd_per_month(self) -> UsdRange | None:
        """The monthly cost of the best option; None without one."""
        usd = None if self.choice is None else self.choice.usd
        if usd is None or self.choice is None:
            return None
        commitments = held_commitments([self.choice])
        return (
            _scale_usd(usd, self.times_a_month)
            if not commitments
            else self.with_commitment(commitments[0].usd_per_month)
        )

    def with_commitment(self, held_usd: Decimal) -> UsdRange | None:
        """The monthly total with these dollars for its commitment instead of its compute."""
        if self.choice is None or self.choice.usd is None:
            return None
        mid = held_usd + other_usd(self.choice) * self.times_a_month
        more = (self.choice.usd.high - self.choice.usd.mid) * self.times_a_month
        return UsdRange(low=mid, mid=mid, high=mid + more)

    @property
    def times_a_month(self) -> Decimal:
        """How often a month its total is paid: once for serving, for training once per run."""
        train = self.priced.request.workload.train
        return Decimal(1) if train is None else Decimal(repr(min(float(train.runs), float(train.runs_per_month))))

    def on_chip(self, chip: str) -> Decimal | None:
        """The cheapest month on one kind of accelerator; None if no candidate fits or has a price."""
        costs = (
            candidate.usd
            for candidate in self.wide.candidates
            if candidate.accelerator == chip and is_usable(candidate)
        )
        usd = next((cost for cost in costs if cost is not None), None)
        return None if usd is None else usd * self.times_a_month


@record
class OneChip:
    """All plans on one kind of accelerator: the total of the plans that fit, and the names of those that do not.

    `difference_usd` is against the best options; None if a plan is in only one of the two totals.
    """

    accelerator: str
    family: str
    usd_per_month: Decimal
    difference_usd: Decimal | None
    missing: tuple[str, ...]


@record(slots=False)
class Portfolio:
    """Several plans together."""

    members: tuple[Member, ...]
    now: datetime

    @property
    def usd_per_month(self) -> UsdRange:
        """The total of the best options, with each commitment counted once; plans without an option are excluded."""
        tied = {name for commitment in self.commitments for name in commitment.plans}
        months = [
            member.with_commitment(Decimal(0)) if member.name in tied else member.usd_per_month
            for member in self.members
        ]
        committed = sum((commitment.usd_per_month for commitment in self.commitments), Decimal(0))
        return _total([*months, UsdRange(low=committed, mid=committed, high=committed)])

    @cached_property
    def commitments(self) -> tuple[HeldCommitment, ...]:
        """The new commitments of the best options, each counted once, for all hours of a month."""
        return held_commitments([member.choice for member in self.members if member.choice is not None])

    @property
    def unpriced_plans(self) -> tuple[str, ...]:
        """Names of the plans without a priced option."""
        return tuple(member.name for member in self.members if member.usd_per_month is None)

    @cached_property
    def one_chip(self) -> tuple[OneChip, ...]:
        """Every kind of accelerator that fits a plan: first those that fit all plans, by increasing cost."""
        chips = {
            candidate.accelerator
            for member in self.members
            for candidate in member.wide.candidates
            if is_usable(candidate)
        }
        options = [self._on(chip) for chip in sorted(chip_name for chip_name in chips if chip_name)]
        return tuple(sorted(options, key=lambda option: (len(option.missing), option.usd_per_month)))

    def _on(self, chip: str) -> OneChip:
        months = {member.path: member.on_chip(chip) for member in self.members}
        total = sum((usd for usd in months.values() if usd is not None), Decimal(0))
        missing = tuple(member.name for member in self.members if months[member.path] is None)
        family = self.members[0].priced.catalog.accelerators[chip].family
        more = None if missing or self.unpriced_plans else total - self.usd_per_month.mid
        return OneChip(accelerator=chip, family=family, usd_per_month=total, difference_usd=more, missing=missing)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings of all plans, each with its plan's name."""
        return tuple(
            replace(finding, message=f"{member.name}: {finding.message}")
            for member in self.members
            for finding in member.priced.findings
        )


def portfolio(paths: Sequence[Path], now: datetime, options: PriceOptions) -> Portfolio:
    """The portfolio of several plan files; the settings of the options hold for each of them.

    Raises:
        UnreadableInputError: files cannot be read; the error has the problems of all of them.
        ImpossibleError: plans are impossible; the error has the findings of all of them.
    """
    catalog = catalog_load.load(prices_as_of=options.prices_as_of, overlay=options.cache, today=now.date())
    members: list[Member] = []
    problems: list[Finding] = []
    unreadable = False
    for path in paths:
        try:
            request = read_request(path, catalog, options)
            priced = price_request(path, request, catalog, now, options)
        except (ImpossibleError, UnreadableInputError) as problem:
            unreadable |= isinstance(problem, UnreadableInputError)
            refusals = [replace(finding, message=f"{path}: {finding.message}") for finding in problem.findings]
            problems += refusals or [error("file", "", problem.message, problem.hint)]
            continue
        members.append(Member(path=path, priced=priced, wide=_wide(priced, path, now, options)))
    if unreadable:
        raise UnreadableInputError("a plan of the portfolio cannot be read", findings=problems)
    if problems:
        raise ImpossibleError("a plan of the portfolio is impossible", findings=problems)
    return Portfolio(members=tuple(members), now=now)


def _wide(priced: Priced, path: Path, now: datetime, options: PriceOptions) -> Priced:
    """The same plan with type and purchase option open; unchanged if that is impossible."""
    wide = _open_request(priced.request)
    try:
        return price_request(path, wide, priced.catalog, now, options) if wide != priced.request else priced
    except ImpossibleError:
        return priced


def _open_request(request: PlanRequest) -> PlanRequest:
    if request.workload.serve is None:
        return opened_training(request)
    from launcher.workflow.quote.compare_serving import open_choices as opened_serving

    return opened_serving(request)


def is_usable(candidate: Candidate) -> bool:
    """Whether a portfolio may use a candidate: priced, possible, no commitment of years unless the plan requests it.

    Spot is used for training; for serving only if the plan requests it.
    """
    request = candidate.context.request
    options = tuple(PurchaseOption) if request.purchase.owned else request.purchase.option or ()
    taken_back = candidate.place.option is PurchaseOption.SPOT and request.workload.serve is not None
    free = candidate.place.term_years is None and not taken_back
    return candidate.usd is not None and not candidate.refusals and (free or candidate.place.option in options)


def _scale_usd(usd: UsdRange, factor: Decimal) -> UsdRange:
    return UsdRange(low=usd.low * factor, mid=usd.mid * factor, high=usd.high * factor)


def _total(months: Sequence[UsdRange | None]) -> UsdRange:
    known = [month for month in months if month is not None]
    return UsdRange(
        **{name: sum((getattr(range_, name) for range_ in known), Decimal(0)) for name in ("low", "mid", "high")}
    )
