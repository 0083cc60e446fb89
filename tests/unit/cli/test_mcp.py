"""`slipway mcp`, driven by the official SDK's client over standard input and output; a hostile client too."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from launcher.answers.json_schemas import schema_of
from launcher.mcp_server.commands import CommandOutput
from tests.agent_client import Call, ask, tools_and_results

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("agent")]

PLAN = """
slipway: 1
name: small
workload: {train: {model: {params_b: 0.1}, method: full, hours: 1}}
target: {kind: parallelcluster, region: us-east-1, instance_type: g5.2xlarge, nodes: 1}
purchase: {option: on-demand}
checkpoint: {mode: none}
"""
TEMPLATE = {
    "Resources": {
        "Node": {"Type": "AWS::EC2::Instance", "Properties": {"InstanceType": "p5.48xlarge", "ImageId": "ami-1"}}
    }
}
ACTING = {"launch", "deploy", "down"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("agent")
    (folder / "plan.yaml").write_text(PLAN)
    (folder / "app.json").write_text(json.dumps(TEMPLATE))
    return folder


@pytest.fixture(scope="module")
def environment(place):
    return {**os.environ, "XDG_STATE_HOME": str(place / "state"), "XDG_CACHE_HOME": str(place / "cache")}


def without_times(document):
    return {key: value for key, value in document.items() if key not in ("as_of", "expires_at")}


def test_tools_are_annotated_read_only_or_destructive(session):
    offered = {tool.name: tool for tool in session[0]}
    assert set(offered) >= {"plan", "quote", "compare", "explain", "status", "logs", "cost", "capacity", "prices"}
    for name, tool in offered.items():
        assert tool.annotations.read_only_hint is (name not in ACTING)
        assert tool.annotations.destructive_hint is (name in ACTING)
        assert tool.input_schema["additionalProperties"] is False
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        if tool.output_schema is not None:
            jsonschema.Draft202012Validator.check_schema(tool.output_schema)
    for name in ACTING:
        assert set(offered[name].input_schema["properties"]) == {"approval"}
        assert "slipway approve" in offered[name].description
    assert offered["plan"].output_schema == schema_of("plan")


CALLS: dict[str, Call] = {
    "planned": ("plan", {"file": "plan.yaml"}),
    "two nodes": ("quote", {"file": "plan.yaml", "settings": ["target.nodes=2"]}),
    "misspelt": ("quote", {"file": "plan.yaml", "settings": ["target.nods=2"]}),
    "prices": ("prices", {"instance_type": "g5.2xlarge", "region": "us-east-1"}),
    "estimate": ("estimate", {"path": "app.json", "region": "us-east-1", "max_usd_per_hour": 1}),
    "no such run": ("status", {"name": "nothing"}),
    "log": ("logs", {"name": "noisy"}),
    "no log": ("logs", {"name": "nothing"}),
    "no row": ("explain", {"file": "plan.yaml", "pick": "999999"}),
    "wrong plan": (
        "explain",
        {"file": "plan.yaml", "pick": "999999", "settings": ["target.nods=2", "budgit.max_usd=2"]},
    ),
    "approvals": ("approvals", {}),
}


@pytest.fixture(scope="module")
def session(place, environment):
    """The tools and the results of CALLS, of one server."""
    folder = place / ".slipway" / "runs" / "noisy" / "20261128T100000Z"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs" / "attempt-1.log").write_bytes(b"\x1b]0;title\x07" + b"a line\n" * 20_000 + b"\x1b[31mthe end\n")
    (folder / "report.json").write_text("{}")
    (folder.parent / "latest").symlink_to(folder.name)
    tools, results = tools_and_results(list(CALLS.values()), place, environment)
    return tools, dict(zip(CALLS, results, strict=True))


@pytest.fixture(scope="module")
def results(session):
    return session[1]


def test_tool_returns_command_document(place, environment, results, slipway, monkeypatch):
    planned, quoted = results["planned"], results["two nodes"]
    assert (planned.is_error, quoted.is_error) == (False, False)
    monkeypatch.chdir(place)
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, environment[name])
    printed = slipway("plan", str(place / "plan.yaml"), "--json").out
    assert without_times(planned.structured_content) == without_times(json.loads(printed))
    assert quoted.structured_content["nodes"] == 2
    assert json.loads(quoted.content[0].text) == quoted.structured_content
    assert results["prices"].structured_content["schema"] == "slipway.prices/1"
    estimated = results["estimate"].structured_content
    assert estimated["schema"] == "slipway.estimate/1"
    assert estimated["refusal"] is not None
    assert results["approvals"].structured_content["approvals"] == []


def test_legacy_client_gets_explanation_of_row(place, environment, results):
    row = results["planned"].structured_content["candidates"][0]["id"]
    (explained,) = ask([("explain", {"file": "plan.yaml", "pick": row})], place, environment, "legacy")
    assert "g5.2xlarge" in explained.content[0].text


def test_refusal_is_error_document_of_command(results):
    misspelt, unknown = results["misspelt"], results["no such run"]
    assert misspelt.is_error
    assert misspelt.structured_content["exit_code"] == 2
    assert "nodes" in json.dumps(misspelt.structured_content)
    assert unknown.is_error
    assert unknown.structured_content["schema"] == "slipway.error/1"


@pytest.mark.parametrize(
    "call,message,hint",
    [
        ("no log", "no run of nothing", "runs here"),
        ("no row", "--pick 999999", "use an id"),
        ("wrong plan", "error: --set target.nods", ""),
        ("wrong plan", "error: --set budgit.max_usd", ""),
    ],
)
def test_refusal_of_tool_that_answers_with_text_is_error_document(results, call, message, hint):
    document = results[call].structured_content
    assert results[call].is_error
    assert document["schema"] == "slipway.error/1"
    assert message in document["message"]
    assert hint in document["hint"]
    assert document["exit_code"] != 0


def test_log_is_truncated_and_control_characters_removed(results):
    text = results["log"].content[0].text
    assert not results["log"].is_error
    assert len(text) <= 41_000
    assert "\x1b" not in text
    assert "the end" in text


def test_unseen_characters_of_a_document_are_escaped_in_the_text_of_an_answer():
    from launcher.mcp_server.server import result_of  # imports the SDK: tests.agent_client says why not above

    document = {"schema": "slipway.status/1", "name": "a\u202eb\U000e0041", "note": "##vso[task.x]"}
    text = result_of(CommandOutput(document=document, text="", refused=False)).content[0].text
    assert json.loads(text) == document
    assert text.isprintable()
    assert "##" not in text


HOSTILE: list[tuple[str, dict[str, object], str]] = [
    ("plan", {"file": "../outside.yaml"}, "outside of the folder"),
    ("plan", {"file": "/etc/passwd"}, "outside of the folder"),
    ("plan", {"file": "link.yaml"}, "outside of the folder"),
    ("plan", {"file": "plan.yaml", "yes": True}, "'yes' was unexpected"),
    ("plan", {"file": "plan.yaml", "region": "--yes"}, "does not match"),
    ("quote", {"file": "plan.yaml", "pick": "--html=stolen"}, "does not match"),
    ("quote", {"file": "plan.yaml", "settings": ["--html=stolen"]}, "does not match"),
    ("plan", {}, "'file' is a required property"),
    ("estimate", {"path": "/etc/passwd"}, "outside of the folder"),
    ("status", {"name": "small", "region": "us-east-1 --yes"}, "does not match"),
    ("plan", {"file": 7}, "is not of type 'string'"),
    ("status", {"name": "../../etc"}, "does not match"),
    ("logs", {"name": "-f"}, "does not match"),
    ("launch", {"file": "plan.yaml"}, "'file' was unexpected"),
    ("launch", {"approval": "0123456789ab"}, "there is no approval"),
    ("launch", {"approval": "../../plan.y"}, "does not match"),
    ("deploy", {"approval": ""}, "does not match"),
    ("down", {"approval": "0123456789ab"}, "there is no approval"),
    ("approve", {"file": "plan.yaml", "max_usd": 9}, "there is no tool 'approve'"),
    ("cancel", {"name": "small"}, "there is no tool 'cancel'"),
    ("result", {"id": "0123456789ab"}, "has started nothing"),
]


def test_hostile_client_requests_refused_without_file_changes(place, environment):
    (place.parent / "outside.yaml").write_text(PLAN)
    link = place / "link.yaml"
    link.unlink(missing_ok=True)
    link.symlink_to(place.parent / "outside.yaml")
    before = sorted(str(path) for path in place.rglob("*"))
    results = ask([(name, arguments) for name, arguments, _ in HOSTILE], place, environment)
    for (name, arguments, expected), result in zip(HOSTILE, results, strict=True):
        assert result.is_error, (name, arguments)
        text = json.dumps(result.structured_content, ensure_ascii=False)
        assert expected in text, (name, arguments, text)
    assert sorted(str(path) for path in place.rglob("*")) == before


def test_mcp_without_sdk_names_pip_extra(place, environment, tmp_path):
    hidden = tmp_path / "sitecustomize.py"
    hidden.write_text("import sys\nsys.modules['mcp_types'] = None\n")
    done = subprocess.run(
        [sys.executable, "-m", "launcher", "mcp"],
        cwd=place,
        env={**environment, "PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[3]}"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 5
    assert "pip install 'slipway-aws[mcp]'" in done.stderr
