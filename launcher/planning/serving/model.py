"""The served model: of the catalog, or from the dimensions that a plan gives."""

from launcher.catalog.load import Catalog
from launcher.model.model_spec import ModelSpec
from launcher.model.serving import ServedModel
from launcher.model.workload import ModelDimensions, ServingWorkload

REFERENCE_PARAMS_B, REFERENCE_LAYERS, REFERENCE_HIDDEN = 6.74, 32.0, 4096.0
"""Llama 2 7B; depth and width of the published families grow with the cube root of the parameters."""
HEAD_DIM = 128
USUAL_KV_HEADS = 8
"""The number of key-value heads in most open models since 2023."""
USUAL_EXPERTS, USUAL_TOP_K = 128, 8
"""Experts of a layer and of a token in most open mixtures since 2024 (Qwen3, DeepSeek-V3 with 256, GLM-4.5)."""
USUAL_VOCAB = 128_256
"""Rows of the embeddings of Llama 3; most open models since 2024 have 100,000 to 260,000."""


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
        expert_b=3.0e-9 * spec.moe_layers * spec.experts * spec.hidden * spec.moe_intermediate,
        experts=spec.experts,
        experts_per_token=spec.experts_per_token,
        moe_layers=float(spec.moe_layers),
        embedding_b=1e-9 * (1 if spec.tied_embeddings else 2) * spec.vocab * spec.hidden,
        latent=spec.attention == "mla",
    )


def from_dimensions(model: ModelDimensions) -> ServedModel:
    """A model given by its dimensions; missing dimensions are scaled from a 7 B model, with 8 key-value heads.

    >>> model = from_dimensions(ModelDimensions(params_b=8.0))
    >>> round(model.layers), round(model.hidden), model.heads, model.kv_heads
    (34, 4337, 34, 8)
    """
    grown = (model.params_b / REFERENCE_PARAMS_B) ** (1 / 3)
    layers = model.layers or REFERENCE_LAYERS * grown
    hidden = model.hidden or max(64.0, REFERENCE_HIDDEN * grown)
    heads = model.heads or max(1, round(hidden / HEAD_DIM))
    kv_heads = model.kv_heads or min(heads, USUAL_KV_HEADS)
    expert_b, experts, top_k = _experts(model)
    given = {"layers": model.layers, "hidden": model.hidden, "heads": model.heads, "kv_heads": model.kv_heads}
    return ServedModel(
        name=f"{model.params_b:g} B",
        params_b=model.params_b,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        kv_values_per_token=2.0 * layers * kv_heads * hidden / heads,
        expert_b=expert_b,
        experts=experts,
        experts_per_token=top_k,
        moe_layers=layers if experts else 0.0,
        embedding_b=min(0.5 * model.params_b, 2e-9 * (model.vocab or USUAL_VOCAB) * hidden),
        assumed=tuple(name for name, value in given.items() if value is None),
    )


def _experts(model: ModelDimensions) -> tuple[float, int, int]:
    """The experts of a mixture given by its active parameters: billions of their parameters, all, of one token.

    What a token does not use is in other experts.
    """
    if not model.active_b < model.params_b:
        return 0.0, 0, 0
    experts, top_k = model.experts or USUAL_EXPERTS, model.top_k or USUAL_TOP_K
    expert_b = min(model.params_b, (model.params_b - model.active_b) / (1 - min(top_k / experts, 0.99)))
    return expert_b, experts, top_k


def model_of(serve: ServingWorkload, catalog: Catalog) -> ServedModel | None:
    """The served model; None if only Bedrock has its weights."""
    if isinstance(serve.model, ModelDimensions):
        return from_dimensions(serve.model)
    spec = catalog.find_model(serve.model) if serve.model is not None else None
    return served_model(spec) if spec is not None else None
