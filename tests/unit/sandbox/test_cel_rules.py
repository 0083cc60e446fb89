"""Custom resources are validated as by the API server: structure first, then the CEL rules."""

import importlib.util
import os
from pathlib import Path

import pytest
import yaml

from launcher.sandbox.kubernetes import cel_rules
from launcher.sandbox.kubernetes.kinds import Kind, defined_kinds
from launcher.sandbox.kubernetes.statuses import RefusedError
from launcher.sandbox.kubernetes.validation import validate

# The library is found, not imported: it takes a second of every worker that only collects the tests.
pytestmark = pytest.mark.skipif(importlib.util.find_spec("cel") is None, reason="could not import 'cel'")

FOLDER = os.environ.get("SLIPWAY_VENDOR_DATA")
vendor = pytest.mark.skipif(not FOLDER, reason="SLIPWAY_VENDOR_DATA names no folder")
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {"rule": "self.least <= self.most", "message": "least is above most"},
                {
                    "rule": "!has(self.name) || self.name != 'taken'",
                    "messageExpression": "'the name ' + self.name + ' is taken'",
                    "fieldPath": ".name",
                },
                {"rule": "oldSelf.most <= self.most", "message": "most never shrinks"},
            ],
            "properties": {
                "least": {"type": "integer", "default": 5},
                "most": {"type": "integer"},
                "name": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}],
                },
                "zone": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self.find('^[a-z]+').size() > 1", "message": "no zone"}],
                },
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["key"],
                    "items": {
                        "type": "object",
                        "required": ["key"],
                        "properties": {
                            "key": {"type": "string"},
                            "size": {
                                "type": "integer",
                                "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "never less"}],
                            },
                        },
                    },
                },
                "loose": {
                    "type": "array",
                    "items": {
                        "type": "integer",
                        "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "never less"}],
                    },
                },
            },
        }
    },
}
KIND = Kind(group="example.org", version="v1", plural="things", kind="Thing", schema=SCHEMA)


def custom_object(**spec):
    return {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": spec}


def verdict(spec, old=None):
    """The messages about an object; empty when it is valid."""
    try:
        validate(KIND, custom_object(**spec), None if old is None else custom_object(**old))
    except RefusedError as refused:
        return list(refused.causes) or [("", str(refused))]
    return []


def test_cel_rule_sees_default_values():
    assert verdict({"most": 5}) == []
    assert verdict({"most": 4}) == [("spec", 'Invalid value: "object": least is above most')]


def test_cel_message_expression_is_evaluated_with_the_field():
    assert verdict({"most": 9, "name": "taken"}) == [("spec.name", 'Invalid value: "object": the name taken is taken')]


def test_cel_function_of_kubernetes_is_supported():
    assert verdict({"most": 9, "zone": "us1"}) == []
    assert verdict({"most": 9, "zone": "1"}) == [("spec.zone", 'Invalid value: "string": no zone')]


def test_cel_transition_rules_apply_to_changes_only():
    assert verdict({"most": 9}) == []
    assert verdict({"most": 8}, {"most": 9}) == [("spec", 'Invalid value: "object": most never shrinks')]
    other = verdict({"most": 9, "name": "b"}, {"most": 9, "name": "a"})
    assert other == [("spec.name", 'Invalid value: "string": fixed')]
    assert verdict({"most": 9, "name": "b"}, {"most": 9}) == []


def test_cel_transition_rule_of_a_list_compares_items_by_key():
    before = {"most": 9, "list": [{"key": "a", "size": 1}, {"key": "b", "size": 5}], "loose": [5]}
    turned = {"most": 9, "list": [{"key": "b", "size": 5}, {"key": "a", "size": 1}], "loose": [1]}
    assert verdict(turned, before) == []
    smaller = {**turned, "list": [{"key": "b", "size": 4}]}
    assert verdict(smaller, before) == [("spec.list[0].size", 'Invalid value: "integer": never less')]


def test_cel_rule_with_an_evaluation_error_refuses():
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.a.b == 1"}]}
    ((_, text),) = cel_rules.broken_rules(schema, {"a": {}}, None, "spec", "object")
    assert text == 'Invalid value: "object": rule evaluation error: no such key: b'


def test_cel_function_without_support_is_an_error():
    schema = {"x-kubernetes-validations": [{"rule": "quantity(self).isGreaterThan(quantity('1'))"}]}
    with pytest.raises(LookupError, match="cannot evaluate a function of this rule"):
        list(cel_rules.broken_rules(schema, "2", None, "spec", "string"))


def test_definition_with_invalid_cel_is_refused():
    broken = {"properties": {"spec": {"x-kubernetes-validations": [{"rule": "self.a =="}]}}}
    ((where, text),) = cel_rules.unreadable(broken, "schema")
    assert where == "schema.properties.spec.x-kubernetes-validations[0].rule"
    assert "compilation failed" in text


@vendor
@pytest.mark.parametrize("path", sorted(Path(FOLDER or ".").glob("crds/*.yaml")), ids=lambda path: path.stem)
def test_every_cel_rule_of_the_vendor_definitions_is_readable(path):
    definition = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert list(cel_rules.unreadable(definition["spec"]["versions"])) == []


def _vendor(name):
    definition = yaml.safe_load(Path(str(FOLDER), "crds", f"{name}.yaml").read_text(encoding="utf-8"))
    return {kind.version: kind for kind in defined_kinds(definition)}


def _messages_of(kind, document, old=None):
    try:
        validate(kind, document, old)
    except RefusedError as refused:
        return str(refused)
    return ""


def _trainjob(**spec):
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": "x"},
        "spec": {"runtimeRef": {"name": "torch"}, **spec},
    }


