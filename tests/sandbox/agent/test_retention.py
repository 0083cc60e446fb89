"""Superseded checkpoints are tagged beside the uploads; notices take precedence, and no attempt repeats the work."""

import json
import pickle
import signal
import time
from dataclasses import replace
from hashlib import sha256
from types import SimpleNamespace

import pytest

from launcher.agent.checkpoint import complete, dcp, retention
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.restore import Restore
from launcher.agent.checkpoint.retention import Retention
from launcher.agent.checkpoint.tagging import WORKERS, Tagging, protect
from launcher.agent.checkpoint_keys import commit_key, commit_places
from launcher.agent.errors import StoreError
from launcher.agent.events import EventLog
from launcher.agent.node.peers import Peers, in_folder
from launcher.agent.node.placement import Placement
from launcher.workflow.run.checkpoints import choose_checkpoint, superseded_keys, survey
from tests.sandbox.agent.checkpoints import fill, keeping, tagged, whole

MANY = 2000


class TestNotice:
    def test_checkpoint_saved_at_notice_precedes_remaining_tagging(self, node, bucket, front):
        fill(1, MANY)
        node.job(100_000, 0.5, 1000, keep=1)
        agent = node.start()
        node.wait_until(lambda: len(tagged(front)) > WORKERS)
        agent.send_signal(signal.SIGUSR1)
        assert agent.wait(timeout=90) == 75
        last = node.last_step()
        assert bucket.whole()[-1] == last
        assert node.restored(2) == 0
        committed = max(at for at, (_, path) in enumerate(front.begun) if path.endswith(f"step-{last}/manifest.json"))
        begun = tagged(front)
        assert len(begun) < MANY
        # What a worker had begun when the notice came may reach the store after the last commit.
        assert len([at for at in begun if at > committed]) <= WORKERS

    def test_next_attempt_tags_remaining_objects_only(self, node, bucket, front):
        fill(1, 200)
        refused = []
        front.rule = lambda _, path: 403 if path.endswith("?tagging") and len(tagged(front)) > 100 and refused else None
        refused.append(1)
        node.job(3, 0.3, 1000, keep=1)
        node.run()
        assert node.events("retention-failed")
        front.rule = lambda *_: None
        node.job(4, 0, 1000, keep=1)
        assert node.run(attempt=2) == 0
        assert {key.partition("/")[0] for key in bucket.retained_keys()} >= {"step-4"}
        assert len([key for key in bucket.expiring() if key.startswith("step-1/r0.a1")]) == 200
        record = json.loads(bucket.read("superseded.json"))
        assert record["schema"] == "slipway.superseded/1"
        assert record["steps"]["2"] == []
        assert [key.rpartition("/")[2] for key in record["steps"]["1"]] == ["base"]  # which every step shares
        front.begun.clear()
        node.job(4, 0, 1000, keep=1)
        assert node.run(attempt=3) == 0
        assert tagged(front) == []


def test_newest_commit_of_step_by_store_time_counts(bucket, store, objects):
    """Whatever the clocks of their nodes said; for the agent that restores, and for who lists and restores by hand."""
    late = whole(bucket, 3)
    written = store.get_text(commit_key(3)).written_s
    other = replace(late, run="r2", written_at="1999-01-01T00:00:00.000Z")
    key = commit_places(3, "r2.a1")[1]
    bucket.write(key, other.to_json().encode())
    while store.get_text(key).written_s <= written:  # S3 counts in seconds
        time.sleep(0.1)
        bucket.write(key, other.to_json().encode())
    newest, _ = complete.complete_checkpoint(store, 3, store.sizes())
    assert newest.run == "r2"
    (surveyed,) = survey(objects)
    assert (surveyed.complete, surveyed.run) == (True, "r2")


