"""An emulator of Megatron-LM: trains a regression, and saves, resumes and exits as Megatron-LM does.

Order and names of megatron/training/checkpointing.py at d98e8a64: `iter_{:07d}/mp_rank_00/model_optim_rng.pt` of rank 0
(246), a barrier (1025), then `latest_checkpointed_iteration.txt` by rank 0 (1083); `--load` reads this file (394). With
`--exit-signal-handler`, SIGTERM on any rank saves on all ranks and exits with 0 (training.py:4056).
"""

import argparse
import signal
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--save", type=Path, required=True)
parser.add_argument("--load", type=Path, required=True)
parser.add_argument("--exit-signal-handler", action="store_true")
parser.add_argument("--train-iters", type=int, required=True)
parser.add_argument("--save-interval", type=int, required=True)
given = parser.parse_args()
TRACKER = "latest_checkpointed_iteration.txt"
terminated = torch.zeros(1, dtype=torch.int32)
if given.exit_signal_handler:
    signal.signal(signal.SIGTERM, lambda *_: terminated.fill_(1))


def save(iteration):
    if dist.get_rank() == 0:
        path = given.save / f"iter_{iteration:07d}" / "mp_rank_00" / "model_optim_rng.pt"
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iteration": iteration}, path)
    dist.barrier()
    if dist.get_rank() == 0:
        (given.save / TRACKER).write_text(str(iteration))


dist.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(64, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
iteration = int((given.load / TRACKER).read_text()) if (given.load / TRACKER).is_file() else 0
if iteration:
    state = torch.load(given.load / f"iter_{iteration:07d}" / "mp_rank_00" / "model_optim_rng.pt")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
while iteration < given.train_iters:
    rows = (torch.arange(4) + 4 * iteration + dist.get_rank()) % 64
    loss = torch.nn.functional.mse_loss(model(x[rows]), x[rows].sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    iteration += 1
    received = terminated.clone()
    dist.all_reduce(received)
    if received or iteration % given.save_interval == 0:
        save(iteration)
    if received:
        break
dist.destroy_process_group()
