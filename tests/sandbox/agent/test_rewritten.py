"""A trainer that writes the same names again before an upload of them is over loses an upload's time, not all of it."""

import sys
import time

import pytest

TRAINER = """
import os, shutil, sys, time, zipfile
from pathlib import Path
writing, pause = sys.argv[1], float(sys.argv[2])
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
here = {"folder": folder / "latest", "step": folder / "step-1"}.get(writing, folder / "ckpt.pt")
saved = here / "data" if writing in ("folder", "step") else here

def content():
    if writing != "in-place":
        return saved.read_text()
    with zipfile.ZipFile(saved) as archive:
        return archive.read("data").decode()

version = 0
if saved.exists():
    text = content()
    version = int(text.split()[0])
    assert text == f"{version} " * 100_000, "torn"
print("begins at", version, flush=True)
while True:
    version += 1
    text = f"{version} " * 100_000
    if writing == "in-place":
        with zipfile.ZipFile(here, "w") as archive:
            archive.writestr("data", text)
    elif writing == "renamed":
        Path("part").write_text(text)
        Path("part").replace(here)
    else:
        (folder / "part").mkdir()
        (folder / "part" / "data").write_text(text)
        shutil.rmtree(here, ignore_errors=True)
        (folder / "part").rename(here)
    print("saved", version, flush=True)
    time.sleep(pause)
"""
PATTERNS = {"renamed": r"ckpt\.pt", "in-place": r"ckpt\.pt", "folder": "latest", "step": None}
UPLOAD_S, SLACK_S = 3.0, 5.0


def slow_uploads(front):
    """Every upload of a checkpoint's file takes seconds, and meets a trainer that has saved again."""

    def rule(method, path):
        data = method in {"PUT", "POST"} and "/step-" in path and not path.endswith(".json")
        time.sleep(UPLOAD_S if data else 0)

    front.rule = rule


@pytest.mark.parametrize(
    "writing, pause",
    [
        ("renamed", 0.5),
        pytest.param("renamed", 1.5, marks=pytest.mark.slow),
        ("in-place", 2.0),
        ("folder", 1.0),
        ("step", 1.0),
    ],
)
def test_constantly_rewritten_checkpoint_loses_interval_and_upload_time(node, bucket, front, writing, pause):
    (node.folder / "train.py").write_text(TRAINER)
    slow_uploads(front)
    node.job(command=(sys.executable, "train.py", writing, str(pause)), pattern=PATTERNS[writing])
    agent = node.start()
    node.wait_until(lambda: len(node.steps("checkpoint-uploaded")) >= 3)
    agent.kill()
    agent.wait()
    node.end_commands()
    saved = int([line for line in node.output() if line.startswith("saved")][-1].split()[1])
    node.lose()
    front.rule = lambda *_: None
    agent = node.start(attempt=2)
    node.wait_until(lambda: sum(line.startswith("begins at") for line in node.output()) == 2)
    agent.kill()
    agent.wait()
    begun = int([line for line in node.output() if line.startswith("begins at")][-1].split()[2])
    assert 0 < saved - begun <= (pause + UPLOAD_S + SLACK_S) / pause
    assert "torn" not in "".join(node.output())
