"""Jobs and clusters that end under a command: endless lines, killed restores, removed folders, objects of a node's own.

A log line of any length is read once and in bounded memory. A killed restore leaves nothing that the next one does not
remove. A command in a removed folder is refused in one sentence. `down` names the jobs of a cluster whatever its nodes
have written among their heartbeats.
"""

import json
import random
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
import typer
from moto import mock_aws

from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.cli.app import app
from launcher.workflow.deploy.running_jobs import running_jobs
from launcher.workflow.run import growing_lines
from launcher.workflow.run.growing_lines import GrowingLines
from tests.attack.commands import run
from tests.attack.odd import VALUES, changed
from tests.emulators.moto_server import KEYS
from tests.memory import held_by
from tests.plans import ROOT
from tests.sandbox.agent.checkpoints import BUCKET, PREFIX

MIB = 1 << 20
RESTORE = """
import os, sys
from pathlib import Path
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.workflow.run.checkpoints import survey
from launcher.workflow.run.checkpoints_transfer import restore
store = Objects.at(Session(environment=dict(os.environ), region="us-east-1"), sys.argv[1])
(newest, *_) = survey(store)
print("begin", flush=True)
restore(store, newest, Path(sys.argv[2]), lambda _: None)
print("restored", flush=True)
"""


@pytest.mark.parametrize("size", [12 * MIB, pytest.param(400 * MIB, marks=pytest.mark.slow)])
@pytest.mark.parametrize("bar", [False, True], ids=["line", "bar"])
def test_disturbed_log_line_without_end_is_read_once_in_bounded_memory(tmp_path, seed, size, bar):
    rng, path, written, passed, peak = random.Random(seed), tmp_path / "log", 0, 0, 0
    lines = GrowingLines(path)
    tracemalloc.start()
    with path.open("wb") as stream:
        while written < size:
            block = b"\r" + b"x" * rng.randint(1, 60_000) if bar else b"x" * rng.randint(1, 3 * MIB)
            written += stream.write(block)
            stream.flush()
            before = bytes_read()
            passed += sum(len(text) for text, _ in lines.pieces())
            assert bytes_read() - before < len(block) + 4096
            if rng.random() < 0.1 or written >= size:
                peak = max(peak, held_by(growing_lines))
    passed += len(lines.rest())
    tracemalloc.stop()
    assert peak < 8 * MIB
    assert (passed < 60_000) if bar else (passed == written)


def bytes_read():
    """What this thread has read in all, by proc_pid_io(5)."""
    text = Path(f"/proc/self/task/{threading.get_native_id()}/io").read_text()
    return int(text.split()[1])


@pytest.mark.parametrize("kills", [4, pytest.param(60, marks=pytest.mark.slow)])
def test_disturbed_restore_is_complete_and_clean_after_the_next_restore(node, front, seed, tmp_path, kills):
    node.job(2, 0.1, 3 * MIB)
    assert node.run() == 0
    rng, target = random.Random(seed), tmp_path / "target"
    front.rule = lambda method, _: time.sleep(0.02) if method == "GET" else None
    words = [sys.executable, "-c", RESTORE, f"s3://{BUCKET}/{PREFIX}", str(target)]
    environment = {**node.environment, **KEYS, "PYTHONPATH": str(ROOT)}
    started = {"env": environment, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    for _ in range(kills):
        with subprocess.Popen(words, **started) as process:
            assert process.stdout.readline() == "begin\n"
            time.sleep(rng.uniform(0.0, 0.15))
            process.send_signal(signal.SIGKILL)
        (target / "step-2").exists() and subprocess.run(["rm", "-r", target / "step-2"], check=True)
    subprocess.run(words, check=True, **started)
    assert sorted(path.name for path in target.iterdir()) == ["step-2"]
    assert sorted(path.name for path in target.rglob("*")) == ["base", "data", "deep", "step-2"]


COMMANDS = typer.main.get_group(app).commands
SERVERS = {"mcp"}
"""Commands that wait for requests on their input."""


@pytest.mark.parametrize("count", [10, pytest.param(len(COMMANDS), marks=pytest.mark.slow)])
def test_command_in_a_removed_folder_gives_no_internal_error(tmp_path, monkeypatch, seed, count):
    names = sorted(COMMANDS.keys() - SERVERS)
    for name in random.Random(seed).sample(names, min(count, len(names))):
        place = tmp_path / name
        place.mkdir()
        monkeypatch.chdir(place)
        place.rmdir()
        words, command = [name], COMMANDS[name]
        while isinstance(command, click.Group):
            words.append(min(command.commands))
            command = command.commands[words[-1]]
        needed = [item for item in command.params if isinstance(item, click.Argument) and item.required]
        code, out, err = run(*words, *["plan.yaml"] * len(needed))
        assert "internal error" not in out + err, words
        assert "Traceback" not in out + err, words
        assert code in {0, 1, 2, 3, 4, 5, 6}, words
        assert code == 0 or len((out + err).splitlines()) < 25, words


def test_disturbed_heartbeats_hide_no_running_job(seed):
    rng = random.Random(seed)
    beat = {"schema": "slipway.heartbeat/1", "run": "r", "job": "gpt", "attempt": 2, "part": 0, "over": False}
    odd = [changed(rng, beat, 3) for _ in range(30)] + [{**beat, "job": value} for value in VALUES[:20]]
    bodies = [json.dumps(document).encode("utf-8", "surrogatepass") for document in odd]
    bodies += [b"x" * (5 * MIB), b"[" * 5000, json.dumps({**beat, "job": "y" * 9000}).encode()]
    with mock_aws():
        session = Session(environment=KEYS, region="us-east-1")
        client = session.client("s3")
        client.create_bucket(Bucket="store")
        for number, body in enumerate([*bodies, json.dumps(beat).encode()]):
            client.put_object(Bucket="store", Key=f"jobs/.guard/8131/messages/running/{number:03}.json", Body=body)
        stack = StackState(
            id="id",
            name="slipway-a-training",
            status="CREATE_COMPLETE",
            protected=False,
            outputs={"GuardMessageUri": "s3://store/jobs/.guard/8131/messages"},
            tags={},
        )
        found = running_jobs(session, stack, datetime.now(UTC))
    assert any(name == "gpt" and "attempt 2" in text for name, text in found)
    assert all(len(name) <= 100 for name, _ in found)
