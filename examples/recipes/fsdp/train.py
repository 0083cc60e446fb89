"""Train a small GPT with FSDP2 and asynchronous distributed checkpoints, on NVIDIA, Trainium or a CPU.

    torchrun --nproc-per-node=2 train.py                                  two processes on this computer
    torchrun --nproc-per-node=2 train.py --checkpoints checkpoints        checkpoints in a folder
    torchrun --nproc-per-node=2 train.py --checkpoints s3://bucket/run    checkpoints directly in S3 (s3torchconnector)

With Slipway, `torchrun train.py` is enough: the batch script gives torchrun the number of nodes and of workers per
node. The place of checkpoints is SLIPWAY_CHECKPOINT_URI with `checkpoint: {mode: dcp}`, otherwise
SLIPWAY_CHECKPOINT_DIR, a folder that the agent uploads. The example shows:

- One source for cuda, neuron and cpu: `torch.accelerator` names the device, `torch.distributed` its backend.
- A checkpoint contains everything that training needs: weights, AdamW's moments, the step, the sampler's position. It
  is copied within a step and written while training continues.
- An interrupted run sees the same data and, with the same number of ranks, ends with the same weights, bit for bit. On
  accelerators, this also needs deterministic kernels (torch.use_deterministic_algorithms).
- All ranks exit together: SIGUSR1 may reach them in different steps, so they agree after every step.

Metrics are JSON lines of rank 0: `step`, `steps` (total), `tokens` (over all attempts), `loss` (nats per byte, mean
over the ranks), `seconds` (of this attempt) and, once after each checkpoint, `checkpoint_seconds`. The first line of
an attempt has the degree of parallelism and the software versions.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from checkpoint import Checkpoints, load
from data import Windows, text
from model import GPT, Shape
from torch import Tensor
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

INTERRUPTED = 85
UNSAVED = 74
_TEXT_BYTES = 1_000_000
_PEAK_RATE = 3e-3
_PACKAGES = ("torch", "torch-neuronx", "torchneuron", "neuronx-cc", "s3torchconnector")


class Stop:
    """Remembers that a signal asked the run to save and leave."""

    def __init__(self) -> None:
        """Listen for SIGUSR1 and SIGTERM."""
        self.asked = False
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


class Run(Stateful):
    """Everything the future of the training depends on."""

    def __init__(self, options: argparse.Namespace, device: torch.device) -> None:
        """A run before its first step."""
        content = text(options.data, _TEXT_BYTES)
        shape = Shape(context=options.context)
        self.config: dict[str, Any] = {
            "shape": asdict(shape),
            "seed": options.seed,
            "steps": options.steps,
            "batch": options.batch,
            "text_sha256": hashlib.sha256(content.numpy().tobytes()).hexdigest(),
        }
        self.windows = Windows(content, context=options.context, batch=options.batch, seed=options.seed)
        self.model = GPT(shape)
        self.model.reset(options.seed)
        self.model.to(device)
        mesh = init_device_mesh(device.type, (dist.get_world_size(),))
        # The sum over the ranks stays in float32; on a CPU all of it does.
        policy = MixedPrecisionPolicy(
            param_dtype=None if device.type == "cpu" else torch.bfloat16, reduce_dtype=torch.float32
        )
        for block in self.model.blocks:
            fully_shard(block, mesh=mesh, mp_policy=policy)
        fully_shard(self.model, mesh=mesh, mp_policy=policy)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=_PEAK_RATE, betas=(0.9, 0.99))
        self.step = 0

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint holds."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {
            "model": model,
            "optimizer": optimizer,
            "windows": self.windows.state_dict(),
            "step": self.step,
            "config": json.dumps(self.config, sort_keys=True),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        config = json.loads(state["config"])
        changed = sorted(name for name in self.config if config.get(name) != self.config[name])
        if changed:
            sys.exit(f"the checkpoint was written with another {', '.join(changed)}: not the same run")
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.windows.load_state_dict(state["windows"])
        self.step = int(state["step"])


def main() -> int:
    """Train, and return 0 when every step is done, 85 when a signal ended it early, 74 when the end is not saved."""
    stop = Stop()
    options = _options()
    device = join()
    run = Run(options, device)
    checkpoints = Checkpoints(options.checkpoints)
    say(f"{dist.get_world_size()} ranks on {device.type}, checkpoints: {options.checkpoints or 'none'}")
    if options.resume:
        load(options.resume, run)
        checkpoints.last_step = run.step
        say(f"resumed from step {run.step} ({options.resume})")
    train(run, options, stop, checkpoints, device)
    say(f"weights sha256 {weights_sha256(run.model)} after step {run.step}")
    dist.destroy_process_group()
    if run.step < options.steps:
        return INTERRUPTED
    return 0 if not options.checkpoints or checkpoints.last_step == run.step else UNSAVED


def join() -> torch.device:
    """Meet the other ranks, and return this rank's device: an accelerator where there is one."""
    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if kind is None:
        torch.set_num_threads(1)  # sums are formed in one order, and ranks do not fight for the cores
        dist.init_process_group("gloo")
        return torch.device("cpu")
    index = int(os.environ["LOCAL_RANK"])
    torch.accelerator.set_device_index(index)
    # gloo beside the accelerator's own: agreements and checkpoints need no accelerator.
    dist.init_process_group(f"cpu:gloo,{kind.type}:{dist.get_default_backend_for_device(kind.type)}")
    return torch.device(kind.type, index)


