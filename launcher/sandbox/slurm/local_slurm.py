"""The local scheduler behind Slurm's commands, to the extent that the launcher, batch scripts and agents use them.

It refuses any option that it does not implement, as Slurm refuses an unknown option. Messages and exit codes are those
of Slurm 22.05 (man sbatch, squeue, sinfo, scontrol, scancel). No accounting exists, as on a ParallelCluster without a
database.
"""

import secrets
import shlex
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from launcher.model.job import JobState, SchedulerAttempt
from launcher.sandbox.cluster.nodes import NodeState
from launcher.sandbox.control import ControlServer
from launcher.sandbox.namespaces import node_address
from launcher.sandbox.slurm import local_commands
from launcher.sandbox.slurm.local_scheduler import LocalJob, LocalScheduler
from launcher.submit.jobs import SchedulerError
from launcher.submit.slurm_output import TIME_FORMAT

_NO_JOB = "Invalid job id specified"
_REASONS = {JobState.FAILED: "NonZeroExitCode", JobState.PENDING: "Resources"}


class _RefusedError(Exception):
    """A refused command with its message; `plain` if Slurm prints the message as an answer."""

    def __init__(self, message: str, *, plain: bool = False) -> None:
        super().__init__(message)
        self.plain = plain


@dataclass(frozen=True, slots=True, kw_only=True)
class _Command:
    """A command line: its options, and its other words."""

    options: Mapping[str, str]
    arguments: Sequence[str]
    folder: Path
    environment: Mapping[str, str]

    def moment(self, at: datetime | None) -> str:
        if at is None:
            return "Unknown"
        plain = self.environment.get("SLURM_TIME_FORMAT") == TIME_FORMAT
        return str(int(at.timestamp())) if plain else at.isoformat(timespec="seconds")


