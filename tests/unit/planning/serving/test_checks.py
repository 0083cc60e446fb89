"""Invalid serving plans: all findings at once, each with value, allowed values and fix."""

from pathlib import Path

import pytest

from launcher.catalog.load import load
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.workflow.quote.options import PriceOptions
from launcher.workflow.quote.price import price_request
from tests.plans import NOW, request_of

CATALOG = load()
PLAN_ARN = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/chat"
GOOD = {"model": "llama-3.1-8b", "requests_per_s": 1}


def price(serve, **sections):
    request = request_of({"slipway": 1, "name": "x", "workload": {"serve": serve}, **sections})
    return price_request(Path("plan.yaml"), request, CATALOG, NOW, PriceOptions())


def codes(serve, **sections):
    with pytest.raises(ImpossibleError) as refused:
        price(serve, **sections)
    return {finding.code: finding for finding in refused.value.findings if finding.level == "error"}


@pytest.mark.parametrize(
    "serve, sections, code, words",
    [
        ({**GOOD, "tensor_parallel": 12}, {}, "tensor-parallel", "1, 2, 4, 8, 24 on Inferentia2"),
        ({**GOOD, "max_ttft_ms": 1}, {}, "latency-out-of-reach", "keeps the latency limits"),
        ({**GOOD, "requests_per_s": None}, {}, "no-traffic", "no traffic is given"),
        ({**GOOD, "hourly_requests_per_s": [1] * 24}, {}, "two-traffics", "are both given"),
        ({**GOOD, "requests_per_s": 1e9}, {}, "too-much-traffic", "must be at most 1,000,000"),
        ({**GOOD, "model": "llama-9-8b"}, {}, "unknown-model", "no model llama-9-8b"),
        ({**GOOD, "model": "whisper-large-v3"}, {}, "unserved-architecture", "is an encoder-decoder"),
        ({**GOOD, "model": "t5-11b", "input_tokens": 9000}, {}, "unserved-architecture", "is an encoder-decoder"),
        ({**GOOD, "model": "deepseek-v4-pro"}, {}, "nothing-fits", "p5e.48xlarge: weights of"),
        ({**GOOD, "output_tokens": 0}, {}, "no-answer", "at least 1 token"),
        ({**GOOD, "sequence_length": 100}, {}, "sequence-too-short", "less than a request"),
        ({**GOOD, "input_tokens": 200_000}, {}, "beyond-the-context", "131,072 positions"),
        ({**GOOD, "min_instances": 3, "max_instances": 2}, {}, "min-above-max", "above max_instances 2"),
        ({**GOOD, "schedule": ["at night: 0"]}, {}, "schedule-form", "got at night: 0"),
        ({**GOOD, "schedule": ["cron(0 7 * * ? *) 2-1"]}, {}, "schedule-range", "2 is above 1"),
        ({**GOOD, "schedule": ["cron(0 0 30 2 ? *) 1-2"]}, {}, "schedule-never", "none of its times ever comes"),
        ({**GOOD, "schedule": ["at(2027-02-29T07:00:00) 1-2"]}, {}, "schedule-form", "got at(2027-02-29"),
        ({**GOOD, "schedule": ["cron(0 7 * * ? *) 1-2 Nowhere/City"]}, {}, "schedule-zone", "Nowhere/City"),
        ({**GOOD, "schedule": ["cron(0 7 * * ? *) 0-9999"], "max_instances": 6}, {}, "schedule-above-max", "9999"),
        ({**GOOD, "deployment": "canary", "max_instances": 1}, {}, "rollout-of-one", "there is one"),
        ({**GOOD, "zones": 4}, {"target": {"region": "us-east-2"}}, "too-many-zones", "4 zones, but 3 in us-east-2"),
        ({**GOOD, "zones": 2}, {"target": {"az_id": "use2-az1"}}, "zones-and-zone", "target.az_id pins one"),
        (GOOD, {"target": {"kind": "parallelcluster"}}, "unknown-target", "serves nothing"),
        (GOOD, {"target": {"instance_type": "inf2.999xlarge"}}, "unknown-instance-type", "no instance type"),
        (GOOD, {"purchase": {"option": "spot"}}, "ec2-only", "sagemaker-endpoint cannot be bought as spot"),
        (
            GOOD,
            {"target": {"kind": "eks"}, "purchase": {"option": "training-plan"}},
            "ec2-only",
            "eks cannot be bought as training-plan",
        ),
        (GOOD, {"purchase": {"option": "capacity-block"}}, "no-serving-option", "ends after some days"),
        (
            GOOD,
            {"purchase": {"option": "on-demand", "training_plan": {"arn": PLAN_ARN}}},
            "training-plan-unused",
            "the option is on-demand",
        ),
        ({**GOOD, "model": "claude-haiku-4-5"}, {"purchase": {"option": "on-demand"}}, "bedrock-only", "only Bedrock"),
        ({**GOOD, "model": "llama-2-7b"}, {"purchase": {"option": "bedrock"}}, "not-on-bedrock", "no model with these"),
        (
            {**GOOD, "model": "llama-3.3-70b"},
            {"target": {"instance_type": "inf2.8xlarge"}},
            "nothing-fits",
            "its host of 128 GiB cannot load weights of 131.4 GiB",
        ),
        (
            {**GOOD, "precision": "fp8"},
            {"target": {"instance_type": "inf2.48xlarge"}},
            "precision",
            "fp8 weights are not served on Inferentia2",
        ),
    ],
)
def test_invalid_serving_plan_refused_with_allowed_values(serve, sections, code, words):
    findings_by_code = codes(serve, **sections)
    assert code in findings_by_code
    assert words in findings_by_code[code].message
    assert findings_by_code[code].path.startswith(("workload.serve", "target", "purchase"))


