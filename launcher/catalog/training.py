"""Facts of the training estimate from the shipped data.

constants.toml     read or judged numbers with their sources
chips.toml         facts about a chip in addition to its peak and memory
coefficients.json  fitted by benchmarks/fit_training.py, with the data of the fit
runs.csv           published runs and throughputs for the fit and its evaluation; further_runs.csv and
                   later_runs.csv: more of them, in the order in which they were found
judged_runs.csv    published runs found after the fit: they judge it, and no fit has used them
hardware.csv       the accelerators named in the rows of those files
"""

import csv
import math
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.catalog.load import load
from launcher.model.errors import SlipwayError
from launcher.model.instance_type import Accelerator
from launcher.model.training import ChipTraits, Constant, PublishedBatch, Spread, TrainingFacts

DATA = Path(__file__).parent / "data" / "training"
RUNS = DATA / "runs.csv"
FURTHER_RUNS = DATA / "further_runs.csv"
LATER_RUNS = DATA / "later_runs.csv"
JUDGED_RUNS = DATA / "judged_runs.csv"
COEFFICIENTS = DATA / "coefficients.json"
CHIPS_PER_NODE = {"nvidia": 8, "neuron": 16}
"""Chips in one node of the published clusters."""


@lru_cache(maxsize=1)
def load_training() -> TrainingFacts:
    """The facts, read once.

    Raises:
        SlipwayError: a coefficient or a constant violates the estimator's guarantees.
    """
    return facts_from(safe_json.load(COEFFICIENTS))


def facts_from(fitted: Mapping[str, Any]) -> TrainingFacts:
    """The facts of one fit together with the constants and the chips; the benchmark also creates facts from refits.

    Raises:
        SlipwayError: a coefficient or a constant violates the estimator's guarantees.
    """
    rows = fitted["rows_by_chip"]
    chips = tuple(
        ChipTraits(
            name=chip["name"],
            match=chip["match"],
            gbps_per_chip=chip["gbps_per_chip"],
            inference_card=chip.get("inference_card", False),
            rack_scale=chip.get("rack_scale", False),
            rows=dict(rows.get(chip["name"], {})),
            source=chip["source"],
            adapter_report=chip.get("adapter_report", ""),
        )
        for chip in _toml("chips.toml")["chip"]
    )
    constants = {name: _constant(name, constant) for name, constant in _toml("constants.toml").items()}
    facts = TrainingFacts(
        coefficients=dict(fitted["coefficients"]),
        run_framework=fitted["run_framework"],
        run_tuned=fitted["run_tuned"],
        spreads={name: Spread(name=name, **spread) for name, spread in fitted["spreads"].items()},
        run_scale=fitted["run_scale"],
        quantile=fitted["quantile"],
        chips=chips,
        constants=constants,
        fitted_on=fitted["fitted_on"],
        fitted_rows=fitted["fitted_rows"],
        fitted_families=fitted["fitted_families"],
        batches=_batches(),
        instance_rows={family: dict(counts) for family, counts in fitted["rows_by_instance"].items()},
    )
    # Hold a fit to what the promises of the estimator need: signs, and a `step` loss that chips make up for
    for term, value in facts.coefficients.items():
        if not math.isfinite(value) or (value < 0.0 and term != "base"):
            raise SlipwayError(f"coefficient {term} is {value}; it must be finite and not below 0")
    most = {"step": 1.0 / (1.0 + facts.constants["measured_loss_share"].mid), "exchange": 1.0}
    for term, bound in most.items():
        if facts.coefficients[term] > bound:
            raise SlipwayError(
                f"coefficient {term} is {facts.coefficients[term]}; above {bound:.2f} more chips could be slower"
            )
    return facts


def load_hardware() -> dict[str, tuple[Accelerator, int]]:
    """The accelerators in calibration rows, by label, each with their number in one node.

    Includes the catalog's own, other labels of them, and some that AWS does not offer.
    """
    chips = dict(load().accelerators)
    with (DATA / "hardware.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            chips[row["label"]] = chips[row["accelerator"]] if row["accelerator"] else _unsold_accelerator(row)
    return {label: (chip, CHIPS_PER_NODE[chip.family]) for label, chip in chips.items()}


def _unsold_accelerator(row: Mapping[str, str]) -> Accelerator:
    return Accelerator(
        name=row["label"],
        family=row["family"],
        peak_bf16_tflops=float(row["peak_bf16_tflops"]),
        peak_fp8_tflops=float(row["peak_fp8_tflops"]) if row["peak_fp8_tflops"] else None,
        memory_gib=float(row["memory_gib"]),
        memory_gb_per_s=float(row["memory_gb_per_s"]),
        source=row["source"],
    )


@lru_cache(maxsize=1)
def _batches() -> tuple[PublishedBatch, ...]:
    with (DATA / "batches.csv").open(encoding="utf-8", newline="") as file:
        return tuple(
            PublishedBatch(
                moe=row["kind"] == "moe",
                min_params_b=float(row["least_params_b"]),
                tokens=float(row["batch_tokens"]),
                source=row["source"],
                as_of=row["as_of"],
            )
            for row in csv.DictReader(file)
        )


@lru_cache(maxsize=2)
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((DATA / name).read_text(encoding="utf-8"))


def _constant(name: str, table: Mapping[str, Any]) -> Constant:
    constant = Constant(**{**table, "as_of": table["as_of"].isoformat()})
    if not 0.0 <= constant.low <= constant.mid <= constant.high < math.inf:
        raise SlipwayError(f"constant {name} is out of order: {constant.low} {constant.mid} {constant.high}")
    return constant