@pytest.mark.parametrize("bad", ["cut", "missing"])
def test_complete_commit_of_step_counts(bucket, store, objects, bad):
    """Though the store has had the other one last."""
    first = whole(bucket, 3)
    missing = replace(first.files[0], key="step-3/r2.a1/0-beef/data")
    text = replace(first, run="r2", files=(missing,)).to_json()
    bucket.write(commit_places(3, "r2.a1")[1], (text if bad == "missing" else text[:-20]).encode())
    newest, _ = complete.complete_checkpoint(store, 3, store.sizes())
    (surveyed,) = survey(objects)
    assert newest.run == surveyed.run == "r1"
    assert choose_checkpoint((surveyed,), 3) is surveyed


def tag_superseded(policy):
    """Everything that is superseded, taken note of as tagged."""
    steps = {}
    for step, keys in policy.superseded_steps():
        steps[step] = keys
        for key in keys:
            policy.record_tag(key)
    return steps


class TestSupersededSteps:
    def test_superseded_steps_exclude_objects_of_kept_checkpoints(self, store, bucket):
        for step in (1, 2, 3):
            whole(bucket, step)
        bucket.write("step-2/r1.a1/0-dead/rest", b"x")  # of an upload that was cut off
        bucket.write("step-9/r1.a1/0-dead/coming", b"x")
        newest = whole(bucket, 4, keys=("step-1/r1.a1/0-beef/data",))
        steps = tag_superseded(keeping(store, keep=2, newest=newest))
        assert steps[1] == ["step-1/manifest.json"]
        assert len(steps[2]) == 3
        assert {*steps} == {1, 2}

    def test_incomplete_checkpoint_does_not_count_among_kept(self, store, bucket):
        whole(bucket, 1)
        whole(bucket, 2)
        whole(bucket, 3)
        bucket.delete("step-3/r1.a1/0-beef/data")
        newest = whole(bucket, 4)
        assert {*tag_superseded(keeping(store, keep=2, newest=newest))} == {1, 3}

    def test_superseded_step_is_listed_until_finished_and_never_again(self, store, bucket, front_store):
        front, store = front_store
        for step in (1, 2):
            whole(bucket, step)
        policy = keeping(store, newest=whole(bucket, 3))
        assert {*tag_superseded(policy)} == {1, 2}
        assert {*tag_superseded(policy)} == set()
        assert retention.read_record(store) == {1: set(), 2: set()}
        policy.record_commit(retention.retained_form(whole(bucket, 4)))
        front.begun.clear()
        assert {*tag_superseded(policy)} == {3}
        listed = [path for _, path in front.begun if "list-type" in path]
        assert len(listed) == 2  # the folders, and the one that was superseded

    def test_checkpoint_reusing_superseded_objects_refused(self, store, bucket):
        first = whole(bucket, 1)
        policy = keeping(store, newest=first)
        again = whole(bucket, 3, keys=("step-1/r1.a1/0-beef/data",))
        assert policy.refusal_reason(again) is None
        policy.record_commit(retention.retained_form(whole(bucket, 2)))
        assert "may have been superseded" in policy.refusal_reason(again)

    def test_record_of_later_steps_is_ignored(self, store, bucket):
        """A life that goes on from an older checkpoint comes to the same steps again."""
        for step in (1, 2, 5, 6):
            whole(bucket, step)
        retention.write_record(store, {1: (), 5: ()})
        policy = keeping(store, newest=whole(bucket, 3))
        assert {*tag_superseded(policy)} == {2}
        policy.record_commit(retention.retained_form(whole(bucket, 7)))
        assert {*tag_superseded(policy)} == {3, 5, 6}

    @pytest.mark.parametrize("steps", ['"12"', '{"x": []}', "[1]", None])
    def test_unusable_record_costs_only_requests(self, store, bucket, steps):
        bucket.write("superseded.json", f'{{"schema": "slipway.superseded/1", "steps": {steps}}}'.encode())
        whole(bucket, 1)
        assert {*tag_superseded(keeping(store, newest=whole(bucket, 2)))} == {1}


