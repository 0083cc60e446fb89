"""Jobs on a private Slurm, through its commands; attempts come from the records of its prolog and epilog."""

import json
import os
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launcher.model.emulator import MARK
from launcher.model.job import JobState, SchedulerAttempt
from launcher.sandbox.sandbox import Sandbox
from launcher.sandbox.slurm.daemons import client_environment
from launcher.submit import slurm_output
from launcher.submit.jobs import SchedulerError

_NOT_PENDING = "no longer pending"
"""From scontrol's text for a job that has started (ESLURM_JOB_NOT_PENDING)."""


class SlurmJobs:
    """The private Slurm of one cluster, as its user sees it."""

    def __init__(self, configuration: Path, attempts: Path, mark: str) -> None:
        """Store how to reach the cluster.

        Args:
            configuration: its slurm.conf.
            attempts: the file that its prolog and epilog write.
            mark: the mark of this sandbox's processes.
        """
        self._configuration = configuration
        self._attempts = attempts
        self._mark = mark
        self._lost: set[tuple[str, int]] = set()

    def submit(self, script: Path, *, folder: Path, environment: Mapping[str, str]) -> str:
        """Submit a batch script; return the job's id."""
        client = client_environment(self._configuration)
        path = f"{environment.get('PATH', '')}:{client['PATH']}".lstrip(":")
        whole = {**environment, **client, "PATH": path, MARK: self._mark}
        printed = self._run("sbatch", "--parsable", str(script.resolve()), environment=whole, folder=folder)
        return slurm_output.parse_sbatch(printed)

    def state(self, job: str) -> JobState:
        """The state of a job."""
        return slurm_output.state_of(self._field(job, "JobState"))

    def attempts(self, job: str) -> tuple[SchedulerAttempt, ...]:
        """The attempts of a job, oldest first."""
        attempt_by_number: dict[int, SchedulerAttempt] = {}
        for record in self._records():
            if record["job"] != job:
                continue
            number = record["restart"] + 1
            at = datetime.fromtimestamp(record["time"], UTC)
            code, _, number_of_signal = record["code"].partition(":")
            ended = record["event"] == "end"
            before = attempt_by_number.get(number)
            # Slurm itself has no exit code for an attempt whose node is gone, and says 0.
            lost = (job, number) in self._lost
            attempt_by_number[number] = SchedulerAttempt(
                number=number,
                started_at=before.started_at if before else at,
                ended_at=at if ended else None,
                exit_code=int(code) if ended and code and not lost else None,
                signal=int(number_of_signal or 0) if ended else 0,
                nodes=slurm_output.hosts(record["nodes"]),
                node_lost=lost,
            )
        return tuple(attempt_by_number[number] for number in sorted(attempt_by_number))

    def nodes(self, job: str) -> tuple[str, ...]:
        """The nodes that a job runs on now."""
        if self.state(job) is not JobState.RUNNING:
            return ()
        return tuple(self._run("scontrol", "show", "hostnames", self._field(job, "NodeList")).split())

    def busy(self, node: str) -> bool:
        """Whether a job runs on a node now."""
        return bool(self._run("squeue", "--noheader", "--format=%i", f"--nodelist={node}").strip())

    def release(self, job: str) -> None:
        """Let a requeued job start one second from now.

        Not immediately: slurmd refuses the credential of an attempt in the second in which the previous one ended ("Job
        credential revoked"), and the job would count as failed. Slurm may start the job between the query and the
        update; the update is then unnecessary, and its refusal is no failure.
        """
        if self._field(job, "JobState") != "PENDING":
            return
        try:
            self._run("scontrol", "update", f"jobid={job}", "StartTime=now+1")
        except SchedulerError as problem:
            if _NOT_PENDING not in str(problem):
                raise

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._run("scancel", job)

    def node_lost(self, node: str) -> None:
        """Record the attempts that end with the node; the server notifies Slurm."""
        for job in {record["job"] for record in self._records()}:
            for attempt in self.attempts(job):
                if attempt.ended_at is None and node in attempt.nodes:
                    self._lost.add((job, attempt.number))

    def _records(self) -> list[dict[str, Any]]:
        """The records of prolog and epilog, oldest first."""
        if not self._attempts.is_file():
            return []
        return [json.loads(line) for line in self._attempts.read_text(encoding="utf-8").splitlines()]

    def _field(self, job: str, field: str) -> str:
        printed = self._run("scontrol", "--oneliner", "show", "job", job)
        value = slurm_output.field(printed, field)
        if value is None:
            raise SchedulerError(f"scontrol says nothing of {field} of job {job}")
        return value

    def _run(self, *arguments: str, environment: Mapping[str, str] | None = None, folder: Path | None = None) -> str:
        whole = dict(environment) if environment is not None else client_environment(self._configuration)
        try:
            done = subprocess.run(arguments, env=whole, cwd=folder, capture_output=True, text=True, check=False)
        except OSError as error:
            raise SchedulerError(f"{arguments[0]}: {error.strerror}") from error
        if done.returncode != 0:
            raise SchedulerError(f"{' '.join(arguments)}: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stdout


class LocalJobs:
    """As `SlurmJobs`, for the local scheduler."""

    def __init__(self, sandbox: Sandbox, cluster: str) -> None:
        """Store the sandbox and the cluster's name."""
        self._sandbox, self.cluster_facts = sandbox, cluster

    def submit(self, script: Path, *, folder: Path, environment: Mapping[str, str]) -> str:
        """Submit a batch script; return the job's id."""
        return self._run("sbatch", "--parsable", str(script.resolve()), environment=environment, folder=folder).strip()

    def state(self, job: str) -> JobState:
        """The state of a job."""
        return slurm_output.state_of(self._job(job)["state"])

    def attempts(self, job: str) -> tuple[SchedulerAttempt, ...]:
        """The attempts of a job, oldest first."""
        return tuple(
            SchedulerAttempt(
                **{
                    **attempt,
                    "nodes": tuple(attempt["nodes"]),
                    "started_at": datetime.fromisoformat(attempt["started_at"]),
                    "ended_at": None if attempt["ended_at"] is None else datetime.fromisoformat(attempt["ended_at"]),
                }
            )
            for attempt in self._job(job)["attempts"]
        )

    def nodes(self, job: str) -> tuple[str, ...]:
        """The nodes that a job runs on now."""
        return self.attempts(job)[-1].nodes if self.state(job) is JobState.RUNNING else ()

    def cancel(self, job: str) -> None:
        """Cancel a job."""
        self._run("scancel", job, environment=os.environ)

    def release(self, job: str) -> None:
        """Do nothing: a requeued job waits only for its nodes."""

    def node_lost(self, node: str) -> None:
        """Do nothing: the sandbox notifies the scheduler itself."""

    def _job(self, job: str) -> Mapping[str, Any]:
        return next(record for record in self._sandbox.jobs(self.cluster_facts) if record["id"] == job)

    def _run(self, *arguments: str, environment: Mapping[str, str], folder: Path | None = None) -> str:
        variables = self._sandbox.call("scheduler", cluster=self.cluster_facts, path=environment.get("PATH", ""))
        done = subprocess.run(
            arguments, env={**environment, **variables}, cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SchedulerError(f"{' '.join(arguments)}: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stdout


def jobs_on(sandbox: Sandbox, cluster: str) -> SlurmJobs | LocalJobs:
    """The jobs of a sandbox's cluster."""
    facts = sandbox.cluster_facts(cluster)
    if facts["scheduler"] == "slurm":
        return SlurmJobs(Path(facts["slurm_conf"]), Path(facts["attempts"]), sandbox._mark)
    return LocalJobs(sandbox, cluster)
