"""DeepSpeed as in its "Getting Started": `initialize`, `save_checkpoint(DIR)`, `load_checkpoint(DIR)`.

`train.py [STEPS [STEPS_BETWEEN_CHECKPOINTS]]`. Replace the model and the data with your own.
"""

import os
import sys

import deepspeed
import torch

STEPS, EVERY = (int(word) for word in (*sys.argv[1:], "20000", "500")[:2])
torch.manual_seed(1)
x = torch.randn(64, 4)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
config = {
    "train_micro_batch_size_per_gpu": 4,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
    "checkpoint": {"use_node_local_storage": True},
}
deepspeed.init_distributed()
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
x = x.to(engine.device)
folder = os.environ["SLIPWAY_CHECKPOINT_DIR"]
engine.load_checkpoint(folder)
while engine.global_steps < STEPS:
    rows = (torch.arange(4) + 4 * engine.global_steps + engine.global_rank) % 64
    loss = torch.nn.functional.mse_loss(engine(x[rows]), x[rows].sum(1, keepdim=True))
    engine.backward(loss)
    engine.step()
    if engine.global_steps % EVERY == 0:
        engine.save_checkpoint(folder)
deepspeed.comm.destroy_process_group()
