"""The kubelet of one pod: its containers are processes on this computer, from the first init container to the end."""

import errno
import io
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launcher.model.emulator import MARK
from launcher.sandbox import namespaces, processes
from launcher.sandbox.kubernetes import containers
from launcher.sandbox.kubernetes.containers import ContainerError, FindObject, Paths
from launcher.sandbox.kubernetes.store import now

Object = dict[str, Any]
POD_MARK = "SLIPWAY_SANDBOX_POD"
_NOT_STARTED = 128
FORCED_GRACE_S = 1.0
"""Seconds until a pod that was deleted by force is killed (kubernetes, pkg/kubelet/pod_workers.go: at least one)."""
_LONGEST_WORD = 4096
"""Retained bytes of a termination message, from its end (kubernetes, pkg/kubelet/container/runtime.go)."""
_POLL_S = 0.05
_BACK_OFF_S, _LONGEST_BACK_OFF_S = 0.5, 10.0
"""Back-off of a failed container: in Kubernetes 10 s, doubled up to 300 s; here shorter."""


class PodRun(threading.Thread):
    """The run of one pod on a node."""

    def __init__(
        self,
        pod: Mapping[str, Any],
        folder: Path,
        *,
        claims: Path,
        environment: Mapping[str, str],
        mark: str,
        find: FindObject,
        services: frozenset[str],
        report: Callable[[Object], None],
        fail: Callable[[Exception], None],
        event: Callable[[str, str, str], None],
    ) -> None:
        super().__init__(name=f"pod-{pod['metadata']['name']}", daemon=True)
        self._pod = pod
        self._folder, self._claims = folder, claims
        self._environment = {**environment, POD_MARK: f"{mark}.{pod['metadata']['uid']}", MARK: mark}
        self._word = self._environment[POD_MARK]
        self._find, self._services, self._report, self._notify = find, services, report, event
        self._fail = fail
        self._volumes: dict[str, Path] = {}
        self._statuses: dict[str, Object] = {}
        self._started_at = now()
        self._leaving = threading.Event()
        self._kill_at: float | None = None
        self.lost = False
        """Whether the node is gone."""

    def terminate(self, grace_s: float) -> None:
        """End the pod: SIGTERM to the first process of each container, SIGKILL after the grace period."""
        kill_at = time.monotonic() + grace_s
        self._kill_at = kill_at if self._kill_at is None else min(kill_at, self._kill_at)
        self._leaving.set()

    def lose(self) -> None:
        """The node is lost: end all processes immediately, without a report."""
        self.lost = True
        self._kill_at = time.monotonic()
        self._leaving.set()
        if self.is_alive():  # else `run` has ended its processes
            processes.end(self._processes)

    def log(self, container: str) -> Path:
        """The log file of a container's output, each line with its time."""
        return self._folder / "logs" / f"{container}.log"

    def run(self) -> None:
        """Run the pod to its end."""
        try:
            phase = self._live()
        except ContainerError as problem:
            self._notify("Warning", "Failed", str(problem))
            phase = "Failed"
        except Exception as problem:  # noqa: BLE001 - the pod would be said to run for ever, whatever it was
            self._fail(problem)
            phase = "Failed"
        finally:
            processes.end(self._processes)
        if not self.lost:
            self._set_phase(phase)
        shutil.rmtree(self._folder / "volumes", ignore_errors=True)

    def _live(self) -> str:
        spec = self._pod["spec"]
        self._folder.joinpath("logs").mkdir(parents=True, exist_ok=True)
        self._volumes = containers.create_volumes(self._pod, self._folder, self._claims, self._find)
        for part in ("initContainers", "containers"):
            for waiting in spec.get(part, ()):
                self._statuses[waiting["name"]] = _waiting(waiting, "PodInitializing")
        for container in spec.get("initContainers", ()):
            if self._until_done(container, policy="Never" if spec["restartPolicy"] == "Never" else "OnFailure") != 0:
                return "Failed"
        threads = [threading.Thread(target=self._until_done, args=(container,)) for container in spec["containers"]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        codes = [
            self._statuses[container["name"]]["state"].get("terminated", {}).get("exitCode")
            for container in spec["containers"]
        ]
        return "Succeeded" if all(code == 0 for code in codes) else "Failed"

    def _until_done(self, container: Mapping[str, Any], *, policy: str = "") -> int:
        policy = policy or self._pod["spec"]["restartPolicy"]
        pause = _BACK_OFF_S
        while True:
            code = self._once(container)
            again = policy == "Always" or (policy == "OnFailure" and code != 0)
            if not again or self._leaving.is_set():
                return code
            status = self._statuses[container["name"]]
            status["lastState"], status["restartCount"] = status["state"], status["restartCount"] + 1
            status["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {pause:g}s"}}
            self._set_phase("Running")
            self._notify("Warning", "BackOff", f"Back-off restarting failed container {container['name']}")
            if self._leaving.wait(pause):
                return code
            pause = min(pause * 2, _LONGEST_BACK_OFF_S)

    def _once(self, container: Mapping[str, Any]) -> int:
        """Run a container's command once; return its exit code, or a container runtime's 128 if it cannot start."""
        name, status = container["name"], self._statuses[container["name"]]
        if self._leaving.is_set():
            self._end_container(name, 137, now())
            return 137
        try:
            self._last_word(name).write_bytes(b"")
            log = self.log(name).open("ab", buffering=0)
        except FileNotFoundError:
            if not self.lost:
                raise
            self._end_container(name, 137, now())  # the folder of a lost node is gone
            return 137
        try:
            process = self._spawn(container)
        except ContainerError as problem:
            log.close()
            self._notify("Warning", "Failed", f"Error: {problem}")
            status["state"] = {"waiting": {"reason": problem.reason, "message": str(problem)}}
            self._set_phase("Pending")
            if problem.reason in ("CreateContainerConfigError", "ImagePullBackOff"):
                self._leaving.wait()  # the kubelet waits for what is missing
            self._end_container(name, _NOT_STARTED, now())
            return _NOT_STARTED
        status["state"] = {"running": {"startedAt": now()}}
        status |= {"started": True, "ready": True}
        self._set_phase("Running" if container in self._pod["spec"]["containers"] else "Pending")
        self._notify("Normal", "Started", f"Started container {name}")
        began = now()
        pump = threading.Thread(target=_pump, args=(process, log), daemon=True)
        pump.start()
        code = self._watch_process(process)
        if len(self._pod["spec"]["containers"]) == 1:
            processes.end(self._processes)  # with the first process goes the container
        pump.join(2.0)
        self._end_container(name, code if code >= 0 else 128 - code, began)
        return code if code >= 0 else 128 - code

    def start_program(self, command: Sequence[str], **streams: Any) -> "subprocess.Popen[bytes]":
        """Start a program in the first container, next to its own processes."""
        paths, _, environment, workdir = self._inside(self._pod["spec"]["containers"][0])
        placed = [paths(argument) for argument in command]
        if shutil.which(placed[0], path=environment.get("PATH")) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), placed[0])
        return subprocess.Popen(self._on_node(placed), cwd=workdir, env=environment, start_new_session=True, **streams)

    def _spawn(self, container: Mapping[str, Any]) -> "subprocess.Popen[bytes]":
        paths, variables, environment, workdir = self._inside(container)
        command = [*container.get("command", ()), *container.get("args", ())]
        command = [paths(containers.expand_names(argument, variables)) for argument in command]
        containers.program_of({**container, "command": command if container.get("command") else []}, environment)
        workdir.mkdir(parents=True, exist_ok=True)
        try:
            return processes.start(self._on_node(command), folder=workdir, environment=environment)
        except OSError as problem:
            raise ContainerError("RunContainerError", str(problem)) from problem

    def _inside(self, container: Mapping[str, Any]) -> tuple[Paths, dict[str, str], dict[str, str], Path]:
        """The environment of a container: its paths, its own variables, all variables, its working folder."""
        paths = Paths(container, self._volumes, self._services, self._last_word(container["name"]))
        variables = containers.variables(container, self._pod, self._find)
        names = containers.own_names(container)
        placed = {name: value if name in names else paths(value) for name, value in variables.items()}
        environment = {**self._environment, **placed}
        environment["HOSTNAME"] = self._host_name
        workdir = Path(paths(container.get("workingDir", ""))) if container.get("workingDir") else self._folder
        return paths, variables, environment, workdir

    @property
    def _host_name(self) -> str:
        return str(self._pod["spec"].get("hostname") or self._pod["metadata"]["name"])

    def _on_node(self, command: Sequence[str]) -> list[str]:
        """The command in the pod's own names: it resolves its own, as in a hosts file that the kubelet writes."""
        return namespaces.on_node(
            command, name=self._host_name, hosts={self._host_name: containers.address_of(self._pod)}
        )

    def _watch_process(self, process: "subprocess.Popen[bytes]") -> int:
        reported = False
        while (code := process.poll()) is None:
            if self._leaving.is_set() and not reported:
                reported = True
                processes.send(process.pid, signal.SIGTERM)
            if self._kill_at is not None and time.monotonic() >= self._kill_at:
                processes.end(self._processes)
                return process.wait()
            time.sleep(_POLL_S)
        return code

    def _last_word(self, container: str) -> Path:
        """The file of a container's termination message, emptied at each start."""
        return self._folder / "logs" / f"{container}.last-word"

    def _processes(self) -> set[int]:
        return processes.with_descendants(processes.marked_processes(POD_MARK, self._word))

    def _end_container(self, name: str, code: int, began: str) -> None:
        reason = "Completed" if code == 0 else "Error"
        ended = {"exitCode": code, "reason": reason, "startedAt": began, "finishedAt": now()}
        last_word = self._last_word(name)
        if last_word.is_file() and last_word.stat().st_size:
            ended["message"] = last_word.read_bytes()[-_LONGEST_WORD:].decode(errors="replace")
        self._statuses[name]["state"] = {"terminated": ended}
        self._statuses[name] |= {"ready": False, "started": False}

    def _set_phase(self, phase: str) -> None:
        if self.lost:
            return
        spec = self._pod["spec"]
        parts = {
            "initContainerStatuses": [
                self._statuses[container["name"]] for container in spec.get("initContainers", ()) if self._statuses
            ],
            "containerStatuses": [
                self._statuses[container["name"]] for container in spec["containers"] if self._statuses
            ],
        }
        status = {
            "phase": phase,
            "startTime": self._started_at,
            "podIP": containers.address_of(self._pod),
            "hostIP": "127.0.0.1",
        }
        self._report({**status, **{name: [dict(row) for row in rows] for name, rows in parts.items() if rows}})


def _pump(process: "subprocess.Popen[bytes]", log: io.FileIO) -> None:
    with log:
        processes.each_line(process, lambda line: log.write(_stamp() + b" " + line))


def _stamp() -> bytes:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "000Z").encode()


def _waiting(container: Mapping[str, Any], reason: str) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": 0,
        "state": {"waiting": {"reason": reason}},
        "lastState": {},
    }
