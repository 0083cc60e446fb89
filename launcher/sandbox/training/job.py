"""One training job of the sandbox: its states over time, and its nodes as processes of this computer.

A node has its own folder in place of /opt/ml and /tmp, with the files that SageMaker writes for a container (developer
guide, "How Amazon SageMaker AI Provides Training Information"). Emulated: the states in their order, stop and time
limits (SIGTERM, SIGKILL 120 seconds later), interruptions of managed spot without notice, SageMaker's own retries, the
failure file, billed seconds; where root may, the containers' host name "aws" and hosts file (algo-1, algo-2). Times
are short: a phase without work lasts a moment. Not emulated: images (programs are this computer's), warm pools,
metrics, uploads of /opt/ml/model and output.
"""

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from launcher.model.emulator import MARK
from launcher.sandbox import namespaces, processes

NODE = "SLIPWAY_SANDBOX_TRAINING_NODE"
"""Environment variable of every process of a node in one attempt of a job."""
ML = "/opt/ml"
HOST_NAME = "aws"
"""Every container calls itself so, and does not resolve it (aws/deep-learning-containers@e0ecede, changehostname.c)."""
PHASE_S, POLL_S = 0.3, 0.1
GRACE_S = 120.0
"""Seconds from SIGTERM to SIGKILL (developer guide, "How Amazon SageMaker AI Runs Your Training Image")."""
SPOT_SHARE = 0.35
"""The billed share of a second of managed spot: AWS publishes none; this is the middle of the quote."""
NOT_COUNTED_S = 3600.0
"""Seconds: an interval that is interrupted earlier is not billed (developer guide, Managed Spot Training)."""
MAX_SAID = 1024
Object = dict[str, Any]
Fetch = Callable[[str, Path], int]
PutLine = Callable[[str, float, str], None]


@dataclass(slots=True, kw_only=True)
class HostCapacity:
    """The sandbox's capacity for training jobs: a quota of instances by type, and purchase options without capacity."""

    quotas: dict[str, int] = field(default_factory=dict)
    lacking: frozenset[str] = frozenset()


class _EndedError(Exception):
    """The job has ended: its status, its secondary status and the reason."""

    def __init__(self, status: str, secondary: str, reason: str = "") -> None:
        super().__init__(reason)
        self.status, self.secondary, self.reason = status, secondary, reason


class _LostError(Exception):
    """The instances were lost without notice."""


