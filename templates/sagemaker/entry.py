# ruff: noqa: INP001 - one file that is shipped as it is and is a container's first process; what it prints is the log
"""Starts the agent in a container of a SageMaker training job, again after each attempt that may be retried.

A program that ends three times in a row before the agent has written an event cannot start here: the job fails with its
last lines, instead of trying on for money.

It is in a separate channel, next to the job folder (`job.tar.gz`), and reads resourceconfig.json itself: variables that
begin with SM_ come from AWS's toolkit, which it does not use. It passes SIGTERM on to the agent, which saves, and then
starts no further attempt. It writes why the job failed to /opt/ml/output/failure, which SageMaker shows. Uses only the
standard library.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from types import FrameType
from typing import IO, Any

CHANNEL = Path(__file__).resolve().parent
ML = CHANNEL.parents[2]
"""/opt/ml: the channel is input/data/slipway below it."""
INTERRUPTED, STOPPED, BAD_JOB = 75, 79, 78
"""The agent's exit codes (launcher/agent/exits.py): saved, may restart; ended for good; invalid job."""
MAX_STARTS = 200
FAILED_STARTS = 3
"""Starts in a row without an event of the agent, after which the next one is expected to fail too."""
LAST_BYTES = 600
"""The end of standard error that a failed start leaves."""
LONGEST_REASON = 1000
"""SageMaker shows the first 1,024 characters."""
PAUSE_S = 2.0


def ranked_hosts(hosts: list[str]) -> list[str]:
    """The hosts in order of their numbers: as text, algo-10 would come before algo-2.

    >>> ranked_hosts(["algo-10", "algo-2", "algo-1"])
    ['algo-1', 'algo-2', 'algo-10']
    """
    return sorted(hosts, key=lambda host: [int(part) if part.isdigit() else 0 for part in re.split(r"(\d+)", host)])


def write_placement(config: Mapping[str, Any], environment: MutableMapping[str, str]) -> None:
    """Set the agent's variables for this node, from resourceconfig.json."""
    hosts, here = ranked_hosts(list(config["hosts"])), config["current_host"]
    environment["SLIPWAY_PARTS"] = str(len(hosts))
    environment["JOB_COMPLETION_INDEX"] = str(hosts.index(here))
    environment.setdefault("SLIPWAY_MEETING", hosts[0])
    environment["SLIPWAY_POD"] = environment["SLIPWAY_NODE"] = here
    # Every container calls itself "aws", which does not resolve to its address (aws/deep-learning-containers@e0ecede,
    # changehostname.c): torchrun cannot compare that name with the rendezvous, nor announce it as the master's address.
    environment.setdefault("PET_LOCAL_ADDR", here)
    environment.setdefault("PET_RDZV_CONF", f"is_host={int(here == hosts[0])}")
    environment.setdefault("NCCL_HOSTID", here)
    if interface := config.get("network_interface_name"):
        # gloo would take the address of the container's name, else loopback.
        environment.setdefault("GLOO_SOCKET_IFNAME", interface)
        if "NCCL_SOCKET_IFNAME" in environment:
            environment["NCCL_SOCKET_IFNAME"] = interface


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the job folder, which appears only when it is complete, and contains only files and folders."""
    if folder.is_dir():
        return
    fresh = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed.getmembers():
            if member.name.startswith("/") or ".." in Path(member.name).parts:
                message = f"{member.name} is outside the job folder"
                raise ValueError(message)
            place = fresh / member.name
            content = packed.extractfile(member) if member.isreg() else None
            if content is None:
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with content, place.open("wb") as stream:
                shutil.copyfileobj(content, stream)
            place.chmod(0o755 if member.mode & 0o100 else 0o644)
    fresh.rename(folder)


class Starter:
    """Starts programs one after the other, and passes SIGTERM on to the running one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Install the handler for SIGTERM."""
        self.environment = environment
        self.leaving = False
        self.said = b""
        self.process = None  # type: subprocess.Popen[bytes] | None
        signal.signal(signal.SIGTERM, self._leave)

    def _leave(self, _number: int, _frame: "FrameType | None") -> None:
        self.leaving = True
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def run(self, script: Path, folder: Path) -> int:
        """Run one script of the job folder; return its exit code. `said` is then the end of its standard error."""
        program = [sys.executable, str(script)]
        self.process = subprocess.Popen(program, cwd=folder, env=dict(self.environment), stderr=subprocess.PIPE)
        self.said = b""
        copying = threading.Thread(target=self._copy, args=(self.process.stderr,), daemon=True)
        copying.start()
        if self.leaving:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait()
        # A process that it left behind may keep the pipe open.
        copying.join(timeout=1)
        return 128 - code if code < 0 else code

    def _copy(self, source: IO[bytes]) -> None:
        """Copy standard error to this process's own, and remember its end.

        It holds `source` itself: a process that an ended script left may write to it after the next script has begun.
        """
        while chunk := os.read(source.fileno(), 65536):
            self.said = (self.said + chunk)[-LAST_BYTES:]
            sys.stderr.buffer.write(chunk)
            sys.stderr.buffer.flush()

    def wait(self, seconds: float) -> None:
        """Pause until the time is over or SIGTERM comes."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.leaving:
            time.sleep(0.1)


