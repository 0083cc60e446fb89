"""slipway.measurement/1, and the file of measurements that a team stores with its plans: one a line.

Lines are only appended, each in one write, so that several runs may end simultaneously and a version control system
merges two users' files by keeping both. Facts known later, such as the idle tail of nodes, are added as another line of
the same run, which replaces the first regardless of its position. A damaged line, or one of a later version, is
reported and ignored.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal

from launcher.agent import safe_json
from launcher.agent.shape import read
from launcher.catalog.regular_file import UnusableFileError, read_regular
from launcher.model.finding import Finding, warning
from launcher.model.measurement import Measurement
from launcher.records.codec import Json, as_json, plain
from launcher.records.document import fill_record, json_object

SCHEMA: Final = "slipway.measurement/1"
LONGEST = 1 << 20
"""Maximum bytes of a line; a longer line is no measurement."""
MAX_BYTES = 64 << 20
"""Limit of the file: a line has 2 kB."""
_NOT_BELOW_0 = (
    *("running_h", "interruptions", "restart_s", "restarts", "boot_s"),
    *("idle_tail_h", "idle_tail_assumed_h", "compile_s", "memory_gib"),
)
_ABOVE_0 = ("params_b", "active_params_b", "sequence_length", "accelerators", "nodes", "global_batch_tokens")


@json_object
class MeasurementDocument(Measurement):
    """A measurement."""

    schema: Literal["slipway.measurement/1"] = SCHEMA


def measurement_document(measured: Measurement) -> Json:
    """slipway.measurement/1."""
    return as_json(fill_record(MeasurementDocument, measured))


def parse_measurement(document: Any) -> Measurement:
    """A measurement read back, possibly written by another user.

    Raises:
        ValueError: the document is not a measurement; the text gives the reason.
    """
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"schema {schema!r}, expected {SCHEMA!r}")
    # Lines from before there were any versions have no list of them.
    given = {name: value for name, value in document.items() if value is not None or name != "software"}
    measurement = read(Measurement, given)
    _refuse_impossible(measurement)
    return measurement


def _refuse_impossible(measurement: Measurement) -> None:
    for name in _NOT_BELOW_0:
        if (getattr(measurement, name) or 0) < 0:
            raise ValueError(f"{name} is {getattr(measurement, name)}; it must not be below 0")
    for name in _ABOVE_0:
        if getattr(measurement, name) is not None and not getattr(measurement, name) > 0:
            raise ValueError(f"{name} is {getattr(measurement, name)}; it must be above 0")
    for name in ("tokens_per_s", "samples_per_s", "step_range_s", "mfu"):
        span = getattr(measurement, name)
        if span is not None and not span.low > 0:
            raise ValueError(f"{name} is {plain(span)}; it must be above 0")
    if (measurement.tokens_per_s is None) == (measurement.samples_per_s is None):
        raise ValueError("it must have either tokens_per_s or samples_per_s")
    if measurement.active_params_b > measurement.params_b:
        raise ValueError(f"active_params_b is {measurement.active_params_b}, above params_b {measurement.params_b}")
    if any(degree < 1 for _, degree in measurement.parallelism or ()):
        raise ValueError(f"parallelism is {dict(measurement.parallelism or ())}; every degree must be at least 1")


def load_measurements(path: Path) -> tuple[tuple[Measurement, ...], tuple[Finding, ...]]:
    """The measurements of a file, each once, and findings for invalid lines; both empty without a file."""
    try:
        lines = read_regular(path, MAX_BYTES).decode("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return (), ()
    except (OSError, UnusableFileError) as problem:
        reason = (problem.strerror if isinstance(problem, OSError) else None) or problem
        message = f"{path.name} cannot be read, and no measurement counts: {reason}"
        return (), (warning("measurements-unreadable", "", message, f"check {path}"),)
    measurements: dict[Measurement, Measurement] = {}
    findings = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            one = parse_measurement(safe_json.loads(line[:LONGEST]))
        except ValueError as problem:
            message = f"{path.name}, line {number}, is not a measurement and is ignored: {problem}"
            findings.append(warning("measurement-unreadable", "", message, "correct the line, or delete it"))
            continue
        same = replace(one, idle_tail_h=None)
        if same not in measurements or measurements[same].idle_tail_h is None:
            measurements[same] = one
    return tuple(measurements.values()), tuple(findings)


def add_measurement(path: Path, measured: Measurement) -> None:
    """Append a measurement to a file, on a separate line even after an incomplete line of a killed writer."""
    line = json.dumps(measurement_document(measured), ensure_ascii=False)
    torn = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (("\n" if torn else "") + line + "\n").encode())
    finally:
        os.close(descriptor)
