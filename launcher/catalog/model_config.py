"""The dimensions of a model from its Hugging Face config.json, counted or refused by name.

Counted are dense decoders and mixtures of experts with grouped, latent, sliding-window and sparse (indexed) attention,
and hybrids with gated linear attention (Qwen3-Next, Qwen3.5) or Mamba 2 (Nemotron-H). Small terms (norms, biases,
convolutions, routers of dense layers) are left out: the counts are within about 1 % of the published ones.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.agent import safe_json
from launcher.catalog.regular_file import UnusableFileError, read_regular
from launcher.model.model_spec import ModelSpec

MAX_BYTES = 1 << 20
"""Largest config.json that is read: published ones have at most some 100 kB."""
_REVISION_BYTES = 1 << 10
TEXT_PARTS = ("text_config", "llm_config", "language_config")
"""Where multimodal models keep the dimensions of their language model."""
UNCOUNTED_TYPES = {
    **dict.fromkeys(
        ("bert", "roberta", "xlm-roberta", "modernbert", "distilbert", "electra", "deberta-v2", "albert"), "an encoder"
    ),
    **dict.fromkeys(("clip", "clip_vision_model", "siglip", "vit", "dinov2"), "a vision encoder"),
    "bamba": "Mamba layers in parallel",
    "falcon_h1": "Mamba heads beside attention heads",
    "gemma3n": "per-layer embeddings",
    "gemma3n_text": "per-layer embeddings",
    "granitemoehybrid": "Mamba 2 layers of Granite",
    "jamba": "Mamba 1 layers",
    "kimi_linear": "Kimi delta attention and experts in a latent space",
    "lfm2": "convolution layers",
    "lfm2_moe": "convolution layers",
    "mamba": "Mamba 1 layers",
    "mamba2": "Mamba 2 layers without attention",
    "mllama": "cross-attention to images",
    "mllama_text_model": "cross-attention to images",
    "minimax": "lightning attention",
    "nemotron-nas": "layers of different widths",
    "rwkv": "RWKV layers",
    "zamba2": "shared Mamba 2 blocks",
}
"""Architectures whose parameters do not follow from the fields that this module reads."""


EXPERT_WIDTHS = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_ffn_hidden_size", "expert_hidden_dim")
"""Fields with the width of one expert; without one it is the width of a dense layer, as in Mixtral and gpt-oss."""
_OTHER_WIDTH = re.compile(
    r"(?!.*shared?_)(moe|experts?)_(\w+_)?(hidden|intermediate|ffn|inner)(_dim|_size)?|experts?_(dim|width|size)"
)
"""Fields that say by their name how wide an expert is, whatever an architecture calls them."""
TIED = ("gemma", "cohere")
"""Architectures whose input and output embeddings are one matrix unless the file says otherwise."""
INPUT_LEFT_OUT = {"gpt_oss"}
"""Architectures whose published active parameters have no input embedding (gpt-oss model card, arXiv:2508.10925,
table 1). Those of Mixtral, Qwen3, DeepSeek-V3 and Llama 4 have it, and the rows of the training estimate count so."""
_FORMATS = {"fp8": "fp8", "fbgemm-fp8": "fp8", "modelopt fp8": "fp8", "mxfp4": "mxfp4"}
_PACKED = ("gptq", "gptq-marlin", "awq", "awq-marlin", "auto-round", "auto-awq")
"""Methods that store whole numbers of `bits`, with a scale for each group."""


class ModelConfigError(ValueError):
    """Why a config.json gives no dimensions, as the end of a sentence."""


def plan_keys(model: ModelSpec) -> dict[str, object]:
    """The keys of a plan's model: what follows from the file and applies to the architecture."""
    keys: dict[str, object] = {
        "params_b": model.params_b,
        "layers": model.layers,
        "hidden": model.hidden,
        "heads": model.heads,
        "kv_heads": model.kv_heads,
        "vocab": model.vocab,
    }
    if model.is_moe:
        keys |= {"active_params_b": model.active_params_b, "experts": model.experts, "top_k": model.experts_per_token}
    if model.attention_layers != model.layers:
        keys |= {"attention_layers": model.attention_layers, "window": model.window}
    if model.published_format is not None:
        keys["published_format"] = model.published_format
    return keys


