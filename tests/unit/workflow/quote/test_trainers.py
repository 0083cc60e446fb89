"""Detecting a trainer that cannot resume, from the command's script."""

import pytest

from launcher.workflow.quote.price import trainer_findings
from tests.plans import laid_over, request_of

BASE = {
    "slipway": 1,
    "name": "n",
    "workload": {"train": {"model": "llama-3.1-8b", "hours": 2}},
    "run": {"command": "torchrun --nproc_per_node 32 sft.py --lr 1e-4", "workdir": "job"},
}
NEURON = "import torch\nfrom optimum.neuron import (\n    NeuronSFTConfig,\n    NeuronSFTTrainer,\n)\n"


@pytest.mark.parametrize(
    "text,mode,expected",
    [
        (NEURON, "agent", ["trainer-cannot-resume"]),
        (NEURON, "none", []),
        ("from transformers import Trainer\n", "agent", []),
        ("from optimum.neuron import pipeline\n", "agent", []),
        (None, "agent", []),
    ],
)
def test_trainer_findings_follow_script_and_checkpoint_mode(tmp_path, text, mode, expected):
    (tmp_path / "job").mkdir()
    if text is not None:
        (tmp_path / "job" / "sft.py").write_text(text)
    request = request_of(laid_over(BASE, {"checkpoint": {"mode": mode}}))
    assert [finding.code for finding in trainer_findings(tmp_path / "plan.yaml", request)] == expected
