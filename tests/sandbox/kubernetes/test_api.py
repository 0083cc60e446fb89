"""The API refuses what Kubernetes refuses, and its watches end and resume like real ones."""

import os
from pathlib import Path

import pytest
import yaml

from launcher.sandbox.kubernetes.validation import refusals


def _map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _pod_spec(document):
    return document["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda d: d["spec"].update(backoffLimits=3), 'unknown field "spec.backoffLimits"'),
        (
            lambda d: _pod_spec(d)["containers"][0].update(imag="x"),
            'unknown field "spec.template.spec.containers[0].imag"',
        ),
        (lambda d: d["spec"].update(completions="two"), "spec.completions"),
        (lambda d: _pod_spec(d).update(restartPolicy="Always"), 'valid values: "OnFailure", "Never"'),
        (lambda d: _pod_spec(d).update(restartPolicy="OnFailure"), "podFailurePolicy"),
        (lambda d: d["spec"].pop("completions"), "spec.completions: Required value"),
        (lambda d: d["metadata"].update(name="x" * 63), "DNS label hostname"),
        (lambda d: d["metadata"].update(name="Bad_Name"), "RFC 1123 subdomain"),
        (lambda d: d["metadata"]["labels"].update({"slipway/job": "x" * 64}), "at most 63 characters"),
        (lambda d: _pod_spec(d)["volumes"].clear(), 'volumeMounts[0].name: Not found: "slipway"'),
        (
            lambda d: _pod_spec(d)["containers"][0]["resources"].update(requests={"vpc.amazonaws.com/efa": 4}),
            "Limit must be set for non overcommitable resources",
        ),
        (
            lambda d: _pod_spec(d)["containers"][0]["resources"].update(requests={"nvidia.com/gpu": 4}),
            "must be equal to nvidia.com/gpu limit",
        ),
        (
            lambda d: _pod_spec(d)["containers"][0]["resources"].update(limits={"hugepages-2Mi": "5Gi"}),
            "HugePages require cpu or memory",
        ),
        (lambda d: d["spec"]["podFailurePolicy"]["rules"][1]["onExitCodes"].update(values=[75, 0]), "must be ordered"),
        (lambda d: _pod_spec(d).update(tolerations=[{"operator": "Exists", "value": "x"}]), "value must be empty"),
    ],
)
def test_invalid_job_refused(pod_job, spoil, message):
    document = pod_job("true")
    assert refusals(document) == []
    spoil(document)
    assert message in " ".join(refusals(document))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"jobMaxRetry": 3}, 'unknown field "spec.jobMaxRetry"'),
        ({"nprocPerNode": 8}, "spec.nprocPerNode in body must be of type string"),
        ({"replicaSpecs": [{"name": "pods", "replicas": "two", "template": {"spec": {"containers": []}}}]}, "integer"),
        (
            {"replicaSpecs": [{"name": "p", "template": {"spec": {"containers": [{"name": "a", "imag": "x"}]}}}]},
            'unknown field "spec.containers[0].imag"',
        ),
    ],
)
def test_hyperpod_operator_job_fields_are_validated(change, message):
    container = {"name": "pytorch", "image": "x:1"}
    replicas = [{"name": "pods", "replicas": 2, "template": {"spec": {"containers": [container]}}}]
    spec = {"nprocPerNode": "auto", "replicaSpecs": replicas}
    document = {"apiVersion": "sagemaker.amazonaws.com/v1", "kind": "HyperPodPyTorchJob", "metadata": {"name": "x"}}
    assert refusals({**document, "spec": spec}) == []
    assert message in " ".join(refusals({**document, "spec": {**spec, **change}}))


def test_pytorch_job_requires_container_named_pytorch():
    template = {"spec": {"containers": [{"name": "train", "image": "x:1"}]}}
    spec = {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": template}}}
    document = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "x"}, "spec": spec}
    assert "container with name pytorch" in refusals(document)[0]
    assert refusals(document, operators=()) == ["no kind PyTorchJob in kubeflow.org/v1 here"]


def test_request_without_token_refused(kubernetes, cluster):
    configuration = kubernetes.client.Configuration(host=cluster.server.address)
    configuration.api_key = {"authorization": "Bearer k8s-aws-v1.bm90aGluZw"}
    with kubernetes.client.ApiClient(configuration) as client, pytest.raises(kubernetes.client.ApiException) as refused:
        kubernetes.client.CoreV1Api(client).list_node()
    assert refused.value.status == 401


