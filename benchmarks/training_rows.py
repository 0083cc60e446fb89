"""Rows of published training runs, as fields of a plan file and the published figure.

A row becomes a `TrainingShape` from values that a plan file could have: dimensions, method, tokens, sequence, batch,
precision, recompute, stack, accelerator and count. Its id, model name, source and family are used for reports and to
leave families out, never for an estimate. Two fields are derived from text, because the files have no column for them.
`stack` is huggingface if the framework names its libraries; tuned if the framework or the family names MLPerf, NeMo or
Megatron; and otherwise framework. `recompute` is full or none if the notes say so.
"""

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.catalog.training import load_hardware
from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.instance_type import Accelerator
from launcher.planning import flops
from launcher.planning.shape import TrainingShape, recompute_of

NEEDED = ("id", "row_kind", "params_total_B", "precision", "mode", "framework", "accelerator", "source_family")
METHODS = {
    "pretrain": Method.PRETRAIN,
    "continual_pretrain": Method.PRETRAIN,
    "full": Method.FULL,
    "full_ft": Method.FULL,
    "lora": Method.LORA,
    "qlora": Method.QLORA,
}
KINDS = ("whole_run", "throughput", "mlperf_ttt", "mfu_only")
TUNED = ("mlperf", "nemo", "megatron")
HUGGINGFACE = re.compile(
    r"\bhf\b|hugging ?face|transformers|\bpeft\b|\btrl\b|\bsfttrainer\b|axolotl|llama-?factory|swift"
)
KEEPS = re.compile(
    r"\bno ac\b|activation checkpointing false|\bac off\b|(no|without) gradient checkpointing|no recompute"
    r"|recompute off"
)
SELECTS = re.compile(r"selective recompute")
RECOMPUTES = re.compile(
    r"\bfull ac\b|activation checkpointing|recompute|zero-3\+ac|\bac\+offload|gradient checkpointing"
)
INSTANCE_FAMILY = re.compile(r"\b((?:p|g|trn|inf)\d[a-z]*(?:-[a-z]+\d+)?)\b")
AS_SHIPPED = re.compile(r"sample as shipped|fsdp sample")
AWS_FABRIC = re.compile(r"\befa\b")
EXPERT_PARALLEL = re.compile(r"\bEP(\d+)\b")
TENSOR_PARALLEL = re.compile(r"\bTP ?(\d+)\b")
MICRO_BATCH = re.compile(r"batch (\d+) a gpu|batch (\d+)/gpu|\bmbs (\d+)|micro-?batch(?: size)? (\d+)")
HARDWARE_COUNT = re.compile(r"\bhfu\b|counts? .*recompute|incl\. recompute")
UNSAID_CHIPS = 1024
"""Accelerators assumed for a run that has only accelerator-hours: all such runs are pretraining by large clusters."""
UNSAID_SEQUENCE = 4096
MODEL_SHARE_OF_HARDWARE = 0.75
"""Model FLOPs over hardware FLOPs with full recomputation, 6N / 8N."""
PEAKS_APART = 1.15
"""Chips of one name whose peaks differ by more than this factor are different chips (H100 SXM and PCIe)."""
UNSAID_MEMORY_GIB = 80.0
UNSAID_FLOP_PER_BYTE = 250.0


