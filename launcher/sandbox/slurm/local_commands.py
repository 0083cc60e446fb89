"""Slurm's commands on a computer without Slurm: `python -I -m launcher.sandbox.slurm.local_commands squeue ...`.

They are on the PATH of the head node and of its jobs. The local scheduler answers them (local_slurm.py); srun starts
the tasks of a step itself. They use only a few modules of the standard library, because each check of a job starts one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from launcher.sandbox.control import ControlClient, ControlError
from launcher.sandbox.namespaces import with_own_name_only
from launcher.sandbox.processes import with_descendants

FOLDER_VARIABLE = "SLIPWAY_LOCAL_RUNNER"
"""The variable with the scheduler's folder, which contains its socket and its secret."""
SOCKET, SECRET = "control", "secret"
ANSWERED = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "sacct")
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def _call(operation: str, **arguments: Any) -> Any:
    folder = Path(os.environ[FOLDER_VARIABLE])
    secret = (folder / SECRET).read_text(encoding="ascii")
    return ControlClient(str(folder / SOCKET), secret).call(operation, **arguments)


def answer_command(name: str, arguments: Sequence[str]) -> int:
    """Let the scheduler answer a command; return its exit code."""
    environment = dict(os.environ)
    answer = _call("command", name=name, words=list(arguments), folder=str(Path.cwd()), environment=environment)
    sys.stdout.write(answer["out"])
    sys.stderr.write(answer["err"])
    return int(answer["code"])


def srun(arguments: list[str]) -> int:
    """Run a command once for each task of the job; return the highest exit code."""
    options: dict[str, str] = {}
    while arguments and arguments[0].startswith("-"):
        word = arguments.pop(0)
        if word in ("-N", "-n", "-c", "-w"):
            options[word] = arguments.pop(0)
        else:
            name, _, value = word.partition("=")
            options[name] = value
    if not arguments:
        sys.stderr.write("srun: no command\n")
        return 2
    # From outside of the job a step has to say whose it is, and --overlap shares what the job has.
    job = options.get("--jobid") or os.environ.get("SLURM_JOB_ID")
    if job is None:
        return _without_job(arguments, options)
    mine = (options.get("--nodelist") or os.environ["SLURM_JOB_NODELIST"]).split(",")
    nodes = mine[: int(options.get("--nodes") or options.get("-N") or len(mine))]
    per_node = int(options.get("--ntasks-per-node") or os.environ.get("SLURM_NTASKS_PER_NODE", "1"))
    step = _call("step", job=job, nodes=nodes)
    tasks = _start_tasks(arguments, step["number"], step["nodes"], per_node)
    _forward_signals(tasks)
    strict = "--kill-on-bad-exit" in options and options["--kill-on-bad-exit"] != "0"
    worst = 0
    for task in tasks:
        code = task.wait()
        worst = max(worst, 128 - code if code < 0 else code)
        if worst and strict:
            for other in tasks:
                other.terminate()
    return worst


def _without_job(arguments: list[str], options: Mapping[str, str]) -> int:
    """Run a command on one node as a job of its own, for as long as it takes."""
    node = options.get("--nodelist", "")
    taken = _call("take", node=node)
    if taken["refused"]:
        sys.stderr.write(f"srun: error: {taken['refused']}\n")
        return 1
    try:
        (task,) = _start_tasks(arguments, 0, {node: taken["variables"]}, 1)
        _forward_signals([task])
        code = task.wait()
        return 128 - code if code < 0 else code
    finally:
        _call("give", node=node)


def _start_tasks(
    command: list[str], number: int, nodes: Mapping[str, Mapping[str, str]], per_node: int
) -> "list[subprocess.Popen[bytes]]":
    step = {
        "SLURM_STEP_ID": str(number),
        "SLURM_STEP_NUM_NODES": str(len(nodes)),
        "SLURM_STEP_NODELIST": ",".join(nodes),
        "SLURM_NTASKS": str(len(nodes) * per_node),
    }
    tasks = []
    for index, (node, variables) in enumerate(nodes.items()):
        for local in range(per_node):
            place = {
                "SLURMD_NODENAME": node,
                "SLURM_NODEID": str(index),
                "SLURM_LOCALID": str(local),
                "SLURM_PROCID": str(index * per_node + local),
            }
            environment = {**os.environ, **step, **variables, **place}
            tasks.append(subprocess.Popen(with_own_name_only(command, node), env=environment))
    return tasks


def _forward_signals(tasks: "list[subprocess.Popen[bytes]]") -> None:
    """Forward signals to every process of the step, also in other sessions (observed with Slurm 22.05.8)."""

    def forward(number: int, frame: "FrameType | None") -> None:
        del frame
        for pid in with_descendants({task.pid for task in tasks if task.poll() is None}):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    for number in _FORWARDED:
        signal.signal(number, forward)


def main(name: str, arguments: list[str]) -> int:
    """Run one of the commands; return its exit code."""
    try:
        return srun(arguments) if name == "srun" else answer_command(name, arguments)
    except (ControlError, OSError) as problem:
        # So Slurm's own commands begin where no controller answers.
        sys.stderr.write(f"{name}: error: Unable to contact slurm controller: {problem}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
