"""The parameter count of a transformer, computed from its dimensions.

The terms are those of the published architectures: projections of attention, MLP or experts with their router,
embeddings, output head, learned positions, an encoder's pooler. Norms, biases, attention sinks and the convolutions
before an audio encoder are left out: they are small, and which of them exist differs per family.
"""

from launcher.model.model_spec import ModelSpec


def count_parameters(spec: ModelSpec) -> int:
    """Parameters of the whole model.

    Within 1 % of every published count in the catalog but those that tests/data names with their reason.

    >>> count_parameters(
    ...     ModelSpec(
    ...         name="llama-3.1-8b",
    ...         params_b=8.030261248,
    ...         active_params_b=8.030261248,
    ...         layers=32,
    ...         hidden=4096,
    ...         heads=32,
    ...         kv_heads=8,
    ...         head_dim=128,
    ...         vocab=128256,
    ...         intermediate=14336,
    ...     )
    ... )
    8029995008
    """
    dense = (spec.layers - spec.moe_layers) * _dense_mlp(spec)
    sparse = spec.moe_layers * _experts(spec, spec.experts)
    return _attention(spec) + dense + sparse + _embeddings(spec)


def count_active_parameters(spec: ModelSpec) -> int:
    """Parameters whose weights one token touches, embeddings and output head included.

    For a dense model all of them. Published active sizes often leave the embeddings out, so they can be lower.
    """
    dense = (spec.layers - spec.moe_layers) * _dense_mlp(spec)
    sparse = spec.moe_layers * _experts(spec, spec.experts_per_token)
    return _attention(spec) + dense + sparse + _embeddings(spec)


def _attention(spec: ModelSpec) -> int:
    """All layers: queries, keys, values, output, cross-attention; latent attention as in arXiv:2405.04434."""
    layers = spec.layers + spec.cross_attention_layers
    if not spec.kv_lora_rank:
        return layers * 2 * spec.hidden * spec.head_dim * (spec.heads + spec.kv_heads)
    query_width = spec.heads * (spec.head_dim + spec.rope_head_dim)
    queries = spec.q_lora_rank * (spec.hidden + query_width) if spec.q_lora_rank else spec.hidden * query_width
    compressed = spec.hidden * (spec.kv_lora_rank + spec.rope_head_dim)
    expanded = spec.kv_lora_rank * spec.heads * (spec.head_dim + spec.value_head_dim)
    output = spec.heads * spec.value_head_dim * spec.hidden
    return layers * (queries + compressed + expanded + output)


def _dense_mlp(spec: ModelSpec) -> int:
    """One dense layer: two matrices, three with a gate."""
    return (3 if spec.gated_mlp else 2) * spec.hidden * spec.intermediate


def _experts(spec: ModelSpec, routed: int) -> int:
    """One mixture-of-experts layer: `routed` of its experts (gated), the shared ones, the router."""
    return 3 * spec.hidden * (routed * spec.moe_intermediate + spec.shared_intermediate) + spec.hidden * spec.experts


def _embeddings(spec: ModelSpec) -> int:
    """Input embedding, an output head of its own, learned positions, an encoder's pooler."""
    copies = 2 if spec.output_head and not spec.tied_embeddings else 1
    positions = spec.max_positions * spec.hidden if spec.positions == "learned" else 0
    pooler = spec.hidden * spec.hidden if spec.architecture == "encoder" else 0
    return copies * spec.vocab * spec.hidden + positions + pooler
