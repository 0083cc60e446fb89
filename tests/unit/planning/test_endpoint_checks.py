"""Reasons why a plan cannot become an endpoint: each has the path in the plan file and the fix."""

import re

import pytest

from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model import endpoint as rules
from launcher.model.document import plan_at
from launcher.model.endpoint import EndpointMode
from launcher.model.enums import Level, Rollout
from launcher.model.errors import ImpossibleError
from launcher.model.schedule import parse_schedule
from launcher.planning.endpoint import ServingDeployment, ServingPlan
from launcher.planning.endpoint_checks import container_findings, endpoint_findings
from launcher.planning.endpoint_pin import pinned_serving
from tests import plans

SERVE = {
    "model": "llama-3.1-8b",
    "artifacts_uri": "s3://models/llama",
    "input_tokens": 1500,
    "output_tokens": 250,
    "requests_per_s": 1,
    "tensor_parallel": 2,
    "batch_size": 8,
    "sequence_length": 2048,
}
GPU = {"artifacts_uri": None, "model_uri": "s3://models/llama", "tensor_parallel": 1}
G6E = {"instance_type": "g6e.2xlarge"}
LARGE = {"instance_type": "inf2.48xlarge"}
ECR = "123456789012.dkr.ecr.us-east-1.amazonaws.com/mine"


def served(plan, catalog):
    return ServingDeployment(plan=plan, catalog=catalog, images=load_images())


def request_of(serve=None, target=None, rest=None):
    place = {"kind": "sagemaker-endpoint", "region": "us-east-1", "instance_type": "inf2.8xlarge", "nodes": 1}
    data = {
        "slipway": 1,
        "name": "small",
        "workload": {"serve": {**SERVE, **(serve or {})}},
        "target": {**place, **(target or {})},
        "purchase": {"option": "on-demand"},
        **(rest or {}),
    }
    return plans.request_of(data)


@pytest.fixture
def unchecked_plan(catalog):
    """A plan as it comes out of a file, without anything that would refuse it."""

    def make(serve=None, target=None, rest=None, **place):
        request = request_of(serve, target, rest)
        base = pinned_serving(request_of(), catalog, BedrockCatalog(), load_serving()).place
        kinds = {"instance_type": request.target.instance_type[0], "region": request.target.region[0]}
        values = {name: getattr(base, name) for name in base.__dataclass_fields__}
        values |= {**kinds, "target": request.target.kind[0], "nodes": request.target.nodes.minimum, **place}
        return plan_at(request, type(base)(**values))

    return make


@pytest.fixture
def endpoint_findings_of(unchecked_plan, catalog):
    def check(serve=None, target=None, rest=None, **place):
        return endpoint_findings(served(unchecked_plan(serve, target, rest, **place), catalog), load_serving())

    return check


