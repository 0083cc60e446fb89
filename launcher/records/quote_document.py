"""slipway.quote/1, and the candidate of every document that lists some."""

from collections.abc import Mapping
from dataclasses import field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, Self

from launcher.model.bedrock import BedrockTerms
from launcher.model.enums import (
    Availability,
    Basis,
    BedrockMode,
    Payment,
    PurchaseOption,
    SavingsPlanKind,
    TargetKind,
)
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.machine_image import MachineImage
from launcher.model.money import Assumption, CostComponent, Price, Range, Unpriced, UsdRange
from launcher.model.quote import Commitment, Gate, Policy, Quote, SpotOutlook
from launcher.model.range_causes import RangeCauses
from launcher.model.run_cost import RunRates
from launcher.model.serving import Instances, ServingOutlook
from launcher.model.training import TrainingEstimate
from launcher.model.verification import Verification, VerifiedLine
from launcher.records.codec import Json, as_json
from launcher.records.document import OMITTED, by_identity, fill_record, json_object


@json_object(of=Price)
class UnverifiedPrice:
    """A known price that prices nothing, next to the reason."""

    usd_per_hour: Decimal
    source: str
    basis: Basis
    as_of: date
    note: str


@json_object
class UsdSpan:
    """The range of the spot price while the job runs."""

    low: Decimal
    high: Decimal


@json_object
class HourlyPrice:
    """The price of one instance."""

    usd_per_hour: Decimal
    source: str
    basis: Basis
    as_of: date
    note: str
    range: UsdSpan | None = field(default=None, metadata=OMITTED)


@json_object
class QuotedTraining:
    """The time estimate; expected hours include failures and spot interruptions."""

    tokens_per_s: Range
    mfu: Range
    steady_hours: Range
    expected_hours: Range


@json_object
class QuotedBedrock:
    """The terms of a model that Bedrock serves."""

    model_id: str
    inference_id: str
    profile: str
    mode: BedrockMode
    same_weights: str | None
    input_usd_per_million_tokens: Decimal | None
    output_usd_per_million_tokens: Decimal | None
    cached_usd_per_million_tokens: Decimal | None

    @classmethod
    def of(cls, terms: BedrockTerms) -> "QuotedBedrock":
        """The object of the terms."""
        return fill_record(
            cls,
            terms,
            same_weights=terms.same_weights or None,
            input_usd_per_million_tokens=terms.input_usd_per_million,
            output_usd_per_million_tokens=terms.output_usd_per_million,
            cached_usd_per_million_tokens=terms.cached_usd_per_million,
        )


@json_object
class QuotedServing:
    """A month of serving; the keys of the estimate are null on Bedrock."""

    tokens_per_s: float | None
    utilisation: float | None
    usd_per_month: UsdRange | None
    usd_per_million_output_tokens: Decimal | None
    ttft_ms: float | None
    tpot_ms: float | None
    usd_per_million_tokens: Decimal | None
    requests_per_month: float
    idle_usd_per_month: Decimal | None
    tokens_per_s_range: Range | None
    measured: bool | None
    basis: str | None
    source: str | None
    tensor_parallel: int | None
    copies_per_instance: int | None
    batch_size: int | None
    sequence_length: int | None
    instances: Instances | None
    bedrock: QuotedBedrock | None

    @classmethod
    def of(cls, outlook: ServingOutlook) -> "QuotedServing":
        """The object of an outlook."""
        estimate, layout = outlook.estimate, None if outlook.estimate is None else outlook.estimate.layout
        return fill_record(
            cls,
            outlook,
            tokens_per_s_range=None if estimate is None else estimate.tokens_per_s,
            measured=None if estimate is None else estimate.measured,
            basis=None if estimate is None else estimate.basis,
            source=None if estimate is None else estimate.source or None,
            tensor_parallel=None if layout is None else layout.tensor_parallel,
            copies_per_instance=None if layout is None else layout.copies,
            batch_size=None if layout is None else layout.batch,
            sequence_length=None if layout is None else layout.sequence,
            bedrock=None if outlook.bedrock is None else QuotedBedrock.of(outlook.bedrock),
        )


@json_object
class CandidateObject:
    """One candidate of a plan; what a candidate does not have is null."""

    rank: int
    digest: str
    id: str
    target: TargetKind | None
    instance_type: str | None
    accelerator: str | None
    accelerators: int
    nodes: int
    region: str
    az_id: str | None
    purchase_option: PurchaseOption
    plan_kind: SavingsPlanKind | None
    term_years: int | None
    payment: Payment | None
    usd_per_hour: Decimal | None
    hours: Range
    hours_to_first_step: float | None
    billed_hours: float
    usd: UsdRange | None
    commitment_usd: Decimal | None
    incomplete: bool
    unpriced: str | None
    unverified: UnverifiedPrice | None
    availability: Availability
    price: HourlyPrice | None
    training: QuotedTraining | None
    spot: SpotOutlook | None
    serving: QuotedServing | None
    commitment: Commitment | None
    gate: Gate
    findings: tuple[Finding, ...]

    @classmethod
    def of(cls, quoted: Quote, rank: int, types: Mapping[str, InstanceType], **more: Any) -> Self:
        """The object of a quote; rank 0 for one outside of a list."""
        return fill_record(cls, quoted, **candidate_values(quoted, rank, types), **more)


