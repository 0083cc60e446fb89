"""Model dimensions: the count computed from them against the published one."""

import re
from datetime import date

import pytest

from launcher.catalog.load import Catalog, load
from launcher.catalog.model_config import dimensions_of
from launcher.catalog.tables import read_cells
from tests.checks import some
from tests.data.parameter_count import count_active_parameters, count_parameters

OUTSIDE_ONE_PERCENT = {
    "opt-13b": "the published size is the rounded name; no exact count is known",
    "t5-3b": "the published size is the paper's rounded 2.8 B; the formula gives T5 base and large exactly",
    "t5-11b": "the published size is the paper's rounded 11 B; the formula gives T5 base and large exactly",
}
NAMES = list(load().models)
WINDOWED = ("gemma-2-", "gemma-3-", "gpt-oss-", "mistral-7b")
"""Models of which some layers have a sliding window: all layers have the same parameters."""
HYBRIDS = [
    name for name, spec in load().models.items() if spec.attention_layers is not None and not name.startswith(WINDOWED)
]
"""Models whose layers differ: `launcher.catalog.model_config` counts them, not the formula of one kind of layer."""


def error(name: str) -> float:
    spec = load().models[name]
    return count_parameters(spec) / (spec.params_b * 1e9) - 1


@pytest.mark.parametrize("name", sorted({*NAMES} - {*OUTSIDE_ONE_PERCENT, *HYBRIDS}))
def test_computed_parameter_count_is_within_one_percent_of_the_published(name: str):
    assert abs(error(name)) <= 0.01


@pytest.mark.parametrize("name", HYBRIDS)
def test_parameter_count_of_a_hybrid_agrees_with_the_size_in_the_name(name: str):
    spec = load().models[name]
    sizes = re.findall(r"-(\d+(?:\.\d+)?)b(?![a-z0-9])", name)
    assert spec.attention_layers <= spec.layers
    if sizes:
        assert spec.params_b == pytest.approx(float(sizes[0]), rel=0.08)


@pytest.mark.parametrize("name", OUTSIDE_ONE_PERCENT)
def test_exceptions_differ_by_one_to_three_percent_and_have_no_exact_count(name: str):
    assert 0.01 < abs(error(name)) < 0.03
    assert load().models[name].published_params is None


def test_dense_models_have_all_parameters_active(catalog: Catalog):
    for spec in some(catalog.models.values()):
        if not spec.is_moe:
            assert spec.active_params_b == spec.params_b
            assert count_active_parameters(spec) == count_parameters(spec)


@pytest.mark.parametrize(
    "name", [spec.name for spec in load().models.values() if spec.is_moe and spec.name not in HYBRIDS]
)
def test_published_active_sizes_are_between_counts_without_and_with_embeddings(catalog: Catalog, name: str):
    """Vendors leave the embeddings out or not, and round to one decimal."""
    spec = catalog.models[name]
    whole = count_active_parameters(spec) / 1e9
    embeddings = 2 * spec.vocab * spec.hidden / 1e9
    assert whole - embeddings - 0.05 <= spec.active_params_b <= whole + 0.05


def test_model_dimensions_are_consistent(catalog: Catalog):
    for spec in some(catalog.models.values()):
        assert spec.heads % spec.kv_heads == 0, spec.name
        assert 0 <= spec.moe_layers <= spec.layers, spec.name
        assert spec.is_moe == (spec.moe_layers > 0) == (spec.experts_per_token > 0), spec.name
        assert (spec.attention == "mla") == (spec.kv_lora_rank > 0), spec.name
        assert (spec.attention == "mqa") == (spec.kv_heads == 1 and spec.heads > 1), spec.name
        assert (spec.architecture == "encoder-decoder") == (spec.cross_attention_layers > 0), spec.name
        if spec.kv_values_per_token and spec.attention != "mla" and spec.name not in HYBRIDS:
            assert spec.kv_values_per_token == 2 * spec.layers * spec.kv_heads * spec.head_dim, spec.name
        if spec.attention == "mla" and spec.name not in HYBRIDS:
            assert spec.kv_values_per_token == spec.layers * (spec.kv_lora_rank + spec.rope_head_dim), spec.name


def test_common_model_families_are_in_the_catalog(catalog: Catalog):
    families = {spec.family for spec in catalog.models.values()}
    assert families >= {
        *("llama-2", "llama-3", "llama-3.1", "llama-3.3", "llama-4", "mistral", "mixtral", "qwen2.5", "qwen3"),
        *("qwen3-next", "qwen3.5", "qwen3.6", "gemma-4", "glm", "kimi", "minimax", "nemotron-3", "mimo", "olmo-3"),
        *("gemma-2", "gemma-3", "deepseek", "gpt-oss", "falcon", "bert"),
    }
    assert len(catalog.models) >= 169


def test_every_model_has_an_origin(catalog: Catalog):
    for cells in some(read_cells("models.csv")):
        assert cells["source"] in catalog.store.sources, cells["name"]
        assert cells["basis"] in ("listed", "memory"), cells["name"]
        assert cells["license"], cells["name"]
        assert cells["license_basis"] in ("listed", "memory"), cells["name"]
        assert date.fromisoformat(cells["as_of"]), cells["name"]
        assert bool(cells["published_exact"]) == bool(cells["count_source"]) or cells["name"] == "gpt-3-175b"


def test_no_alias_belongs_to_two_models(catalog: Catalog):
    owners: dict[str, str] = {}
    for spec in some(catalog.models.values()):
        for name in (spec.name, *spec.aliases):
            assert owners.setdefault(name.lower(), spec.name) == spec.name, name


@pytest.mark.parametrize(
    "requested, name",
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("LLAMA-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("  mistralai/Mixtral-8x7B-v0.1 ", "mixtral-8x7b"),
        ("openai/gpt_oss_20b", "gpt-oss-20b"),
    ],
)
def test_models_are_found_by_name_and_alias(catalog: Catalog, requested: str, name: str):
    assert catalog.find_model(requested) is catalog.models[name]


def test_unknown_model_is_not_found(catalog: Catalog):
    assert catalog.find_model("llama-9-1t") is None


@pytest.mark.parametrize(
    "name, fields",
    [
        ("gpt-oss-20b", {"model_type": "gpt_oss", "sliding_window": 128, "layer_types": ["sliding", "full"] * 12}),
        ("gemma-2-9b", {"model_type": "gemma2", "sliding_window": 4096}),
        ("gemma-3-27b", {"model_type": "gemma3_text", "sliding_window": 1024, "sliding_window_pattern": 6}),
        ("mistral-7b", {"model_type": "mistral", "sliding_window": 4096}),
    ],
)
def test_sliding_windows_of_a_catalogued_model_are_those_of_its_configuration(name, fields):
    """The name and the config.json of a model give the same FLOPs, so that both give the same dollars."""
    spec = load().models[name]
    sizes = {
        "num_hidden_layers": spec.layers,
        "hidden_size": spec.hidden,
        "intermediate_size": spec.intermediate,
        "num_attention_heads": spec.heads,
        "num_key_value_heads": spec.kv_heads,
        "head_dim": spec.head_dim,
        "vocab_size": spec.vocab,
        "max_position_embeddings": spec.max_positions,
    }
    if spec.experts:
        sizes |= {"num_local_experts": spec.experts, "num_experts_per_tok": spec.experts_per_token}
    counted = dimensions_of(sizes | fields)
    assert (counted.attention_layers, counted.window) == (spec.attention_layers, spec.window)
