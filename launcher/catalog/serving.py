"""Facts of the serving estimate from the shipped data.

throughput.csv     measured rows: the fit uses them, and one that matches a plan is quoted instead of the estimate
coefficients.json  fitted by benchmarks/fit_serving.py
labels.csv         names of models in rows that differ from the catalog's
formats.csv        number formats of fewer than 16 bits in which models were published
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from launcher.agent import safe_json
from launcher.catalog.load import Catalog, load
from launcher.model.enums import ServingPrecision
from launcher.model.errors import SlipwayError
from launcher.model.model_spec import ModelSpec
from launcher.model.serving import MeasuredServing, ServingFacts

DATA = Path(__file__).parent / "data" / "serving"
ROWS = DATA / "throughput.csv"
COEFFICIENTS = DATA / "coefficients.json"
DEPLOYED = ("vllm + optimum-neuron", "vllm")
"""Engines that this project deploys: only their rows can replace a plan's estimate."""
EARLY = re.compile(r"vllm 0\.[0-5]\.")
_TAILS = re.compile(r"-(hf|instruct|chat|it|gptq|awq|fp8)\b")


@lru_cache(maxsize=1)
def load_serving() -> ServingFacts:
    """The facts, read once.

    Raises:
        SlipwayError: a coefficient is not a positive number.
    """
    return facts_from(safe_json.load(COEFFICIENTS), tuple(_measured_rows(load())), _formats())


def facts_from(
    fitted: Mapping[str, Any],
    measured: tuple[MeasuredServing, ...] = (),
    formats: Mapping[str, ServingPrecision] = MappingProxyType({}),
) -> ServingFacts:
    """The facts of one fit; the benchmark also creates facts from refits.

    Raises:
        SlipwayError: a coefficient is not a positive number.
    """
    for family in ("neuron", "gpu", "mixture"):
        for name, value in fitted[family].items():
            if not 0.0 < value < math.inf:
                raise SlipwayError(f"serving coefficient {family}.{name} is {value}; it must be finite and above 0")
    return ServingFacts(
        neuron=dict(fitted["neuron"]),
        gpu=dict(fitted["gpu"]),
        mixture=dict(fitted["mixture"]),
        spread=dict(fitted["spread"]),
        rows_by_chip=dict(fitted["rows_by_chip"]),
        measured=measured,
        formats=formats,
        fitted_on=fitted["fitted_on"],
    )


def model_of(label: str, catalog: Catalog) -> ModelSpec | None:
    """The catalog's model of a row's label: its name with suffixes such as -Instruct or -GPTQ, or a name in labels.csv.

    None if unknown.
    """
    bare = re.sub(r"\s*\(.*?\)", "", label).strip()
    stripped = _TAILS.sub("", bare.lower())
    for name in (bare, stripped):
        known_label = _labels().get(name.lower())
        spec = catalog.find_model(known_label or name)
        if spec is not None:
            return spec
    return None


@lru_cache(maxsize=1)
def _labels() -> Mapping[str, str]:
    with (DATA / "labels.csv").open(encoding="utf-8", newline="") as file:
        return {row["label"]: row["model"] for row in csv.DictReader(file)}


def _formats() -> Mapping[str, ServingPrecision]:
    """The format of models whose weights were published in fewer than 16 bits."""
    with (DATA / "formats.csv").open(encoding="utf-8", newline="") as file:
        return {row["model"]: ServingPrecision(row["precision"]) for row in csv.DictReader(file)}


def _measured_rows(catalog: Catalog) -> Iterator[MeasuredServing]:
    with ROWS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            engine = row["engine"].lower()
            spec = model_of(row["model"], catalog)
            chip = _chip(row, catalog)
            numbers = [row[name] for name in ("batch", "concurrency", "input_len", "output_len")]
            known = spec is not None and chip is not None and all(number.isdecimal() for number in numbers)
            if not known or not engine.startswith(DEPLOYED) or EARLY.match(engine) or not row["ttft_ms"]:
                continue
            batch, concurrency, inputs, outputs = (int(number) for number in numbers)
            yield MeasuredServing(
                model=spec.name if spec else "",
                accelerator=chip or "",
                tensor_parallel=int(row["tp"]),
                copies=int(row["dp"] or 1),
                precision=ServingPrecision.INT8 if "int8" in row["dtype"] else ServingPrecision.BF16,
                batch=batch,
                concurrency=concurrency,
                input_tokens=inputs,
                output_tokens=outputs,
                tokens_per_s=float(row["output_tok_s"]),
                ttft_ms=float(row["ttft_ms"]),
                tpot_ms=float(row["tpot_ms"]),
                date=row["date"],
                source=row["source"],
            )


def _chip(row: Mapping[str, str], catalog: Catalog) -> str | None:
    """The accelerator of a row of Neuron cores; None for chips whose measured rows no plan uses."""
    known = catalog.accelerators.get(row["accel"])
    return known.name if known is not None and known.family == "neuron" and known.serves else None
