"""A load test as JSON: written by `endpoint load`, and read by later quotes."""

import math
from datetime import datetime
from typing import NamedTuple

from launcher.model.endpoint_call import LoadSetting, LoadStep, LoadTest
from launcher.model.enums import ServingPrecision
from launcher.model.errors import UnreadableInputError
from launcher.model.serving import MeasuredServing
from launcher.records.codec import Json, picked

SCHEMA = "slipway.load/1"
SETTING = (
    "model precision instance_type tensor_parallel copies_per_instance=copies batch_size=batch sequence_length=sequence"
)
NEAR = 0.1
"""Allowed deviation of request lengths from the requested lengths, as a share, for a valid test."""


class PastLoadTest(NamedTuple):
    """A load test read back: as a measured row of one instance, and the reason why it does not count, or ""."""

    row: MeasuredServing
    unfit: str


def load_document(load: LoadTest) -> Json:
    """A load test as JSON; unknown values of the endpoint are null."""
    dollars, best = load.usd_per_million_output_tokens, load.best
    first, latency = _latencies(best)
    mean_in, mean_out = best.mean_tokens
    return {
        "schema": SCHEMA,
        "name": load.name,
        "date": load.at.isoformat(),
        **_setting(load.setting),
        **picked(load, "instances instances_after input_tokens output_tokens"),
        "steps": [_step(step) for step in load.steps],
        "measured_tokens_per_s": round(best.tokens_per_s, 3),
        "measured_input_tokens": round(mean_in, 1),
        "measured_output_tokens": round(mean_out, 1),
        "measured_ttft_ms": first,
        "measured_tpot_ms": latency,
        "measured_usd_per_million_output_tokens": format(dollars, "f") if dollars is not None else None,
        "quoted_tokens_per_s": load.quoted_tokens_per_s,
    }


def _setting(setting: LoadSetting | None) -> Json:
    keys = [pair.partition("=")[0] for pair in SETTING.split()]
    values = dict.fromkeys(keys) if setting is None else picked(setting, SETTING)
    return {**values, "simulated": setting is not None and setting.simulated}


def _latencies(best: LoadStep) -> tuple[float | None, float | None]:
    """Median milliseconds to the first token and between tokens in a step; None if not measured."""
    if best.whole_s is None:
        return None, None
    if best.first_s is None:
        return round(1000 * best.whole_s[0], 1), None
    gaps = best.mean_tokens[1] - 1
    between = (best.whole_s[0] - best.first_s[0]) / gaps if gaps > 0 else 0.0
    return round(1000 * best.first_s[0], 1), round(1000 * between, 2)


def _step(step: LoadStep) -> Json:

    def ms(pair: tuple[float, float] | None) -> dict[str, float] | None:
        return None if pair is None else {"p50": round(1000 * pair[0], 1), "p95": round(1000 * pair[1], 1)}

    return {
        "concurrency": step.concurrency,
        "seconds": round(step.seconds, 3),
        **picked(step, "requests failures"),
        "tokens_per_s": round(step.tokens_per_s, 3),
        "ttft_ms": ms(step.first_s),
        "latency_ms": ms(step.whole_s),
    }


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
    read = _Reader(document)
    batch, copies = (read.count(field) for field in ("batch_size", "copies_per_instance"))
    instances = max(1, read.count("instances", least=0))
    outputs = read.count("output_tokens", least=0)
    steps = [_Reader(step) for step in read.steps()]
    best = max(steps, key=lambda step: step.number("tokens_per_s", least=0.0))
    date = read.moment("date").date().isoformat()
    row = MeasuredServing(
        model=read.text("model"),
        accelerator="",
        tensor_parallel=read.count("tensor_parallel"),
        copies=copies,
        precision=read.precision(),
        batch=batch,
        concurrency=max(step.count("concurrency") for step in steps) // instances,
        input_tokens=read.count("input_tokens"),
        output_tokens=outputs,
        tokens_per_s=read.number("measured_tokens_per_s") / instances,
        ttft_ms=read.number("measured_ttft_ms", least=0.0),
        tpot_ms=read.number("measured_tpot_ms", least=0.0) if outputs else 0.0,
        date=read.moment("date").isoformat(),
        source=f"load test of {date}",
        instance_type=read.text("instance_type"),
        sequence=read.count("sequence_length"),
    )
    return PastLoadTest(row, _unfit(read, best, row))


def _unfit(read: "_Reader", best: "_Reader", row: MeasuredServing) -> str:
    """Why a load test cannot be used for other plans."""
    if read.document.get("simulated"):
        return "its endpoint was simulated"
    ran = [read.count(field, least=0) for field in ("instances", "instances_after")]
    if ran[0] != ran[1] or not ran[0]:
        return f"{ran[0]} instances ran when it began and {ran[1]} when it ended"
    failures = best.count("failures", least=0)
    if failures:
        return f"{failures} of {best.count('requests')} requests failed"
    for direction, target in (("input", row.input_tokens), ("output", row.output_tokens)):
        got = read.number(f"measured_{direction}_tokens", least=0.0)
        if abs(got - target) > NEAR * target:
            return f"its requests had {got:.0f} {direction} tokens, requested were {target}"
    return ""


class _Reader(NamedTuple):
    """A JSON object whose values are checked when they are read."""

    document: Json

    def number(self, key: str, *, least: float = 1e-9) -> float:
        value = self.document.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value < math.inf:
            raise UnreadableInputError(f"{key} must be a number {'above' if least else 'of'} 0, got {value!r}")
        return float(value)

    def count(self, key: str, *, least: int = 1) -> int:
        value = self.document.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise UnreadableInputError(f"{key} must be a whole number of {least} or more, got {value!r}")
        return value

    def text(self, key: str) -> str:
        value = self.document.get(key)
        if not isinstance(value, str) or not value:
            raise UnreadableInputError(f"{key} must be a text, got {value!r}")
        return value

    def moment(self, key: str) -> datetime:
        text = self.text(key)
        try:
            return datetime.fromisoformat(text)
        except ValueError as problem:
            raise UnreadableInputError(f"{key} must be a date, got {text}") from problem

    def precision(self) -> ServingPrecision:
        text = self.text("precision")
        try:
            return ServingPrecision(text)
        except ValueError as problem:
            allowed = ", ".join(ServingPrecision)
            raise UnreadableInputError(f"precision must be one of {allowed}, got {text}") from problem

    def steps(self) -> list[Json]:
        """The steps of the ramp, at least one.

        Raises:
            UnreadableInputError: the document has no steps.
        """
        listed = self.document.get("steps")
        if not isinstance(listed, list) or not listed or not all(isinstance(step, dict) for step in listed):
            raise UnreadableInputError("steps must be a list of objects with at least one")
        return listed