def train(run: Run, options: argparse.Namespace, stop: Stop, checkpoints: Checkpoints, device: torch.device) -> None:
    """Train from the run's step on, saving now and then, until all steps are done or a signal comes."""
    began = saved_at = time.monotonic()
    written_s: float | None = None
    leave = False
    append({"parallel": {"data": dist.get_world_size()}, "software": software()})
    while run.step < options.steps and not leave:
        loss = step_loss(run, options, device)
        written_s = checkpoints.poll() or written_s
        if run.step == options.steps or run.step % options.log_every == 0:
            report(run, options, mean_over_ranks(loss), time.monotonic() - began, written_s)
            written_s = None
        due = time.monotonic() - saved_at >= interval_s(options)
        leave, due = agree(stop.asked, due)
        if leave or due or run.step == options.steps or (options.every and run.step % options.every == 0):
            written_s = checkpoints.begin(run.step, run) or written_s
            saved_at = time.monotonic()
        time.sleep(options.pause_s)
    written_s = checkpoints.wait() or written_s
    if written_s is not None:
        append({"step": run.step, "checkpoint_seconds": round(written_s, 3)})
    if run.step < options.steps:
        say(f"asked to stop after step {run.step}")


def step_loss(run: Run, options: argparse.Namespace, device: torch.device) -> Tensor:
    """Do one step; this rank's mean cross-entropy in nats per byte."""
    inputs, targets = run.windows.next(dist.get_rank(), dist.get_world_size())
    logits = run.model(inputs.to(device))
    loss = functional.cross_entropy(logits.flatten(0, 1).float(), targets.to(device).flatten())
    loss.backward()
    run.step += 1
    for group in run.optimizer.param_groups:
        group["lr"] = rate(run.step, options.steps)
    run.optimizer.step()
    run.optimizer.zero_grad()
    return loss.detach()


def rate(step: int, steps: int) -> float:
    """The learning rate of a step, counted from 1: a linear warm-up, then a cosine decay to a tenth."""
    warmup = min(50, max(1, steps // 10))
    if step <= warmup:
        return _PEAK_RATE * step / warmup
    return _PEAK_RATE * (0.1 + 0.45 * (1.0 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup))))


