"""The contract's JSON objects, from the model's values."""

from collections.abc import Mapping

from launcher.model.errors import SlipwayError
from launcher.model.instance_type import InstanceType
from launcher.model.money import Assumption, CostComponent, Price, Unpriced
from launcher.model.plan import SHORT_ID
from launcher.model.quote import Commitment, Gate, Quote, SpotOutlook
from launcher.model.serving import BedrockTerms, ServingOutlook
from launcher.records.codec import Json, Keys, picked, plain

FORMS: Keys = {
    Assumption: "name value unit source",
    BedrockTerms: "model_id inference_id profile mode same_weights input_usd_per_million_tokens=input_usd_per_million "
    "output_usd_per_million_tokens=output_usd_per_million cached_usd_per_million_tokens=cached_usd_per_million",
    Commitment: "break_even_utilisation utilisation price_cut stranded_usd new_generation_usd",
    CostComponent: "name group unit quantity unit_price_usd usd unpriced source basis as_of",
    Gate: "verdict exit_code reason hint",
    Price: "usd_per_hour=usd source basis as_of note",
    SpotOutlook: "interruptions_expected checkpoint_interval_s overhead_fraction break_even_interruptions_per_hour "
    "usd_p90",
}
"""The keys of the objects of a quote."""
ESTIMATE = (
    "tokens_per_s_range=tokens_per_s measured basis source tensor_parallel=layout.tensor_parallel "
    "copies_per_instance=layout.copies batch_size=layout.batch sequence_length=layout.sequence"
)


def quote_document(quoted: Quote, rank: int, types: Mapping[str, InstanceType]) -> Json:
    """slipway.quote/1: a candidate with every line, assumption and policy."""
    return {
        "schema": "slipway.quote/1",
        **candidate(quoted, rank, types),
        "components": plain(quoted.components, FORMS),
        "assumptions": plain(quoted.assumptions, FORMS),
        **picked(
            quoted, "policies cash_usd cash_after_credits_usd left_up_usd_per_hour rates expires_at overrun_probability"
        ),
        **picked(quoted, "range_causes"),
    }


def candidate(quoted: Quote, rank: int, types: Mapping[str, InstanceType]) -> Json:
    """One candidate of a plan."""
    place, facts = quoted.plan.place, types.get(quoted.plan.place.instance_type)
    commitment = place.term_years is not None
    return {
        "rank": rank,
        "digest": quoted.digest,
        "id": quoted.digest[:SHORT_ID],
        "target": place.target.value if facts else None,
        "instance_type": place.instance_type or None,
        "accelerator": facts.accelerator if facts else None,
        "accelerators": facts.accelerators * place.nodes if facts else 0,
        "nodes": place.nodes if facts else 0,
        **picked(place, "region az_id purchase_option=option plan_kind term_years"),
        "payment": quoted.plan.request.purchase.payment.value if commitment else None,
        **picked(quoted, "usd_per_hour hours hours_to_first_step billed_hours usd commitment_usd incomplete"),
        "unpriced": quoted.unpriced,
        # A known price that prices nothing, next to the reason.
        "unverified": plain(quoted.price.unverified, FORMS) if isinstance(quoted.price, Unpriced) else None,
        "availability": quoted.availability.value,
        "price": _price(quoted),
        "training": _training(quoted),
        "spot": plain(quoted.spot, FORMS),
        "serving": _serving(quoted.serving),
        "commitment": plain(quoted.commitment, FORMS),
        "gate": plain(quoted.gate, FORMS),
        "findings": plain(quoted.findings),
    }


def _price(quoted: Quote) -> Json | None:
    if not isinstance(quoted.price, Price):
        return None
    spread = quoted.price_range
    return {**plain(quoted.price, FORMS), **({} if spread is None else {"range": picked(spread, "low high")})}


def _training(quoted: Quote) -> Json | None:
    """The time estimate; expected hours include failures and spot interruptions."""
    training = quoted.work.training if quoted.work is not None else None
    if training is None:
        return None
    return {**picked(training, "tokens_per_s mfu steady_hours"), "expected_hours": plain(quoted.hours)}


def _serving(outlook: ServingOutlook | None) -> Json | None:
    if outlook is None:
        return None
    estimate, bedrock = outlook.estimate, outlook.bedrock
    rests = dict.fromkeys(key.partition("=")[0] for key in ESTIMATE.split())
    if estimate is not None:
        rests = picked(estimate, ESTIMATE) | {"source": estimate.source or None}
    return {
        **picked(outlook, "tokens_per_s utilisation usd_per_month usd_per_million_output_tokens ttft_ms tpot_ms"),
        **picked(outlook, "usd_per_million_tokens requests_per_month idle_usd_per_month"),
        **rests,
        "instances": plain(outlook.instances),
        "bedrock": None if bedrock is None else {**plain(bedrock, FORMS), "same_weights": bedrock.same_weights or None},
    }


def error_document(problem: SlipwayError) -> Json:
    """slipway.error/1; `line` and `column` of a finding are its path's position in the plan file, null if unknown."""
    return {"schema": "slipway.error/1", **picked(problem, "exit_code message hint findings")}
