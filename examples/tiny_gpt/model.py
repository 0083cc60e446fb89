"""A small GPT in NumPy: forward pass, hand-written backward pass, Adam.

Pre-norm transformer blocks (Radford et al. 2019, GPT-2): x + attention(norm(x)), then x + mlp(norm(x)); learned
positions; GELU in its tanh form (Hendrycks and Gimpel 2016); causal softmax attention; cross-entropy in nats per byte.
"""

import hashlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Arrays = dict[str, Array]

_EPSILON = 1e-5
_GELU_SCALE = math.sqrt(2.0 / math.pi)
_GELU_CUBE = 0.044715  # Hendrycks and Gimpel 2016, section 2
_HIDDEN = 4  # width of the MLP over the width of the model, as in GPT-2


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Sizes of the model: vocabulary (bytes), context in tokens, width, attention heads, layers."""

    vocabulary: int = 256
    context: int = 64
    width: int = 64
    heads: int = 4
    layers: int = 2


def initial_weights(shape: Shape, seed: int, dtype: type[np.floating[Any]] = np.float32) -> Arrays:
    """Weights from a seed: normal with deviation 0.02, less for what is added to the residual stream (GPT-2)."""
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    residual = 0.02 / math.sqrt(2 * shape.layers)

    def normal(rows: int, columns: int, deviation: float = 0.02) -> Array:
        return rng.normal(0.0, deviation, (rows, columns)).astype(dtype)

    width, weights = shape.width, {}
    weights["tokens"] = normal(shape.vocabulary, width)
    weights["positions"] = normal(shape.context, width)
    for layer in range(shape.layers):
        weights[f"{layer}.attention.in"] = normal(width, 3 * width)
        weights[f"{layer}.attention.out"] = normal(width, width, residual)
        weights[f"{layer}.mlp.in"] = normal(width, _HIDDEN * width)
        weights[f"{layer}.mlp.out"] = normal(_HIDDEN * width, width, residual)
        for name, size in (
            ("attention.in", 3 * width),
            ("attention.out", width),
            ("mlp.in", 4 * width),
            ("mlp.out", width),
        ):
            weights[f"{layer}.{name}.bias"] = np.zeros(size, dtype)
        for name in ("norm1", "norm2"):
            weights[f"{layer}.{name}.gain"] = np.ones(width, dtype)
            weights[f"{layer}.{name}.bias"] = np.zeros(width, dtype)
    weights["norm.gain"] = np.ones(width, dtype)
    weights["norm.bias"] = np.zeros(width, dtype)
    weights["head"] = normal(width, shape.vocabulary)
    return weights


def loss_and_gradients(
    weights: Arrays, shape: Shape, inputs: NDArray[np.int64], targets: NDArray[np.int64]
) -> tuple[float, Arrays]:
    """Mean cross-entropy (nats per token) and its gradient by every weight.

    Args:
        weights: As `initial_weights` makes them.
        shape: Sizes of the model.
        inputs: Token ids, one row a sequence.
        targets: The id that follows each of them.
    """
    length = inputs.shape[1]
    gradients: Arrays = {}
    stream: Array = weights["tokens"][inputs] + weights["positions"][:length]
    tapes = []
    for layer in range(shape.layers):
        stream, attention_tape = _attention(weights, f"{layer}.", stream, shape.heads)
        stream, mlp_tape = _mlp(weights, f"{layer}.", stream)
        tapes.append((attention_tape, mlp_tape))
    normed, norm_tape = _norm(stream, weights["norm.gain"], weights["norm.bias"])
    flat = normed.reshape(-1, shape.width)
    loss, slope = _cross_entropy(flat @ weights["head"], targets.reshape(-1))

    gradients["head"] = flat.T @ slope
    back: Array = (slope @ weights["head"].T).reshape(stream.shape)
    back = _norm_back(back, norm_tape, gradients, "norm", weights)
    for layer in reversed(range(shape.layers)):
        attention_tape, mlp_tape = tapes[layer]
        back = _mlp_back(weights, gradients, f"{layer}.", back, mlp_tape)
        back = _attention_back(weights, gradients, f"{layer}.", back, attention_tape)
    gradients["positions"] = np.zeros_like(weights["positions"])
    gradients["positions"][:length] = back.sum(axis=0)
    gradients["tokens"] = np.zeros_like(weights["tokens"])
    np.add.at(gradients["tokens"], inputs, back)
    return loss, gradients


def weights_sha256(weights: Arrays) -> str:
    """SHA-256 over names and values, in the order of the names: equal only where every bit is."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(weights[name]).tobytes())
    return digest.hexdigest()


class Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), with a linear warm-up of the rate and a cosine decay."""

    beta1 = 0.9
    beta2 = 0.99  # a short run: an average over some hundred steps
    epsilon = 1e-8

    def __init__(self, weights: Arrays, *, peak_rate: float, warmup_steps: int, steps: int) -> None:
        """Start with moments of zero."""
        self.first = {name: np.zeros_like(value) for name, value in weights.items()}
        self.second = {name: np.zeros_like(value) for name, value in weights.items()}
        self._peak = peak_rate
        self._warmup = warmup_steps
        self._steps = steps

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 1."""
        if step <= self._warmup:
            return self._peak * step / self._warmup
        progress = (step - self._warmup) / max(1, self._steps - self._warmup)
        return self._peak * (0.1 + 0.9 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress))))

    def update(self, weights: Arrays, gradients: Arrays, step: int) -> None:
        """Change the weights in place by step `step`, counted from 1."""
        scale = self.rate(step) * math.sqrt(1.0 - self.beta2**step) / (1.0 - self.beta1**step)
        for name, gradient in gradients.items():
            first, second = self.first[name], self.second[name]
            first *= self.beta1
            first += (1.0 - self.beta1) * gradient
            second *= self.beta2
            second += (1.0 - self.beta2) * gradient * gradient
            weights[name] -= scale * first / (np.sqrt(second) + self.epsilon)


def _cross_entropy(logits: Array, targets: NDArray[np.int64]) -> tuple[float, Array]:
    """Mean cross-entropy in nats, and its gradient by the logits."""
    rows = np.arange(len(targets))
    logits = logits - logits.max(axis=1, keepdims=True)
    exponentials = np.exp(logits)
    sums = exponentials.sum(axis=1, keepdims=True)
    loss = float((np.log(sums[:, 0]) - logits[rows, targets]).mean())
    slope = exponentials / sums
    slope[rows, targets] -= 1.0
    slope /= len(targets)
    return loss, slope


def _norm(values: Array, gain: Array, bias: Array) -> tuple[Array, tuple[Array, Array]]:
    centred = values - values.mean(axis=-1, keepdims=True)
    inverse = 1.0 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + _EPSILON)
    unit = centred * inverse
    return unit * gain + bias, (unit, inverse)


def _norm_back(back: Array, tape: tuple[Array, Array], gradients: Arrays, name: str, weights: Arrays) -> Array:
    unit, inverse = tape
    axes = tuple(range(back.ndim - 1))
    gradients[f"{name}.gain"] = (back * unit).sum(axis=axes)
    gradients[f"{name}.bias"] = back.sum(axis=axes)
    scaled = back * weights[f"{name}.gain"]
    mean = scaled.mean(axis=-1, keepdims=True)
    along = (scaled * unit).mean(axis=-1, keepdims=True)
    inner: Array = (scaled - mean - unit * along) * inverse
    return inner


def _linear_back(back: Array, inputs: Array, gradients: Arrays, name: str, weights: Arrays) -> Array:
    """Back through `inputs @ weight + bias`: fills in both gradients, returns the one by the inputs."""
    flat = back.reshape(-1, back.shape[-1])
    gradients[name] = inputs.reshape(-1, inputs.shape[-1]).T @ flat
    gradients[f"{name}.bias"] = flat.sum(axis=0)
    return (flat @ weights[name].T).reshape(inputs.shape)


