"""A model as it is served, from the catalog or from the dimensions a plan gives."""

from launcher.model.model_spec import ModelSpec
from launcher.model.serving import ServedModel
from launcher.model.workload import ModelDimensions

REFERENCE_PARAMS_B, REFERENCE_LAYERS, REFERENCE_HIDDEN = 6.74, 32.0, 4096.0
"""Llama 2 7B; depth and width of the published families grow with the cube root of the parameters."""
HEAD_DIM = 128
USUAL_KV_HEADS = 8
"""What most open models since 2023 have."""


def served_model(spec: ModelSpec) -> ServedModel:
    """A model of the catalog."""
    cached = spec.kv_values_per_token
    return ServedModel(
        name=spec.name,
        params_b=spec.params_b,
        layers=spec.layers,
        hidden=spec.hidden,
        heads=spec.heads,
        kv_heads=spec.kv_heads,
        kv_values_per_token=2.0 * spec.layers * spec.kv_heads * spec.head_dim if cached is None else cached,
        architecture=spec.architecture,
        mixture=spec.is_moe,
        latent=spec.attention == "mla",
    )


def from_dimensions(model: ModelDimensions) -> ServedModel:
    """A model given by its dimensions; what is not given is scaled from a 7 B model, with 8 key-value heads.

    >>> model = from_dimensions(ModelDimensions(params_b=8.0))
    >>> round(model.layers), round(model.hidden), model.heads, model.kv_heads
    (34, 4337, 34, 8)
    """
    grown = (model.params_b / REFERENCE_PARAMS_B) ** (1 / 3)
    layers = model.layers or REFERENCE_LAYERS * grown
    hidden = model.hidden or max(64.0, REFERENCE_HIDDEN * grown)
    heads = model.heads or max(1, round(hidden / HEAD_DIM))
    kv_heads = model.kv_heads or min(heads, USUAL_KV_HEADS)
    asked = {"layers": model.layers, "hidden": model.hidden, "heads": model.heads, "kv_heads": model.kv_heads}
    return ServedModel(
        name=f"{model.params_b:g} B",
        params_b=model.params_b,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        kv_values_per_token=2.0 * layers * kv_heads * hidden / heads,
        mixture=model.active_b < model.params_b,
        assumed=tuple(name for name, value in asked.items() if value is None),
    )
