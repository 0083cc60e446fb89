"""The files of an EKS plan: parsed, validated against strict schemas, and reviewed."""

import kubernetes_validate
import pytest
import yaml

from launcher import plan_file
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan
from launcher.rendering.node import is_nvidia
from launcher.targets.registry import billed_name
from tests.checks import some
from tests.unit.rendering.conftest import ROOT

FILES = sorted((ROOT / "examples" / "eks").glob("*.yaml"))
VERSIONS = ("1.31", "1.36")
AS_THEY_ARE = {"kubernetes/start.py"}
"""Files that are the same in every bundle."""


@pytest.fixture(params=FILES, ids=lambda path: path.stem, scope="module")
def eks_plan(request, catalog):
    return pinned_plan(plan_file.load(request.param), catalog)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_of_an_eks_plan_passes_the_strict_kubernetes_schema(eks_plan, bundle_of, version):
    count = 0
    for file in bundle_of(eks_plan).files:
        if file.path.startswith("kubernetes/") and file.path.endswith(".yaml"):
            for document in filter(None, yaml.safe_load_all(file.text)):
                kubernetes_validate.validate(document, version, strict=True)
                count += 1
    assert count >= 5


JOINED = sorted((ROOT / "examples" / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", JOINED, ids=lambda path: path.stem)
def test_job_for_an_existing_cluster_passes_the_schema_and_selects_the_type(catalog, bundle_of, path, version):
    """An operator's object is known to its own definition; its pods are Kubernetes' own."""
    plan = pinned_plan(plan_file.load(path), catalog)
    bundle = bundle_of(plan)
    *beside, job = yaml.safe_load_all(bundle.file("kubernetes/job.yaml").text)
    for manifest in (*beside, *yaml.safe_load_all(bundle.file("kubernetes/namespace.yaml").text)):
        kubernetes_validate.validate(manifest, version, strict=True)
    for replica in job["spec"].get("pytorchReplicaSpecs", {"Job": job["spec"]}).values():
        pod = {"apiVersion": "v1", "kind": "Pod", **replica["template"]}
        kubernetes_validate.validate(pod, version, strict=True)
        limits = pod["spec"]["containers"][0]["resources"]["limits"]
        facts = catalog.instance_types[plan.place.instance_type]
        assert int(limits.get("vpc.amazonaws.com/efa", 0)) == facts.required_efa(plan.place.nodes)
        assert pod["spec"]["nodeSelector"]["node.kubernetes.io/instance-type"] == billed_name(plan.place)
    assert job["metadata"]["namespace"] != "default"


def test_device_plugins_run_on_every_type_with_such_devices(eks_plan, bundle_of, catalog):
    """A later plan may change the type, and keeps the plugins."""
    text = bundle_of(eks_plan).file("kubernetes/plugins.yaml").text
    for manifest in some(filter(None, yaml.safe_load_all(text))):
        affinity = manifest["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        names, efa = set(term["matchExpressions"][0]["values"]), "efa" in manifest["metadata"]["name"]
        assert names >= {eks_plan.place.instance_type, "p5en.48xlarge"}
        facts = [catalog.instance_types[name] for name in names]
        assert all(each.efa_interfaces if efa else is_nvidia(each) for each in facts)
        assert ("trn2.48xlarge" in names) is efa


def test_rendered_eks_plan_equals_golden_files(golden, eks_plan, bundle_of):
    for file in bundle_of(eks_plan).files:
        if file.path not in AS_THEY_ARE:
            text = file.text.replace(eks_plan.digest, "<digest>")
            like = f"rendering/p5-eks/{file.path}" if file.path == "kubernetes/job.yaml" else None
            golden(f"rendering/{eks_plan.name}/{file.path}", text, like)


def test_existing_eks_cluster_renders_job_files_only(plan_of, bundle_of):
    plan = plan_of(target={"kind": "eks", "cluster": "shared", "queue": "team/gpus"}, run={"operator": "pytorchjob"})
    paths = [file.path for file in bundle_of(plan).files]
    assert paths == ["kubernetes/namespace.yaml", "kubernetes/job.yaml", "kubernetes/start.py", "job.json"]


def test_eks_plan_with_two_problems_is_refused_with_both(plan_of, bundle_of):
    plan = plan_of(target={"kind": "eks"}, purchase={"option": "capacity-block"}, run={"container": "docker"})
    with pytest.raises(ImpossibleError) as refusal:
        bundle_of(plan)
    assert [finding.code for finding in refusal.value.findings] == ["block-without-id", "container-in-pod"]
