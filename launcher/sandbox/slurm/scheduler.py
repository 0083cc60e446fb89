"""The scheduler of a cluster for the rest of the sandbox: the connection to it, and the handling of lost nodes."""

import subprocess
from pathlib import Path
from typing import Any, Protocol

from launcher.sandbox.slurm.daemons import client_environment
from launcher.submit.jobs import SchedulerError


class Scheduler(Protocol):
    """Slurm, or the program that answers its commands."""

    @property
    def name(self) -> str:
        """The scheduler's name in the report: "slurm" or "local"."""

    def environment(self, path: str) -> dict[str, str]:
        """The environment variables with which a process reaches the scheduler; `path` is the PATH of the process."""

    def busy(self, node: str) -> bool:
        """Whether a job runs on a node now."""

    def jobs(self) -> list[dict[str, Any]]:
        """The jobs as JSON values: `id`, `name` and `state`, and `attempts` if the scheduler counts them itself."""

    def node_lost(self, node: str) -> None:
        """Record that a node is lost with all its processes."""

    def node_replaced(self, node: str) -> None:
        """Record that a lost node was replaced by an empty one."""

    def marked_down(self) -> frozenset[str]:
        """The nodes that are down although they respond: a user has marked them."""

    def stop(self) -> None:
        """End the processes that the scheduler itself runs."""


class SlurmScheduler:
    """The private Slurm of one cluster. It runs in the server's process, which reports lost nodes, and ends with it."""

    name = "slurm"

    def __init__(self, configuration: Path) -> None:
        self._configuration = configuration

    def environment(self, path: str) -> dict[str, str]:
        """The environment variables with which a process reaches Slurm; `path` is the PATH of the process."""
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
        return self._run_client("squeue", "--noheader", *options)

    def _run_client(self, *command: str) -> str:
        done = subprocess.run(command, env=self.environment(""), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SchedulerError(f"{' '.join(command)}: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stdout

    def marked_down(self) -> frozenset[str]:
        """The nodes that are down although they respond: a user has marked them."""
        lines = self._run_client("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        return frozenset(name for name, _, state in (line.partition(" ") for line in lines) if state.strip() == "down")

    def node_lost(self, node: str) -> None:
        """Do nothing: the cluster reports the loss to Slurm."""

    def node_replaced(self, node: str) -> None:
        """Do nothing: the cluster starts the node's slurmd."""

    def stop(self) -> None:
        """Do nothing: the cluster ends the daemons."""
