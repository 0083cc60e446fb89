"""A container's processes beside the command: a trainer that writes in place is asked to save.

`unshare` makes the PID namespace that a container has. With `run.container: docker` the agent stays on the node, and
the container's processes are not below the command. `test_containers` does the same with Docker, where it is.
"""

import os
import shlex
import signal
import sys

import pytest

from tests.sandbox.agent.in_place import TRAINER  # noqa: F401  of `trainer_node`

NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc")
WRAPPER = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))"
COMPANIONS = {
    "monitor and server": "{both} {python} {script}; code=$?; kill %1 %2; exit $code",
    "both and a wrapper": "{both} {python} -c {wrapper} {script}; code=$?; kill %1 %2; exit $code",
}
"""What people start beside the trainer in one shell, and programs like `wandb agent` that start it."""


@pytest.fixture
def container_node(trainer_node):
    if os.getuid():
        pytest.skip("creating namespaces takes root")
    return trainer_node


def shell_line(node, companion):
    """The shell line that starts a trainer with something beside or above it."""
    python = shlex.quote(sys.executable)
    return COMPANIONS[companion].format(
        both=f"(while :; do sleep 0.2; done) & {python} -m http.server 0 --bind 127.0.0.1 >/dev/null 2>&1 &",
        python=python,
        script=shlex.join([str(node.folder / "train.py"), "SIGTERM", "1"]),
        wrapper=shlex.quote(WRAPPER),
    )


def check_saved(node):
    (line,) = [line for line in node.output() if line.startswith("SAVED AT")]
    assert node.steps("checkpoint-uploaded")[-1] == int(line.split()[2])


@pytest.mark.parametrize("companion", ["", *COMPANIONS])
def test_pid_namespace_beside_the_command_is_asked_by_the_agent_on_the_node(container_node, companion):
    """Docker's daemon starts the container; the command is a client that waits for it."""
    node = container_node
    alone = [sys.executable, str(node.folder / "train.py"), "SIGTERM", "1"]
    trainer = shlex.join([*NAMESPACE, *(["bash", "-c", shell_line(node, companion)] if companion else alone)])
    done = shlex.quote(str(node.folder / "done"))
    client = f"setsid --fork bash -c {shlex.quote(f'{trainer}; touch {done}')}; until [ -e {done} ]; do sleep 0.1; done"
    node.job(command=("bash", "-c", client))
    agent = node.start()
    node.wait_until(lambda: list(node.folder.glob("node/*/*/checkpoints/checkpoint-5/trainer")))
    os.kill(agent.pid, signal.SIGUSR1)
    assert agent.wait(timeout=90) == 75
    check_saved(node)
