"""`kill -9` at random moments on one prefix: no restore sees a torn checkpoint, no complete one is lost.

In between trainers come to their end: a run whose command ended with 0 ends with 0, with its last state in the store.

Between the agent and S3 stands a front that takes its time over every request, so that most moments fall into a
transfer or a commit, and that knows which requests are under way when the agent is killed. After every kill the bucket
is looked at without the agent's help.
"""

import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from tests.attack.disks import fill
from tests.attack.trainers import TRAINER, Bucket, beside_a_monitor, finished, step_of
from tests.sandbox.agent.front import Front

STORMS = {
    "slipway": (10, 45),
    "deepspeed": (5, 45),
    "hf": (5, 45),
    "lightning": (4, 45),
    "orbax": (4, 45),
    "again": (4, 45),
    "best": (4, 45),
    "fixed": (4, 45),
    "dcp": (2, 45),
    "megatron": (2, 45),
    "last": (2, 60),
}
"""Kills by layout, in `make test` and at full size: a folder that is renamed; written in place with a tracker; in place
with a marker; a file renamed from elsewhere (Lightning 2.6.6 fabric/utilities/cloud_io.py `_atomic_save`), and its
copy; a folder that is a bare number after its rename, found by the trainer itself; a folder that is written once more
with the same size and times; a set with the best model, older ones removed; one file that is replaced at every save;
a folder in place with a marker of no content; one whose name has leading zeros, found by the trainer in its tracker; a
last.ckpt of no known format, written in place in two pieces, beside an epoch's file."""
OVERFLOWN, FILLED, FINISHED = 0.04, 0.12, 0.2
"""At full size, the shares of attempts in which more is created in the checkpoint folder than the kernel reports
(fs.inotify.max_queued_events) while the agent is stopped, of those in which the node's disk is filled to 0 bytes, by
the job itself or by someone else, and of those that no one kills: the trainer comes to its last step."""
SHARE_IN_FLIGHT = 0.6
"""At full size, the least share of kills during a transfer; a short storm has at least one."""
BIG, SMALL = 18 << 20, 200_000
"""One upload in several parts, one in a single request."""
LIKE_OTHERS = {"deepspeed", "dcp"}
"""Short storms of make test-all: megatron's also has a tracker in place, and hf's a marker."""
IN_FLIGHT = frozenset({"data", "parts", "complete", "commit"})


class SlowFront(Front):
    """Lets a request take a while, part of it before S3 has seen it and part of it after; `phases` are under way."""

    def __init__(self, upstream, rng):
        super().__init__(upstream)
        self.rng = rng
        self.lock = threading.Lock()
        self.phases_in_progress = Counter()

    @staticmethod
    def phase(method, path):
        if path.endswith("/manifest.json") and method == "PUT":
            return "commit"
        if method == "GET":
            # Before every commit the claim is looked at.
            return "commit" if path.endswith("/claim.json") else "look"
        if path.endswith("/claim.json"):
            return "claim"
        if "partNumber=" in path or path.endswith("?uploads"):
            return "parts"
        return "complete" if "uploadId=" in path else "data"

    def forward(self, method, path, body, headers):
        phase = self.phase(method, path)
        with self.lock:
            self.phases_in_progress[phase] += 1
            before, after = self.rng.uniform(0.05, 0.4), self.rng.uniform(0, 0.2)
        try:
            slow = phase in IN_FLIGHT and method != "GET"
            time.sleep(before if slow else 0)
            answer = super().forward(method, path, body, headers)
            time.sleep(after if slow else 0)
            return answer
        finally:
            with self.lock:
                self.phases_in_progress[phase] -= 1

    def phases(self):
        with self.lock:
            return {phase for phase, number in self.phases_in_progress.items() if number}


def storm_command(node, layout, rng, *, steps, full):
    """A trainer of big or small checkpoints; at full size, now and then beside a monitor in a shell."""
    size = BIG if rng.random() < 0.15 else SMALL
    words = (sys.executable, node.folder / "train.py", steps, 0.05, size, layout)
    command = tuple(map(str, words))
    return beside_a_monitor(command, rng) if full else command


def lying(node):
    """The numbers of all folders and files on the node that have a name of a checkpoint."""
    names = (path.name for path in (node.place / "node").rglob("*") if path.suffix == ".ckpt" or path.is_dir())
    return {int(match[1]) for name in names if (match := re.search(r"(\d+)(\.ckpt)?$", name))}


def checkpoint_folder(node, name="node"):
    (folder,) = node.place.glob(f"{name}/slipway-*/*/checkpoints")
    return folder


