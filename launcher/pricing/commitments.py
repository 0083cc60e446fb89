"""The binding cost of a Savings Plan or Reserved Instance: break-even utilization, and the loss after a price cut."""

from decimal import Decimal

from launcher.model.enums import COMMITTED, Market, SavingsPlanKind
from launcher.model.money import Assumption, Price
from launcher.model.quote import Commitment
from launcher.model.units import HOURS_A_YEAR, HOURS_PER_MONTH
from launcher.pricing.compute import ComputeCost, committed_sets
from launcher.pricing.training_candidate import TrainingCandidate

MOVES = (SavingsPlanKind.COMPUTE, SavingsPlanKind.SAGEMAKER)
"""Savings Plans that pay for any type; an EC2 Instance Savings Plan and a Reserved Instance are bound to one family
(Savings Plans user guide; buying guides of 2026)."""
CUT_SOURCE = "the cut of June 2025, aws/karpenter-provider-aws price tables of 2025-03-31 and 2025-06-23"


def commitment(candidate: TrainingCandidate, cost: ComputeCost | None) -> Commitment | None:
    """The cost of being bound; None for a purchase option without a commitment, or without a price."""
    price, listed = _prices(candidate, cost)
    if cost is None or price is None or listed is None:
        return None
    cut, remaining_usd = _cut(candidate), _remaining_usd(candidate, cost, price)
    return Commitment(
        break_even_utilisation=_break_even(price, listed),
        utilisation=_utilisation(candidate, cost),
        price_cut=float(cut),
        stranded_usd=remaining_usd * cut,
        new_generation_usd=Decimal(0) if candidate.place.plan_kind in MOVES else remaining_usd,
    )


def commitment_assumptions(candidate: TrainingCandidate, cost: ComputeCost | None) -> tuple[Assumption, ...]:
    """The numbers behind the cost of being bound, as lines of the quote."""
    price, listed = _prices(candidate, cost)
    if cost is None or price is None or listed is None:
        return ()
    used, sets = _utilisation(candidate, cost), _sets(candidate, cost)
    utilisation = (
        Assumption(
            name="break-even utilisation of the commitment",
            value=f"{_break_even(price, listed):.0%}",
            unit="of its hours",
            source=f"${price.usd:f} committed against ${listed.usd:f} on demand, {listed.as_of}",
        ),
        Assumption(
            name="utilisation by this job",
            value="not known" if used is None else f"{used:.1%}",
            unit="" if used is None else "of its hours",
            source=f"workload.train.runs_per_month x billed hours over 730 hours a month of {sets:,} sets of nodes",
        ),
    )
    moves = candidate.place.plan_kind in MOVES
    return (
        *utilisation,
        *_stranded_assumptions(_remaining_usd(candidate, cost, price), _cut(candidate), moves=moves),
    )


def _prices(candidate: TrainingCandidate, cost: ComputeCost | None) -> tuple[Price | None, Price | None]:
    """The price of the commitment, and that on demand on an open market; None without one."""
    place, price = candidate.place, candidate.offer.price
    if place.option not in COMMITTED or cost is None or not isinstance(price, Price):
        return None, None
    listed = candidate.context.catalog.on_demand(place.instance_type, place.region)
    return price, listed if isinstance(listed, Price) and listed.market is Market.OPEN else None


def _sets(candidate: TrainingCandidate, cost: ComputeCost) -> int:
    return committed_sets(candidate.context.request, cost.charge.used_h)


def _remaining_usd(candidate: TrainingCandidate, cost: ComputeCost, price: Price) -> Decimal:
    """What is left to pay halfway through the term."""
    place, sets = candidate.place, _sets(candidate, cost)
    return price.usd * place.nodes * sets * Decimal(HOURS_A_YEAR * (place.term_years or 1)) / 2


def _cut(candidate: TrainingCandidate) -> Decimal:
    return candidate.context.catalog.price_cut(candidate.place.instance_type)


def _break_even(price: Price, listed: Price) -> float:
    return float(price.usd / listed.usd) if listed.usd else 1.0


def _stranded_assumptions(remaining_usd: Decimal, cut: Decimal, *, moves: bool) -> tuple[Assumption, ...]:
    return (
        Assumption(
            name=f"stranded by a cut of {cut:.0%} halfway through",
            value=f"{remaining_usd * cut:.0f}",
            unit="dollars above the price of the same commitment then",
            source=CUT_SOURCE,
        ),
        Assumption(
            name="stranded by a move to a new generation halfway through",
            value="0" if moves else f"{remaining_usd:.0f}",
            unit="dollars",
            source="the plan pays for any type"
            if moves
            else "the rest of the term: it is bound to its family of types",
        ),
    )


def _utilisation(candidate: TrainingCandidate, cost: ComputeCost) -> float | None:
    """The share of a month for which the runs use each set of nodes; None for a cluster without a job."""
    train = candidate.context.request.workload.train
    if train is None:
        return None
    billed_h = cost.charge.used_h / _sets(candidate, cost)
    return min(1.0, billed_h * float(train.runs_per_month) / HOURS_PER_MONTH)
