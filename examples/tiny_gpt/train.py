"""Train a small GPT on the source of Python's standard library, with NumPy alone.

    python train.py                                  train and print the metrics
    python train.py --checkpoint-dir checkpoints     the same, with checkpoints in this folder

Slipway sets the folders through its environment variables. The example shows:

- A checkpoint contains everything that training needs: the weights, both moments of Adam, the step. It is written under
  a temporary name, flushed to the disk and renamed, so that it is complete or does not exist.
- The data of a step depends only on (seed, step). A run that was interrupted and resumed therefore sees the same data
  and ends with the same weights, bit for bit. This needs one order of sums: one BLAS thread. Another processor type may
  round differently.
- On SIGUSR1 or SIGTERM it finishes the step, saves, and exits with code 85.

Metrics are JSON lines: `step`, `steps` (total), `tokens` (trained on so far, over all attempts), `loss` (nats per
byte, mean since the previous line), `seconds` (since this attempt began to train).
"""

import argparse
import hashlib
import json
import os
import platform
import shutil
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # read when NumPy is loaded, hence before it

import numpy as np  # noqa: E402
from model import Adam, Arrays, Shape, initial_weights, loss_and_gradients, weights_sha256  # noqa: E402
from numpy.typing import NDArray  # noqa: E402

INTERRUPTED = 85
_TEXT_BYTES = 1_000_000
_STATE, _TENSORS, _SUMMARY = "state.json", "tensors.npz", "weights.json"


class Stop:
    """Remembers that a signal asked the run to save and leave."""

    def __init__(self) -> None:
        """Listen for SIGUSR1 and SIGTERM."""
        self._asked = False
        for number in (signal.SIGUSR1, signal.SIGTERM):
            signal.signal(number, self._ask)

    def asked(self) -> bool:
        """Whether a signal has come."""
        return self._asked

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


@dataclass(slots=True, kw_only=True)
class Run:
    """Everything the future of the training depends on."""

    text: NDArray[np.uint8]
    shape: Shape
    config: dict[str, Any]
    weights: Arrays
    adam: Adam
    step: int = 0


def main() -> int:
    """Train, and return 0 when every step is done or 85 when a signal ended it early."""
    stop = Stop()
    options = _options()
    run = new_run(options)
    if options.resume_dir:
        load(Path(options.resume_dir), run)
        print(f"resumed from step {run.step} ({options.resume_dir})", flush=True)
    else:
        size = sum(value.size for value in run.weights.values())
        print(f"starting: {size} weights, {run.text.size} bytes of text", flush=True)
    train(run, options, stop)
    print(f"weights sha256 {weights_sha256(run.weights)} after step {run.step}", flush=True)
    return 0 if run.step == options.steps else INTERRUPTED


def new_run(options: argparse.Namespace) -> Run:
    """A run before its first step."""
    text = training_text()
    shape = Shape(context=options.context)
    weights = initial_weights(shape, options.seed)
    config = {
        "shape": asdict(shape),
        "seed": options.seed,
        "steps": options.steps,
        "batch": options.batch,
        "text_sha256": hashlib.sha256(text.tobytes()).hexdigest(),
    }
    adam = Adam(weights, peak_rate=3e-3, warmup_steps=min(50, options.steps), steps=options.steps)
    return Run(text=text, shape=shape, config=config, weights=weights, adam=adam)


def train(run: Run, options: argparse.Namespace, stop: Stop) -> None:
    """Train from the run's step on, saving now and then, until all steps are done or a signal comes."""
    began = saved_at = time.monotonic()
    losses: list[float] = []
    append({"parallel": {"data": 1}, "software": {"python": platform.python_version(), "numpy": np.__version__}})
    while run.step < options.steps and not stop.asked():
        inputs, targets = batch_of(run.text, run.step, options)
        loss, gradients = loss_and_gradients(run.weights, run.shape, inputs, targets)
        run.step += 1
        run.adam.update(run.weights, gradients, run.step)
        losses.append(loss)
        last = run.step == options.steps
        if last or run.step % options.log_every == 0:
            mean, seconds = sum(losses) / len(losses), time.monotonic() - began
            losses.clear()
            print(f"step {run.step}/{options.steps} loss {mean:.3f} {seconds:.1f} s", flush=True)
            report(run.step, options.steps, run.step * options.batch * options.context, mean, seconds)
        due = time.monotonic() - saved_at >= interval_s(options) or (options.every and run.step % options.every == 0)
        if options.checkpoint_dir and (due or last or stop.asked()):
            save(Path(options.checkpoint_dir), run)
            saved_at = time.monotonic()
    if run.step < options.steps:
        print(f"asked to stop after step {run.step}", flush=True)