class RowsError(ValueError):
    """A file of rows is invalid; the text lists its problems, one per line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One published figure: the job, and tokens per second of all its chips, steady or over the whole run.

    `tokens` is set for whole runs, whose published hours are compared with expected hours. `instances` are the families
    of AWS instances on which the figure was measured: "p5", or "trn1" and "trn1n" where the source names both.
    """

    id: str
    family: str
    label: str
    kind: str
    shape: TrainingShape
    published_tokens_per_s: float
    tokens: float | None
    instances: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether the row has hours of a whole run, including all interruptions."""
        return self.tokens is not None


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, except those that a newer recipe of the same configuration replaces.

    Raises:
        RowsError: the file is unreadable or lacks a column, or a row lacks a figure; the text lists all problems.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RowsError(f"cannot read {path}: {error}") from error
    reader = csv.DictReader(text.splitlines())
    missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
    if missing:
        raise RowsError(f"{path} is not a file of training rows: no column {', '.join(missing)}")
    hardware = load_hardware()
    rows, problems = [], []
    for number, fields in enumerate(reader, start=2):
        if fields.get("superseded_by"):
            continue
        try:
            rows.append(_row({name: value or "" for name, value in fields.items() if isinstance(name, str)}, hardware))
        except ValueError as error:
            problems.append(f"{path}:{number}: {fields.get('id') or 'row'}: {error}")
    if problems:
        raise RowsError("\n".join(problems))
    if not rows:
        raise RowsError(f"{path} has no rows")
    return rows


def _row(fields: Mapping[str, str], hardware: Mapping[str, tuple[Accelerator, int]]) -> Row:
    kind = fields["row_kind"]
    if kind not in KINDS:
        raise ValueError(f"row_kind is {kind!r}, allowed: {', '.join(KINDS)}")
    shape = _shape(fields, hardware)
    whole = kind in {"whole_run", "mlperf_ttt"}
    published = _whole(fields, shape) if whole else _steady(fields, shape)
    return Row(
        id=fields["id"],
        family=fields["source_family"],
        label=fields["accelerator"],
        kind=kind,
        shape=shape,
        published_tokens_per_s=published,
        tokens=_needed(fields, "tokens_B") * 1e9 if whole else None,
        instances=tuple(dict.fromkeys(INSTANCE_FAMILY.findall(fields.get("aws_instance", "")))),
    )


def _shape(fields: Mapping[str, str], hardware: Mapping[str, tuple[Accelerator, int]]) -> TrainingShape:
    mode = fields["mode"]
    if mode not in METHODS:
        raise ValueError(f"mode is {mode!r}, allowed: {', '.join(METHODS)}")
    chip, per_node = hardware.get(fields["accelerator"]) or _akin(fields, hardware) or (_unlisted(fields), 8)
    params_b = _needed(fields, "params_total_B")
    active_b = _number(fields, "params_active_B") or params_b
    layers, hidden = _number(fields, "n_layers"), _number(fields, "d_model")
    chips = int(_number(fields, "accelerator_count") or UNSAID_CHIPS)
    return TrainingShape(
        params_b=params_b,
        active_params_b=min(active_b, params_b),
        layers=int(layers) if layers else None,
        hidden=int(hidden) if hidden else None,
        sequence_length=int(_number(fields, "seq_len") or UNSAID_SEQUENCE),
        global_batch_tokens=_number(fields, "global_batch_tokens"),
        precision=Precision.FP8 if "fp8" in fields["precision"].lower() else Precision.BF16,
        recompute=_recompute(fields),
        micro_batch=_micro_batch(fields),
        method=METHODS[mode],
        stack=_stack(fields),
        expert_parallel=_degree(EXPERT_PARALLEL, fields),
        tensor_parallel=_degree(TENSOR_PARALLEL, fields),
        top_k=int(_number(fields, "top_k") or 0) or None,
        expert_layers=int(_number(fields, "moe_layers") or 0) or None,
        efa=_efa(fields),
        accelerator=chip,
        chips=chips,
        chips_per_node=min(per_node, chips),
    )


def _stack(fields: Mapping[str, str]) -> Stack:
    framework = fields["framework"].lower()
    if AS_SHIPPED.search(framework):
        return Stack.UNTUNED
    if HUGGINGFACE.search(framework):
        return Stack.HUGGINGFACE
    text = f"{fields['framework']} {fields['source_family']}".lower()
    return Stack.TUNED if any(name in text for name in TUNED) else Stack.FRAMEWORK


def _efa(fields: Mapping[str, str]) -> bool:
    """Whether the nodes exchange over EFA: the row names it, or an AWS instance."""
    stated = fields.get("fabric", "")
    if stated:
        return stated == "efa"
    return bool(fields.get("aws_instance")) or AWS_FABRIC.search(fields.get("notes", "").lower()) is not None


def _degree(parallel: re.Pattern[str], fields: Mapping[str, str]) -> int | None:
    match = parallel.search(f"{fields.get('layout', '')} {fields.get('notes', '')}")
    return int(match.group(1)) if match else None


def _micro_batch(fields: Mapping[str, str]) -> int | None:
    stated = _number(fields, "micro_batch")
    if stated is not None:
        return int(stated)
    match = MICRO_BATCH.search(fields.get("notes", "").lower())
    return int(next(filter(None, match.groups()))) if match else None


def _recompute(fields: Mapping[str, str]) -> Recompute:
    text = f"{fields.get('notes', '')} {fields.get('source', '')}".lower()
    if KEEPS.search(text):
        return Recompute.NONE
    if SELECTS.search(text):
        return Recompute.SELECTIVE
    return Recompute.FULL if RECOMPUTES.search(text) else recompute_of(_stack(fields))


def _akin(fields: Mapping[str, str], hardware: Mapping[str, tuple[Accelerator, int]]) -> tuple[Accelerator, int] | None:
    """The known chip with the longest name in the row's label, and with a peak close to the row's; None without one."""
    label, peak = fields["accelerator"].lower(), _number(fields, "peak_bf16_dense_tflops")
    for name in sorted(hardware, key=lambda chip: (-len(chip), chip)):
        known = hardware[name][0].peak_bf16_tflops
        if name.lower() in label and (peak is None or abs(math.log(peak / known)) < math.log(PEAKS_APART)):
            return hardware[name]
    return None


def _unlisted(fields: Mapping[str, str]) -> Accelerator:
    """An unknown chip, from the row's own peak."""
    label = fields["accelerator"]
    peak = _number(fields, "peak_bf16_dense_tflops")
    if not label or peak is None:
        raise ValueError(f"accelerator {label!r} is unknown and the row gives no peak_bf16_dense_tflops")
    neuron = label.lower().startswith("trainium")
    return Accelerator(
        name=label,
        family="neuron" if neuron else "nvidia",
        peak_bf16_tflops=peak,
        peak_fp8_tflops=None if neuron else 2.0 * peak,
        memory_gib=UNSAID_MEMORY_GIB,
        memory_gb_per_s=peak * 1e3 / UNSAID_FLOP_PER_BYTE,
        source="peak from the row; memory and bandwidth assumed",
        confirmed=False,
    )


