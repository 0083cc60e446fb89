"""torch.distributed.checkpoint in torchtitan's layout (components/checkpoint/dcp.py): `step-N/` with `.metadata`."""

import os
import re
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")
torch.manual_seed(1)
x = torch.randn(64, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
steps = [
    int(m[1]) for p in folder.iterdir() if (m := re.fullmatch(r"step-(\d+)", p.name)) and (p / ".metadata").is_file()
]
step = max(steps, default=0)
if step:
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments}
    dcp.load(state, checkpoint_id=str(folder / f"step-{step}"))
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
while step < 60:
    rows = (torch.arange(4) + 4 * step + dist.get_rank()) % 64
    loss = torch.nn.functional.mse_loss(model(x[rows]), x[rows].sum(1, keepdim=True))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
    if step % 10 == 0:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=str(folder / f"step-{step}"))
dist.destroy_process_group()
