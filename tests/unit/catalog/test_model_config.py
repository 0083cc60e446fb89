"""Dimensions from a Hugging Face config.json: counted, or refused by name; and found in the local cache."""

import json
import os
from pathlib import Path

import pytest

from launcher import plan_file
from launcher.catalog.load import load
from launcher.catalog.model_config import ModelConfigError, cached_config, dimensions_of, read_model_config
from launcher.model.errors import UnreadableInputError
from launcher.model.workload import ModelDimensions
from launcher.workflow.quote.cached_model import with_cached_model

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "attn_output_gate": True,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "vocab_size": 151936,
}
DEEPSEEK_V3 = {
    "model_type": "deepseek_v3",
    "num_hidden_layers": 61,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocab_size": 129280,
}
NEMOTRON_3_NANO = {
    "model_type": "nemotron_h",
    "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
    "hidden_size": 2688,
    "intermediate_size": 1856,
    "moe_intermediate_size": 1856,
    "moe_shared_expert_intermediate_size": 3712,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "mamba_num_heads": 64,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "ssm_state_size": 128,
    "vocab_size": 131072,
}


@pytest.mark.parametrize(
    "document, params, active, attending",
    [
        (LLAMA, 8.03, 8.03, 32),
        ({**LLAMA, "tie_word_embeddings": True}, 7.505, 7.505, 32),
        (QWEN3_NEXT, 79.67, 3.87, 12),
        (DEEPSEEK_V3, 671.0, 37.6, 61),
        (NEMOTRON_3_NANO, 31.6, 3.58, 6),
        ({"architectures": ["X"], "text_config": LLAMA, "vision_config": {"hidden_size": 9}}, 8.03, 8.03, 32),
    ],
)
def test_parameters_of_architecture_are_counted(document, params, active, attending):
    dimensions = dimensions_of(document)
    assert dimensions.params_b == pytest.approx(params, rel=0.005)
    assert dimensions.active_params_b == pytest.approx(active, rel=0.01)
    assert dimensions.attention_layers == attending


QWEN3_30B = {
    "model_type": "qwen3_moe",
    "num_hidden_layers": 48,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
}
QWEN3_235B = QWEN3_30B | {
    "num_hidden_layers": 94,
    "hidden_size": 4096,
    "moe_intermediate_size": 1536,
    "num_attention_heads": 64,
}
GPT_OSS_20B = {
    "model_type": "gpt_oss",
    "num_hidden_layers": 24,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "vocab_size": 201088,
}
GPT_OSS_120B = GPT_OSS_20B | {"num_hidden_layers": 36, "num_local_experts": 128}


@pytest.mark.parametrize(
    "name, document",
    [
        ("gpt-oss-20b", GPT_OSS_20B),
        ("gpt-oss-120b", GPT_OSS_120B),
        ("qwen3-30b-a3b", QWEN3_30B),
        ("qwen3-235b-a22b", QWEN3_235B),
        ("deepseek-v3", DEEPSEEK_V3),
    ],
)
def test_active_parameters_of_config_are_the_published_ones(name, document):
    """Publishers differ: the active parameters of gpt-oss leave out the input embedding, those of the others do not."""
    published = load().find_model(name)
    counted = dimensions_of(document)
    assert counted.params_b == pytest.approx(published.params_b, rel=0.005)
    assert counted.active_params_b == pytest.approx(published.active_params_b, rel=0.02)


HY3 = LLAMA | {
    "model_type": "hy_v3",
    "num_hidden_layers": 80,
    "intermediate_size": 13312,
    "num_attention_heads": 64,
    "head_dim": 128,
    "vocab_size": 120832,
    "num_experts": 192,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
}


def test_width_of_an_expert_is_read_whatever_its_field_is_called():
    """tencent/Hy3: 295 B, of which a token uses 21 B; with the dense width its experts alone would be 2,481 B."""
    model = dimensions_of(HY3 | {"expert_hidden_dim": 1536})
    assert model.params_b == pytest.approx(295.0, rel=0.01)
    assert model.active_params_b == pytest.approx(21.0, rel=0.05)


