"""A disk that is full at any moment, and a clock that is wrong: what was committed stays, and nothing torn is seen.

The disk is full for one agent and all it starts: no file may grow beyond a bound (RLIMIT_FSIZE), which strikes its
books, its log, its event file, the trainer's checkpoint and the restore alike. The clock is wrong as S3 sees it: it
refuses what is signed at another time than its own.
"""

import random
import sys
from collections import Counter

import pytest

from tests.attack.test_kills import TRAINER, Bucket

SIZE = 200_000
BOUNDS = (0, 300, 1_000, 4_000, 20_000, 100_000, 150_000, 10**9)
"""Bytes; below the first some books fit, a checkpoint needs more than the last but one."""


def limited(bound):
    return ["prlimit", f"--fsize={bound}", sys.executable, "-m", "launcher.agent"]


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_a_full_disk(node, bucket, seed, rounds, capsys):
    (node.folder / "train.py").write_text(TRAINER)
    rng, seen, codes = random.Random(seed), Bucket(bucket), Counter()
    node.job(1, 0, SIZE, keep=2, final_upload_s=5.0)
    assert node.run() == 0
    stored = seen.whole()
    for attempt in range(2, rounds + 2):
        node.program = limited(rng.choice(BOUNDS))
        node.job(max(stored) + 2, 0.05, SIZE, keep=2, final_upload_s=5.0)
        codes[code := node.run(attempt)] += 1
        before, stored = stored, seen.whole()
        assert set(before) <= set(stored)
        assert code != 0 or max(stored) == max(before) + 2
        if rng.random() < 0.5:
            node.lose()
    node.program = None
    node.job(max(stored) + 1, 0, SIZE)
    assert node.run(attempt=rounds + 2) == 0
    assert node.restored(rounds + 2) >= max(stored)
    assert "torn" not in "".join(node.output())
    assert not [line for line in node.output() if "agent" in line and line.startswith("  File")]
    with capsys.disabled():
        print(f"\n{rounds} full disks, seed {seed}: exit codes {dict(sorted(codes.items()))}")  # noqa: T201


def test_a_clock_that_s3_does_not_believe(node, bucket, front):
    (node.folder / "train.py").write_text(TRAINER)
    node.job(2, 0, SIZE)
    assert node.run() == 0
    wrong = (403, "RequestTimeTooSkewed")
    front.rule = lambda *_: wrong
    node.job(3, 0, SIZE)
    agent = node.start(attempt=2)
    node.wait_for("restore-retry", 2)  # it does not begin anew
    front.rule = lambda method, _: wrong if method == "PUT" else None
    node.wait_for("upload-retry", 2)  # and the command goes on
    front.rule = lambda *_: None
    assert agent.wait(timeout=90) == 0
    assert (node.restored(2), bucket.whole()[-1]) == (2, 3)
