"""Rows of published serving measurements, as a copy of a model under a load and the measured output tokens.

A row becomes a `Copy` from its own columns: model, hardware, engine, number format, tensor and data parallelism, batch,
concurrency and lengths. Two values are filled in if a row does not state them: lengths of "ShareGPT-like" prompts are
those of vLLM's benchmark on ShareGPT (215 in, 198 out), and a "short prompt" is 50 tokens. Rows outside the estimate's
scope (mixtures of experts on Neuron, trn2, an unknown model without a size in its name) are refused with the reason.
"""

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.catalog.load import Catalog, load
from launcher.catalog.serving import model_of
from launcher.model.enums import ServingPrecision
from launcher.model.instance_type import Accelerator
from launcher.model.serving import Copy, ServedModel
from launcher.model.workload import ModelDimensions
from launcher.planning.serving import footprint
from launcher.planning.serving.layout import EXPERT_BYTES
from launcher.planning.serving.model import from_dimensions, served_model
from launcher.planning.serving.reach import beyond
from launcher.planning.serving.software import SCHEDULED, TUNED, VLLM_EARLY, software_of

NEEDED = ("model", "hardware", "engine", "dtype", "output_tok_s")
SHAREGPT_IN, SHAREGPT_OUT = 215.0, 198.0
"""Mean lengths of vLLM's ShareGPT benchmark: 215,196 tokens in and 198,343 out for 1,000 prompts."""
SHORT_PROMPT = 50.0
OFFLINE = 4096
"""Waiting requests for a row that says saturated without a number."""
NEURON_LABELS = {"inf2": "Inferentia2", "inferentia2": "Inferentia2", "trn1": "Trainium1", "trainium1": "Trainium1"}
NEURON_LABELS |= {"trn2": "Trainium2", "trainium2": "Trainium2", "trn3": "Trainium3", "trainium3": "Trainium3"}
GPU_LABELS = ("H200", "H100", "L40S", "A10G", "L4", "B300", "B200")
COUNTS = ("tp", "dp", "batch")
LATENCIES = ("ttft_ms", "tpot_ms")
"""Columns that are not used for an error."""
TYPE = re.compile(r"(?:ml\.)?([a-z]+\d+[a-z-]*\.\d*x?large)")
SIZE = re.compile(r"(?<![\dx.])(\d+(?:\.\d+)?)b(?![a-z\d])")
MIXTURE = re.compile(r"\d+x\d+b|-a\d+(\.\d+)?b|moe|mixtral")
PER_GPU_TABLES = re.compile(r"tensorrt-llm 0\.", re.IGNORECASE)
"""TensorRT-LLM's tables of 2023 have tokens per second of one GPU, even if several GPUs share the model."""


class RowsError(ValueError):
    """A file of rows is invalid; the text lists its problems, one per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement. `live` requests run at once in each of `copies`; milliseconds are None if not published."""

    id: str
    model: str
    chip: str
    copy: Copy
    copies: int
    live: int
    tokens_per_s: float
    ttft_ms: float | None
    tpot_ms: float | None
    source: str = ""

    @property
    def neuron(self) -> bool:
        """Whether the row was measured on Neuron cores."""
        return self.copy.accelerator.family == "neuron"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A row outside the estimate's scope, and the reason."""

    id: str
    reason: str


class _OutOfReachError(Exception):
    """A valid row is outside the estimate's scope."""