@pytest.mark.parametrize(
    "line", ["at(2020-01-01T07:00:00) 0-0", "at(2026-11-18T23:00:00) 1-2", "cron(0 7 * * ? 1999) 1-2"]
)
def test_schedule_in_past_refused(line):
    request = request_of({"slipway": 1, "name": "x", "workload": {"serve": {**GOOD, "schedule": [line]}}})
    with pytest.raises(ImpossibleError) as refused:
        price_request(Path("plan.yaml"), request, load(today=NOW.date()), NOW, PriceOptions())
    (finding,) = [finding for finding in refused.value.findings if finding.level == "error"]
    assert (finding.code, finding.path) == ("schedule-past", "workload.serve.schedule[0]")
    assert finding.message.endswith(" is over: today is 2026-11-20")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1])
def test_non_finite_or_negative_traffic_refused(value):
    with pytest.raises(ImpossibleError) as refused:
        price({**GOOD, "requests_per_s": value})
    assert refused.value.findings[0].path == "workload.serve.requests_per_s"


@pytest.mark.parametrize("hours", [[1.0] * 23, [1.0] * 25, []])
def test_hourly_traffic_requires_24_values(hours):
    with pytest.raises(UnreadableInputError) as refused:
        price({"model": "llama-3.1-8b", "hourly_requests_per_s": hours})
    assert "a list of 24 values" in refused.value.findings[0].message


def test_model_too_large_for_type_names_fitting_types():
    findings_by_code = codes({**GOOD, "model": "llama-3.3-70b"}, target={"instance_type": "inf2.8xlarge"})
    assert findings_by_code["nothing-fits"].hint.startswith("it fits on inf2.48xlarge, g6e.12xlarge")


def test_several_problems_are_reported_at_once():
    findings_by_code = codes({"model": "llama-9", "tensor_parallel": 12, "output_tokens": 0})
    assert {"unknown-model", "tensor-parallel", "no-answer", "no-traffic"} <= set(findings_by_code)


@pytest.mark.parametrize("model", ["mixtral-8x7b", "qwen3-30b-a3b", "gpt-oss-20b", "deepseek-r1"])
def test_mixture_of_experts_has_gpu_candidates_and_no_inferentia(model):
    precision = {"gpt-oss-20b": "mxfp4", "deepseek-r1": "fp8"}.get(model, "bf16")
    priced_plan = price({**GOOD, "model": model, "precision": precision})
    types = {candidate.place.instance_type for candidate in priced_plan.candidates if not candidate.bedrock}
    assert types
    assert not any(name.startswith(("inf", "trn")) for name in types)


def test_all_experts_need_memory_and_only_active_ones_arithmetic():
    findings = codes({**GOOD, "model": "deepseek-r1", "precision": "fp8"}, target={"instance_type": "p5.48xlarge"})
    assert "weights of 6" in findings["nothing-fits"].message
    candidates = price({**GOOD, "model": "deepseek-r1", "precision": "fp8"}).candidates
    assert {candidate.place.instance_type for candidate in candidates if not candidate.bedrock} >= {"p5en.48xlarge"}


@pytest.mark.parametrize(
    "model,precision,expected",
    [
        ("gpt-oss-20b", "bf16", "precision: mxfp4"),
        ("deepseek-r1", "bf16", "precision: fp8"),
        ("gpt-oss-20b", "mxfp4", None),
        ("llama-3.1-8b", "bf16", None),
    ],
)
def test_weights_published_in_fewer_bits_are_named(model, precision, expected):
    found = price({**GOOD, "model": model, "precision": precision}).findings
    hint = next((finding.hint for finding in found if finding.code == "published-format"), None)
    assert (hint is None) == (expected is None)
    assert expected is None or expected in hint


@pytest.mark.parametrize(
    "model, precision",
    [("openai/gpt-oss-120b", "mxfp4"), ("moonshotai/Kimi-K2.5", "int4"), ("llama-3.1-8b", "bf16")],
)
def test_weights_have_published_format_where_the_plan_leaves_it_open(model, precision):
    priced = price({**GOOD, "model": model})
    assert priced.request.workload.serve.precision == precision
    assert "published-format" not in {finding.code for finding in priced.findings}