def candidate_values(quoted: Quote, rank: int, types: Mapping[str, InstanceType]) -> dict[str, Any]:
    """The values in a candidate's object that a quote has under other names."""
    place, facts = quoted.plan.place, types.get(quoted.plan.place.instance_type)
    unverified = quoted.price.unverified if isinstance(quoted.price, Unpriced) else None
    return {
        "rank": rank,
        "id": quoted.short_id,
        "target": place.target if facts else None,
        "instance_type": place.instance_type or None,
        "accelerator": facts.accelerator if facts else None,
        "accelerators": facts.accelerators * place.nodes if facts else 0,
        "nodes": place.nodes if facts else 0,
        "region": place.region,
        "az_id": place.az_id,
        "purchase_option": place.option,
        "plan_kind": place.plan_kind,
        "term_years": place.term_years,
        "payment": quoted.plan.request.purchase.payment if place.term_years is not None else None,
        "unpriced": quoted.no_price_reason,
        "unverified": None
        if unverified is None
        else fill_record(UnverifiedPrice, unverified, usd_per_hour=unverified.usd),
        "price": _price(quoted.price, quoted.price_range) if isinstance(quoted.price, Price) else None,
        "training": _training(quoted),
        "serving": None if quoted.serving is None else QuotedServing.of(quoted.serving),
    }


def _price(price: Price, spread: UsdRange | None) -> HourlyPrice:
    return _hourly(price) if spread is None else _hourly_within(price, fill_record(UsdSpan, spread))


@by_identity
def _hourly(price: Price) -> HourlyPrice:
    return _hourly_within(price, None)


def _hourly_within(price: Price, span: UsdSpan | None) -> HourlyPrice:
    return fill_record(HourlyPrice, price, usd_per_hour=price.usd, range=span)


def _training(quoted: Quote) -> QuotedTraining | None:
    training = quoted.work.training if quoted.work is not None else None
    return None if training is None else _quoted_training(training, quoted.hours)


@by_identity
def _quoted_training(training: TrainingEstimate, hours: Range) -> QuotedTraining:
    return fill_record(QuotedTraining, training, expected_hours=hours)


@json_object
class VerificationObject:
    """The result of AWS's calculator: all lines, and the totals of the compared ones."""

    rate_type: str
    holds: bool
    apart: float | None
    quoted_usd: Decimal
    aws_usd: Decimal
    lines: tuple[VerifiedLine, ...]

    @classmethod
    def of(cls, verification: Verification) -> "VerificationObject":
        """The object of a verification."""
        return fill_record(
            cls,
            verification,
            apart=None if verification.apart is None else float(verification.apart),
        )


@json_object
class QuoteDocument(CandidateObject):
    """A candidate with every line, assumption and policy.

    Only `slipway quote --verify-with-aws` writes `verified`, and `image` also a launch, for nodes with an image of AWS.
    `max_usd` is the limit of `--max-usd`.
    """

    schema: Literal["slipway.quote/1"] = "slipway.quote/1"
    components: tuple[CostComponent, ...]
    assumptions: tuple[Assumption, ...]
    policies: tuple[Policy, ...]
    cash_usd: Decimal | None
    cash_after_credits_usd: Decimal | None
    left_up_usd_per_hour: Decimal | None
    overhead_usd: Decimal | None
    rates: RunRates | None
    expires_at: datetime | None
    overrun_probability: float | None
    range_causes: RangeCauses | None
    max_usd: Decimal | None = field(default=None, metadata=OMITTED)
    image: MachineImage | None = field(default=None, metadata=OMITTED)
    verified: VerificationObject | None = field(default=None, metadata=OMITTED)


def image_object(image: MachineImage) -> Json:
    """The image in a quote."""
    return as_json(image)


def quote_document(
    quoted: Quote, rank: int, types: Mapping[str, InstanceType], verified: Verification | None = None
) -> Json:
    """slipway.quote/1."""
    checked = None if verified is None else VerificationObject.of(verified)
    return as_json(QuoteDocument.of(quoted, rank, types, verified=checked))


def candidate(quoted: Quote, rank: int, types: Mapping[str, InstanceType]) -> Json:
    """One candidate of a plan."""
    return as_json(CandidateObject.of(quoted, rank, types))
