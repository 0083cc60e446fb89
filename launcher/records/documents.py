"""The contract's JSON objects, from the model's values."""

from collections.abc import Mapping
from typing import Any

from launcher.agent.shape import amount, check_shape, read
from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.instance_type import InstanceType
from launcher.model.job import BillableTime
from launcher.model.money import Assumption, CostComponent, Price, Unpriced
from launcher.model.plan import SHORT_ID
from launcher.model.quote import Commitment, Gate, Quote, SpotOutlook
from launcher.model.report import Attempt, BudgetStop, Report, RunStatus, StoredCheckpoints
from launcher.model.run_cost import NO_RATES, RunCost, RunRates, run_cost
from launcher.model.serving import BedrockTerms, ServingOutlook
from launcher.records import endpoint_documents
from launcher.records.codec import Json, Keys, named, picked, plain
from launcher.records.run_folder import RunFolder

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
USED = "hours=actual_hours usd_at_quoted_rate usd_used usd_unused billable"
"""The used hours and dollars of a report."""
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


def report_document(report: Report) -> Json:
    """slipway.report/1."""
    keys = "started_at ended_at exit_code ended_by resumed_from_step last_step"
    return {
        "schema": "slipway.report/1",
        **picked(report, "name status scheduler simulated"),
        **stored_document(report.stored),
        "attempts": [picked(attempt, keys) for attempt in report.attempts],
        "quoted": picked(report, "usd=quoted_usd hours=quoted_hours usd_per_hour prices_as_of rates"),
        "actual": picked(report, USED),
        "left_up_usd_per_hour": plain(report.left_up_usd_per_hour),
        "stacks": named(report.stacks, "name", "status"),
        **picked(report, "verified_resources not_emulated"),
        "endpoint": endpoint_documents.endpoint(report.endpoint),
        "stopped": stopped_document(report.stopped),
    }


def stopped_document(budget_stop: BudgetStop | None) -> Json | None:
    """The stop of a job by the budget: the reason, the stored checkpoint, and the next step."""
    if budget_stop is None:
        return None
    return picked(budget_stop, "reason checkpoint_step next")


def stored_document(stored_checkpoints: StoredCheckpoints | None) -> Json:
    """The checkpoints that a job stored; null if it should store none."""
    return {
        "checkpoints_stored": stored_checkpoints.count if stored_checkpoints is not None else None,
        "layout": stored_checkpoints.layout if stored_checkpoints is not None else None,
        "checkpoint_troubles": list(stored_checkpoints.troubles) if stored_checkpoints is not None else [],
    }


def _stored(data: Mapping[str, Any]) -> StoredCheckpoints | None:
    """The checkpoints of a report; reports of earlier versions have none."""
    if data.get("checkpoints_stored") is None:
        return None
    return read(
        StoredCheckpoints,
        {"count": data["checkpoints_stored"], "layout": data["layout"], "troubles": data["checkpoint_troubles"]},
    )


_REPORT: dict[str, Any] = {
    "name": str,
    "status": str,
    "scheduler": str,
    "simulated": bool,
    "attempts": list,
    "quoted": {"usd": (str, None), "hours": float, "prices_as_of": (str, None), "usd_per_hour": (str, None)},
    "stacks": [{"name": str, "status": str}],
    "verified_resources": [str],
    "not_emulated": [str],
}


def parse_rates(rates: Any) -> RunRates:
    """The growth rates of a quote's lines, read back; quotes of endpoints and of earlier versions have none.

    Raises:
        ValueError: the rates have another form.
    """
    return NO_RATES if rates is None else read(RunRates, rates, "rates", whole=True)


_PRICED: dict[str, Any] = {"usd": ({"mid": str}, None), "usd_per_hour": (str, None), "hours": {"mid": float}}


def parse_cost(quote: Mapping[str, Any]) -> RunCost | None:
    """The cost of a run by a quote document; None without a total."""
    check_shape(quote, _PRICED)
    usd = None if quote["usd"] is None else amount(quote["usd"]["mid"])
    return run_cost(usd, quote["hours"]["mid"], amount(quote["usd_per_hour"]), parse_rates(quote.get("rates")))


def stored_report(folder: RunFolder) -> Report:
    """The report of a run.

    Raises:
        UnreadableInputError: the folder has no report, or the file is not a report.
    """
    document = folder.read_json("report.json")
    try:
        return parse_report(document)
    except UnreadableInputError as problem:
        raise UnreadableInputError(f"cannot read {folder.path / 'report.json'}: {problem.message}") from problem


def parse_report(document: Mapping[str, Any]) -> Report:
    """A report read back from its JSON.

    Raises:
        UnreadableInputError: the document is not a report.
    """
    try:
        check_shape(document, _REPORT)
        quoted, stopped = document["quoted"], document.get("stopped")
        return Report(
            name=document["name"],
            status=RunStatus(document["status"]),
            scheduler=document["scheduler"],
            simulated=document["simulated"],
            attempts=tuple(
                read(Attempt, attempt, f"attempts[{at}]") for at, attempt in enumerate(document["attempts"])
            ),
            quoted_usd=amount(quoted["usd"]),
            quoted_hours=quoted["hours"],
            prices_as_of=quoted["prices_as_of"],
            usd_per_hour=amount(quoted["usd_per_hour"]),
            stacks=tuple((stack["name"], stack["status"]) for stack in document["stacks"]),
            verified_resources=tuple(document["verified_resources"]),
            not_emulated=tuple(document["not_emulated"]),
            endpoint=endpoint_documents.parse_endpoint(document.get("endpoint")),
            stopped=None if stopped is None else read(BudgetStop, stopped, "stopped"),
            stored=_stored(document),
            rates=parse_rates(quoted.get("rates")),
            left_up_usd_per_hour=amount(document.get("left_up_usd_per_hour")),
            billable_time=_billable(document.get("actual")),
        )
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as problem:
        raise UnreadableInputError(f"this is not a report: {type(problem).__name__} {problem}") from problem


def _billable(actual: Mapping[str, Any] | None) -> BillableTime | None:
    """The billed time of a service, read back; reports of earlier versions have none."""
    billable = (actual or {}).get("billable")
    if billable is None:
        return None
    check_shape(billable, {"seconds": int, "trained_seconds": int})
    return BillableTime(trained_s=billable["trained_seconds"], billed_s=billable["seconds"])
