"""What an optimizer stores for each trained parameter, in memory and in a checkpoint.

Weights and gradients are in bf16 (2 bytes each) in every recipe. `state` are the bytes of everything else that the
optimizer keeps: fp32 master weights where the recipe has them, and the moments.
"""

from typing import NamedTuple

from launcher.model.enums import Optimizer
from launcher.model.instance_type import Accelerator

WEIGHT_BYTES = 2.0
GRADIENT_BYTES = 2.0
DEFAULT = Optimizer.ADAMW
"""The optimizer of a plan that names none: mixed precision, as most published runs."""
LEANER = (Optimizer.ADAMW_BF16, Optimizer.ADAMW_8BIT)
"""What a fine-tuning may use instead where the default does not fit, the better known first."""
TIGHT = "memory-tight"
"""The code of the warning that a job fits only with a leaner recipe than planned."""


LEANER_CODE = "cheaper-with-leaner-optimizer"
"""The code of the note that a cheaper candidate fits only with another optimizer than the default."""


class Recipe(NamedTuple):
    """Bytes of optimizer states for each trained parameter, and the source of the figure."""

    state: float
    content: str
    source: str

    @property
    def checkpoint(self) -> float:
        """Bytes of a checkpoint for each trained parameter: weights and states, no gradients."""
        return WEIGHT_BYTES + self.state

    @property
    def traffic(self) -> float:
        """Bytes that one step of the optimizer reads and writes for each trained parameter."""
        return 2.0 * (WEIGHT_BYTES + self.state) + GRADIENT_BYTES


RECIPES = {
    Optimizer.ADAMW: Recipe(
        12.0, "fp32 master weights and two fp32 moments", "ZeRO 2020, arXiv:1910.02054, section 3.1"
    ),
    Optimizer.ADAMW_BF16: Recipe(
        4.0,
        "two bf16 moments, no master weights",
        "torch.optim.AdamW keeps its moments in the format of the weights; 3.2 B in at most 38.9 GB on one L40S"
        " (huggingface/peft@5d602fdb, MetaMathQA, 2026-07-14)",
    ),
    Optimizer.ADAMW_8BIT: Recipe(
        2.0 + 2.0 * 4.0 / 256.0,
        "two 8-bit moments with one fp32 constant for each block of 256, no master weights",
        "Dettmers 2021, arXiv:2110.02861; block size of bitsandbytes",
    ),
    Optimizer.ADAFACTOR: Recipe(
        0.01, "row and column sums of the second moment, no first moment", "Shazeer 2018, arXiv:1804.04235"
    ),
    Optimizer.SGD: Recipe(0.0, "no state", "torch.optim.SGD without momentum, its default"),
    Optimizer.LION: Recipe(2.0, "one bf16 moment, no master weights", "Chen 2023, arXiv:2302.06675"),
    Optimizer.MUON: Recipe(
        8.0, "fp32 master weights and one fp32 moment", "Liu 2025 (Moonlight), arXiv:2502.16982, section 2"
    ),
}


def leaner_on(chip: Accelerator) -> tuple[Optimizer, ...]:
    """The leaner optimizers that run on a chip: Neuron has no 8-bit states (launcher/planning/limits.py)."""
    return tuple(one for one in LEANER if one is not Optimizer.ADAMW_8BIT or chip.family != "neuron")


def recipe(optimizer: Optimizer | None) -> Recipe:
    """The recipe of an optimizer; None is the default."""
    return RECIPES[optimizer or DEFAULT]
