"""Fine-tune a small language model with LoRA, with the loop and the folders of Hugging Face's Trainer.

    python train.py                              train and print the metrics
    python train.py --output-dir checkpoints     the same, with checkpoint-N folders there

Slipway sets the folders through its environment variables (`checkpoint: {mode: agent}`). The example needs only PyTorch
and runs on NVIDIA, Trainium and a CPU; it uses safetensors if it is installed. The example shows:

- A checkpoint contains the adapters, AdamW's moments, the state of dropout's random generator, and the trainer's
  progress, but not the base model. It has a few kilobytes, so it can be written often.
- As with the Trainer, the data order depends on the seed and the epoch, and a resumed run skips the data that it has
  seen: it ends with the same adapters, bit for bit.
- On SIGUSR1 or SIGTERM it finishes the step, saves, and exits with code 85.

Metrics are JSON lines: `step`, `steps`, `tokens` (over all attempts), `loss` (nats per byte, mean since the previous
line), `seconds` (of this attempt).
"""

import argparse
import json
import os
import platform
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import checkpoint
import torch
from model import LanguageModel, LoraConfig, adapter_weights, add_adapters, sha256
from torch import Tensor
from torch.nn import functional

INTERRUPTED = 85
_TEXT_BYTES = 200_000
_PEAK_RATE = 1e-2
_KEEP = 3


class Stop:
    """Remembers that a signal asked the run to save and leave."""

    def __init__(self) -> None:
        """Listen for SIGUSR1 and SIGTERM."""
        self.asked = False
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._ask)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True


