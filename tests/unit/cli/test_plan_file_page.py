"""Generated reference pages: every key of the plan file, every document of --json."""

import json
from functools import cache, reduce
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from launcher.answers.json_schemas import DOCUMENTS, schema_of
from launcher.model.schema import json_schema
from tests.checks import some

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = json_schema()
LONGEST = 90
"""Characters of an example that a table holds."""
MORE: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "plan_file_examples.yaml").read_text(encoding="utf-8"))
"""Examples of keys that no plan of examples/ has."""


def keys(schema: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """Every key below an object with its schema, sections before what they hold."""
    key_paths = {}
    for name, inner in open_page(schema).get("properties", {}).items():
        key_path = f"{path}.{name}" if path else name
        key_paths[key_path] = inner
        key_paths |= keys(inner, key_path)
    return key_paths


def open_page(schema: dict[str, Any]) -> dict[str, Any]:
    """The object among what a value may be, or in a list of them."""
    if "anyOf" in schema:
        return next((opened_schema for alternative in schema["anyOf"] if (opened_schema := open_page(alternative))), {})
    if schema.get("type") == "array":
        return open_page(schema["items"])
    return (
        schema
        if all("description" in property_schema for property_schema in schema.get("properties", {"": {}}).values())
        else {}
    )


def step(value: Any, key: str) -> Any:
    """The value of a key, of the first of a list."""
    return (value[0] if isinstance(value, list) else value)[key]


@cache
def example_documents() -> list[Any]:
    """The files of examples/ as JSON has them."""
    texts = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.yaml"))]
    return [json.loads(json.dumps(yaml.safe_load(text), default=lambda moment: moment.isoformat())) for text in texts]


def example(path: str) -> Any:
    """The shortest value of a key in the plans of examples/, or one that is written for it."""
    written = [value for key, value in MORE.items() if f".{path}".endswith(f".{key}")]
    if written:
        return written[0]
    examples = []
    for plan in example_documents():
        try:
            examples.append(reduce(step, path.split("."), plan))
        except (IndexError, KeyError, TypeError):
            continue
    return min(examples, key=lambda value: len(json.dumps(value)), default=None)


def allowed_by(schema: dict[str, Any]) -> str:
    """What a value may be, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(word for alternative in schema["anyOf"] if (word := allowed_by(alternative))))
    if "enum" in schema:
        return ", ".join("null" if value is None else f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "")
    if kind == "array":
        return f"list of {allowed_by(schema['items'])}"
    limits = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most"}
    bounds = ", ".join(f"{label} {schema[key]:,}" for key, label in limits.items() if key in schema)
    kind = "mapping" if kind == "object" or isinstance(kind, list) else kind
    return f"{kind} ({bounds})" if bounds else kind


def written(value: Any) -> str:
    """A value as YAML writes it on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


def row(path: str, schema: dict[str, Any]) -> str:
    default = written(schema["default"]) if "default" in schema else "required"
    name = f"`{path.rpartition('.')[2]}`"
    cells = [name, schema["description"], default, allowed_by(schema), written(example(path))]
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def page() -> str:
    every = keys(SCHEMA)
    sections = ["", *(path for path, schema in every.items() if open_page(schema))]
    lines = [
        "# Plan file",
        "",
        "Every key, as in `slipway schema`. `slipway init` writes a commented file. If you leave out a key, it has its",
        "default. With `any`, Slipway chooses by price. An unknown key is an error that names the nearest known key.",
        "",
    ]
    for section in sections:
        section_keys = {
            path: schema
            for path, schema in every.items()
            if path.rpartition(".")[0] == section and not open_page(schema)
        }
        if section:
            many = " (a list; these are the keys of an entry)" if every[section].get("type") == "array" else ""
            named = (
                " A name alone is enough."
                if {"type": "string", "minLength": 1} in every[section].get("anyOf", ())
                else ""
            )
            text = every[section]["description"]
            lines += [f"## {section}", "", f"{text[0].upper()}{text[1:]}{many}.{named}", ""]
        lines += ["| key | meaning | default | allowed | example |", "|---|---|---|---|---|"] if section_keys else []
        lines += [*(row(path, schema) for path, schema in section_keys.items()), ""]
    return "\n".join(lines)


def test_plan_file_page_equals_golden(golden):
    golden("../../docs/plan-file.md", page())


def test_every_key_example_validates_against_schema():
    for path, schema in some(keys(SCHEMA).items()):
        if not open_page(schema):
            value = example(path)
            assert value is not None, f"no plan of examples/ has {path}: give it one in plan_file_examples.yaml"
            jsonschema.Draft202012Validator(schema).validate(value)
            jsonschema.Draft202012Validator(schema).validate(schema.get("default", value))
            assert len(json.dumps(value)) <= LONGEST, path


def test_json_page_names_every_document(golden):
    lines = [
        "# JSON documents",
        "",
        "Every command that prints a result accepts `--json` and then writes exactly one document to standard output.",
        "Its key `schema` names the document, such as `slipway.plan/1`. A failure, a declined question (exit code 7)",
        "and Ctrl-C (130) write `slipway.error/1`; messages go to standard error.",
        "",
        "Dollars are strings, hours are numbers, dates are ISO. Later versions may add keys. The schemas follow JSON",
        "Schema draft 2020-12; `slipway schema DOCUMENT` prints one.",
        "",
    ]
    lines += ["| document | keys | schema |", "|---|---|---|"]
    for name in DOCUMENTS:
        schema = schema_of(name)
        shapes = schema.get("anyOf", [schema])
        key_lists = " or ".join(
            ", ".join(f"`{key}`" for key in shape["properties"] if key != "schema") for shape in shapes
        )
        lines.append(f"| `{schema['title']}` | {key_lists} | [{name}.schema.json](schemas/{name}.schema.json) |")
    golden("../../docs/json.md", "\n".join(lines) + "\n")
