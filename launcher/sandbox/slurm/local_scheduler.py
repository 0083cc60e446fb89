"""Jobs on a computer without Slurm: the same batch scripts, attempts and requeues, run by this process.

The commands of Slurm that use this scheduler are in local_slurm.py.

The same as Slurm: the script's #SBATCH lines, the SLURM_ variables that scripts read, RequeueExit, the requeue of a
job whose node was lost, drained nodes, SIGTERM and then SIGKILL to every process of a cancelled job. Different: a
requeued job starts as soon as its nodes are up; accounts, priorities, and limits of memory or processors do not exist.
"""

import logging
import re
import secrets
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from launcher.model.emulator import MARK
from launcher.model.errors import AwsError
from launcher.model.job import JobState, SchedulerAttempt
from launcher.sandbox import namespaces, processes
from launcher.sandbox.cluster.nodes import NodeState
from launcher.sandbox.cluster.slurm_settings import requeue_codes
from launcher.sandbox.control import ControlError
from launcher.sandbox.slurm.files import node_environment
from launcher.submit.jobs import SchedulerError

_LETTERS = {
    "-J": "job-name",
    "-N": "nodes",
    "-n": "ntasks",
    "-c": "cpus-per-task",
    "-p": "partition",
    "-o": "output",
    "-e": "error",
    "-t": "time",
    "-D": "chdir",
}
_FLAGS = frozenset({"exclusive", "requeue", "no-requeue", "overcommit", "spread-job"})
_FOLLOWED = frozenset(
    {"job-name", "nodes", "ntasks", "ntasks-per-node", "partition", "output", "error", "time", "chdir", "open-mode"}
)
_WITHOUT_EFFECT = frozenset(
    {"cpus-per-task", "gres", "gpus-per-node", "constraint", "mem", "signal", "exclusive", "comment"}
)
"""Options without effect on one computer, where nothing is shared and nothing is limited."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_JOB_MARK = "SLIPWAY_SANDBOX_JOB"
_POLL_S = 0.05
_KILL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The options of a script."""

    job_name: str
    # Empty: the default partition.
    partition: str
    nodes: int
    tasks_per_node: int
    output: str
    error: str
    append: bool
    # Empty: the folder of the submission.
    chdir: str
    # None without a limit.
    time_limit_s: int | None
    requeue: bool | None


