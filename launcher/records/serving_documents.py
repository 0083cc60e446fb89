"""The serving part of a candidate in JSON."""

from decimal import Decimal
from typing import Any

from launcher.model.money import UsdRange
from launcher.model.serving import ServingOutlook

Json = dict[str, Any]


def serving(outlook: ServingOutlook | None) -> Json | None:
    """A month of serving; null for a plan that serves nothing."""
    if outlook is None:
        return None
    told, bedrock, count = outlook.estimate, outlook.bedrock, outlook.instances
    return {
        "tokens_per_s": outlook.tokens_per_s,
        "utilisation": outlook.utilisation,
        "usd_per_month": _span(outlook.usd_per_month),
        "usd_per_million_output_tokens": _money(outlook.usd_per_million_output_tokens),
        "ttft_ms": outlook.ttft_ms,
        "tpot_ms": outlook.tpot_ms,
        "usd_per_million_tokens": _money(outlook.usd_per_million_tokens),
        "requests_per_month": outlook.requests_per_month,
        "idle_usd_per_month": _money(outlook.idle_usd_per_month),
        "tokens_per_s_range": None
        if told is None
        else {"low": told.tokens_per_s.low, "mid": told.tokens_per_s.mid, "high": told.tokens_per_s.high},
        "measured": None if told is None else told.measured,
        "basis": None if told is None else "measured" if told.measured else "estimated",
        "source": None if told is None else told.source or None,
        "tensor_parallel": None if told is None else told.layout.tensor_parallel,
        "copies_per_instance": None if told is None else told.layout.copies,
        "batch_size": None if told is None else told.layout.batch,
        "sequence_length": None if told is None else told.layout.sequence,
        "instances": None if count is None else {"least": count.least, "mean": count.mean, "most": count.most},
        "bedrock": None
        if bedrock is None
        else {
            "model_id": bedrock.model_id,
            "inference_id": bedrock.inference_id,
            "profile": bedrock.profile,
            "mode": bedrock.mode.value,
            "same_weights": bedrock.same_weights or None,
            "input_usd_per_million_tokens": _money(bedrock.input_usd_per_million),
            "output_usd_per_million_tokens": _money(bedrock.output_usd_per_million),
            "cached_usd_per_million_tokens": _money(bedrock.cached_usd_per_million),
        },
    }


def _money(amount: Decimal | None) -> str | None:
    """Dollars as the contract writes them."""
    if amount is None:
        return None
    text = format(amount, "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"


def _span(value: UsdRange | None) -> Json | None:
    return None if value is None else {"low": _money(value.low), "mid": _money(value.mid), "high": _money(value.high)}
