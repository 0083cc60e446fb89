"""The `commit` command: it computes the part of a portfolio's demand that justifies a commitment; it buys nothing."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from launcher.model.commitment_choice import LISTED, CommitmentChoice, CommitmentOption, Load
from launcher.model.enums import Basis, PurchaseOption
from launcher.model.finding import Finding, warning
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.model.units import HOURS_PER_MONTH, number_of
from launcher.pricing.ages import ALLOWED_DAYS
from launcher.pricing.commitment_choice import commitment_options, demand
from launcher.pricing.held_commitments import used_hours
from launcher.workflow.quote.commands import CHANGES
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.portfolio import Member, portfolio

COVERED = (PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED)
"""The purchase options whose hours a commitment can pay for; not spot, Capacity Blocks or training plans."""


def commit(
    paths: Sequence[Path], now: datetime, options: PriceOptions, *, accept_derived: bool = False
) -> CommitmentChoice:
    """The best commitments for several plans, each plan on its best option.

    `accept_derived` allows commitments at rates that AWS did not list.

    Raises:
        ImpossibleError: a plan is impossible; the error has the findings of all plans.
    """
    priced_portfolio = portfolio(paths, now, options)
    loads: list[Load] = []
    left_out: list[tuple[str, str]] = []
    for member in priced_portfolio.members:
        reason = _not_covered(member)
        if reason is None and member.choice is not None:
            loads += _loads(member, member.choice)
        else:
            left_out.append((member.name, reason or "no option of it has a price"))
    curve = demand((float(load.usd_per_hour), load.share) for load in loads)
    found_options = commitment_options(loads, priced_portfolio.members[0].priced.catalog) if loads else ()
    return CommitmentChoice(
        as_of=now,
        loads=tuple(loads),
        floor_usd_per_hour=Decimal(repr(curve.floor)),
        mean_usd_per_hour=Decimal(repr(curve.mean)),
        options=found_options,
        left_out=tuple(left_out),
        accept_derived=accept_derived,
        findings=tuple(_rate_findings(found_options, now, options.max_price_age)),
    )


def _rate_findings(options: Sequence[CommitmentOption], now: datetime, most_days: int | None) -> Iterator[Finding]:
    allowed = ALLOWED_DAYS[PurchaseOption.SAVINGS_PLAN] if most_days is None else most_days
    ages = {option: (now.date() - option.as_of).days for option in options if option.basis is not Basis.USER}
    old = [option for option, days in ages.items() if days > allowed]
    if old:
        oldest = min(old, key=lambda option: option.as_of)
        count = f"{len(old)} of {number_of(len(options), 'option')}"
        message = f"{count} use rates older than {allowed} days, the oldest of {oldest.as_of}"
        yield warning("old-price", "", message, f"{CHANGES.refresh} reads current ones")
    derived = [option for option in options if option.basis not in LISTED]
    if derived:
        message = f"{len(derived)} of {number_of(len(options), 'option')} use derived rates: {derived[0].source}"
        yield warning("derived-rate", "", message, "slipway prices refresh, or --accept-derived to choose among them")


def _not_covered(member: Member) -> str | None:
    choice = member.choice
    if choice is None:
        return "no option of it has a price"
    option = choice.plan.place.option
    if option not in COVERED:
        return f"its best option is {option.value.replace('-', ' ')}, which no commitment covers"
    if _on_demand(member, choice) is None:
        return "its instances have no on-demand price"
    return None


def _on_demand(member: Member, choice: Quote) -> Decimal | None:
    candidates = (
        candidate
        for candidate in member.priced.candidates
        if candidate.place.option is PurchaseOption.ON_DEMAND
        and candidate.place.instance_type == choice.plan.place.instance_type
        and candidate.place.region == choice.plan.place.region
    )
    price = next((candidate.offer.price for candidate in candidates), choice.price)
    return price.usd if isinstance(price, Price) else None


def _loads(member: Member, choice: Quote) -> Iterator[Load]:
    """The nodes that always run, and the nodes that run for a share of the time.

    A job's runs use complete sets of its nodes, for the billed hours; an endpoint has its busy hours.
    """
    place, usd = choice.plan.place, _on_demand(member, choice) or Decimal(0)
    facts = member.priced.catalog.instance_types[place.instance_type]
    parts: list[tuple[float, float]] = []
    train = member.priced.request.workload.train
    instances = choice.serving.instances if choice.serving is not None else None
    if instances is not None:
        parts.append((float(instances.least), 1.0))
        more = instances.most - instances.least
        parts.append((more, (instances.mean - instances.least) / more if more else 0.0))
    else:
        sets = used_hours(choice) / place.nodes * float(member.times_a_month) / HOURS_PER_MONTH
        always, sometimes = int(sets), sets - int(sets)
        parts += [(float(place.nodes * always), 1.0), (float(place.nodes), sometimes)]
    for nodes, share in parts:
        if nodes > 0 and share > 0:
            yield Load(
                plan=member.name,
                instance_type=place.instance_type,
                family=facts.family,
                region=place.region,
                target=place.target,
                nodes=nodes,
                usd_per_hour=usd * Decimal(repr(nodes)),
                share=share,
                months=float(train.runs / train.runs_per_month) if train is not None else None,
            )
