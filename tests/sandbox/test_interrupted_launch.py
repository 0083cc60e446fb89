"""A launch that ends at any moment, by Ctrl-C or SIGKILL: no process remains, no file is half-written.

What belongs to a launch is found by its sandbox's mark, which every process of it carries, and by its folders.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from launcher.catalog import tables
from launcher.model.emulator import MARK
from launcher.sandbox import processes
from tests.plans import EXAMPLES
from tests.sandbox.clients import PROGRAM
from tests.warm_app import WITHOUT_VALIDATION

PATIENCE_S = 300
STEPS = 9000
pytestmark = pytest.mark.xdist_group("interrupted")


def plan(steps):
    return f"""
slipway: 1
name: tiny
workload: {{train: {{model: {{params_b: 0.0002}}, method: pretrain, hours: 0.5}}}}
target: {{kind: parallelcluster, region: us-east-2, instance_type: p5.48xlarge, nodes: 1}}
purchase: {{option: spot}}
checkpoint: {{interval: 30, keep: 3, grace_seconds: 20}}
run: {{command: {json.dumps([sys.executable, "train.py", "--steps", str(steps), "--every", "30"])},
       workdir: {json.dumps(str(EXAMPLES / "tiny_gpt"))}}}
"""


@dataclass(frozen=True)
class Launch:
    """A running `slipway launch --sandbox`, with a temporary folder of its own."""

    process: subprocess.Popen
    log: Path
    temporary: Path

    def wait_for(self, text):
        self.until(lambda: text in self.log.read_text())

    def until(self, condition):
        """Wait for something, which must come before the launch ends."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def mark(self):
        """The mark of its sandbox, once there is one."""
        self.until(self._words)
        arguments = self._words()
        return arguments[arguments.index("--mark") + 1]

    def _words(self):
        """The command line of its sandbox's server; empty before there is one."""
        for pid in processes.with_descendants({self.process.pid}):
            command_line = Path(f"/proc/{pid}/cmdline")
            arguments = command_line.read_text().split("\0") if command_line.exists() else []
            if "launcher.sandbox.server" in arguments and "--mark" in arguments:
                return arguments
        return []


@pytest.fixture
def start_launch(tmp_path):
    """Starts `slipway launch --sandbox` in a folder."""
    started = []
    fallen = ("p5.48xlarge", "us-east-2", "", "14.2", f"{datetime.now(UTC):%Y-%m-%d}", "listed", "spot-page", "")
    cache = tmp_path / "cache" / "slipway" / "prices" / tables.SPOT.path
    cache.parent.mkdir(parents=True)
    cache.write_text(tables.encode(tables.SPOT, [fallen]))

    def go(name, steps=STEPS, where=None, program=PROGRAM):
        folder = where or tmp_path / name
        folder.mkdir(exist_ok=True)
        temporary = tmp_path / f"tmp-{name}"
        temporary.mkdir()
        (folder / f"{name}.yaml").write_text(plan(steps))
        log = tmp_path / f"{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [*program, "launch", f"{name}.yaml", "--sandbox", "--yes", "-v"],
                cwd=folder,
                env={
                    **os.environ,
                    **WITHOUT_VALIDATION,
                    "TMPDIR": str(temporary),
                    "XDG_CACHE_HOME": str(tmp_path / "cache"),
                },
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )
        started.append(process)
        return Launch(process=process, log=log, temporary=temporary)

    yield go
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def wait_until_clean(mark, temporary):
    """Wait until no process carries a mark and the temporary folder is as it was."""
    deadline = time.monotonic() + PATIENCE_S
    while remaining := [
        *processes.marked_processes(MARK, mark),
        *temporary.glob("slw-*"),
        *Path("/tmp").glob(f"slw-{mark[:8]}"),  # noqa: S108 - the short link of a sandbox in a deep folder
    ]:
        assert time.monotonic() < deadline, remaining
        time.sleep(0.05)


def run_folder(root):
    return root / ".slipway" / "runs" / "tiny" / "latest"


