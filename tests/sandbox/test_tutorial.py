"""README, tutorial and guides, typed as they are written, in the sandbox."""

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from launcher.sandbox import running_sandbox
from tests.guides import blocks, lines, marked
from tests.plans import EXAMPLES, ROOT, laid_over
from tests.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("tutorial")]
REMOVE = "## Remove everything"
PATIENCE_S = 1800
CAPTURED = {"capture_output": True, "text": True, "timeout": PATIENCE_S}
STEPS = "100000"
"""More than the test waits for: the job runs until it is cancelled."""


class Terminal:
    """An empty folder, a sandbox of its own, and programs that a node of AWS has."""

    def __init__(self, folder, programs):
        self.folder, self.programs = folder, programs
        self.folder.mkdir()
        self.programs.mkdir()
        self.started = []

    def link_examples(self):
        """Put the examples into the folder."""
        (self.folder / "examples").symlink_to(ROOT / "examples")

    def program(self, name, line):
        """Add a program to PATH."""
        (self.programs / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (self.programs / name).chmod(0o755)

    def run(self, line, *, stdin=""):
        """Run a command to its successful end; its output."""
        done = subprocess.run(shlex.split(line), cwd=self.folder, input=stdin, check=False, **CAPTURED)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def start(self, line):
        """Start a command, with its output in a file."""
        log = self.folder / f"{line.split()[1]}.log"
        with log.open("w") as file:
            process = subprocess.Popen(shlex.split(line), cwd=self.folder, stdout=file, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process, log

    def stop(self):
        """End what a failed test has left running."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait(PATIENCE_S)

    def start_and_interrupt(self, line, sign):
        """Start a command that stays, and press Ctrl-C when its output contains `sign`."""
        process, log = self.start(line)
        until(lambda: sign in log.read_text(encoding="utf-8"), lambda: log.read_text(encoding="utf-8"))
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE_S)
        return log.read_text(encoding="utf-8")


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    places = [str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(places))
    console = Terminal(tmp_path / "work", tmp_path / "bin")
    yield console
    console.stop()
    running_sandbox.stop(os.environ)


def test_tutorial_and_guides_run_as_written(terminal):
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    tutorial = [block for block in blocks("docs/tutorial.md") if not block.mark]
    first = [block for block in tutorial if block.place < text.index(REMOVE)]
    guides = marked("sandbox")
    assert first
    assert guides
    terminal.link_examples()
    output = "".join(terminal.run(line) for block in first for line in lines(block))
    assert "attempt 2 resumes from step" in output
    for block in guides:
        for line in lines(block):
            terminal.run(line)
    output = "".join(terminal.run(line) for block in tutorial[len(first) :] for line in lines(block))
    assert "the sandbox has stopped" in output


def test_readme_commands_launch_interrupt_and_resume(terminal):
    commands = [line for block in marked("own sandbox") for line in lines(block)]
    assert commands
    terminal.link_examples()
    for line in commands:
        assert "attempt 2 resumes from step" in terminal.run(line)


@pytest.mark.slurm
def test_running_job_guide_runs_as_written(terminal):
    terminal.program("nvidia-smi", "echo GPU 0: NVIDIA H100")
    shutil.copytree(EXAMPLES / "tiny_gpt", terminal.folder / "tiny_gpt")
    plan = yaml.safe_load((EXAMPLES / "tiny-gpt.yaml").read_text(encoding="utf-8"))
    plan["run"]["command"] += ["--steps", STEPS]
    (terminal.folder / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    commands = [line for block in marked("running job") for line in lines(block)]
    by_command = {line.split()[1]: line for line in commands}
    assert list(by_command) == ["attach", "ssh", "exec", "top", "tunnel", "cancel"]
    terminal.run("slipway sandbox start")
    launch, log = terminal.start("slipway launch plan.yaml --sandbox --yes")
    until(lambda: " of 100,000 " in log.read_text(encoding="utf-8"), lambda: log.read_text(encoding="utf-8"))
    launch.send_signal(signal.SIGINT)
    launch.wait(PATIENCE_S)

    assert "the job of tiny-gpt continues" in terminal.start_and_interrupt(by_command["attach"], "step ")
    assert re.search(r"^job=\d+$", terminal.run(by_command["ssh"], stdin="echo job=$SLURM_JOB_ID\n"), re.MULTILINE)
    assert "NVIDIA H100" in terminal.run(by_command["exec"])
    assert "tiny-gpt: running" in terminal.run(by_command["top"])
    with socket.create_server(("127.0.0.1", int(by_command["tunnel"].split()[-1]))):
        assert "leads to port 6006" in terminal.start_and_interrupt(by_command["tunnel"], "Ctrl-C")
    terminal.run(f"{by_command['cancel']} --yes")
    assert "cancelled" in terminal.run("slipway status tiny-gpt")
    terminal.run("slipway sandbox stop --yes")


@pytest.mark.trainers
def test_framework_guide_runs_with_hugging_face_trainer(terminal):
    scripts = Path(__file__).parent / "trainers"
    shutil.copy(scripts / "hf_trainer.py", terminal.folder / "train.py")
    shutil.copy(scripts / "pace.py", terminal.folder)
    page = (ROOT / "docs/howto/your-framework.md").read_text(encoding="utf-8")
    base = {
        "slipway": 1,
        "name": "own",
        "workload": {"train": {"model": {"params_b": 0.0002}, "method": "pretrain", "hours": 0.5}},
        "target": {"kind": "parallelcluster", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 1},
        "purchase": {"option": "spot"},
        "checkpoint": {"interval": 30},
        "run": {"env": {"PACE_HOLD": "55"}},
    }
    plan = laid_over(base, yaml.safe_load(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1]))
    plan["run"]["command"] += " --max_steps 60 --save_steps 10 --use_cpu --report_to none"
    (terminal.folder / "plan.yaml").write_text(yaml.safe_dump(plan), encoding="utf-8")
    python = ROOT / ".venv-trainers/bin/python"
    terminal.program("torchrun", f'exec {python} -m torch.distributed.run --nproc-per-node 1 pace.py "$@"')
    commands = [line for block in marked("own trainer") for line in lines(block)]
    assert commands
    for line in commands:
        assert "attempt 2 resumes from step 50" in terminal.run(f"{line} --yes")