class TrainingJob(threading.Thread):
    """One job, from Starting to its end."""

    def __init__(
        self,
        request: Mapping[str, Any],
        arn: str,
        folder: Path,
        *,
        environment: Mapping[str, str],
        mark: str,
        capacity: HostCapacity,
        fetch: Fetch,
        put_line: PutLine,
        begins: datetime | None,
        image_there: bool,
    ) -> None:
        """Prepare the job of a valid CreateTrainingJob request.

        `folder` is the job's own, `environment` that of every container. `fetch` copies the objects below a place in
        S3 and returns their number; `put_line` receives a log stream, a time and a line. `begins` is the time when the
        capacity of its training plan begins, None without one; `image_there` says that the image can be pulled.
        """
        super().__init__(name=f"training-{request['TrainingJobName']}", daemon=True)
        self.request, self.arn, self.created = dict(request), arn, datetime.now(UTC)
        self._folder, self._environment, self._mark = folder, dict(environment), mark
        self._capacity, self._fetch, self._put_line = capacity, fetch, put_line
        self._begins, self._image_there = begins, image_there
        self._lock = threading.RLock()
        self._status, self._secondary, self._reason = "InProgress", "Starting", ""
        self._transitions: list[Object] = [_transition("Starting", "Starting the training job")]
        self._training: list[float] = []
        self._began: datetime | None = None
        self._ended: datetime | None = None
        self._stop, self._lost = threading.Event(), threading.Event()
        self._since, self._life, self._retries = time.monotonic(), 0, 0
        self._nodes: list[subprocess.Popen[bytes]] = []

    @property
    def name_of_job(self) -> str:
        """The name of the job."""
        return str(self.request["TrainingJobName"])

    @property
    def over(self) -> bool:
        """Whether the job has ended."""
        return self._status in ("Completed", "Failed", "Stopped")

    @property
    def spot(self) -> bool:
        """Whether the job uses managed spot."""
        return bool(self.request.get("EnableManagedSpotTraining"))

    def describe(self) -> Object:
        """The job as DescribeTrainingJob returns it."""
        with self._lock:
            shown = {key: value for key, value in self.request.items() if key != "Tags"}
            described = {
                **shown,
                "TrainingJobArn": self.arn,
                "TrainingJobStatus": self._status,
                "SecondaryStatus": self._secondary,
                "SecondaryStatusTransitions": [dict(transition) for transition in self._transitions],
                "CreationTime": self.created,
                "LastModifiedTime": self._transitions[-1]["StartTime"],
                "ModelArtifacts": {
                    "S3ModelArtifacts": f"{self.request['OutputDataConfig']['S3OutputPath']}output/model"
                },
            }
            if self._reason:
                described["FailureReason"] = self._reason
            if self._began is not None:
                described["TrainingStartTime"] = self._began
            if self._ended is not None:
                described["TrainingEndTime"] = self._ended
                trained = round(sum(self._training))
                described["TrainingTimeInSeconds"] = trained
                described["BillableTimeInSeconds"] = round(trained * SPOT_SHARE) if self.spot else trained
            return described

    def stop(self) -> bool:
        """Stop the job; False if it has ended or is stopping already."""
        with self._lock:
            if self.over or self._stop.is_set():
                return False
            self._move("Stopping", "Stopping the training job", status="Stopping")
            self._stop.set()
            return True

    def interrupt(self) -> None:
        """Interrupt the job: its instances are lost without notice."""
        self._lost.set()

    def run(self) -> None:
        """Run the job to its end."""
        try:
            while True:
                try:
                    self._run_once()
                except _LostError:
                    self._lost.clear()
                    self._again()
                else:
                    break
            self._end(_EndedError("Completed", "Completed"))
        except _EndedError as end:
            self._end(end)
        except Exception as problem:  # noqa: BLE001 - shown as what the service calls such an end
            self._end(_EndedError("Failed", "Failed", f"InternalServerError: {problem}"))

    def _again(self) -> None:
        """Start again after a loss: managed spot waits for instances; else SageMaker's retries limit the restarts."""
        allowed = int(self.request.get("RetryStrategy", {}).get("MaximumRetryAttempts", 0))
        if self.spot:
            self._move("Interrupted", "Training job interrupted: spot capacity was taken back")
        elif self._retries < allowed:
            self._retries += 1
            self._move("Restarting", "Retrying after an internal error")
        else:
            message = "InternalServerError: We encountered an internal error. Please try again."
            raise _EndedError("Failed", "Failed", message)
        self._pause()
        self._move("Starting", "Preparing the instances for training")

    def _run_once(self) -> None:
        self._life += 1
        self._wait_for_instances()
        begun = time.monotonic()
        self._move("Downloading", "Downloading the training image and input data")
        self._began = self._began or datetime.now(UTC)
        try:
            if not self._image_there:
                image = self.request["AlgorithmSpecification"]["TrainingImage"]
                raise _EndedError("Failed", "Failed", f"ClientError: Cannot pull container image {image}: not found")
            folders = [self._prepare_folder(number) for number in range(1, self._count + 1)]
            self._pause()
            self._move("Training", "Training image download completed. Training in progress.")
            self._train(folders)
            self._move("Uploading", "Uploading generated training model")
            self._pause()
        except _LostError:
            if self.spot and time.monotonic() - begun < NOT_COUNTED_S:
                begun = time.monotonic()
            raise
        finally:
            self._training.append(time.monotonic() - begun)

    @property
    def _count(self) -> int:
        return int(self.request["ResourceConfig"]["InstanceCount"])

    @property
    def _hosts(self) -> list[str]:
        return [f"algo-{number}" for number in range(1, self._count + 1)]

    def _wait_for_instances(self) -> None:
        self._pause()
        limit, since = self.request["StoppingCondition"].get("MaxPendingTimeInSeconds"), time.monotonic()
        option = "spot" if self.spot else "on-demand"
        while option in self._capacity.lacking or (self._begins is not None and datetime.now(UTC) < self._begins):
            if self._secondary != "Pending":
                self._move("Pending", "Training job waiting for capacity")
            planned = self._begins is not None and datetime.now(UTC) < self._begins
            if limit is not None and not planned and time.monotonic() - since > limit:
                message = "CapacityError: Unable to provision requested ML compute capacity."
                raise _EndedError("Failed", "Failed", message)
            self._pause()

    def _pause(self) -> None:
        """Pause briefly; raise if the job is stopped, has exceeded its wait time, or has lost its instances."""
        end = time.monotonic() + PHASE_S
        while time.monotonic() < end:
            self._check()
            time.sleep(POLL_S)

    def _check(self) -> None:
        """Raise if the job is stopped, has exceeded its wait time, or has lost its instances."""
        if self._stop.is_set():
            raise _EndedError("Stopped", "Stopped")
        longest = self.request["StoppingCondition"].get("MaxWaitTimeInSeconds")
        if longest is not None and time.monotonic() - self._since > longest:
            raise _EndedError("Stopped", "MaxWaitTimeExceeded")
        if self._lost.is_set():
            raise _LostError

    def _prepare_folder(self, number: int) -> Path:
        folder = self._folder / f"{self._life}" / f"algo-{number}"
        config = folder / "opt" / "ml" / "input" / "config"
        config.mkdir(parents=True)
        (folder / "tmp").mkdir()
        hosts = sorted(self._hosts)
        kind = self.request["ResourceConfig"]["InstanceType"]
        group = {"instance_group_name": "homogeneousCluster", "instance_type": kind, "hosts": hosts}
        documents = {
            "resourceconfig": {
                "current_host": f"algo-{number}",
                "current_instance_type": kind,
                "current_group_name": "homogeneousCluster",
                "hosts": hosts,
                "instance_groups": [group],
                "network_interface_name": "lo",
            },
            "hyperparameters": dict(self.request.get("HyperParameters", {})),
            "inputdataconfig": {
                channel["ChannelName"]: {"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated"}
                for channel in self.request.get("InputDataConfig", ())
            },
        }
        for name, document in documents.items():
            (config / f"{name}.json").write_text(json.dumps(document), encoding="utf-8")
        for channel in self.request.get("InputDataConfig", ()):
            uri = channel["DataSource"]["S3DataSource"]["S3Uri"]
            target = folder / "opt" / "ml" / "input" / "data" / channel["ChannelName"]
            target.mkdir(parents=True)
            if not self._fetch(uri, target):
                message = f"ClientError: Data download failed: no S3 objects found under S3 URL {uri!r}"
                raise _EndedError("Failed", "Failed", message)
        return folder

    def _train(self, folders: Sequence[Path]) -> None:
        """Run the containers until all have ended, one has failed, or the job is stopped."""
        limit = time.monotonic() + int(self.request["StoppingCondition"]["MaxRuntimeInSeconds"]) - sum(self._training)
        marks = [f"{NODE}={self._folder_mark(folder)}" for folder in folders]
        threads = []
        self._nodes = []
        for number, folder in enumerate(folders, start=1):
            process = self._spawn(folder)
            self._nodes.append(process)
            stream = f"{self.name_of_job}/algo-{number}-{int(time.time())}"
            threads.append(threading.Thread(target=self._pump, args=(process, stream), daemon=True))
            threads[-1].start()
        try:
            while any(node.poll() is None for node in self._nodes):
                if time.monotonic() > limit:
                    self._ask_to_end()
                    raise _EndedError("Stopped", "MaxRuntimeExceeded")
                try:
                    self._check()
                except _EndedError:
                    self._ask_to_end()
                    raise
                if any(node.poll() for node in self._nodes):
                    self._ask_to_end()
                time.sleep(POLL_S)
        finally:
            processes.end(lambda: self._remaining_processes(marks))
            for thread in threads:
                thread.join(2.0)
        self._refuse_failed(folders)

    def _refuse_failed(self, folders: Sequence[Path]) -> None:
        for process, folder in zip(self._nodes, folders, strict=True):
            if process.returncode:
                file = folder / "opt" / "ml" / "output" / "failure"
                text = file.read_text(encoding="utf-8", errors="replace").strip() if file.is_file() else ""
                code = process.returncode if process.returncode > 0 else 128 - process.returncode
                reason = f"AlgorithmError: {text[:MAX_SAID]}, exit code: {code}"[:MAX_SAID]
                raise _EndedError("Failed", "Failed", reason)

    def _spawn(self, folder: Path) -> "subprocess.Popen[bytes]":
        ml_folder = folder / "opt" / "ml"
        spec = self.request["AlgorithmSpecification"]
        command = [*spec.get("ContainerEntrypoint", ()), *spec.get("ContainerArguments", ())]
        placed = [re.sub(rf"^{ML}(?=/|$)", str(ml_folder), word) for word in command]
        environment = {
            **self._environment,
            **self.request.get("Environment", {}),
            "TRAINING_JOB_NAME": self.name_of_job,
            "TRAINING_JOB_ARN": self.arn,
            "HOSTNAME": HOST_NAME,
            # Here a container sees this computer's files.
            "SLIPWAY_ROOT": str(folder / "tmp" / "slipway"),
            "TMPDIR": str(folder / "tmp"),
            "SLIPWAY_BOOT_ID": f"{self.name_of_job}-{self._life}",
            MARK: self._mark,
            NODE: self._folder_mark(folder),
        }
        hosts = {host: namespaces.address(self.arn, index) for index, host in enumerate(self._hosts, start=1)}
        if not namespaces.can_name_hosts():
            environment["SLIPWAY_MEETING"] = "127.0.0.1"
        placed = namespaces.on_node(placed, name=HOST_NAME, hosts=hosts)
        try:
            return processes.start(placed, folder=folder, environment=environment)
        except OSError as problem:
            raise _EndedError("Failed", "Failed", f"AlgorithmError: {problem}, exit code: 127") from problem

    def _folder_mark(self, folder: Path) -> str:
        return f"{self.name_of_job}-{self._life}-{folder.name}"

    def _remaining_processes(self, marks: Sequence[str]) -> set[int]:
        pids = (processes.marked_processes(*word.split("=", 1)) for word in marks)
        return processes.with_descendants(set().union(*pids))

    def _ask_to_end(self) -> None:
        """Send SIGTERM to the containers' first processes, and wait up to 120 seconds."""
        for node in self._nodes:
            if node.poll() is None:
                processes.send(node.pid, signal.SIGTERM)
        end = time.monotonic() + GRACE_S
        while any(node.poll() is None for node in self._nodes) and time.monotonic() < end and not self._lost.is_set():
            time.sleep(POLL_S)

    def _pump(self, process: "subprocess.Popen[bytes]", stream: str) -> None:
        processes.each_line(
            process, lambda line: self._put_line(stream, time.time(), line.decode(errors="replace").rstrip("\n"))
        )

    def _move(self, secondary: str, message: str, *, status: str | None = None) -> None:
        with self._lock:
            if self._status == "Stopping" and status is None:
                return  # what a job that stops still does is not shown
            moment = datetime.now(UTC)
            self._transitions[-1].setdefault("EndTime", moment)
            self._transitions.append(_transition(secondary, message))
            self._secondary, self._status = secondary, status or self._status

    def _end(self, end: _EndedError) -> None:
        with self._lock:
            self._ended = datetime.now(UTC) if self._began is not None else None
            self._reason = end.reason
            self._transitions[-1].setdefault("EndTime", datetime.now(UTC))
            self._transitions.append({**_transition(end.secondary, end.reason), "EndTime": datetime.now(UTC)})
            self._secondary, self._status = end.secondary, end.status


def _transition(secondary: str, message: str) -> Object:
    return {"Status": secondary, "StartTime": datetime.now(UTC), "StatusMessage": message}
