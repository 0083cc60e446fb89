"""A head node, as far as a submission needs it: it runs short scripts and receives a folder.

An answer counts only when it is whole. Every script is framed by two marks of its own, so that what a login prints is
told from the answer, and an answer that was cut off, by a lost connection or by a limit on its length, is recognised.
The frame is one compound command: a shell that gets only a part of it runs nothing.
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

from launcher.submit.jobs import CutOffError, SchedulerError, UnreachableError

RUN_S = 120.0
"""What a script is given; Slurm's commands give up on their controller after less."""
PUT_S = 1800.0
_URI = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a script left: its exit code and what it printed."""

    code: int
    out: str
    err: str


class Shell(Protocol):
    """Runs scripts on a head node, as the user whose jobs they are."""

    @property
    def name(self) -> str:
        """Where it leads, for messages: "ssh gpu1"."""

    @property
    def chunk_bytes(self) -> int:
        """How much of a file one answer can carry."""

    @property
    def look_s(self) -> float:
        """How long to leave between two looks at a job."""

    def run(self, script: str, *, timeout_s: float = RUN_S) -> Answer:
        """Run a bash script.

        Raises:
            UnreachableError: no whole answer came; whether the script ran is not known.
            SchedulerError: it certainly did not run.
        """

    def put(self, archive: Path, folder: str) -> str:
        """Unpack a tar.gz archive into a new folder below the user's home; the folder's absolute path.

        A folder that is there already was put by an earlier try and stays.

        Raises:
            UnreachableError: no whole answer came; it may be tried again.
            SchedulerError: it could not be unpacked.
        """

    @property
    def environment(self) -> Mapping[str, str]:
        """Of the programs that lead there."""

    def terminal(self, script: str) -> list[str]:
        """The program that runs a script there on this terminal.

        Raises:
            SchedulerError: it is not on this machine.
        """

    def direct(self, script: str) -> list[str] | None:
        """The program that runs one with its output and exit code passed on as they are; None where there is none."""

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """The program that leads a port of this machine to a node's; None where that node is this machine."""

    def close(self) -> None:
        """Let go of the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """The marks around one answer."""

    mark: str

    @classmethod
    def fresh(cls) -> "Frame":
        """One that no output holds by accident."""
        return cls(mark=f"slipway-{secrets.token_hex(8)}")

    def around(self, script: str) -> str:
        """The script between its marks; ParallelCluster's commands are found even without its profile."""
        return (
            '{ PATH="$PATH:/opt/slurm/bin"\n'
            f"printf '\\n%s begin\\n' {self.mark}\n"
            f"(\n{script}\n) </dev/null\n"
            f"printf '\\n%s end %s\\n' {self.mark} $?\nexit 0; }}\n"
        )

    def is_whole(self, tail: bytes) -> bool:
        """Whether what was heard last holds the mark of the end."""
        return re.search(rb"\n%b end \d+\r?\n" % self.mark.encode(), tail) is not None

    def answer(self, out: str, err: str, where: str) -> Answer:
        """The answer between the marks.

        Raises:
            CutOffError: it is not whole.
        """
        match = re.search(rf"(?s)\n{self.mark} begin\n(.*)\n{self.mark} end (\d+)\n", out)
        if match is None:
            began = f"{self.mark} begin" in out
            last = " | ".join(err.strip().splitlines()[-3:])
            what = "the answer was incomplete" if began else "there was no answer"
            raise CutOffError(f"{where}: {what}" + (f": {last}" if last else ""))
        return Answer(code=int(match[2]), out=match[1], err=err)


def unpacking(folder: str, source: str, archive: Path) -> str:
    """The script that unpacks what `source` prints, a copy of `archive`, into a new folder below the home folder.

    Nothing is unpacked before the whole of it has the archive's hash. It is unpacked beside its place and renamed: a
    folder that is there is whole.
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
    """The same from an object in S3.

    Raises:
        SchedulerError: the address is none of S3.
    """
    if not _URI.fullmatch(uri):
        raise SchedulerError(f"not an S3 location: {uri!r}")
    return unpacking(folder, f"aws s3 cp --only-show-errors {shlex.quote(uri)} -", archive)


def placed(answer: Answer, folder: str, where: str) -> str:
    """The path that `unpacking` printed.

    Raises:
        SchedulerError: it failed.
    """
    lines = answer.out.strip().splitlines()
    if answer.code != 0 or not lines:
        reason = " | ".join(filter(None, answer.err.strip().splitlines()[-6:])) or f"exit {answer.code}"
        raise SchedulerError(f"{where}: cannot create the job folder {folder}: {reason}")
    return lines[-1]


class LocalShell:
    """The head node is this machine."""

    chunk_bytes = 4_000_000
    look_s = 1.0

    def __init__(self, environment: Mapping[str, str], *, name: str = "this computer") -> None:
        self.environment = dict(environment)
        self.name = name

    def run(self, script: str, *, timeout_s: float = RUN_S) -> Answer:
        """Run a bash script."""
        frame = Frame.fresh()
        done = started(["bash", "-s"], self.environment, self.name, timeout_s, frame.around(script).encode())
        return frame.answer(text(done.stdout), text(done.stderr), self.name)

    def put(self, archive: Path, folder: str) -> str:
        """Unpack an archive into a new folder below the user's home."""
        script = unpacking(folder, f"cat {shlex.quote(str(archive.resolve()))}", archive)
        return placed(self.run(script, timeout_s=PUT_S), folder, self.name)

    def terminal(self, script: str) -> list[str]:
        """A shell of this machine."""
        return ["bash", "-c", script]

    direct = terminal

    def forwarding(self, node: str, port: int, local_port: int) -> list[str] | None:
        """Its nodes are this machine."""
        del node, port, local_port
        return None

    def close(self) -> None:
        """Nothing is held."""


def started(
    words: list[str], environment: Mapping[str, str], where: str, timeout_s: float, sent: bytes
) -> subprocess.CompletedProcess[bytes]:
    """Run a program with something on its standard input.

    Raises:
        UnreachableError: it took too long.
    """
    try:
        return subprocess.run(
            words, env=dict(environment), input=sent, capture_output=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UnreachableError(f"{where}: no answer within {timeout_s:g} s") from error
    except OSError as error:
        raise program_missing(words[0], error) from error


def program_missing(program: str, error: OSError) -> SchedulerError:
    """What a program that cannot be started is told as."""
    return SchedulerError(f"{program}: {error.strerror}", hint=f"install {program}")


def text(data: bytes) -> str:
    """What a program printed."""
    return data.decode("utf-8", errors="replace")