def published_format(fields: Mapping[str, Any]) -> str | None:
    """The number format of the weights that a config.json states; None for 16 bits.

    A name that is no ServingPrecision is of a format without an estimate: several formats, or one of other widths.

    >>> published_format({"quantization_config": {"quant_method": "awq", "bits": 4}})
    'int4'
    >>> published_format({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
    'modelopt NVFP4'
    """
    stated = fields.get("quantization_config")
    if not isinstance(stated, dict) or not stated:
        return None
    method = str(stated.get("quant_method") or "").lower().replace("_", "-")
    experts = fields.get("expert_dtype") or stated.get("expert_dtype")
    if experts is not None and str(experts).lower() not in method:
        return f"{method} with experts in {experts}"
    if method == "compressed-tensors":
        return _format_of_groups(stated)
    if method in _PACKED or method == "bitsandbytes":
        return _format_of_width(method, stated)
    algorithm = str(stated.get("quant_algo") or "") if method == "modelopt" else ""
    name = f"{method} {algorithm}".strip()
    return _FORMATS.get(name.lower(), name or "a quantization_config without quant_method")


def _format_of_width(method: str, stated: Mapping[str, Any]) -> str:
    """The format of a file that states the bits of its whole numbers."""
    width = next((stated[name] for name in ("bits", "w_bit") if name in stated), None)
    if method == "bitsandbytes":
        width = 8 if stated.get("load_in_8bit") else 4 if stated.get("load_in_4bit") else None
    known = {"4": "int4", "8": "int8"}
    return known.get(str(width), f"{method} with {width} bits")


def _format_of_groups(stated: Mapping[str, Any]) -> str:
    """The one format of the groups of a compressed-tensors file."""
    groups = stated.get("config_groups")
    parts = groups.values() if isinstance(groups, dict) else ()
    weights = [part.get("weights") for part in parts if isinstance(part, dict)]
    kinds = {(str(part.get("type")), str(part.get("num_bits"))) for part in weights if isinstance(part, dict)}
    known = {("float", "8"): "fp8", ("int", "8"): "int8", ("int", "4"): "int4"}
    if len(kinds) == 1 and kinds <= known.keys():
        return known[kinds.pop()]
    return f"compressed-tensors {stated.get('format') or 'without groups'}"


