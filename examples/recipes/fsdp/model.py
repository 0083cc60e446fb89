"""A small GPT in PyTorch: pre-norm blocks, learned positions, causal attention (Radford et al. 2019, GPT-2)."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

_HIDDEN = 4  # width of the MLP over the width of the model, as in GPT-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the model: vocabulary (bytes), context in tokens, width, attention heads, layers."""

    vocabulary: int = 256
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)): what FSDP shards and gathers as one."""

    def __init__(self, shape: Shape) -> None:
        """Build it; the weights are set by `GPT.reset`."""
        super().__init__()
        self._heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.up = nn.Linear(shape.width, _HIDDEN * shape.width)
        self.down = nn.Linear(_HIDDEN * shape.width, shape.width)

    def forward(self, stream: Tensor) -> Tensor:
        """The residual stream after this block."""
        batch, length, width = stream.shape
        query, key, value = (
            part.view(batch, length, self._heads, width // self._heads).transpose(1, 2)
            for part in self.qkv(self.norm1(stream)).split(width, -1)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        stream = stream + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        inner: Tensor = stream + self.down(functional.gelu(self.up(self.norm2(stream)), approximate="tanh"))
        return inner


class GPT(nn.Module):
    """The model: bytes in, logits over the next byte out."""

    def __init__(self, shape: Shape) -> None:
        """Build it; the weights are set by `reset`."""
        super().__init__()
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.context, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        self._residual = 0.02 / math.sqrt(2 * shape.layers)

    def reset(self, seed: int) -> None:
        """Weights that follow from a seed, drawn on the CPU: the same on every rank and every device."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if weight.dim() == 2:
                    deviation = self._residual if name.endswith(("out.weight", "down.weight")) else 0.02
                    weight.copy_(torch.randn(weight.shape, generator=generator) * deviation)
                else:
                    weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits for the byte after each token; tokens: ids, one row a sequence."""
        stream = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            stream = block(stream)
        logits: Tensor = self.head(self.norm(stream))
        return logits