def reason(folder: Path, code: int) -> str:
    """Why the job failed, from the newest event of this node's agent that has a reason."""
    found = ""
    for path in sorted(folder.glob("events*.jsonl")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            if event.get("event") in ("failed", "stopped") and event.get("reason"):
                found, code = str(event["reason"]), int(event.get("exit_code") or code)
    return f"{found or 'the agent ended'} (exit code {code})"


def size_of_events(folder: Path) -> int:
    """The size of the events that this node's agents have written."""
    return sum(path.stat().st_size for path in folder.glob("events*.jsonl"))


def fail(text: str, code: int) -> int:
    """Write a failure to SageMaker's failure file; return its exit code."""
    print(f"slipway: {text}", file=sys.stderr, flush=True)  # noqa: T201 - the job's log
    output = ML / "output"
    output.mkdir(parents=True, exist_ok=True)
    (output / "failure").write_text(text[:LONGEST_REASON] + "\n", encoding="utf-8")
    return code


def main() -> int:
    """Run the job on this node to its end."""
    environment = dict(os.environ)
    config = json.loads((ML / "input" / "config" / "resourceconfig.json").read_text(encoding="utf-8"))
    given = json.loads((CHANNEL / "environment.json").read_text(encoding="utf-8"))
    environment = {**given, **environment}
    write_placement(config, environment)
    folder = Path(environment["SLIPWAY_ROOT"]) / "job"
    starter = Starter(environment)
    try:
        unpack(CHANNEL / "job.tar.gz", folder)
    except (OSError, tarfile.TarError, ValueError) as problem:
        return fail(f"cannot unpack the job folder: {problem}", BAD_JOB)
    code = starter.run(folder / "fetch_work.py", folder)
    if code:
        return fail("cannot fetch the command's folder: see the log of this node", code)
    silent = 0
    for _ in range(MAX_STARTS):
        before = size_of_events(folder)
        code = starter.run(folder / "kubernetes" / "start.py", folder)
        if code == 0 or starter.leaving:
            return code
        if code in (STOPPED, BAD_JOB):
            return fail(reason(folder, code), code)
        silent = silent + 1 if size_of_events(folder) == before else 0
        if silent == FAILED_STARTS:
            said = " | ".join(starter.said.decode(errors="replace").split("\n")).strip(" |")
            return fail(f"the agent could not start, {silent} times in a row (exit code {code}): {said}", code)
        starter.wait(PAUSE_S)
    return fail(f"started {MAX_STARTS} times without an end", code)


if __name__ == "__main__":
    sys.exit(main())
