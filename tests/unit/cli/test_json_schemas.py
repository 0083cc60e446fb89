"""The JSON Schemas of `--json`: docs/schemas is current, and commands print valid documents."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from launcher.agent.manifest import StoredFile
from launcher.agent.output_manifest import OutputManifest
from launcher.answers import outputs
from launcher.answers.json_schemas import DOCUMENTS, schema_of
from launcher.records.json_schema import document_schema
from tests.documents import read_document

ROOT = Path(__file__).resolve().parents[3]
TRAIN, SERVE = str(ROOT / "examples/open/llama31-8b-sft.yaml"), str(ROOT / "examples/serve/llama31-8b.yaml")
SPOT, BLOCK = str(ROOT / "examples/p5-spot.yaml"), str(ROOT / "examples/p5en-capacity-block.yaml")
PRINTED = {
    "plan": [["plan", TRAIN], ["plan", SERVE]],
    "sweep": [["plan", TRAIN, "--sweep", "nodes=1,2"]],
    "quote": [["quote", TRAIN, "--pick", "1"], ["quote", BLOCK], ["quote", SERVE, "--pick", "1"]],
    "compare": [["compare", SPOT], ["compare", SERVE]],
    "portfolio": [["portfolio", SPOT, SERVE]],
    "commit": [["commit", SPOT, SERVE]],
    "prices": [["prices", "show", "p5.48xlarge"], ["prices", "diff", "2025-04-01", "2026-08-01"]],
    "diff": [["diff", SPOT, BLOCK]],
    "render": [["render", SPOT, "-o", "out"]],
    "policies": [["policies", SPOT, "-o", "out", "--account", "123456789012", "--region", "us-east-1"]],
    "init": [["init"]],
    "runs": [["runs"]],
    "ledger": [["ledger"], ["ledger", "--by", "name"]],
    "accuracy": [["accuracy"]],
    "error": [["quote", "nosuch.yaml"], ["status", "nosuch"]],
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_schemas_in_docs_are_valid_and_equal_golden(golden, name):
    Draft202012Validator.check_schema(schema_of(name))
    golden(f"../../docs/schemas/{name}.schema.json", json.dumps(schema_of(name), indent=2) + "\n")


def test_objects_in_schema_have_class_docstring_as_description():
    stack = schema_of("cost")["properties"]["stacks"]["items"]
    assert stack["description"].startswith("One Slipway stack: its current dollars an hour")
    assert '"description": ""' not in json.dumps(schema_of("quote"))


def test_schemas_folder_has_no_unknown_schema():
    lie = {path.name.removesuffix(".schema.json") for path in (ROOT / "docs/schemas").glob("*.schema.json")}
    assert lie == set(DOCUMENTS)


@pytest.mark.parametrize("kind,words", [(kind, words) for kind, every in PRINTED.items() for words in every])
def test_json_output_of_each_command_matches_schema(slipway, tmp_path, monkeypatch, kind, words):
    monkeypatch.chdir(tmp_path)
    assert read_document(slipway(*words, "--json").out)["schema"] == f"slipway.{kind}/1"


@pytest.mark.parametrize("target", [None, Path("out")])
def test_outputs_document_matches_schema(target):
    file = StoredFile(path="model.bin", bytes=3, sha256="ab" * 32, key="outputs/model.bin", part=0)
    output_manifest = OutputManifest(run="x-1", attempt=1, written_at="2026-11-20T12:00:00Z", files=(file,))
    text = json.dumps(outputs.document("x", "s3://bucket/jobs/x", output_manifest, target))
    assert read_document(text)["files"] == [{"path": "model.bin", "bytes": 3, "sha256": "ab" * 32}]


@pytest.mark.parametrize("change", [{"more": 1}, {"as_of": "yesterday"}, {"considered": "93"}, {"candidates": None}])
def test_document_with_extra_wrong_or_missing_key_fails_validation(slipway, change):
    document = json.loads(slipway("plan", TRAIN, "--json").out)
    with pytest.raises(AssertionError, match="slipway schema plan"):
        read_document(json.dumps({**document, **change}))
    del document["next"]
    with pytest.raises(AssertionError, match="'next' is a required property"):
        read_document(json.dumps(document))


@pytest.mark.parametrize("kind", [complex, list[set[int]], dict[str, bytes]])
def test_schema_of_type_without_json_form_refused(kind):
    with pytest.raises(TypeError, match="no JSON Schema is known of"):
        document_schema("slipway.x/1", [kind])


def test_schema_command_prints_requested_schema_and_lists_all_on_unknown_name(slipway):
    assert json.loads(slipway("schema", "doctor").out) == schema_of("doctor")
    code, _, err = slipway("schema", "nosuch")
    assert code == 2
    assert "one of: accuracy, answer," in err
