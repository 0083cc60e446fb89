"""The FSDP example on two gloo ranks: an interruption does not change the result, in S3 and in a folder."""

import importlib.util
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.examples.conftest import ROOT, TORCHRUN, code_of

pytestmark = [pytest.mark.torch, pytest.mark.xdist_group("torch")]

TRAINER = ROOT / "examples" / "recipes" / "fsdp" / "train.py"
COMMAND = [sys.executable, "-m", "torch.distributed.run", str(TRAINER)]
STEPS = 24
SMALL = ["--steps", str(STEPS), "--batch", "4", "--context", "16", "--log-every", "1"]


@pytest.fixture(scope="module")
def run_uninterrupted(start_trainer):
    """The losses and the weights' hash of a run that nothing disturbs and that saves nothing."""
    run = start_trainer(*COMMAND, **TORCHRUN)
    assert code_of(run.alone(*SMALL)) == 0, run.output()
    assert "2 ranks on cpu, checkpoints: none\n" in run.output()
    losses = run.losses()
    assert sorted(losses) == list(range(1, STEPS + 1))
    assert losses[STEPS] < losses[1] - 1
    return losses, run.weights()


@pytest.mark.slow
def test_fsdp_run_after_notice_and_resume_equals_the_uninterrupted_run(
    start_trainer, s3_server, s3torchconnector, run_uninterrupted
):
    """The agent in mode dcp, s3torchconnector, torchrun; a notice in the middle reaches both ranks."""
    environment, keys = s3_server
    run = start_trainer(*COMMAND, **TORCHRUN, **environment)
    first = run.supervised(*SMALL, "--every", "4", "--pause-s", "0.3", mode="dcp")
    run.wait_for_step(6)
    first.send_signal(signal.SIGUSR1)
    assert code_of(first) == 75, run.output()
    reached = max(line["step"] for line in run.metrics())
    assert 6 <= reached < STEPS
    assert {f"step-{reached}/.metadata", f"step-{reached}/__0_0.distcp", f"step-{reached}/__1_0.distcp"} <= set(keys())
    assert code_of(run.supervised(*SMALL, mode="dcp")) == 0, run.output()
    assert f"resumed from step {reached} (s3://checkpoints/run/step-{reached})" in run.output()
    assert (run.losses(), run.weights()) == run_uninterrupted
    assert [event["step"] for event in run.events("checkpoint-uploaded")][-1] == STEPS
    lines = map(json.loads, run.metrics_file.read_text().splitlines())
    assert any("checkpoint_seconds" in line and "checkpoint_step" not in line for line in lines)  # the trainer's own


@pytest.mark.slow
def test_fsdp_run_resumed_from_an_older_checkpoint_equals_the_uninterrupted_run(start_trainer, run_uninterrupted):
    """Without the agent, in a folder: what was written while training went on is that step's state and no later one."""
    run = start_trainer(*COMMAND, **TORCHRUN)
    folder = run.folder / "checkpoints"
    run.alone(*SMALL, "--every", "8", "--pause-s", "0.3", "--checkpoints", str(folder))
    run.wait_for_step(11)
    run.kill()
    assert (folder / "step-8" / ".metadata").is_file()
    assert code_of(run.alone(*SMALL, "--resume", str(folder / "step-8"))) == 0, run.output()
    assert (run.losses(), run.weights()) == run_uninterrupted


def test_fsdp_data_order_does_not_depend_on_the_number_of_ranks():
    import torch

    data = load_module(TRAINER.parent / "data.py")
    content = torch.arange(250, dtype=torch.uint8)

    def windows():
        return data.Windows(content, context=4, batch=6, seed=3)

    whole, parts = windows(), [windows(), windows()]
    batches = []
    for _ in range(25):  # into the third epoch
        inputs, targets = whole.next(0, 1)
        shared = [part.next(rank, 2)[0] for rank, part in enumerate(parts)]
        assert torch.equal(inputs[0::2], shared[0])
        assert torch.equal(inputs[1::2], shared[1])
        assert torch.equal(inputs[:, 1:], targets[:, :-1])
        batches.append(sorted(inputs[:, 0].tolist()))
    assert len({start for batch in batches[:10] for start in batch}) == 60
    assert batches[0] != batches[10]
    again = windows()
    again.load_state_dict(parts[0].state_dict())
    assert torch.equal(again.next(0, 1)[0], whole.next(0, 1)[0])


def load_module(path: Path):
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.server
def test_fsdp_job_on_two_slurm_nodes_resumes_after_a_spot_interruption(tmp_path, s3torchconnector, run_uninterrupted):
    """The example's own plan, smaller: the batch script tells torchrun where to meet, before and after the requeue."""
    plan = yaml.safe_load((TRAINER.parent / "plan.yaml").read_text())
    plan["run"] |= {
        "command": ["torchrun", "train.py", *SMALL, "--every", "4", "--pause-s", "1"],
        "setup": [f"source {shlex.quote(sys.prefix)}/bin/activate", "export PYTHONDONTWRITEBYTECODE=1"],
        "workdir": str(TRAINER.parent),
    }
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(plan))
    command = [sys.executable, "-m", "launcher", "launch", "plan.yaml", "--sandbox", "--yes", "--interrupt-after", "2"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    folder = tmp_path / ".slipway" / "runs" / "fsdp" / "latest"
    attempts = json.loads((folder / "report.json").read_text())["attempts"]
    assert [attempt["ended_by"] for attempt in attempts] == ["spot-interruption", "completed"]
    assert 0 < attempts[1]["resumed_from_step"] == attempts[0]["last_step"] < STEPS
    assert run_uninterrupted[1] in (folder / "logs" / "attempt-2.log").read_text()


@pytest.mark.slow
def test_unwritable_checkpoint_does_not_stop_training_and_fails_the_run(start_trainer):
    run = start_trainer(*COMMAND, **TORCHRUN)
    place = run.folder / "checkpoints"
    place.mkdir()
    (place / "tmp-step-4").mkdir()
    (place / "tmp-step-4" / "__1_0.distcp").mkdir()  # where rank 1 would write its shard
    options = ["--steps", "4", "--batch", "4", "--context", "16", "--log-every", "1", "--every", "2"]
    assert code_of(run.alone(*options, "--checkpoints", str(place))) != 0
    assert sorted(run.losses()) == [1, 2, 3, 4]
    assert (place / "step-2" / ".metadata").is_file()
    assert not (place / "step-4").exists()
    assert "step 4 could not be saved, training goes on: rank 1: " in run.output()
