"""Downloads of checkpoints: whole or not at all, and nothing is left of one that was killed."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from launcher.agent.manifest import StoredFile
from launcher.agent.manifest_tree import StoredLink
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.records.checkpoints import Checkpoint
from launcher.workflow.run.checkpoints_transfer import fetch, restore

DATA = b"whole"
DIGEST = hashlib.sha256(DATA).hexdigest()
ROOT = Path(__file__).resolve().parents[4]
BLOCKED = """
import sys, time
from pathlib import Path
from launcher.workflow.run.checkpoints_transfer import partial_folder
with partial_folder(Path(sys.argv[1])) as folder:
    (folder / "a").write_text("half")
    print(folder.name, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def store(monkeypatch):
    """A store with one object, `k`."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with mock_aws():
        client = boto3.client("s3", region_name="us-east-1")
        client.create_bucket(Bucket="checkpoints")
        client.put_object(Bucket="checkpoints", Key="run/k", Body=DATA)
        yield Objects.at(Session(environment=dict(os.environ), region="us-east-1"), "s3://checkpoints/run")


@pytest.fixture
def begin_run(tmp_path):
    """Begin a restore in another process; it holds its folder."""
    children = []

    def begin():
        command = [sys.executable, "-c", BLOCKED, str(tmp_path)]
        child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        children.append(child)
        return child, tmp_path / child.stdout.readline().strip()

    yield begin
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


def fetched(store, place, sha256=DIGEST):
    file = StoredFile(path="a", bytes=len(DATA), sha256=sha256, key="k", part=0)
    return fetch(store, [file], place, lambda _: None)


def test_restore_removes_remains_of_killed_restore(tmp_path, begin_run, store):
    child, left = begin_run()
    assert (left / "a").read_text() == "half"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert fetched(store, tmp_path / "step-1") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-1"]


def test_restore_keeps_folder_of_running_restore(tmp_path, begin_run, store):
    _, other = begin_run()
    assert fetched(store, tmp_path / "step-1") is None
    assert (other / "a").read_text() == "half"


def test_damaged_file_leaves_no_restored_folder(tmp_path, store):
    assert "SHA-256" in str(fetched(store, tmp_path / "step-1", sha256="0" * 64))
    assert list(tmp_path.iterdir()) == []


def test_restore_by_hand_makes_links_modes_and_empty_folders(tmp_path, store):
    file = StoredFile(path="bin/run", bytes=len(DATA), sha256=DIGEST, key="k", part=0, mode="0700")
    checkpoint = Checkpoint(
        step=1,
        folder="step-1",
        form="agent",
        files=(file,),
        bytes=len(DATA),
        reason=None,
        links=(StoredLink(path="latest", target="bin/run"),),
        folders=("cache/empty",),
    )
    place = restore(store, checkpoint, tmp_path, lambda _: None)
    assert (place / "bin" / "run").stat().st_mode & 0o7777 == 0o700
    assert (place / "latest").readlink() == Path("bin/run")
    assert (place / "latest").read_bytes() == DATA
    assert list((place / "cache" / "empty").iterdir()) == []