class TestOtherLayouts:
    """A store that another framework's checkpoints lie in, with steps below and above this run's."""

    def test_only_checkpoints_of_same_layout_are_superseded(self, store, bucket):
        for step, layout in ((50, "hf"), (60, "megatron"), (100, "hf"), (900, "hf")):
            whole(bucket, step, layout=layout)
        policy = keeping(store)
        policy.record_commit(retention.retained_form(whole(bucket, 500, layout="megatron")))
        assert {*tag_superseded(policy)} == {60}
        policy.record_commit(retention.retained_form(whole(bucket, 1000, layout="megatron")))
        assert {*tag_superseded(policy)} == {500}
        assert sorted(other_layout.step for other_layout in policy.other_layouts()) == [50, 100, 900]
        assert policy.other_layouts() == []

    def test_checkpoints_of_other_layout_do_not_count_among_kept(self, store, bucket):
        for step, layout in ((50, "megatron"), (60, "megatron"), (70, "hf"), (80, "hf")):
            whole(bucket, step, layout=layout)
        newest = whole(bucket, 100, layout="megatron")
        assert {*tag_superseded(keeping(store, keep=2, newest=newest))} == {50}

    def test_step_with_two_layouts_is_kept(self, store, bucket):
        whole(bucket, 50, layout="hf")
        policy = keeping(store, newest=whole(bucket, 40, layout="megatron"))
        for step in (50, 60):
            manifest = whole(bucket, step, layout="megatron", session="r2.a1", again=step == 50)
            policy.record_commit(retention.retained_form(manifest))
        assert {*tag_superseded(policy)} == {40}

    def test_shared_object_of_other_layout_is_kept_without_manifest(self, store, bucket):
        """The manifest of step 10 has expired; what a newer one of that layout shares with it has not."""
        shared = "step-10/r0.a1/0-beef/base"
        bucket.write(shared, b"x")
        bucket.write("step-10/r0.a1/0-beef/rest", b"x")
        whole(bucket, 900, layout="hf", keys=(shared,))
        policy = keeping(store, newest=whole(bucket, 20, layout="megatron"))
        assert tag_superseded(policy) == {10: ["step-10/r0.a1/0-beef/rest"]}

    def test_layout_of_unnamed_checkpoint_follows_folder(self, store, bucket):
        whole(bucket, 50)
        assert {*tag_superseded(keeping(store, newest=whole(bucket, 100, layout="dcp")))} == {50}
        assert {*tag_superseded(keeping(store, newest=whole(bucket, 200, layout="megatron")))} == set()

    def test_checkpoint_of_later_version_and_referenced_objects_are_kept(self, store, bucket, objects):
        shared = "step-10/r0.a1/0-beef/base"
        for key in (shared, "step-10/r0.a1/0-beef/rest"):
            bucket.write(key, b"x")
        later = whole(bucket, 20, keys=(shared,))
        document = json.loads(later.to_json()) | {"schema": "slipway.checkpoint/9", "shards": []}
        bucket.write(commit_key(20), json.dumps(document).encode())
        policy = keeping(store, newest=whole(bucket, 30))
        assert tag_superseded(policy) == {10: ["step-10/r0.a1/0-beef/rest"]}
        assert [layout.step for layout in policy.other_layouts()] == [20]
        surveyed = survey(objects)
        assert "later version" in surveyed[1].reason
        assert superseded_keys(surveyed, bucket.all_keys(), 1) == ("step-10/r0.a1/0-beef/rest",)

    def test_dcp_checkpoint_of_trainer_is_not_superseded_by_agent(self, store, bucket):
        bucket.write("step-5/__0_0.distcp", bytes(100))
        shard = SimpleNamespace(relative_path="__0_0.distcp", offset=0, length=100)
        bucket.write("step-5/.metadata", pickle.dumps(SimpleNamespace(storage_data={"weight": shard})))
        whole(bucket, 7)
        newest = whole(bucket, 9)
        assert {
            *tag_superseded(
                Retention(store, keep=1, inspect=dcp.inspect(store), newest=retention.retained_form(newest))
            )
        } == {7}

    def test_kept_checkpoint_of_other_layout_is_reported(self, bucket, store, tmp_path):
        whole(bucket, 1, layout="hf")
        log = EventLog(tmp_path / "events.jsonl")
        claim = Claim(store, log, run="r1", attempt=1, node="n")
        claim.take(over=lambda: False)
        policy = keeping(store, newest=whole(bucket, 2, layout="megatron"))
        tagging = Tagging(store, log, claim, policy, alone(tmp_path, log))
        tagging.start()
        tagging.wake()
        tagging.finish(time.monotonic() + 60)
        assert bucket.expiring() == set()
        (event,) = [json.loads(line) for line in (tmp_path / "events.jsonl").read_text().splitlines()]
        assert (event["event"], event["layout"], event["steps"]) == ("other-layout-kept", "hf", [1])


