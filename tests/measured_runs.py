"""Measured runs, and shapes of jobs for comparison with them."""

import json
from dataclasses import replace
from datetime import UTC, datetime

from launcher.catalog.load import load
from launcher.catalog.training import load_hardware
from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.planning.shape import TrainingShape
from launcher.records import run_folder

HARDWARE = load_hardware()


def measurement(**changes) -> Measurement:
    """Llama 3.1 8B on two nodes of eight H100s, 100,000 tokens/s, with a test's changes."""
    baseline = Measurement(
        model="llama-3.1-8b",
        params_b=8.03,
        active_params_b=8.03,
        method=Method.FULL,
        precision=Precision.BF16,
        recompute=Recompute.SELECTIVE,
        stack=Stack.FRAMEWORK,
        sequence_length=8192,
        global_batch_tokens=None,
        instance_type="p5.48xlarge",
        accelerator="H100",
        accelerators=16,
        nodes=2,
        tokens_per_s=Range(low=99_000.0, mid=100_000.0, high=101_000.0),
        step_s=None,
        checkpoint_write_s=None,
        restore_s=None,
        boot_s=None,
        run="tiny/20261120T120000Z",
        image=None,
        revision=None,
        measured_at=datetime(2026, 11, 20, tzinfo=UTC),
        simulated=False,
    )
    return replace(baseline, **changes)


def job_shape(label="H100-SXM", **changes) -> TrainingShape:
    """A model of 8 B on four nodes with one kind of chip."""
    chip, per_node = HARDWARE[label]
    baseline = TrainingShape(
        params_b=8.0,
        active_params_b=8.0,
        layers=32,
        hidden=4096,
        accelerator=chip,
        chips=4 * per_node,
        chips_per_node=per_node,
    )
    return replace(baseline, **changes)


CATALOG = load()
PLAN = {
    "slipway": 1,
    "name": "tiny",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 2.0, "sequence_length": 8192}},
    "target": {"instance_type": "p5.48xlarge", "nodes": 2, "region": "us-east-2"},
    "purchase": {"option": "on-demand"},
}
SPAN = {"low": 8.0, "mid": 10.0, "high": 12.0}
QUOTE = {
    "digest": "d" * 64,
    "az_id": None,
    "spot": None,
    "components": [],
    "target": "parallelcluster",
    "instance_type": "p5.48xlarge",
    "accelerator": "H100",
    "accelerators": 16,
    "nodes": 2,
    "region": "us-east-2",
    "purchase_option": "on-demand",
    "usd_per_hour": "110",
    "serving": None,
    "hours": SPAN,
    "usd": {"low": "900", "mid": "1100", "high": "1300"},
    "training": {
        "tokens_per_s": {"low": 90_000.0, "mid": 110_000.0, "high": 130_000.0},
        "mfu": {"low": 0.35, "mid": 0.42, "high": 0.49},
    },
}
REPORT = {
    "name": "tiny",
    "status": "succeeded",
    "scheduler": "slurm",
    "simulated": False,
    "attempts": [
        {
            "started_at": "2026-11-20T12:05:00+00:00",
            "ended_at": "2026-11-20T23:05:00+00:00",
            "exit_code": 0,
            "ended_by": "completed",
            "resumed_from_step": 0,
            "last_step": 9,
        }
    ],
    "quoted": {"usd": "1100", "hours": 10.0, "usd_per_hour": "110", "prices_as_of": "2026-11-20"},
    "stacks": [],
    "verified_resources": [],
    "not_emulated": [],
}
EVENTS = [
    {"at": "2026-11-20T12:00:00+00:00", "event": "submitted", "job": "1"},
    {"time": "2026-11-20T12:05:00Z", "event": "attempt-started", "attempt": 1},
    {"time": "2026-11-20T18:05:00Z", "event": "restored", "attempt": 1, "step": 5, "seconds": 40.5},
    {"time": "2026-11-20T23:05:00Z", "event": "completed", "attempt": 1, "exit_code": 0, "ended_by": "completed"},
]


def lines(rate: float, *, tokens: bool = True) -> list[dict[str, float]]:
    """Metrics of two attempts, each with its own seconds and slow first steps; a million tokens per step."""
    metrics = []
    for first in (0, 10):
        seconds = 100.0
        for number in range(1, 11):
            step = first + number
            metrics.append({"step": step, "seconds": round(seconds, 3)} | ({"tokens": step * 10**6} if tokens else {}))
            seconds += 1e6 / rate * (1.1 if number % 2 else 1 / 1.1)
    return [*metrics, {"checkpoint_step": 10, "checkpoint_seconds": 12.0}]


def written_run(root, metrics, *, plan=PLAN, simulated=False):
    """The folder of a run with the given lines of metrics."""
    folder = run_folder.create("tiny", datetime(2026, 11, 20, 12, tzinfo=UTC), root)
    for name, document in {"plan": plan, "quote": QUOTE, "report": REPORT | {"simulated": simulated}}.items():
        folder.write_json(f"{name}.json", document)
    folder.events.write_text("".join(json.dumps(event) + "\n" for event in EVENTS))
    (folder.path / "job").mkdir()
    (folder.path / "job" / "metrics.jsonl").write_text("".join(json.dumps(metric) + "\n" for metric in metrics))
    return folder
