"""The JSON objects of the contract, from the model's values."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from launcher.model.errors import SlipwayError, UnreadableInputError
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.money import CostComponent, Price, Range, Unpriced, UsdRange
from launcher.model.quote import Gate, Quote
from launcher.model.report import Attempt, BudgetStop, Report, RunStatus
from launcher.pricing.alternatives import Alternative
from launcher.records import endpoint_documents
from launcher.records.serving_documents import serving
from launcher.records.shape import amount, hold, moment

Json = dict[str, Any]


def plan_document(
    *,
    name: str,
    now: datetime,
    considered: int,
    quotes: Iterable[Quote],
    findings: Sequence[Finding],
    types: Mapping[str, InstanceType],
    next_command: str,
    alternatives: Sequence[Alternative] = (),
) -> Json:
    """slipway.plan/1: all candidates shown, best first; `alternatives` are priced and not deployed."""
    return {
        "schema": "slipway.plan/1",
        "name": name,
        "as_of": now.isoformat(),
        "considered": considered,
        "candidates": [candidate(each, rank, types) for rank, each in enumerate(quotes, start=1)],
        "findings": [finding(each) for each in findings],
        "next": next_command,
        "alternatives": [_alternative(each) for each in alternatives],
    }


def _alternative(each: Alternative) -> Json:
    """A way to run the job that this version does not deploy."""
    price = each.price
    return {
        "service": each.service,
        "instance_type": each.instance_type,
        "accelerator": each.accelerator,
        "nodes": each.nodes,
        "region": each.region,
        "purchase_option": each.option.value,
        "hours": span(each.hours),
        "usd": usd_span(each.usd),
        "unpriced": price.reason if isinstance(price, Unpriced) else None,
        "price": _price_of(price) if isinstance(price, Price) else None,
        "deployed": False,
    }


def quote_document(quoted: Quote, rank: int, types: Mapping[str, InstanceType]) -> Json:
    """slipway.quote/1: a candidate with every line, assumption and policy."""
    return {
        "schema": "slipway.quote/1",
        **candidate(quoted, rank, types),
        "components": [component(each) for each in quoted.components],
        "assumptions": [
            {"name": each.name, "value": each.value, "unit": each.unit, "source": each.source}
            for each in quoted.assumptions
        ],
        "policies": [{"name": each.name, "value": each.value, "on": each.on} for each in quoted.policies],
        "cash_usd": money(quoted.cash_usd),
        "cash_after_credits_usd": money(quoted.cash_after_credits_usd),
        "expires_at": quoted.expires_at.isoformat() if quoted.expires_at else None,
    }


def candidate(quoted: Quote, rank: int, types: Mapping[str, InstanceType]) -> Json:
    """One candidate of a plan."""
    place, facts = quoted.plan.place, types.get(quoted.plan.place.instance_type)
    commitment = place.term_years is not None
    return {
        "rank": rank,
        "digest": quoted.digest,
        "target": place.target.value if facts else None,
        "instance_type": place.instance_type or None,
        "accelerator": facts.accelerator if facts else None,
        "accelerators": facts.accelerators * place.nodes if facts else 0,
        "nodes": place.nodes if facts else 0,
        "region": place.region,
        "az_id": place.az_id,
        "purchase_option": place.option.value,
        "plan_kind": place.plan_kind.value if place.plan_kind else None,
        "term_years": place.term_years,
        "payment": quoted.plan.request.purchase.payment.value if commitment else None,
        "usd_per_hour": money(quoted.usd_per_hour),
        "hours": span(quoted.hours),
        "billed_hours": quoted.billed_hours,
        "usd": usd_span(quoted.usd),
        "commitment_usd": money(quoted.commitment_usd),
        "incomplete": quoted.incomplete,
        "missing_usd": money(quoted.missing_usd) if quoted.incomplete else None,
        "unpriced": quoted.unpriced,
        "unverified": _unverified(quoted),
        "availability": quoted.availability.value,
        "price": _price(quoted),
        "training": _training(quoted),
        "spot": _spot(quoted),
        "serving": serving(quoted.serving),
        "commitment": _commitment(quoted),
        "gate": gate(quoted.gate),
        "findings": [finding(each) for each in quoted.findings],
    }


def _price(quoted: Quote) -> Json | None:
    """The price of one instance-hour with its source."""
    if not isinstance(quoted.price, Price):
        return None
    span = quoted.price_range
    around = {} if span is None else {"range": {"low": money(span.low), "high": money(span.high)}}
    return {**_price_of(quoted.price), **around}


def _price_of(price: Price) -> Json:
    """A price with its source."""
    return {
        "usd_per_hour": money(price.usd),
        "source": price.source,
        "basis": price.basis.value,
        "as_of": price.as_of.isoformat(),
        "note": price.note,
    }


def _unverified(quoted: Quote) -> Json | None:
    """A price that was seen and prices nothing, beside the reason for that."""
    seen = quoted.price.seen if isinstance(quoted.price, Unpriced) else None
    return None if seen is None else _price_of(seen)


def _commitment(quoted: Quote) -> Json | None:
    """What a Savings Plan or a Reserved Instance ties up."""
    tied = quoted.commitment
    if tied is None:
        return None
    return {
        "break_even_utilisation": tied.break_even_utilisation,
        "utilisation": tied.utilisation,
        "price_cut": tied.price_cut,
        "stranded_usd": money(tied.stranded_usd),
        "new_generation_usd": money(tied.new_generation_usd),
    }


def _training(quoted: Quote) -> Json | None:
    """The time estimate; expected hours include failures and spot interruptions."""
    training = quoted.work.training if quoted.work is not None else None
    if training is None:
        return None
    return {
        "tokens_per_s": span(training.tokens_per_s),
        "mfu": span(training.mfu),
        "steady_hours": span(training.steady_hours),
        "expected_hours": span(quoted.hours),
    }


def _spot(quoted: Quote) -> Json | None:
    """What interruptions do."""
    spot = quoted.spot
    if spot is None:
        return None
    return {
        "interruptions_expected": spot.interruptions_expected,
        "checkpoint_interval_s": spot.checkpoint_interval_s,
        "overhead_fraction": spot.overhead_fraction,
        "break_even_interruptions_per_hour": spot.break_even_interruptions_per_hour,
        "usd_p90": money(spot.usd_p90),
    }


def component(line: CostComponent) -> Json:
    """One line of the bill."""
    return {
        "name": line.name,
        "group": line.group,
        "unit": line.unit,
        "quantity": line.quantity,
        "unit_price_usd": money(line.unit_price_usd),
        "usd": money(line.usd),
        "unpriced": line.unpriced,
        "source": line.source,
        "basis": line.basis.value if line.basis else None,
        "as_of": line.as_of.isoformat() if line.as_of else None,
    }


def gate(verdict: Gate) -> Json:
    """What the gate says."""
    return {
        "verdict": "allow" if verdict.allowed else "refuse",
        "exit_code": verdict.exit_code,
        "reason": verdict.reason,
        "hint": verdict.hint,
    }


def finding(each: Finding) -> Json:
    """One finding; `line` and `column` are where its path is in the plan file, null where that is not known."""
    return {
        "level": each.level.value,
        "code": each.code,
        "path": each.path,
        "message": each.message,
        "hint": each.hint,
        "line": each.line,
        "column": each.column,
    }


def error_document(problem: SlipwayError) -> Json:
    """slipway.error/1."""
    return {
        "schema": "slipway.error/1",
        "exit_code": problem.exit_code,
        "message": problem.message,
        "hint": problem.hint,
        "findings": [finding(each) for each in problem.findings],
    }


def money(amount: Decimal | None) -> str | None:
    """Dollars as the contract writes them: a plain decimal string without an exponent.

    >>> money(Decimal("55.0400")), money(Decimal("1E+3")), money(Decimal("0.00"))
    ('55.04', '1000', '0')
    """
    if amount is None:
        return None
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def span(value: Range) -> Json:
    """A range of hours, rates or fractions."""
    return {"low": value.low, "mid": value.mid, "high": value.high}


def usd_span(value: UsdRange | None) -> Json | None:
    """A range of dollars, or null when the compute has no price."""
    if value is None:
        return None
    return {"low": money(value.low), "mid": money(value.mid), "high": money(value.high)}


def report_document(report: Report) -> Json:
    """slipway.report/1."""
    return {
        "schema": "slipway.report/1",
        "name": report.name,
        "status": report.status.value,
        "scheduler": report.scheduler,
        "simulated": report.simulated,
        "attempts": [
            {
                "started_at": each.started_at.isoformat(),
                "ended_at": each.ended_at.isoformat() if each.ended_at else None,
                "exit_code": each.exit_code,
                "ended_by": each.ended_by,
                "resumed_from_step": each.resumed_from_step,
                "last_step": each.last_step,
            }
            for each in report.attempts
        ],
        "quoted": {
            "usd": money(report.quoted_usd),
            "hours": report.quoted_hours,
            "usd_per_hour": money(report.usd_per_hour),
            "prices_as_of": report.prices_as_of,
        },
        "actual": {"hours": report.actual_hours, "usd_at_quoted_rate": money(report.usd_at_quoted_rate)},
        "stacks": [{"name": name, "status": status} for name, status in report.stacks],
        "verified_resources": list(report.verified_resources),
        "not_emulated": list(report.not_emulated),
        "endpoint": endpoint_documents.endpoint(report.endpoint),
        "stopped": stopped_document(report.stopped),
    }


def stopped_document(found: BudgetStop | None) -> Json | None:
    """That the budget ended a job, what it kept, and how to go on."""
    if found is None:
        return None
    return {"reason": found.reason, "checkpoint_step": found.checkpoint_step, "next": found.next}


def _stopped(data: Mapping[str, Any] | None) -> BudgetStop | None:
    """The same read back; reports of earlier versions have none."""
    if data is None:
        return None
    hold(data, {"reason": str, "checkpoint_step": (int, None)})
    return BudgetStop(reason=data["reason"], checkpoint_step=data["checkpoint_step"])


_REPORT: dict[str, Any] = {
    "name": str,
    "status": str,
    "scheduler": str,
    "simulated": bool,
    "attempts": [
        {
            "started_at": str,
            "ended_at": (str, None),
            "exit_code": (int, None),
            "ended_by": (str, None),
            "resumed_from_step": int,
            "last_step": (int, None),
        }
    ],
    "quoted": {"usd": (str, None), "hours": float, "prices_as_of": (str, None), "usd_per_hour": (str, None)},
    "stacks": [{"name": str, "status": str}],
    "verified_resources": [str],
    "not_emulated": [str],
}


def parse_report(document: Mapping[str, Any]) -> Report:
    """A report read back from its JSON.

    Raises:
        UnreadableInputError: it is not a report.
    """
    try:
        hold(document, _REPORT)
        quoted, actual = document["quoted"], document["attempts"]
        return Report(
            name=document["name"],
            status=RunStatus(document["status"]),
            scheduler=document["scheduler"],
            simulated=document["simulated"],
            attempts=tuple(_attempt(each) for each in actual),
            quoted_usd=amount(quoted["usd"]),
            quoted_hours=quoted["hours"],
            prices_as_of=quoted["prices_as_of"],
            usd_per_hour=amount(quoted["usd_per_hour"]),
            stacks=tuple((each["name"], each["status"]) for each in document["stacks"]),
            verified_resources=tuple(document["verified_resources"]),
            not_emulated=tuple(document["not_emulated"]),
            endpoint=endpoint_documents.parse_endpoint(document.get("endpoint")),
            stopped=_stopped(document.get("stopped")),
        )
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as problem:
        raise UnreadableInputError(f"this is no report: {type(problem).__name__} {problem}") from problem


def _attempt(data: Mapping[str, Any]) -> Attempt:
    """One attempt read back."""
    ended = data["ended_at"]
    return Attempt(
        started_at=moment(data["started_at"]),
        ended_at=moment(ended) if ended else None,
        exit_code=data["exit_code"],
        ended_by=data["ended_by"],
        resumed_from_step=data["resumed_from_step"],
        last_step=data["last_step"],
    )
