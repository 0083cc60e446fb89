"""The archive of `slipway debug` from a run folder whose cluster does not answer: whole, masked, and bounded."""

import json
import subprocess
import tarfile
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from launcher.records import run_folder
from launcher.submit.jobs import SchedulerError
from launcher.workflow.run import debug_bundle
from tests.unit.cli.reports import REPORT

AT = datetime(2026, 11, 28, 12, tzinfo=UTC)
SECRET = "a-secret-of-the-plan"


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = run_folder.create("tiny", AT, tmp_path)
    folder.write_json("report.json", REPORT)
    folder.write_json(
        "plan.json", {"slipway": 1, "name": "tiny", "run": {"env": {"WANDB_API_KEY": SECRET, "LANG": "C"}}}
    )
    folder.append_event("deployed", stack="arn:aws:cloudformation:us-east-2:123456789012:stack/slipway-tiny/1")
    folder.logs.mkdir(exist_ok=True)
    (folder.logs / "attempt-1.log").write_text(
        f"begin\nwandb: using {SECRET}\n" + "line\n" * 400_000 + "the last line\n"
    )
    (folder.path / "job").mkdir()
    (folder.path / "job" / "events-part1.jsonl").write_text('{"event": "failed", "exit_code": 3}\n')
    return folder


def read(path):
    with tarfile.open(path) as archive:
        return {entry.name: archive.extractfile(entry).read().decode() for entry in archive.getmembers()}


def test_run_of_unreadable_cluster_is_packed_without_secrets(run, slipway, tmp_path):
    code, out, _ = slipway("debug", "tiny", "-o", "d.tar.gz", "--json")
    document = json.loads(out)
    assert (code, document["schema"], document["path"]) == (0, "slipway.debug/1", "d.tar.gz")
    files = read(tmp_path / "d.tar.gz")
    assert {name.removeprefix("tiny-debug/") for name in files} == set(document["files"])
    whole = "".join(files.values())
    assert SECRET not in whole
    assert "123456789012" not in whole
    assert "arn:aws:cloudformation:us-east-2:ACCOUNT:stack/slipway-tiny/1" in files["tiny-debug/run/events.jsonl"]
    assert json.loads(files["tiny-debug/status.json"])["status"] == "succeeded"
    assert json.loads(files["tiny-debug/versions.json"])["python"]
    # What could not be read is named with its reason, for the reader too.
    missing = {part["path"]: part["reason"] for part in document["missing"]}
    assert "cluster" in missing
    assert f"cluster: {missing['cluster']}" in files["tiny-debug/README.txt"]
    assert (tmp_path / "d.tar.gz").stat().st_mode & 0o077 == 0


def test_long_log_keeps_end_and_names_cut(run, slipway, tmp_path):
    slipway("debug", "tiny", "-o", "d.tar.gz")
    log = read(tmp_path / "d.tar.gz")["tiny-debug/logs/attempt-1.log"]
    assert log.endswith("the last line\n")
    assert log.startswith(f"[the last {debug_bundle.MAX_FILE:,} of ")
    assert len(log) < debug_bundle.MAX_FILE + 100


def test_files_beyond_size_limit_are_named(run, monkeypatch):
    monkeypatch.setattr(debug_bundle, "MAX_TOTAL", 1000)
    bundle = debug_bundle.collect("tiny", run, {}, AT, {"status.json": lambda: "x" * 900})
    assert "status.json" in bundle.missing or "status.json" in bundle.files
    assert "logs/attempt-1.log" in bundle.missing
    assert "Not included:" in bundle.files["README.txt"]


def test_existing_bundle_file_is_not_replaced(run, slipway, tmp_path):
    (tmp_path / "d.tar.gz").write_text("mine")
    code, _, err = slipway("debug", "tiny", "-o", "d.tar.gz")
    assert (code, "cannot write d.tar.gz" in err) == (5, True)
    assert (tmp_path / "d.tar.gz").read_text() == "mine"


@pytest.mark.parametrize(
    "outputs,names",
    [
        (None, ["slipway-tiny-network", "slipway-tiny-checkpoints", "slipway-tiny-training"]),
        (["slipway-tiny-checkpoints"], ["slipway-tiny-checkpoints", "slipway-tiny-training"]),
        (["slipway-team-network"], ["slipway-team-network", "slipway-tiny-checkpoints", "slipway-tiny-training"]),
    ],
    ids=["not deployed", "network of the service", "shared network"],
)
def test_bundle_has_the_stacks_of_its_run_and_no_network_of_others(run, outputs, names):
    if outputs is not None:
        run.write_json("outputs.json", {key: {} for key in outputs})
    assert list(debug_bundle.stack_names(run, SimpleNamespace(cluster_name="tiny"))) == names


class ThisComputer:
    """Nodes of a running job: this computer under other names, and one that does not answer."""

    def __init__(self, *names):
        self.names = names

    def read(self, node, command):
        if node == "broken":
            raise SchedulerError("broken: sh: no answer for api_key=hunter2hunter2")
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_bundle_has_what_nodes_of_running_job_say_and_names_those_that_do_not_answer(monkeypatch):
    monkeypatch.setattr(debug_bundle, "MAX_NODES", 2)
    bundle = debug_bundle.DebugBundle(secrets=frozenset())
    debug_bundle.add_nodes(bundle, ThisComputer("first", "broken", "third", "fourth"))
    assert all(f"\n$ {part}" in f"\n{bundle.files['node/first.txt']}" for part in ("uptime\n", "df -h\n", "dmesg\n"))
    assert bundle.missing == {
        "node/broken.txt": "broken: sh: no answer for api_key=[masked]",
        "node/third.txt": "2 nodes not read: an archive has 2, read within 2 minutes",
    }


def test_empty_text_is_named_as_missing():
    bundle = debug_bundle.DebugBundle(secrets=frozenset())
    bundle.add("boot/n1.txt", lambda: "\n")
    assert (bundle.files, bundle.missing) == ({}, {"boot/n1.txt": "it is empty"})


def test_part_that_breaks_is_named_and_ends_no_archive():
    bundle = debug_bundle.DebugBundle(secrets=frozenset())
    bundle.add("nodes.json", lambda: {}["InstanceId"])
    assert (bundle.files, bundle.missing) == ({}, {"nodes.json": "KeyError: 'InstanceId'"})
