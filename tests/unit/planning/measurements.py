"""Measurements that posteriors learn from."""

import math
from dataclasses import replace

from launcher.catalog.load import load
from launcher.catalog.training import load_training
from launcher.model.measurement import Measurement
from launcher.model.money import Range
from launcher.planning.posterior import estimated_tokens_per_s
from launcher.planning.shape import TrainingShape
from tests.measured_runs import measurement

FACTS = load_training()


H100 = load().accelerators["H100"]


SHAPE = TrainingShape(
    params_b=8.03,
    active_params_b=8.03,
    layers=32,
    hidden=4096,
    sequence_length=8192,
    accelerator=H100,
    chips=16,
    chips_per_node=8,
)


def measured(times: float, *, spread_of: float = 0.02, nodes: int = 2, **changes) -> Measurement:
    """A run that was so many times as fast as its estimate."""
    rate = times * estimated_tokens_per_s(replace(SHAPE, chips=8 * nodes), FACTS)
    rate_range = Range(low=rate * math.exp(-1.645 * spread_of), mid=rate, high=rate * math.exp(1.645 * spread_of))
    return replace(measurement(accelerators=8 * nodes, nodes=nodes, tokens_per_s=rate_range), **changes)
