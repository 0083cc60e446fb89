"""The nodes of a job tag superseded objects together; if one node fails, the others tag its share."""

import json
import threading
import time

import pytest

from launcher.agent.checkpoint import retention, tagging
from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.tagging import Tagging, TagPart, TagParts, TagWorker
from launcher.agent.events import EventLog
from launcher.agent.node import peers as peers_module
from launcher.agent.node.peers import Peers, in_folder
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX, fill, keeping, objects_tagged, tagged, whole
from tests.sandbox.agent.front import Front
from tests.waiting import until

OLD = 60
FOREIGN = TagPart(number=1, slot=0, owner="t", keys=("claim.json",)).to_json()


@pytest.fixture(autouse=True)
def fast(monkeypatch):
    monkeypatch.setattr(peers_module, "_POLL_S", 0.02)
    monkeypatch.setattr(peers_module, "_GATHER_S", 0.02)
    monkeypatch.setattr(tagging, "_ASK_AGAIN_S", 0.1)
    monkeypatch.setattr(tagging, "SHORTEST", 20)


class Part:
    """What tags on one node, with a front of its own to S3."""

    def __init__(self, folder, bucket, front, part, parts):
        self.front = front
        self.log = EventLog(folder / f"events-{part}.jsonl")
        place = Placement(run="r1", attempt=1, part=part, parts=parts, node=f"vn{part}", session="r1.a1")
        self.peers = Peers(in_folder(folder, place), place, self.log, on_notice=lambda _: None)
        self.peers.open()
        self.store = Store(f"s3://{BUCKET}/{PREFIX}")
        self.claim = Claim(self.store, self.log, run="r1", attempt=1, node=f"vn{part}")
        if part == 0:
            self.claim.take(over=lambda: False)
        policy = keeping(self.store, newest=whole(bucket, 2) if part == 0 else None)
        self.tagging = Tagging(self.store, self.log, self.claim, policy, self.peers)


@pytest.fixture
def job_parts(tmp_path, bucket, endpoint, store, monkeypatch):
    """Makes the nodes of a job; step 1 is superseded, and has many objects."""
    fill(1, OLD)
    created = []

    def make(parts):
        for part in range(parts):
            front = Front(endpoint)
            front.__enter__()
            monkeypatch.setenv("AWS_ENDPOINT_URL", front.endpoint)
            created.append(Part(tmp_path, bucket, front, part, parts))
        return created

    yield make
    for part in created:
        part.tagging.stop()
        part.peers.close()
        part.front.__exit__()


def old(bucket):
    return [key for key in bucket.all_keys() if key.startswith("step-1/")]


def end(first):
    """Wait for all that is superseded."""
    first.tagging.wake()
    first.tagging.finish(time.monotonic() + 60)


def test_every_node_tags_a_part_and_first_writes_record(job_parts, bucket, store):
    parts = job_parts(3)
    for part in parts:
        part.tagging.start()
    end(parts[0])
    # Enough for two sheets beside the first node's own part.
    objects = [objects_tagged(part.front) for part in parts]
    assert sum(map(len, objects)) == OLD
    assert min(map(len, objects)) >= OLD // 3
    assert len(set.union(*objects)) == OLD
    assert retention.read_record(store) == {1: set()}
    assert [key for key in bucket.all_keys() if key.startswith("tagging/")] == ["tagging/0.json", "tagging/1.json"]
    assert all(json.loads(bucket.read(f"tagging/{slot}.json"))["keys"] == [] for slot in (0, 1))


def test_few_objects_are_tagged_by_first_node_alone(job_parts, bucket, monkeypatch):
    monkeypatch.setattr(tagging, "SHORTEST", OLD)
    first, _ = job_parts(2)
    first.tagging.start()
    end(first)
    assert len(objects_tagged(first.front)) == OLD
    assert "tagging/0.json" not in bucket.all_keys()


def test_part_of_ended_node_is_tagged_by_first_node(job_parts, bucket):
    first, second = job_parts(2)
    first.tagging.start()  # and nothing on the second ever takes a sheet

    def close_second():
        until(lambda: "tagging/0.json" in bucket.all_keys())
        second.peers.close()

    closing = threading.Thread(target=close_second)
    closing.start()
    end(first)
    closing.join()
    assert "tagging/0.json" in bucket.all_keys()
    assert len(objects_tagged(first.front)) == OLD


def test_part_not_tagged_in_time_is_tagged_by_first_node(job_parts, bucket, monkeypatch):
    monkeypatch.setattr(tagging, "_PATIENCE_S", 1.0)
    first, second = job_parts(2)
    second.front.rule = lambda _, path: 403 if path.endswith("?tagging") else None
    for part in (first, second):
        part.tagging.start()
    end(first)
    assert len(objects_tagged(first.front)) == OLD


def test_notice_on_node_stops_tagging_without_done_mark(job_parts, bucket):
    first, second = job_parts(2)
    second.tagging.start()

    def rule(_, path):
        if path.endswith("?tagging") and len(tagged(second.front)) > 10:
            second.tagging.stop()

    second.front.rule = rule
    sheet = TagParts(first.store, first.peers, owner=first.claim.token)
    keys = old(bucket)
    sheet.share_out(keys)
    second.tagging.join(30)
    assert not second.tagging.is_alive()
    assert len(tagged(second.front)) < OLD // 2
    assert json.loads(bucket.read("tagging/0.json"))["done"] is False


@pytest.mark.parametrize("ending", ["replaced", "released"])
def test_replaced_or_released_owner_gets_no_tagging(job_parts, bucket, ending):
    first, second = job_parts(2)
    keys = old(bucket)
    if ending == "replaced":
        Claim(second.store, second.log, run="r1", attempt=2, node="other").take(over=lambda: False)
    else:
        first.claim.release()
    TagParts(first.store, first.peers, owner=first.claim.token).share_out(keys)
    second.tagging.start()
    deadline = time.monotonic() + 30
    while not any("tagging/0.json" in path for _, path in second.front.begun) and time.monotonic() < deadline:
        time.sleep(0.05)
    second.tagging.finish(time.monotonic() + 30)
    assert [path for _, path in second.front.begun if "tagging/0.json" in path]
    assert tagged(second.front) == []


def test_tag_part_is_taken_once_and_old_part_never(job_parts, bucket):
    first, second = job_parts(2)
    keys = old(bucket)
    mine, hand = TagParts(first.store, first.peers, owner="t"), TagWorker(second.store, second.peers)
    retained = mine.share_out(keys)
    deadline = time.monotonic() + 30
    while (sheet := hand.take()) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [*retained, *sheet.keys] == keys
    assert hand.take() is None
    mine.share_out(keys)
    hand.give_back(sheet)  # late, over the sheet of another time
    time.sleep(0.2)
    assert mine.take_results() == ([], [])
    assert mine.are_out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "9" * 5000,
        "[" * 10_000,
        '{"schema": "other"}',
        TagPart(number=1, slot=0, owner="t", keys=("claim.json",)).to_json(),
    ],
    ids=["empty", "list", "digits", "deep", "schema", "no part of a checkpoint"],
)
def test_invalid_tag_part_is_ignored(text):
    assert tagging.parse(text, 0) is None
