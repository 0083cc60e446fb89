"""Rendered serving plans: the endpoint, the compile job with stand-ins, and the manifests."""

import json
import os
import subprocess

import kubernetes_validate
import pytest
import yaml

from launcher import plan_file
from launcher.catalog.bedrock import BedrockCatalog
from launcher.catalog.serving import load_serving
from launcher.catalog.serving_images import load_images
from launcher.model.errors import ImpossibleError
from launcher.planning.endpoint import ServingDeployment
from launcher.planning.endpoint_pin import pinned_serving
from launcher.rendering.device_plugins import NEURON_FILE
from launcher.rendering.serving import COMPILE_FILE, ENDPOINT_FILE, SERVICE_FILE, render_serving
from tests.plans import laid_over, request_of
from tests.unit.rendering.conftest import ROOT

FILES = {path.stem: path for path in sorted((ROOT / "examples/serve/pinned").glob("*.yaml"))}
KUBERNETES = "1.35"
BASE = {
    "slipway": 1,
    "name": "small",
    "workload": {
        "serve": {
            "model": "llama-3.1-8b",
            "model_uri": "s3://models/llama/weights",
            "input_tokens": 1500,
            "output_tokens": 250,
            "requests_per_s": 1,
            "tensor_parallel": 2,
            "batch_size": 8,
            "sequence_length": 2048,
        }
    },
    "target": {"kind": "eks", "region": "us-east-1", "instance_type": "inf2.8xlarge"},
    "purchase": {"option": "on-demand"},
}


@pytest.fixture
def serving_bundle(catalog):
    """The files of an example by its name, or of BASE with more keys laid over it."""

    def make(name=None, **extra):
        request = plan_file.load(FILES[name]) if name else request_of(laid_over(BASE, extra))
        plan = pinned_serving(request, catalog, BedrockCatalog(), load_serving())
        return render_serving(ServingDeployment(plan=plan, catalog=catalog, images=load_images()), load_serving())

    return make


def serve(**more):
    return {"workload": {"serve": more}}


def objects(bundle, path=SERVICE_FILE):
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(bundle.file(path).text)}


def pod(bundle):
    return objects(bundle)["Deployment"]["spec"]["template"]["spec"]


class TestEndpointFile:
    def test_endpoint_file_has_the_mode_copies_and_image_of_the_stack(self, serving_bundle):
        endpoint = json.loads(serving_bundle("llama31-8b-inf2").file(ENDPOINT_FILE).text)
        assert (endpoint["mode"], endpoint["copies"], endpoint["least"], endpoint["most"]) == ("components", 3, 1, 5)
        assert "sdk2.26.1" in endpoint["image"]

    def test_impossible_serving_plan_is_refused_with_a_code(self, serving_bundle):
        with pytest.raises(ImpossibleError) as refusal:
            serving_bundle(target={"region": "eu-north-1"})
        assert [finding.code for finding in refusal.value.findings] == ["image-not-in-region"]


# ------------------------------------------------------------------------------------------------------------- compile

AWS = """#!/bin/sh
echo "aws $*" >>"$CALLS"
case "$1 $2" in
"s3 ls") exit "${COMPILED:-1}" ;;
"ecr get-login-password") echo secret ;;
"s3 sync") case "$4" in s3://*) [ -n "$EMPTY" ] || echo '{}' >"$5/config.json" ;; esac ;;
esac
"""
DOCKER = """#!/bin/sh
echo "docker $*" >>"$CALLS"
case "$*" in
login*) cat >/dev/null ;;
*export*)
    for word; do case "$word" in *:/compile) work="${word%:/compile}" ;; esac; done
    mkdir -p "$work/compiled/checkpoint/weights"
    [ -n "$LOST" ] && rm -r "$work/compiled/checkpoint"
    echo "$NEURON_CONFIG" >"$work/compiled/neuron_config.json" ;;
*huggingface-cli*)
    for word; do case "$word" in *:/compile) work="${word%:/compile}" ;; esac; done
    mkdir -p "$work/model" && echo '{}' >"$work/model/config.json" ;;
esac
"""
CONFIG = {"target": "inf2", "tp_degree": 2, "batch_size": 8, "sequence_length": 2048}


