"""Runs that were measured, and the shapes of jobs they are held against."""

from dataclasses import replace
from datetime import UTC, datetime

from launcher.catalog.training import load_hardware
from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.planning.shape import TrainingShape

HARDWARE = load_hardware()


def measurement(**changes) -> Measurement:
    """Llama 3.1 8B on two nodes of eight H100s, 100,000 tokens/s, with what a test says otherwise."""
    made = Measurement(
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
    return replace(made, **changes)


def job_shape(label="H100-SXM", **changes) -> TrainingShape:
    """A model of 8 B on four nodes of a kind of chip."""
    chip, per_node = HARDWARE[label]
    made = TrainingShape(
        params_b=8.0,
        active_params_b=8.0,
        layers=32,
        hidden=4096,
        accelerator=chip,
        chips=4 * per_node,
        chips_per_node=per_node,
    )
    return replace(made, **changes)
