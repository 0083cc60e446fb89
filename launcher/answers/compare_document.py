"""The options of one job or endpoint and the verdict as JSON: `slipway compare --json`, slipway.compare/1."""

from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from launcher.model.enums import PurchaseOption, SavingsPlanKind, TargetKind
from launcher.model.finding import Finding
from launcher.model.money import Price, UsdRange
from launcher.pricing.port import Path, Port
from launcher.pricing.reasoning import PortWeeks
from launcher.pricing.serving.crossover import Turn, usd_per_request
from launcher.pricing.verdict import Verdict
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object
from launcher.records.quote_document import CandidateObject
from launcher.workflow.quote.compare import Comparison
from launcher.workflow.quote.compare_serving import Crossover, ServingComparison


@json_object
class PairObject:
    """Both sides under one purchase option, by their short ids, with the chance that Trainium is cheaper."""

    option: str
    allowed: bool
    gpu: str | None
    trainium: str | None
    chance_trainium_cheaper: float | None


@json_object
class PortObject:
    """The port to Trainium: its cost, and when it is paid back."""

    gpu: CandidateObject | None
    trainium: CandidateObject | None
    runs: int
    runs_per_month: float
    port_weeks: PortWeeks
    port_weeks_source: str
    port_usd: Decimal
    upkeep_usd_per_month: Decimal
    saving_per_run_usd: UsdRange
    break_even_run: int | None
    break_even_date: date | None
    paid_back_within_runs: bool
    saving_total_usd: Decimal
    paths: tuple[Path, ...]


@json_object
class CrossoverObject:
    """An instance, and the share of its hours it has to be full for, to cost what Bedrock does."""

    rank: int
    target: TargetKind
    instance_type: str
    region: str
    purchase_option: PurchaseOption
    plan_kind: SavingsPlanKind | None
    term_years: int | None
    usd_per_hour: Decimal | None
    tokens_per_s: float | None
    measured: bool | None
    crossover_utilisation: float | None

    @classmethod
    def of(cls, crossover: Crossover) -> "CrossoverObject":
        """The object of a crossover."""
        place, price = crossover.candidate.place, crossover.candidate.offer.price
        estimate = crossover.candidate.estimate
        return fill_record(
            cls,
            place,
            rank=crossover.rank,
            purchase_option=place.option,
            usd_per_hour=price.usd if isinstance(price, Price) else None,
            tokens_per_s=estimate.tokens_per_s.mid if estimate else None,
            measured=estimate.measured if estimate else None,
            crossover_utilisation=crossover.utilisation,
        )


@json_object
class ServedObject:
    """Where instances cost as much as Bedrock, and the effect of the port."""

    bedrock: CandidateObject | None
    neuron: CandidateObject | None
    gpu: CandidateObject | None
    bedrock_usd_per_request: Decimal | None
    requests_per_month: float | None
    requests_per_month_range: Turn | None
    machines: tuple[CrossoverObject, ...]
    port_weeks: float
    port_usd: Decimal
    operations_usd_per_month: Decimal
    operations_assumed: bool
    port_paid_back_after_months: float | None
    port_paid_back_over_gpu_after_months: float | None
    port_paid_back_over_bedrock_after_months: float | None


@json_object
class CompareDocument:
    """The options, and the verdict; `break_even` is null where there is nothing to compare."""

    schema: Literal["slipway.compare/1"] = "slipway.compare/1"
    name: str
    as_of: datetime
    verdict: Verdict
    pairs: tuple[PairObject, ...]
    options: tuple[CandidateObject, ...]
    break_even: PortObject | ServedObject | None
    findings: tuple[Finding, ...]


def document(comparison: Comparison | ServingComparison) -> Json:
    """slipway.compare/1, of training or of serving."""
    types = comparison.priced.catalog.instance_types
    edge: PortObject | ServedObject | None
    if isinstance(comparison, Comparison):
        edge, pairs = None if comparison.port is None else _port(comparison, comparison.port), _pairs(comparison)
    else:
        edge, pairs = _served_object(comparison), ()
    return as_json(
        CompareDocument(
            name=comparison.request.name,
            as_of=comparison.priced.now,
            verdict=comparison.verdict,
            pairs=pairs,
            options=tuple(
                CandidateObject.of(quote, rank, types) for rank, quote in enumerate(comparison.priced.quotes, start=1)
            ),
            break_even=edge,
            findings=comparison.findings,
        )
    )


def _pairs(comparison: Comparison) -> tuple[PairObject, ...]:
    return tuple(
        fill_record(
            PairObject,
            pair,
            option=pair.name,
            gpu=None if pair.gpu is None else pair.gpu.short_id,
            trainium=None if pair.trainium is None else pair.trainium.short_id,
            chance_trainium_cheaper=pair.chance,
        )
        for pair in comparison.pairs
    )


def _port(comparison: Comparison, port: Port) -> PortObject:
    types = comparison.priced.catalog.instance_types
    return fill_record(
        PortObject,
        port,
        gpu=None if comparison.gpu is None else CandidateObject.of(comparison.gpu, 0, types),
        trainium=None if comparison.trainium is None else CandidateObject.of(comparison.trainium, 0, types),
        port_weeks=port.weeks,
        port_weeks_source=port.weeks.description,
        port_usd=port.usd,
        upkeep_usd_per_month=port.maintenance_usd_per_month,
        saving_per_run_usd=port.saving_per_run,
        break_even_date=port.break_even_on,
        paid_back_within_runs=port.pays,
        saving_total_usd=port.saving_usd,
    )


def _served_object(comparison: ServingComparison) -> ServedObject:
    sides, types, turn = comparison.sides, comparison.priced.catalog.instance_types, comparison.sides.turn
    hosted, neuron, gpu = (
        None if quote is None else CandidateObject.of(quote, 0, types)
        for quote in (sides.hosted, sides.neuron, sides.gpu)
    )
    return fill_record(
        ServedObject,
        sides,
        bedrock=hosted,
        neuron=neuron,
        gpu=gpu,
        bedrock_usd_per_request=usd_per_request(comparison.hosted_candidate),
        requests_per_month=turn.requests if turn else None,
        requests_per_month_range=turn,
        machines=tuple(CrossoverObject.of(crossover) for crossover in comparison.crossovers),
        operations_usd_per_month=sides.maintenance_usd,
        operations_assumed=not sides.maintenance_given,
        port_paid_back_after_months=sides.neuron_months,
        port_paid_back_over_gpu_after_months=sides.neuron_months_over_gpu,
        port_paid_back_over_bedrock_after_months=sides.neuron_months_over_bedrock,
    )
