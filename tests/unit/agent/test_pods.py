"""Parts of the agent that only pods use: notices, journal, and the state of the job's attempts."""

import os
import signal
import threading
from types import SimpleNamespace

import pytest

from launcher.agent.attempt_state import STATE_FILE, parse_attempt_state
from launcher.agent.ending import from_notice
from launcher.agent.errors import StoreError
from launcher.agent.node.notices import SIGNALS, Notices
from launcher.agent.node.placement import Placement
from launcher.agent.rendezvous import Rendezvous, folder_of
from launcher.agent.store.journal import Journal, Tail, end_of, key_of
from launcher.agent.store.objects import StoredText
from tests.waiting import until


class Memory:
    """A store in memory, with the conditions of S3's."""

    uri = "s3://here/run"

    def __init__(self):
        self.texts, self.lock, self.count = {}, threading.Lock(), 0

    def find_text(self, key):
        with self.lock:
            return self.texts.get(key)

    def swap_text(self, key, text, *, before):
        with self.lock:
            there = self.texts.get(key)
            if (there and there.etag) != (before and before.etag):
                return None
            self.count += 1
            self.texts[key] = StoredText(text=text, etag=str(self.count), age_s=0.0)
            return self.texts[key]

    def put_new(self, key, data):
        return self.swap_text(key, data, before=None) is not None or self.texts[key].text == data

    def sizes(self, below=""):
        with self.lock:
            return {key: len(stored.text) for key, stored in self.texts.items() if key.startswith(below)}


def place(part, parts=2):
    return Placement(run="r1", attempt=1, part=part, parts=parts, node=f"pod-{part}", session="r1.a1")


def rendezvous(store, part, messages=None):
    return Rendezvous(store, place(part), notify=(messages if messages is not None else []).append)


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("launcher.agent.rendezvous._POLL_S", 0.01)


