"""The dimensions of a transformer, from which Slipway computes its size, memory and arithmetic."""

from launcher.model.record import record


@record
class ModelSpec:
    """One model. Widths are elements, counts of parameters billions unless a name says otherwise.

    A dimension that does not apply is zero: the expert fields of a dense model, the low ranks without multi-head latent
    attention, the cross-attention layers of any model but an encoder-decoder.
    """

    name: str
    params_b: float
    """All parameters, in 1e9: the exact published count if known, else the published size."""
    active_params_b: float
    """Parameters used for one token, as published; vendors often leave the embeddings out. Dense: `params_b`."""
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    """Width of one head; for latent attention, of its part without rotary encoding."""
    vocab: int
    """Rows of the embedding matrix as stored, padding included."""
    intermediate: int
    """Width of a dense layer's MLP; of one expert if every layer is a mixture of experts."""
    aliases: tuple[str, ...] = ()
    family: str = ""
    architecture: str = "decoder"
    """"decoder", "encoder" or "encoder-decoder"."""
    input: str = "text"
    """The kind of input: "text" or "audio"."""
    published_params: int | None = None
    """The exact count, if found."""
    cross_attention_layers: int = 0
    tied_embeddings: bool = False
    output_head: bool = True
    """Whether the model projects to its vocabulary: some embedding models do not."""
    gated_mlp: bool = True
    attention: str = "mha"
    """"mha", "gqa", "mqa" or "mla"."""
    attention_layers: int | None = None
    """Layers with full attention; the others see `window` tokens, none if that is 0. None: all layers."""
    window: int = 0
    positions: str = "rope"
    """The position encoding: "rope", "alibi", "relative", or "learned", which has parameters."""
    max_positions: int = 0
    experts: int = 0
    experts_per_token: int = 0
    moe_layers: int = 0
    moe_intermediate: int = 0
    """Width of one routed expert."""
    shared_intermediate: int = 0
    """Sum of the widths of the shared experts of one layer."""
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    rope_head_dim: int = 0
    value_head_dim: int = 0
    kv_values_per_token: int | None = None
    """Cached elements per token over all layers, ignoring attention windows; None if not applicable."""
    published_format: str | None = None
    """The number format of the published weights, if config.json states one: a ServingPrecision, or another name."""
    license: str = ""
    license_basis: str = ""
    basis: str = ""
    """A Basis: the evidence for the dimensions."""
    source: str = ""
    count_source: str = ""
    note: str = ""

    @property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return self.experts > 0
