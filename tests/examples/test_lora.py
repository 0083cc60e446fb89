"""The LoRA example: interruptions do not change the result, folders are complete, a kill leaves nothing torn."""

import importlib.util
import json
import signal
import sys

import pytest

from tests.examples.conftest import ROOT, code_of

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

FOLDER = ROOT / "examples" / "lora"
COMMAND = [sys.executable, str(FOLDER / "train.py")]
STEPS = 60
SMALL = ["--steps", str(STEPS), "--batch", "4", "--context", "16", "--logging-steps", "1"]
FILES = {"adapter_config.json", "optimizer.pt", "rng_state.pth", "trainer_state.json"}

WITH_TRAINER = """
import os, signal, sys
import torch
from torch import nn
from transformers import Trainer, TrainerCallback, TrainingArguments
from slipway_callback import SlipwayCallback

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    def forward(self, x, labels):
        return {"loss": ((self.layers(x).squeeze(-1) - labels) ** 2).mean()}

class Notice(TrainerCallback):
    def on_step_begin(self, args, state, control, **_):
        if state.global_step == int(sys.argv[1]):
            signal.raise_signal(signal.SIGUSR1)

inputs = torch.randn(40, 4, generator=torch.Generator().manual_seed(1))
data = [{"x": x, "labels": x.sum() % 3.0} for x in inputs]
arguments = TrainingArguments(
    output_dir=os.environ["SLIPWAY_CHECKPOINT_DIR"], max_steps=12, per_device_train_batch_size=4, logging_steps=1,
    save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=3, remove_unused_columns=False,
)
trainer = Trainer(model=Model(), args=arguments, train_dataset=data, callbacks=[Notice(), SlipwayCallback()])
trainer.train(resume_from_checkpoint=os.environ.get("SLIPWAY_RESUME_DIR") or None)
print("weights", torch.cat([each.detach().flatten() for each in trainer.model.parameters()]).tolist())
"""


@pytest.fixture(scope="module")
def uninterrupted_lora(start_trainer):
    """A run that nothing disturbs; its checkpoints are in the folder out."""
    run = start_trainer(*COMMAND)
    assert code_of(run.alone(*SMALL, "--save-steps", "12", "--output-dir", str(run.folder / "out"))) == 0, run.output()
    losses = run.losses()
    assert sorted(losses) == list(range(1, STEPS + 1))
    assert losses[STEPS] < losses[1] - 1
    return run


def test_lora_run_after_notice_and_resume_equals_the_uninterrupted_run(start_trainer, s3_server, uninterrupted_lora):
    """The agent in mode agent: a notice in the middle, then another node with nothing but the store."""
    environment, keys = s3_server
    run = start_trainer(*COMMAND, **environment)
    first = run.supervised(*SMALL, "--save-steps", "5", "--pause-s", "0.1", mode="agent")
    run.wait_for_step(12)
    first.send_signal(signal.SIGUSR1)
    assert code_of(first) == 75, run.output()
    reached = max(line["step"] for line in run.metrics())
    assert 12 <= reached < STEPS
    assert f"step-{reached}/manifest.json" in keys()
    (run.folder / "scratch").rename(run.folder / "gone")
    assert code_of(run.supervised(*SMALL, mode="agent")) == 0, run.output()
    assert f"resumed from step {reached} " in run.output()
    assert (run.losses(), run.weights()) == (uninterrupted_lora.losses(), uninterrupted_lora.weights())
    assert run.events("checkpoint-uploaded")[-1]["step"] == STEPS


def test_lora_checkpoint_folders_are_as_of_hugging_face_and_the_newest_are_kept(start_trainer, uninterrupted_lora):
    folder = uninterrupted_lora.folder / "out"
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint-36", "checkpoint-48", "checkpoint-60"]
    for path in folder.iterdir():
        names = {file.name for file in path.iterdir()}
        assert names - {"adapter_model.safetensors", "adapter_model.bin"} == FILES
        assert len(names) == len(FILES) + 1
    state = json.loads((folder / "checkpoint-48" / "trainer_state.json").read_text())
    assert (state["global_step"], state["max_steps"], len(state["log_history"])) == (48, STEPS, 48)


@pytest.mark.slow
def test_lora_run_resumed_from_an_older_checkpoint_equals_the_uninterrupted_run(start_trainer, uninterrupted_lora):
    run = start_trainer(*COMMAND)
    folder = uninterrupted_lora.folder / "out"
    assert code_of(run.alone(*SMALL, "--resume-from-checkpoint", str(folder / "checkpoint-36"))) == 0, run.output()
    later = {step: loss for step, loss in uninterrupted_lora.losses().items() if step > 36}
    assert (run.losses(), run.weights()) == (later, uninterrupted_lora.weights())
    assert code_of(run.alone(*SMALL, "--seed", "2", "--resume-from-checkpoint", str(folder / "checkpoint-36"))) == 1
    assert "checkpoint-36: written with another seed; the same adapters would not come of it" in run.output()


@pytest.mark.slow
def test_hugging_face_trainer_with_the_callback_resumes_without_a_difference(start_trainer):
    if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("accelerate") is None:
        pytest.skip("not installed: transformers and accelerate (pip install transformers accelerate)")
    results = {}
    for name, notices in (("never", [-1]), ("once", [5, -1])):
        run = start_trainer(sys.executable, "-c", WITH_TRAINER)
        folder = run.folder / "out"
        places = {"PYTHONPATH": str(FOLDER), "SLIPWAY_CHECKPOINT_DIR": str(folder)}
        for notice in notices:
            resume = str(folder / "checkpoint-6") if run.attempt else ""
            assert code_of(run.alone(str(notice), SLIPWAY_RESUME_DIR=resume, **places)) == 0, run.output()
            if notice >= 0:
                assert (folder / "checkpoint-6" / "_DONE").is_file(), run.output()
                assert max(line["step"] for line in run.metrics()) <= 6
        weights = next(line for line in run.output().splitlines() if line.startswith("weights "))
        results[name] = (run.losses(), weights)
    assert sorted(results["never"][0]) == list(range(1, 13))
    assert results["once"] == results["never"]
