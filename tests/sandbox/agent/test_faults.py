"""Killed agents, failing S3, corrupt checkpoints: no restore sees a torn checkpoint, no whole one is lost."""

import json
import signal
import sys

import pytest

from tests.sandbox.agent.checkpoints import PREFIX

FAULTS = {503: "503", 403: "denied", 507: "full", "cut": "cut off", "cut-body": "cut in the middle", "before": "stalls"}


class TestKilled:
    """`kill -9` of the agent at a known moment of an upload; the node is lost with it."""

    @pytest.mark.parametrize(
        "phase",
        [
            ("PUT", "/data", "before"),
            ("PUT", "/data", "after"),
            ("GET", "/data", "before"),
            ("GET", "/data", "after"),
            ("PUT", "/manifest.json", "before"),
            ("PUT", "/manifest.json", "after"),
            ("PUT", "?tagging", "after"),
        ],
        ids=" ".join,
    )
    def test_kill_during_any_request_loses_no_stored_checkpoint(self, node, bucket, front, phase):
        method, end, when = phase
        node.job(3, 0.1, 1000, keep=1)
        assert node.run() == 0
        assert bucket.whole()[-1] == 3
        before = bucket.whole()
        front.rule = lambda got, path: when if (got, path.endswith(end)) == (method, True) else None
        node.lose()
        node.job(40, 0.2, 1000, keep=1)
        agent = node.start(attempt=2)
        assert front.held.wait(30)
        agent.kill()
        agent.wait()
        front.rule = lambda *_: None
        stored = bucket.whole()
        assert set(before) - set(stored) == set()
        newest = stored[-1]
        node.lose()
        node.job(newest + 1, 0, 1000)
        assert node.run(attempt=3) == 0  # the command itself checks what it is given, byte by byte
        assert node.steps("restored", attempt=3) == [newest]
        assert bucket.whole()[-1] == newest + 1


