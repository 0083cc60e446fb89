"""Checkpoints as Hugging Face's Trainer and PEFT lay them out: a folder checkpoint-N, small, without the base model.

- adapter_model.safetensors: the adapters (adapter_model.bin where safetensors is not installed)
- adapter_config.json: their rank, and the hash of the model they belong to
- optimizer.pt: AdamW's moments
- rng_state.pth: the generator that dropout draws from
- trainer_state.json: global_step, epoch, log_history
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

try:
    from safetensors import torch as safetensors
except ImportError:
    safetensors = None

SAFE, PLAIN = "adapter_model.safetensors", "adapter_model.bin"
_CONFIG, _STATE = "adapter_config.json", "trainer_state.json"


def save(
    output: Path, step: int, *, adapter: dict[str, Tensor], config: dict[str, Any], optimizer: Any, state: Any
) -> None:
    """Write checkpoint-N, whole or not at all: under another name, flushed to the disk, renamed into place."""
    target, partial = output / f"checkpoint-{step}", output / f"tmp-checkpoint-{step}"
    if target.exists():
        return
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    tensors = {name: weight.cpu().contiguous() for name, weight in adapter.items()}
    if safetensors is not None:
        safetensors.save_file(tensors, partial / SAFE)
    else:
        torch.save(tensors, partial / PLAIN)
    torch.save(optimizer, partial / "optimizer.pt")
    torch.save({"cpu": torch.get_rng_state(), "accelerator": _accelerator_rng()}, partial / "rng_state.pth")
    for name, content in ((_CONFIG, config), (_STATE, state)):
        (partial / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for path in (*partial.iterdir(), partial):
        _flush(path)
    partial.rename(target)
    _flush(output)


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any], Any, dict[str, Any]]:
    """The adapters, their configuration, the optimizer's state and the trainer's; the generators are set."""
    if (folder / SAFE).is_file():
        if safetensors is None:
            message = f"{folder / SAFE} needs safetensors: pip install safetensors"
            raise SystemExit(message)
        adapter = safetensors.load_file(folder / SAFE)
    else:
        adapter = torch.load(folder / PLAIN, weights_only=True)
    generators = torch.load(folder / "rng_state.pth", weights_only=True)
    torch.set_rng_state(generators["cpu"])
    if generators["accelerator"] is not None:
        _device_module().set_rng_state(generators["accelerator"])
    config, state = (json.loads((folder / name).read_text(encoding="utf-8")) for name in (_CONFIG, _STATE))
    return adapter, config, torch.load(folder / "optimizer.pt", weights_only=True), state


def forget_older(output: Path, keep: int) -> None:
    """Remove all but the newest (`save_total_limit`); the agent has its own copies in the store."""
    found = sorted(output.glob("checkpoint-*"), key=lambda path: int(path.name.removeprefix("checkpoint-")))
    for folder in found[:-keep]:
        shutil.rmtree(folder)


def _accelerator_rng() -> Tensor | None:
    if not torch.accelerator.is_available():
        return None
    state: Tensor = _device_module().get_rng_state()
    return state


def _device_module() -> Any:
    """torch.cuda, torch.neuron: what keeps the accelerator's generator."""
    return torch.get_device_module(torch.accelerator.current_accelerator())


def _flush(path: Path) -> None:
    """Have the disk keep a file, or a folder's entries."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
