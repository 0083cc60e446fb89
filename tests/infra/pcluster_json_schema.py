"""ParallelCluster's schema of cluster configurations as JSON Schema; run with .venv-pcluster's interpreter.

    .venv-pcluster/bin/python tests/infra/pcluster_json_schema.py >launcher/sandbox/cluster/parallelcluster.schema.json

It contains only what the marshmallow fields state: keys, required keys, types, enumerations, patterns, bounds. Types
are strict: the custom resource of this project passes typed values, so a "4800" in quotes is a mistake in its
rendering.
"""

import importlib.metadata
import json
import sys

TYPES = {"String": "string", "Boolean": "boolean", "Integer": "integer", "Float": "number", "Dict": "object"}
WIDTH = 110
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_problem(schema):
    """The schema of a mapping with its keys."""
    keys = {field.data_key or name: field for name, field in schema.fields.items()}
    required = sorted(key for key, field in keys.items() if field.required)
    return {
        "type": "object",
        "additionalProperties": False,
        **({"required": required} if required else {}),
        "properties": {key: field_problem(field) for key, field in sorted(keys.items())},
    }


def field_problem(field):
    """The schema of one value."""
    kind = type(field).__name__
    if kind == "OneOrManyCustomActionField":
        script = schema_problem(field.schema)
        sequence = {"type": "array", "items": script}
        either = [{"required": ["Script"]}, {"required": ["Sequence"]}]
        return {
            "type": "object",
            "additionalProperties": False,
            "oneOf": either,
            "properties": {**script["properties"], "Sequence": sequence},
        }
    if kind == "Nested":
        inner = schema_problem(field.schema)
        schema = {"type": "array", "items": inner} if field.many else inner
    elif kind == "List":
        schema = {"type": "array", "items": field_problem(field.inner)}
    else:
        schema = {"type": TYPES[kind]} if kind in TYPES else {}
    for validator in field.validators:
        schema.update(validator_problem(validator, schema.get("type")))
    return schema


def validator_problem(validator, kind):
    """The constraint of marshmallow's own validators; empty for a function of the package."""
    name = type(validator).__name__
    if name == "OneOf":
        kinds = validator.choices
        return {"enum": sorted(kinds) if isinstance(kinds, set | frozenset) else list(kinds)}
    if name == "Regexp":
        # marshmallow looks from the beginning, JSON Schema anywhere.
        return {"pattern": f"^(?:{validator.regex.pattern})"}
    suffix = {"array": "Items", "string": "Length"}.get(kind)
    bounds = (("min", validator.min), ("max", validator.max)) if name in ("Length", "Range") else ()
    if name == "Length" and validator.equal is not None:
        bounds = (("min", validator.equal), ("max", validator.equal))
    names = {word: f"{word}{suffix}" if name == "Length" else f"{word}imum" for word, _ in bounds}
    return {names[word]: bound for word, bound in bounds if bound is not None}


def lines(value, indent=""):
    """A value as JSON, with short values on one line."""
    short = json.dumps(value)
    if len(indent + short) <= WIDTH or not isinstance(value, dict):
        return short
    inner = indent + " "
    parts = [f"{inner}{json.dumps(key)}: {lines(item, inner)}" for key, item in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def main():
    """Print the schema."""
    from pcluster.schemas.cluster_schema import ClusterSchema

    version = importlib.metadata.version("aws-parallelcluster")
    schema = schema_problem(ClusterSchema(cluster_name="any"))
    title = f"aws-parallelcluster {version}, pcluster/schemas/cluster_schema.py"
    whole = {"$schema": DIALECT, "title": title, **schema}
    sys.stdout.write(lines(whole) + "\n")


if __name__ == "__main__":
    main()
