"""slipway.measurement/1, and the file of measurements that a team keeps beside its plans: one a line.

Lines are only ever added, each in one write, so that several runs may end at once and a version control system merges
two people's files by keeping both. What is known of a run later, how long its nodes stayed, comes as another line of
the same run, which counts in place of the first wherever it stands. A line that is damaged, or of a later version, is
named and left out.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.finding import Finding, warning
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.records.codec import plain
from launcher.records.shape import hold, moment

SCHEMA = "slipway.measurement/1"
FILE = "measurements.jsonl"
LONGEST = 1 << 20
"""Bytes of a line; what is longer is no measurement."""
_SPAN: dict[str, Any] = {"low": float, "mid": float, "high": float}
_FORM: dict[str, Any] = {
    **dict.fromkeys(("schema", "model", "method", "precision", "recompute", "stack", "measured_at", "run"), str),
    **dict.fromkeys(("instance_type", "accelerator"), str),
    **dict.fromkeys(("params_b", "active_params_b"), float),
    **dict.fromkeys(("sequence_length", "accelerators", "nodes"), int),
    **dict.fromkeys(("global_batch_tokens", "step_s", "checkpoint_write_s", "restore_s", "boot_s"), (float, None)),
    **dict.fromkeys(("image", "revision"), (str, None)),
    "tokens_per_s": _SPAN,
    "simulated": bool,
}
_SINCE: dict[str, Any] = {
    **dict.fromkeys(("region", "purchase_option", "target"), (str, None)),
    **dict.fromkeys(("running_h", "restart_s", "idle_tail_h", "idle_tail_assumed_h"), (float, None)),
    **dict.fromkeys(("compile_s", "memory_gib"), (float, None)),
    "step_range_s": (_SPAN, None),
    **dict.fromkeys(("interruptions", "restarts"), (int, None)),
    "mfu": (_SPAN, None),
    **dict.fromkeys(("parallelism", "software"), (dict, None)),
}
"""Keys that lines from before there were any lack."""
_FROM_0 = (
    *("running_h", "interruptions", "restart_s", "restarts", "boot_s"),
    *("idle_tail_h", "idle_tail_assumed_h", "compile_s", "memory_gib"),
)
_RANGES = ("step_range_s", "mfu")
_MADE = (*_RANGES, "parallelism", "software")
_ABOVE_0 = ("params_b", "active_params_b", "sequence_length", "accelerators", "nodes")


def measurement_document(measured: Measurement) -> dict[str, Any]:
    """A measurement as the contract's JSON."""
    parallelism = None if measured.parallelism is None else dict(measured.parallelism)
    return {"schema": SCHEMA, **plain(measured), "parallelism": parallelism, "software": dict(measured.software)}


def parse_measurement(document: Any) -> Measurement:
    """A measurement read back, which somebody else may have written.

    Raises:
        ValueError: it is none; the text says why.
    """
    if isinstance(document, dict) and document.get("schema") != SCHEMA:
        raise ValueError(f"schema {document.get('schema')!r}, expected {SCHEMA!r}")
    hold(document, _FORM)
    since = {key: document.get(key) for key in _SINCE}
    hold(since, _SINCE)
    for name in _FROM_0:
        if (document.get(name) or 0) < 0:
            raise ValueError(f"{name} is {document[name]}; it must not be below 0")
    for name in _ABOVE_0:
        if not document[name] > 0:
            raise ValueError(f"{name} is {document[name]}; it must be above 0")
    if document["active_params_b"] > document["params_b"]:
        raise ValueError(f"active_params_b is {document['active_params_b']}, above params_b {document['params_b']}")
    return Measurement(
        method=Method(document["method"]),
        precision=Precision(document["precision"]),
        recompute=Recompute(document["recompute"]),
        stack=Stack(document["stack"]),
        tokens_per_s=_span("tokens_per_s", document["tokens_per_s"]),
        global_batch_tokens=_positive(document, "global_batch_tokens"),
        measured_at=moment(document["measured_at"]),
        model=document["model"],
        params_b=document["params_b"],
        active_params_b=document["active_params_b"],
        sequence_length=document["sequence_length"],
        instance_type=document["instance_type"],
        accelerator=document["accelerator"],
        accelerators=document["accelerators"],
        nodes=document["nodes"],
        step_s=document["step_s"],
        checkpoint_write_s=document["checkpoint_write_s"],
        restore_s=document["restore_s"],
        boot_s=document["boot_s"],
        run=document["run"],
        image=document["image"],
        revision=document["revision"],
        simulated=document["simulated"],
        **since
        | {key: None if since[key] is None else _span(key, since[key]) for key in _RANGES}
        | {"parallelism": _degrees(since["parallelism"]), "software": _versions(since["software"])},
    )


def _degrees(found: dict[str, Any] | None) -> tuple[tuple[str, int], ...] | None:
    """Degrees of parallelism; a later version may name others."""
    if found is None:
        return None
    hold(found, dict.fromkeys(found, int), "parallelism")
    if any(degree < 1 for degree in found.values()):
        raise ValueError(f"parallelism is {found}; every degree must be at least 1")
    return tuple(found.items())


def _versions(found: dict[str, Any] | None) -> tuple[tuple[str, str], ...]:
    hold(found or {}, dict.fromkeys(found or {}, str), "software")
    return tuple((found or {}).items())


def _span(name: str, found: Mapping[str, float]) -> Range:
    if not 0 < found["low"] <= found["mid"] <= found["high"]:
        raise ValueError(f"{name} is {dict(found)}; it must be above 0 and low <= mid <= high")
    return Range(low=found["low"], mid=found["mid"], high=found["high"])


def _positive(document: Mapping[str, Any], name: str) -> float | None:
    value: float | None = document[name]
    if value is not None and not value > 0:
        raise ValueError(f"{name} is {value}; it must be above 0")
    return value


def load_measurements(path: Path) -> tuple[tuple[Measurement, ...], tuple[Finding, ...]]:
    """The measurements of a file, each once, and what is to be said of lines that are none; none without a file."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return (), ()
    except OSError as problem:
        said = f"{path.name} cannot be read, and no measurement counts: {problem.strerror or problem}"
        return (), (warning("measurements-unreadable", "", said, f"check {path}"),)
    found: dict[Measurement, Measurement] = {}
    findings = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            one = parse_measurement(safe_json.loads(line[:LONGEST]))
        except ValueError as problem:
            said = f"{path.name}, line {number}, is no measurement and does not count: {problem}"
            findings.append(warning("measurement-unreadable", "", said, "mend the line, or delete it"))
            continue
        same = replace(one, idle_tail_h=None)
        if same not in found or found[same].idle_tail_h is None:
            found[same] = one
    return tuple(found.values()), tuple(findings)


def add_measurement(path: Path, measured: Measurement) -> None:
    """Add a measurement to a file, on a line of its own whatever a killed writer left.

    Raises:
        OSError: it cannot be written.
    """
    line = json.dumps(measurement_document(measured), ensure_ascii=False)
    torn = path.is_file() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (("\n" if torn else "") + line + "\n").encode())
    finally:
        os.close(descriptor)
