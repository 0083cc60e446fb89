"""A loop as accelerate's guide has it: `save_state` into `step_N`, `load_state`, `skip_first_batches`."""

import os
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset

set_seed(1)
accelerator = Accelerator(cpu=True)
x = torch.randn(64, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
model, optimizer, data = accelerator.prepare(model, optimizer, data)
folder, resume, step = os.environ["SLIPWAY_CHECKPOINT_DIR"], os.environ.get("SLIPWAY_RESUME_DIR"), 0
if resume:
    accelerator.load_state(resume)
    step = int(Path(resume).name.removeprefix("step_"))
begun = step
for _ in range(step // len(data), 100):
    batches = accelerator.skip_first_batches(data, step % len(data)) if step == begun else data
    for a, b in batches:
        if step >= 60:
            continue
        loss = torch.nn.functional.mse_loss(model(a), b)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step % 10 == 0:
            accelerator.save_state(f"{folder}/step_{step}")
accelerator.end_training()
