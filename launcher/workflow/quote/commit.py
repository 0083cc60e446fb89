"""The story of `commit`: what of a portfolio's demand is worth a commitment; nothing is bought."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path

from launcher.model.calendar import HOURS_PER_MONTH
from launcher.model.commitment_choice import CommitmentChoice, Load
from launcher.model.enums import PurchaseOption
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.pricing.commitment_choice import commitment_options, demand
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.portfolio import Member, portfolio

COVERED = (PurchaseOption.ON_DEMAND, PurchaseOption.SAVINGS_PLAN, PurchaseOption.RESERVED)
"""Ways of buying whose hours a commitment can pay for; it covers no spot, no Capacity Block and no training plan."""


def commit(paths: Sequence[Path], now: datetime, options: PriceOptions) -> CommitmentChoice:
    """What to commit to for several plans, each on its best option.

    Raises:
        UnreadableInputError: a file cannot be understood.
        ImpossibleError: one of them cannot be done, with the findings of all of them.
    """
    found = portfolio(paths, now, options)
    loads: list[Load] = []
    left_out: list[tuple[str, str]] = []
    for member in found.members:
        reason = _not_covered(member)
        if reason is None and member.choice is not None:
            loads += _loads(member, member.choice)
        else:
            left_out.append((member.name, reason or "no option of it has a price"))
    curve = demand((float(each.usd_per_hour), each.share) for each in loads)
    return CommitmentChoice(
        as_of=now,
        loads=tuple(loads),
        floor_usd_per_hour=Decimal(repr(curve.floor)),
        mean_usd_per_hour=Decimal(repr(curve.mean)),
        options=commitment_options(loads, found.members[0].priced.catalog) if loads else (),
        left_out=tuple(left_out),
    )


def _not_covered(member: Member) -> str | None:
    """Why no commitment covers a plan's machines; None where one does."""
    choice = member.choice
    if choice is None:
        return "no option of it has a price"
    option = choice.plan.place.option
    if option not in COVERED:
        return f"its best option is {option.value.replace('-', ' ')}, which no commitment covers"
    if _on_demand(member, choice) is None:
        return "its machines have no price on demand"
    return None


def _on_demand(member: Member, choice: Quote) -> Decimal | None:
    """What one of its machines costs an hour on demand, under the name that it is billed by."""
    candidates = (
        each
        for each in member.priced.candidates
        if each.place.option is PurchaseOption.ON_DEMAND
        and each.place.instance_type == choice.plan.place.instance_type
        and each.place.region == choice.plan.place.region
    )
    price = next((each.offer.price for each in candidates), choice.price)
    return price.usd if isinstance(price, Price) else None


def _loads(member: Member, choice: Quote) -> Iterator[Load]:
    """The machines that always run, and those that run a share of the time: a job's, or an endpoint's busy hours'."""
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
        share = choice.hours.mid * float(member.times_a_month) / HOURS_PER_MONTH
        parts.append((float(place.nodes), min(1.0, share)))
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
