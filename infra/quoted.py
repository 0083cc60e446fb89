"""The gate's verdict for a plan that the user synthesises directly, from a run folder's or a saved plan's quote.

Slipway's own commands quote, gate and deploy in one step; `cdk deploy -c plan=FILE` does not. The stacks therefore
carry an annotation with the verdict. Its text comes from the quote: this module knows no prices.
"""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.catalog.regular_file import read_regular
from launcher.model.errors import (
    ImpossibleError,
    OverBudgetError,
    SlipwayError,
    UnpricedError,
    UnreadableInputError,
)
from launcher.model.plan import Plan
from launcher.plan_file import SAVED

RUN_PLAN, RUN_QUOTE = "plan.json", "quote.json"
"""Their file names in a run folder (launcher/records)."""
SCHEMA = "slipway.quote/1"
WRITTEN = "slipway deploy FILE writes one"
_REFUSALS: dict[int, type[SlipwayError]] = {3: OverBudgetError, 4: UnpricedError, 5: ImpossibleError}


@dataclass(frozen=True, slots=True, kw_only=True)
class GateDecision:
    """The known verdict of a plan's gate.

    `refusal` stops a synthesis that requires the gate; None if the plan passed.
    """

    text: str
    refusal: SlipwayError | None


def gate_decision(path: Path, plan: Plan, now: datetime) -> GateDecision:
    """The gate's verdict for a plan.

    A quote is valid inside a saved plan, and next to a run folder's `plan.json`.

    Raises:
        ImpossibleError: the quote is for another plan: the plan or the quote was changed.
        UnreadableInputError: the document is not a valid quote.
    """
    quote = _quote_of(path)
    if quote is None:
        hint = "slipway deploy FILE quotes first; or use a saved plan, or a run folder's plan.json with its quote.json"
        refusal = ImpossibleError(f"{path} passed no gate: it has no quote", hint=hint)
        return GateDecision(
            text="passed no gate: this plan has not been priced: run slipway deploy FILE", refusal=refusal
        )
    if quote["digest"] != plan.digest:
        raise ImpossibleError(
            f"{path} is plan {plan.digest[:12]}, its quote is for {quote['digest'][:12]}: one was changed",
            hint="slipway quote FILE prices a plan again; a plan file of another name is deployed without a quote",
        )
    gate = quote["gate"]
    if gate["verdict"] != "allow":
        kind = _REFUSALS.get(gate["exit_code"], ImpossibleError)
        return GateDecision(text=f"the gate refused this plan: {gate['reason']}", refusal=kind(str(gate["reason"])))
    expires = quote["expires_at"]
    if expires is not None and now > datetime.fromisoformat(expires):
        text = f"the gate allowed this plan on prices that were good until {expires}"
        return GateDecision(text=text, refusal=UnpricedError(text, hint="slipway deploy FILE quotes it again"))
    until = f", on prices good until {expires}" if expires is not None else ""
    return GateDecision(text=f"the gate allowed this plan{until}", refusal=None)


def _quote_of(path: Path) -> dict[str, Any] | None:
    try:
        document = safe_json.loads(read_regular(path, safe_json.MAX_BYTES))
    except (OSError, ValueError):
        document = None  # a plan file is YAML, and was read before
    if isinstance(document, dict) and document.get("schema") == SAVED:
        return _check(document.get("quote"), f"the quote in {path}")
    quote_file = path.with_name(RUN_QUOTE)
    if path.name != RUN_PLAN or not quote_file.is_file():
        return None
    try:
        known_quote = safe_json.loads(read_regular(quote_file, safe_json.MAX_BYTES))
    except (OSError, ValueError) as problem:
        raise UnreadableInputError(f"{quote_file} is not a quote: {problem!r}", hint=WRITTEN) from problem
    return _check(known_quote, str(quote_file))


def _check(quote: Any, where: str) -> dict[str, Any]:
    try:
        gate, expires = quote["gate"], quote["expires_at"]
        sound = (
            quote["schema"] == SCHEMA
            and isinstance(quote["digest"], str)
            and isinstance(gate["verdict"], str)
            and (gate["verdict"] == "allow" or isinstance(gate["reason"], str))
            and (expires is None or datetime.fromisoformat(expires).tzinfo is not None)
        )
    except (ValueError, KeyError, TypeError) as problem:
        raise UnreadableInputError(f"{where} is not a quote: {problem!r}", hint=WRITTEN) from problem
    if not sound:
        raise UnreadableInputError(f"{where} is not a quote of schema {SCHEMA}", hint=WRITTEN)
    return dict(quote)