def test_start_lists_only_newest_step(bucket, front_store, tmp_path):
    front, store = front_store
    for step in range(1, 7):
        whole(bucket, step)
    shared = "step-2/r1.a1/0-beef/data"
    body = b"x"
    bucket.write(shared, body)
    newest = whole(bucket, 7, keys=(shared,))
    digest = sha256(body).hexdigest()
    text = newest.to_json().replace("2d" * 32, digest)
    bucket.write("step-7/manifest.json", text.encode())
    front.begun.clear()
    restore = Restore(store=store, checkpoints=tmp_path / "c", previous=tmp_path / "p", part=0, on_skip=lambda *_: None)
    assert restore.newest().step == 7
    listed = [path for _, path in front.begun if "list-type" in path]
    assert len(listed) == 3  # the folders, the step, and the one it shares with
    assert all("delimiter" in path or "step-7" in path or "step-2" in path for path in listed)


def alone(folder, log):
    """The peers of a job with one node."""
    place = Placement(run="r1", attempt=1, part=0, parts=1, node="n", session="r1.a1")
    return Peers(in_folder(folder, place), place, log, on_notice=lambda _: None)


class TestTagging:
    def test_object_expired_during_tagging_is_no_error(self, bucket, front_store, tmp_path):
        front, store = front_store
        whole(bucket, 1)
        front.rule = lambda method, path: 404 if path.endswith("0-beef/data?tagging") else None
        log = EventLog(tmp_path / "events.jsonl")
        claim = Claim(store, log, run="r1", attempt=1, node="n")
        claim.take(over=lambda: False)
        tagging = Tagging(store, log, claim, keeping(store, newest=whole(bucket, 2)), alone(tmp_path, log))
        tagging.start()
        tagging.wake()
        tagging.finish(time.monotonic() + 60)
        assert bucket.expiring() == {"step-1/manifest.json"}
        assert [json.loads(line)["event"] for line in (tmp_path / "events.jsonl").read_text().splitlines()] == [
            "checkpoints-superseded"
        ]

    def test_claim_wait_cut_off_by_end_tags_no_objects(self, bucket, store, tmp_path):
        whole(bucket, 1)
        log = EventLog(tmp_path / "events.jsonl")
        claim = Claim(store, log, run="r1", attempt=1, node="n")
        claim.take(over=lambda: False)
        claim.may_tag_at = time.monotonic() + 1000
        tagging = Tagging(store, log, claim, keeping(store, newest=whole(bucket, 2)), alone(tmp_path, log))
        tagging.start()
        tagging.wake()
        tagging.finish(time.monotonic() + 900)
        assert bucket.expiring() == set()

    def test_protected_checkpoint_removed_from_superseded_record(self, store, bucket):
        manifest = whole(bucket, 1)
        keys = [commit_key(1), *(file.key for file in manifest.files)]
        for key in keys:
            bucket.supersede(key)
        retention.write_record(store, {1: (), 2: ()})
        protect(store, keys)
        assert bucket.expiring() == set()
        assert retention.read_record(store) == {2: set()}

    def test_record_removed_before_failing_untagging(self, bucket, front_store):
        front, store = front_store
        manifest = whole(bucket, 1)
        retention.write_record(store, {1: ()})
        front.rule = lambda method, path: 403 if path.endswith("?tagging") else None
        with pytest.raises(StoreError):
            protect(store, retention.retained_form(manifest).needs)
        assert retention.read_record(store) == {}
