# ruff: noqa: ARG002 - the Trainer passes its arguments by these names
"""A callback for Hugging Face's own Trainer: saves on a notice and writes metrics. train.py here does not need it.

    trainer.add_callback(SlipwayCallback())
    trainer.train(resume_from_checkpoint=os.environ.get("SLIPWAY_RESUME_DIR") or None)

Set `output_dir=os.environ["SLIPWAY_CHECKPOINT_DIR"]` in its arguments. The Trainer writes checkpoint-N in place, file
by file; the file `_DONE` marks a complete checkpoint.
"""

import json
import os
import platform
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
import transformers
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments


class SlipwayCallback(TrainerCallback):
    """Saves by the agent's interval and on SIGUSR1, marks checkpoints, writes metrics."""

    def __init__(self) -> None:
        """Listen for SIGUSR1."""
        self._asked = False
        self._began = self._saved_at = time.monotonic()
        signal.signal(signal.SIGUSR1, self._ask)

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Say what this runs on; degrees of parallelism are left out, since what plugs into the Trainer sets them."""
        if state.is_world_process_zero:
            versions = {"transformers": transformers.__version__, "torch": str(torch.__version__)}
            _append({"software": {"python": platform.python_version(), **versions}})

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Save, and leave, when it is time to; all ranks in the same step."""
        due = time.monotonic() - self._saved_at >= _interval_s()
        leave, due = _agreed((self._asked, due), args.device)
        if leave or due:
            control.should_save = True
            self._saved_at = time.monotonic()
        if leave:
            control.should_training_stop = True

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Mark the checkpoint once every rank has written its part."""
        if dist.is_initialized():
            dist.barrier()
        if state.is_local_process_zero:
            (Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / "_DONE").touch()

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **_: Any
    ) -> None:
        """Append a line of metrics."""
        if state.is_world_process_zero and logs and "loss" in logs:
            line = {"step": state.global_step, "steps": state.max_steps, "loss": float(logs["loss"])}
            line["seconds"] = round(time.monotonic() - self._began, 3)
            if state.num_input_tokens_seen:  # counted with include_num_input_tokens_seen
                line["tokens"] = state.num_input_tokens_seen
            if torch.cuda.is_available():
                line["memory_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
            _append(line)

    def _ask(self, _number: int, _frame: FrameType | None) -> None:
        self._asked = True


def _append(line: dict[str, Any]) -> None:
    path = os.environ.get("SLIPWAY_METRICS")
    if path:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def _agreed(questions: tuple[bool, ...], device: torch.device) -> list[bool]:
    """For each question whether any rank says yes."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return list(questions)
    votes = torch.tensor([float(question) for question in questions], device=device)
    dist.all_reduce(votes, op=dist.ReduceOp.MAX)
    return [bool(vote) for vote in votes]


def _interval_s() -> float:
    path = os.environ.get("SLIPWAY_CHECKPOINT_INTERVAL_FILE")
    if path and Path(path).is_file():
        return float(Path(path).read_text(encoding="utf-8"))
    return float(os.environ.get("SLIPWAY_CHECKPOINT_INTERVAL_S", "inf"))
