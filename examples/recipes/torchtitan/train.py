"""torch.distributed.checkpoint in torchtitan's layout (components/checkpoint/dcp.py): `step-N/` with `.metadata`.

Its options are those of torchtitan.
"""

import argparse
import re
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint.enable", dest="enable", action="store_true")
parser.add_argument("--checkpoint.folder", dest="folder", type=Path, required=True)
parser.add_argument("--checkpoint.interval", dest="every", type=int, default=500)
parser.add_argument("--training.steps", dest="steps", type=int, default=20000)
given = parser.parse_args()
device = torch.accelerator.current_accelerator() or torch.device("cpu")
dist.init_process_group()
torch.manual_seed(1)
x = torch.randn(64, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(device)
fully_shard(model, mesh=init_device_mesh(device.type, (dist.get_world_size(),)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = x.to(device)
given.folder.mkdir(parents=True, exist_ok=True)
whole = [path.name for path in given.folder.iterdir() if (path / ".metadata").is_file()]
step = max((int(found[1]) for name in whole if (found := re.fullmatch(r"step-(\d+)", name))), default=0)
if given.enable and step:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=str(given.folder / f"step-{step}"))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
while step < given.steps:
    rows = (torch.arange(4) + 4 * step + dist.get_rank()) % 64
    loss = torch.nn.functional.mse_loss(model(x[rows]), x[rows].sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if given.enable and step % given.every == 0:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=str(given.folder / f"step-{step}"))
dist.destroy_process_group()
