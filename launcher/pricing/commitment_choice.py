"""Which commitment to buy: the plans' demand as a distribution over hours, and the level where a commitment pays.

A commitment of c dollars an hour pays for x = c / r of demand on demand, r being its rate over that of on demand. It
saves E[min(D, x)] - r x an hour, and one more dollar of x brings P(D > x) - r: it pays up to the (1 - r) quantile of
the demand D (the newsvendor's quantile). The guides of 2026 recommend less: 70 to 80 % of the constant usage.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple

from launcher.catalog.load import Catalog
from launcher.catalog.selector import Key
from launcher.model.commitment_choice import CommitmentOption, Load, Marginal
from launcher.model.enums import Payment, PurchaseOption, SavingsPlanKind
from launcher.model.money import Price
from launcher.model.plan import Place
from launcher.model.record import record
from launcher.model.units import HOURS_A_YEAR
from launcher.pricing.bill_lines import sum_price
from launcher.pricing.commitments import MOVES
from launcher.pricing.offers import price_key
from launcher.targets.registry import target_of

OF_THE_FLOOR = Decimal("0.75")
"""The middle of the guides' 70 to 80 % of the floor of usage (buying guides of 2026, as gathered on 2026-11-20)."""
TERMS = (1, 3)
POINTS = 4_000
"""Maximum values of a distribution: Slipway merges more values in steps of a few cents."""
CENT = Decimal("0.001")
"""Savings Plans are bought in steps of a tenth of a cent an hour (Savings Plans API reference, commitment)."""
CONSOLE = {True: "Billing > Savings Plans > Purchase Savings Plans", False: "EC2 > Reserved Instances > Purchase"}


@record
class Demand:
    """Demand in on-demand dollars an hour, lowest first; plans run at any hour, independently of each other."""

    # Each value, the lowest first, with the share of hours in which demand has it.
    shares: Mapping[float, float]

    @property
    def floor(self) -> float:
        """The demand in every hour."""
        return min(self.shares)

    @property
    def mean(self) -> float:
        """The mean demand over the hours."""
        return sum(value * share for value, share in self.shares.items())

    def mean_used(self, level: float) -> float:
        """The mean used part of a level.

        >>> demand([(10.0, 1.0), (10.0, 0.5)]).mean_used(15.0)
        12.5
        """
        return sum(min(value, level) * share for value, share in self.shares.items())

    def above(self, level: float) -> float:
        """The share of hours with more demand than a level.

        >>> demand([(10.0, 1.0), (10.0, 0.5)]).above(10.0)
        0.5
        """
        return sum(share for value, share in self.shares.items() if value > level + 1e-9)

    def best(self, ratio: float) -> float:
        """The level above which a further dollar saves nothing: the (1 - ratio) quantile.

        >>> demand([(10.0, 1.0), (10.0, 0.5)]).best(0.6), demand([(10.0, 1.0), (10.0, 0.7)]).best(0.6)
        (10.0, 20.0)
        """
        level = 0.0
        for value in self.shares:
            if self.above(level) > ratio:
                level = value
        return level


def demand(loads: Iterable[tuple[float, float]]) -> Demand:
    """The distribution of independent loads, each in dollars an hour with the share of hours in which it runs."""
    shares: dict[float, float] = {0.0: 1.0}
    for usd, share in loads:
        grown: dict[float, float] = defaultdict(float)
        for value, known in shares.items():
            grown[value] += known * (1 - share)
            grown[value + usd] += known * share
        shares = _coarse({value: known for value, known in grown.items() if known > 0})
    return Demand(shares={value: shares[value] for value in sorted(shares)})


def _coarse(shares: Mapping[float, float]) -> dict[float, float]:
    """The distribution with fewer values: neighbours merge at their lower end, so that savings are not overstated."""
    if len(shares) <= POINTS:
        return dict(shares)
    step = (max(shares) - min(shares)) / POINTS
    least, joined = min(shares), defaultdict[float, float](float)
    for value, share in shares.items():
        joined[least + int((value - least) / step) * step] += share
    return dict(joined)


class _Instrument(NamedTuple):
    """A kind of commitment: its purchase option, and the loads that it covers."""

    option: PurchaseOption
    kind: SavingsPlanKind | None
    covers: str
    loads: tuple[Load, ...]


