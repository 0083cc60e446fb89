"""A container's process tree: who gets the signal, and that the trainer is asked to save.

`unshare` makes the PID namespace that a container has. In a pod and in a training job the first process of the
container gets SIGTERM (kubelet, `docker stop`): the agent, or the entry script. With `run.container: docker` the agent
stays on the node, and the container's processes are not below the command.
"""

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

from tests.plans import ROOT
from tests.sandbox.agent.in_place import TRAINER  # noqa: F401  of `trainer_node`

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")
ENTRY = """
import importlib.util, os, sys
from pathlib import Path
spec = importlib.util.spec_from_file_location("entry", sys.argv[1])
entry = importlib.util.module_from_spec(spec)
spec.loader.exec_module(entry)
sys.exit(entry.Starter(os.environ).run(Path(sys.argv[2]), Path.cwd()))
"""
"""What the entry script of a training job does with the job's program."""
WRAPPER = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
BESIDE = {
    "monitor and server": "{both} {python} {script}; code=$?; kill %1 %2; exit $code",
    "both and a wrapper": "{both} {python} -c {wrapper} {script}; code=$?; kill %1 %2; exit $code",
}
"""What people start beside the trainer in one shell, and programs like `wandb agent` that start it."""
AGENT = "import runpy, sys\nsys.argv = {}\nrunpy.run_module('launcher.agent', run_name='__main__')\n"


@pytest.fixture
def container_node(trainer_node):
    if os.getuid():
        pytest.skip("creating namespaces takes root")
    return trainer_node


def first_process(agent):
    """The process that is number 1 in the container."""
    (child,) = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    return int(child)


def stopped(node, number=signal.SIGTERM, *, inside=True):
    """The exit code after a signal to the first process of the container, or to the agent on the node."""
    agent = node.start()
    node.wait_until(lambda: list(node.folder.glob("node/*/*/checkpoints/checkpoint-5/trainer")))
    os.kill(first_process(agent) if inside else agent.pid, number)
    return agent.wait(timeout=90)


def shell_line(node, beside):
    """The shell line that starts a trainer with something beside or above it."""
    python = shlex.quote(sys.executable)
    return BESIDE[beside].format(
        both=f"(while :; do sleep 0.2; done) & {python} -m http.server 0 --bind 127.0.0.1 >/dev/null 2>&1 &",
        python=python,
        script=shlex.join([str(node.folder / "train.py"), "SIGTERM", "1"]),
        wrapper=shlex.quote(WRAPPER),
    )


def check_saved(node):
    (line,) = [line for line in node.output() if line.startswith("SAVED AT")]
    assert node.steps("checkpoint-uploaded")[-1] == int(line.split()[2])


@pytest.mark.parametrize("caught", ["SIGUSR1", "SIGTERM"])
def test_pid_namespace_agent_as_first_process_asks_the_trainer_at_sigterm(container_node, caught):
    container_node.program = [*NAMESPACE, sys.executable, "-m", "launcher.agent"]
    container_node.job(caught, "1")
    assert stopped(container_node) == 143
    assert [event["signal"] for event in container_node.events("signalled")] == [caught]
    check_saved(container_node)


@pytest.mark.parametrize("beside", BESIDE)
def test_pid_namespace_trainer_beside_and_below_deaf_programs_is_asked(container_node, beside):
    node = container_node
    node.program = [*NAMESPACE, sys.executable, "-m", "launcher.agent"]
    node.job(command=("bash", "-c", shell_line(node, beside)))
    assert stopped(node) == 143
    assert [event["signal"] for event in node.events("signalled")][:1] == ["SIGTERM"]
    check_saved(node)


def test_pid_namespace_entry_script_of_a_training_job_passes_sigterm_to_the_agent(container_node):
    node = container_node
    (node.folder / "entry.py").write_text(ENTRY)
    arguments = ["agent", "run", "--config", str(node.folder / "job.json")]
    (node.folder / "agent.py").write_text(f"import sys\nsys.path[:0] = [{str(ROOT)!r}]\n{AGENT.format(arguments)}")
    words = (node.folder / "entry.py", ROOT / "templates" / "sagemaker" / "entry.py", node.folder / "agent.py")
    node.program = [*NAMESPACE, sys.executable, *map(str, words)]
    node.job("SIGTERM", "1")
    assert stopped(node) == 143
    check_saved(node)


@pytest.mark.parametrize("beside", ["", *BESIDE])
def test_pid_namespace_beside_the_command_is_asked_by_the_agent_on_the_node(container_node, beside):
    """Docker's daemon starts the container; the command is a client that waits for it."""
    node = container_node
    alone = [sys.executable, str(node.folder / "train.py"), "SIGTERM", "1"]
    trainer = shlex.join([*NAMESPACE, *(["bash", "-c", shell_line(node, beside)] if beside else alone)])
    done = shlex.quote(str(node.folder / "done"))
    client = f"setsid --fork bash -c {shlex.quote(f'{trainer}; touch {done}')}; until [ -e {done} ]; do sleep 0.1; done"
    node.job(command=("bash", "-c", client))
    assert stopped(node, signal.SIGUSR1, inside=False) == 75
    check_saved(node)
