"""CloudFormation's registry from cfn-lint's data: resource types' schemas, with the permissions of their handlers."""

import gzip
import importlib.util
import json
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]


@cache
def schemas():
    """The schemas of us-east-1's resource types, by type."""
    folder = _data() / "resources"
    documents = (json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json"))
    return {document["typeName"]: document for document in documents}


def _data():
    """The folder of the schemas; cfn-lint itself, which takes a second to import, is not needed for them."""
    return Path(importlib.util.find_spec("cfnlint").origin).parent / "data/schemas"


def _providers():
    return _data() / "providers"


def regions():
    """The regions with a registry in cfn-lint's data."""
    return {path.stem for path in _providers().glob("*.json")}


def types_in(region):
    """The resource types of a region's registry."""
    return set(json.loads((_providers() / f"{region}.json").read_text(encoding="utf-8")))


def handlers(resource_type):
    """The handlers (create, delete, list, read, update) that need each action, as their first letters."""
    letters_by_action = {}
    for name, handler in (schemas().get(resource_type, {}).get("handlers") or {}).items():
        for action in handler.get("permissions", ()):
            letters_by_action.setdefault(action, set()).add(name[0])
    return {action: "".join(sorted(letters)) for action, letters in letters_by_action.items()}


def replacing(resource_type):
    """The properties of a type whose change replaces the resource, as paths, each with "yes" or "maybe".

    The registry has the properties that only a creation can set. The CloudFormation documentation in the CDK CLI
    (db.json.gz of aws-cdk) has those that need a replacement, also for types without a handler.
    """
    replacement_by_property = dict(_documented(resource_type))
    schema = schemas().get(resource_type, {})
    for key, answer in (("conditionalCreateOnlyProperties", "maybe"), ("createOnlyProperties", "yes")):
        replacement_by_property.update({path.removeprefix("/properties/"): answer for path in schema.get(key) or ()})
    return replacement_by_property


@cache
def _documentation():
    with gzip.open(ROOT / "node_modules/aws-cdk/db.json.gz") as stream:
        entities = json.load(stream)["schema"]
    types = {entity["cloudFormationType"]: entity for entity in entities["resource"]["entities"]}
    return types, {entity["$id"]: entity for entity in entities["typeDefinition"]["entities"]}


def _documented(resource_type):
    types, definitions = _documentation()

    def walk(properties, before, visited):
        for name, property_schema in properties.items():
            answer = property_schema.get("causesReplacement", "no")
            if answer != "no":
                yield before + name, answer
                continue
            kind = property_schema.get("type", {})
            while kind.get("type") in ("array", "map"):
                kind = kind["element"]
            inner = kind["reference"]["$ref"] if kind.get("type") == "ref" else None
            if inner is not None and inner not in visited:
                yield from walk(definitions[inner]["properties"], f"{before}{name}/", visited | {inner})

    yield from walk(types.get(resource_type, {}).get("properties", {}), "", frozenset())
