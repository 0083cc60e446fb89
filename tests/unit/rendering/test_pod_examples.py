"""Every document that any example renders for Kubernetes is one that clusters take, the oldest and the newest.

The examples are found by what they hold, so that a new one is judged too.
"""

import json
import os
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from launcher import plan_file
from launcher.model.enums import Operator
from launcher.planning.pin import pinned_plan
from launcher.rendering.bundle import render
from launcher.rendering.kubernetes_job import job_manifests
from launcher.rendering.names import symbolic_names
from launcher.sandbox.kubernetes.kinds import defined_kinds, shipped_kinds
from launcher.sandbox.kubernetes.validation import refusals
from launcher.targets.registry import TARGETS, target_of
from tests.checks import some
from tests.plans import EXAMPLES, PLANS, example_request
from tests.unit.rendering.conftest import JOB

HYPERPOD = json.loads((EXAMPLES.parent / "tests/data/hyperpod_pytorch_job.schema.json").read_text(encoding="utf-8"))
"""What HyperPod's own client knows of a HyperPodPyTorchJob; the definition itself and its rules are not published."""
VERSIONS = ("1.31", "1.36")
"""The oldest and the newest that HyperPod's add-ons are for (one account, 2026-10); clusters of our own have a version
between them."""


def has_pods(path):
    """Whether a plan is of a job for Kubernetes, or of a cluster of it."""
    request = example_request(path)
    return request.workload.serve is None and any(target_of(kind).pods for kind in request.target.kind or ())


KIND = re.compile(rf"\bkind: .*({'|'.join(kind for kind, target in TARGETS.items() if target.pods)})\b")
EVERY = [path for path in PLANS if KIND.search(text := path.read_text(encoding="utf-8")) and "serve:" not in text]
"""By words of their text: a collection that reads every plan costs each worker a quarter of a second."""


def test_pod_examples_are_the_plans_with_pods():
    assert [path for path in PLANS if has_pods(path)] == EVERY


def test_pod_examples_include_the_required_cases():
    """Spot on HyperPod, Trainium2 in a training plan, a Capacity Block on EKS, a job on a cluster that stands."""
    names = {str(path.relative_to(EXAMPLES)) for path in EVERY}
    assert names >= {
        "hyperpod-eks/p5en-spot.yaml",
        "hyperpod-eks/trn2-training-plan.yaml",
        "eks/p5-capacity-block.yaml",
        "kubernetes/p5-existing.yaml",
    }


@pytest.fixture(params=EVERY, ids=lambda path: f"{path.parent.name}-{path.stem}", scope="module")
def pod_plan(request, catalog):
    return pinned_plan(plan_file.load(request.param), catalog)


def test_every_document_of_a_pod_example_is_accepted_by_the_sandbox(pod_plan, catalog):
    bundle = render(pod_plan, instances=catalog.instance_types, names=symbolic_names(pod_plan), job=JOB)
    files = [file for file in bundle.files if file.path.startswith("kubernetes/") and file.path.endswith(".yaml")]
    refusals_by_document = {
        f"{file.path}: {document['kind']}, {version}": refusals(document, version=version)
        for file in files
        for document in yaml.safe_load_all(file.text)
        if document
        for version in VERSIONS
    }
    assert refusals_by_document
    assert {name: problems for name, problems in refusals_by_document.items() if problems} == {}


@pytest.mark.parametrize("operator", list(Operator))
def test_job_of_a_pod_example_is_accepted_under_every_operator(pod_plan, catalog, operator):
    manifests = job_manifests(
        pod_plan, instances=catalog.instance_types, names=symbolic_names(pod_plan), job=JOB, operator=operator
    )
    for text in manifests:
        for document in some(yaml.safe_load_all(text)):
            assert [refusals(document, version=version) for version in VERSIONS] == [[], []]