def commitment_options(loads: Sequence[Load], catalog: Catalog) -> tuple[CommitmentOption, ...]:
    """Every commitment that covers some of the loads, the one that saves most first."""
    options = [
        option
        for instrument in _instruments(loads)
        for years in TERMS
        for payment in Payment
        for option in _options(instrument, years, payment, catalog)
    ]
    return tuple(
        sorted(
            options,
            key=lambda commitment_option: (
                -commitment_option.saving_usd,
                commitment_option.commitment_usd,
                commitment_option.instrument,
            ),
        )
    )


def _instruments(loads: Sequence[Load]) -> Iterator[_Instrument]:
    """Each instrument with the loads that it covers.

    Compute Savings Plans cover EC2 in any region, EC2 Instance Savings Plans one family in one region, reservations one
    type in one region, and SageMaker Savings Plans the instances that SageMaker bills.
    """
    ec2_loads = [load for load in loads if not target_of(load.target).is_managed]
    managed = [load for load in loads if target_of(load.target).is_managed]
    savings_plan = PurchaseOption.SAVINGS_PLAN
    if ec2_loads:
        yield _Instrument(savings_plan, SavingsPlanKind.COMPUTE, "EC2 of any type in any region", tuple(ec2_loads))
    if managed:
        yield _Instrument(savings_plan, SavingsPlanKind.SAGEMAKER, "SageMaker instances in any region", tuple(managed))
    for family, region in sorted({(load.family, load.region) for load in ec2_loads}):
        some = tuple(load for load in ec2_loads if (load.family, load.region) == (family, region))
        yield _Instrument(savings_plan, SavingsPlanKind.EC2_INSTANCE, f"{family} in {region}", some)
    for name, region in sorted({(load.instance_type, load.region) for load in ec2_loads}):
        some = tuple(load for load in ec2_loads if (load.instance_type, load.region) == (name, region))
        yield _Instrument(PurchaseOption.RESERVED, None, f"{name} in {region}", some)


def _options(instrument: _Instrument, years: int, payment: Payment, catalog: Catalog) -> Iterator[CommitmentOption]:
    """The instrument at 75 % of the floor, and at the level above which a further dollar saves nothing."""
    priced = [(load, _rate(load, instrument, years, payment, catalog)) for load in instrument.loads]
    covered = [(load, rate) for load, rate in priced if rate is not None]
    if not covered:
        return
    loads = [
        (float(load.usd_per_hour), load.share_over(years), float(rate.usd / load.usd_per_node_hour))
        for load, rate in covered
    ]
    curve = demand((usd, share) for usd, share, _ in loads)
    paid = sum(usd * share for usd, share, _ in loads)
    # AWS applies a plan where it saves most first: one ratio for all of them is the mean, weighted by the dollars.
    ratio = sum(usd * share * units for usd, share, units in loads) / paid if paid else 1.0
    # Its sources, weakest basis and oldest date.
    origin = sum_price((1.0, rate) for _, rate in covered)
    levels = {"floor": OF_THE_FLOOR * Decimal(repr(curve.floor)), "most saving": Decimal(repr(curve.best(ratio)))}
    for name, level in levels.items():
        whole = _whole_instances(level, covered[0][0]) if instrument.option is PurchaseOption.RESERVED else level
        if whole > 0 and ratio < 1:
            yield _option(
                instrument, years, payment, catalog, name=name, level=whole, ratio=ratio, origin=origin, curve=curve
            )


def _whole_instances(level: Decimal, load: Load) -> Decimal:
    """A level rounded down to full instances, because AWS sells reservations per instance."""
    return (level / load.usd_per_node_hour).to_integral_value(ROUND_FLOOR) * load.usd_per_node_hour


def _rate(load: Load, instrument: _Instrument, years: int, payment: Payment, catalog: Catalog) -> Price | None:
    """The committed rate of a load's instances; None if this rate or the on-demand rate is unknown."""
    place = Place(
        target=load.target,
        instance_type=load.instance_type,
        nodes=1,
        region=load.region,
        az_id=None,
        option=instrument.option,
        plan_kind=instrument.kind,
        term_years=years,
    )
    key = price_key(place, payment)
    price = catalog.price(key) if isinstance(key, Key) else key
    return price if isinstance(price, Price) and load.usd_per_hour else None


