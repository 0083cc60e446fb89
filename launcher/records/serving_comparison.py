"""slipway.compare/1 of a serving plan: the options, the crossovers, and the verdict."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.money import Price
from launcher.model.quote import Quote
from launcher.pricing.serving.candidate import ServingCandidate
from launcher.pricing.serving.verdict import ServingVerdict, Sides
from launcher.records.comparison import compared
from launcher.records.documents import Json, candidate, finding, money


def serving_comparison_document(
    *,
    name: str,
    now: datetime,
    verdict: ServingVerdict,
    quotes: Sequence[Quote],
    found: Sides,
    crossovers: Sequence[tuple[int, ServingCandidate, float | None]],
    usd_per_request: Decimal | None,
    findings: Sequence[Finding],
    types: Mapping[str, InstanceType],
) -> Json:
    """The object of the contract; `crossovers` are rank, candidate and crossover utilisation."""
    return {
        **compared(name, now, verdict, quotes, types),
        "break_even": {
            "bedrock": None if found.hosted is None else candidate(found.hosted, 0, types),
            "neuron": None if found.neuron is None else candidate(found.neuron, 0, types),
            "gpu": None if found.gpu is None else candidate(found.gpu, 0, types),
            "bedrock_usd_per_request": money(usd_per_request),
            "requests_per_month": found.turn.requests if found.turn else None,
            "requests_per_month_range": {"low": found.turn.low, "high": found.turn.high} if found.turn else None,
            "machines": [_machine(*each) for each in crossovers],
            "port_weeks": found.port_weeks,
            "port_usd": money(found.port_usd),
            "operations_usd_per_month": money(found.upkeep_usd),
            "operations_assumed": not found.upkeep_given,
            "port_paid_back_after_months": found.neuron_months,
            "port_paid_back_over_gpu_after_months": found.neuron_months_over_gpu,
            "port_paid_back_over_bedrock_after_months": found.neuron_months_over_bedrock,
        },
        "findings": [finding(each) for each in findings],
    }


def _machine(rank: int, candidate: ServingCandidate, share: float | None) -> Json:
    """Where one candidate costs what Bedrock does."""
    place, price = candidate.place, candidate.offer.price
    return {
        "rank": rank,
        "target": place.target.value,
        "instance_type": place.instance_type,
        "region": place.region,
        "purchase_option": place.option.value,
        "plan_kind": place.plan_kind.value if place.plan_kind else None,
        "term_years": place.term_years,
        "usd_per_hour": money(price.usd) if isinstance(price, Price) else None,
        "tokens_per_s": candidate.estimate.tokens_per_s.mid if candidate.estimate else None,
        "measured": candidate.estimate.measured if candidate.estimate else None,
        "crossover_utilisation": share,
    }