@pytest.mark.parametrize(
    "stated, planned, precision, code",
    [
        ("fp8", "auto", "fp8", None),
        ("int4", "auto", "int4", "int4-unmeasured"),
        ("int4", "bf16", "bf16", "published-format"),
        ("fp8", "int8", "int8", None),
        ("modelopt NVFP4", "auto", "bf16", "unknown-format"),
        ("mxfp4", "auto", "bf16", "unknown-format"),
        (None, "auto", "bf16", None),
    ],
)
def test_weights_of_config_json_have_its_format(stated, planned, precision, code):
    model = {"params_b": 8.03, "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "published_format": stated}
    priced = price({**GOOD, "model": model, "precision": planned, "model_uri": "s3://mine/weights"})
    assert priced.request.workload.serve.precision == precision
    about = {"published-format", "unknown-format", "int4-unmeasured"}
    assert {finding.code for finding in priced.findings} & about == ({code} if code else set())
    assert not any("NAME" in finding.hint for finding in priced.findings)
    assert code != "unknown-format" or any(stated in finding.message for finding in priced.findings)


def test_experts_of_config_json_may_be_in_mxfp4():
    model = {"params_b": 20.9, "active_params_b": 3.6, "experts": 32, "top_k": 4, "published_format": "mxfp4"}
    assert price({**GOOD, "model": model}).request.workload.serve.precision == "mxfp4"


def test_four_bit_integers_need_less_memory_and_have_a_wide_range():
    ranges = {}
    for precision in ("int4", "fp8"):
        choices = price({**GOOD, "model": "llama-3.3-70b", "precision": precision}).candidates
        ranges[precision] = {candidate.place.instance_type for candidate in choices if not candidate.bedrock}
    assert ranges["fp8"] < ranges["int4"]
    assert not any(name.startswith(("inf", "trn")) for name in ranges["int4"])
    refused = codes({**GOOD, "precision": "int4"}, target={"instance_type": "inf2.48xlarge"})
    assert "int4 weights are not served on Inferentia2" in refused["precision"].message


def test_open_format_costs_what_the_published_one_does():
    served = {**GOOD, "model": "gpt-oss-20b"}
    dollars = {
        precision: price({**served, "precision": precision}, purchase={"option": "on-demand"}).quote(1).usd
        for precision in ("auto", "mxfp4", "bf16")
    }
    assert dollars["auto"] == dollars["mxfp4"] != dollars["bf16"]


@pytest.mark.parametrize(
    "model, kind, words",
    [
        ("kimi-k2.5", "p5en.48xlarge", "p5en.48xlarge, p5e.48xlarge with precision: fp8"),
        ("llama-3.1-405b", "p4de.24xlarge", "it fits on"),
        ({"params_b": 90000}, "p5en.48xlarge", "nothing here serves it in any number format"),
    ],
)
def test_model_that_fits_nowhere_is_refused_with_the_format_that_fits(model, kind, words):
    assert (
        words
        in codes({**GOOD, "model": model, "precision": "bf16"}, target={"instance_type": kind})["nothing-fits"].hint
    )


def test_mxfp4_of_dense_model_refused():
    assert "experts" in codes({**GOOD, "precision": "mxfp4"})["precision"].message


def test_scale_to_zero_warns_of_cold_start():
    assert "cold-start" in {finding.code for finding in price({**GOOD, "min_instances": 0}).findings}
    quiet = price({**GOOD, "min_instances": 0, "asynchronous": True}).findings
    assert "cold-start" not in {finding.code for finding in quiet}


def warnings(serve, **sections):
    return {
        finding.path: finding.message for finding in price(serve, **sections).findings if finding.level == "warning"
    }


@pytest.mark.parametrize(
    "serve, sections, path, reason",
    [
        (
            {**GOOD, "model": "claude-haiku-4-5"},
            {"target": {"instance_type": "inf2.48xlarge"}},
            "target.instance_type",
            "claude-haiku-4-5 is not in the catalog",
        ),
        ({**GOOD, "model": "claude-haiku-4-5"}, {"target": {"kind": "eks"}}, "target.kind", "not in the catalog"),
        (
            GOOD,
            {"target": {"instance_type": "inf2.48xlarge"}, "purchase": {"option": "bedrock"}},
            "target.instance_type",
            "purchase.option is bedrock",
        ),
    ],
)
def test_ignored_target_or_purchase_keys_are_reported(serve, sections, path, reason):
    assert reason in warnings(serve, **sections)[path]


def test_region_with_too_few_zones_is_no_candidate():
    priced_plan = price({**GOOD, "zones": 4}, target={"region": ["us-east-1", "us-east-2"]})
    regions = {candidate.place.region for candidate in priced_plan.candidates if candidate.place.instance_type}
    assert regions == {"us-east-1"}
    assert (
        "3 in us-east-2"
        in {finding.message for finding in priced_plan.findings if finding.code == "too-many-zones"}.pop()
    )


def test_token_latency_limit_names_fastest_achievable():
    """Which is another layout than the one with the first first token."""
    tight = codes({**GOOD, "max_tpot_ms": 0.5})["latency-out-of-reach"]
    fastest = float(tight.message.split("at most, ")[1].split(" ms is the fastest")[0])
    assert "latency-out-of-reach" in codes({**GOOD, "max_tpot_ms": fastest * 0.95})
    assert price({**GOOD, "max_tpot_ms": fastest * 1.05}).candidates