def _attention(weights: Arrays, prefix: str, stream: Array, heads: int) -> tuple[Array, dict[str, Any]]:
    batch, length, width = stream.shape
    normed, norm_tape = _norm(stream, weights[f"{prefix}norm1.gain"], weights[f"{prefix}norm1.bias"])
    projected = normed @ weights[f"{prefix}attention.in"] + weights[f"{prefix}attention.in.bias"]
    split = projected.reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
    query, key, value = (np.ascontiguousarray(part) for part in split)
    scores = (query @ key.transpose(0, 1, 3, 2)) * (1.0 / math.sqrt(width // heads))
    scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf  # no token sees a later one
    scores -= scores.max(axis=-1, keepdims=True)
    attention = np.exp(scores)
    attention /= attention.sum(axis=-1, keepdims=True)
    mixed = (attention @ value).transpose(0, 2, 1, 3).reshape(batch, length, width)
    out = mixed @ weights[f"{prefix}attention.out"] + weights[f"{prefix}attention.out.bias"]
    tape = {
        "normed": normed,
        "norm": norm_tape,
        "query": query,
        "key": key,
        "value": value,
        "attention": attention,
        "mixed": mixed,
    }
    return stream + out, tape


def _attention_back(weights: Arrays, gradients: Arrays, prefix: str, back: Array, tape: dict[str, Any]) -> Array:
    batch, length, width = back.shape
    query, key, value, attention = tape["query"], tape["key"], tape["value"], tape["attention"]
    heads = query.shape[1]
    mixed_back = _linear_back(back, tape["mixed"], gradients, f"{prefix}attention.out", weights)
    per_head = np.ascontiguousarray(mixed_back.reshape(batch, length, heads, width // heads).transpose(0, 2, 1, 3))
    value_back = attention.transpose(0, 1, 3, 2) @ per_head
    attention_back = per_head @ value.transpose(0, 1, 3, 2)
    scores_back = attention * (attention_back - (attention_back * attention).sum(axis=-1, keepdims=True))
    scores_back *= 1.0 / math.sqrt(width // heads)
    query_back = scores_back @ key
    key_back = scores_back.transpose(0, 1, 3, 2) @ query
    projected_back = (
        np.stack((query_back, key_back, value_back)).transpose(1, 3, 0, 2, 4).reshape(batch, length, 3 * width)
    )
    normed_back = _linear_back(projected_back, tape["normed"], gradients, f"{prefix}attention.in", weights)
    return back + _norm_back(normed_back, tape["norm"], gradients, f"{prefix}norm1", weights)


def _mlp(weights: Arrays, prefix: str, stream: Array) -> tuple[Array, dict[str, Any]]:
    normed, norm_tape = _norm(stream, weights[f"{prefix}norm2.gain"], weights[f"{prefix}norm2.bias"])
    hidden = normed @ weights[f"{prefix}mlp.in"] + weights[f"{prefix}mlp.in.bias"]
    squared = hidden * hidden
    bent = np.tanh(_GELU_SCALE * hidden * (1.0 + _GELU_CUBE * squared))
    active = 0.5 * hidden * (1.0 + bent)
    out = active @ weights[f"{prefix}mlp.out"] + weights[f"{prefix}mlp.out.bias"]
    tape = {"normed": normed, "norm": norm_tape, "hidden": hidden, "squared": squared, "bent": bent, "active": active}
    return stream + out, tape


def _mlp_back(weights: Arrays, gradients: Arrays, prefix: str, back: Array, tape: dict[str, Any]) -> Array:
    hidden, squared, bent = tape["hidden"], tape["squared"], tape["bent"]
    active_back = _linear_back(back, tape["active"], gradients, f"{prefix}mlp.out", weights)
    inner = _GELU_SCALE * (1.0 + 3.0 * _GELU_CUBE * squared)
    hidden_back = active_back * (0.5 * (1.0 + bent) + 0.5 * hidden * (1.0 - bent * bent) * inner)
    normed_back = _linear_back(hidden_back, tape["normed"], gradients, f"{prefix}mlp.in", weights)
    return back + _norm_back(normed_back, tape["norm"], gradients, f"{prefix}norm2", weights)
