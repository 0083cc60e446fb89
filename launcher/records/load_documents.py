"""A load test as JSON: written by `endpoint load`, and read by later quotes."""

from datetime import datetime
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from launcher.agent.shape import read
from launcher.model.endpoint_call import LoadStep, LoadTest
from launcher.model.enums import ServingPrecision
from launcher.model.errors import UnreadableInputError
from launcher.model.serving import MeasuredServing
from launcher.model.units import number_of
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object

SCHEMA: Final = "slipway.load/1"
_ABOVE_0 = (
    "tensor_parallel",
    "copies_per_instance",
    "batch_size",
    "sequence_length",
    "input_tokens",
    "measured_tokens_per_s",
)
_FROM_0 = ("instances", "instances_after", "output_tokens", "measured_ttft_ms", "measured_tpot_ms")
NEAR = 0.1
"""Allowed deviation of request lengths from the requested lengths, as a share, for a valid test."""


class PastLoadTest(NamedTuple):
    """A load test read back: as a measured row of one instance, and the reason why it does not count, or ""."""

    row: MeasuredServing
    unfit: str


@json_object
class Percentiles:
    """Milliseconds."""

    p50: float
    p95: float


@json_object
class StepObject:
    """The measurement of so many concurrent requests."""

    concurrency: int
    seconds: float
    requests: int
    failures: int
    tokens_per_s: float
    ttft_ms: Percentiles | None
    latency_ms: Percentiles | None

    @classmethod
    def of(cls, step: LoadStep) -> "StepObject":
        """The object of a step."""
        return fill_record(
            cls,
            step,
            seconds=round(step.seconds, 3),
            tokens_per_s=round(step.tokens_per_s, 3),
            ttft_ms=_percentiles(step.first_s),
            latency_ms=_percentiles(step.whole_s),
        )


@json_object
class LoadDocument:
    """A load test; unknown values of the endpoint are null."""

    schema: Literal["slipway.load/1"] = SCHEMA
    name: str
    date: str
    model: str | None
    precision: str | None
    instance_type: str | None
    tensor_parallel: int | None
    copies_per_instance: int | None
    batch_size: int | None
    sequence_length: int | None
    simulated: bool
    instances: int
    instances_after: int
    input_tokens: int
    output_tokens: int
    steps: tuple[StepObject, ...]
    measured_tokens_per_s: float
    measured_input_tokens: float
    measured_output_tokens: float
    measured_ttft_ms: float | None
    measured_tpot_ms: float | None
    measured_usd_per_million_output_tokens: Decimal | None
    quoted_tokens_per_s: float | None


def load_document(load: LoadTest) -> Json:
    """slipway.load/1."""
    setting, best = load.setting, load.best
    first, between = _latencies(best)
    mean_in, mean_out = best.mean_tokens
    return as_json(
        fill_record(
            LoadDocument,
            load,
            date=load.at.isoformat(),
            model=None if setting is None else setting.model,
            precision=None if setting is None else setting.precision,
            instance_type=None if setting is None else setting.instance_type,
            tensor_parallel=None if setting is None else setting.tensor_parallel,
            copies_per_instance=None if setting is None else setting.copies,
            batch_size=None if setting is None else setting.batch,
            sequence_length=None if setting is None else setting.sequence,
            simulated=setting is not None and setting.simulated,
            steps=tuple(StepObject.of(step) for step in load.steps),
            measured_tokens_per_s=round(best.tokens_per_s, 3),
            measured_input_tokens=round(mean_in, 1),
            measured_output_tokens=round(mean_out, 1),
            measured_ttft_ms=first,
            measured_tpot_ms=between,
            measured_usd_per_million_output_tokens=load.usd_per_million_output_tokens,
        )
    )


def _latencies(best: LoadStep) -> tuple[float | None, float | None]:
    """Median milliseconds to the first token and between tokens in a step; None if not measured."""
    if best.whole_s is None:
        return None, None
    if best.first_s is None:
        return round(1000 * best.whole_s[0], 1), None
    gaps = best.mean_tokens[1] - 1
    between = (best.whole_s[0] - best.first_s[0]) / gaps if gaps > 0 else 0.0
    return round(1000 * best.first_s[0], 1), round(1000 * between, 2)


