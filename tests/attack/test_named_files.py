"""A branch that nobody has read is priced: files that it names never end, never begin, or lead elsewhere.

Each program runs with 3 GiB of memory and 120 s. It must end with a code of the contract, without an internal error.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMORY, SECONDS = 3 << 30, 120
TRAIN = """slipway: 1
name: a
workload: {train: {model: llama-3.1-8b, tokens_b: 1}}
target: {kind: parallelcluster, instance_type: p5.48xlarge, nodes: 1, region: us-east-1}
run: {command: bash run.sh}
"""
CONFIG = TRAIN.replace("llama-3.1-8b", "{config: config.json}")
SERVE = "slipway: 1\nname: a\nworkload: {serve: {model: llama-3.1-8b, requests_per_s: 1}}\n"
RUN = ".slipway/runs/a/20261120T120000Z"
ATTACKS = {
    "trainer": (TRAIN, "run.sh", ("quote", "plan.yaml")),
    "imports": (TRAIN.replace("bash run.sh", "python train.py"), "train.py", ("plan", "plan.yaml")),
    "model": (CONFIG, "config.json", ("plan", "plan.yaml")),
    "submodules": (TRAIN, ".gitmodules", ("plan", "plan.yaml")),
    "measurements": (TRAIN, ".slipway/runs/measurements.jsonl", ("plan", "plan.yaml")),
    "load test": (SERVE, f"{RUN}/load.json", ("plan", "plan.yaml")),
    "defaults": (TRAIN + "extends: base.yaml\n", "base.yaml", ("plan", "plan.yaml")),
    "plan": (None, "plan.yaml", ("portfolio", "plan.yaml")),
    "policy": (TRAIN, "policy.yaml", ("diff", "plan.yaml", "plan.yaml", "--policy", "policy.yaml")),
    "prices": (TRAIN, "cache/slipway/prices/prices/on_demand.csv", ("quote", "plan.yaml")),
    "import of prices": (TRAIN, "prices.zip", ("prices", "refresh", "--from", "prices.zip")),
    "quote of a run": (TRAIN, f"{RUN}/quote.json", ("status", "a")),
    "report of a run": (TRAIN, f"{RUN}/report.json", ("ledger",)),
}
KINDS = {"device": "/dev/zero", "terminal": "/dev/tty", "kernel": "/proc/kmsg"}
SECRET = "root:$6$hunter2-hunter2-hunter2:20228:0:99999:7:::"
SHOWN = 20
"""The most characters of a file that a message shows."""


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def run(folder, words):
    """The end of a command in a folder: its code, and what it printed."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(folder / "cache"),
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    done = subprocess.run(
        [sys.executable, "-m", "launcher", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        timeout=SECONDS,
        preexec_fn=limit,
    )
    return done.returncode, done.stdout + done.stderr


def make(folder, name, kind):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "hole":
        with path.open("wb") as stream:
            stream.truncate(8 << 30)
    else:
        path.symlink_to(KINDS[kind] if kind in KINDS else folder.parent / "secret")


@pytest.mark.parametrize("kind", ["device", "pipe"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_branch_file_as_device_or_pipe_ends_without_internal_error_or_secret(tmp_path, attack, kind):
    held_out(tmp_path, attack, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["terminal", "kernel", "elsewhere", "hole", "loop"])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_branch_file_as_terminal_loop_or_outside_file_ends_without_internal_error_or_secret(tmp_path, attack, kind):
    held_out(tmp_path, attack, kind)


def held_out(place, attack, kind):
    plan, name, words = attack
    folder = place / "branch"
    folder.mkdir()
    (place / "secret").write_text(f"{SECRET}\n{SECRET}\n")
    if plan is not None:
        (folder / "plan.yaml").write_text(plan)
    (folder / "run.sh").write_text("python train.py\n")
    (folder / "train.py").write_text("import torch\n")
    make(folder, name, kind)
    code, text = run(folder, words)
    assert code in {0, 2, 4, 5}, text[-2000:]
    assert "internal error" not in text
    assert "Traceback" not in text
    assert SECRET[: SHOWN + 1] not in text