def overflow(node, agent):
    """Create more in the checkpoint folder than the kernel reports to an agent that stands still."""
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    folder = checkpoint_folder(node)
    os.kill(agent.pid, signal.SIGSTOP)
    for number in range(limit // 2 + 1):
        (folder / f"junk-{number}").touch()
        (folder / f"junk-{number}").unlink()
    os.kill(agent.pid, signal.SIGCONT)


def failed_for_space(node, attempt):
    """Whether a trainer without a last step has ended, on a disk that an earlier attempt left full."""
    return bool(node.events("command-ended", attempt)) and any(node.place.rglob("junk"))


def kill(node, agent, front, attempt, *, filled):
    """Kill an agent; return what was under way."""
    phases = front.phases() & IN_FLIGHT
    agent.kill()
    code = agent.wait()
    filled = filled or failed_for_space(node, attempt)
    # A trainer that found the disk full has ended with 1, and the shell around it with 0.
    assert code in {-signal.SIGKILL, *((0, 1) if filled else ())}
    return "full disk" if filled else ", ".join(sorted(phases)) or "between transfers"


def last_steps(checkpoints, stored, layout, rng):
    """The last step of a trainer that goes on for a few steps from the newest checkpoint of the store."""
    begin = step_of(checkpoints.content_of(stored[max(stored)])) if stored else 0
    return begin + rng.randint(1, 2 if layout in ("best", "fixed", "last") else 8)


def check_end(node, checkpoints, attempt, *, code, lines):
    """The end of a trainer that no one killed: it came to its end, and is done, with its last version in the store.

    One that found the disk full may have failed, also by what an earlier attempt left on it: false.
    """
    events, last = node.events(attempt=attempt), finished(node.output()[lines:])
    if not last and any(node.place.rglob("junk")):
        return False
    assert code == 0, f"falsely failed: {events}"
    stored = checkpoints.whole()
    assert [sha256(checkpoints.content_of(stored[max(stored)])).hexdigest()] == last, f"falsely done: {events}"
    return True


@pytest.mark.usefixtures("own_disk")
@pytest.mark.parametrize(
    "layout, full",
    [
        pytest.param(
            layout, full, id=f"{layout}-{size}", marks=[pytest.mark.slow] if full or layout in LIKE_OTHERS else []
        )
        for layout in STORMS
        for full, size in ((False, "small"), (True, "full"))
    ],
)
def test_agent_killed_at_random_loses_no_complete_checkpoint_and_restores_no_torn_one(  # noqa: PLR0917
    node, bucket, layout, full, seed, capsys
):
    kills = STORMS[layout][full]
    (node.folder / "train.py").write_text(TRAINER)
    rng = random.Random(seed)
    checkpoints, stored, moments, done = Bucket(bucket), {}, Counter(), 0
    with SlowFront(node.environment["AWS_ENDPOINT_URL"], random.Random(seed + 1)) as front:
        node.environment["AWS_ENDPOINT_URL"] = front.endpoint
        for attempt in range(1, kills + 1):
            pattern = r"ckpt\.pt" if layout == "fixed" else None
            ends = full and rng.random() < FINISHED
            steps = last_steps(checkpoints, stored, layout, rng) if ends else 100_000
            node.job(command=storm_command(node, layout, rng, steps=steps, full=full), keep=2, pattern=pattern)
            there, lines = lying(node), len(node.output()) if attempt > 1 else 0
            agent = node.start(attempt)
            node.wait_for("command-started", attempt)
            # What is older than the newest whole one of the store has been superseded.
            deleted = {step for step in there - lying(node) if step > max(stored, default=0)}
            removed = " ".join(event["path"] for event in node.events("checkpoint-removed", attempt))
            assert not deleted - set(map(int, re.findall(r"\d+", removed))), "deleted without a word"
            if full and rng.random() < OVERFLOWN:
                overflow(node, agent)
            if attempt * 2 > kills and not stored:
                node.wait_until(checkpoints.whole)  # a short storm may come before every commit
            filled = full and rng.random() < FILLED
            if filled:
                fill(rng.choice([checkpoint_folder(node), node.place]) / "junk")
            elif not ends and front.phases().isdisjoint(IN_FLIGHT):
                node.wait_until(
                    lambda at=attempt: not front.phases().isdisjoint(IN_FLIGHT) or failed_for_space(node, at)
                )
            if ends:
                done += check_end(node, checkpoints, attempt, code=agent.wait(timeout=90), lines=lines)
            else:
                time.sleep(rng.uniform(0.0, 0.7) if attempt % 2 else 0.0)  # every other kill as soon as a transfer runs
                moments[kill(node, agent, front, attempt, filled=filled)] += 1
            node.wait_until(lambda: not front.phases())  # what was on its way to S3 still gets there
            (node.place / "junk").unlink(missing_ok=True)

            before, stored = stored, checkpoints.whole()
            assert set(before) <= set(stored)
            begun = node.restored(attempt)
            assert begun >= max(before, default=0)
            if rng.random() < 0.5:
                node.lose()
            elif begun == 0 and not before:
                assert not bucket.expiring()
        with capsys.disabled():
            text = f"{moments.total()} kills, {layout}: " + "; ".join(f"{n} x {m}" for m, n in moments.most_common())
            print(f"\n{kills - moments.total()} ends, {done} of them done, and {text}")  # noqa: T201
        newest, lines = max(stored), len(node.output())
        node.lose()
        node.job(last_steps(checkpoints, stored, layout, rng), 0, SMALL, layout, keep=2, pattern=pattern)
        assert check_end(node, checkpoints, kills + 1, code=node.run(attempt=kills + 1), lines=lines)
        assert node.restored(kills + 1) == newest
        assert "torn" not in "".join(node.output())
        assert moments.total() - moments["between transfers"] >= max(1, full * SHARE_IN_FLIGHT * moments.total())
