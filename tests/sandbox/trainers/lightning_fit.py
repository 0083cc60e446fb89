"""Lightning's Trainer as its documentation begins: a module, a ModelCheckpoint, fit with `ckpt_path`."""

import os

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, TensorDataset


class Line(lightning.LightningModule):
    """A regression."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


lightning.seed_everything(1)
x = torch.randn(4, 4).repeat(16, 1)  # Lightning begins a resumed epoch at its first batch: each is the same
data = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
saving = ModelCheckpoint(
    dirpath=os.environ["SLIPWAY_CHECKPOINT_DIR"], every_n_train_steps=10, save_top_k=-1, save_last=True
)
trainer = lightning.Trainer(
    max_steps=60,
    callbacks=[saving],
    accelerator="cpu",
    devices=1,
    num_nodes=int(os.environ["SLIPWAY_NODES"]),
    logger=False,
    enable_progress_bar=False,
)
trainer.fit(Line(), data, ckpt_path="last")