class TestCorrupt:
    @pytest.fixture
    def stored(self, node, bucket):
        """Two whole checkpoints, 1 and 2."""
        node.job(1, 0, 1000)
        assert node.run() == 0
        node.job(2, 0, 1000)
        assert node.run(attempt=2) == 0
        assert bucket.whole() == [1, 2]
        node.lose()
        return bucket

    @staticmethod
    def key(bucket, path="data"):
        return next(file.key for file in bucket.manifest(2).files if file.path == path)

    def test_damaged_newest_checkpoint_skipped_with_reason_for_older(self, node, stored):
        damages = {
            "its manifest is unusable": lambda: stored.write("step-2/manifest.json", b'{"schema": "slipway.che'),
            "data has SHA-256": lambda: stored.write(self.key(stored), b"x" * 1000),
            "data has 3 bytes instead of 1000": lambda: stored.write(self.key(stored), b"abc"),
            "data is missing": lambda: stored.delete(self.key(stored)),
            "it has no manifest": lambda: stored.delete("step-2/manifest.json"),
        }
        manifest, data = stored.read("step-2/manifest.json"), (self.key(stored), stored.read(self.key(stored)))
        for attempt, (reason, damage) in enumerate(damages.items(), start=3):
            damage()
            node.job(command=("sh", "-c", 'echo "from $SLIPWAY_RESUME_DIR"'))
            assert node.run(attempt=attempt) == 0
            assert node.output()[-1].endswith("/checkpoints/step-1")
            (skipped,) = node.events("restore-skipped", attempt)
            assert skipped["step"] == 2
            assert reason in skipped["reason"]
            stored.write("step-2/manifest.json", manifest)
            stored.write(*data)

    def test_incomplete_step_is_committed_again_beside_old_manifest(self, node, stored):
        before = stored.read("step-2/manifest.json")
        stored.write(self.key(stored), b"abc")
        node.job(2, 0, 1000)
        assert node.run(attempt=3) == 0
        assert node.restored(3) == 1
        assert stored.read("step-2/manifest.json") == before
        (second,) = (key for key in sorted(stored.keys()) if key.endswith("/manifest.json") and key.count("/") == 2)
        assert second.startswith("step-2/")
        node.lose()
        node.job(command=("sh", "-c", 'echo "from $SLIPWAY_RESUME_DIR"'))
        assert node.run(attempt=4) == 0
        assert node.output()[-1].endswith("/checkpoints/step-2")

    def test_checkpoint_file_named_manifest_is_stored_as_file(self, node, stored):
        script = "d=$SLIPWAY_CHECKPOINT_DIR; mkdir -p $d/.t/a; echo mine > $d/.t/a/manifest.json; mv $d/.t $d/step-7"
        node.job(command=("sh", "-c", script))
        assert node.run(attempt=3) == 0
        assert node.steps("checkpoint-uploaded", 3) == [7]
        node.lose()
        node.job(command=("sh", "-c", "cat $SLIPWAY_RESUME_DIR/a/manifest.json"))
        assert node.run(attempt=4) == 0
        assert node.output()[-1] == "mine"

    def test_single_corrupt_read_is_repeated(self, node, stored, front):
        """A flipped bit on the way, once; the object itself is good."""
        key, reads = self.key(stored), []

        def rule(method, path):
            if method == "GET" and path.endswith(key):
                reads.append(path)
                return "flip" if len(reads) == 1 else None
            return None

        front.rule = rule
        node.job(command=("sh", "-c", 'echo "from $SLIPWAY_RESUME_DIR"'))
        assert node.run(attempt=3) == 0
        assert node.output()[-1].endswith("/checkpoints/step-2")
        assert len(reads) == 2
        assert "data has SHA-256" in node.events("restore-again")[0]["reason"]

    def test_damaged_object_replaced_by_equal_content_of_other_file(self, node, stored):
        """Two files of the checkpoint have the same content, one of their objects is damaged."""
        manifest = json.loads(stored.read("step-2/manifest.json"))
        (data,) = [file for file in manifest["files"] if file["path"] == "data"]
        twin = dict(data, path="twin", key="step-2/twin")
        stored.write("step-2/twin", stored.read(data["key"]))
        stored.write("step-2/manifest.json", json.dumps(manifest | {"files": [*manifest["files"], twin]}).encode())
        stored.write(data["key"], b"x" * 1000)
        node.job(3, 0, 1000)
        assert node.run(attempt=3) == 0
        assert node.restored(3) == 2
        assert "torn" not in "".join(node.output())

    def test_run_without_usable_checkpoint_stops_unless_restart_fresh(self, node, stored):
        for step in (1, 2):
            (key,) = [file.key for file in stored.manifest(step).files if file.path == "data"]
            stored.write(key, b"x" * 1000)
        node.job(command=("sh", "-c", 'echo "from <$SLIPWAY_RESUME_DIR>"'))
        assert node.run(attempt=3) == 74
        assert "checkpoint.restart: fresh" in node.events()[-1]["reason"]
        node.job(command=("sh", "-c", 'echo "from <$SLIPWAY_RESUME_DIR>"'), restart="fresh")
        assert node.run(attempt=4) == 0
        assert node.output()[-1] == "from <>"

    @pytest.mark.parametrize(
        "damage", [{"files": []}, {"parts": 10**12}, {"seconds": "[" * 5000}], ids=["no files", "parts", "text"]
    )
    def test_damaged_manifest_skips_only_one_checkpoint(self, node, stored, damage):
        manifest = json.loads(stored.read("step-2/manifest.json")) | damage
        stored.write("step-2/manifest.json", json.dumps(manifest).encode())
        stored.write("claim.json", b'{"schema": "slipway.claim/1", "run": ' + b"[" * 100_000)
        node.job(command=("sh", "-c", 'echo "from $SLIPWAY_RESUME_DIR"'))
        assert node.run(attempt=3) == 0
        assert node.output()[-1].endswith("/checkpoints/step-1")

    def test_restored_older_checkpoint_is_untagged(self, node, stored):
        for key in [*stored.keys()]:
            stored.supersede(key)
        stored.delete("step-2/manifest.json")
        node.job(command=("true",))
        assert node.run(attempt=3) == 0
        safe = {"step-1/manifest.json", *(file.key for file in stored.manifest(1).files)}
        assert stored.retained_keys() == safe

    def test_run_without_manifests_starts_anew(self, node, stored):
        for step in (1, 2):
            stored.delete(f"step-{step}/manifest.json")
        node.job(command=("sh", "-c", 'echo "from <$SLIPWAY_RESUME_DIR>"; ls -A $SLIPWAY_CHECKPOINT_DIR'))
        assert node.run(attempt=3) == 0
        assert node.output()[-1] == "from <>"
        assert [event["event"] for event in node.events(attempt=3)][1:4] == ["restore-skipped"] * 2 + [
            "nothing-restored"
        ]