def training_text() -> NDArray[np.uint8]:
    """The first million bytes of the standard library's modules, by name: they are there wherever Python is."""
    content = bytearray()
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        content += path.read_bytes()
        if len(content) >= _TEXT_BYTES:
            break
    return np.frombuffer(bytes(content[:_TEXT_BYTES]), dtype=np.uint8)


def batch_of(
    text: NDArray[np.uint8],
    step: int,
    options: argparse.Namespace,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Inputs and targets of the step after `step`: random windows, which follow from the seed and the step alone."""
    rng = np.random.Generator(np.random.Philox(key=[options.seed, step + 1]))
    starts = rng.integers(0, text.size - options.context - 1, size=options.batch)
    windows = text[starts[:, None] + np.arange(options.context + 1)].astype(np.int64)
    return windows[:, :-1], windows[:, 1:]


def save(folder: Path, run: Run) -> None:
    """Write `step-N`, whole or not at all."""
    target = folder / f"step-{run.step}"
    if target.exists():
        return
    partial = folder / f"tmp-step-{run.step}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tensors = {f"weights/{name}": value for name, value in run.weights.items()}
    tensors |= {f"first/{name}": value for name, value in run.adam.first.items()}
    tensors |= {f"second/{name}": value for name, value in run.adam.second.items()}
    with (partial / _TENSORS).open("wb") as file:
        np.savez(file, **tensors)  # type: ignore[arg-type]  # newer stubs take the first name for an option
    for name, content in ((_SUMMARY, summary_of(run)), (_STATE, {"step": run.step, "config": run.config})):
        (partial / name).write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    for path in (*partial.iterdir(), partial):
        flush(path)
    partial.rename(target)
    flush(folder)


def load(folder: Path, run: Run) -> None:
    """Read a checkpoint into the run."""
    state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    if state["config"] != run.config:
        changed = sorted(name for name in run.config if state["config"].get(name) != run.config[name])
        sys.exit(f"{folder}: written with another {', '.join(changed)}; the same weights would not come of it")
    with np.load(folder / _TENSORS, allow_pickle=False) as tensors:
        for name in run.weights:
            run.weights[name] = tensors[f"weights/{name}"]
            run.adam.first[name] = tensors[f"first/{name}"]
            run.adam.second[name] = tensors[f"second/{name}"]
    run.step = int(state["step"])
    if json.loads((folder / _SUMMARY).read_text(encoding="utf-8")) != summary_of(run):
        sys.exit(f"{folder}: the weights are not those that were saved")


def summary_of(run: Run) -> dict[str, Any]:
    """What names the weights: the step and their SHA-256."""
    return {"step": run.step, "sha256": weights_sha256(run.weights)}


def flush(path: Path) -> None:
    """Have the disk keep a file, or a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def report(step: int, steps: int, tokens: int, loss: float, seconds: float) -> None:
    """Append a line of metrics about a step."""
    append({"step": step, "steps": steps, "tokens": tokens, "loss": round(loss, 4), "seconds": round(seconds, 3)})


def append(line: dict[str, Any]) -> None:
    """Append a line of metrics, where somebody wants them."""
    path = os.environ.get("SLIPWAY_METRICS")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def interval_s(options: argparse.Namespace) -> float:
    """Seconds between checkpoints; the file is read again each time, because the agent may change it while we train."""
    path = os.environ.get("SLIPWAY_CHECKPOINT_INTERVAL_FILE")
    if path and Path(path).is_file():
        return float(Path(path).read_text(encoding="utf-8"))
    return float(options.interval_s)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    environment = os.environ.get
    parser.add_argument("--steps", type=int, default=900, help="total number of steps")
    parser.add_argument("--batch", type=int, default=16, help="sequences per step")
    parser.add_argument("--context", type=int, default=64, help="bytes per sequence")
    parser.add_argument("--seed", type=int, default=1, help="seed of the weights and of the data order")
    parser.add_argument("--every", type=int, default=0, metavar="STEPS", help="save also every STEPS steps")
    parser.add_argument("--log-every", type=int, default=20, metavar="STEPS", help="print every STEPS steps")
    parser.add_argument("--checkpoint-dir", default=environment("SLIPWAY_CHECKPOINT_DIR", ""))
    parser.add_argument("--resume-dir", default=environment("SLIPWAY_RESUME_DIR", ""))
    parser.add_argument("--interval-s", type=float, default=environment("SLIPWAY_CHECKPOINT_INTERVAL_S", "10"))
    options = parser.parse_args()
    for name in ("steps", "batch", "context", "log_every"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