def join(*meetings, over=lambda: False):
    """What each of several pods, all at once, comes to."""
    attempts = {}
    threads = [
        threading.Thread(target=lambda meeting=meeting: attempts.update({meeting: meeting.join(over=over)}))
        for meeting in meetings
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return [attempts[meeting] for meeting in meetings]


def test_all_pods_meet_in_one_life(quick):
    first, other = join(rendezvous(store := Memory(), 0), rendezvous(store, 1))
    assert (first.attempt, other.attempt) == (1, 1)
    assert first.session == other.session == "r1.a1.l1"


@pytest.mark.parametrize("anew", [0, 1])
def test_returning_pod_ends_the_attempt_and_all_join_the_next(quick, anew):
    store = Memory()
    join(rendezvous(store, 0), rendezvous(store, 1))
    leaving = []
    late = rendezvous(store, anew)
    thread = threading.Thread(target=lambda: leaving.append(late.join(over=lambda: False)))
    thread.start()
    while "pod-end" not in (store.texts.get(f"{folder_of(1)}/news.json") or StoredText(text="", etag="", age_s=0)).text:
        pass
    (other,) = join(rendezvous(store, 1 - anew))
    thread.join(20)
    assert (leaving[0].attempt, other.attempt) == (2, 2)


def test_leaving_pod_does_not_wait(quick):
    assert join(rendezvous(Memory(), 1), over=lambda: True) == [None]


def test_completed_job_is_complete_for_a_late_pod(quick):
    store = Memory()
    first, other = rendezvous(store, 0), rendezvous(store, 1)
    join(first, other)
    assert first.complete(over=lambda: False)
    assert other.complete(over=lambda: False)
    late = rendezvous(store, 1)
    assert late.join(over=lambda: False) is None
    assert late.completed


def test_pod_is_not_complete_after_the_loss_of_the_first_pod(quick):
    store = Memory()
    first, other = rendezvous(store, 0), rendezvous(store, 1)
    join(first, other)
    store.swap_text(STATE_FILE, '{"life": 2, "completed": false}', before=store.find_text(STATE_FILE))
    assert not other.complete(over=lambda: False)
    assert not first.complete(over=lambda: False)


def test_unreadable_attempt_state_is_none():
    assert [parse_attempt_state(text) for text in ("", "{}", "[]", '{"life": "x", "completed": true}')] == [None] * 4


def test_journal_continues_where_the_earlier_pod_ended(tmp_path):
    store, messages = Memory(), []
    store.put_new(key_of("events.jsonl", 0), b"one\n")
    journal = Journal(store, messages.append)
    journal.keep("events.jsonl", Tail(tmp_path / "events"))
    assert journal.flush()
    (tmp_path / "events").write_text("two\n")
    journal.flush()
    store.put_new(key_of("events.jsonl", 8), b"other\n")
    with (tmp_path / "events").open("a") as file:
        file.write("three\n")
    assert journal.flush()
    assert [stored.text for _, stored in sorted(store.texts.items())] == [b"one\n", b"two\n", b"other\n", b"three\n"]
    assert end_of(store.sizes("events.jsonl/")) == 20


def test_restarted_container_sends_unsent_lines_only(tmp_path):
    """The disk of its pod has the file still; a process that was killed left a line there that it had not sent."""
    store, path = Memory(), tmp_path / "events"
    for text in ("one\n", "two\n"):
        with path.open("a") as file:
            file.write(text)
        journal = Journal(store, [].append)
        journal.keep_file("events.jsonl", path)
        assert journal.flush()
        with path.open("a") as file:
            file.write(f"unsent after {text}")
    again = Journal(store, [].append)
    again.keep_file("events.jsonl", path)
    assert again.flush()
    content = b"".join(stored.text for _, stored in sorted(store.texts.items()))
    assert content == path.read_bytes() == b"one\nunsent after one\ntwo\nunsent after two\n"


@pytest.mark.parametrize("mark", ["99", "-1", "nonsense", ""])
def test_mark_beyond_the_file_is_ignored(tmp_path, mark):
    (tmp_path / "events").write_text("one\n")
    (tmp_path / "events.sent").write_text(mark)
    store = Memory()
    journal = Journal(store, [].append)
    journal.keep_file("events.jsonl", tmp_path / "events")
    assert journal.flush()
    assert [text.text for text in store.texts.values()] == [b"one\n"]


@pytest.mark.parametrize(
    "number, grace_s, cancelled, expected",
    [
        (signal.SIGTERM, 30.0, False, ("pod-end", 30.0, "spot-interruption")),
        (signal.SIGTERM, 30.0, True, ("cancel", 30.0, "cancel")),
        (signal.SIGTERM, None, False, ("cancel", None, "cancel")),
        (signal.SIGUSR2, 30.0, True, ("node-lost", 30.0, "node-lost")),
    ],
)
def test_signal_is_notice_with_the_cause_of_the_end(number, grace_s, cancelled, expected):
    before = {each: signal.getsignal(each) for each in SIGNALS}
    try:
        notices = Notices(pod_grace_s=grace_s, pod_cancelled=lambda: cancelled)
        notices.listen()
        os.kill(os.getpid(), number)
        notice = notices.next(wait_s=1.0)
        assert (notice.source, notice.left_s, from_notice(notice).ended_by) == expected
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_job_stopped_at_the_budget_is_not_started_again(quick):
    """An operator starts every pod again that failed: it is told that there is nothing left to start."""
    store = Memory()
    first, second = rendezvous(store, 0), rendezvous(store, 1)
    join(first, second)
    assert first.complete(over=lambda: True, stopped=True)
    attempt_state = parse_attempt_state(store.texts[STATE_FILE].text)
    assert (attempt_state.completed, attempt_state.stopped) == (True, True)
    again = rendezvous(store, 1)
    assert again.join(over=lambda: False) is None
    assert (again.completed, again.stopped) == (True, True)


def lives(code, retries, ends=None, steps=None):
    """How many lives a job of two pods has, of which each ends with a code; and what is left of it at the end.

    A code of None: the second pod is killed, and leaves nothing. Each pod has a machine of its own, which stays.
    `steps` are the newest whole checkpoints at the ends of the lives, which the first pod knows; None: each is newer.
    """
    store, number = Memory(), 0
    while number < 20:
        pods = [
            Rendezvous(store, place(part), notify=[].append, node_id=f"m{part}", retries=retries) for part in (0, 1)
        ]
        if any(placement is None for placement in join(*pods)):
            return number, parse_attempt_state(store.texts[STATE_FILE].text).failed
        number += 1
        exit_code = code if ends is None else ends[min(number, len(ends)) - 1]
        newest = number if steps is None else steps[min(number, len(steps)) - 1]
        # The second pod ends first, and does not know what is whole.
        for pod, known in list(zip(pods, (newest, None), strict=True))[: 1 if exit_code is None else 2][::-1]:
            pod.leave(75 if exit_code is None else exit_code, over=lambda: False, newest=known)
    return number, None


@pytest.mark.parametrize("retries", [0, 1, 3])
@pytest.mark.parametrize("code", [1, 3, 74, 124, 137])
def test_job_fails_after_the_allowed_number_of_failed_attempts(quick, code, retries):
    assert lives(code, retries) == (retries + 1, code)


@pytest.mark.parametrize("retries", [0, 3])
@pytest.mark.parametrize("code", [78, 126, 127])
def test_permanent_exit_code_is_not_retried(quick, code, retries):
    assert lives(code, retries) == (1, code)


@pytest.mark.parametrize(
    "steps, ends, number",
    [
        ([-1, -1], None, 2),  # nothing was ever kept
        ([40, 40], None, 2),
        ([40, 60, 60], None, 3),
        ([40, 30], None, 2),  # it began anew, and came less far
        ([40, 40, 40], [3, 75, 3], 3),  # an interruption between them brought nothing either
        ([40, 50, 60], [3, 75, 3], 10),
    ],
)
def test_two_failures_without_a_newer_checkpoint_end_the_job(quick, steps, ends, number):
    steps = [*steps, *range(100, 200)] if number == 10 else steps
    ends = None if ends is None else [*ends, *[3] * 20]
    assert lives(3, 8, ends, steps) == (number, 3)


@pytest.mark.parametrize("retries, code, stuck", [(8, 3, True), (1, 3, False), (8, 127, False)])
def test_state_of_failed_job_tells_missing_progress_from_used_up_retries(quick, retries, code, stuck):
    store = Memory()
    for code_of_attempt in (3, code):
        pods = [Rendezvous(store, place(part), notify=[].append, retries=retries) for part in (0, 1)]
        join(*pods)
        pods[0].leave(code_of_attempt, over=lambda: False, newest=40)
    state = parse_attempt_state(store.texts[STATE_FILE].text)
    assert (state.failed, state.stuck) == (code, stuck)


def test_interruptions_are_not_counted_as_failures(quick):
    assert lives(3, 1, [75, 75, 3, 75, 75, 3]) == (6, 3)


def test_killed_pod_on_a_remaining_node_is_a_failure(quick):
    # The life in which that is found out is over before it has begun.
    assert lives(None, 1) == (2, 137)
    assert lives(None, 1, [75, None, 75, 3]) == (4, 3)


def test_pod_lost_with_the_node_is_an_interruption(quick):
    store = Memory()
    for boot in range(3):
        pods = [
            Rendezvous(store, place(part), notify=[].append, node_id=f"m{part}/{boot}", retries=0) for part in (0, 1)
        ]
        assert [placement.attempt for placement in join(*pods)] == [boot + 1] * 2


def pods_of(store, *, of_first=None):
    """The two pods of a job that may not fail, each on its own node, which stays; `of_first`: the first pod's store."""
    stores = (of_first or store, store)
    return [
        Rendezvous(at, place(part), notify=[].append, node_id=f"m{part}", retries=0) for part, at in enumerate(stores)
    ]


def begun_once(store):
    """The store of a job whose first attempt was interrupted."""
    join(*(pods := pods_of(store)))
    for pod in pods:
        pod.leave(75, over=lambda: False)
    return store


def test_pod_ended_while_it_waits_for_others_is_an_interruption(quick):
    """An operator starts the pod of a drained node alone, and then all pods again."""
    store, ends = begun_once(Memory()), threading.Event()
    first, late = pods_of(store)
    waiting = threading.Thread(target=first.join, kwargs={"over": ends.is_set})
    waiting.start()
    until(lambda: f"{folder_of(2)}/seat-0" in store.sizes())
    ends.set()
    waiting.join(20)
    assert join(late)[0].attempt == 2, "it claims the last seat of an attempt whose first pod has ended"
    late.leave(75, over=lambda: False)
    pods = pods_of(store)
    assert [placement and placement.attempt for placement in join(*pods)] == [3, 3], [pod.failed for pod in pods]


def test_attempt_begun_while_the_store_did_not_answer_the_first_pod_is_an_interruption(quick):
    store = begun_once(Memory())

    def sizes(below):
        until(lambda: f"{folder_of(2)}/seat-1" in store.sizes())
        unsteady.sizes = store.sizes
        raise StoreError("503")

    unsteady = SimpleNamespace(find_text=store.find_text, swap_text=store.swap_text, sizes=sizes)
    first, late = pods_of(store, of_first=unsteady)
    placements = []
    waiting = threading.Thread(target=lambda: placements.append(first.join(over=lambda: False)))
    waiting.start()
    assert join(late)[0].attempt == 2
    late.leave(75, over=lambda: False)
    assert join(pods_of(store)[1])[0].attempt == 3
    waiting.join(20)
    assert [placement and placement.attempt for placement in placements] == [3], first.failed


def test_refusing_pod_ends_the_job_for_all_pods(quick):
    store = Memory()
    Rendezvous(store, place(1), notify=[].append, retries=3).refuse(78)
    pods = rendezvous(store, 0), rendezvous(store, 1)
    assert join(*pods) == [None, None]
    assert [pod.failed for pod in pods] == [78, 78]


def test_failure_is_counted_once_for_all_pods_of_an_attempt(quick):
    store = Memory()
    pods = [Rendezvous(store, place(part), notify=[].append, retries=1) for part in (0, 1)]
    join(*pods)
    assert [pod.fail(3, over=lambda: False) for pod in pods] == [False, False]
    assert parse_attempt_state(store.texts[STATE_FILE].text).failures == 1