@pytest.fixture
def compile_model(tmp_path, serving_bundle):
    """Run a compile job with stand-ins for the AWS CLI and Docker; its result, and what it called."""

    def run(bundle=None, *, chips=1, config=None, **variables):
        programs, devices = tmp_path / "bin", tmp_path / "dev"
        for folder in (programs, devices, tmp_path / "work/compile-small/model"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("aws", AWS), ("docker", DOCKER)):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        for index in range(chips):
            (devices / f"neuron{index}").touch()
        script, calls = tmp_path / COMPILE_FILE, tmp_path / "calls"
        script.write_text((bundle or serving_bundle()).file(COMPILE_FILE).text)
        calls.write_text("")
        environ = {
            **os.environ,
            "PATH": f"{programs}:{os.environ['PATH']}",
            "CALLS": str(calls),
            "NEURON_CONFIG": json.dumps(config or CONFIG),
            "SLIPWAY_DEVICES": str(devices),
            "SLIPWAY_WORK": str(tmp_path / "work"),
            **variables,
        }
        done = subprocess.run(["bash", script], env=environ, capture_output=True, text=True, check=False)
        return done, calls.read_text().splitlines()

    return run


class TestCompile:
    @pytest.fixture(autouse=True)
    def roomy(self, monkeypatch):
        """A disk that is large enough, for a machine that has none."""
        monkeypatch.setattr("launcher.rendering.serving.WORK_GIB", 0)
        monkeypatch.setattr("launcher.rendering.serving.TIMES_STORED", 0)

    def test_compile_scripts_pass_shellcheck(self, serving_bundle, shellcheck, tmp_path):
        hub = serving_bundle(**serve(model="qwen3-8b", model_uri=None, artifacts_uri="s3://models/qwen"))
        for name, bundle in (("s3", serving_bundle()), ("hub", hub)):
            path = tmp_path / f"{name}.sh"
            path.write_text(bundle.file(COMPILE_FILE).text)
            assert shellcheck(path) == ""

    def test_compile_job_uses_the_serving_image_and_shape(self, compile_model):
        done, calls = compile_model()
        assert done.returncode == 0, done.stderr
        (export,) = [call for call in calls if " export neuron " in call]
        assert "0.11.0-optimum0.4.5-neuronx-py310-sdk2.26.1-ubuntu22.04 export neuron" in export
        shape = "--tensor_parallel_size 2 --batch_size 8 --sequence_length 2048 /compile/compiled"
        assert export.endswith(f"--model /compile/model --task text-generation --instance_type inf2 {shape}")
        assert "--device" in export

    def test_compile_job_stores_under_a_name_of_the_shape_with_the_configuration_last(self, compile_model):
        done, calls = compile_model()
        destination = "s3://models/llama/weights-inf2-tp2-b8-s2048"
        assert calls[-2].endswith(f"/compiled {destination}")
        assert "--exclude neuron_config.json" in calls[-2]
        assert calls[-1].endswith(f"{destination}/neuron_config.json")
        assert done.stdout.endswith(f"compile: done; workload.serve.artifacts_uri: {destination}\n")

    def test_compile_job_stores_at_the_artifacts_uri_of_the_plan(self, compile_model, serving_bundle):
        _, calls = compile_model(serving_bundle(**serve(artifacts_uri="s3://models/mine/")))
        assert calls[-1].endswith("s3://models/mine/neuron_config.json")

    def test_compile_job_downloads_an_open_model_from_the_hub(self, compile_model, serving_bundle):
        hub = serving_bundle(**serve(model="qwen3-8b", model_uri=None, artifacts_uri="s3://models/qwen"))
        done, calls = compile_model(hub)
        assert done.returncode == 0, done.stderr
        assert any("huggingface-cli" in call and "download Qwen/Qwen3-8B" in call for call in calls)

    def test_compile_job_of_an_embedding_model_exports_features(self, compile_model, serving_bundle):
        more = {"model": "qwen3-embedding-0.6b", "task": "embedding", "output_tokens": 0}
        _, calls = compile_model(serving_bundle(**serve(**more)))
        assert any("--task feature-extraction" in call for call in calls)

    @pytest.mark.parametrize(
        "how, message",
        [
            ({"chips": 0}, "2 NeuronCores are needed, found 0: an instance of inf2 with its driver"),
            ({"COMPILED": "0"}, "is compiled already; SLIPWAY_RECOMPILE=1 does it again"),
            ({"EMPTY": "yes"}, "has no config.json"),
            ({"config": {**CONFIG, "tp_degree": 8}}, "tp_degree is 8, not 2"),
            ({"config": {**CONFIG, "target": "trn1"}}, "target is trn1, not inf2"),
            ({"LOST": "yes"}, "the weights are not beside the compiled model"),
        ],
    )
    def test_compile_job_refuses_and_stores_no_unusable_model(self, compile_model, how, message):
        done, calls = compile_model(**how)
        assert done.returncode == 1
        assert message in done.stderr
        assert not any(" s3 cp " in call for call in calls)

    def test_compile_job_with_recompile_runs_again(self, compile_model):
        done, _ = compile_model(COMPILED="0", SLIPWAY_RECOMPILE="1")
        assert done.returncode == 0

    def test_gpu_endpoint_renders_no_compile_job(self, serving_bundle):
        assert [file.path for file in serving_bundle("llama31-8b-g6e").files] == [ENDPOINT_FILE]