def read_rows(path: Path) -> tuple[list[Row], list[Refused]]:
    """The valid rows of a file, and the refused rows.

    Raises:
        RowsError: the file is unreadable or lacks a column, or a row is invalid; the text lists all problems.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RowsError(f"cannot read {path}: {error}") from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise RowsError(f"{path} is not a file of serving rows: no column {', '.join(missing)}")
    catalog = load()
    rows: list[Row] = []
    refused: list[Refused] = []
    problems = []
    for number, fields in enumerate(reader, start=2):
        cells = {name: (value or "").strip() for name, value in fields.items() if isinstance(name, str)}
        label = f"{number}: {cells['model']} on {cells['hardware']}"
        try:
            rows.append(_row(label, cells, catalog))
        except _OutOfReachError as reason:
            refused.append(Refused(id=label, reason=str(reason)))
        except ValueError as error:
            problems.append(f"{path}:{label}: {error}")
    if problems:
        raise RowsError("\n".join(problems))
    if not rows and not refused:
        raise RowsError(f"{path} has no rows")
    return rows, refused


def _row(label: str, cells: Mapping[str, str], catalog: Catalog) -> Row:
    chip = _accelerator(cells, catalog)
    model = _model(cells["model"], catalog)
    reason = beyond(model, chip)
    if reason is not None:
        raise _OutOfReachError(reason)
    measured = _number(cells, "output_tok_s")
    if measured is None:
        raise _OutOfReachError("no output tokens per second were published")
    if measured <= 0:
        raise ValueError(f"output_tok_s is {cells['output_tok_s']!r}; it must be a number above 0")
    copy = _copy(cells, model, chip)
    live = _live(cells, copy)
    if chip.family != "neuron":
        live = _held(copy, live, continuous=not _number(cells, "batch"))
        copy = replace(copy, batch=live)
    per_gpu = copy.tensor_parallel if PER_GPU_TABLES.search(cells["engine"]) else 1
    return Row(
        id=label,
        model=model.name,
        chip=chip.name,
        copy=copy,
        copies=_busy_copies(cells),
        live=live,
        tokens_per_s=measured * per_gpu,
        ttft_ms=_number(cells, "ttft_ms"),
        tpot_ms=_number(cells, "tpot_ms"),
        source=re.split(r"[ @#]", cells.get("source", ""))[0],
    )


def _copy(cells: Mapping[str, str], model: ServedModel, chip: Accelerator) -> Copy:
    neuron = chip.family == "neuron"
    software = software_of(cells["engine"], neuron=neuron)
    dtype = cells["dtype"].lower()
    fp8 = "fp8" in dtype
    packed = any(word in dtype for word in ("4bit", "4-bit", "gptq", "awq", "int4"))
    inputs = _number(cells, "input_len") or (SHORT_PROMPT if "short" in cells.get("input_len", "") else SHAREGPT_IN)
    outputs = _number(cells, "output_len")
    outputs = SHAREGPT_OUT if outputs is None else outputs
    batch = _number(cells, "batch") or (_asked(cells) if neuron else 1)
    return Copy(
        model=model,
        accelerator=chip,
        tensor_parallel=max(1, int(_number(cells, "tp") or _counted(cells["hardware"]))),
        software=software,
        weight_bytes=0.55 if packed else 1.0 if fp8 or "int8" in dtype else 2.0,
        expert_bytes=EXPERT_BYTES[ServingPrecision.MXFP4] if "mxfp4" in dtype else None,
        attention_parallel="attention data parallel" in cells["engine"],
        cache_bytes=1.0 if fp8 and software == TUNED else 2.0,
        batch=int(batch),
        sequence=int(_number(cells, "max_seq") or inputs + outputs),
        input_tokens=inputs,
        output_tokens=outputs,
        packed_weights=packed,
        fp8_arithmetic=fp8,
    )


def _live(cells: Mapping[str, str], copy: Copy) -> int:
    """Concurrent requests in one copy: its share of the concurrency, at most its batch."""
    batch = _number(cells, "batch")
    live = _asked(cells) if re.match(r"\d", cells.get("concurrency", "")) else int(batch or OFFLINE)
    return min(live, copy.batch) if batch else live


def _asked(cells: Mapping[str, str]) -> int:
    """Concurrent requests sent to one copy: its share of the number at the start of the column, or 1."""
    match = re.match(r"\d+", cells.get("concurrency", ""))
    copies = max(1, int(_number(cells, "dp") or 1))
    return -(-int(match[0]) // copies) if match else 1


def _busy_copies(cells: Mapping[str, str]) -> int:
    """The copies that have a request: all of them, or as many as there are requests at once."""
    match = re.match(r"\d+", cells.get("concurrency", ""))
    copies = max(1, int(_number(cells, "dp") or 1))
    return min(copies, max(1, int(match[0]))) if match else copies


def _counted(hardware: str) -> int:
    """The number of accelerators in a row's hardware, such as 8xH100 or H100 x2; 1 without a number."""
    match = re.search(r"\b(\d+) ?x ?[A-Z]|\bx ?(\d+)\b", hardware)
    return int(match[1] or match[2]) if match else 1


def _held(copy: Copy, live: int, *, continuous: bool) -> int:
    """Live requests that fit into the cache; with continuous batching, at half of their output length."""
    length = copy.input_tokens + copy.output_tokens * (0.5 if continuous else 1.0)
    limit = footprint.MAX_LIVE_TUNED
    if copy.software in SCHEDULED:
        limit = footprint.MAX_LIVE if copy.software == VLLM_EARLY else footprint.default_live(copy.accelerator)
    return max(1, footprint.max_live(copy, length=length, limit=min(live, limit)))


def _accelerator(cells: Mapping[str, str], catalog: Catalog) -> Accelerator:
    hardware = cells["hardware"]
    named = TYPE.search(hardware)
    known = catalog.instance_types.get(named[1]) if named else None
    if known is not None and known.accelerator is not None:
        return catalog.accelerators[known.accelerator]
    text = f"{hardware} {cells.get('accel', '')}".lower()
    for label, name in NEURON_LABELS.items():
        if label in text:
            return catalog.accelerators[name]
    if "a100" in text:
        return catalog.accelerators["A100-40GB" if "40" in text else "A100-80GB"]
    found = next((name for name in GPU_LABELS if name.lower() in text), None)
    if found is None:
        raise _OutOfReachError(f"no accelerator of the catalog in {hardware!r}")
    return catalog.accelerators[found]


def _model(label: str, catalog: Catalog) -> ServedModel:
    spec = model_of(label, catalog)
    if spec is not None:
        return served_model(spec)
    size = SIZE.search(label.lower())
    if MIXTURE.search(label.lower()) or size is None:
        raise _OutOfReachError(f"{label} is not a model of the catalog, and its name gives no dense size")
    return from_dimensions(ModelDimensions(params_b=float(size[1])))


def _number(cells: Mapping[str, str], name: str) -> float | None:
    """A column as a number; None if it is empty or text, or if a latency is not a number.

    Raises:
        ValueError: the number is out of range.
    """
    text = cells.get(name, "")
    try:
        value = float(text)
    except ValueError:
        return None
    if math.isnan(value) and name in LATENCIES:
        return None
    if not 0 <= value < math.inf or (name in COUNTS and (value < 1 or value != int(value))):
        expected = "a whole number of 1 or more" if name in COUNTS else "a finite number of 0 or more"
        raise ValueError(f"{name} is {text!r}; it must be {expected}")
    return value
