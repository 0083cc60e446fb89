"""Measures tokens per second of the field's own trainers on the accelerators at hand, for `slipway plan`.

    python -m benchmarks.measure_training MODEL --type g6e.xlarge [--method lora] [--stack huggingface]
        [--sequence 4096] [--micro-batch 1] [--recompute full] [--steps 20] [--warm-up 5] [--repeats 3] [-o FILE]

It trains MODEL (a name of `slipway models`, or the path of a Hugging Face config.json) with random weights on random
tokens: `huggingface` is Hugging Face's Trainer (LoRA and QLoRA by peft), `framework` is torch's FSDP. Several chips
need `torchrun --nproc-per-node N -m benchmarks.measure_training ...`. Steps before `--warm-up` do not count. The result
is one line of slipway.measurement/1 in measurements.jsonl, which `plan`, `quote` and `compare` read.

It needs torch, transformers and peft (`make setup-trainers` installs them), and bitsandbytes for QLoRA. Without a GPU
the measurement is marked `simulated`: it shows that the program runs, and no quote uses it.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    BitsAndBytesConfig,
    LlamaConfig,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.step_rates import rates
from launcher.catalog.load import load
from launcher.catalog.model_config import read_model_config
from launcher.model.enums import Method, Precision, Recompute, Stack
from launcher.model.instance_type import InstanceType
from launcher.model.measurement import MEASUREMENTS, Measurement
from launcher.model.model_spec import ModelSpec
from launcher.records.measurements import add_measurement

METHODS = (Method.FULL, Method.PRETRAIN, Method.LORA, Method.QLORA)
STACKS = (Stack.HUGGINGFACE, Stack.FRAMEWORK)
RECOMPUTES = (Recompute.NONE, Recompute.FULL)
RANK = 16
"""Of the adapters, on every linear layer: the usual recipe of peft's and TRL's examples."""
SOFTWARE = ("torch", "transformers", "peft", "accelerate", "bitsandbytes")


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measure_training", description=__doc__.split("\n")[0])
    parser.add_argument("model", help="a name of `slipway models`, or the path of a Hugging Face config.json")
    parser.add_argument("--type", required=True, help="the instance type that this machine is, or whose chips it has")
    parser.add_argument("--method", type=Method, choices=METHODS, default=Method.LORA)
    parser.add_argument("--stack", type=Stack, choices=STACKS, default=Stack.HUGGINGFACE)
    parser.add_argument("--sequence", type=int, default=4096, help="tokens per sequence")
    parser.add_argument("--micro-batch", type=int, default=1, help="sequences per chip and step")
    parser.add_argument("--recompute", type=Recompute, choices=RECOMPUTES, default=Recompute.FULL)
    parser.add_argument("--steps", type=int, default=20, help="measured steps of a repeat")
    parser.add_argument("--warm-up", type=int, default=5, help="steps of a repeat that do not count")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=Path(MEASUREMENTS))
    given = parser.parse_args(words)
    for name in ("sequence", "micro_batch", "steps", "repeats"):
        if getattr(given, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(given, name)}")
    if given.stack is Stack.FRAMEWORK and given.method not in {Method.FULL, Method.PRETRAIN}:
        parser.error(f"--stack framework trains every weight: it has no {given.method}; use --stack huggingface")
    return given


class Model:
    """What is trained: its dimensions, and how it is made with random weights."""

    def __init__(self, name: str) -> None:
        """A model of the catalog, or of a config.json.

        Raises:
            SystemExit: neither exists, or it is not a dense decoder.
        """
        spec, path = load().find_model(name), Path(name)
        if spec is not None:
            self.name, self.params_b, self.active_params_b = spec.name, spec.params_b, spec.active_params_b
            self.config = _config(spec)
        elif path.exists():
            sizes = read_model_config(path)
            self.name, self.params_b = f"{sizes.params_b:g}B", sizes.params_b
            self.active_params_b = sizes.active_params_b or sizes.params_b
            self.config = AutoConfig.from_pretrained(path)
        else:
            raise SystemExit(f"{name} is no model of `slipway models`, and no path of a config.json")

    def make(self, given: argparse.Namespace, device: torch.device) -> Any:
        """The model on a device, with adapters if the method has them."""
        self.config.use_cache = False
        if given.method is Method.QLORA:
            model = self._quantized(device)
        else:
            # Mixed precision keeps the trained weights in fp32; frozen ones are loaded in bf16.
            dtype = torch.bfloat16 if given.method is Method.LORA else torch.float32
            with torch.device(device):
                model = AutoModelForCausalLM.from_config(self.config, dtype=dtype)
        if given.method in {Method.LORA, Method.QLORA}:
            model = get_peft_model(model, LoraConfig(r=RANK, target_modules="all-linear", task_type="CAUSAL_LM"))
        if given.recompute is Recompute.FULL:
            model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            if hasattr(model, "enable_input_require_grads"):
                model.enable_input_require_grads()
        return model

    def _quantized(self, device: torch.device) -> Any:
        """Random weights in 4 bits: bitsandbytes quantizes while a model is read, so that it is written first."""
        four_bits = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=torch.bfloat16,
        )
        with tempfile.TemporaryDirectory() as folder:
            AutoModelForCausalLM.from_config(self.config, dtype=torch.bfloat16).save_pretrained(folder)
            return AutoModelForCausalLM.from_pretrained(
                folder, quantization_config=four_bits, dtype=torch.bfloat16, device_map={"": device}
            )


def _config(spec: ModelSpec) -> LlamaConfig:
    """Llama's architecture with the dimensions of a dense decoder of the catalog."""
    if spec.architecture != "decoder" or spec.active_params_b < spec.params_b or not spec.gated_mlp:
        raise SystemExit(f"{spec.name} is not a dense decoder with a gated MLP: give the path of its config.json")
    return LlamaConfig(
        hidden_size=spec.hidden,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        intermediate_size=spec.intermediate,
        vocab_size=spec.vocab,
        tie_word_embeddings=spec.tied_embeddings,
        max_position_embeddings=131072,
    )


class RandomTokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    """Sequences of random tokens, each its own labels."""

    def __init__(self, count: int, length: int, vocab: int) -> None:
        """`count` sequences of `length` tokens."""
        self._rows = torch.randint(0, vocab, (min(count, 64), length), generator=torch.Generator().manual_seed(0))
        self._count = count

    def __len__(self) -> int:
        """The number of sequences."""
        return self._count

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """One sequence."""
        row = self._rows[index % len(self._rows)]
        return {"input_ids": row, "labels": row}


class Clock(TrainerCallback):
    """The times at which steps ended, with the device idle."""

    def __init__(self) -> None:
        """No step has ended."""
        self.ends: list[float] = []

    def on_step_end(self, *_arguments: Any, **_named: Any) -> None:
        """A step ended."""
        self.ends.append(_now())


def _now() -> float:
    """Seconds, once the device has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def by_trainer(model: Any, given: argparse.Namespace, vocab: int) -> list[float]:
    """The ends of the steps of one run of Hugging Face's Trainer."""
    steps, clock = given.warm_up + given.steps + 1, Clock()
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=given.micro_batch,
            optim="adamw_torch_fused",
            bf16=torch.cuda.is_available(),
            use_cpu=not torch.cuda.is_available(),
            report_to=[],
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            dataloader_num_workers=0,
        )
        rows = RandomTokens(steps * given.micro_batch * _world(), given.sequence, vocab)
        trainer = Trainer(model=model, args=settings, train_dataset=rows, callbacks=[clock])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.ends


def by_fsdp(model: Any, given: argparse.Namespace, vocab: int, device: torch.device) -> list[float]:
    """The ends of the steps of a plain loop with torch's FSDP, every layer a unit."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.get_decoder().layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    tokens = torch.randint(0, vocab, (given.micro_batch, given.sequence), device=device)
    ends = []
    for _ in range(given.warm_up + given.steps + 1):
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        ends.append(_now())
    return ends


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _join_group() -> None:
    """Join the process group that FSDP needs; without torchrun it has one member."""
    for name, value in (("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "0"), ("RANK", "0"), ("WORLD_SIZE", "1")):
        os.environ.setdefault(name, value)
    torch.distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")


def measure(given: argparse.Namespace) -> Measurement:
    """Train and measure.

    Raises:
        SystemExit: the type or the model does not exist, or its chips are not those of this machine.
    """
    facts = instance_type(given.type)
    name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else "cpu"
    model, device = Model(given.model), torch.device(name)
    train: Callable[..., list[float]] = by_trainer
    if given.stack is Stack.FRAMEWORK:
        _join_group()
        train = partial(by_fsdp, device=device)
    ends = [train(model.make(given, device), given, model.config.vocab_size) for _ in range(given.repeats)]
    batch = given.micro_batch * given.sequence * _world()
    tokens, seconds = rates(ends, given.warm_up, batch)
    now, simulated = datetime.now(UTC), not torch.cuda.is_available()
    return Measurement(
        model=model.name,
        params_b=model.params_b,
        active_params_b=model.active_params_b,
        method=given.method,
        precision=Precision.BF16,
        recompute=given.recompute,
        stack=given.stack,
        sequence_length=given.sequence,
        global_batch_tokens=float(batch),
        instance_type=facts.name,
        accelerator=facts.accelerator or "",
        accelerators=_world(),
        nodes=max(1, _world() // facts.accelerators),
        tokens_per_s=tokens,
        step_s=seconds.mid,
        step_range_s=seconds,
        checkpoint_write_s=None,
        restore_s=None,
        boot_s=None,
        run=f"measure-training/{now:%Y%m%dT%H%M%SZ}",
        image=None,
        revision=None,
        measured_at=now,
        simulated=simulated,
        memory_gib=None if simulated else torch.cuda.max_memory_allocated() / 2**30,
        software=tuple((name, version) for name in SOFTWARE if (version := _version(name))),
    )


def instance_type(name: str) -> InstanceType:
    """The type of the catalog.

    Raises:
        SystemExit: there is none with accelerators, or its chips are not those of this machine.
    """
    facts = load().instance_types.get(name)
    if facts is None or facts.accelerator is None:
        raise SystemExit(f"{name} is no instance type with accelerators: `slipway prices show` lists them")
    here = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    chip = facts.accelerator.partition("-")[0]
    if here and chip.lower() not in here.lower():
        raise SystemExit(f"this machine has {here}, {name} has {facts.accelerator}: name a type with the chips at hand")
    return facts


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def main(words: Sequence[str] | None = None) -> int:
    """Measure, and append the line."""
    given = arguments(words)
    measured = measure(given)
    if int(os.environ.get("RANK", "0")) == 0:
        add_measurement(given.output, measured)
        print(
            f"{measured.rate.mid:,.0f} tokens/s ({measured.rate.low:,.0f} to {measured.rate.high:,.0f}): {given.output}"
        )
        if measured.simulated:
            print("this machine has no GPU: the measurement is marked simulated, and no quote uses it", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