def test_compile_job_with_too_small_a_disk_fails_before_any_download(compile_model, monkeypatch):
    monkeypatch.setattr("launcher.rendering.serving.WORK_GIB", 10**6)
    done, calls = compile_model()
    assert "GiB are needed" in done.stderr
    assert not any(call.startswith("docker") for call in calls)


# ---------------------------------------------------------------------------------------------------------- Kubernetes

VARIANTS = {
    "example": {"name": "llama31-8b-eks"},
    "not-compiled": {},
    "one-pod": serve(artifacts_uri="s3://models/c"),
    "gpu": {**serve(tensor_parallel=1), "target": {"instance_type": "g6e.12xlarge"}},
    "gpu-from-the-hub": {
        **serve(model="qwen3-8b", model_uri=None, tensor_parallel=1),
        "target": {"instance_type": "g6e.xlarge"},
    },
    "embedding": serve(model="qwen3-embedding-0.6b", task="embedding", output_tokens=0),
    "zone": {"target": {"az_id": "use1-az4"}},
    "whole-bucket": serve(artifacts_uri="s3://models"),
}


@pytest.mark.long
@pytest.mark.parametrize("extra", VARIANTS.values(), ids=VARIANTS)
def test_every_serving_manifest_passes_the_strict_schema(serving_bundle, extra):
    files = [file for file in serving_bundle(**extra).files if file.path.startswith("kubernetes/")]
    assert files
    for file in files:
        for manifest in yaml.safe_load_all(file.text):
            kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


def test_strict_schema_refuses_a_misspelled_key(serving_bundle):
    deployment = objects(serving_bundle())["Deployment"]
    deployment["spec"]["template"]["spec"]["nodeSelektor"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, KUBERNETES, strict=True)


