"""A full disk at any moment, and a wrong clock: committed checkpoints stay, and no torn one is visible.

The disk is full for one agent and all it starts: no file may grow beyond a bound (RLIMIT_FSIZE), which strikes its
books, its log, its event file, the trainer's checkpoint and the restore alike. The clock is wrong as S3 sees it: it
refuses what is signed at another time than its own; and it jumps, by hours and years, in a process that runs.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from launcher.agent import exits
from launcher.agent.build import build
from launcher.agent.node.reserve import RESERVE_BYTES
from tests.attack.disks import fill, fill_inodes, mounted
from tests.attack.trainers import TRAINER, Bucket
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX
from tests.sandbox.agent.conftest import ROOT

SIZE = 200_000
BOUNDS = (0, 300, 1_000, 4_000, 20_000, 100_000, 150_000, 10**9)
"""Bytes; below the first some books fit, a checkpoint needs more than the last but one."""


TRAINERS = {1, 120, 153}
"""The trainer's own codes, passed on: Python leaves with 120 in place of 1 where its last words cannot be written
either (`Py_FinalizeEx` in its C API's documentation, `sys.exit`'s in the library's); 153 is SIGXFSZ, which this bound
sends to a process that does not ignore it, and a full disk does not."""


SOURCE = [sys.executable, "-B", "-m", "launcher.agent"]
"""Without bytecode: Python would leave a file that is cut short in the source tree, for all later processes."""


def limit(bound):
    return ["prlimit", f"--fsize={bound}", *SOURCE]


@pytest.mark.parametrize("rounds", [5, pytest.param(100, marks=pytest.mark.slow)])
def test_full_disk_on_random_attempts_keeps_every_stored_checkpoint(node, bucket, seed, rounds, capsys):
    (node.folder / "train.py").write_text(TRAINER)
    rng, checkpoints, codes = random.Random(seed), Bucket(bucket), Counter()
    node.job(1, 0, SIZE, keep=2, final_upload_s=5.0)
    assert node.run() == 0
    stored, lost = checkpoints.whole(), False
    for attempt in range(2, rounds + 2):
        node.program = limit(rng.choice(BOUNDS[1:] if lost else BOUNDS))  # a new folder needs its record
        node.job(max(stored) + 2, 0.05, SIZE, keep=2, final_upload_s=5.0)
        codes[code := node.run(attempt)] += 1
        before, stored = stored, checkpoints.whole()
        assert set(before) <= set(stored)
        assert code != 0 or max(stored) == max(before) + 2
        lost = rng.random() < 0.5
        if lost:
            node.lose()
    node.program = None
    node.job(max(stored) + 1, 0, SIZE)
    assert node.run(attempt=rounds + 2) == 0
    assert node.restored(rounds + 2) >= max(stored)
    assert "torn" not in "".join(node.output())
    assert not [line for line in node.output() if "agent" in line and line.startswith("  File")]
    assert set(codes) <= {0, exits.STORE_FAILED} | TRAINERS, (codes, node.output())
    with capsys.disabled():
        print(f"\n{rounds} full disks, seed {seed}: exit codes {dict(sorted(codes.items()))}")  # noqa: T201


FILLS = (
    TRAINER
    + """
if "fill" in sys.argv:
    half = folder / f"tmp-{step + 1}"
    half.mkdir(exist_ok=True)
    until = time.monotonic() + (60 if "hold" in sys.argv else 0)
    with open(half / "data", "wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.05)
"""
)
DISK = 24 << 20


@pytest.fixture
def disk(node, request):
    """A disk of 24 MiB for everything of a node: its scratch folder, its events and its metrics."""
    with mounted(node.folder / "disk", DISK, inodes=getattr(request, "param", 0)) as place:
        (place / "shared").mkdir()
        (node.folder / "shared").symlink_to(place / "shared")
        (node.folder / "train.py").write_text(FILLS)
        node.place = place
        yield place
        node.end_commands()


FEW = {"keep": 2, "final_upload_s": 5.0}


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_full_disk_filled_by_the_trainer_resumes_from_the_newest_checkpoint(node, bucket, disk, killed):
    """With 0 bytes free, later attempts begin and go on: what the store covers and what is unfinished makes room."""
    for attempt in (1, 2, 3):
        node.job(3 + attempt, 0.05, SIZE, "slipway", "fill", *(["hold"] if killed else []), **FEW)
        if killed:
            agent = node.start(attempt)
            node.wait_until(lambda attempt=attempt: 3 + attempt in node.steps("checkpoint-uploaded", attempt))
            node.wait_until(lambda: shutil.disk_usage(disk).free <= RESERVE_BYTES)
            agent.kill()
            agent.wait()
            node.end_commands()
        else:
            assert node.run(attempt) == 1  # the trainer's own
        fill(next(disk.glob(f"node/*/tiny/checkpoints/tmp-{4 + attempt}/data")))
        assert shutil.disk_usage(disk).free == 0
    newest = max(Bucket(bucket).whole())
    assert newest >= 4
    node.job(8, 0.05, SIZE, **FEW)
    assert node.run(attempt=4) == 0
    assert node.restored(4) >= newest
    assert max(Bucket(bucket).whole()) == 8
    assert "torn" not in "".join(node.output())


def test_full_disk_of_another_jobs_unfinished_files_does_not_stop_a_new_job(node, bucket, disk):
    node.job(3, 0.05, SIZE, "slipway", "fill", **FEW)
    assert node.run() == 1
    fill(next(disk.glob("node/*/tiny/checkpoints/tmp-4/data")))
    node.job(2, 0.05, SIZE, **FEW, name="other", run="r2", uri=f"s3://{BUCKET}/{PREFIX}other")
    assert node.run() == 0


def test_full_disk_by_another_user_ends_attempts_and_not_the_run(node, bucket, disk):
    """There is nothing to remove: the trainer's checkpoints fail, and the run goes on once there is room."""
    node.job(2, 0.05, SIZE, **FEW)
    assert node.run() == 0
    fill(disk / "someone-elses")
    for attempt in (2, 3):
        node.job(4, 0.05, SIZE, **FEW)
        assert node.run(attempt) in {0, 1}
    (disk / "someone-elses").unlink()
    node.job(6, 0.05, SIZE, **FEW)
    assert node.run(attempt=4) == 0
    assert node.restored(4) >= 2
    assert [event["event"] for event in node.events(attempt=4)][-1] == "completed"


FEW_INODES = pytest.mark.parametrize("disk", [400], indirect=True, ids=["400 inodes"])
UNFINISHED = "tmp-99"


@FEW_INODES
@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed"])
def test_disk_without_inodes_resumes_from_the_newest_checkpoint(node, bucket, disk, killed):
    """Bytes are free, but no file can be created: what a trainer left unfinished makes room."""
    for attempt in (1, 2):
        node.job(100_000, 0.05, SIZE, **FEW)
        agent = node.start(attempt)
        node.wait_until(lambda attempt=attempt: len(node.steps("checkpoint-uploaded", attempt)) > 1)
        unfinished = next(disk.glob("node/*/tiny/checkpoints")) / UNFINISHED
        if killed:
            agent.kill()
            node.end_commands()
        else:
            fill_inodes(unfinished)
        assert agent.wait() == (-signal.SIGKILL if killed else 1)
        fill_inodes(unfinished)
        assert os.statvfs(disk).f_favail == 0
        assert shutil.disk_usage(disk).free > DISK // 2
    newest = max(Bucket(bucket).whole())
    node.job(newest + 2, 0.05, SIZE, **FEW)
    assert node.run(attempt=3) == 0
    assert node.restored(3) >= newest
    # A slow host kills the agent with several newer checkpoints on its disk.
    assert max(Bucket(bucket).whole()) == max(newest + 2, node.restored(3))
    (removed,) = [event for event in node.events("checkpoint-removed", 3) if event["path"].endswith(UNFINISHED)]
    assert "inodes" in removed["reason"]
    assert "torn" not in "".join(node.output())


@FEW_INODES
def test_disk_whose_inodes_another_user_took_runs_with_room_of_stored_checkpoints(node, bucket, disk):
    node.job(2, 0.05, SIZE, **FEW)
    assert node.run() == 0
    fill_inodes(disk / "someone-elses")
    node.job(3, 0.05, SIZE, **FEW)
    assert node.run(attempt=2) == 0
    assert node.restored(2) == 2


@pytest.mark.parametrize("lost", [False, True], ids=["whole", "cut"])
def test_full_disk_at_the_end_of_the_command_stores_the_outputs(node, bucket, disk, lost):
    """What was written is stored, with 0 bytes free; of what the disk has cut, the trainer's own failure tells."""
    script = f"""
import contextlib, os
os.makedirs("out")
with open("out/weights", "w") as file:
    file.write("weights")
with open("{disk}/junk", "wb", buffering=0) as file:
    for block in (bytes(1 << 20), bytes(4096), b"x"):
        with contextlib.suppress(OSError):
            while True:
                file.write(block)
if {lost}:
    with open("out/more", "w") as file:
        file.write("x" * 100_000)
"""
    node.job(
        command=(sys.executable, "-c", script),
        outputs=("out",),
        plan_uri=f"s3://{BUCKET}/{PREFIX.rstrip('/')}",
        final_upload_s=10.0,
    )
    assert node.run() == (1 if lost else 0)
    assert shutil.disk_usage(disk).free <= RESERVE_BYTES
    stored = json.loads(bucket.read("outputs/r1/manifest.json"))["files"]
    assert [file["path"] for file in stored][-1:] == ["out/weights"]
    assert [event["files"] for event in node.events("outputs-stored")] == [len(stored)]
    assert not node.events("outputs-not-stored")


@pytest.mark.parametrize("single", [True, False], ids=["the single file", "the source"])
def test_agent_exit_code_is_kept_with_an_unwritable_log(tmp_path, single):
    """The batch script goes by it: what was interrupted is to come back though the disk is full."""
    file = tmp_path / "agent.pyz"
    program = [sys.executable, str(file)] if single else SOURCE
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    if single:
        build(file)
        subprocess.run([*program, "--version"], env=environment, check=True, capture_output=True)
    with (tmp_path / "log").open("w") as log:
        command = ["prlimit", "--fsize=0", *program, "run", "--config", "nothing"]
        completed = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False)
    assert (completed.returncode, (tmp_path / "log").read_text()) == (exits.BAD_JOB, "")


def test_clock_skew_refused_by_s3_loses_no_checkpoint(node, bucket, front):
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


JUMPS = (0, 3600, -3600, 30 * 86_400, -400 * 86_400, 3600 * 86_400)


@pytest.mark.parametrize("kills", [2, pytest.param(40, marks=pytest.mark.slow)])
def test_jumping_wall_clock_loses_no_checkpoint(node, bucket, seed, kills, capsys):
    """By hours and years, while the agent runs; a kill follows."""
    (node.folder / "train.py").write_text(TRAINER)
    rng, checkpoints, stored, jumps = random.Random(seed), Bucket(bucket), {}, 0
    offset = node.folder / "offset"
    offset.write_text("0")
    node.program = [sys.executable, str(Path(__file__).with_name("jumping_clock.py"))]
    node.environment |= {"JUMPING_CLOCK": str(offset), "PYTHONPATH": str(ROOT)}

    def jump():
        (node.folder / "next").write_text(str(rng.choice(JUMPS)))
        (node.folder / "next").replace(offset)

    for attempt in range(1, kills + 1):
        node.job(100_000, 0.05, SIZE, keep=2)
        agent = node.start(attempt)
        node.wait_for("command-started", attempt)
        assert node.restored(attempt) >= max(stored, default=0)
        for _ in range(rng.randrange(1, 4)):
            jump()
            jumps += 1
            new = len(node.events("checkpoint-uploaded"))
            node.wait_until(lambda new=new: len(node.events("checkpoint-uploaded")) > new)  # it goes on
        agent.kill()
        agent.wait()
        node.end_commands()
        before, stored = stored, checkpoints.whole()
        assert set(before) <= set(stored)
        if rng.random() < 0.5:
            node.lose()
    jump()
    node.job(max(stored) + 1, 0, SIZE)
    assert node.run(attempt=kills + 1) == 0
    assert node.restored(kills + 1) >= max(stored)
    assert "torn" not in "".join(node.output())
    years = {event["time"][:4] for event in node.events()}
    assert kills == 2 or len(years) > 1  # the agent did see it
    with capsys.disabled():
        print(f"\n{kills} kills under {jumps} jumps of the clock, seed {seed}")  # noqa: T201