def _option(
    instrument: _Instrument,
    years: int,
    payment: Payment,
    catalog: Catalog,
    *,
    name: str,
    level: Decimal,
    ratio: float,
    origin: Price,
    curve: Demand,
) -> CommitmentOption:
    hours = HOURS_A_YEAR * years
    usd_per_hour = (level * Decimal(repr(ratio))).quantize(CENT)
    used = curve.mean_used(float(level))
    saving = Decimal(repr((used - float(level) * ratio) * hours)).quantize(Decimal(1))
    total = usd_per_hour * hours
    marks = sorted({0.0, curve.floor / 2, curve.floor, curve.mean, curve.best(ratio), max(curve.shares)})
    return CommitmentOption(
        instrument=f"{instrument.kind.value} savings plan" if instrument.kind else instrument.option.value,
        covers=instrument.covers,
        term_years=years,
        payment=payment,
        level=name,
        usd_per_hour=usd_per_hour,
        covers_usd_per_hour=level.quantize(CENT),
        commitment_usd=total.quantize(Decimal(1)),
        saving_usd=saving,
        utilisation=used / float(level),
        break_even=ratio,
        risks=tuple(_risks(instrument, total, catalog)),
        command=_command(instrument, years, payment, usd_per_hour, level),
        source=origin.source,
        basis=origin.basis,
        as_of=origin.as_of,
        marginal=tuple(
            Marginal(
                usd_per_hour=Decimal(repr(mark * ratio)).quantize(CENT),
                value=Decimal(repr(curve.above(mark) / ratio - 1)).quantize(CENT),
            )
            for mark in marks
        ),
    )


def _risks(instrument: _Instrument, total: Decimal, catalog: Catalog) -> Iterator[str]:
    """The money lost if prices fall, or the next generation arrives, halfway through the term."""
    half = total / 2
    cut = max(catalog.price_cut(load.instance_type) for load in instrument.loads)
    yield f"a price cut of {cut:.0%} halfway through (as in June 2025) strands ${half * cut:,.0f}"
    if instrument.kind not in MOVES:
        yield f"a move to the next generation halfway through strands ${half:,.0f}: it is bound to {instrument.covers}"
    yield "it is paid every hour of the term, used or not, and cannot be sold back"


def _command(instrument: _Instrument, years: int, payment: Payment, usd_per_hour: Decimal, level: Decimal) -> str:
    """The commands that find the offering and buy it; the user runs them after checking the console."""
    payments = {
        Payment.NO_UPFRONT: "No Upfront",
        Payment.PARTIAL_UPFRONT: "Partial Upfront",
        Payment.ALL_UPFRONT: "All Upfront",
    }
    seconds = 365 * 24 * 3600 * years
    if instrument.option is PurchaseOption.RESERVED:
        load = instrument.loads[0]
        count = level / load.usd_per_node_hour
        return (
            f"{CONSOLE[False]}; or aws ec2 describe-reserved-instances-offerings --region {load.region} "
            f"--instance-type {load.instance_type} --offering-class standard --min-duration {seconds} "
            f"--max-duration {seconds} "
            f"--offering-type '{payments[payment]}' --no-include-marketplace, then aws ec2 "
            f"purchase-reserved-instances-offering --region {load.region} --instance-count {count:.0f} "
            "--reserved-instances-offering-id ID"
        )
    kinds = {
        SavingsPlanKind.COMPUTE: "Compute",
        SavingsPlanKind.EC2_INSTANCE: "EC2Instance",
        SavingsPlanKind.SAGEMAKER: "SageMaker",
    }
    kind = kinds[instrument.kind or SavingsPlanKind.COMPUTE]
    return (
        f"{CONSOLE[True]}; or aws savingsplans describe-savings-plans-offerings --plan-types {kind} "
        f"--durations {seconds} --payment-options '{payments[payment]}', then aws savingsplans create-savings-plan "
        f"--commitment {usd_per_hour} "
        "--savings-plan-offering-id ID"
    )
