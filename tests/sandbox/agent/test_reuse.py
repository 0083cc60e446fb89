"""A job that returns to the same node reuses local files that are verified as complete."""

import dataclasses
import json
from pathlib import Path

import pytest

from launcher.agent.checkpoint.files import local_files


def step_in(path):
    return int(path.partition("/step-")[2].partition("/")[0] or 0)


@pytest.fixture
def kill(node, bucket, front):
    """The agent and its command were killed; of what is on the node, nothing above step 3 is in the store."""
    front.rule = lambda method, path: 503 if method == "PUT" and step_in(path) > 3 else None
    node.job(600, 0.3, 100_000)
    agent = node.start()
    node.wait_until(lambda: any(newest_known(path) >= 6 for path in journal(node)))
    agent.kill()
    agent.wait()
    node.end_commands()
    front.rule = lambda *_: None
    front.begun.clear()
    assert bucket.whole()[-1] <= 3
    return node


def journal(node):
    return list(node.folder.glob("node/*/tiny/finished.json"))


def newest_known(path):
    """The newest step that the agent had finished and read: one only finished is kept, and not gone on from."""
    document = json.loads(path.read_text())
    return max((int(name.partition("-")[2]) for name, entry in document.items() if entry.get("hashes")), default=0)


def fetch(front):
    return [path for method, path in front.begun if method == "GET" and path.endswith(("/data", "/base"))]


def test_killed_attempt_resumes_from_unsent_copy_on_node(kill, bucket, front):
    last = newest_known(journal(kill)[0])
    kill.job(last + 1, 0, 100_000)
    assert kill.run(attempt=2) == 0
    (restored,) = kill.events("restored")
    assert (restored["step"], restored["source"], restored["reused_bytes"]) == (last, "node", 200_000)
    assert kill.output()[-2:] == [f"start {last} attempt 2", f"step {last + 1}"]
    assert fetch(front) == []
    # It is in the store now, unless the one after it was there first.
    assert bucket.whole()[-1] == last + 1


def test_killed_attempt_downloads_no_unchanged_files(kill, bucket, front):
    journal(kill)[0].unlink()  # without the agent's word the newest one in the store counts
    newest = bucket.whole()[-1]
    kill.job(newest, 0, 100_000)
    assert kill.run(attempt=2) == 0
    (restored,) = kill.events("restored")
    assert (restored["step"], restored["source"], restored["reused_bytes"]) == (newest, "store", 200_000)
    assert fetch(front) == []
    assert kill.output()[-1] == f"start {newest} attempt 2"
    # The earlier attempt's files, of which the restored ones are hard links, are removed: nobody wrote these again.
    seen = [event for event in kill.events("checkpoint-dropped") if event["attempt"] == 2]
    seen += [event for event in kill.events("checkpoint-uploaded") if event["attempt"] == 2]
    assert seen == []


def test_changed_file_on_node_is_downloaded_again(kill, bucket, front):
    newest = bucket.whole()[-1]
    for path in kill.folder.glob("node/*/tiny/checkpoints/step-*/data"):
        path.write_bytes(b"x" * 100_000)
    kill.job(newest, 0, 100_000)
    assert kill.run(attempt=2) == 0
    (restored,) = kill.events("restored")
    assert (restored["step"], restored["source"], restored["reused_bytes"]) == (newest, "store", 100_000)
    assert [path.rpartition("/")[2] for path in fetch(front)] == ["data"]
    assert "torn" not in "".join(kill.output())


def test_other_run_resumes_from_only_copy_on_node(kill, bucket, front):
    last = newest_known(journal(kill)[0])
    claim = json.loads(bucket.read("claim.json")) | {"released": True}
    bucket.write("claim.json", json.dumps(claim).encode())
    kill.job(last, 0, 100_000, run="r2")
    assert kill.run(attempt=1) == 0
    (restored,) = [event for event in kill.events("restored") if event["run"] == "r2"]
    assert (restored["step"], restored["source"]) == (last, "node")
    assert bucket.whole()[-1] == last


def test_corrupt_object_does_not_remove_copy_on_node(kill, bucket, front):
    """The store has the node's newest checkpoint too, and one of its objects does not come through."""
    finished = journal(kill)[0]
    last = max(json.loads(finished.read_text()), key=lambda name: int(name.partition("-")[2]))
    kill.job(int(last.partition("-")[2]), 0, 100_000)
    assert kill.run(attempt=2) == 0
    step = bucket.whole()[-1]
    folder = finished.with_name("checkpoints") / last
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    (key,) = [file.key for file in bucket.manifest(step).files if file.path == "data"]
    bucket.write(key, b"x" * 100_000)
    (folder / "data").write_bytes((folder / "data").read_bytes())  # a file of its own, and not the store's by its look
    entry = {"run": "r1", "uri": "s3://checkpoints/a/run/", "boot": boot(), "files": files(folder)}
    finished.write_text(json.dumps({last: entry}))
    kill.job(step, 0, 100_000)
    assert kill.run(attempt=3) == 0
    assert (kill.restored(3), before) == (step, {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()})


def boot():
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def files(folder):
    return [dataclasses.asdict(file) for file in local_files(folder)]


def test_copy_on_node_removed_after_newer_upload(kill, bucket):
    last = newest_known(journal(kill)[0])
    kill.job(last + 1, 0, 100_000)
    assert kill.run(attempt=2) == 0
    assert not [*kill.folder.glob("node/*/tiny/previous")]
    assert journal(kill)[0].read_text() == "{}"


def test_stored_copies_on_node_removed_before_command(kill, bucket):
    journal(kill)[0].unlink()
    kill.job(command=("sh", "-c", 'cd "$SLIPWAY_CHECKPOINT_DIR"; echo here; ls; echo previous; ls -A ../previous'))
    assert kill.run(attempt=2) == 0
    (restored,) = kill.events("restored")
    listed = kill.output()
    there = listed[listed.index("here") + 1 :]
    assert there[:2] == [f"step-{restored['step']}", "previous"]
    assert all(int(name.removeprefix("step-")) > restored["step"] for name in there[2:])
