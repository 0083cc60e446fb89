"""slipway.spike/1: what a spike measured."""

from typing import Any

from launcher.model.spike import Spiked, SpikeResult
from launcher.records.measurements import measurement_document


def spike_document(result: SpikeResult) -> dict[str, Any]:
    """A spike as the contract's JSON; beside each measurement what had been estimated."""
    return {
        "schema": "slipway.spike/1",
        "name": result.name,
        "measurements": [_spiked(each) for each in result.measured],
        "unmeasured": [{"instance_type": name, "reason": reason} for name, reason in result.unmeasured],
    }


def _spiked(each: Spiked) -> dict[str, Any]:
    rate = each.estimated
    beside = {"low": rate.low, "mid": rate.mid, "high": rate.high}
    return measurement_document(each.measurement) | {"estimated_tokens_per_s": beside}
