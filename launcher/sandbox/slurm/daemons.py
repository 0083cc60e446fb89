"""A private Slurm: munged, slurmctld and a slurmd for each node, all under one folder, as root or as any user.

Tested with Slurm 22.05.8. If the host's name resolves to an address that is not on loopback, Slurm listens on all
addresses, because it has no other setting. A client needs the folder's munge key.
"""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from launcher.model.emulator import MARK
from launcher.model.errors import ImpossibleError
from launcher.sandbox import namespaces, processes
from launcher.sandbox.cluster.specification import ClusterSpec
from launcher.sandbox.slurm import files
from launcher.sandbox.slurm.files import SlurmPlaces

_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "sinfo", "sdiag", "srun", "scancel")
_START_S = 30.0
_SILENCE_S = 150.0
"""Limit for unsent messages: the controller resends after a minute, RPC_RETRY_INTERVAL of slurmctld.h (Slurm 22.05)."""
_STOP_S = 10.0
_ORDERLY_S = 3.0
"""Seconds for daemons to end in order; a slurmd without a controller needs longer than is worth the wait."""
_POLL_S, _LONGEST_POLL_S = 0.05, 0.4
_ATTEMPTS = 3
_IDLE = frozenset({"idle"})
_UP = frozenset({"idle", "mixed", "allocated"})
"""Accepted states of a replacement node: a job that waited for the node may already run on it."""
_QUIET = re.compile(r"^Agent queue size:\s+0\s+Agent count:\s+0\s", re.MULTILINE)
"""Output of sdiag if the controller has no message on its way to a node."""
_LOG_LINES = 8


class SlurmError(RuntimeError):
    """An error of Slurm, with the end of its log."""


def search_path() -> str:
    """PATH with the folders of daemons, which a user's own PATH often lacks."""
    return f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"


def missing(path: str | None = None) -> str:
    """The reason if a part of Slurm is not installed; empty if all parts are.

    `path` replaces PATH; None: the usual folders of daemons and commands.

    >>> missing("/nowhere")
    'slurmctld is not installed'
    """
    absent = [name for name in _PROGRAMS if shutil.which(name, path=path or search_path()) is None]
    first = "slurmctld" if "slurmctld" in absent else next(iter(absent), "")
    return f"{first} is not installed" if first else ""


def available() -> bool:
    """Whether a private Slurm can be started."""
    return not missing()


def uses_private_slurm(scheduler: str) -> bool:
    """Whether clusters get a private Slurm, for a requested scheduler: "slurm", "local", "auto".

    Raises:
        ImpossibleError: the scheduler is unknown, or Slurm was requested and is not installed.
    """
    if scheduler not in ("auto", "slurm", "local"):
        raise ImpossibleError(f"no scheduler {scheduler!r}, allowed: auto, slurm, local")
    if scheduler == "slurm" and not available():
        hint = "apt-get install --no-install-recommends slurm-wlm munge, or leave the choice to the sandbox"
        raise ImpossibleError(missing(), hint=hint)
    return scheduler != "local" and available()


