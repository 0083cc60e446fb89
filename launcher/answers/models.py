"""`slipway models`: the catalog's models, as a table, as one page and as JSON."""

from collections.abc import Sequence
from typing import Literal

from launcher.answers.lines import fold
from launcher.answers.table import Column, render
from launcher.model.model_spec import ModelSpec
from launcher.records.codec import Json, as_json
from launcher.records.document import fill_record, json_object


@json_object
class ModelObject:
    """What is known of a model."""

    name: str
    aliases: tuple[str, ...]
    family: str
    architecture: str
    input: str
    params_b: float
    active_params_b: float
    layers: int
    attention_layers: int | None
    window: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    experts: int
    experts_per_token: int
    max_positions: int
    attention: str
    license: str
    source: str
    note: str


@json_object
class ModelsDocument:
    """The models of the catalog."""

    schema: Literal["slipway.models/1"] = "slipway.models/1"
    models: tuple[ModelObject, ...]


def document(models: Sequence[ModelSpec]) -> Json:
    """slipway.models/1."""
    return as_json(ModelsDocument(models=tuple(fill_record(ModelObject, model) for model in models)))


def table(models: Sequence[ModelSpec], width: int) -> list[str]:
    """One line a model."""
    columns: list[Column[ModelSpec]] = [
        Column("name", lambda model: model.name),
        Column("parameters", lambda model: f"{model.params_b:.4g} B", "right"),
        Column("active", lambda model: f"{model.active_params_b:.3g} B" if model.is_moe else "", "right"),
        Column("layers", lambda model: str(model.layers), "right", yields=2),
        Column("hidden", lambda model: str(model.hidden), "right", yields=3),
        Column("context", lambda model: f"{model.max_positions:,}" if model.max_positions else "", "right", yields=1),
        Column("Hugging Face", lambda model: next(iter(model.aliases), ""), shrinks=True),
    ]
    return render(columns, models, width)


def page(model: ModelSpec, width: int) -> list[str]:
    """One model in full, at most `width` wide."""
    experts = f"{model.experts} experts, {model.experts_per_token} for each token, in {model.moe_layers} layers"
    lines = [
        ("parameters", f"{model.params_b:.5g} billion"),
        ("for each token", f"{model.active_params_b:.4g} billion" if model.is_moe else ""),
        ("experts", experts if model.is_moe else ""),
        ("layers", str(model.layers)),
        ("attention", _attention(model)),
        ("hidden size", f"{model.hidden:,}"),
        ("heads", f"{model.heads} with {model.kv_heads} of keys and values, {model.head_dim} wide"),
        ("vocabulary", f"{model.vocab:,}"),
        ("context", f"{model.max_positions:,} tokens" if model.max_positions else "not stated"),
        ("names", ", ".join((model.name, *model.aliases))),
        ("license", model.license),
        ("source", model.source),
        ("note", model.note),
    ]
    return [
        f"  {'' if number else name:<16}{piece}"
        for name, text in lines
        if text
        for number, piece in enumerate(fold(text, width - 18))
    ]


def _attention(model: ModelSpec) -> str:
    if model.attention_layers is None:
        return model.attention
    others = f"see {model.window:,} tokens" if model.window else "have none"
    return f"{model.attention}, full in {model.attention_layers} of {model.layers} layers, the others {others}"