REFUSED = {
    "tensor-parallel-12": (
        {"tensor_parallel": 12},
        {"instance_type": "inf2.24xlarge"},
        "tensor-parallel",
        "workload.serve.tensor_parallel: must be one of 1, 2, 4, 8 on inf2.24xlarge, got 12",
        "set it to 8",
    ),
    "half-a-chip": ({"tensor_parallel": 1}, {}, "half-a-chip", "1 core is half of a chip", "set it to 2"),
    "family-without-code": (
        {"model": "mistral-7b"},
        {},
        "wrong-architecture",
        "of the family mistral; huggingface-vllm-inference-neuronx serves only",
        "a GPU type",
    ),
    "encoder-that-chats": ({**GPU, "model": "bge-m3"}, G6E, "wrong-architecture", "generates no text", "model"),
    "encoder-on-neuron": (
        {"model": "bge-m3", "task": "embedding"},
        {},
        "wrong-architecture",
        "bge-m3 is of the family bge",
        "a GPU type",
    ),
    "sdk-too-new": (
        {"image": f"{ECR}:0.16.0-neuronx-py312-sdk2.29.0-ubuntu24.04"},
        {},
        "image-sdk",
        "Neuron SDK 2.29 no longer serves on Inferentia2",
        "SDK 2.28 or earlier",
    ),
    "image-of-a-public-registry": (
        {"image": "public.ecr.aws/neuron/vllm:0.11.0-sdk2.26.1"},
        {},
        "image-not-in-ecr",
        "private ECR registries only",
        "set it to auto",
    ),
    "image-not-in-region": (
        {},
        {"region": "eu-north-1"},
        "image-not-in-region",
        "is not in eu-north-1, but in ap-northeast-1",
        "your own image",
    ),
    "zero-where-it-is-refused": (
        {"min_instances": 0},
        {"region": "eu-west-3"},
        "zero-refused",
        "eu-west-3 refuses components without an instance, got 0",
        "set asynchronous to true (requests are queued), or min_instances to 1",
    ),
    "long-answer-without-streaming": (
        {"output_tokens": 4000, "sequence_length": 8192, "batch_size": 1, "streaming": False},
        {},
        "answer-too-slow",
        "4000 tokens take",
        "set streaming or asynchronous to true",
    ),
    "canary-of-one": (
        {"deployment": "canary"},
        {},
        "rollout-of-one",
        "canary replaces a part of the instances, and there may be 1",
        "set it to all-at-once or auto",
    ),
    "rolling-of-one": ({"deployment": "rolling", "max_instances": 4}, {}, "rollout-of-one", "there may be 1", "auto"),
    "canary-of-copies": (
        {"deployment": "canary", "tensor_parallel": 8, "min_instances": 2},
        LARGE,
        "canary-of-components",
        "have no canary",
        "rolling or auto",
    ),
    "copies-behind-a-queue": (
        {"asynchronous": True, "tensor_parallel": 8},
        LARGE,
        "copies-behind-a-queue",
        "3 copies an instance",
        "set it to 24",
    ),
    "capture-of-a-queue": ({"asynchronous": True, "data_capture": True}, {}, "capture-of-a-queue", "in S3", "false"),
    "compiled-for-a-gpu": (
        {"tensor_parallel": 1},
        G6E,
        "compiled-for-neuron",
        "nothing that was compiled for Neuron",
        "model_uri",
    ),
    "gated-weights": (
        {**GPU, "model_uri": None},
        G6E,
        "model-without-uri",
        "an endpoint would show to everybody",
        "copy them to S3",
    ),
    "schedule-above-the-most": (
        {"schedule": ["cron(0 7 * * ? *) 1-9"]},
        {},
        "schedule-above-max",
        "asks for 9 at cron(0 7 * * ? *), the plan allows 1 instance",
        "set max_instances to 9",
    ),
    "schedule-to-none": (
        {"schedule": ["cron(0 7 * * ? *) 0-1"]},
        {},
        "schedule-below-min",
        "min_instances is 1",
        "set min_instances to 0",
    ),
    "fewer-than-the-plan": ({"max_instances": 2}, {"nodes": 3}, "max-instances", "3 instances", "raise it to 3"),
    "a-shape-left-open": ({"batch_size": "auto"}, {}, "shape-open", "must be a number, got auto", "slipway plan"),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_invalid_endpoint_plan_refused_with_fix(endpoint_findings_of, case):
    serve, target, code, message, fix = case
    errors = [finding for finding in endpoint_findings_of(serve, target) if finding.level is Level.ERROR]
    (error,) = [error for error in errors if error.code == code]
    assert message in f"{error.path}: {error.message}"
    assert fix in error.hint
    assert error.path


@pytest.mark.parametrize(
    "serve, name, chip", [({"tensor_parallel": 8}, "trn2.48xlarge", "Trainium2"), (GPU, "p6-b200.48xlarge", "B200")]
)
def test_chip_without_serving_image_refused(endpoint_findings_of, serve, name, chip):
    (error,) = endpoint_findings_of(serve, {"instance_type": name})
    assert (error.code, error.path) == ("no-image", "workload.serve.image")
    assert f"no pinned image serves chat on {chip}" in error.message


VPC = {"vpc_id": "vpc-0a1b2c3d4e5f60718", "subnet_ids": ["subnet-0a1b2c3d"]}
GROUPS = {"security_group_ids": ["sg-0a1b2c3d"]}


@pytest.mark.parametrize(
    "network, path, code",
    [
        ({"name": "team", "az_ids": ["use1-az1"]}, "network.name", "network-unused"),
        (VPC, "network.security_group_ids", "endpoint-network"),
        ({**GROUPS, "vpc_id": VPC["vpc_id"]}, "network.subnet_ids", "endpoint-network"),
    ],
)
def test_unsupported_endpoint_network_refused(endpoint_findings_of, network, path, code):
    assert (path, code) in [(finding.path, finding.code) for finding in endpoint_findings_of(rest={"network": network})]


@pytest.mark.parametrize("serve, warned", [({}, False), ({"artifacts_uri": None, "model_uri": "s3://models/w"}, True)])
def test_vpc_endpoint_fetching_model_warns_of_route(endpoint_findings_of, serve, warned):
    findings = endpoint_findings_of(serve, rest={"network": {**VPC, **GROUPS}})
    assert [finding.level for finding in findings if finding.path == "network.subnet_ids"] == ["warning"] * warned
    assert not [finding for finding in findings if finding.level == "error"]


def test_spot_for_endpoint_refused(endpoint_findings_of):
    assert [finding.code for finding in endpoint_findings_of(option="spot")] == ["ec2-only"]


WARNED = {
    "not-compiled": (
        {"artifacts_uri": None, "model_uri": "s3://models/w"},
        {},
        "shape-not-compiled",
        "tensor parallel 2",
    ),
    "from-the-hub": ({**GPU, "model_uri": None, "model": "qwen3-8b"}, G6E, "model-from-hub", "Qwen/Qwen3-8B"),
    "zero-unconfirmed": ({"min_instances": 0}, {"region": "us-west-2"}, "zero-unconfirmed", "us-east-1"),
    "image-of-unknown-sdk": ({"image": f"{ECR}:latest"}, {}, "image-sdk-unknown", "needs one before 2.29"),
    "chips-left-over": ({"tensor_parallel": 8}, {"instance_type": "inf2.24xlarge"}, "chips-unused", "2 of 6 chips"),
}


@pytest.mark.parametrize(
    "model, instance_type, larger",
    [
        ("llama-3.1-8b", "trn1.2xlarge", "trn1.32xlarge"),
        ("qwen3-8b", "trn1.2xlarge", "trn1.32xlarge"),
        ("llama-3.1-8b", "inf2.8xlarge", None),
        ("qwen2.5-1.5b", "inf2.xlarge", None),
    ],
)
def test_compiler_memory_of_small_host_is_warning(endpoint_findings_of, model, instance_type, larger):
    serve = {"model": model, "artifacts_uri": None, "model_uri": "s3://models/w"}
    findings = endpoint_findings_of(serve, {"instance_type": instance_type})
    hints = [finding.hint for finding in findings if finding.code == "compiler-memory"]
    assert (f"on {larger}, " in hints[0]) if larger else not hints


@pytest.mark.parametrize("serve, target, code, message", WARNED.values(), ids=WARNED)
def test_costly_endpoint_choice_is_warning(endpoint_findings_of, serve, target, code, message):
    (warning,) = endpoint_findings_of(serve, target)
    assert (warning.level, warning.code) == (Level.WARNING, code)
    assert message in warning.message


def test_compiled_shape_gives_no_finding(endpoint_findings_of):
    assert endpoint_findings_of() == ()


def test_several_findings_are_reported_at_once(endpoint_findings_of):
    codes = {
        finding.code
        for finding in endpoint_findings_of(
            {"deployment": "canary", "schedule": ["at(2030-01-01T00:00:00) 0-3"], "max_instances": 1}, {"nodes": 2}
        )
    }
    assert {"rollout-of-one", "schedule-above-max", "max-instances"} <= codes


def test_containers_have_equal_findings_on_kubernetes(unchecked_plan, catalog):
    plan = unchecked_plan({"tensor_parallel": 12}, {"kind": "eks"})
    assert [finding.code for finding in container_findings(served(plan, catalog))] == ["tensor-parallel"]
    codes = [
        finding.code
        for finding in endpoint_findings(served(unchecked_plan({}, {"kind": "eks"}), catalog), load_serving())
    ]
    assert codes == ["not-an-endpoint"]


class TestEndpoint:
    @pytest.fixture
    def made(self, unchecked_plan, catalog):
        return lambda *args, **more: served(unchecked_plan(*args, **more), catalog).endpoint

    def test_neuron_copies_are_components_and_gpu_copies_one_container(self, made):
        assert made({"tensor_parallel": 8}, LARGE).mode is EndpointMode.COMPONENTS
        twelve = made(GPU, {"instance_type": "g6e.12xlarge"})
        assert (twelve.mode, twelve.copies) == (EndpointMode.VARIANT, 4)
        assert made().mode is EndpointMode.VARIANT

    def test_scale_to_zero_uses_components_or_queue(self, made):
        assert made({"min_instances": 0}).mode is EndpointMode.COMPONENTS
        assert made({"min_instances": 0, "asynchronous": True}).mode is EndpointMode.ASYNCHRONOUS

    def test_accelerators_of_copy_are_whole_chips(self, made):
        assert made({"tensor_parallel": 8}, LARGE).chips == 4
        assert made({**GPU, "tensor_parallel": 4}, {"instance_type": "g6e.12xlarge"}).chips == 4

    def test_minimum_instances_cover_zones(self, made):
        assert made({"min_instances": 1, "zones": 2}).least == 2

    def test_two_minimum_instances_use_rolling_update(self, made):
        assert made({"min_instances": 2}, {"nodes": 2}).rollout is Rollout.ROLLING
        assert made({"max_instances": 4}).rollout is Rollout.ALL_AT_ONCE

    def test_endpoint_volume_equals_priced_volume(self, unchecked_plan, catalog):
        for model, gb in (("llama-3.1-8b", 16.06), ("llama-3.3-70b", 141.1)):
            assert served(unchecked_plan({"model": model}), catalog).volume_gib == rules.volume_gib(gb)


def test_schedule_time_zone_is_optional():
    assert parse_schedule("cron(0 7 ? * MON-FRI *) 2-6 America/New_York").timezone == "America/New_York"
    assert parse_schedule("cron(0 7 ? * MON-FRI *) 2-6").timezone is None
    assert parse_schedule("cron(0 7 ? * MON-FRI *) 2") is None


class TestPinned:
    def test_open_serving_layout_is_resolved(self, catalog):
        free = {"tensor_parallel": "auto", "batch_size": "auto", "sequence_length": "auto"}
        plan = pinned_serving(request_of(free, LARGE), catalog, BedrockCatalog(), load_serving())
        serve = plan.request.workload.serve
        assert None not in (serve.tensor_parallel, serve.batch_size, serve.sequence_length)

    @pytest.mark.parametrize("model, precision", [("gpt-oss-20b", "mxfp4"), ("llama-3.1-8b", "bf16")])
    def test_open_precision_is_the_published_one(self, catalog, model, precision):
        serve = {**GPU, "model": model, "batch_size": "auto"}
        plan = pinned_serving(request_of(serve, G6E), catalog, BedrockCatalog(), load_serving())
        assert plan.request.workload.serve.precision == precision

    @pytest.mark.parametrize("published, setting", [(None, "fp8"), ("fp8", None)])
    def test_format_of_published_weights_is_left_to_their_config_json(self, catalog, published, setting):
        model = {
            "params_b": 8.03,
            "layers": 32,
            "hidden": 4096,
            "heads": 32,
            "kv_heads": 8,
            "published_format": published,
        }
        serve = {**GPU, "model": model, "precision": "fp8", "batch_size": "auto"}
        plan = pinned_serving(request_of(serve, G6E), catalog, BedrockCatalog(), load_serving())
        environment = ServingPlan(plan=plan, catalog=catalog).environment("/weights", replicas=1)
        assert environment.get("SM_VLLM_QUANTIZATION") == setting

    def test_resolved_serving_plan_keeps_digest(self, catalog):
        plan = pinned_serving(request_of(), catalog, BedrockCatalog(), load_serving())
        assert pinned_serving(plan.request, catalog, BedrockCatalog(), load_serving()).digest == plan.digest

    @pytest.mark.parametrize(
        "target, message",
        [
            ({"instance_type": "any"}, "target.instance_type must be one value, got any"),
            ({"region": ["us-east-1", "us-east-2"]}, "target.region must be one value, got us-east-1, us-east-2"),
        ],
    )
    def test_open_serving_target_refused_for_deployment(self, catalog, target, message):
        with pytest.raises(ImpossibleError) as refusal:
            pinned_serving(request_of({"tensor_parallel": "auto"}, target), catalog, BedrockCatalog(), load_serving())
        assert message in [f"{finding.path} {finding.message}" for finding in refusal.value.findings]

    def test_model_too_large_for_type_refused_with_reason(self, catalog):
        request = request_of({"model": "llama-3.3-70b"})
        with pytest.raises(ImpossibleError) as refusal:
            pinned_serving(request, catalog, BedrockCatalog(), load_serving())
        assert re.search(r"inf2.8xlarge: .* cannot load weights|do not fit", refusal.value.findings[0].message)


@pytest.mark.parametrize(
    "serve, target, path",
    [
        ({}, LARGE, "workload.serve.tensor_parallel"),
        ({"min_instances": 0, "max_instances": 2}, {}, "workload.serve.min_instances"),
        ({**GPU, "min_instances": 0, "max_instances": 2}, G6E, "workload.serve.min_instances"),
    ],
)
def test_components_in_region_without_resource_type_refused(unchecked_plan, catalog, serve, target, path):
    def refused(region):
        plan = unchecked_plan(serve, {**target, "region": region}, region=region, **target)
        findings = endpoint_findings(served(plan, catalog), load_serving())
        return [(finding.path, finding.hint) for finding in findings if finding.code == "components-not-in-region"]

    assert refused("us-east-1") == []
    ((where, hint),) = refused("eu-west-3")
    assert where == path
    assert hint


@pytest.mark.parametrize(
    "serve, target, variant",
    [
        ({}, {}, "inf2-8xlarge"),
        (GPU, G6E, "g6e-2xlarge"),
        ({**GPU, "variant": "inf2-8xlarge"}, G6E, "inf2-8xlarge"),
        ({"variant": "main"}, LARGE, "main"),
    ],
)
def test_variant_name_follows_type_unless_planned(unchecked_plan, catalog, serve, target, variant):
    assert served(unchecked_plan(serve, target), catalog).endpoint.variant == variant