def _percentiles(pair: tuple[float, float] | None) -> Percentiles | None:
    return None if pair is None else Percentiles(p50=round(1000 * pair[0], 1), p95=round(1000 * pair[1], 1))


def past_load_test(document: Json) -> PastLoadTest | None:
    """The load test of a document; None if it does not describe its endpoint, for example without a local run.

    Raises:
        UnreadableInputError: `endpoint load` did not write the document.
    """
    if document.get("schema") != SCHEMA:
        raise UnreadableInputError(f"schema must be {SCHEMA}, got {document.get('schema')!r}")
    # Of a version that kept no setting, or of an endpoint without a run in the folder.
    if document.get("instance_type") is None:
        return None
    try:
        load = read(_PastLoad, document)
    except ValueError as problem:
        raise UnreadableInputError(str(problem)) from problem
    _refuse_impossible(load)
    instances = max(1, load.instances)
    row = MeasuredServing(
        model=load.model,
        accelerator="",
        tensor_parallel=load.tensor_parallel,
        copies=load.copies_per_instance,
        precision=load.precision,
        batch=load.batch_size,
        concurrency=max(step.concurrency for step in load.steps) // instances,
        input_tokens=load.input_tokens,
        output_tokens=load.output_tokens,
        tokens_per_s=load.measured_tokens_per_s / instances,
        ttft_ms=load.measured_ttft_ms,
        tpot_ms=load.measured_tpot_ms or 0.0,
        date=load.date.isoformat(),
        source=f"load test of {load.date.date().isoformat()}",
        instance_type=load.instance_type,
        sequence=load.sequence_length,
    )
    return PastLoadTest(row, _unfit(load))


class _PastLoad(NamedTuple):
    """A load test read back, with the keys of its document."""

    model: str
    precision: ServingPrecision
    instance_type: str
    tensor_parallel: int
    copies_per_instance: int
    batch_size: int
    sequence_length: int
    date: datetime
    instances: int
    instances_after: int
    input_tokens: int
    output_tokens: int
    steps: tuple[StepObject, ...]
    measured_tokens_per_s: float
    measured_input_tokens: float
    measured_output_tokens: float
    measured_ttft_ms: float
    measured_tpot_ms: float | None = None
    simulated: bool = False


def _refuse_impossible(load: _PastLoad) -> None:
    """Refuse numbers that no load test can have.

    Raises:
        UnreadableInputError: a count or a measured value is below its minimum.
    """
    if not load.steps:
        raise UnreadableInputError("steps must be a list of objects with at least one")
    if not load.model:
        raise UnreadableInputError("model must be a text, got ''")
    for name in _ABOVE_0:
        if not getattr(load, name) > 0:
            raise UnreadableInputError(f"{name} must be above 0, got {getattr(load, name)!r}")
    for name in _FROM_0:
        if (getattr(load, name) or 0) < 0:
            raise UnreadableInputError(f"{name} must not be negative, got {getattr(load, name)!r}")
    for number, step in enumerate(load.steps):
        if step.concurrency < 1 or min(step.requests, step.failures, step.tokens_per_s) < 0:
            raise UnreadableInputError(f"steps[{number}] has a negative number, or no request at a time")


def _unfit(load: _PastLoad) -> str:
    """Why a load test cannot be used for other plans; "" if it can."""
    if load.simulated:
        return "its endpoint was simulated"
    if load.instances != load.instances_after or not load.instances:
        return f"{number_of(load.instances, 'instance')} ran when it began and {load.instances_after} when it ended"
    best = max(load.steps, key=lambda step: step.tokens_per_s)
    if best.failures:
        return f"{best.failures} of {best.requests} requests failed"
    for direction, measured, target in (
        ("input", load.measured_input_tokens, load.input_tokens),
        ("output", load.measured_output_tokens, load.output_tokens),
    ):
        if abs(measured - target) > NEAR * target:
            return f"its requests had {measured:.0f} {direction} tokens, requested were {target}"
    return ""
