"""The run index of a store: ambiguous and unknown names, damaged and hostile copies, stores that refuse."""

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

import launcher
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError, UnreadableInputError
from launcher.records import run_folder
from launcher.workflow.history.run_index import FOLDER, RunLocation, fetch, fetch_all, publish
from tests.sandbox.clients import client

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
REGION = "us-east-1"
SUBMISSION = {
    "schema": "slipway.submission/1",
    "job": "7",
    "target": "parallelcluster",
    "scheduler": "slurm",
    "cluster": "team",
    "head_node": {
        "via": "ssm",
        "instance": "i-1",
        "region": REGION,
        "host": None,
        "user": None,
        "role": None,
        "kind": None,
    },
    "folder": "/home/job",
    "checkpoint_uri": "s3://x/jobs/job",
    "work": {"files": 1, "git": None},
    "asked_at": NOW.isoformat(),
    "cancelled": False,
}
SAID: list[str] = []


@pytest.fixture
def environment(sandbox, tmp_path):
    SAID.clear()
    return {**os.environ, **sandbox.process_environment({}), "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.fixture
def store_named(sandbox, environment):
    """Makes a bucket with the jobs of a cluster, and the stack whose outputs name it."""
    made = []

    def make(name):
        client(sandbox, "s3", region_name=REGION).create_bucket(Bucket=name)
        template = {
            "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
            "Outputs": {"StoreUri": {"Value": f"s3://{name}/jobs"}},
        }
        stack = {"StackName": f"slipway-{name}-training", "Tags": [{"Key": "slipway:cluster", "Value": name}]}
        client(sandbox, "cloudformation", region_name=REGION).create_stack(TemplateBody=json.dumps(template), **stack)
        made.append(name)
        return f"s3://{name}/jobs"

    yield make
    for name in made:
        client(sandbox, "cloudformation", region_name=REGION).delete_stack(StackName=f"slipway-{name}-training")


def published(uri, environment, root, *, name="job", key="job-20261120t120000z-0a1b2c3d", node=None):
    folder = run_folder.create(name, NOW, root)
    folder.write_json("plan.json", {"slipway": 1, "name": name})
    folder.write_json(
        "submission.json",
        {**SUBMISSION, "key": key, "store_uri": uri, "head_node": {**SUBMISSION["head_node"], **(node or {})}},
    )
    folder.write_json("report.json", {"status": "running"})
    publish(name, folder, environment, NOW, SAID.append)
    return folder


def at_region(environment, name="job"):
    return fetch(name, RunLocation(region=REGION, store=None), environment, SAID.append)


def test_run_fetched_by_region_has_launch_records(store_named, environment, tmp_path):
    folder = published(store_named("one-store"), environment, tmp_path / "here")
    root = at_region(environment)
    fetched = run_folder.RunFolder(path=Path(os.path.realpath(root / run_folder.RUNS / "job" / "latest")))
    for part in ("plan.json", "submission.json", "report.json"):
        assert fetched.read_json(part) == folder.read_json(part)
    assert fetched.path.name == folder.path.name
    assert root.is_relative_to(environment["XDG_STATE_HOME"])


def test_later_state_of_run_replaces_earlier(store_named, environment, tmp_path):
    uri = store_named("later-store")
    folder = published(uri, environment, tmp_path / "here")
    at_region(environment)
    folder.write_json("report.json", {"status": "succeeded"})
    publish("job", folder, environment, NOW, SAID.append)
    root = at_region(environment)
    assert [run.read_json("report.json")["status"] for _, run in run_folder.all_runs(root)] == ["succeeded"]


def test_runs_of_one_name_in_two_stores_require_store_option(store_named, environment, tmp_path):
    first, second = store_named("anna-store"), store_named("berta-store")
    published(first, environment, tmp_path / "anna")
    published(second, environment, tmp_path / "berta")
    with pytest.raises(ImpossibleError, match="2 stores have runs of job") as refused:
        at_region(environment)
    assert f"--store {first}" in refused.value.hint
    assert f"--store {second}" in refused.value.hint
    fetch("job", RunLocation(region=REGION, store="s3://berta-store"), environment, SAID.append)
    assert any("berta-store" in text for text in SAID)


def test_run_cancelled_from_another_computer_keeps_who_launched_it(store_named, environment, tmp_path, monkeypatch):
    uri = store_named("origin-store")
    published(uri, environment, tmp_path / "here")
    root = at_region(environment)
    first = [text for text in SAID if "launched by" in text or "rendered files" in text]
    folder = run_folder.RunFolder(path=Path(os.path.realpath(root / run_folder.RUNS / "job" / "latest")))
    monkeypatch.setenv("LOGNAME", "carol")
    publish("job", folder, environment, NOW, SAID.append)
    SAID.clear()
    at_region(environment)
    assert [text for text in SAID if "launched by" in text or "rendered files" in text] == first


def test_fetched_run_is_found_again_by_its_name_until_one_is_launched_here(
    store_named, environment, tmp_path, monkeypatch
):
    first, second, elsewhere = store_named("first-store"), store_named("second-store"), tmp_path / "elsewhere"
    published(first, environment, tmp_path / "anna")
    published(second, environment, tmp_path / "berta")
    monkeypatch.setenv("XDG_STATE_HOME", environment["XDG_STATE_HOME"])
    for uri in (first, second):
        root = fetch("job", RunLocation(region=REGION, store=uri), environment, SAID.append)
        assert run_folder.home_of("job", elsewhere) == root.resolve()
    own = published(first, environment, tmp_path / "own")
    assert run_folder.home_of("job", elsewhere) == own.root
    fetch("job", RunLocation(region=REGION, store=second), environment, SAID.append)
    assert run_folder.home_of("job", elsewhere) == own.root


def test_two_launches_in_one_second_have_separate_copies(store_named, environment, tmp_path):
    uri = store_named("same-second")
    published(uri, environment, tmp_path / "anna", key="job-1-aaaaaaaa")
    published(uri, environment, tmp_path / "berta", key="job-1-bbbbbbbb")
    session = Session(environment=environment, region=REGION)
    assert len(Objects.at(session, uri).list_objects(below=f"{FOLDER}/job/")) == 2


def test_unknown_run_name_refused_with_suggestion(store_named, environment, tmp_path):
    published(store_named("some-store"), environment, tmp_path / "here", name="llama-sft")
    with pytest.raises(UnreadableInputError, match="no run of lama-sft") as refused:
        at_region(environment, "lama-sft")
    assert "did you mean llama-sft?" in refused.value.hint


@pytest.mark.parametrize("uri", ["bucket", "s3://UPPER", "https://x", "s3://"])
def test_invalid_store_uri_refused(environment, uri):
    with pytest.raises(UnreadableInputError, match="is no store"):
        fetch("job", RunLocation(region=REGION, store=uri), environment, SAID.append)


@pytest.mark.parametrize(
    "text",
    ["[]", "{}", "{", '{"schema": "slipway.run-copy/1", "name": "other", "run": "20261120T120000Z"}'],
)
def test_damaged_run_copy_refused(store_named, environment, text):
    uri = store_named("damaged-store")
    store = Objects.at(Session(environment=environment, region=REGION), uri)
    store.put(f"{FOLDER}/job/20261120T120000Z-0a1b2c3d.json", text.encode())
    with pytest.raises(UnreadableInputError, match=r"stored run|copy of another run"):
        at_region(environment)


def test_run_copy_cannot_write_outside_fetched_folder(store_named, environment, tmp_path):
    uri = store_named("hostile-store")
    published(uri, environment, tmp_path / "here")
    store = Objects.at(Session(environment=environment, region=REGION), uri)
    (stored,) = store.list_objects(below=f"{FOLDER}/job/")
    copy = json.loads(store.read(stored.key))
    store.put(stored.key, json.dumps({**copy, "parts": {**copy["parts"], "../../../../x.json": {}}}).encode())
    root = at_region(environment)
    assert not list(tmp_path.rglob("x.json"))
    store.put(stored.key, json.dumps({**copy, "run": "../../../../up"}).encode())
    with pytest.raises(UnreadableInputError, match="copy of another run"):
        at_region(environment)
    assert root.is_dir()


def test_run_of_aws_service_job_is_fetched(store_named, environment, tmp_path):
    uri = store_named("service-store")
    published(uri, environment, tmp_path / "here", node={"via": "api", "host": "EC2 Auto Scaling", "instance": None})
    assert at_region(environment).is_dir()


@pytest.mark.parametrize(
    "node",
    [
        {"via": "ssh", "host": "-oProxyCommand=touch x"},
        {"via": "ssh", "host": "login.example", "user": "root; touch x"},
        {"via": "ssm", "instance": "i-1 --parameters x"},
        {"via": "local"},
    ],
)
def test_run_copy_with_hostile_head_node_refused(store_named, environment, tmp_path, node):
    """Whoever may write to the store must not decide what runs on the computer of a reader."""
    uri = store_named("planted-store")
    published(uri, environment, tmp_path / "here")
    store = Objects.at(Session(environment=environment, region=REGION), uri)
    (stored,) = store.list_objects(below=f"{FOLDER}/job/")
    copy = json.loads(store.read(stored.key))
    copy["parts"]["submission.json"]["head_node"].update(node)
    store.put(stored.key, json.dumps(copy).encode())
    with pytest.raises(ImpossibleError, match="computer of its launch"):
        at_region(environment)


def test_job_of_a_kubeconfig_context_is_refused_with_the_computer_of_the_context(store_named, environment, tmp_path):
    published(
        store_named("context-store"), environment, tmp_path / "here", node={"via": "context", "host": "production"}
    )
    with pytest.raises(ImpossibleError, match="in a cluster of the kubeconfig of") as refused:
        at_region(environment)
    assert "slipway status job" in str(refused.value.hint)


def test_endpoint_is_refused_with_the_endpoint_commands(sandbox, environment):
    formation = client(sandbox, "cloudformation", region_name=REGION)
    template = {"Resources": {"Topic": {"Type": "AWS::SNS::Topic"}}}
    formation.create_stack(StackName="slipway-chat-serving", TemplateBody=json.dumps(template))
    try:
        with pytest.raises(ImpossibleError, match=f"chat is an endpoint in {REGION}") as refused:
            at_region(environment, "chat")
    finally:
        formation.delete_stack(StackName="slipway-chat-serving")
    assert f"slipway endpoint test chat --region {REGION}" in str(refused.value.hint)


@pytest.mark.parametrize("function", [launcher.status, launcher.wait, launcher.cancel])
def test_run_name_unknown_to_the_store_is_refused_in_python_with_a_suggestion(
    store_named, environment, tmp_path, monkeypatch, function
):
    published(store_named("python-store"), environment, tmp_path / "here")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for place in ({"region": REGION}, {"store": "s3://python-store"}):
        with pytest.raises(UnreadableInputError, match="no run of jbo is in") as refused:
            function("jbo", **place)
        assert "did you mean job?" in str(refused.value.hint)
        assert run_folder.FETCHED.get() is None


def test_every_run_of_every_store_of_region_is_fetched_for_ledger(store_named, environment, tmp_path):
    uris = [store_named(name) for name in ("ledger-store", "other-store")]
    for name in ("a", "b"):
        published(uris[0], environment, tmp_path / name, name=name)
    published(uris[1], environment, tmp_path / "c", name="c")
    roots = fetch_all(RunLocation(region=REGION, store=None), environment)
    assert {uri: run_folder.names(root) for uri, root in roots.items()} == {uris[0]: ["a", "b"], uris[1]: ["c"]}
    assert list(fetch_all(RunLocation(region=None, store=uris[1]), environment)) == uris[1:]


def test_unwritable_store_gives_message_without_failure(environment, tmp_path):
    published("s3://no-such-bucket/jobs", environment, tmp_path / "here")
    assert any("other computers do not find it" in text for text in SAID)