class PrivateSlurm:
    """The daemons of one cluster. They are children of the process that started them, which reaps them."""

    def __init__(self, places: SlurmPlaces, spec: ClusterSpec, mark: str) -> None:
        self.places = places
        self._spec = spec
        self._mark = mark
        self._names = files.node_names(spec)
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start the daemons and wait until every node is idle."""
        for attempt in range(1, _ATTEMPTS + 1):
            files.write(self.places, self._spec, _free_ports(len(self._names) + 1), _path_of("srun"))
            try:
                self._start_daemons()
            except SlurmError:
                self.stop()
                # Another process may have taken a port in between; anything else fails again.
                if attempt == _ATTEMPTS or not self._lost_a_port():
                    raise
            else:
                return

    def stop(self) -> None:
        """End every daemon and every job; no process remains."""
        for daemon in self._daemons.values():
            if daemon.poll() is None:
                daemon.terminate()
        deadline = time.monotonic() + _ORDERLY_S
        for daemon in self._daemons.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                daemon.wait(max(0.0, deadline - time.monotonic()))
        processes.end(self._stray, within_s=_STOP_S)
        for daemon in self._daemons.values():
            daemon.wait()
        self._daemons.clear()

    def kill_node(self, name: str) -> None:
        """Simulate the loss of an instance: kill slurmd, job steps and ranks together."""
        daemon = self._daemons.pop(name)
        processes.end(lambda: self._node_processes(name, daemon.pid), within_s=_STOP_S)
        daemon.wait()
        (self.places.folder / f"{name}.pid").unlink(missing_ok=True)

    def declare_down(self, name: str, reason: str) -> None:
        """Report to the controller that a node is down, as the owner of its instance does; its jobs are requeued."""
        self.run("scontrol", "update", f"nodename={name}", "state=down", f"reason={reason}")

    def start_node(self, name: str) -> None:
        """Start the slurmd of a replacement instance and make the controller use it.

        Its spool is empty: the old instance's state of jobs, including revoked credentials, is lost with the instance.
        Unlike a real replacement, it has the old address: the controller tries for seconds, at worst for more than a
        minute, to end the job there, and would end the next attempt. The slurmd starts only after the controller has
        given up.
        """
        spool = self.places.spool(self._names.index(name))
        shutil.rmtree(spool)
        spool.mkdir(mode=0o700)
        self._wait_for("slurmctld", self._is_silent, within_s=_SILENCE_S)
        self._start_slurmd(name)
        self._wait_until({name}, _UP)

    def reboot_requested(self) -> list[str]:
        """The nodes whose RebootProgram has run since the last call."""
        requested = []
        for index, name in enumerate(self._names):
            if self.places.reboot_request(index).is_file():
                self.places.reboot_request(index).unlink()
                requested.append(name)
        return requested

    def reboot_node(self, name: str) -> None:
        """Start the slurmd of a node again as after a boot (slurmd -b): Slurm waits for that after RebootProgram."""
        self.kill_node(name)
        self._start_slurmd(name, "-b")

    def run(self, *command: str) -> str:
        """Run one of Slurm's commands; return its output."""
        done = subprocess.run(command, env=self._environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SlurmError(f"{' '.join(command)}: {done.stderr.strip() or f'exit {done.returncode}'}")
        return done.stdout

    def _start_daemons(self) -> None:
        folder = self.places.folder
        self._spawn(
            "munged",
            "--foreground",
            "--force",
            f"--socket={self.places.munge_socket}",
            f"--key-file={folder}/munge.key",
            f"--log-file={folder}/log/munged.log",
            f"--pid-file={folder}/munged.pid",
            f"--seed-file={folder}/munge.seed",
        )
        self._wait_for("munged", self.places.munge_socket.exists)
        self._spawn("slurmctld", "-D", "-f", str(self.places.configuration))
        for name in self._names:
            self._start_slurmd(name)
        self._wait_until(set(self._names), _IDLE)
        self._check_processors()

    def _check_processors(self) -> None:
        """Refuse if Slurm uses fewer processors than configured: sockets, cores and threads may not match `CPUs`."""
        expected = {name: group.cpus for group in self._spec.groups for name in group.node_names()}
        for line in self.run("sinfo", "--noheader", "--Node", "--format=%N %c").splitlines():
            name, count = line.split()
            if int(count) != expected[name]:
                raise SlurmError(
                    f"{name}: Slurm counts {count} of its {expected[name]} processors (CustomSlurmSettings)"
                )

    def _start_slurmd(self, name: str, *options: str) -> None:
        configuration = self.places.node_configuration(self._names.index(name))
        self._spawn(name, "-D", "-f", str(configuration), "-N", name, *options, program="slurmd")

    def _spawn(self, name: str, *arguments: str, program: str = "") -> None:
        # A node resolves the head node and itself, as in PCS; slurm.conf has the addresses of all.
        here = os.uname().nodename
        hosts = {here: files.loopback_address(here) or "127.0.0.1"}
        mounts = {}
        if name in self._names:
            hosts |= {name: namespaces.node_address(name)}
            mounts = {_path_of("srun"): str(self.places.node_srun)}
        command = namespaces.on_node(
            [_path_of(program or name), *arguments],
            name=name if name in self._names else here,
            hosts=hosts,
            mounts=mounts,
        )
        with (self.places.folder / "log" / f"{name}.out").open("ab") as out:
            self._daemons[name] = processes.start(
                command, folder=Path.cwd(), environment=self._environment(), output=out
            )

    def _environment(self) -> dict[str, str]:
        return client_environment(self.places.configuration) | {MARK: self._mark}

    def _wait_until(self, names: set[str], ready_states: frozenset[str]) -> None:
        """Wait until nodes are in a state; resume drained or down nodes as soon as they have registered."""

        def up() -> bool:
            states = self._states()
            for name in names:
                if any(state in states.get(name, "") for state in ("down", "drain")) and "*" not in states[name]:
                    with contextlib.suppress(SlurmError):
                        self.run("scontrol", "update", f"nodename={name}", "state=resume")
            return all(states.get(name) in ready_states for name in names)

        self._wait_for(next(iter(names)), up)

    def _is_silent(self) -> bool:
        try:
            return _QUIET.search(self.run("sdiag")) is not None
        except SlurmError:
            return False

    def _states(self) -> dict[str, str]:
        """The state of every node, with Slurm's marks: "idle", "down*" ..., empty while the controller is not up."""
        try:
            lines = self.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines()
        except SlurmError:
            return {}
        return {name: state for name, _, state in (line.partition(" ") for line in lines)}

    def _wait_for(self, name: str, ready: Callable[[], bool], *, within_s: float = _START_S) -> None:
        begin = time.monotonic()
        while not ready():
            waited_s = time.monotonic() - begin
            ended = [name for name, daemon in self._daemons.items() if daemon.poll() is not None]
            if ended:
                raise SlurmError(f"{ended[0]} ended by itself: {self._end_of_log(ended[0])}")
            if waited_s > within_s:
                raise SlurmError(f"{name} is not ready after {within_s:g} s: {self._end_of_log(name)}")
            # Each check starts one of Slurm's commands: the pauses grow with the wait.
            time.sleep(min(max(_POLL_S, waited_s / 10), _LONGEST_POLL_S))

    def _end_of_log(self, name: str) -> str:
        try:
            lines = (self.places.folder / "log" / f"{name}.out").read_text(errors="replace").splitlines()
        except OSError:
            return "no log"
        return " | ".join(lines[-_LOG_LINES:]) or "its log is empty"

    def _lost_a_port(self) -> bool:
        logs = (self.places.folder / "log").glob("*.out")
        return any("Address already in use" in log.read_text(errors="replace") for log in logs)

    def _node_processes(self, name: str, daemon: int) -> set[int]:
        return processes.with_descendants({daemon} | processes.holding({self.places.log(name).resolve()}))

    def _stray(self) -> set[int]:
        """The remaining processes: daemons that do not end, and job steps, which outlive their slurmd by design."""
        logs = {self.places.log(name).resolve() for name in self._names}
        running = {daemon.pid for daemon in self._daemons.values() if daemon.poll() is None}
        return processes.with_descendants(running | processes.holding(logs))


def _path_of(program: str) -> str:
    path = shutil.which(program, path=search_path())
    if path is None:
        raise SlurmError(f"{program} is not installed")
    return path  # no link is followed: a daemon of Slurm reads its role from its name


def client_environment(configuration: Path) -> dict[str, str]:
    """The environment variables that a process needs to use a private Slurm."""
    return {"PATH": search_path(), "SLURM_CONF": str(configuration), "LC_ALL": "C.UTF-8"}


def _free_ports(number: int) -> list[int]:
    """Free ports. All are held open before the first is released, so that no two are equal."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for socket_ in sockets:
            socket_.bind(("127.0.0.1", 0))
        return [int(socket_.getsockname()[1]) for socket_ in sockets]
