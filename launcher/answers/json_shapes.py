"""Parts that several `--json` documents share, as shapes of their JSON Schemas."""

from datetime import date
from decimal import Decimal
from typing import Any

from launcher.answers import commit, compare, portfolio, serving_compare
from launcher.catalog.listing import PriceRow
from launcher.model.commitment_choice import CommitmentOption
from launcher.model.enums import Availability, Payment, TargetKind
from launcher.model.finding import Finding
from launcher.model.ledger import LedgerTotal
from launcher.model.measurement import Measurement
from launcher.model.money import Assumption, CostComponent, Price, Range
from launcher.model.plan import Place
from launcher.model.quote import Commitment, Gate, Quote, SpotOutlook
from launcher.model.serving import BedrockTerms, ServingEstimate, ServingOutlook
from launcher.model.training import TrainingEstimate
from launcher.model.verification import Verification, VerifiedLine
from launcher.pricing.held_commitments import HeldCommitment
from launcher.pricing.port import Port
from launcher.pricing.serving.verdict import Sides
from launcher.records.codec import Keys
from launcher.records.documents import ESTIMATE, FORMS
from launcher.records.json_schema import Shape, Some, picked_shape

ALL_FORMS: Keys = {**FORMS, HeldCommitment: portfolio.COMMITMENT_KEYS}
TEXT, NUMBER = (str | None), (float | None)


def named_shape(*names: str) -> list[Shape]:
    """The shape of `codec.named`."""
    return [dict.fromkeys(names, str)]


CANDIDATE: Shape = {
    **dict.fromkeys(("rank", "accelerators", "nodes"), int),
    **dict.fromkeys(("digest", "id"), str),
    "target": TargetKind | None,
    **dict.fromkeys(("instance_type", "accelerator"), TEXT),
    **picked_shape(Place, "region az_id purchase_option=option plan_kind term_years"),
    "payment": Payment | None,
    **picked_shape(Quote, "usd_per_hour hours hours_to_first_step billed_hours usd commitment_usd incomplete"),
    "unpriced": TEXT,
    "unverified": Price | None,
    "availability": Availability,
    "price": (Some(picked_shape(Price, FORMS[Price]), {"range": {"low": Decimal, "high": Decimal}}), None),
    "training": (
        {**picked_shape(TrainingEstimate, "tokens_per_s mfu steady_hours"), "expected_hours": Range},
        None,
    ),
    "spot": SpotOutlook | None,
    "serving": (
        {
            **picked_shape(ServingOutlook, "tokens_per_s utilisation usd_per_month usd_per_million_output_tokens"),
            **picked_shape(ServingOutlook, "ttft_ms tpot_ms usd_per_million_tokens requests_per_month"),
            **picked_shape(ServingOutlook, "idle_usd_per_month"),
            **{key: (hint, None) for key, hint in picked_shape(ServingEstimate, ESTIMATE).items()},
            **picked_shape(ServingOutlook, "instances"),
            "bedrock": ({**picked_shape(BedrockTerms, FORMS[BedrockTerms]), "same_weights": TEXT}, None),
        },
        None,
    ),
    "commitment": Commitment | None,
    "gate": Gate,
    "findings": [Finding],
}
VERIFIED = {
    **picked_shape(Verification, "rate_type holds quoted_usd aws_usd"),
    "apart": NUMBER,
    "lines": [{**picked_shape(VerifiedLine, "names quoted_usd aws_usd difference_usd"), "reason": TEXT}],
}
QUOTE = {
    **CANDIDATE,
    "components": [CostComponent],
    "assumptions": [Assumption],
    **picked_shape(Quote, "policies cash_usd cash_after_credits_usd left_up_usd_per_hour rates expires_at"),
    **picked_shape(Quote, "overrun_probability range_causes"),
}
PORTED: Shape = {
    **dict.fromkeys(("gpu", "trainium"), (CANDIDATE, None)),
    **picked_shape(Port, "runs runs_per_month"),
    "port_weeks": dict.fromkeys(("low", "mid", "high"), float),
    **picked_shape(Port, compare.PORT),
}
SERVED: Shape = {
    **dict.fromkeys(("bedrock", "neuron", "gpu"), (CANDIDATE, None)),
    "bedrock_usd_per_request": Decimal | None,
    "requests_per_month": NUMBER,
    "requests_per_month_range": (dict.fromkeys(("low", "high"), NUMBER), None),
    "machines": [
        {
            "rank": int,
            **picked_shape(Place, "target instance_type region purchase_option=option plan_kind term_years"),
            "usd_per_hour": Decimal | None,
            "tokens_per_s": NUMBER,
            "measured": bool | None,
            "crossover_utilisation": NUMBER,
        }
    ],
    **picked_shape(Sides, "port_weeks port_usd operations_usd_per_month=maintenance_usd"),
    "operations_assumed": bool,
    **picked_shape(Sides, serving_compare.PAID_BACK),
}
TOTAL: Shape = {**picked_shape(LedgerTotal, " ".join(LedgerTotal.__dataclass_fields__)), "key": TEXT}
OPTION: Shape = {
    **picked_shape(CommitmentOption, commit.OPTION),
    "marginal": [{"usd_per_hour": Decimal, "value": Decimal}],
}
KEY: Shape = {
    **dict.fromkeys(("kind", "region"), str),
    **dict.fromkeys(("instance_type", "item", "az_id", "payment"), TEXT),
    **dict.fromkeys(("offering_class", "plan_kind", "component", "statistic", "tier"), TEXT),
    "term_years": int | None,
}
MOVE: Shape = {**KEY, "usd_before": Decimal, "before_as_of": date, "usd_after": Decimal | None, "percent": NUMBER}
SIDE = (picked_shape(PriceRow, "usd as_of basis source"), None)
MEASURED: Shape = {
    **picked_shape(Measurement, " ".join(Measurement.__dataclass_fields__)),
    "parallelism": dict[str, Any] | None,
    "software": dict[str, Any],
}
STORE: Shape = {"name": str, "uri": str}
RATIO: Shape = {"quoted": Range | None, "measured": NUMBER, "ratio": NUMBER, "covered": bool | None}
