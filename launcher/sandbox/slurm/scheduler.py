"""The scheduler of a cluster, seen from the sandbox: the connection to it, and what the loss of a node needs."""

import subprocess
from pathlib import Path
from typing import Any, Protocol

from launcher.sandbox.slurm.daemons import client_environment
from launcher.submit.jobs import SchedulerError


class Scheduler(Protocol):
    """Slurm, or what answers its commands."""

    @property
    def name(self) -> str:
        """The name in the report: "slurm" or "local"."""

    def environment(self, path: str) -> dict[str, str]:
        """The environment variables with which a process's commands reach it; `path` is the PATH of the process."""

    def busy(self, node: str) -> bool:
        """Whether a job runs on a node now."""

    def jobs(self) -> list[dict[str, Any]]:
        """Its jobs as JSON values: `id`, `name`, `state`, and `attempts` if the scheduler counts them itself."""

    def node_lost(self, node: str) -> None:
        """Take note that a node and all that ran on it are gone."""

    def node_replaced(self, node: str) -> None:
        """Record that a lost node was replaced by an empty one."""

    def stop(self) -> None:
        """End what it runs itself."""


class SlurmScheduler:
    """The private Slurm of one cluster. The server's process reports nodes to it, and ends it."""

    name = "slurm"

    def __init__(self, configuration: Path) -> None:
        self._configuration = configuration

    def environment(self, path: str) -> dict[str, str]:
        """The environment variables with which a process's commands reach it."""
        client = client_environment(self._configuration)
        return {**client, "PATH": f"{path}:{client['PATH']}".lstrip(":")}

    def busy(self, node: str) -> bool:
        """Whether a job runs on a node now."""
        return bool(self._queue("--format=%i", f"--nodelist={node}").strip())

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs that Slurm still knows: `id`, `name` and `state`, in its own words."""
        rows = [line.split("|", 2) for line in self._queue("--states=all", "--format=%i|%T|%j").splitlines()]
        return [{"id": job, "name": name, "state": state} for job, state, name in rows]

    def _queue(self, *options: str) -> str:
        words = ("squeue", "--noheader", *options)
        done = subprocess.run(words, env=self.environment(""), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SchedulerError(f"{' '.join(words)}: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stdout

    def node_lost(self, node: str) -> None:
        """Nothing to do."""

    def node_replaced(self, node: str) -> None:
        """Nothing to do."""

    def stop(self) -> None:
        """Nothing to do."""
