"""A small language model, and low-rank adapters for it (Hu et al. 2021): W x + (alpha / r) B A x, with W frozen."""

import hashlib
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

TARGETS = ("linear1", "linear2", "head")
"""Names of the linear layers that get an adapter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoraConfig:
    """Rank r, alpha, and the dropout in front of A; 0 <= dropout < 1."""

    r: int = 4
    lora_alpha: int = 8
    lora_dropout: float = 0.05


class LoraLinear(nn.Module):
    """A frozen linear layer with a low-rank adapter, which changes nothing at first: B is zero."""

    def __init__(self, base: nn.Linear, config: LoraConfig, generator: torch.Generator) -> None:
        """Wrap a layer."""
        super().__init__()
        self.base = base
        self.dropout = nn.Dropout(config.lora_dropout)
        bound = 1.0 / math.sqrt(base.in_features)
        self.lora_A = nn.Parameter(torch.empty(config.r, base.in_features).uniform_(-bound, bound, generator=generator))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, config.r))
        self.scale = config.lora_alpha / config.r

    @property
    def weight(self) -> Tensor:
        """The frozen weight, which PyTorch's encoder layer looks at."""
        return self.base.weight

    @property
    def bias(self) -> Tensor:
        """The frozen bias."""
        return self.base.bias

    def forward(self, inputs: Tensor) -> Tensor:
        """The layer's answer and the adapter's."""
        result: Tensor = self.base(inputs) + self.dropout(inputs) @ self.lora_A.T @ self.lora_B.T * self.scale
        return result


class LanguageModel(nn.Module):
    """Bytes in, logits over the next byte out."""

    def __init__(self, *, context: int, width: int = 64, layers: int = 2, seed: int = 0) -> None:
        """The "pretrained" model: its weights follow from a seed and stay as they are."""
        super().__init__()
        self.tokens = nn.Embedding(256, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 256)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for name, weight in self.named_parameters():
                if weight.dim() == 2:
                    weight.copy_(torch.randn(weight.shape, generator=generator) / math.sqrt(weight.shape[1]))
                else:
                    weight.fill_(1.0 if "norm" in name and name.endswith("weight") else 0.0)
        self.requires_grad_(False)  # noqa: FBT003 - PyTorch's own signature

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits for the byte after each token."""
        length = tokens.shape[1]
        stream = self.tokens(tokens) + self.positions(torch.arange(length, device=tokens.device))
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        for block in self.blocks:
            stream = block(stream, src_mask=mask, is_causal=True)
        logits: Tensor = self.head(stream)
        return logits


def add_adapters(model: LanguageModel, config: LoraConfig, seed: int) -> None:
    """Put an adapter on every layer of TARGETS."""
    generator = torch.Generator().manual_seed(seed)
    for owner in list(model.modules()):
        for name, layer in list(owner.named_children()):
            if name in TARGETS and isinstance(layer, nn.Linear):
                setattr(owner, name, LoraLinear(layer, config, generator))


def adapter_weights(model: nn.Module) -> dict[str, Tensor]:
    """What is trained, and all that a checkpoint needs of the weights."""
    return {name: weight.detach() for name, weight in model.named_parameters() if weight.requires_grad}


def sha256(weights: dict[str, Tensor]) -> str:
    """SHA-256 over names and values, in the order of the names: equal only where every bit is."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(weights[name].cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
