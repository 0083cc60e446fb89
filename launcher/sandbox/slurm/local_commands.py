"""srun, scontrol and scancel for a machine without Slurm, as far as batch scripts and agents of this project call them.

Run as a file, `python -I local_commands.py srun ...`, inside a job of the local runner: standard library only. It
talks to the runner through the runner's folder, which SLIPWAY_LOCAL_RUNNER names: `nodes.json` holds what each node's
processes have of their own, a file below `drained` says that a node takes no more jobs, one below `requeue` that a
job wants to run again.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

FOLDER_VARIABLE = "SLIPWAY_LOCAL_RUNNER"
_WITH_VALUE = ("-N", "-n", "-c", "-w")
_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP)


def folder() -> Path:
    """The runner's folder."""
    return Path(os.environ[FOLDER_VARIABLE])


def job_nodes() -> list[str]:
    """The nodes of this job."""
    return os.environ["SLURM_JOB_NODELIST"].split(",")


def srun(words: list[str]) -> int:
    """Run a command once for each task of the job; the highest exit code of all."""
    wanted: dict[str, str] = {}
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in _WITH_VALUE:
            wanted[word] = words.pop(0)
        else:
            name, _, value = word.partition("=")
            wanted[name] = value
    if not words:
        sys.stderr.write("srun: no command\n")
        return 2
    nodes = job_nodes()[: int(wanted.get("--nodes") or wanted.get("-N") or len(job_nodes()))]
    per_node = int(wanted.get("--ntasks-per-node") or os.environ.get("SLURM_NTASKS_PER_NODE", "1"))
    tasks = _start_tasks(words, nodes, per_node)
    _forward_signals(tasks)
    strict = "--kill-on-bad-exit" in wanted and wanted["--kill-on-bad-exit"] != "0"
    return _wait(tasks, strict=strict)


def _start_tasks(words: list[str], nodes: list[str], per_node: int) -> "list[subprocess.Popen[bytes]]":
    own = json.loads((folder() / "nodes.json").read_text(encoding="utf-8"))
    step = {
        "SLURM_STEP_ID": str(_next_step()),
        "SLURM_STEP_NUM_NODES": str(len(nodes)),
        "SLURM_STEP_NODELIST": ",".join(nodes),
        "SLURM_NTASKS": str(len(nodes) * per_node),
    }
    tasks = []
    for index, node in enumerate(nodes):
        for local in range(per_node):
            place = {
                "SLURMD_NODENAME": node,
                "SLURM_NODEID": str(index),
                "SLURM_LOCALID": str(local),
                "SLURM_PROCID": str(index * per_node + local),
            }
            tasks.append(subprocess.Popen(words, env={**os.environ, **step, **own[node], **place}))
    return tasks


def _next_step() -> int:
    steps = folder() / "steps"
    steps.mkdir(exist_ok=True)
    number = 0
    while True:
        try:
            (steps / f"{os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_RESTART_COUNT', '0')}.{number}").mkdir()
        except FileExistsError:
            number += 1
        else:
            return number


def _forward_signals(tasks: "list[subprocess.Popen[bytes]]") -> None:
    def forward(number: int, frame: "FrameType | None") -> None:
        del frame
        for task in tasks:
            task.send_signal(number)

    for number in _FORWARDED:
        signal.signal(number, forward)


def _wait(tasks: "list[subprocess.Popen[bytes]]", *, strict: bool) -> int:
    worst = 0
    for task in tasks:
        code = task.wait()
        worst = max(worst, 128 - code if code < 0 else code)
        if worst and strict:
            for other in tasks:
                other.terminate()
    return worst


def scontrol(words: list[str]) -> int:
    """The calls that are made: `show hostnames`, `show node N`, `update nodename=N state=drain`, `requeue J`."""
    if words[:2] == ["show", "hostnames"]:
        nodes = words[2].split(",") if words[2:] else job_nodes()
        sys.stdout.write("".join(f"{node}\n" for node in nodes))
        return 0
    if words[:2] == ["show", "node"]:
        return _show_node([word for word in words[2:] if not word.startswith("-")])
    if words[:1] == ["requeue"] and words[1:]:
        return _note("requeue", words[1])
    settings = dict(word.lower().partition("=")[::2] for word in words[1:])
    if words[:1] == ["update"] and settings.get("state") in ("drain", "resume") and "nodename" in settings:
        if settings["state"] == "drain":
            return _note("drained", settings["nodename"])
        (folder() / "drained" / settings["nodename"]).unlink(missing_ok=True)
        return 0
    sys.stderr.write(f"scontrol: the local runner cannot do: {' '.join(words)}\n")
    return 1


def _show_node(names: list[str]) -> int:
    """Nodes of this job, one a line: all of them are this machine."""
    for name in names:
        if name not in job_nodes():
            sys.stdout.write(f"Node {name} not found\n")
            return 1
        sys.stdout.write(f"NodeName={name} NodeAddr=127.0.0.1 NodeHostName={name}\n")
    return 0


def scancel(words: list[str]) -> int:
    """Cancel this job."""
    jobs = [word for word in words if not word.startswith("-")]
    if jobs != [os.environ["SLURM_JOB_ID"]] or len(jobs) != len(words):
        sys.stderr.write(f"scancel: the local runner cannot do: {' '.join(words)}\n")
        return 1
    return _note("cancel", jobs[0])


def _note(kind: str, name: str) -> int:
    place = folder() / kind
    place.mkdir(exist_ok=True)
    (place / name).touch()
    return 0


if __name__ == "__main__":
    _COMMANDS = {"srun": srun, "scontrol": scontrol, "scancel": scancel}
    sys.exit(_COMMANDS[sys.argv[1]](sys.argv[2:]))
