"""Lightning: a ModelCheckpoint in Slipway's folder, `fit` from `last`, and data that continues at the next batch.

`train.py [STEPS [STEPS_BETWEEN_CHECKPOINTS]]`. Replace `Line` and `Rows` with your module and your data.
"""

import os
import sys

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.exceptions import SIGTERMException
from torch.utils.data import DataLoader, IterableDataset

STEPS, EVERY = (int(word) for word in (*sys.argv[1:], "20000", "500")[:2])


class Rows(IterableDataset):
    """Batches by step number, because Lightning begins a resumed epoch at its first batch."""

    def __init__(self, begin):
        self.begin = begin

    def __iter__(self):
        for step in range(self.begin, STEPS):
            x = torch.randn(4, 4, generator=torch.Generator().manual_seed(step))
            yield x, x.sum(1, keepdim=True)


class Line(lightning.LightningModule):
    """A regression."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))

    def train_dataloader(self):
        return DataLoader(Rows(self.trainer.global_step), batch_size=None)

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)


class Saving(ModelCheckpoint):
    """Saves at SIGTERM too, and at no other exception: that may come in the middle of a step, or on one rank alone."""

    def on_exception(self, trainer, pl_module, exception):
        self.save_on_exception = isinstance(exception, SIGTERMException)
        super().on_exception(trainer, pl_module, exception)


lightning.seed_everything(1)
saving = Saving(dirpath=os.environ["SLIPWAY_CHECKPOINT_DIR"], every_n_train_steps=EVERY, save_top_k=-1, save_last=True)
trainer = lightning.Trainer(
    max_steps=STEPS,
    callbacks=[saving],
    num_nodes=int(os.environ["SLIPWAY_NODES"]),
    logger=False,
    enable_progress_bar=False,
)
trainer.fit(Line(), ckpt_path="last")
