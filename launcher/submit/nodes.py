"""Access to the nodes of a job: a shell, a command, a port. Slipway opens a port on this computer only."""

import contextlib
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.model.errors import ImpossibleError
from launcher.model.job import JobFacts, JobState
from launcher.model.slurm_step import STEP_DEVICES
from launcher.model.visible_text import output_line
from launcher.submit.callers import WITHOUT_CALLERS_JOB
from launcher.submit.jobs import SchedulerError
from launcher.submit.shell import Shell

EXEC_S = 3600.0
"""Timeout of a command whose output comes as one answer (Systems Manager)."""
_PIECE = 65536
Dialled = tuple[socket.socket, Callable[[], str]]
"""A connection to a node's port, and a function that returns the remote error when it is over (empty if none)."""
IMMEDIATE_S = 60
"""How long a shell on a node without a job waits until Slurm gives it the node."""


def running_on(facts: JobFacts | None, job: str) -> tuple[str, ...]:
    """The nodes on which a job runs.

    Raises:
        ImpossibleError: the job does not run.
    """
    if facts is None or facts.state is not JobState.RUNNING or not facts.nodes:
        word = "gone" if facts is None else facts.word
        hint = "you can enter a node only while the job runs; slipway launch FILE starts it again"
        if facts is not None and facts.state is JobState.PENDING:
            hint = "wait until the job runs: slipway attach NAME follows it"
        raise ImpossibleError(f"job {job} runs on no node: it is {word}", hint=hint)
    return facts.nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNodes:
    """The nodes of a Slurm job: from the head node, `srun --overlap` starts a step next to the trainer's step."""

    head: Shell
    job: str
    folder: str
    names: tuple[str, ...]

    def shell(self, node: str) -> int:
        """Open a shell on a node, on this terminal or for piped commands; return its exit code."""
        options = ["--pty"] if sys.stdin.isatty() and sys.stdout.isatty() else []
        return run_attended(self.head.terminal(self.step_script(node, ["bash", "-l"], *options)), self.head.environment)

    def run(self, node: str, command: Sequence[str]) -> int:
        """Run a command on a node; over Systems Manager its output comes when the command has ended."""
        script = self.step_script(node, command)
        direct = self.head.direct(script)
        if direct is not None:
            return run_attended(direct, self.head.environment)
        answer = self.head.run(script, timeout_s=EXEC_S)
        sys.stdout.write(answer.out)
        sys.stderr.write(answer.err)
        return answer.code

    def read(self, node: str, command: Sequence[str]) -> str:
        """The output of a short command on a node."""
        answer = self.head.run(self.step_script(node, command))
        if answer.code != 0:
            reason = " | ".join(answer.err.strip().splitlines()[-2:]) or f"exit {answer.code}"
            raise SchedulerError(f"{node}: {command[0]}: {reason}")
        return answer.out

    def tunnel(self, node: str, port: int, local_port: int, ready: Callable[[], None]) -> int:
        """Forward a local port to a port of a node."""
        command = self.head.forwarding(node, port, local_port)
        return open_tunnel(command, self.head.environment, port=port, local_port=local_port, ready=ready)

    def step_script(self, node: str, command: Sequence[str], *options: str) -> str:
        """The script that starts a command as a step of the job on one of its nodes."""
        step = ["srun", f"--jobid={self.job}", "--overlap", "--nodes=1", "--ntasks=1", f"--nodelist={node}"]
        return (
            f'{WITHOUT_CALLERS_JOB}PATH="$PATH:/opt/slurm/bin"\n{STEP_DEVICES}\n'
            f"cd {shlex.quote(self.folder)} && set -- {shlex.join(step)} && "
            f'exec "$@" $(step_devices {shlex.quote(node)} "$@") {shlex.join([*options, *command])}'
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeSlurmNodes(SlurmNodes):
    """The nodes of a Slurm cluster without the job: a shell is a job of its own on an idle node.

    `partitions` has the partition of each idle node. Slurm gives no job to another one: there the shell goes over ssh,
    which ParallelCluster and HyperPod set up for the head node's user.
    """

    partitions: Mapping[str, str]

    def step_script(self, node: str, command: Sequence[str], *options: str) -> str:
        """The script that starts a command as a job of its own on an idle node, or over ssh."""
        partition = self.partitions.get(node)
        if partition is None:
            terminal = ["-t"] if options else []
            reach = ["ssh", *terminal, "-o", "ConnectTimeout=20", "-o", "StrictHostKeyChecking=accept-new", node]
            return f"{WITHOUT_CALLERS_JOB}exec {shlex.join([*reach, shlex.join(command)])}"
        step = ["srun", f"--partition={partition}", f"--nodelist={node}", "--nodes=1", "--ntasks=1", "--exclusive"]
        step += [f"--immediate={IMMEDIATE_S}", "--job-name=slipway-shell"]
        return (
            f'{WITHOUT_CALLERS_JOB}PATH="$PATH:/opt/slurm/bin"\n'
            f"gres=\"$(scontrol --oneliner show node {shlex.quote(node)} | sed -n 's/.* Gres=\\([^ (]*\\).*/\\1/p')\"\n"
            f'exec {shlex.join(step)} ${{gres:+"--gres=$gres"}} {shlex.join([*options, *command])}'
        )


def run_attended(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program on this terminal; the program itself handles Ctrl-C.

    Raises:
        SchedulerError: the program is not installed.
    """
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise SchedulerError(f"{command[0]} is not installed", hint=f"install it; by hand: {shlex.join(command)}")
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        code = subprocess.run([program, *command[1:]], env=dict(environment), check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def open_tunnel(
    command: Sequence[str] | None,
    environment: Mapping[str, str],
    *,
    port: int,
    local_port: int,
    ready: Callable[[], None],
) -> int:
    """Forward a local port to a node's port by a program; None: the node is this computer.

    Raises:
        ImpossibleError: the local port is in use.
    """
    if command is not None:
        with free_port(local_port):
            pass
        ready()
        return run_attended(command, environment)
    if local_port == port:
        ready()  # the port is local already, and a forwarded connection would loop
        threading.Event().wait()
    return forward_port(local_port, lambda: (socket.create_connection(("127.0.0.1", port), timeout=10.0), str), ready)


@contextlib.contextmanager
def free_port(local_port: int) -> Iterator[socket.socket]:
    """A socket that listens on a port of the local loopback address.

    Raises:
        ImpossibleError: the port is in use or not available.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", local_port))
        except OSError as problem:
            hint = "--local PORT sets another port of this computer"
            raise ImpossibleError(f"port {local_port} of this computer: {problem.strerror}", hint=hint) from problem
        listener.listen()
        yield listener


def forward_port(local_port: int, dial: Callable[[], Dialled], ready: Callable[[], None]) -> int:
    """Forward each connection to a local port to the connection that `dial` opens, until the user interrupts it.

    Slipway closes a connection that fails and prints the reason; the next connection tries again.

    Raises:
        ImpossibleError: the local port is in use.
    """
    with free_port(local_port) as listener:
        ready()
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_join_sockets, args=(near, dial), daemon=True).start()


def _join_sockets(near: socket.socket, dial: Callable[[], Dialled]) -> None:
    with near:
        try:
            far, refused = dial()
        except (OSError, SchedulerError) as problem:
            reason = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
            sys.stderr.write(f"  cannot connect to the node's port: {output_line(str(reason))}\n")
            return
        with contextlib.closing(far):
            back = threading.Thread(target=_copy_stream, args=(far, near), daemon=True)
            back.start()
            _copy_stream(near, far)
            back.join()
        if reason := refused():
            sys.stderr.write(f"  cannot connect to the node's port: {output_line(str(reason))}\n")


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
