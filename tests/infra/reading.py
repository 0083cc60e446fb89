"""Readers of an assembly that tests of several targets share: guard, tags, order, assets."""

import json
import re

from launcher.rendering.batch import JobSettings
from launcher.rendering.bundle import render
from launcher.rendering.names import symbolic_names
from tests.infra.registry import schemas

PARTS = ("network", "checkpoints", "training")
OWN = {"CostCenter": "ML-42", "owner": "team@example.com"}


def variables(assembly):
    functions = assembly.resources("training", "AWS::Lambda::Function").items()
    (guard,) = (function for key, function in functions if key.startswith("GuardrailsGuard"))
    return guard["Environment"]["Variables"]


def rules(assembly):
    resources = assembly.resources("training", "AWS::Events::Rule")
    return {key.removeprefix("Guardrails")[:-8]: rule for key, rule in resources.items()}


def alarms(assembly):
    return {
        resource["MetricName"]: resource
        for resource in assembly.resources("training", "AWS::CloudWatch::Alarm").values()
    }


def behind(assembly, key):
    """All resources that a resource depends on, directly or indirectly: DependsOn, Ref and GetAtt."""
    resources = assembly.template("training")["Resources"]
    reached, pending = set(), [key]
    while pending:
        resource = resources[pending.pop()]
        text = json.dumps(resource)
        named = set(resource.get("DependsOn", ())) | set(re.findall(r'"Ref": "(\w+)"', text))
        named |= set(re.findall(r'"Fn::GetAtt": \["(\w+)"', text))
        for other in (named & resources.keys()) - reached:
            reached.add(other)
            pending.append(other)
    return reached


def key_of(assembly, kind, **properties):
    """The only logical id of a type with these properties."""
    (key,) = (
        key
        for key, resource in assembly.resources("training", kind).items()
        if all(resource.get(name) == value for name, value in properties.items())
    )
    return key


def shown(assembly, catalog):
    """The files of the cluster in the preview, by their paths."""
    job = JobSettings(run="r", checkpoint_interval_s=600.0)
    names = symbolic_names(assembly.plan)
    files = render(assembly.plan, instances=catalog.instance_types, names=names, job=job).files
    return {file.path: file.text for file in files}


def with_words(value, shown):
    """A template's value with every intrinsic replaced by the text at its place in the rendered file."""
    if (
        isinstance(value, dict)
        and len(value) == 1
        and (next(iter(value)) == "Ref" or next(iter(value)).startswith("Fn::"))
    ):
        assert isinstance(shown, str)
        return shown
    if isinstance(value, dict) and isinstance(shown, dict):
        return {key: with_words(value, shown.get(key)) for key, value in value.items()}
    if isinstance(value, list) and isinstance(shown, list) and len(value) == len(shown):
        return [with_words(value, other) for value, other in zip(value, shown, strict=True)]
    return value


def garbage(assembly):
    """Assets that `cdk gc` would delete from an existing stack.

    Its rule (aws-cdk of package-lock.json, lib/api/garbage-collection): an object's key up to its first dot appears in
    no stack's template, as CloudFormation returns the template.
    """
    texts = [path.read_text(encoding="utf-8") for path in assembly.folder.glob("*.template.json")]
    keys = []
    for path in assembly.folder.glob("*.assets.json"):
        for file in json.loads(path.read_text(encoding="utf-8"))["files"].values():
            (place,) = file["destinations"].values()
            name = place["objectKey"].split(".")[0]
            if not file["source"]["path"].endswith(".template.json") and not any(name in text for text in texts):
                keys.append(place["objectKey"])
    return keys


def lacking(assembly, required_tags=OWN):
    """Resources that are taggable according to the registry and lack a tag."""
    missing = []
    for template in assembly.templates.values():
        for name, resource in template["Resources"].items():
            tagging = schemas().get(resource["Type"], {}).get("tagging", {})
            if not tagging.get("taggable"):
                continue
            key = tagging.get("tagProperty", "/properties/Tags").rpartition("/")[2]
            if given(resource.get("Properties", {}).get(key, ())).items() >= required_tags.items():
                continue
            missing.append((resource["Type"], name))
    return missing


def given(tags):
    """Tags as a mapping, from either of their two forms."""
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}
