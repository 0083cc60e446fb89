"""The local scheduler behind Slurm's own commands, as far as the launcher, its batch scripts and its agents call them.

What a command is asked and cannot do it refuses, as Slurm refuses an option that it does not know. Words and exit codes
are those of Slurm 22.05 (man sbatch, squeue, sinfo, scontrol, scancel). There is no accounting, as on a ParallelCluster
without a database.
"""

import secrets
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.model.job import Attempt, JobState
from launcher.sandbox.cluster.nodes import NodeView
from launcher.sandbox.control import ControlServer
from launcher.sandbox.slurm import local_commands
from launcher.sandbox.slurm.local_scheduler import Job, LocalScheduler
from launcher.submit.jobs import SchedulerError
from launcher.submit.slurm_output import TIME_FORMAT

_NO_JOB = "Invalid job id specified"
_REASONS = {JobState.FAILED: "NonZeroExitCode", JobState.PENDING: "Resources"}


class _RefusedError(Exception):
    """A command that is not carried out, with what it says of it; `plain` where Slurm prints that as an answer."""

    def __init__(self, message: str, *, plain: bool = False) -> None:
        super().__init__(message)
        self.plain = plain


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A command as it was called: its options, and its other words."""

    options: Mapping[str, str]
    words: Sequence[str]
    folder: Path
    environment: Mapping[str, str]

    def moment(self, at: datetime | None) -> str:
        if at is None:
            return "Unknown"
        plain = self.environment.get("SLURM_TIME_FORMAT") == TIME_FORMAT
        return str(int(at.timestamp())) if plain else at.isoformat(timespec="seconds")


class LocalSlurm:
    """The scheduler of one cluster on a machine without Slurm."""

    name = "local"

    def __init__(
        self,
        folder: Path,
        nodes: Callable[[], Sequence[NodeView]],
        mark: str,
        settings: Mapping[str, str],
        types: Iterable[tuple[str, str]] = (),
    ) -> None:
        """Start it.

        Args:
            folder: a private folder of its own, made here; its path is short, for the socket in it.
            nodes: tells what nodes there are now.
            mark: what processes of this sandbox carry.
            settings: the cluster's Slurm settings; RequeueExit and JobRequeue are followed.
            types: partitions with the types of their nodes, which Slurm lists while none of them is up.
        """
        self._folder = folder
        self._types = tuple(types)
        self.scheduler = LocalScheduler(folder, nodes, mark, settings)
        secret = secrets.token_urlsafe(32)
        (folder / local_commands.SECRET).write_text(secret, encoding="ascii")
        self._write_commands(folder / "bin")
        operations = {"command": self._command, "step": self._step}
        self._control = ControlServer(operations, secret, folder / local_commands.SOCKET)
        self.busy = self.scheduler.busy
        self.node_lost = self.scheduler.node_lost
        self.node_replaced = self.scheduler.node_replaced

    def environment(self, path: str) -> dict[str, str]:
        """What a process needs in its environment to find it; `path` is its PATH."""
        return {local_commands.FOLDER_VARIABLE: str(self._folder), "PATH": f"{self._folder / 'bin'}:{path}"}

    def jobs(self) -> list[dict[str, Any]]:
        """Every job so far: `id`, `name`, `state` in Slurm's word, and its `attempts`."""
        return [
            {
                "id": job.id,
                "name": job.name,
                "state": job.word,
                "attempts": [_attempt(attempt) for attempt in job.attempts],
            }
            for job in self.scheduler.jobs()
        ]

    def stop(self) -> None:
        """End every job."""
        self.scheduler.stop()
        self._control.stop()

    @staticmethod
    def _write_commands(folder: Path) -> None:
        folder.mkdir(mode=0o700)
        program = shlex.join([sys.executable, "-I", "-m", local_commands.__name__])
        for name in (*local_commands.ANSWERED, "srun"):
            path = folder / name
            path.write_text(f'#!/bin/sh\nexec {program} {name} "$@"\n', encoding="utf-8")
            path.chmod(0o700)

    def _step(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        number, nodes = self.scheduler.step(asked["job"], asked["nodes"])
        return {"number": number, "nodes": nodes}

    def _command(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        name, options, words = str(asked["name"]), {}, []
        for word in asked["words"]:
            option, _, value = word.partition("=")
            if word.startswith("-"):
                options[option] = value
            else:
                words.append(word)
        call = _Asked(options=options, words=words, folder=Path(asked["folder"]), environment=asked["environment"])
        answers = {
            "sacct": self._sacct,
            "sbatch": self._sbatch,
            "scancel": self._scancel,
            "scontrol": self._scontrol,
            "sinfo": self._sinfo,
            "squeue": self._squeue,
        }
        try:
            printed = answers[name](call)
        except _RefusedError as refusal:
            said = f"{refusal}\n"
            return {"code": 1, "out": said if refusal.plain else "", "err": "" if refusal.plain else f"{name}: {said}"}
        except (SchedulerError, OSError) as problem:
            return {"code": 1, "out": "", "err": f"{name}: error: {problem}\n"}
        return {"code": 0, "out": printed, "err": ""}

    @staticmethod
    def _sacct(asked: _Asked) -> str:
        del asked
        raise _RefusedError("Slurm accounting storage is disabled")

    def _sbatch(self, asked: _Asked) -> str:
        options = dict(asked.options)
        short = "--parsable" in options
        options.pop("--parsable", None)
        if len(asked.words) != 1:
            raise _RefusedError(f"one batch script is taken, got: {' '.join(asked.words) or 'none'}")
        given = [f"{name}={value}" if value else name for name, value in options.items()]
        script = asked.folder / asked.words[0]
        job = self.scheduler.submit(script, folder=asked.folder, environment=asked.environment, given=given)
        return f"{job}\n" if short else f"Submitted batch job {job}\n"

    def _squeue(self, asked: _Asked) -> str:
        _known(asked.options, "--noheader", "--states", "--name", "--format")
        if asked.options.get("--format") != "%i" or "--noheader" not in asked.options or asked.words:
            raise _RefusedError("the local scheduler prints job ids alone: --noheader --format=%i")
        name, whole = asked.options.get("--name"), asked.options.get("--states") == "all"
        found = [job for job in self.scheduler.jobs() if name in (None, job.name) and (whole or not job.state.final)]
        return "".join(f"{job.id}\n" for job in found)

    def _sinfo(self, asked: _Asked) -> str:
        _known(asked.options, "--noheader", "--format")
        if asked.options.get("--format") != "%R %f" or "--noheader" not in asked.options or asked.words:
            raise _RefusedError("the local scheduler prints partitions and features alone: --noheader --format='%R %f'")
        there = [(node.partition, node.instance_type) for node in self.scheduler.nodes_now()]
        rows = dict.fromkeys(f"{partition} {kind}" for partition, kind in (*self._types, *there))
        return "".join(f"{row}\n" for row in rows)

    def _scancel(self, asked: _Asked) -> str:
        _known(asked.options, "--state", "--name")
        if len(asked.words) != 1 or asked.options.get("--state") not in (None, "PENDING"):
            raise _RefusedError(f"the local scheduler cannot do: {' '.join(asked.words)}")
        job = self._job(asked.words[0], "Kill job error on job id {job}: " + _NO_JOB)
        waits = "--state" not in asked.options or job.state is JobState.PENDING
        if waits and asked.options.get("--name") in (None, job.name):
            self.scheduler.cancel(job.id)
        return ""

    def _scontrol(self, asked: _Asked) -> str:
        """`show hostnames`, `show node N`, `show job J`, `requeue J`, `update nodename= state=`, `update jobid=`."""
        _known(asked.options, "--oneliner")
        match asked.words:
            case ["show", "hostnames", *names]:
                nodes = names[0] if names else asked.environment.get("SLURM_JOB_NODELIST", "")
                return "".join(f"{node}\n" for node in nodes.split(","))
            case ["show", "node", name]:
                if name not in {node.name for node in self.scheduler.nodes_now()}:
                    raise _RefusedError(f"Node {name} not found", plain=True)
                # All of them are this machine.
                return f"NodeName={name} NodeAddr=127.0.0.1 NodeHostName={name}\n"
            case ["show", "job", job]:
                return self._described(self._job(job, "slurm_load_jobs error: " + _NO_JOB), asked)
            case ["requeue", job]:
                self.scheduler.requeue(self._job(job, _NO_JOB).id)
                return ""
            case ["update", *settings]:
                return self._update(
                    {name.lower(): value for name, _, value in (setting.partition("=") for setting in settings)}
                )
        raise _RefusedError(f"the local scheduler cannot do: {' '.join(asked.words)}")

    def _update(self, settings: Mapping[str, str]) -> str:
        match settings:
            case {"nodename": node, "state": "drain" | "DRAIN"}:
                self.scheduler.drain(node)
            case {"nodename": node, "state": "resume" | "RESUME"}:
                self.scheduler.resume(node)
            case {"jobid": job, "starttime": _}:
                # A requeued job waits for nothing but its nodes here.
                if self._job(job, _NO_JOB).state is not JobState.PENDING:
                    raise _RefusedError("Job is no longer pending execution")
            case _:
                raise _RefusedError(f"the local scheduler cannot update {', '.join(settings)}")
        return ""

    def _job(self, job: str, refusal: str) -> Job:
        found = next((each for each in self.scheduler.jobs() if each.id == job), None)
        if found is None:
            raise _RefusedError(refusal.format(job=job))
        return found

    @staticmethod
    def _described(job: Job, asked: _Asked) -> str:
        last = job.attempts[-1] if job.attempts else None
        pending = job.state is JobState.PENDING
        restarts = len(job.attempts) - (0 if pending or last is None else 1)
        ended = last is not None and job.state.final
        fields = {
            "JobId": job.id,
            "JobName": job.name,
            "JobState": job.word,
            "Reason": _REASONS.get(job.state, "None"),
            "Restarts": str(restarts),
            "StartTime": asked.moment(None if pending or last is None else last.started_at),
            "EndTime": asked.moment(last.ended_at if ended and last is not None else None),
            "NodeList": ",".join(last.nodes) if last is not None and not pending else "(null)",
            "ExitCode": f"{last.exit_code or 0}:{last.signal}" if last is not None else "0:0",
        }
        return " ".join(f"{name}={value}" for name, value in fields.items()) + "\n"


def _attempt(attempt: Attempt) -> dict[str, Any]:
    """An attempt as JSON values; times are ISO moments."""
    found = asdict(attempt)
    return found | {
        name: None if found[name] is None else found[name].isoformat() for name in ("started_at", "ended_at")
    }


def _known(options: Mapping[str, str], *names: str) -> None:
    for name in options:
        if name not in names:
            raise _RefusedError(f"unrecognized option '{name}'")
