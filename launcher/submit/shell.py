"""A head node, as far as a submission needs it: it runs short scripts and receives a folder.

Slipway accepts only complete answers. Two unique marks enclose the output of every script. The marks separate the
answer from the output of the login, and reveal an answer that a lost connection or a length limit cut off.
The frame is one compound command: a shell that receives only a part of it runs nothing.
"""

import hashlib
import re
import secrets
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launcher.submit.callers import WITHOUT_CALLERS_JOB
from launcher.submit.jobs import CutOffError, SchedulerError, UnreachableError

RUN_S = 120.0
"""Timeout of a script; Slurm's commands stop waiting for their controller earlier."""
PUT_S = 1800.0
_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptResult:
    """The result of a script: its exit code and its output."""

    code: int
    out: str
    err: str


class Shell(Protocol):
    """Runs scripts on a head node, as the user who owns the jobs."""

    @property
    def name(self) -> str:
        """The name of the connection, for messages: "ssh gpu1"."""

    @property
    def chunk_bytes(self) -> int:
        """The number of bytes of a file that one answer can carry."""

    @property
    def poll_s(self) -> float:
        """The interval between two polls of a job."""

    def run(self, script: str, *, timeout_s: float = RUN_S) -> ScriptResult:
        """Run a bash script.

        Raises:
            UnreachableError: no complete answer came; Slipway does not know whether the script ran.
            SchedulerError: the script certainly did not run.
        """

    def put(self, archive: Path, folder: str) -> str:
        """Unpack a tar.gz archive into a new folder below the user's home; return the folder's absolute path.

        If the folder already exists, an earlier try created it, and it remains unchanged.

        Raises:
            UnreachableError: no complete answer came; the caller may try again.
            SchedulerError: the archive could not be unpacked.
        """

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the programs that connect to the head node."""

    def terminal(self, script: str) -> list[str]:
        """The program that runs a script on the head node, on this terminal.

        Raises:
            SchedulerError: the program is not installed on this computer.
        """

    def direct(self, script: str) -> list[str] | None:
        """The program that runs a script and passes its output and exit code on unchanged; None if none can."""

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """The program that forwards a local port to a node's port; None if the node is this computer."""

    def close(self) -> None:
        """Close the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The marks around one answer."""

    mark: str

    @classmethod
    def fresh(cls) -> "Frame":
        """Return a frame whose mark no output contains by accident."""
        return cls(mark=f"slipway-{secrets.token_hex(8)}")

    def wrap(self, script: str) -> str:
        """The script between its marks; it finds the commands of ParallelCluster's Slurm even without a profile."""
        return (
            '{ PATH="$PATH:/opt/slurm/bin"\n'
            f"{WITHOUT_CALLERS_JOB}"
            f"printf '\\n%s begin\\n' {self.mark}\n"
            f"(\n{script}\n) </dev/null\n"
            f"printf '\\n%s end %s\\n' {self.mark} $?\nexit 0; }}\n"
        )

    def is_complete(self, tail: bytes) -> bool:
        """Whether the last part of an output contains the end mark."""
        return re.search(rb"\n%b end \d+\r?\n" % self.mark.encode(), tail) is not None

    def answer(self, out: str, err: str, where: str) -> ScriptResult:
        """Return the answer between the marks.

        Raises:
            CutOffError: the answer is not complete.
        """
        match = re.search(rf"(?s)\n{self.mark} begin\n(.*)\n{self.mark} end (\d+)\n", out)
        if match is None:
            began = f"{self.mark} begin" in out
            last = " | ".join(err.strip().splitlines()[-3:])
            reason = "the answer was incomplete" if began else "there was no answer"
            raise CutOffError(f"{where}: {reason}" + (f": {last}" if last else ""))
        return ScriptResult(code=int(match[2]), out=match[1], err=err)