OBJECTS = {"": "every PUT", "data": "data", "manifest.json": "commit"}
UPLOAD_FAULTS = [
    pytest.param(
        of,
        fault,
        id=f"{name}-{FAULTS[fault]}",
        # All faults of a file's upload; of other requests a code, a refusal and no answer, which a retry tells apart.
        marks=[]
        if of == "data" or (of, fault) in {("", 403), ("manifest.json", 503), ("manifest.json", "before")}
        else [pytest.mark.slow],
    )
    for of, name in OBJECTS.items()
    for fault in (503, 403, 507, "cut", "before")
]


class TestTrouble:
    @pytest.mark.parametrize("of, fault", UPLOAD_FAULTS)
    def test_failing_uploads_do_not_stop_command_and_catch_up(self, node, bucket, front, fault, of):
        front.rule = lambda method, path: fault if method == "PUT" and (not of or path.endswith(of)) else None
        node.job(600, 0.1, 1000, timeout_s=0.3)
        agent = node.start()
        node.wait_for("upload-retry")
        trained = node.last_step()
        node.wait_until(lambda: node.last_step() > trained)
        assert bucket.whole() == []
        front.rule = lambda *_: None
        node.wait_for("checkpoint-uploaded")
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=60) == 75
        assert bucket.whole()[-1] == node.last_step()
        assert bucket.read("claim.json")

    @pytest.mark.parametrize("fault", [503, "cut", "cut-body", "before"], ids=FAULTS.get)
    def test_restore_waits_for_recovered_store(self, node, bucket, front, fault):
        node.job(2, 0, 200_000)
        assert node.run() == 0
        node.lose()
        front.rule = lambda method, path: fault if (method, path.endswith("/data")) == ("GET", True) else None
        node.job(3, 0, 200_000, timeout_s=0.3)
        agent = node.start(attempt=2)
        node.wait_for("restore-retry", attempt=2)
        front.rule = lambda *_: None
        assert agent.wait(timeout=60) == 0
        assert node.steps("restored", attempt=2) == [2]
        assert "torn" not in "".join(node.output())

    def test_denied_store_stops_start_at_once(self, node, bucket, front):
        front.rule = lambda *_: 403
        node.job(2, 0, 1000)
        assert node.run() == 74
        assert "would lose its checkpoints" in node.events("failed")[0]["reason"]
        assert node.output() == []

    def test_missing_object_answered_with_403_is_no_error(self, node, bucket, front):
        """Where the node's policy lets it list its own prefix alone, S3 answers 403 for an object that is not there."""
        there = lambda path: path.partition(PREFIX)[2] in bucket.all_keys()  # noqa: E731
        front.rule = lambda method, path: 403 if method == "GET" and "?" not in path and not there(path) else None
        node.job(2, 0, 1000)
        assert node.run() == 0
        assert not node.events("claim-error") + node.events("upload-retry")

    def test_full_disk_during_restore_fails_at_once(self, node, bucket):
        node.job(1, 0, 200_000)
        assert node.run() == 0
        node.lose()
        agent = [sys.executable, "-B", "-m", "launcher.agent"]  # no bytecode that is cut short in the source tree
        node.program = ["bash", "-c", 'ulimit -f 100; exec "$@"', "limited", *agent]  # files of 100 KiB at most
        node.job(2, 0, 200_000)
        assert node.run(attempt=2) == 74
        assert "File too large" in node.events("failed")[0]["reason"]

    def test_unstored_last_checkpoint_fails_job(self, node, bucket, front):
        front.rule = lambda method, path: 403 if "manifest" in path and method == "PUT" else None
        node.job(2, 0, 1000, final_upload_s=1.0)
        assert node.run() == 74
        assert (
            node.events()[-1]["reason"] == "the command completed, but its last checkpoint, step 2, is not in the store"
        )
        assert bucket.whole() == []

    def test_denied_tagging_does_not_affect_uploads(self, node, bucket, front):
        front.rule = lambda method, path: 403 if "tagging" in path else None
        node.job(3, 0.3, 1000, keep=1)
        assert node.run() == 0
        assert bucket.whole()[-1] == 3
        assert node.events("retention-failed")

    def test_notice_during_restore_wait_ends_agent(self, node, bucket, front):
        front.rule = lambda *_: 503
        node.job(3, 0, 1000)
        agent = node.start()
        node.wait_for("restore-retry")
        agent.terminate()
        assert agent.wait(timeout=60) == 143
        assert node.output() == []
