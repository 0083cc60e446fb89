"""Measurements compared with estimates: `slipway spike`, slipway.spike/1."""

from collections.abc import Sequence
from typing import Literal

from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.model.spike import Spiked, SpikeResult
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object
from launcher.records.measurements import MeasurementDocument

RATE = "throughput_samples_per_s"


@json_object
class SpikeMeasurement(MeasurementDocument):
    """A measurement with the estimate of its rate."""

    estimated_tokens_per_s: Range | None


@json_object
class Unmeasured:
    """An instance type without a measurement, with the reason."""

    instance_type: str
    reason: str


@json_object
class SpikeDocument:
    """Measurements compared with estimates."""

    schema: Literal["slipway.spike/1"] = "slipway.spike/1"
    name: str
    measurements: tuple[SpikeMeasurement, ...]
    unmeasured: tuple[Unmeasured, ...]


def document(result: SpikeResult) -> Json:
    """slipway.spike/1."""
    return as_json(
        SpikeDocument(
            name=result.name,
            measurements=tuple(
                fill_record(SpikeMeasurement, spiked.measurement, estimated_tokens_per_s=spiked.estimated)
                for spiked in result.measured
            ),
            unmeasured=tuple(Unmeasured(instance_type=name, reason=reason) for name, reason in result.unmeasured),
        )
    )


def page(result: SpikeResult, width: int) -> list[str]:
    """The complete page: rates next to their estimates, then seconds."""
    lines = [""]
    if result.measured:
        lines += [*render(RATES, result.measured, width), ""]
        lines += render(SECONDS, [spiked.measurement for spiked in result.measured], width)
    if any(spiked.measurement.simulated for spiked in result.measured):
        text = "The nodes were emulated: these rates are of this computer, and no quote uses them."
        lines += fold(f"  {text}", width)
    for measurement in (spiked.measurement for spiked in result.measured):
        if measurement.samples_per_s is not None:
            rate = measurement.samples_per_s.mid / measurement.nodes
            fix = f"write workload.train.{RATE}: {rate:.4g}"
            text = f"One node of {measurement.instance_type} trains on {rate:.4g} samples/s: {fix}"
            lines += fold(f"  {text}", width)
    for name, reason in result.unmeasured:
        lines += fold(f"  not measured on {name}: {reason}", width)
    return lines


def _instances(measurement: Measurement) -> str:
    return f"{measurement.nodes} × {measurement.instance_type}"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _rate(spiked: Spiked) -> str:
    unit = "samples" if spiked.measurement.tokens_per_s is None else "tokens"
    return f"{spiked.measurement.rate.mid:,.0f} {unit}"


RATES: Sequence[Column[Spiked]] = (
    Column("instances", lambda spiked: _instances(spiked.measurement)),
    Column("a second", _rate, "right"),
    Column("", lambda spiked: f"{spiked.measurement.rate.low:,.0f}–{spiked.measurement.rate.high:,.0f}"),
    Column("estimated", lambda spiked: f"{spiked.estimated.mid:,.0f}" if spiked.estimated else "–", "right"),
    Column(
        "ratio",
        lambda spiked: f"{spiked.measurement.rate.mid / spiked.estimated.mid:.2g}" if spiked.estimated else "–",
        "right",
    ),
    Column("MFU", lambda spiked: f"{spiked.measurement.mfu.mid:.2g}" if spiked.measurement.mfu else "", "right"),
    Column("GiB", lambda spiked: _figure(spiked.measurement.memory_gib), "right", yields=1),
)
SECONDS: Sequence[Column[Measurement]] = (
    Column("seconds", _instances),
    Column("a step", lambda measurement: _figure(measurement.step_s), "right"),
    Column(
        "",
        lambda measurement: (
            f"{measurement.step_range_s.low:.3g}–{measurement.step_range_s.high:.3g}"
            if measurement.step_range_s
            else ""
        ),
        "right",
    ),
    Column("compile", lambda measurement: _figure(measurement.compile_s), "right"),
    Column("save", lambda measurement: _figure(measurement.checkpoint_write_s), "right"),
    Column("restore", lambda measurement: _figure(measurement.restore_s), "right"),
    Column("boot", lambda measurement: _figure(measurement.boot_s), "right"),
)