@pytest.mark.parametrize("field, value", [("expert_width", 1536), ("moe_inner_size", 1536), ("expert_intermediate", 8)])
def test_unknown_width_of_an_expert_is_refused_and_not_that_of_a_dense_layer(field, value):
    with pytest.raises(ModelConfigError, match=f"the meaning of {field} is not known"):
        dimensions_of(HY3 | {field: value})


def test_widths_of_experts_that_differ_by_layer_are_refused():
    with pytest.raises(ModelConfigError, match="the meaning of moe_intermediate_size is not known"):
        dimensions_of(HY3 | {"moe_intermediate_size": [1536, 512]})


def test_mixtral_has_experts_as_wide_as_its_feed_forward_layer():
    mixtral = {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000}
    assert dimensions_of(LLAMA | mixtral).params_b == pytest.approx(46.7, rel=0.01)


@pytest.mark.parametrize("window, attending", [(4096, 0), (131072, 32), (None, 32)])
def test_sliding_window_counts_unless_window_holds_context(window, attending):
    dimensions = dimensions_of({**LLAMA, "sliding_window": window})
    assert dimensions.attention_layers == attending
    assert dimensions.window == (4096 if attending == 0 else 0)


@pytest.mark.parametrize(
    "document, words",
    [
        ({**LLAMA, "model_type": "kimi_linear"}, "model_type kimi_linear is not counted"),
        ({**LLAMA, "model_type": "bert"}, "an encoder"),
        ({**LLAMA, "is_encoder_decoder": True}, "an encoder beside the decoder"),
        ({**LLAMA, "layer_types": ["mamba"] * 32}, "layers of type mamba"),
        ({**LLAMA, "hidden_size": None}, "it has no hidden_size"),
        ({**LLAMA, "num_hidden_layers": -1}, "it has no num_hidden_layers"),
        ({**LLAMA, "num_experts": 8}, "how many a token uses"),
        ([1], "it is no mapping"),
    ],
)
def test_uncounted_architecture_refused_by_name(document, words):
    with pytest.raises(ModelConfigError, match=words):
        dimensions_of(document)


def plan_job(folder: Path, model: str) -> Path:
    path = folder / "plan.yaml"
    path.write_text(f"slipway: 1\nname: job\nworkload: {{train: {{model: {model}, tokens_b: 1}}}}\n", encoding="utf-8")
    return path


def groups(*weights, **others):
    named = {f"group_{index}": {"targets": ["Linear"], "weights": one} for index, one in enumerate(weights)}
    return {"quant_method": "compressed-tensors", "config_groups": named, **others}