class TestService:
    def test_serving_pod_has_the_chips_of_one_copy(self, serving_bundle):
        bundle = serving_bundle("llama31-8b-eks")
        assert objects(bundle)["Deployment"]["spec"]["replicas"] == 9
        (server,) = pod(bundle)["containers"]
        assert server["resources"]["limits"]["aws.amazon.com/neuron"] == "4"
        assert server["resources"]["requests"]["aws.amazon.com/neuron"] == "4"
        assert "sdk2.26.1" in server["image"]
        assert pod(bundle)["nodeSelector"]["node.kubernetes.io/instance-type"] == "inf2.48xlarge"

    def test_neuron_server_is_configured_by_variables_and_gpu_server_by_arguments(self, serving_bundle):
        (server,) = pod(serving_bundle("llama31-8b-eks"))["containers"]
        values = {variable["name"]: variable["value"] for variable in server["env"]}
        assert (values["SM_ON_TENSOR_PARALLEL_SIZE"], values["SM_ON_MODEL"]) == ("8", "/opt/ml/model")
        assert "command" not in server
        (server,) = pod(serving_bundle(**VARIANTS["gpu"]))["containers"]
        assert server["command"] == ["vllm", "serve"]
        assert server["args"][:3] == ["/opt/ml/model", "--served-model-name", "small"]
        assert server["args"][-2:] == ["--port", "8080"]
        assert server["resources"]["limits"]["nvidia.com/gpu"] == "1"

    def test_model_folder_is_mounted_read_only_from_s3(self, serving_bundle):
        volume = objects(serving_bundle("llama31-8b-eks"))["PersistentVolume"]["spec"]
        assert volume["csi"]["volumeAttributes"] == {"bucketName": "models-of-the-team"}
        assert "prefix llama-3.1-8b/inf2-tp8-b32-s2048/" in volume["mountOptions"]
        assert "read-only" in volume["mountOptions"]
        assert "PersistentVolume" not in objects(serving_bundle(**VARIANTS["gpu-from-the-hub"]))

    def test_serving_pods_without_downloads_have_no_egress(self, serving_bundle):
        assert objects(serving_bundle("llama31-8b-eks"))["NetworkPolicy"]["spec"]["egress"] == []
        assert objects(serving_bundle())["NetworkPolicy"]["spec"]["egress"] != []

    def test_startup_probe_allows_one_hour_for_loading(self, serving_bundle):
        probe = pod(serving_bundle())["containers"][0]["startupProbe"]
        assert probe["periodSeconds"] * probe["failureThreshold"] == 3600

    def test_serving_pod_drains_within_the_spot_notice(self, serving_bundle):
        spec = pod(serving_bundle())
        drain = spec["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
        assert drain < spec["terminationGracePeriodSeconds"] <= 120

    def test_rollout_keeps_most_pods_or_adds_one(self, serving_bundle):
        several = objects(serving_bundle("llama31-8b-eks"))
        assert several["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 2}
        assert several["PodDisruptionBudget"]["spec"]["maxUnavailable"] == 2
        single = objects(serving_bundle(**VARIANTS["one-pod"]))
        assert single["Deployment"]["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
        assert "PodDisruptionBudget" not in single

    def test_zone_spread_allows_the_skew_of_the_nodes(self, serving_bundle):
        # Nine pods on three nodes in two zones are six and three.
        assert pod(serving_bundle("llama31-8b-eks"))["topologySpreadConstraints"][0]["maxSkew"] == 3
        even = serving_bundle(**serve(zones=2, min_instances=2, max_instances=2))
        assert pod(even)["topologySpreadConstraints"][0]["maxSkew"] == 1

    def test_zone_of_the_plan_is_in_the_node_selector(self, serving_bundle):
        assert pod(serving_bundle(**VARIANTS["zone"]))["nodeSelector"]["topology.k8s.aws/zone-id"] == "use1-az4"

    def test_neuron_plugin_is_rendered_and_nvidia_plugin_is_not(self, serving_bundle):
        daemon = objects(serving_bundle("llama31-8b-eks"), NEURON_FILE)["DaemonSet"]
        (container,) = daemon["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "public.ecr.aws/neuron/neuron-device-plugin:2.22.4.0"
        assert [file.path for file in serving_bundle(**VARIANTS["gpu"]).files] == [SERVICE_FILE]

    def test_neuron_plugin_is_the_same_for_every_plan(self, serving_bundle):
        def plugin(*name, **extra):
            return objects(serving_bundle(*name, **extra), NEURON_FILE)["DaemonSet"]

        large, small = plugin("llama31-8b-eks"), plugin(**VARIANTS["embedding"])
        assert large == small
        affinity = large["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        ((types, computes),) = [
            term["matchExpressions"]
            for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        ]
        assert {"inf2.xlarge", "inf2.48xlarge", "trn1.32xlarge"} <= set(types["values"])
        assert not any(value.startswith(("g6e.", "p5.")) for value in types["values"])
        assert (computes["operator"], "auto" in computes["values"]) == ("NotIn", True)

    def test_pod_with_several_neuron_chips_uses_the_neuron_scheduler(self, serving_bundle):
        assert pod(serving_bundle("llama31-8b-eks"))["schedulerName"] == "my-scheduler"
        text = next(file.text for file in serving_bundle("llama31-8b-eks").files if file.path == SERVICE_FILE)
        assert "--set scheduler.enabled=true --set devicePlugin.enabled=false" in text

    @pytest.mark.parametrize("alone", ["one-chip", "all-chips", "gpus"])
    def test_pod_with_one_chip_all_chips_or_gpus_uses_the_default_scheduler(self, serving_bundle, alone):
        extra = {
            "one-chip": VARIANTS["embedding"],
            "all-chips": {**serve(tensor_parallel=24, batch_size=8), "target": {"instance_type": "inf2.48xlarge"}},
            "gpus": {**serve(tensor_parallel=2), "target": {"instance_type": "g6e.12xlarge"}},
        }[alone]
        assert "schedulerName" not in pod(serving_bundle(**extra))


@pytest.mark.parametrize("name", ["llama31-8b-eks", "llama31-8b-inf2"])
def test_rendered_serving_plan_equals_golden_files(golden, serving_bundle, name):
    for file in serving_bundle(name).files:
        like = f"rendering/trn1-eks/{file.path}" if file.path == "kubernetes/device-plugin.yaml" else None
        golden(f"rendering/{name}/{file.path}", file.text, like)