def unpacking(folder: str, source: str, archive: Path) -> str:
    """The script that unpacks the output of `source`, a copy of `archive`, into a new folder below the home folder.

    The script unpacks only after the hash of the complete copy matches that of the archive. It unpacks into a temporary
    folder next to the target and renames this folder: if the target exists, it is complete.
    """
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return f"""set -eu -o pipefail
umask 077
target="$HOME"/{shlex.quote(folder)}
if [ ! -d "$target" ]; then
    mkdir -p "$(dirname "$target")"
    fresh="$(mktemp -d "$target.XXXXXX")"
    trap 'rm -rf "$fresh" "$fresh.tar.gz"' EXIT
    {source} >"$fresh.tar.gz"
    printf '%s  %s\\n' {digest} "$fresh.tar.gz" | sha256sum --check --status || {{
        echo "the received archive differs from the one that was sent" >&2
        exit 1
    }}
    tar -xzf "$fresh.tar.gz" --no-same-owner -C "$fresh"
    rm -f "$fresh.tar.gz"
    chmod 755 "$fresh"
    mv -T "$fresh" "$target"
    trap - EXIT
fi
cd "$target" && pwd -P"""


def unpacking_from(uri: str, folder: str, archive: Path) -> str:
    """The same script for an object in S3.

    Raises:
        SchedulerError: the address is not an S3 address.
    """
    if not _URI.fullmatch(uri):
        raise SchedulerError(f"not an S3 location: {uri!r}")
    return unpacking(folder, f"aws s3 cp --only-show-errors {shlex.quote(uri)} -", archive)


def unpacked_path(answer: ScriptResult, folder: str, where: str) -> str:
    """The path that the script of `unpacking` printed.

    Raises:
        SchedulerError: the script failed.
    """
    lines = answer.out.strip().splitlines()
    if answer.code != 0 or not lines:
        reason = " | ".join(filter(None, answer.err.strip().splitlines()[-6:])) or f"exit {answer.code}"
        raise SchedulerError(f"{where}: cannot create the job folder {folder}: {reason}")
    return lines[-1]


class LocalShell:
    """A shell if the head node is this computer."""

    chunk_bytes = 4_000_000
    poll_s = 1.0

    def __init__(self, environment: Mapping[str, str], *, name: str = "this computer") -> None:
        self.environment = dict(environment)
        self.name = name

    def run(self, script: str, *, timeout_s: float = RUN_S) -> ScriptResult:
        """Run a bash script."""
        frame = Frame.fresh()
        done = run_program(["bash", "-s"], self.environment, self.name, timeout_s, frame.wrap(script).encode())
        return frame.answer(text(done.stdout), text(done.stderr), self.name)

    def put(self, archive: Path, folder: str) -> str:
        """Unpack an archive into a new folder below the user's home; return the folder's absolute path."""
        script = unpacking(folder, f"cat {shlex.quote(str(archive.resolve()))}", archive)
        return unpacked_path(self.run(script, timeout_s=PUT_S), folder, self.name)

    def terminal(self, script: str) -> list[str]:
        """A bash command on this computer."""
        return ["bash", "-c", script]

    direct = terminal

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """None: the nodes are this computer."""
        del node, port, local_port
        return None

    def close(self) -> None:
        """Do nothing: the shell keeps no connection."""


def run_program(
    command: list[str], environment: Mapping[str, str], where: str, timeout_s: float, sent: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run a program with `sent` on its standard input.

    Raises:
        UnreachableError: the program exceeded its timeout.
    """
    try:
        return subprocess.run(
            command, env=dict(environment), input=sent, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnreachableError(f"{where}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise program_missing(command[0], error) from error


def program_missing(program: str, error: OSError) -> SchedulerError:
    """The error for a program that cannot be started."""
    return SchedulerError(f"{program}: {error.strerror}", hint=f"install {program}")


def text(data: bytes) -> str:
    """The output of a program as text."""
    return data.decode("utf-8", errors="replace")
