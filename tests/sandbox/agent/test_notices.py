"""Effects of a notice on unmodified trainers: which signal they receive, and that what they save is stored.

The trainers write as the field's do: in place, with no marker, and leave with whatever code.
"""

import signal
import sys

import pytest

from tests.sandbox.agent.in_place import TRAINER


def notice_job(node):
    """A notice after the first checkpoint; the agent's exit code."""
    agent = node.start()
    node.wait_until(lambda: list(node.folder.glob("node/*/*/checkpoints/checkpoint-5/trainer")))
    agent.send_signal(signal.SIGUSR1)
    return agent.wait(timeout=90)


def signals(node):
    return [event["signal"] for event in node.events("signalled")]


def saved_at(node):
    (line,) = [line for line in node.output() if line.startswith("SAVED AT")]
    return int(line.split()[2])


@pytest.mark.parametrize(
    "number, code",
    [
        ("SIGUSR1", "0"),
        ("SIGTERM", "1"),
        pytest.param("SIGUSR1", "1", marks=pytest.mark.slow),
        pytest.param("SIGTERM", "0", marks=pytest.mark.slow),
    ],
)
def test_checkpoint_saved_on_signal_counts_with_any_exit_code(trainer_node, bucket, number, code):
    trainer_node.job(number, code)
    assert notice_job(trainer_node) == 75
    assert signals(trainer_node) == [number]
    assert not trainer_node.events("checkpoint-dropped")
    assert trainer_node.steps("checkpoint-uploaded")[-1] == saved_at(trainer_node)
    assert {file.path for file in bucket.manifest(saved_at(trainer_node)).files} == {"model", "optimizer", "trainer"}


def test_trainer_saving_on_sigterm_has_whole_grace_time(trainer_node, bucket):
    trainer_node.job("SIGTERM", "late", grace_seconds=40.0)
    assert notice_job(trainer_node) == 75
    assert signals(trainer_node) == ["SIGTERM"]
    assert trainer_node.steps("checkpoint-uploaded")[-1] == saved_at(trainer_node)


def test_trainer_without_handler_runs_until_grace_time_ends(trainer_node, bucket):
    trainer_node.job("none", "0", grace_seconds=11.0)
    assert notice_job(trainer_node) == 75
    (event,) = trainer_node.events("signal-not-handled")
    assert "neither SIGUSR1 nor SIGTERM has a handler in train.py (process " in event["reason"]
    assert signals(trainer_node) == ["SIGTERM"]
    assert trainer_node.steps("checkpoint-uploaded") == [5]  # its ten quiet seconds passed meanwhile


def test_checkpoint_torn_by_kill_is_dropped(trainer_node, bucket):
    trainer_node.job("SIGTERM", "late", grace_seconds=1.0)
    assert notice_job(trainer_node) == 75
    assert signals(trainer_node) == ["SIGTERM", "SIGKILL"]
    assert trainer_node.steps("checkpoint-uploaded") == []
    assert [event["folder"] for event in trainer_node.events("checkpoint-dropped")] == ["checkpoint-5"]


@pytest.mark.parametrize("name,sent", [("SIGTERM", ["SIGTERM"]), ("none", ["SIGTERM"])])
def test_planned_signal_is_sent(trainer_node, bucket, name, sent):
    trainer_node.job("SIGUSR1" if name == "none" else "SIGTERM", "0", grace_seconds=2.0, signal=name)
    assert notice_job(trainer_node) == 75
    assert signals(trainer_node) == sent
    assert not trainer_node.events("signal-not-handled")
    assert bool([line for line in trainer_node.output() if line.startswith("SAVED")]) == (name == "SIGTERM")


def test_shell_and_helper_processes_are_not_signalled(trainer_node, bucket):
    """bash dies of SIGUSR1, and so do tee and sleep."""
    line = f"sleep 100 & {sys.executable} train.py SIGUSR1 0 > >(tee -a copy.txt); echo the shell goes on; kill %1"
    trainer_node.job(command=("bash", "-c", line))
    assert notice_job(trainer_node) == 75
    assert "the shell goes on" in trainer_node.output()
    assert trainer_node.steps("checkpoint-uploaded")[-1] == saved_at(trainer_node)
    assert (trainer_node.folder / "copy.txt").read_text().splitlines()[-1].startswith("SAVED AT")


WRAPPER = "import subprocess, sys\nsys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n"


@pytest.mark.parametrize(
    "line",
    [
        "bash -c 'while true; do date; sleep 5; done' >monitor.log & PYTHON train.py SIGUSR1 0; kill %1",
        "PYTHON -m http.server 0 & PYTHON launch.py train.py SIGTERM 0; kill %1",
        "trap 'echo left' EXIT; PYTHON launch.py launch.py train.py SIGUSR1 0",
    ],
    ids=["monitor", "server and wrapper", "two wrappers"],
)
@pytest.mark.parametrize("name", ["auto", "as caught"])
def test_notice_with_deaf_processes_around_trainer_saves(trainer_node, bucket, line, name):
    (trainer_node.folder / "launch.py").write_text(WRAPPER)
    caught = "SIGTERM" if "SIGTERM" in line else "SIGUSR1"
    trainer_node.job(
        command=("bash", "-c", line.replace("PYTHON", sys.executable)), signal="auto" if name == "auto" else caught
    )
    assert notice_job(trainer_node) == 75
    assert signals(trainer_node) == [caught]
    assert trainer_node.steps("checkpoint-uploaded")[-1] == saved_at(trainer_node)


LATE = f"""
import signal, time
time.sleep(6)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
{TRAINER.replace("import os, signal, sys, time", "import os, sys")}
"""


def test_handler_installed_late_is_found(node, bucket):
    (node.folder / "train.py").write_text(LATE)
    node.job("SIGTERM", "0")
    agent = node.start()
    node.wait_for("command-started")
    agent.send_signal(signal.SIGUSR1)
    assert agent.wait(timeout=90) == 75
    assert node.events("signal-not-handled")
    assert node.steps("checkpoint-uploaded")[-1] == saved_at(node)


@pytest.mark.parametrize("order", [(signal.SIGUSR1, signal.SIGTERM), (signal.SIGTERM, signal.SIGUSR1)])
def test_requeue_during_notice_is_not_cancel(trainer_node, bucket, order):
    """Slurm ends a job that is requeued with SIGTERM, as one that is cancelled."""
    trainer_node.job("none", "0", grace_seconds=2.0, signal="none")
    agent = trainer_node.start()
    trainer_node.wait_for("command-started")
    agent.send_signal(order[0])
    trainer_node.wait_for("notice")
    agent.send_signal(order[1])
    assert agent.wait(timeout=90) == 75
    (ended,) = trainer_node.events("interrupted")
    assert ended["ended_by"] == "time-limit"