def test_stale_change_conflicts_and_immutable_field_refused(kubernetes, core, batch, pod_job):
    config_map = core.create_namespaced_config_map("default", _map("m", a="1"))
    core.patch_namespaced_config_map("m", "default", {"data": {"b": "2"}})
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.replace_namespaced_config_map("m", "default", config_map)
    assert (refused.value.status, "has been modified" in refused.value.body) == (409, True)
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.create_namespaced_config_map("default", _map("m"))
    assert "AlreadyExists" in refused.value.body
    batch.create_namespaced_job("default", pod_job("true"))
    with pytest.raises(kubernetes.client.ApiException) as refused:
        batch.patch_namespaced_job("train", "default", {"spec": {"completionMode": "NonIndexed"}})
    assert "field is immutable" in refused.value.body


def test_list_has_pages_and_expired_continue_token_refused(kubernetes, cluster, core):
    for number in range(5):
        core.create_namespaced_config_map("default", _map(f"m{number}"))
    first = core.list_namespaced_config_map("default", limit=2)
    second = core.list_namespaced_config_map("default", limit=2, _continue=first.metadata._continue)
    assert [config_map.metadata.name for config_map in (*first.items, *second.items)] == ["m0", "m1", "m2", "m3"]
    core.create_namespaced_config_map("default", _map("m9"))
    cluster.api.objects.compact()
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.list_namespaced_config_map("default", limit=2, _continue=second.metadata._continue)
    assert refused.value.status == 410


def test_watch_reports_objects_entering_and_leaving_selector(kubernetes, cluster, core):
    version = core.list_namespaced_config_map("default").metadata.resource_version
    core.create_namespaced_config_map("default", _map("m"))
    core.patch_namespaced_config_map("m", "default", {"metadata": {"labels": {"a": "1"}}})
    core.patch_namespaced_config_map("m", "default", {"metadata": {"labels": {"a": None}}})
    options = {"label_selector": "a=1", "resource_version": version, "timeout_seconds": 1}
    events = kubernetes.watch.Watch().stream(core.list_namespaced_config_map, "default", **options)
    assert [event["type"] for event in events] == ["ADDED", "DELETED"]
    cluster.api.objects.compact()
    with pytest.raises(kubernetes.client.ApiException) as refused:
        list(kubernetes.watch.Watch().stream(core.list_namespaced_config_map, "default", **options))
    assert refused.value.status == 410


def test_object_with_finalizer_deleted_after_finalizer_removal(kubernetes, core):
    body = _map("m")
    body["metadata"]["finalizers"] = ["example.org/hold"]
    core.create_namespaced_config_map("default", body)
    core.delete_namespaced_config_map("m", "default")
    assert core.read_namespaced_config_map("m", "default").metadata.deletion_timestamp is not None
    core.patch_namespaced_config_map("m", "default", [{"op": "remove", "path": "/metadata/finalizers"}])
    with pytest.raises(kubernetes.client.ApiException) as refused:
        core.read_namespaced_config_map("m", "default")
    assert refused.value.status == 404


def test_kind_of_missing_operator_not_found(kubernetes, tmp_path, api_client):
    with pytest.raises(kubernetes.client.ApiException) as refused:
        kubernetes.client.CustomObjectsApi(api_client).list_cluster_custom_object("karpenter.sh", "v1", "nodepools")
    assert refused.value.status == 404


def test_vendor_definitions_validate_with_cel_rules(kubernetes, api_client):
    """Data: Karpenter's definition; the verdicts are those that the CRD server of Kubernetes 1.36 gave."""
    folder = os.environ.get("SLIPWAY_VENDOR_DATA")
    if not folder:
        pytest.skip("SLIPWAY_VENDOR_DATA names no folder")
    pytest.importorskip("cel")
    definition = yaml.safe_load((Path(folder) / "crds" / "karpenter.sh_nodepools.yaml").read_text())
    definition["metadata"].pop("creationTimestamp", None)
    kubernetes.client.ApiextensionsV1Api(api_client).create_custom_resource_definition(definition)
    custom = kubernetes.client.CustomObjectsApi(api_client)
    requirement = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": []}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "x"}
    template = {"spec": {"requirements": [requirement], "nodeClassRef": reference}}
    body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"}}
    with pytest.raises(kubernetes.client.ApiException) as refused:
        custom.create_cluster_custom_object("karpenter.sh", "v1", "nodepools", {**body, "spec": {"template": template}})
    assert "requirements with operator 'In' must have a value defined" in refused.value.body
    requirement["values"] = ["spot"]
    custom.create_cluster_custom_object("karpenter.sh", "v1", "nodepools", {**body, "spec": {"template": template}})
