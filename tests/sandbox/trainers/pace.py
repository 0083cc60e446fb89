"""Runs a training script unchanged, and disturbs it by optimizer steps, not by seconds: `pace.py SCRIPT WORDS...`.

In attempt 1 it waits after `PACE_HOLD` steps until a signal has been handled, and goes on slowly; in attempt 2, at full
speed, it fails after `PACE_CRASH` steps (unset: never). At the end it prints a digest of what was trained.
"""

import hashlib
import itertools
import os
import runpy
import select
import signal
import sys
import time
from pathlib import Path

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

ATTEMPT = os.environ.get("SLIPWAY_ATTEMPT", "0")
HOLD, CRASH = int(os.environ.get("PACE_HOLD", "0")), int(os.environ.get("PACE_CRASH", "-1"))
reads, writes = os.pipe2(os.O_NONBLOCK)
counter, begun, optimizers = itertools.count(1), itertools.count(), {}
groups = set()  # held: gloo's threads and DDP, the last to let go of it, wait for each other (pytorch/pytorch#56297)


def crash(*_):
    """Called before each step of any optimizer: what is saved then is of the step before."""
    if ATTEMPT == "2" and next(begun) == CRASH:
        raise RuntimeError("crash on purpose")


def pace(optimizer, *_):
    """Called after each step of any optimizer."""
    steps = next(counter)
    optimizers[id(optimizer)] = optimizer
    if torch.distributed.is_initialized():
        groups.add(torch.distributed.group.WORLD)
    if ATTEMPT == "1" and steps == HOLD:
        select.select([reads], [], [])
    if ATTEMPT == "1" and steps > HOLD:
        time.sleep(0.3)  # so that the grace time ends before the training


# accelerate 1.7 (LLaMA-Factory) calls the device of a CPU's rank cpu:0, which torch.load does not know.
torch.serialization.register_package(5, lambda _: None, lambda found, place: found if place == "cpu:0" else None)
signal.set_wakeup_fd(writes)
register_optimizer_step_pre_hook(crash)
register_optimizer_step_post_hook(pace)
sys.argv = sys.argv[1:]
sys.path[0] = str(Path.cwd())
try:
    if sys.argv[0] == "-m":
        sys.argv = sys.argv[1:]
        module_globals = runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        module_globals = runpy.run_path(sys.argv[0], run_name="__main__")
except SystemExit as end:
    if end.code:
        raise
digest = hashlib.sha256()
for optimizer in optimizers.values():
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
            digest.update(local.detach().to(torch.float32).contiguous().cpu().numpy().tobytes())
sys.stdout.write(f"trained {digest.hexdigest()}\n")
groups.clear()