class Trainer:
    """The loop: steps, logs, checkpoints."""

    def __init__(self, options: argparse.Namespace, stop: Stop) -> None:
        """A run before its first step."""
        self._options, self._stop = options, stop
        torch.manual_seed(options.seed)  # dropout draws from it
        self.device = torch.accelerator.current_accelerator() or torch.device("cpu")
        lora = LoraConfig()
        model = LanguageModel(context=options.context)
        base = sha256({name: weight.detach() for name, weight in model.named_parameters()})
        add_adapters(model, lora, options.seed)
        self.model = model.to(self.device).train()
        self.config = {"peft_type": "LORA", **asdict(lora), "base_model_sha256": base, "seed": options.seed}
        self.config |= {"steps": options.steps, "batch": options.batch, "context": options.context}
        trained = [weight for weight in model.parameters() if weight.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=_PEAK_RATE)
        self.content = training_text(options.data)
        self.step = 0
        self.log_history: list[dict[str, float]] = []

    def train(self, resume_from: str) -> None:
        """Train until all steps are done or a signal comes."""
        options, stop = self._options, self._stop
        if resume_from:
            self._resume(Path(resume_from))
            print(f"resumed from step {self.step} ({resume_from})", flush=True)
        began = saved_at = time.monotonic()
        losses: list[float] = []
        leave = False
        self._append({"parallel": {"data": 1}, "software": _software()})
        while self.step < options.steps and not leave:
            losses.append(self._training_step())
            last = self.step == options.steps
            if last or self.step % options.logging_steps == 0:
                self._log(sum(losses) / len(losses), time.monotonic() - began)
                losses.clear()
            due = time.monotonic() - saved_at >= interval_s(options)
            due = due or bool(options.save_steps and self.step % options.save_steps == 0)
            leave = stop.asked  # asked once a step: a signal that comes after this line waits for the next
            if options.output_dir and (due or last or leave):
                self._save(Path(options.output_dir))
                saved_at = time.monotonic()
            time.sleep(options.pause_s)
        if self.step < options.steps:
            print(f"asked to stop after step {self.step}", flush=True)

    def _training_step(self) -> float:
        inputs, targets = self._batch()
        logits = self.model(inputs.to(self.device))
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.to(self.device).flatten())
        loss.backward()
        self.step += 1
        for group in self.optimizer.param_groups:  # the Trainer's default: a linear decay
            group["lr"] = _PEAK_RATE * (1.0 - (self.step - 1) / self._options.steps)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return float(loss.detach())

    def _batch(self) -> tuple[Tensor, Tensor]:
        """The batch of the step to come: shuffled by the seed and the epoch, a rest that fills no batch left out."""
        options = self._options
        epoch, position = divmod(self.step, self._steps_per_epoch())
        generator = torch.Generator().manual_seed(options.seed * 1_000_003 + epoch)
        order = torch.randperm((self.content.numel() - 1) // options.context, generator=generator)
        rows = order[position * options.batch : (position + 1) * options.batch]
        windows = self.content[rows.unsqueeze(1) * options.context + torch.arange(options.context + 1)].long()
        return windows[:, :-1], windows[:, 1:]

    def _steps_per_epoch(self) -> int:
        return (self.content.numel() - 1) // self._options.context // self._options.batch

    def _log(self, loss: float, seconds: float) -> None:
        steps = self._options.steps
        print(f"step {self.step}/{steps} loss {loss:.4f} {seconds:.1f} s", flush=True)
        self.log_history.append({"step": self.step, "loss": loss})
        tokens = self.step * self._options.batch * self._options.context
        self._append({"step": self.step, "steps": steps, "tokens": tokens, "loss": loss, "seconds": round(seconds, 3)})

    def _append(self, line: dict[str, Any]) -> None:
        path = os.environ.get("SLIPWAY_METRICS")
        if path:
            with Path(path).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

    def _save(self, output: Path) -> None:
        state = {
            "global_step": self.step,
            "max_steps": self._options.steps,
            "epoch": self.step / self._steps_per_epoch(),
            "log_history": self.log_history,
        }
        checkpoint.save(
            output,
            self.step,
            adapter=adapter_weights(self.model),
            config=self.config,
            optimizer=self.optimizer.state_dict(),
            state=state,
        )
        checkpoint.forget_older(output, _KEEP)

    def _resume(self, folder: Path) -> None:
        adapter, config, optimizer, state = checkpoint.load(folder)
        changed = sorted(name for name in self.config if config.get(name) != self.config[name])
        if changed:
            sys.exit(f"{folder}: written with another {', '.join(changed)}; the same adapters would not come of it")
        self.model.load_state_dict(self.model.state_dict() | adapter)
        self.optimizer.load_state_dict(optimizer)
        self.step, self.log_history = state["global_step"], state["log_history"]


def main() -> int:
    """Train, and return 0 when every step is done or 85 when a signal ended it early."""
    stop = Stop()
    options = _options()
    torch.set_num_threads(1)  # sums are formed in one order
    trainer = Trainer(options, stop)
    trained = adapter_weights(trainer.model)
    every = sum(weight.numel() for weight in trainer.model.parameters())
    print(f"{sum(weight.numel() for weight in trained.values())} of {every} weights on {trainer.device}", flush=True)
    trainer.train(options.resume_from_checkpoint)
    print(f"weights sha256 {sha256(adapter_weights(trainer.model))} after step {trainer.step}", flush=True)
    return 0 if trainer.step == options.steps else INTERRUPTED


def training_text(path: str) -> Tensor:
    """The bytes of a file or, without one, of the standard library's modules, by name: they are wherever Python is."""
    content = bytearray()
    for source in [Path(path)] if path else sorted(Path(os.__file__).parent.glob("*.py")):
        content += source.read_bytes()
        if len(content) >= _TEXT_BYTES:
            break
    return torch.frombuffer(content[:_TEXT_BYTES], dtype=torch.uint8)


def _software() -> dict[str, str]:
    """What this runs on."""
    return {"python": platform.python_version(), "torch": str(torch.__version__)}


def interval_s(options: argparse.Namespace) -> float:
    """Seconds between checkpoints; the file is read again each time, because the agent may change it while we train."""
    path = os.environ.get("SLIPWAY_CHECKPOINT_INTERVAL_FILE")
    if path and Path(path).is_file():
        return float(Path(path).read_text(encoding="utf-8"))
    return float(options.interval_s)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    environment: Any = os.environ.get
    parser.add_argument("--steps", type=int, default=300, help="total number of steps")
    parser.add_argument("--batch", type=int, default=8, help="sequences per step")
    parser.add_argument("--context", type=int, default=64, help="bytes per sequence")
    parser.add_argument("--seed", type=int, default=1, help="seed of adapters, dropout and data order")
    parser.add_argument("--data", default="", metavar="FILE", help="train on this file (default: Python's own modules)")
    parser.add_argument("--save-steps", type=int, default=0, metavar="STEPS", help="save also every STEPS steps")
    parser.add_argument("--logging-steps", type=int, default=10, metavar="STEPS", help="print every STEPS steps")
    parser.add_argument("--pause-s", type=float, default=0.0, metavar="SECONDS", help="wait after each step")
    parser.add_argument("--output-dir", default=environment("SLIPWAY_CHECKPOINT_DIR", ""))
    parser.add_argument("--resume-from-checkpoint", default=environment("SLIPWAY_RESUME_DIR", ""))
    parser.add_argument("--interval-s", type=float, default=environment("SLIPWAY_CHECKPOINT_INTERVAL_S", "60"))
    options = parser.parse_args()
    for name in ("steps", "batch", "context", "logging_steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