@pytest.mark.skipif("SLIPWAY_VENDOR_DATA" not in os.environ, reason="SLIPWAY_VENDOR_DATA names no folder")
def test_pytorchjob_of_a_pod_example_is_accepted_by_the_kubeflow_definition(pod_plan, catalog):
    """With its rules in CEL."""
    pytest.importorskip("cel")
    path = Path(os.environ["SLIPWAY_VENDOR_DATA"], "crds", "kubeflow.org_pytorchjobs.yaml")
    _, job_text = job_manifests(
        pod_plan,
        instances=catalog.instance_types,
        names=symbolic_names(pod_plan),
        job=JOB,
        operator=Operator.PYTORCHJOB,
    )
    (document,) = yaml.safe_load_all(job_text)
    kinds = tuple(defined_kinds(yaml.safe_load(path.read_text(encoding="utf-8"))))
    assert refusals(document, kinds=kinds) == []
    assert refusals({**document, "spec": {**document["spec"], "pytorchReplicaSpec": {}}}, kinds=kinds) != []


@pytest.fixture(scope="module")
def hyperpod():
    """The validator of HYPERPOD, whose schema is checked once."""
    jsonschema.Draft202012Validator.check_schema(HYPERPOD)
    return jsonschema.Draft202012Validator(HYPERPOD)


@pytest.mark.long
def test_hyperpod_job_uses_only_fields_known_to_the_hyperpod_client(hyperpod, pod_plan, catalog):
    _, job_text = job_manifests(
        pod_plan,
        instances=catalog.instance_types,
        names=symbolic_names(pod_plan),
        job=JOB,
        operator=Operator.HYPERPOD_PYTORCHJOB,
    )
    (document,) = yaml.safe_load_all(job_text)
    (replicas,) = document["spec"]["replicaSpecs"]
    affinity = replicas["template"]["spec"].get("affinity", {})
    if pod_plan.place.nodes > 1 and pod_plan.request.target.queue is None:
        # The package gives the terms of node affinity to it, though it describes the others: Kubernetes' own judge it.
        (term,) = affinity["podAffinity"].pop("preferredDuringSchedulingIgnoredDuringExecution")
        assert set(term) == {"weight", "podAffinityTerm"}
    hyperpod.validate(document["spec"])
    document["spec"]["runPolicy"]["jobMaxRetry"] = 3
    with pytest.raises(jsonschema.ValidationError, match="jobMaxRetry"):
        hyperpod.validate(document["spec"])


def flat(schema, defs, path=""):
    """The fields of a schema below a pod template: what each may be, and which have to be there."""
    if "$ref" in schema:
        return flat(defs[schema["$ref"].rpartition("/")[2]], defs, path)
    if "anyOf" in schema:
        (schema,) = (alternative for alternative in schema["anyOf"] if alternative != {"type": "null"})
        return flat(schema, defs, path)
    fields = {path: (schema["type"], frozenset(schema.get("required", ())))}
    if path.endswith(".template"):
        return {path: ("object", frozenset())}
    for name, below in schema.get("properties", {}).items():
        fields |= flat(below, defs, f"{path}.{name}")
    return fields | (flat(schema["items"], defs, f"{path}[]") if "items" in schema else {})


def test_sandbox_definition_has_the_client_fields_and_more_required_ones():
    """Ours asks for replicas, a template and the number of processes too: a job without them does nothing."""
    (kind,) = shipped_kinds(("hyperpod",))
    ours, theirs = flat(kind.schema["properties"]["spec"], {}), flat(HYPERPOD, HYPERPOD["$defs"])
    assert {path: of for path, (of, _) in ours.items()} == {path: of for path, (of, _) in theirs.items()}
    more = {path: required - theirs[path][1] for path, (_, required) in ours.items()}
    assert all(theirs[path][1] <= required for path, (_, required) in ours.items())
    expected = {"": {"nprocPerNode", "replicaSpecs"}, ".replicaSpecs[]": {"template"}}
    assert {path: set(required) for path, required in more.items() if required} == expected