def batch_options(text: str, name: str, given: Sequence[str] = ()) -> BatchOptions:
    """The options of a script.

    `given` are options of sbatch's command line, which override the script's options.

    Raises:
        SchedulerError: an option is unknown or invalid.

    >>> batch_options("#SBATCH --nodes=2 --requeue -t 1-00:30", "x.sh").time_limit_s
    88200
    """
    options = _directives(text) | _read(list(given))
    unknown = sorted(set(options) - _FLAGS - _FOLLOWED - _WITHOUT_EFFECT)
    if unknown:
        raise SchedulerError(f"the local scheduler does not support --{', --'.join(unknown)}")
    nodes = _count("nodes", options.get("nodes", "1").partition("-")[0])
    if "ntasks-per-node" in options:
        tasks = _count("ntasks-per-node", options["ntasks-per-node"])
    else:
        tasks = -(-_count("ntasks", options.get("ntasks", str(nodes))) // nodes)
    return BatchOptions(
        job_name=options.get("job-name", name),
        partition=options.get("partition", "").partition(",")[0],
        nodes=nodes,
        tasks_per_node=tasks,
        output=options.get("output", "slurm-%j.out"),
        error=options.get("error", ""),
        append=options.get("open-mode", "truncate") == "append",
        chdir=options.get("chdir", ""),
        time_limit_s=_seconds(options["time"]) if "time" in options else None,
        requeue=True if "requeue" in options else False if "no-requeue" in options else None,
    )


def file_name(pattern: str, values: Mapping[str, str], folder: Path) -> Path:
    """The file for a pattern such as `slurm-%j.out`.

    >>> file_name("logs/%x-%j.out", {"j": "7", "x": "gpt"}, Path("/runs")).as_posix()
    '/runs/logs/gpt-7.out'
    """
    return folder / re.sub(r"%(.)", lambda match: values.get(match[1], match[0]), pattern)


def _directives(text: str) -> dict[str, str]:
    """The options by their long name. sbatch stops reading at the first line that is not a comment."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip() or not line.startswith("#SBATCH"):
            if line.strip() and not line.startswith("#"):
                break
            continue
        options |= _read(shlex.split(line.removeprefix("#SBATCH"), comments=True))
    return options


def _read(arguments: list[str]) -> dict[str, str]:
    options: dict[str, str] = {}
    while arguments:
        word = arguments.pop(0)
        name, equals, value = word.partition("=")
        letter = word[:2]
        if letter in _LETTERS:
            name, value = _LETTERS[letter], word[2:].lstrip("=") or _value(arguments, letter)
        elif not word.startswith("--"):
            raise SchedulerError(f"the local scheduler does not support {word}")
        elif not equals and name.removeprefix("--") not in _FLAGS:
            value = _value(arguments, name)
        options[name.removeprefix("--")] = value
    return options


def _value(arguments: list[str], option: str) -> str:
    if not arguments:
        raise SchedulerError(f"option '{option}' requires an argument")
    return arguments.pop(0)


def _count(name: str, text: str) -> int:
    """A positive number of nodes or tasks. The messages are those of sbatch 22.05.8."""
    if text.isdecimal() and int(text) > 0:
        return int(text)
    if name == "nodes":
        raise SchedulerError(f'"{text}" is not a valid node count')
    raise SchedulerError(f'Invalid numeric value "{text}" for --{name}.')


def _seconds(text: str) -> int | None:
    """A time limit of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    if text.upper() in ("UNLIMITED", "INFINITE"):
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise SchedulerError(f"--time={text} is no time limit")
    days, *rest = (int(part) if part else 0 for part in match.groups())
    first, second, third = rest
    if match[1] is not None or match[4] is not None:
        return days * 86400 + first * 3600 + second * 60 + third
    return first * 60 + second


@dataclass(slots=True, kw_only=True)
class LocalJob:
    """A submitted job. The scheduler's lock protects the changing members."""

    id: str
    script: Path
    folder: Path
    options: BatchOptions
    environment: Mapping[str, str]
    state: JobState = JobState.PENDING
    attempts: list[SchedulerAttempt] = field(default_factory=list)
    nodes: tuple[str, ...] = ()
    node_lost: bool = False
    overdue: bool = False
    requeued: bool = False
    steps: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """The name of the job."""
        return self.options.job_name

    @property
    def slurm_state(self) -> str:
        """Slurm's word for the state of the job."""
        if self.state is JobState.FAILED and (self.overdue or self.node_lost):
            return "TIMEOUT" if self.overdue else "NODE_FAIL"
        return self.state.name


class LocalScheduler:
    """The jobs of one cluster."""

    def __init__(
        self, folder: Path, nodes: Callable[[], Sequence[NodeState]], mark: str, settings: Mapping[str, str]
    ) -> None:
        """Of `settings`, the scheduler follows RequeueExit and JobRequeue."""
        self._folder = folder
        self._nodes_now = nodes
        self._mark = mark
        # Another cluster of the same sandbox has jobs of the same numbers.
        self._own_mark = f"{mark}.{secrets.token_hex(4)}"
        self._requeue_codes = requeue_codes(settings)
        self._requeues = {name.lower(): value for name, value in settings.items()}.get("jobrequeue", "1") != "0"
        self._lock = threading.RLock()
        self._jobs: dict[str, LocalJob] = {}
        self._lost: set[str] = set()
        self._drained: set[str] = set()
        self._down: set[str] = set()
        self._taken: set[str] = set()
        self._begun = datetime.now(UTC)
        self._configured = tuple(nodes())
        folder.mkdir(parents=True, mode=0o700)

    def submit(self, script: Path, *, folder: Path, environment: Mapping[str, str], options: Sequence[str] = ()) -> str:
        """Submit a batch script; return the job's id.

        `options` are those of the command line, which override the script's options.
        """
        text = script.read_text(encoding="utf-8")
        if not text.startswith("#!"):
            raise SchedulerError(f"{script.name} does not begin with #!: a batch script needs an interpreter line")
        batch = batch_options(text, script.name, options)
        # Slurm accepts a job for nodes that are down: it waits for them.
        known = {node.name: node for node in (*self._configured, *self._nodes_now())}.values()
        suitable = [node for node in known if batch.partition in ("", node.partition)]
        if batch.nodes > len(suitable):
            count = f"{len(suitable)} in partition {batch.partition or 'any'}"
            raise SchedulerError(f"{script.name} requests {batch.nodes} nodes, available: {count}")
        with self._lock:
            number = str(len(self._jobs) + 1)
            copy = self._folder / f"job-{number}.sh"
            shutil.copyfile(script, copy)
            start, variables = folder / batch.chdir, {**environment, "SLURM_SUBMIT_DIR": str(folder)}
            job = LocalJob(id=number, script=copy, folder=start, options=batch, environment=variables)
            job.thread = threading.Thread(target=self._live, args=(job,), name=f"job-{number}", daemon=True)
            self._jobs[number] = job
        job.thread.start()
        return number

    def state(self, job: str) -> JobState:
        """The state of a job."""
        with self._lock:
            return self._job(job).state

    def attempts(self, job: str) -> tuple[SchedulerAttempt, ...]:
        """The attempts of a job, oldest first."""
        with self._lock:
            return tuple(self._job(job).attempts)

    def nodes(self, job: str) -> tuple[str, ...]:
        """The nodes that a job runs on now."""
        with self._lock:
            return self._job(job).nodes

    def busy(self, node: str) -> bool:
        """Whether a job runs on a node now."""
        with self._lock:
            return node in self._taken or any(node in job.nodes for job in self._jobs.values())

    def jobs(self) -> tuple[LocalJob, ...]:
        """All jobs so far, in their current state."""
        with self._lock:
            return tuple(replace(job, attempts=list(job.attempts)) for job in self._jobs.values())

    def nodes_now(self) -> Sequence[NodeState]:
        """The current nodes."""
        return self._nodes_now()

    def step(self, job: str, nodes: Sequence[str]) -> tuple[int, dict[str, dict[str, str]]]:
        """Begin a step on some nodes of a job; return its number, and the variables that differ by node."""
        variables = {node.name: _node_variables(node) for node in self._nodes_now()}
        with self._lock:
            current = self._job(job)
            current.steps += 1
            return current.steps - 1, {name: variables[name] for name in nodes}

    def take(self, node: str) -> dict[str, str]:
        """Reserve an idle node for an srun without a job; return the node's variables.

        Raises:
            SchedulerError: it is not idle.
        """
        with self._lock:
            found = next((view for view in self._nodes_now() if view.name == node), None)
            if found is None or self.busy(node) or node in self._lost | self._drained | self._down:
                raise SchedulerError("Unable to allocate resources: Requested nodes are busy")
            self._taken.add(node)
            return _node_variables(found)

    def give(self, node: str) -> None:
        """End the reservation of a node."""
        with self._lock:
            self._taken.discard(node)

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._job(job).cancelled.set()

    def requeue(self, job: str) -> None:
        """Requeue a job after its attempt has ended."""
        with self._lock:
            self._job(job).requeued = True

    def drain(self, node: str) -> None:
        """Drain a node: it gets no more jobs."""
        with self._lock:
            self._drained.add(node)

    def resume(self, node: str) -> None:
        """Resume a drained node."""
        with self._lock:
            self._drained.discard(node)
            self._down.discard(node)

    def resume_when_free(self, node: str) -> None:
        """Resume a drained node once no job runs on it: a reboot of this computer's nodes takes no time."""
        while self.busy(node):
            time.sleep(_POLL_S)
        self.resume(node)

    def mark_down(self, node: str) -> None:
        """Mark a node as down: its jobs end and are requeued, and it gets no more jobs."""
        with self._lock:
            self._down.add(node)
        self.node_lost(node)

    def marked_down(self) -> frozenset[str]:
        """The nodes that a user has marked as down."""
        with self._lock:
            return frozenset(self._down)

    def node_state(self, node: str) -> str:
        """Slurm's words for the state of a node."""
        with self._lock:
            if node in self._down | self._lost:
                return "DOWN"
            state = "ALLOCATED" if self.busy(node) else "IDLE"
            return f"{state}+DRAIN" if node in self._drained else state

    def last_busy(self, node: str) -> datetime:
        """When the last job on a node ended, else when this scheduler began."""
        with self._lock:
            ends = [
                attempt.ended_at
                for job in self._jobs.values()
                for attempt in job.attempts
                if node in attempt.nodes and attempt.ended_at is not None
            ]
            return max([self._begun, *ends])

    def node_lost(self, node: str) -> None:
        """Record that a node is lost; jobs on it lose the attempt and are requeued."""
        with self._lock:
            self._lost.add(node)
            hit = [job for job in self._jobs.values() if node in job.nodes]
            for job in hit:
                job.node_lost = True
        for job in hit:
            processes.end(lambda job=job: self._processes(job))  # type: ignore[misc]  # bound at once

    def node_replaced(self, node: str) -> None:
        """Record that a lost node was replaced by an empty one."""
        with self._lock:
            self._lost.discard(node)
            self._drained.discard(node)
            self._down.discard(node)

    def stop(self) -> None:
        """End every job."""
        for job in list(self._jobs.values()):
            job.cancelled.set()
            processes.end(lambda job=job: self._processes(job))  # type: ignore[misc]  # bound at once
        for job in list(self._jobs.values()):
            if job.thread is not None:
                job.thread.join()

    def _job(self, job: str) -> LocalJob:
        with self._lock:
            if job not in self._jobs:
                raise SchedulerError(f"there is no job {job}")
            return self._jobs[job]

    def _live(self, job: LocalJob) -> None:
        """Run the attempts of a job until one is final. If the server is gone, no nodes exist, and the job fails."""
        try:
            while not job.state.final:
                nodes = self._wait_for_nodes(job)
                self._set(job, JobState.CANCELLED if nodes is None else self._after(job, self._attempt(job, nodes)))
        except (AwsError, ControlError, OSError) as problem:
            self._set(job, JobState.FAILED)
            logging.getLogger(__name__).warning("job %s ended: %s", job.id, problem)

    def _wait_for_nodes(self, job: LocalJob) -> tuple[NodeState, ...] | None:
        """Reserve as many free nodes as the job requests; None if the job is cancelled first."""
        while not job.cancelled.wait(_POLL_S):
            with self._lock:
                busy = {name for job in self._jobs.values() for name in job.nodes}
                blocked = busy | self._lost | self._drained | self._taken
                free = [
                    node
                    for node in self._nodes_now()
                    if node.metadata and node.name not in blocked and job.options.partition in ("", node.partition)
                ]
                if len(free) >= job.options.nodes:
                    chosen = tuple(free[: job.options.nodes])
                    job.nodes = tuple(node.name for node in chosen)
                    job.node_lost = False
                    return chosen
        return None

    def _attempt(self, job: LocalJob, nodes: tuple[NodeState, ...]) -> int:
        number = len(job.attempts) + 1
        values = {"j": job.id, "A": job.id, "x": job.options.job_name, "N": nodes[0].name}
        interpreter = shlex.split(job.script.read_text(encoding="utf-8").splitlines()[0].removeprefix("#!"))
        mode = "ab" if job.options.append else "wb"
        output = file_name(job.options.output, values, job.folder)
        with output.open(mode) as out:
            process = processes.start(
                namespaces.with_own_name_only([*interpreter, str(job.script)], nodes[0].name),
                folder=job.folder,
                environment=self._environment(job, nodes, number),
                output=out,
            )
        with self._lock:
            job.state = JobState.RUNNING
            began = SchedulerAttempt(
                number=number, started_at=datetime.now(UTC), ended_at=None, exit_code=None, signal=0, nodes=job.nodes
            )
            job.attempts.append(began)
        code = self._wait(job, process)
        # What the script left behind goes with the attempt.
        processes.end(lambda: self._processes(job))
        node_gone = code != 0 and not job.cancelled.is_set() and self._has_lost_node(nodes)
        with self._lock:
            job.node_lost = job.node_lost or node_gone
            # A script that ended before has lost nothing.
            job.node_lost = job.node_lost and code != 0
            lost = job.node_lost
            job.attempts[-1] = replace(
                began,
                ended_at=datetime.now(UTC),
                exit_code=None if lost else max(code, 0),
                signal=0 if lost else max(-code, 0),
                node_lost=lost,
            )
            job.nodes = ()
        return code

    def _has_lost_node(self, nodes: tuple[NodeState, ...]) -> bool:
        """Whether one of some nodes no longer exists: AWS's own calls do not notify this scheduler."""
        current = {node.life for node in self._nodes_now() if node.metadata}
        return any(node.life not in current for node in nodes)

    def _wait(self, job: LocalJob, process: "subprocess.Popen[bytes]") -> int:
        """Wait for the script; if it exceeds its time limit or is cancelled, terminate it, then kill it."""
        limit = job.options.time_limit_s
        deadline = time.monotonic() + limit if limit is not None else None
        while (code := process.poll()) is None:
            job.overdue = deadline is not None and time.monotonic() > deadline
            if job.overdue or job.cancelled.is_set():
                return self._terminate(job, process)
            time.sleep(_POLL_S)
        return code

    def _terminate(self, job: LocalJob, process: "subprocess.Popen[bytes]") -> int:
        # Parents first, as their numbers go: a shell whose child dies first would end with a code of its own.
        for pid in sorted(self._processes(job)):
            processes.send(pid, signal.SIGTERM)
        try:
            return process.wait(_KILL_WAIT_S)
        except subprocess.TimeoutExpired:
            processes.end(lambda: self._processes(job))
            return process.wait()

    def _after(self, job: LocalJob, code: int) -> JobState:
        requeues = self._requeues if job.options.requeue is None else job.options.requeue
        if job.cancelled.is_set():
            return JobState.CANCELLED
        if job.requeued:
            job.requeued = False
            return JobState.PENDING
        if requeues and (job.node_lost or code in self._requeue_codes):
            return JobState.PENDING
        return JobState.COMPLETED if code == 0 else JobState.FAILED

    def _set(self, job: LocalJob, state: JobState) -> None:
        with self._lock:
            job.state = state

    def _processes(self, job: LocalJob) -> set[int]:
        return processes.with_descendants(processes.marked_processes(_JOB_MARK, f"{self._own_mark}.{job.id}"))

    def _environment(self, job: LocalJob, nodes: tuple[NodeState, ...], number: int) -> dict[str, str]:
        """The environment of a script: the submission's, Slurm's variables, and those of the first node."""
        names, options, first = ",".join(node.name for node in nodes), job.options, nodes[0]
        slurm = {
            "SLURM_JOB_ID": job.id,
            "SLURM_JOBID": job.id,
            "SLURM_JOB_NAME": options.job_name,
            "SLURM_JOB_PARTITION": first.partition,
            "SLURM_JOB_NODELIST": names,
            "SLURM_NODELIST": names,
            "SLURM_JOB_NUM_NODES": str(len(nodes)),
            "SLURM_NNODES": str(len(nodes)),
            "SLURM_NTASKS_PER_NODE": str(options.tasks_per_node),
            "SLURM_NTASKS": str(len(nodes) * options.tasks_per_node),
            "SLURM_CPUS_ON_NODE": str(first.cpus),
            "SLURM_CLUSTER_NAME": "parallelcluster",
            "SLURMD_NODENAME": first.name,
            "SLURM_NODEID": "0",
            "SLURM_PROCID": "0",
            "SLURM_LOCALID": "0",
            **({"SLURM_RESTART_COUNT": str(number - 1)} if number > 1 else {}),
        }
        variables = {
            **_node_variables(first),
            MARK: self._mark,
            _JOB_MARK: f"{self._own_mark}.{job.id}",
        }
        return {**job.environment, **slurm, **variables}


def _node_variables(node: NodeState) -> dict[str, str]:
    return node_environment(metadata=node.metadata, scratch=node.scratch, life=node.life)
