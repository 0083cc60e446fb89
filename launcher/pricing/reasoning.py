"""Criteria other than cost between GPU and Trainium: the rules of the buying guides of 2026, as data.

Each rule names the circumstance in the plan, its effect, the reason, and the change that would remove it.
"""

from dataclasses import field
from typing import NamedTuple

from launcher.model.enums import CustomKernels, Trait
from launcher.model.record import INTERNAL, record

SOURCE = "public buying guides of 2026 on Trainium, Inferentia and NVIDIA instances, as gathered on 2026-11-20"
MAINTENANCE_WEEKS_PER_MONTH = 0.1
"""Engineer-weeks a month to maintain a second software stack, half a day: an assumption, not measured."""


@record(described=False)
class PortWeeks:
    """Engineer-weeks to port a training job to Neuron, and the wording of the guides."""

    low: float
    mid: float
    high: float
    description: str = field(metadata=INTERNAL)


def _weeks(low: float, mid: float, high: float, description: str) -> PortWeeks:
    return PortWeeks(low=low, mid=mid, high=high, description=description)


PORT_WEEKS = {
    CustomKernels.NONE: _weeks(0.4, 0.6, 1.0, "days for a standard transformer"),
    CustomKernels.SOME: _weeks(1.0, 1.5, 6.0, "1 to 2 weeks for a non-standard one, 4 to 6 to production grade"),
    CustomKernels.HEAVY: _weeks(4.0, 8.0, 26.0, "a month or more, or never, with heavy custom kernels"),
}
"""By the plan's custom_kernels; low, middle and high follow the guides' wording, the middle is a judgement."""


class Rule(NamedTuple):
    """One circumstance. `hard` rules decide for the GPU regardless of cost; other rules are only listed as reasons."""

    name: str
    hard: bool
    reason: str
    # The change that would remove it; empty where that alone changes no recommendation.
    flip: str = ""


TRAITS = {
    Trait.CHANGING_ARCHITECTURE: Rule(
        name="changing-architecture",
        hard=True,
        reason="the architecture changes from week to week: every change is ported and compiled again",
        flip="the architecture settles (drop changing-architecture from workload.train.traits)",
    ),
    Trait.REINFORCEMENT_LEARNING: Rule(
        name="reinforcement-learning",
        hard=True,
        reason="reinforcement learning: its rollout engines and trainers are written for CUDA",
        flip="the job is plain pre-training or fine-tuning (drop reinforcement-learning from the traits)",
    ),
    Trait.PORTABILITY: Rule(
        name="portability",
        hard=True,
        reason="it has to run on other clouds too, which have no Trainium",
        flip="AWS alone is enough (drop portability from the traits)",
    ),
    Trait.LATENCY_CRITICAL: Rule(
        name="latency-critical",
        hard=True,
        reason="the largest speed of a single run counts, not its price",
        flip="the price counts (drop latency-critical from the traits)",
    ),
    Trait.CUDA_TEAM: Rule(
        name="cuda-team",
        hard=False,
        reason="the team works in CUDA: the port and its maintenance take it away from that work",
    ),
}
HEAVY_KERNELS = Rule(
    name="heavy-kernels",
    hard=True,
    reason="heavy custom CUDA or Triton kernels: the port takes a month or more, or never works",
    flip="the kernels have Neuron counterparts (custom_kernels: some), or port_weeks says what the port takes",
)
DEADLINE = Rule(
    name="deadline-shorter-than-the-port",
    hard=True,
    reason="the deadline comes before the port is done",
    flip="purchase.deadline_h is longer than the port and the run together",
)
ONE_OFF = Rule(
    name="one-off",
    hard=False,
    reason="the plan has 1 run, which must pay for the whole port",
)
MAINSTREAM = Rule(
    name="mainstream",
    hard=False,
    reason="a mainstream transformer, trained repeatedly: what the Neuron stack is made for",
    flip="traits: [changing-architecture], or custom_kernels: heavy without port_weeks",
)
CAPACITY = Rule(
    name="capacity",
    hard=False,
    reason="no GPU candidate has a known price",
    flip="GPU capacity comes up: a Capacity Block, or a zone with a spot market",
)
TRAINIUM_CAPACITY = Rule(
    name="trainium-capacity",
    hard=False,
    reason="Trainium cannot be had",
    flip="Trainium capacity comes up: slipway capacity FILE lists the blocks that are for sale",
)
