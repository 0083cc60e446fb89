"""What the job's own scripts tell of their trainer, where a plan is read beside them."""

import re
from collections.abc import Iterator
from pathlib import Path

from launcher.model.enums import CheckpointMode
from launcher.model.finding import Finding, warning
from launcher.model.request import PlanRequest
from launcher.workflow.quote.trainer import missing_trainer

_MOST_BYTES = 1 << 20
_SCRIPT = re.compile(r"[\w./-]+\.py\b")
_NEURON_TRAINER = re.compile(
    r"^\s*(?:from|import)\s+optimum\.neuron\b.*?\bNeuron(?:SFT|ORPO|GRPO)?Trainer\b", re.MULTILINE | re.DOTALL
)
"""optimum-neuron 0.4.5, optimum/neuron/trainers/transformers.py:1093-1096: `train(resume_from_checkpoint=...)` raises a
ValueError, and its SFT trainer calls it."""


def trainer_findings(path: Path, request: PlanRequest) -> Iterator[Finding]:
    """A trainer that is not there, or whose script cannot resume; of files that cannot be read nothing is said.

    Args:
        path: of the plan file.
        request: the plan.
    """
    yield from missing_trainer(path, request)
    if request.workload.train is None or request.checkpoint.mode is CheckpointMode.NONE:
        return
    folder = path.resolve().parent / request.run.workdir
    names = dict.fromkeys(name for word in request.run.command for name in _SCRIPT.findall(word))
    for name in names:
        try:
            with (folder / name).open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", errors="replace")
        except OSError:
            continue
        if _NEURON_TRAINER.search(text):
            message = f"{name} trains with optimum.neuron, whose trainer refuses to resume from a checkpoint (0.4.5)"
            hint = "after an interruption it begins at step 0: on-demand, or a trainer of neuronx-distributed"
            yield warning("trainer-cannot-resume", "run.command", message, hint)