def cached_config(model_id: str, environment: Mapping[str, str], home: Path) -> Path | None:
    """The config.json of a Hugging Face id in the local cache of huggingface_hub; None if it is not there.

    Args:
        model_id: "org/name".
        environment: where HF_HUB_CACHE or HF_HOME may move the cache.
        home: the user's home folder.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", model_id):
        return None
    root = environment.get("HF_HUB_CACHE")
    hub = Path(root) if root else Path(environment.get("HF_HOME") or home / ".cache" / "huggingface") / "hub"
    folder = hub / f"models--{model_id.replace('/', '--')}"
    try:
        revisions = [read_regular(folder / "refs" / "main", _REVISION_BYTES).decode().strip()]
    except (OSError, ValueError):
        revisions = []
    try:
        revisions += sorted(place.name for place in (folder / "snapshots").iterdir())
    except OSError:
        return None
    places = [folder / "snapshots" / revision / "config.json" for revision in revisions if "/" not in revision]
    return next((place for place in places if place.is_file()), None)


def read_model_config(path: Path) -> ModelSpec:
    """The dimensions of a config.json, or of the one in a folder.

    Raises:
        ModelConfigError: the file is unreadable, is no config.json, or has an architecture that is not counted.
    """
    try:
        place = path / "config.json" if path.is_dir() else path
        document = safe_json.loads(read_regular(place, MAX_BYTES))
    except UnusableFileError as problem:
        raise ModelConfigError(str(problem)) from problem
    except OSError as problem:
        raise ModelConfigError(problem.strerror or "it cannot be read") from problem
    except (ValueError, RecursionError) as problem:
        raise ModelConfigError("it is not JSON") from problem
    return dimensions_of(document)


def dimensions_of(document: object) -> ModelSpec:
    """The dimensions of a parsed config.json.

    Raises:
        ModelConfigError: it lacks a field, or has an architecture that is not counted.
    """
    if not isinstance(document, dict):
        raise ModelConfigError("it is no mapping, as a config.json is")
    # A model of several media states its text model in a part of the file.
    nested = next((document[part] for part in TEXT_PARTS if isinstance(document.get(part), dict)), None)
    fields = {**document, **nested} if nested is not None else document
    return _Counter(fields).dimensions()


class _Counter:
    """Counts the parameters of one text model."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields
        self.type = str(fields.get("model_type") or "unknown")
        self._refuse_uncounted()
        self.hidden = self._required_int("hidden_size", "d_model", "n_embd")
        self.layers = self._layer_count()
        self.heads = self._required_int("num_attention_heads", "n_head")
        self.kv_heads = self._int("num_key_value_heads", "num_kv_heads", "multi_query_group_num") or self.heads
        self.head_dim = self._int("head_dim", "attention_head_dim") or self.hidden // self.heads
        self.vocab = self._required_int("vocab_size", "padded_vocab_size")
        self.experts = self._int("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
        self.top_k = self._int("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_k", "moe_topk")
        self.inter = self._int("intermediate_size", "ffn_hidden_size", "n_inner") or 4 * self.hidden
        if self.type == "qwen":
            # The first Qwen states the sum of the widths of gate and up projection.
            self.inter //= 2
        if self.experts and not self.top_k:
            raise ModelConfigError("it has experts, and no field says how many a token uses")
        unknown = [name for name, value in fields.items() if value and _OTHER_WIDTH.fullmatch(name)]
        if self.experts and unknown and not self._int(*EXPERT_WIDTHS):
            raise ModelConfigError(f"it has experts, and the meaning of {unknown[0]} is not known")
        self.mamba = bool(fields.get("mamba_num_heads"))
        # A gated feed-forward part has three matrices (gate, up, down), a plain one has two.
        self.gate = 2 if self.mamba or str(fields.get("model_type")) in {"gpt2", "gpt_neox", "phi", "starcoder2"} else 3

    def _refuse_uncounted(self) -> None:
        reason = UNCOUNTED_TYPES.get(self.type)
        if reason is None and self._fields.get("is_encoder_decoder"):
            reason = "an encoder beside the decoder"
        if reason is not None:
            raise ModelConfigError(f"model_type {self.type} is not counted ({reason})")

    def _int(self, *names: str) -> int:
        """The first of some fields that is a positive whole number; 0 without one."""
        for name in names:
            value = self._fields.get(name)
            # true is an int in Python.
            if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                return value
        return 0

    def _required_int(self, *names: str) -> int:
        value = self._int(*names)
        if not value:
            raise ModelConfigError(f"it has no {names[0]}, a whole number above 0")
        return value

    def _layer_count(self) -> int:
        kinds = self._fields.get("layers_block_type")
        if isinstance(kinds, list) and kinds:
            return len(kinds)
        pattern = self._fields.get("hybrid_override_pattern")
        if isinstance(pattern, str) and pattern:
            return len(pattern)
        return self._required_int("num_hidden_layers", "num_layers", "n_layer")

    def _per_layer(self, name: str) -> Sequence[Any]:
        """A list with one entry a layer; empty without one."""
        value = self._fields.get(name)
        return value[: self.layers] if isinstance(value, list) and len(value) >= self.layers else ()

    def dimensions(self) -> ModelSpec:
        """The counted dimensions."""
        kinds = [self._kind(layer) for layer in range(self.layers)]
        attention = [self._attention(kind) for kind in kinds]
        mlps = [self._mlp(layer) for layer in range(self.layers)]
        tied = bool(self._fields.get("tie_word_embeddings", self.type.startswith(TIED)))
        # Tied embeddings are one matrix for input and output.
        embeddings = self.vocab * self.hidden * (1 if tied else 2)
        total = embeddings + sum(attention) + sum(whole for whole, _ in mlps)
        active = embeddings + sum(attention) + sum(part for _, part in mlps)
        if self.type in INPUT_LEFT_OUT and not tied:
            active -= self.vocab * self.hidden
        full = kinds.count("full")
        windows = [kind for kind in kinds if kind == "window"]
        return ModelSpec(
            name=self.type,
            params_b=round(total / 1e9, 4),
            active_params_b=round(active / 1e9, 4),
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            vocab=self.vocab,
            intermediate=self.inter,
            experts=self.experts,
            experts_per_token=self.top_k if self.experts else 0,
            moe_layers=sum(self._is_moe(layer) for layer in range(self.layers)) if self.experts else 0,
            moe_intermediate=self._expert_width if self.experts else 0,
            shared_intermediate=self._shared_width if self.experts else 0,
            attention=self._attention_name,
            attention_layers=full,
            window=self._window if windows else 0,
            max_positions=self._int("max_position_embeddings", "seq_length", "max_sequence_length"),
            tied_embeddings=tied,
            kv_values_per_token=sum(self._cached_values(kind) for kind in kinds),
            published_format=published_format(self._fields),
        )

    def _kind(self, layer: int) -> str:
        """What a layer mixes tokens with: full, window, linear, mamba or none."""
        pattern = self._pattern_at(layer)
        if pattern:
            return {"M": "mamba", "*": "full", "mamba": "mamba", "attention": "full"}.get(pattern, "none")
        if self._per_layer("compress_ratios") or self._int("index_topk"):
            return "window"
        listed = self._per_layer("layer_types") or self._per_layer("hybrid_layer_pattern")
        return self._named_kind(str(listed[layer])) if listed else self._periodic_kind(layer)

    def _named_kind(self, name: str) -> str:
        if "mamba" in name or "conv" in name:
            raise ModelConfigError(f"model_type {self.type} is not counted (layers of type {name})")
        if "linear" in name:
            return "linear"
        return "window" if "sliding" in name or "chunked" in name or name == "1" else "full"

    def _periodic_kind(self, layer: int) -> str:
        """The kind of a layer where the file states a period, or nothing."""
        every = self._int("full_attention_interval")
        if every and self._int("linear_num_value_heads"):
            # The last layer of each period has full attention.
            return "full" if (layer + 1) % every == 0 else "linear"
        every = self._int("sliding_window_pattern", "_sliding_window_pattern")
        if every and self._int("sliding_window"):
            return "full" if (layer + 1) % every == 0 else "window"
        window = self._int("sliding_window") if self._fields.get("use_sliding_window", True) else 0
        # A window as long as the context leaves nothing out.
        if not window or window >= (self._int("max_position_embeddings") or window + 1):
            return "full"
        # Gemma 2 alternates, and no field of its file says so.
        return "full" if self.type == "gemma2" and layer % 2 else "window"

    @property
    def _window(self) -> int:
        return self._int("index_topk") + self._int("sliding_window", "attention_chunk_size")

    @property
    def _latent(self) -> bool:
        return self._int("kv_lora_rank") > 0

    @property
    def _attention_name(self) -> str:
        if self._latent:
            return "mla"
        if self.kv_heads == self.heads:
            return "mha"
        return "mqa" if self.kv_heads == 1 else "gqa"

    def _attention(self, kind: str) -> int:
        if kind == "none":
            return 0
        if kind == "mamba":
            return self._mamba_layer()
        if kind == "linear":
            return self._linear_layer()
        if self._latent:
            return self._latent_layer()
        if self._int("o_lora_rank"):
            return self._grouped_output_layer()
        return self._grouped_layer(kind)

    def _grouped_layer(self, kind: str) -> int:
        """Grouped-query attention; Gemma 4 and MiMo have other heads in their full or sliding layers."""
        heads, kv_heads, width = self.heads, self.kv_heads, self.head_dim
        value = self._int("v_head_dim") or width
        shared = False
        if kind == "full" and self._int("global_head_dim"):
            width = value = self._int("global_head_dim")
            kv_heads = self._int("num_global_key_value_heads") or kv_heads
            shared = bool(self._fields.get("attention_k_eq_v"))
        if kind == "window" and self._int("swa_num_key_value_heads"):
            kv_heads = self._int("swa_num_key_value_heads")
        queries = heads * width * (2 if self._fields.get("attn_output_gate") else 1)
        keys = kv_heads * width + (0 if shared else kv_heads * value)
        return self.hidden * (queries + keys + heads * value)

    def _latent_layer(self) -> int:
        # Latent attention: queries and cached values pass through low ranks (DeepSeek-V2, arXiv 2405.04434, 2.1).
        rope, nope = self._int("qk_rope_head_dim"), self._int("qk_nope_head_dim")
        value, rank, cached = self._int("v_head_dim"), self._int("q_lora_rank"), self._int("kv_lora_rank")
        query = self.heads * (nope + rope)
        queries = self.hidden * rank + rank * query if rank else self.hidden * query
        keys = self.hidden * (cached + rope) + cached * self.heads * (nope + value)
        return queries + keys + self.heads * value * self.hidden

    def _grouped_output_layer(self) -> int:
        """DeepSeek V4: one shared head of keys and values, and an output projection in groups of low rank."""
        rank, query = self._int("q_lora_rank"), self.heads * self.head_dim
        output = self._int("o_lora_rank")
        lowered = query * output + max(1, self._int("o_groups")) * output * self.hidden
        return self.hidden * rank + rank * query + self.hidden * self.kv_heads * self.head_dim + lowered

    def _linear_layer(self) -> int:
        keys = self._required_int("linear_num_key_heads") * self._required_int("linear_key_head_dim")
        heads = self._required_int("linear_num_value_heads")
        values = heads * self._required_int("linear_value_head_dim")
        # Gated DeltaNet: query, key, value and output gate, two scalars a head, and the output projection.
        return self.hidden * (2 * keys + 2 * values + 2 * heads) + values * self.hidden

    def _mamba_layer(self) -> int:
        heads = self._required_int("mamba_num_heads")
        inner = heads * self._required_int("mamba_head_dim")
        states = 2 * self._required_int("n_groups") * self._required_int("ssm_state_size")
        # Mamba-2: gate and input, the states B and C of each group, one step size a head, and the output projection.
        return self.hidden * (2 * inner + states + heads) + inner * self.hidden

    @property
    def _expert_width(self) -> int:
        return self._int(*EXPERT_WIDTHS) or self.inter

    @property
    def _shared_width(self) -> int:
        stated = self._int("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim")
        if stated:
            return stated
        shared = self._int("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
        # Llama 4 has one shared expert, and no field of its file says so.
        if not shared and self.type.startswith("llama4"):
            shared = 1
        return shared * self._expert_width

    def _is_moe(self, layer: int) -> bool:
        if not self.experts:
            return False
        pattern = self._pattern_at(layer)
        if pattern:
            return pattern in {"E", "moe"}
        marks = self._per_layer("moe_layer_freq") or self._per_layer("mlp_layer_types")
        if marks:
            return marks[layer] in {1, "sparse", "moe"}
        if layer < self._int("first_k_dense_replace", "moe_first_k_dense_replace", "moe_layer_start_index"):
            return False
        if layer in (self._fields.get("mlp_only_layers") or ()):
            return False
        every = self._int("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_interval")
        return not every or (layer + 1) % every == 0

    def _mlp(self, layer: int) -> tuple[int, int]:
        """Parameters of a layer's feed-forward part: all, and those that a token uses."""
        if self.mamba and not self._is_moe(layer):
            plain = self._pattern_at(layer) in {"-", "mlp"}
            return (2 * self.hidden * self.inter,) * 2 if plain else (0, 0)
        if not self._is_moe(layer):
            width = self._int("intermediate_size_mlp", "dense_intermediate_size") or self.inter
            return (self.gate * self.hidden * width,) * 2
        latent = self._int("moe_latent_size")
        expert = self.gate * (latent or self.hidden) * self._expert_width
        # Every token uses the router, the shared experts, and the projections to and from the latent width.
        always = self.hidden * self.experts + self.gate * self.hidden * self._shared_width + 2 * self.hidden * latent
        if self._fields.get("enable_moe_block"):
            always += self.gate * self.hidden * self.inter
        return always + self.experts * expert, always + self.top_k * expert

    def _pattern_at(self, layer: int) -> str:
        """The mark of a layer in the pattern of a hybrid; empty without a pattern."""
        blocks = self._fields.get("layers_block_type")
        pattern = blocks if isinstance(blocks, list) and blocks else self._fields.get("hybrid_override_pattern")
        return str(pattern[layer]) if isinstance(pattern, list | str) and len(pattern) > layer else ""

    def _cached_values(self, kind: str) -> int:
        """Values that a layer caches for each token; windows are not subtracted."""
        if kind not in {"full", "window"}:
            return 0
        if self._latent:
            return self._int("kv_lora_rank") + self._int("qk_rope_head_dim")
        return (1 if self._int("o_lora_rank") else 2) * self.kv_heads * self.head_dim