def _whole(fields: Mapping[str, str], shape: TrainingShape) -> float:
    """Tokens per second of a whole run: its tokens over its hours, or over chip-hours if only those are published."""
    tokens = _needed(fields, "tokens_B") * 1e9
    accelerator_hours = _number(fields, "accel_hours")
    if accelerator_hours is not None:
        return tokens / accelerator_hours / 3600.0 * shape.chips
    _needed(fields, "accelerator_count")
    return tokens / _needed(fields, "wall_hours") / 3600.0


def _steady(fields: Mapping[str, str], shape: TrainingShape) -> float:
    """Tokens per second at steady state; from FLOPs per second or MFU if no throughput was published."""
    per_chip = _number(fields, "tokens_per_s_per_chip") or _number(fields, "tokens_per_s_per_chip_derived")
    if per_chip is not None:
        return per_chip * shape.chips
    total = _number(fields, "tokens_per_s_total")
    if total is not None:
        _needed(fields, "accelerator_count")
        return total
    counted = flops.per_token(shape)
    if "causal" in fields.get("notes", "").lower():
        counted -= flops.attention_per_token(shape) / 2.0
    return _published_mfu(fields, shape) * shape.chips * shape.accelerator.peak_bf16_tflops * 1e12 / counted


def _published_mfu(fields: Mapping[str, str], shape: TrainingShape) -> float:
    """Model FLOPs utilisation as published; figures that count recomputation are reduced to model FLOPs."""
    implied = _number(fields, "implied_mfu_6N_attn_pct")
    if implied is not None:
        return implied / 100.0
    reported = _number(fields, "reported_mfu_pct")
    if reported is not None:
        return reported / 100.0
    recounted = HARDWARE_COUNT.search(fields.get("notes", "").lower()) is not None
    share = _needed(fields, "reported_tflops_per_chip") / shape.accelerator.peak_bf16_tflops
    return share * (MODEL_SHARE_OF_HARDWARE if recounted else 1.0)


def _number(fields: Mapping[str, str], name: str) -> float | None:
    text = fields.get(name, "").strip()
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}, not a number") from None
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {text}; it must be finite and above 0")
    return value


def _needed(fields: Mapping[str, str], name: str) -> float:
    value = _number(fields, name)
    if value is None:
        raise ValueError(f"{name} is missing")
    return value