@vendor
def test_verdicts_equal_the_recorded_ones_of_apiextensions_apiserver():
    """What apiextensions-apiserver 0.36.4 said of the same objects."""
    jobs = _vendor("trainer.kubeflow.org_trainjobs")["v1alpha1"]
    assert _messages_of(jobs, _trainjob(trainer={"numNodes": 2})) == ""
    assert 'unknown field "spec.trainer.numNode"' in _messages_of(jobs, _trainjob(trainer={"numNode": 2}))
    assert "must be of type integer" in _messages_of(jobs, _trainjob(trainer={"numNodes": "two"}))
    other = _trainjob(runtimeRef={"name": "jax"})
    assert "immutable" in _messages_of(jobs, other, _trainjob())
    nodes = _vendor("karpenter.k8s.aws_ec2nodeclasses")["v1"]
    spec = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "securityGroupSelectorTerms": [{"id": "sg-0"}],
        "subnetSelectorTerms": [{"id": "subnet-0"}],
    }
    node_class = {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "x"}}
    both = _messages_of(nodes, {**node_class, "spec": {**spec, "role": "r", "instanceProfile": "p"}})
    assert "must specify exactly one of ['role', 'instanceProfile']" in both
    cards = [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "efa-only"}]
    alone = _messages_of(nodes, {**node_class, "spec": {**spec, "role": "r", "networkInterfaces": cards}})
    assert "must include a primary interface with interfaceType='interface'" in alone


@vendor
@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_kueue_definitions_judge_local_queues(version):
    queues = _vendor("kueue.x-k8s.io_localqueues")[version]
    local_queue = {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": "LocalQueue", "metadata": {"name": "gpus"}}
    assert _messages_of(queues, {**local_queue, "spec": {"clusterQueue": "all"}}) == ""
    assert "should match" in _messages_of(queues, {**local_queue, "spec": {"clusterQueue": "Bad_Name"}})
    assert "immutable" in _messages_of(
        queues, {**local_queue, "spec": {"clusterQueue": "b"}}, {**local_queue, "spec": {"clusterQueue": "a"}}
    )
