"""The text and the order in which it is read: the order is a value that a checkpoint holds."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor


def text(path: str, most_bytes: int) -> Tensor:
    """The bytes of a file or, without one, of the standard library's modules, by name: they are wherever Python is."""
    content = bytearray()
    for source in [Path(path)] if path else sorted(Path(os.__file__).parent.glob("*.py")):
        content += source.read_bytes()
        if len(content) >= most_bytes:
            break
    return torch.frombuffer(content[:most_bytes], dtype=torch.uint8)


class Windows:
    """Batches of windows of a text, shuffled anew in every epoch.

    The order of an epoch follows from the seed and the epoch, so that the state is two numbers. It is the order of the
    whole job: a rank takes its rows out of a batch that all of them know, and another number of ranks changes nothing.
    """

    def __init__(self, content: Tensor, *, context: int, batch: int, seed: int) -> None:
        """Begin with the first window of epoch 0.

        Args:
            content: The text, one byte an element.
            context: Tokens a window, >= 1.
            batch: Windows a step over all ranks, >= 1.
            seed: Of the order.
        """
        self._content = content
        self._context = context
        self._batch = batch
        self._seed = seed
        self._windows = (content.numel() - 1) // context
        if self._windows < batch:
            raise ValueError(f"the text has {self._windows} windows of {context} bytes, a batch needs {batch}")
        self._epoch = self._position = 0
        self._order = self._shuffled(0)

    def next(self, rank: int, ranks: int) -> tuple[Tensor, Tensor]:
        """Inputs and targets of a rank in the next step; a rest that fills no batch is left out."""
        if self._position + self._batch > self._windows:
            self._epoch, self._position = self._epoch + 1, 0
            self._order = self._shuffled(self._epoch)
        rows = self._order[self._position : self._position + self._batch][rank::ranks]
        self._position += self._batch
        starts = rows.unsqueeze(1) * self._context
        windows = self._content[starts + torch.arange(self._context + 1)].long()
        return windows[:, :-1], windows[:, 1:]

    def state_dict(self) -> dict[str, int]:
        """Where it is."""
        return {"epoch": self._epoch, "position": self._position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from where `state_dict` was taken."""
        self._epoch, self._position = int(state["epoch"]), int(state["position"])
        self._order = self._shuffled(self._epoch)

    def _shuffled(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
        return torch.randperm(self._windows, generator=generator)