def slipway(root, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "launcher", *arguments],
        cwd=root,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )


def assert_whole(folder):
    """Every file that the launcher has written there is whole."""
    entries = [path for path in folder.rglob("*") if "cdk.out" not in path.parts and "job" not in path.parts]
    for entry in entries:
        if entry.suffix == ".json":
            json.loads(entry.read_text())
    for line in (folder / "events.jsonl").read_text().splitlines() if (folder / "events.jsonl").exists() else []:
        json.loads(line)
    assert not [entry for entry in entries if entry.is_file() and entry.name.startswith(".")]


MOMENTS = [
    pytest.param("starting an emulated AWS", marks=pytest.mark.slow),
    "synthesising",
    pytest.param("preparing the account", marks=pytest.mark.slow),
    pytest.param("AWS::EC2::VPC", marks=pytest.mark.slow),
    pytest.param("Custom::PclusterCluster", marks=pytest.mark.slow),
    pytest.param("submitted: job", marks=pytest.mark.slow),
    # A sandbox that ends with a job on its nodes: TestEnd of test_sandbox.py.
    pytest.param("attempt 1 started", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_ctrl_c_ends_launch_without_remains(moment, start_launch, tmp_path, warm_program):
    # When an attempt starts, the app and the CLI of a launch have ended.
    running = start_launch("ended", program=warm_program if moment == "attempt 1 started" else PROGRAM)
    running.wait_for(moment)
    mark = running.mark()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(PATIENCE_S) == 130, running.log.read_text()
    wait_until_clean(mark, running.temporary)
    text = running.log.read_text()
    assert "Traceback" not in text
    # What the price was before is told before anything is deployed.
    before, _, _ = text.partition("starting an emulated AWS")
    assert "the price fell by 30% from 20.3632 (2026-08-06) to 14.2" in " ".join(before.split())
    folder = run_folder(tmp_path / "ended")
    assert json.loads((folder / "report.json").read_text())["status"] == "interrupted"
    assert_whole(folder)


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("synthesising", marks=pytest.mark.slow),
        "preparing the account",
        pytest.param("attempt 1 started", marks=pytest.mark.slow),
    ],
)
def test_killed_launch_leaves_no_processes_and_whole_files(moment, start_launch, tmp_path, warm_app_program):
    running = start_launch("killed", program=PROGRAM if moment == "synthesising" else warm_app_program)
    running.wait_for(moment)
    mark = running.mark()
    running.process.kill()
    running.process.wait(PATIENCE_S)
    wait_until_clean(mark, running.temporary)
    root = tmp_path / "killed"
    assert_whole(run_folder(root))
    (run,) = json.loads(slipway(root, "runs", "--json").stdout)["runs"]
    assert run["status"] == "killed"
    report = slipway(root, "report", "tiny")
    assert report.returncode == 0
    assert "was killed" in report.stderr
    assert "its sandbox ended with it" in slipway(root, "status", "tiny").stdout


@pytest.mark.slow
def test_two_launches_in_one_folder_succeed_without_sharing(start_launch, tmp_path):
    both = tmp_path / "both"
    one = start_launch("one", steps=60, where=both)
    other = start_launch("other", steps=60, where=both)
    marks = {one.mark(), other.mark()}
    codes = [launch.process.wait(PATIENCE_S) for launch in (one, other)]
    assert codes == [0, 0], one.log.read_text() + other.log.read_text()
    assert len(marks) == 2
    runs = [path for path in (both / ".slipway" / "runs" / "tiny").iterdir() if not path.is_symlink()]
    assert [json.loads((run / "report.json").read_text())["status"] for run in runs] == ["succeeded"] * 2
    stores = {
        line.split('"')[3]
        for run in runs
        for line in (run / "outputs.json").read_text().splitlines()
        if '"BucketName"' in line
    }
    assert len(stores) == 2
    for mark in marks:
        wait_until_clean(mark, one.temporary)
        wait_until_clean(mark, other.temporary)
