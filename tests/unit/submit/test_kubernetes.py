"""Reading a job on Kubernetes: the state of its pods, and their files in the store."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from launcher.agent.store.journal import key_of
from launcher.model.job import Submitted
from launcher.submit.jobs import UnreachableError
from launcher.submit.kubernetes import journal, words
from launcher.submit.kubernetes.jobs import KubernetesJobs


@dataclass(frozen=True)
class Piece:
    key: str
    bytes: int


class Bucket:
    """Objects in memory."""

    def __init__(self, *pieces):
        self.pieces = dict(pieces)

    def list_objects(self, *, below="", after=""):
        return [
            Piece(key, len(data)) for key, data in sorted(self.pieces.items()) if key.startswith(below) and key > after
        ]

    def read(self, key):
        return self.pieces[key]


LOG = Bucket((key_of("log.txt", 0), b"one\n"), (key_of("log.txt", 4), b"two\n"), (key_of("log.txt", 8), b"three\n"))


@pytest.mark.parametrize("offset", range(15))
def test_journal_file_is_read_from_any_offset(offset):
    chunk = journal.read(LOG, "log.txt", offset, 1000)
    assert (chunk.data, chunk.size) == (b"one\ntwo\nthree\n"[offset:], 14)


def test_journal_read_returns_at_most_the_requested_bytes():
    assert journal.read(LOG, "log.txt", 2, 5).data == b"e\ntwo"


def test_journal_file_without_pieces_is_none():
    assert journal.read(LOG, "events.jsonl", 0, 10) is None


def test_journal_with_a_missing_piece_is_unreachable():
    with pytest.raises(UnreachableError, match="nothing from 4 to 8"):
        journal.read(Bucket(*((key, data) for key, data in LOG.pieces.items() if data != b"two\n")), "log.txt", 0, 100)


def pod(*, phase="Pending", message=None, waiting=None, image="here/train:1"):
    conditions = [] if message is None else [{"type": "PodScheduled", "status": "False", "message": message}]
    statuses = [] if waiting is None else [{"name": "pytorch", "image": image, "state": {"waiting": waiting}}]
    return {"status": {"phase": phase, "conditions": conditions, "containerStatuses": statuses}}


@pytest.mark.parametrize(
    "given, message",
    [
        (pod(phase="Running"), ""),
        (pod(phase="Failed"), ""),
        (pod(), "being placed"),
        (
            pod(
                message="0/3 nodes are available: 1 node(s) had untolerated taint {nvidia.com/gpu: true}, "
                "2 Insufficient vpc.amazonaws.com/efa. preemption: 0/3 nodes are available: 3 No help."
            ),
            "no capacity: too few free EFA interfaces on 2 of 3 nodes; taint nvidia.com/gpu=true on 1 of 3",
        ),
        (
            pod(message="0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."),
            "no capacity: 1 of 1 nodes do not match the job's node selector",
        ),
        (pod(message="running PreBind plugin: timed out"), "running PreBind plugin: timed out"),
        (
            pod(waiting={"reason": "ImagePullBackOff", "message": "Back-off pulling image"}),
            "image: here/train:1 cannot be pulled: Back-off pulling image",
        ),
        (
            pod(waiting={"reason": "CreateContainerConfigError", "message": 'secret "x" not found'}),
            'container pytorch cannot start: secret "x" not found',
        ),
    ],
)
def test_waiting_pod_has_a_reason_in_plain_words(given, message):
    assert words.waiting(given) == message


def test_job_held_by_a_queue_has_the_reason():
    job = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "team"}}, "spec": {"suspend": True}}
    assert words.hold_reason(job) == "quota: queue team has not admitted it"
    assert words.hold_reason({"metadata": {}, "spec": {"runPolicy": {"suspend": True}}}) == "it is suspended"
    assert words.hold_reason({"metadata": {}, "spec": {}}) == ""


def test_newest_event_gives_the_reason_for_missing_pods():
    events = [
        {"reason": "FailedCreate", "lastTimestamp": "2026-11-22T05:00:00Z", "message": "old"},
        {"reason": "FailedCreate", "lastTimestamp": "2026-11-22T06:00:00Z", "message": "exceeded quota: gpus"},
        {"reason": "Scheduled", "lastTimestamp": "2026-11-22T07:00:00Z", "message": "no matter"},
    ]
    assert words.newest_warning(events) == "quota: exceeded quota: gpus"
    assert words.newest_warning([]) == ""


@pytest.mark.parametrize(
    "condition,word",
    [
        ({"type": "Complete", "status": "True", "reason": "CompletionsReached"}, "Completed"),
        ({"type": "Succeeded", "status": "True", "reason": "PyTorchJobSucceeded"}, "Completed"),
        ({"type": "Failed", "status": "True", "reason": "DeadlineExceeded", "message": "too late"}, "DeadlineExceeded"),
    ],
)
def test_completed_job_has_a_plain_word_whatever_its_operator_calls_it(condition, word):
    connection = SimpleNamespace(
        name="eks", find=lambda _: {"status": {"conditions": [condition]}}, ask=lambda *_, **__: {"items": []}
    )
    jobs = KubernetesJobs(connection=connection, namespace="slipway", kind="Job")
    assert jobs.facts(Submitted(job="train", key="k", folder="train")).word == word


def test_waiting_pods_are_counted_without_those_of_earlier_attempts():
    """Kubernetes keeps the pods of an attempt that has ended."""
    given = [pod(phase="Failed"), pod(phase="Failed"), pod(phase="Running"), pod(message="0/2 nodes are available")]
    pods = [
        {"metadata": {"name": f"train-{number}"}, "spec": {"nodeName": f"node-{number}"}, **each}
        for number, each in enumerate(given)
    ]
    job = {"status": {"conditions": []}, "spec": {}, "metadata": {"name": "train", "uid": "1"}}
    connection = SimpleNamespace(name="eks", find=lambda *_, **__: job, ask=lambda *_, **__: {"items": pods})
    jobs = KubernetesJobs(connection=connection, namespace="slipway", kind="Job")
    facts = jobs.facts(Submitted(job="train", key="k", folder="train"))
    assert facts.reason.endswith("(1 of 2 pods wait)")