@pytest.mark.parametrize(
    "stated, published",
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8"),
        ({"quant_method": "fbgemm_fp8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "modelopt NVFP4"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "int8"),
        ({"quant_method": "gptq", "bits": 3}, "gptq with 3 bits"),
        ({"quant_method": "awq", "w_bit": 4}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}, "int8"),
        (groups({"num_bits": 4, "type": "int", "group_size": 32}), "int4"),
        (groups({"num_bits": 8, "type": "float"}, {"num_bits": 8, "type": "float"}), "fp8"),
        (groups({"num_bits": 8, "type": "int"}), "int8"),
        (
            groups({"num_bits": 4, "type": "float"}, format="nvfp4-pack-quantized"),
            "compressed-tensors nvfp4-pack-quantized",
        ),
        (
            groups({"num_bits": 4, "type": "int"}, {"num_bits": 8, "type": "int"}, format="mixed"),
            "compressed-tensors mixed",
        ),
        ({"quant_method": "compressed-tensors", "config_groups": [4]}, "compressed-tensors without groups"),
        ({"quant_method": "fp8", "expert_dtype": "fp4"}, "fp8 with experts in fp4"),
        ({"quant_method": "hqq"}, "hqq"),
        ({"bits": [4]}, "a quantization_config without quant_method"),
        ({"quant_method": "awq", "bits": [4]}, "awq with [4] bits"),
        ({}, None),
        ("int4", None),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_format_of_published_weights_read(stated, published, nested):
    stating = {**LLAMA, "quantization_config": stated}
    assert dimensions_of({"text_config": stating} if nested else stating).published_format == published
    assert dimensions_of({"text_config": LLAMA, "quantization_config": stated}).published_format == published


def test_planned_keys_override_model_config(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(QWEN3_NEXT), encoding="utf-8")
    model = plan_file.load(plan_job(tmp_path, "{config: config.json, params_b: 81}")).workload.train.model
    assert isinstance(model, ModelDimensions)
    assert (model.params_b, model.layers, model.attention_layers, model.experts, model.top_k) == (81, 48, 12, 512, 10)
    by_folder = plan_file.load(plan_job(tmp_path, "{config: .}")).workload.train.model
    assert by_folder.params_b == pytest.approx(79.67, rel=0.001)


@pytest.mark.parametrize(
    "content, words",
    [
        (None, "No such file"),
        ("{", "it is not JSON"),
        ("[]", "it is no mapping"),
        ('{"model_type": "t5"}', "hidden_size"),
    ],
)
def test_unusable_model_config_refused_at_key(tmp_path, content, words):
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableInputError) as refused:
        plan_file.load(plan_job(tmp_path, "{config: config.json}"))
    (finding,) = refused.value.findings
    assert finding.path == "workload.train.model.config"
    assert finding.message.startswith("cannot use config.json: ")
    assert words in finding.message


def test_model_config_with_a_too_long_name_refused_at_key(tmp_path):
    with pytest.raises(UnreadableInputError) as refused:
        plan_file.load(plan_job(tmp_path, f"{{config: {'x' * 300}}}"))
    (finding,) = refused.value.findings
    assert (finding.path, finding.message[-18:]) == ("workload.train.model.config", "File name too long")


def test_named_pipe_as_model_config_refused(tmp_path):
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(ModelConfigError, match="named pipe"):
        read_model_config(tmp_path / "config.json")


def cached_files(home: Path, model_id: str, document: object) -> None:
    folder = home / ".cache/huggingface/hub" / f"models--{model_id.replace('/', '--')}"
    snapshot = folder / "snapshots/0123abc"
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir()
    (folder / "blobs/f00").write_text(json.dumps(document), encoding="utf-8")
    (snapshot / "config.json").symlink_to("../../blobs/f00")


def test_unknown_model_id_read_from_local_hub_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HF_HOME", raising=False)
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    cached_files(tmp_path, "acme/own-8b", LLAMA)
    cached_files(tmp_path, "acme/own-bert", {**LLAMA, "model_type": "bert"})
    request = with_cached_model(plan_file.load(plan_job(tmp_path, "acme/own-8b")), load())
    assert request.workload.train.model.params_b == pytest.approx(8.03, rel=0.001)
    unknown = plan_file.load(plan_job(tmp_path, "acme/not-there"))
    assert with_cached_model(unknown, load()) is unknown
    with pytest.raises(UnreadableInputError, match="an encoder"):
        with_cached_model(plan_file.load(plan_job(tmp_path, "acme/own-bert")), load())
    moved = {"HF_HOME": str(tmp_path / ".cache/huggingface")}
    assert cached_config("acme/own-8b", moved, Path("/nowhere")) is not None
    assert cached_config("../acme/own-8b", moved, Path("/nowhere")) is None


@pytest.mark.parametrize(
    "model_id, name",
    [
        ("Qwen/Qwen3.5-35B-A3B", "qwen3.5-35b-a3b"),
        ("moonshotai/Kimi-K2.5", "kimi-k2.5"),
        ("zai-org/glm-5.1", "glm-5.1"),
    ],
)
def test_models_of_2026_found_by_hub_id(model_id, name):
    assert load().find_model(model_id).name == name