def agree(*questions: bool) -> list[bool]:
    """For each question whether any rank says yes: the same answer everywhere, by way of the CPU."""
    votes = torch.tensor([float(question) for question in questions])
    dist.all_reduce(votes, op=dist.ReduceOp.MAX)
    return [bool(vote) for vote in votes]


def mean_over_ranks(loss: Tensor) -> float:
    """The mean of a number over the ranks."""
    total = loss.cpu().double()
    dist.all_reduce(total)
    return float(total) / dist.get_world_size()


def report(run: Run, options: argparse.Namespace, loss: float, seconds: float, written_s: float | None) -> None:
    """Print how far the training is and append a line of metrics, on rank 0."""
    say(f"step {run.step}/{options.steps} loss {loss:.4f} {seconds:.1f} s")
    tokens = run.step * options.batch * options.context
    line = {"step": run.step, "steps": options.steps, "tokens": tokens, "loss": loss, "seconds": round(seconds, 3)}
    if torch.cuda.is_available():
        line["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
    if written_s is not None:
        line["checkpoint_seconds"] = round(written_s, 3)
    append(line)


def append(line: dict[str, Any]) -> None:
    """Append a line of metrics, on rank 0, where somebody wants them."""
    path = os.environ.get("SLIPWAY_METRICS")
    if path and dist.get_rank() == 0:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def software() -> dict[str, str]:
    """What this runs on: Python, what is installed of _PACKAGES, and CUDA and NCCL as PyTorch was built with them."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    if torch.cuda.is_available():
        found |= {"cuda": str(torch.version.cuda), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return found


def interval_s(options: argparse.Namespace) -> float:
    """Seconds between checkpoints; the file is read again each time, because the agent may change it while we train."""
    path = os.environ.get("SLIPWAY_CHECKPOINT_INTERVAL_FILE")
    if path and Path(path).is_file():
        return float(Path(path).read_text(encoding="utf-8"))
    return float(options.interval_s)


def weights_sha256(model: torch.nn.Module) -> str:
    """SHA-256 over names and values of the whole model, in the order of the names; on other ranks than 0 of nothing."""
    whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
    digest = hashlib.sha256()
    for name in sorted(whole):
        digest.update(name.encode())
        digest.update(whole[name].contiguous().numpy().tobytes())
    return digest.hexdigest()


def say(message: str) -> None:
    """Print on rank 0."""
    if dist.get_rank() == 0:
        print(message, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    environment = os.environ.get
    place = environment("SLIPWAY_CHECKPOINT_URI") or environment("SLIPWAY_CHECKPOINT_DIR", "")
    parser.add_argument("--steps", type=int, default=300, help="total number of steps")
    parser.add_argument("--batch", type=int, default=16, help="sequences per step, over all ranks")
    parser.add_argument("--context", type=int, default=64, help="bytes per sequence")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights and of the data order")
    parser.add_argument("--data", default="", metavar="FILE", help="train on this file (default: Python's own modules)")
    parser.add_argument("--every", type=int, default=0, metavar="STEPS", help="save also every STEPS steps")
    parser.add_argument("--log-every", type=int, default=10, metavar="STEPS", help="print every STEPS steps")
    parser.add_argument("--pause-s", type=float, default=0.0, metavar="SECONDS", help="wait after each step")
    parser.add_argument("--checkpoints", default=place, metavar="PLACE", help="a folder or s3://bucket/prefix")
    parser.add_argument("--resume", default=environment("SLIPWAY_RESUME_DIR", ""), metavar="PLACE", help="a checkpoint")
    parser.add_argument("--interval-s", type=float, default=environment("SLIPWAY_CHECKPOINT_INTERVAL_S", "60"))
    options = parser.parse_args()
    ranks = int(environment("WORLD_SIZE", "1"))
    for name in ("steps", "batch", "context", "log_every"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if options.batch % ranks:
        parser.error(f"--batch must be a multiple of the {ranks} ranks, got {options.batch}")
    return options


if __name__ == "__main__":
    sys.exit(main())
