"""Training methods: the cost of each relative to full training, and methods that tokens cannot price."""

import pytest

from launcher.model.enums import Level, Method
from launcher.model.errors import ImpossibleError
from launcher.planning import flops, memory
from launcher.planning.shape import TrainingShape
from tests.unit.pricing.conftest import price_over

ONE_NODE = {"instance_type": "p5.48xlarge", "nodes": 1, "region": "us-east-1"}


def price(nodes=1, **train):
    job = {"model": "llama-3.1-8b", "hours": None, "tokens_b": 1.0, **train}
    return price_over({"workload": {"train": job}, "target": {**ONE_NODE, "nodes": nodes}})


def errors(refused):
    return [finding for finding in refused.findings if finding.level is Level.ERROR]


def shape(catalog, method):
    chip = catalog.accelerators["H100-SXM"] if "H100-SXM" in catalog.accelerators else catalog.accelerators["H100"]
    return TrainingShape(
        params_b=8.03,
        active_params_b=8.03,
        layers=32,
        hidden=4096,
        accelerator=chip,
        chips=8,
        chips_per_node=8,
        method=method,
    )


@pytest.mark.parametrize("method, passes", [("sft", 3.0), ("orpo", 3.0), ("dpo", 4.0), ("kto", 4.0)])
def test_reference_model_adds_forward_pass_and_weights(catalog, method, passes):
    full, other = shape(catalog, Method.FULL), shape(catalog, Method(method))
    assert flops.per_token(other) / flops.per_token(full) == pytest.approx(passes / 3)
    copies = memory.state_bytes(other) - memory.state_bytes(full)
    assert copies == (pytest.approx(2 * 8.03e9) if passes > 3 else 0)


def test_sft_costs_as_much_as_full_training():
    assert price(method="sft").quote(1).usd == price(method="full").quote(1).usd


def test_dpo_finding_counts_chosen_and_rejected_tokens():
    messages = {finding.code: finding.message for finding in price(method="dpo").findings}
    assert "chosen and the rejected" in messages["tokens-of-pairs"]


@pytest.mark.parametrize("method", ["grpo", "ppo", "rft"])
def test_generating_methods_refused_by_tokens_with_alternatives(method):
    with pytest.raises(ImpossibleError) as refused:
        price(method=method)
    (finding,) = errors(refused.value)
    assert (finding.code, finding.path) == ("not-by-tokens", "workload.train.method")
    for fix in ("workload.train.hours", "throughput_tokens_per_s", "slipway spike"):
        assert fix in finding.hint
    assert price(method=method, throughput_tokens_per_s=20_000).quote(1).usd is not None
    assert price(method=method, tokens_b=None, hours=12).quote(1).usd is not None


def test_audio_model_refused_by_tokens():
    with pytest.raises(ImpossibleError) as refused:
        price(model="whisper-large-v3")
    assert "reads audio" in refused.value.findings[0].message
    assert price(model="whisper-large-v3", tokens_b=None, hours=12).quote(1).usd is not None


@pytest.mark.parametrize("name, near", [("unheard-of-31b", ""), ("lama-3.1-8b", "did you mean llama-3.1-8b?")])
def test_unknown_model_refused_with_alternatives_and_suggestion(name, near):
    with pytest.raises(ImpossibleError) as refused:
        price(model=name)
    hint = refused.value.findings[0].hint
    assert hint.startswith(near)
    assert "params_b" in hint
    assert "hours" in hint
    assert ("did you mean" in hint) is bool(near)


def test_fp16_takes_as_long_as_bf16():
    assert price(precision="fp16").quote(1).hours == price(precision="bf16").quote(1).hours


@pytest.mark.parametrize("model", ["mixtral-8x7b", {"params_b": 46.7, "experts": 8, "top_k": 2}])
def test_mixture_of_experts_has_accuracy_finding(model):
    mixture = {finding.code for finding in price(nodes=4, model=model).quote(1).findings}
    dense = {finding.code for finding in price().quote(1).findings}
    assert "mixture-of-experts" in mixture - dense


def test_mixture_from_experts_is_priced_by_active_parameters():
    by_experts, dense = (
        price(nodes=4, model={"params_b": 46.7, **more}).quote(1) for more in ({"experts": 8, "top_k": 2}, {})
    )
    known = price(nodes=4, model="mixtral-8x7b").quote(1)
    # The width of the tokens that cross the network is scaled from the active parameters where it is not given.
    assert by_experts.hours.mid == pytest.approx(known.hours.mid, rel=0.2)
    assert by_experts.hours.mid < 0.75 * dense.hours.mid


@pytest.mark.parametrize(
    "experts,path", [({"experts": 8}, "top_k"), ({"top_k": 2}, "experts"), ({"experts": 8, "top_k": 9}, "top_k")]
)
def test_incomplete_mixture_dimensions_refused(experts, path):
    with pytest.raises(ImpossibleError) as refused:
        price(nodes=4, model={"params_b": 46.7, **experts})
    assert [error.path for error in errors(refused.value)] == [f"workload.train.model.{path}"]


@pytest.mark.parametrize("method, levels", [("lora", [Level.WARNING]), ("full", [])])
def test_lora_on_trainium2_warns_of_the_published_run_outside_the_range(method, levels):
    job = {"model": "llama-3.1-8b", "hours": None, "tokens_b": 0.1, "method": method}
    target = {**ONE_NODE, "instance_type": "trn2.48xlarge", "region": "us-east-2"}
    findings = price_over({"workload": {"train": job}, "target": target}).quote(1).findings
    assert [finding.level for finding in findings if "10 to 21 times the estimated" in finding.message] == levels


def test_screen_of_lora_on_trainium2_shows_the_published_run_outside_the_range(slipway, tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(
        "slipway: 1\nname: adapters\nworkload: {train: {model: llama-3.1-8b, method: lora, tokens_b: 0.1}}\n"
        "target: {instance_type: trn2.48xlarge, nodes: 1, region: us-east-2}\npurchase: {option: spot}\n"
    )
    assert "10 to 21 times" in slipway("quote", str(path), "--pick", "1").out.replace("\n ", "")


def test_matrix_shared_by_more_chips_than_the_plan_has_is_refused():
    with pytest.raises(ImpossibleError) as refused:
        price(nodes=2, stack="framework", tensor_parallel=17)
    (finding,) = errors(refused.value)
    assert (finding.code, finding.path) == ("tensor-parallel", "workload.train.tensor_parallel")
    assert (finding.message, finding.hint) == (
        "17 chips cannot share a matrix: the plan has 16 at most",
        "set it to 16 or less, or to auto",
    )


def test_stated_tensor_parallel_costs_more_with_a_stack_of_pytorch():
    plain, cut = (price(stack="framework", tensor_parallel=degree).quote(1) for degree in ("auto", 8))
    assert cut.hours.mid == pytest.approx(1.4 * plain.hours.mid, rel=0.02)
    tuned = [price(stack="tuned", tensor_parallel=degree).quote(1).usd for degree in ("auto", 8)]
    assert tuned[0] == tuned[1]