class LocalSlurm:
    """The scheduler of one cluster on a computer without Slurm."""

    name = "local"

    def __init__(
        self,
        folder: Path,
        nodes: Callable[[], Sequence[NodeState]],
        mark: str,
        settings: Mapping[str, str],
        types: Iterable[tuple[str, str]] = (),
    ) -> None:
        """`folder` has a short path, for its socket. `types`: partitions and types that Slurm lists without nodes."""
        self._folder = folder
        self._types = tuple(types)
        self.scheduler = LocalScheduler(folder, nodes, mark, settings)
        secret = secrets.token_urlsafe(32)
        (folder / local_commands.SECRET).write_text(secret, encoding="ascii")
        self._write_commands(folder / "bin")
        operations = {"command": self._command, "step": self._step, "take": self._take, "give": self._give}
        self._control = ControlServer(operations, secret, folder / local_commands.SOCKET)
        self.busy = self.scheduler.busy
        self.node_lost = self.scheduler.node_lost
        self.node_replaced = self.scheduler.node_replaced
        self.marked_down = self.scheduler.marked_down

    def environment(self, path: str) -> dict[str, str]:
        """The environment variables that a process needs to reach the scheduler; `path` is the PATH of the process."""
        return {local_commands.FOLDER_VARIABLE: str(self._folder), "PATH": f"{self._folder / 'bin'}:{path}"}

    def jobs(self) -> list[dict[str, Any]]:
        """All jobs so far: `id`, `name`, `state` in Slurm's word, and `attempts`."""
        return [
            {
                "id": job.id,
                "name": job.name,
                "state": job.slurm_state,
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

    def _step(self, request: Mapping[str, Any]) -> dict[str, Any]:
        number, nodes = self.scheduler.step(request["job"], request["nodes"])
        return {"number": number, "nodes": nodes}

    def _take(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Give an idle node to an srun without a job."""
        try:
            return {"refused": "", "variables": self.scheduler.take(str(request["node"]))}
        except SchedulerError as problem:
            return {"refused": problem.message, "variables": {}}

    def _give(self, request: Mapping[str, Any]) -> None:
        self.scheduler.give(str(request["node"]))

    def _command(self, request: Mapping[str, Any]) -> dict[str, Any]:
        name, options, arguments = str(request["name"]), {}, []
        for word in request["words"]:
            option, _, value = word.partition("=")
            if word.startswith("-"):
                options[option] = value
            else:
                arguments.append(word)
        call = _Command(
            options=options, arguments=arguments, folder=Path(request["folder"]), environment=request["environment"]
        )
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
            output = f"{refusal}\n"
            return (
                {"code": 1, "out": output, "err": ""}
                if refusal.plain
                else {"code": 1, "out": "", "err": f"{name}: {output}"}
            )
        except (SchedulerError, OSError) as problem:
            return {"code": 1, "out": "", "err": f"{name}: error: {problem}\n"}
        return {"code": 0, "out": printed, "err": ""}

    @staticmethod
    def _sacct(command: _Command) -> str:
        del command
        raise _RefusedError("Slurm accounting storage is disabled")

    def _sbatch(self, command: _Command) -> str:
        options = dict(command.options)
        short = "--parsable" in options
        options.pop("--parsable", None)
        if len(command.arguments) != 1:
            raise _RefusedError(f"sbatch needs exactly one batch script, got: {' '.join(command.arguments) or 'none'}")
        arguments = [f"{name}={value}" if value else name for name, value in options.items()]
        script = command.folder / command.arguments[0]
        job = self.scheduler.submit(script, folder=command.folder, environment=command.environment, options=arguments)
        return f"{job}\n" if short else f"Submitted batch job {job}\n"

    def _squeue(self, command: _Command) -> str:
        _refuse_unknown(command.options, "--noheader", "--states", "--name", "--format")
        form = command.options.get("--format")
        if form not in ("%i", "%i|%T|%N") or "--noheader" not in command.options or command.arguments:
            raise _RefusedError("the local scheduler prints only job ids (or %i|%T|%N): --noheader --format=%i")
        name, every = command.options.get("--name"), command.options.get("--states") == "all"
        jobs = [job for job in self.scheduler.jobs() if name in (None, job.name) and (every or not job.state.final)]
        if form == "%i":
            return "".join(f"{job.id}\n" for job in jobs)
        return "".join(f"{job.id}|{job.slurm_state}|{','.join(job.nodes)}\n" for job in jobs)

    def _sinfo(self, command: _Command) -> str:
        _refuse_unknown(command.options, "--noheader", "--format")
        if command.options.get("--format") != "%R %f" or "--noheader" not in command.options or command.arguments:
            raise _RefusedError("the local scheduler prints only partitions and features: --noheader --format='%R %f'")
        nodes = [(node.partition, node.instance_type) for node in self.scheduler.nodes_now()]
        rows = dict.fromkeys(f"{partition} {kind}" for partition, kind in (*self._types, *nodes))
        return "".join(f"{row}\n" for row in rows)

    def _scancel(self, command: _Command) -> str:
        _refuse_unknown(command.options, "--state", "--name")
        if len(command.arguments) != 1 or command.options.get("--state") not in (None, "PENDING"):
            raise _RefusedError(f"the local scheduler does not support: {' '.join(command.arguments)}")
        job = self._job(command.arguments[0], "Kill job error on job id {job}: " + _NO_JOB)
        waits = "--state" not in command.options or job.state is JobState.PENDING
        if waits and command.options.get("--name") in (None, job.name):
            self.scheduler.cancel(job.id)
        return ""

    def _scontrol(self, command: _Command) -> str:
        """`show hostnames`, `show node N`, `show job J`, `requeue J`, `update nodename= state=`, `update jobid=`."""
        _refuse_unknown(command.options, "--oneliner")
        match command.arguments:
            case ["show", "hostnames", *names]:
                nodes = names[0] if names else command.environment.get("SLURM_JOB_NODELIST", "")
                return "".join(f"{node}\n" for node in nodes.split(","))
            case ["show", "node", *names]:
                known = {node.name: node for node in self.scheduler.nodes_now()}
                for name in names:
                    if name not in known:
                        raise _RefusedError(f"Node {name} not found", plain=True)
                return "".join(self._node_line(known[name], command) for name in names or known)
            case ["reboot", "ASAP", "nextstate=RESUME", *_, name]:
                if name not in {node.name for node in self.scheduler.nodes_now()}:
                    raise _RefusedError("scontrol_reboot_nodes error: Invalid node name specified")
                self.scheduler.drain(name)
                threading.Thread(target=self.scheduler.resume_when_free, args=(name,), daemon=True).start()
                return ""
            case ["show", "job", job]:
                return self._job_text(self._job(job, "slurm_load_jobs error: " + _NO_JOB), command)
            case ["requeue", job]:
                self.scheduler.requeue(self._job(job, _NO_JOB).id)
                return ""
            case ["update", *settings]:
                return self._update(
                    {name.lower(): value for name, _, value in (setting.partition("=") for setting in settings)}
                )
        raise _RefusedError(f"the local scheduler does not support: {' '.join(command.arguments)}")

    def _node_line(self, node: NodeState, command: _Command) -> str:
        """A node as `scontrol --oneliner show node` prints it, with the fields that callers read."""
        state = self.scheduler.node_state(node.name)
        at = command.moment(self.scheduler.last_busy(node.name))
        return (
            f"NodeName={node.name} NodeAddr={node_address(node.name)} NodeHostName={node.name}"
            f" ActiveFeatures=dynamic,{node.instance_type} State={state} Partitions={node.partition} "
            f" BootTime={at} LastBusyTime={at}\n"
        )

    def _update(self, settings: Mapping[str, str]) -> str:
        match settings:
            case {"nodename": node, "state": "drain" | "DRAIN"}:
                self.scheduler.drain(node)
            case {"nodename": node, "state": "down" | "DOWN"}:
                self.scheduler.mark_down(node)
            case {"nodename": node, "state": "resume" | "RESUME"}:
                self.scheduler.resume(node)
            case {"jobid": job, "starttime": _}:
                # A requeued job waits for nothing but its nodes here.
                if self._job(job, _NO_JOB).state is not JobState.PENDING:
                    raise _RefusedError("Job is no longer pending execution")
            case _:
                raise _RefusedError(f"the local scheduler cannot update {', '.join(settings)}")
        return ""

    def _job(self, job: str, refusal: str) -> LocalJob:
        match = next((candidate for candidate in self.scheduler.jobs() if candidate.id == job), None)
        if match is None:
            raise _RefusedError(refusal.format(job=job))
        return match

    @staticmethod
    def _job_text(job: LocalJob, command: _Command) -> str:
        last = job.attempts[-1] if job.attempts else None
        pending = job.state is JobState.PENDING
        restarts = len(job.attempts) - (0 if pending or last is None else 1)
        ended = last is not None and job.state.final
        fields = {
            "JobId": job.id,
            "JobName": job.name,
            "JobState": job.slurm_state,
            "Reason": _REASONS.get(job.state, "None"),
            "Restarts": str(restarts),
            "StartTime": command.moment(None if pending or last is None else last.started_at),
            "EndTime": command.moment(last.ended_at if ended and last is not None else None),
            "NodeList": ",".join(last.nodes) if last is not None and not pending else "(null)",
            "ExitCode": f"{last.exit_code or 0}:{last.signal}" if last is not None else "0:0",
        }
        return " ".join(f"{name}={value}" for name, value in fields.items()) + "\n"


def _attempt(attempt: SchedulerAttempt) -> dict[str, Any]:
    """An attempt as JSON values; times are ISO moments."""
    described = asdict(attempt)
    return described | {
        name: None if described[name] is None else described[name].isoformat() for name in ("started_at", "ended_at")
    }


def _refuse_unknown(options: Mapping[str, str], *names: str) -> None:
    for name in options:
        if name not in names:
            raise _RefusedError(f"unrecognized option '{name}'")
