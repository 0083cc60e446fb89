# ruff: noqa: INP001, T201 - one file that is shipped as it is and runs on an instance; what it prints is the log
"""Runs a job on one EC2 instance: starts the agent, again after each attempt that may be retried, and ends the group.

The user data has put it into a folder with the job folder (`job.tar.gz`) and `environment.json`. The instances of a job
find each other by its tag: the oldest is the leader. If an instance is lost, the Auto Scaling group replaces it, and
all agents start again. A lifecycle hook keeps an instance that is being terminated until its job has saved. After the
job, every instance sets the size of the group to 0. Uses the standard library, the agent's own botocore for S3, and the
image's AWS CLI for the services that this botocore lacks.
"""

import http.client
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
import urllib.error
import urllib.request
import zipimport
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

FILES = Path(__file__).resolve().parent
SANDBOX = os.environ.get("SLIPWAY_SANDBOX") == "1"
METADATA = os.environ.get("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
COMPLETED, INTERRUPTED, BAD_JOB, STOPPED = 0, 75, 78, 79
"""The agent's exit codes (launcher/agent/exits.py): done; saved, may restart; invalid job; ended for good."""
FINAL = (COMPLETED, BAD_JOB, STOPPED)
MAX_STARTS = 200
MORE_FAILURES = 3
"""Failures in a row beyond `run.retries` after which the job ends: the agent died, or could not reach the store."""
POLL_S = 0.5 if SANDBOX else 5.0
"""Seconds between two looks at the metadata service: EC2 gives two minutes' notice."""
GROUP_POLL_S = 3.0 if SANDBOX else 15.0
"""Seconds between two looks at the job's other instances: at most 32 calls a minute for eight nodes. Each starts the
AWS CLI, which takes half a second of a core."""
PAUSE_S = 0.2 if SANDBOX else 2.0
SHIP_S = 5.0 if SANDBOX else 20.0
"""Seconds between two copies of the log to CloudWatch."""
LARGEST_BATCH = 60_000
"""Bytes of one copy, well below the limit of a program's arguments; PutLogEvents accepts 1 MiB."""
LAST_FILES_S = 120.0
"""How long an instance waits for the others to store their last files before it ends them all."""
LONGEST_REASON = 1000
RUN_TAG = "slipway:run"
HOOK = "save"
NVME = Path("/opt/dlami/nvme")
"""The mount point of the NVMe disks in AWS's Deep Learning AMIs."""
SOFTWARE = ("/opt/pytorch/bin", "/opt/aws_neuronx_venv_pytorch_*/bin")
"""The folders of the images' own Python environments, NVIDIA's and Neuron's; the last match is the newest."""
DEVICES = {"nvidia": "nvidia[0-9]*", "neuron": "neuron[0-9]*"}


class UnfitError(Exception):
    """This instance cannot run the job; another one can."""


class Metadata:
    """The instance metadata service, version 2."""

    def __init__(self) -> None:
        self.token, self.until = "", 0.0

    def get(self, path: str) -> str:
        """A value; empty if the service has none, or does not answer."""
        with suppress(OSError, http.client.HTTPException):
            if time.monotonic() > self.until:
                header = {"X-aws-ec2-metadata-token-ttl-seconds": "21600"}
                self.token = self._ask("/latest/api/token", header, "PUT")
                self.until = time.monotonic() + 20_000
            return self._ask(f"/latest/meta-data/{path}", {"X-aws-ec2-metadata-token": self.token}, "GET")
        return ""

    @staticmethod
    def _ask(path: str, headers: Mapping[str, str], method: str) -> str:
        request = urllib.request.Request(METADATA + path, headers=dict(headers), method=method)  # noqa: S310 - fixed
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310 - the same
                return str(answer.read().decode())
        except urllib.error.HTTPError as problem:
            problem.close()
            return ""

    @property
    def reclaimed(self) -> bool:
        """Whether EC2 has given notice that it takes this instance back."""
        return bool(self.get("spot/instance-action"))

    @property
    def leaving(self) -> bool:
        """Whether the group terminates this instance: its lifecycle hook still keeps it."""
        return self.get("autoscaling/target-lifecycle-state") == "Terminated"


def unpack(archive: Path, folder: Path) -> None:
    """Unpack the job folder, which appears only when it is complete, and contains only files and folders."""
    if folder.is_dir():
        return
    fresh = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    with tarfile.open(archive, "r:gz") as packed:
        for member in packed.getmembers():
            if member.name.startswith("/") or ".." in Path(member.name).parts:
                message = f"{member.name} is outside the job folder"
                raise ValueError(message)
            place = fresh / member.name
            content = packed.extractfile(member) if member.isreg() else None
            if content is None:
                place.mkdir(parents=True, exist_ok=True)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            with content, place.open("wb") as stream:
                shutil.copyfileobj(content, stream)
            place.chmod(0o755 if member.mode & 0o100 else 0o644)
    fresh.rename(folder)


def s3_client(agent: Path) -> Any:
    """An S3 client of the agent's own botocore: an image need not contain it, and boto3 takes longer to load."""
    bootstrap: dict[str, Any] = {"__name__": "bootstrap"}
    exec(zipimport.zipimporter(str(agent)).get_code("__main__"), bootstrap)  # noqa: S102 - the agent's own start
    sys.path.insert(0, str(bootstrap["payload_folder"](agent, bootstrap["file_hash"](agent))))
    import botocore.session  # noqa: PLC0415 - it is there only now
    from botocore.config import Config  # noqa: PLC0415 - the same

    style = {"addressing_style": "path"} if os.environ.get("AWS_ENDPOINT_URL") else {}
    config = Config(retries={"mode": "standard", "total_max_attempts": 5}, s3=style)
    return botocore.session.get_session().create_client("s3", config=config)


def aws(*words: str, tries: int = 5) -> Any:
    """The answer of the image's AWS CLI to one call.

    Raises:
        CalledProcessError: AWS refuses, or did not answer in any of the tries.
    """
    for number in range(tries):
        done = subprocess.run(["aws", *words, "--output", "json"], capture_output=True, text=True, check=False)
        if not done.returncode:
            return json.loads(done.stdout) if done.stdout.strip() else None
        if number + 1 < tries:
            time.sleep(PAUSE_S * 2**number)
    print(f"slipway: aws {' '.join(words[:2])}: {done.stderr.strip()}")
    raise subprocess.CalledProcessError(done.returncode, ["aws", *words[:2]], done.stdout, done.stderr)


def make_scratch(scratch: Path) -> None:
    """Put the scratch folder on the instance's NVMe disks, joined if there are several; else on the root volume."""
    if SANDBOX or scratch.is_symlink():
        scratch.mkdir(parents=True, exist_ok=True)
        return
    if not os.path.ismount(NVME):
        disks = instance_disks()
        if not disks:
            print(f"slipway: no NVMe disk: {scratch} is on the root volume")
            scratch.mkdir(parents=True, exist_ok=True)
            return
        mount(disks, NVME)
    place = NVME / "scratch"
    place.mkdir(mode=0o1777, exist_ok=True)
    scratch.symlink_to(place)
    print(f"slipway: {scratch} is on {NVME}")


def instance_disks() -> list[str]:
    """The devices of the instance's own disks; EBS volumes have another model name (EC2 user guide, instance store)."""
    shown = subprocess.run(["lsblk", "-J", "-d", "-p", "-o", "NAME,MODEL"], capture_output=True, check=True)
    rows = json.loads(shown.stdout)["blockdevices"]
    return [row["name"] for row in rows if "Instance Storage" in str(row.get("model") or "")]


def mount(disks: list[str], place: Path) -> None:
    """Make a file system on one disk, or on a RAID 0 of several, and mount it."""
    device = disks[0]
    if len(disks) > 1:
        device = "/dev/md0"
        words = ["mdadm", "--create", device, "--run", "--level=0", f"--raid-devices={len(disks)}", *disks]
        subprocess.run(words, check=True)
    subprocess.run(["mkfs.ext4", "-q", "-E", "nodiscard", device], check=True)
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-o", "noatime", device, str(place)], check=True)


def check_chips(environment: Mapping[str, str]) -> None:
    """Refuse an instance that shows fewer chips than its type has; the driver may need a minute."""
    pattern, wanted = DEVICES.get(environment.get("SLIPWAY_CHIPS", "")), int(environment["SLIPWAY_CHIP_COUNT"])
    if SANDBOX or pattern is None:
        return
    end = time.monotonic() + 300
    while (found := len(list(Path("/dev").glob(pattern)))) < wanted:
        if time.monotonic() > end:
            message = f"the type has {wanted} {environment['SLIPWAY_CHIPS']} devices, found {found}"
            raise UnfitError(message)
        time.sleep(PAUSE_S)


def use_software(environment: MutableMapping[str, str]) -> None:
    """Put the image's own Python environment first on PATH, so that `torchrun` is its own."""
    for pattern in SOFTWARE:
        for folder in sorted(Path("/").glob(pattern.lstrip("/")))[-1:]:
            environment["PATH"] = f"{folder}:{environment['PATH']}"


def write_session(environment: Mapping[str, str], folder: Path) -> None:
    """Write what a shell on this instance reads (launcher/workflow/cluster/instance_jobs.py): the job's own start."""
    names = sorted(name for name in environment if name == "PATH" or name.startswith("SLIPWAY_"))
    lines = [f"export {name}={shlex.quote(environment[name])}" for name in names]
    Path(environment["SLIPWAY_ROOT"], "session.sh").write_text("\n".join([*lines, f"cd {shlex.quote(str(folder))}\n"]))


class Job:
    """The job as this instance knows it."""

    def __init__(self, environment: Mapping[str, str], s3: Any, metadata: Metadata) -> None:
        self.environment, self.s3, self.metadata = dict(environment), s3, metadata
        self.instance, self.group = environment["SLIPWAY_INSTANCE"], environment["SLIPWAY_GROUP"]
        self.name, self.nodes = environment["SLIPWAY_JOB_NAME"], int(environment["SLIPWAY_PARTS"])
        self.bucket, _, self.prefix = environment["SLIPWAY_CHANNEL"].removeprefix("s3://").partition("/")
        self.folder = Path(environment["SLIPWAY_ROOT"]) / "job"
        self.known: tuple[tuple[str, str], ...] = ()
        self.places: dict[str, tuple[str, str]] = {}

    def members(self) -> tuple[tuple[str, str], ...]:
        """The running instances of the job with their addresses, oldest first; the last known ones if EC2 is silent."""
        filters = (
            *(f"Name=tag:{RUN_TAG},Values={self.name}", f"Name=tag:aws:autoscaling:groupName,Values={self.group}"),
            "Name=instance-state-name,Values=running",
        )
        try:
            answer = aws("ec2", "describe-instances", "--filters", *filters, tries=1)
        except (subprocess.CalledProcessError, ValueError):
            return self.known
        found = [instance for group in answer["Reservations"] for instance in group["Instances"]]
        found.sort(key=lambda instance: (instance["LaunchTime"], instance["InstanceId"]))
        for instance in found:
            self.places[instance["InstanceId"]] = (
                instance["InstanceType"],
                instance["Placement"]["AvailabilityZone"],
            )
        self.known = tuple((instance["InstanceId"], instance["PrivateIpAddress"]) for instance in found)
        return self.known

    def gather_members(self) -> tuple[tuple[str, str], ...] | None:
        """The members once all of them run; None if this instance must go first, or too few come in time."""
        end, said = time.monotonic() + 60 * float(self.environment["SLIPWAY_WAIT_MINUTES"]), 0
        while not self.metadata.leaving and not self.metadata.reclaimed:
            members = self.members()
            if len(members) == self.nodes and self.instance in dict(members):
                return members
            if len(members) != said:
                print(f"slipway: {len(members)} of {self.nodes} instances run")
                said = len(members)
            if time.monotonic() > end:
                message = f"only {len(members)} of {self.nodes} instances started: no capacity. Launch again to resume"
                self.finish(INTERRUPTED, message)
                return None
            time.sleep(GROUP_POLL_S)
        return None

    def environment_of(self, members: tuple[tuple[str, str], ...]) -> dict[str, str]:
        """The environment of the agent on this instance."""
        addresses = dict(members)
        names, leader, own = list(addresses), members[0][1], addresses[self.instance]
        types, zones = zip(*(self.places[name] for name in names), strict=True)
        return {
            **self.environment,
            "JOB_COMPLETION_INDEX": str(names.index(self.instance)),
            "SLIPWAY_MEETING": leader,
            "SLIPWAY_POD": self.instance,
            "SLIPWAY_NODE": self.instance,
            # In the order of the ranks.
            "SLIPWAY_INSTANCE_TYPES": ",".join(types),
            "SLIPWAY_ZONES": ",".join(zones),
            # As the agent's own (launcher/agent/node/peers.py): a c10d rendezvous has the leader first.
            "PET_LOCAL_ADDR": own if own == leader else f"::ffff:{own}",
            "PET_RDZV_CONF": f"is_host={int(names[0] == self.instance)}",
        }

    def run(self, members: tuple[tuple[str, str], ...]) -> int:
        """Run one attempt of the agent; ask it to save if an instance of the job is lost or must go."""
        script, environment = self.folder / "kubernetes" / "start.py", self.environment_of(members)
        process = subprocess.Popen([sys.executable, str(script)], cwd=self.folder, env=environment)
        poll_at, asked = time.monotonic() + GROUP_POLL_S, False
        while process.poll() is None:
            time.sleep(min(POLL_S, 0.5))
            if asked:
                continue
            if self.metadata.leaving:
                asked = True
                print("slipway: this instance leaves: the agent saves and ends")
                process.send_signal(signal.SIGTERM)
            elif self.nodes > 1 and time.monotonic() > poll_at:
                asked, poll_at = self.members() != members, time.monotonic() + GROUP_POLL_S
                if asked:
                    print("slipway: another instance of the job is gone: the agent saves and ends")
                    process.send_signal(signal.SIGUSR2)
        code = process.returncode
        return 128 - code if code < 0 else code

    def put(self, name: str, text: str) -> None:
        """Store a file of this instance next to the job's files."""
        self.s3.put_object(Bucket=self.bucket, Key=f"{self.prefix}/{name}", Body=text.encode())

    def count_stored(self, folder: str) -> int:
        """The number of files in a folder next to the job's files."""
        return int(self.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/{folder}/")["KeyCount"])

    def finish(self, code: int, why: str) -> None:
        """End all instances of the job after their last files are stored, and after the tail that the plan requests."""
        print(f"slipway: the job has ended on this instance with exit code {code}{f': {why}' if why else ''}")
        try:
            self.put(f"ended/{self.instance}.json", json.dumps({"code": code, "reason": why[:LONGEST_REASON]}))
            end = time.monotonic() + LAST_FILES_S
            while self.count_stored("ended") < self.nodes and time.monotonic() < end and not self.metadata.leaving:
                time.sleep(GROUP_POLL_S)
        except Exception as problem:  # noqa: BLE001 - botocore's errors, from the agent's archive: the instances end anyway
            print(f"slipway: S3 is not reachable: the instances end without their last files: {problem}")
        end = time.monotonic() + 60 * float(self.environment["SLIPWAY_TAIL_MINUTES"])
        while time.monotonic() < end and not self.metadata.leaving:
            time.sleep(min(GROUP_POLL_S, max(0.0, end - time.monotonic())))
        words = ("--auto-scaling-group-name", self.group, "--desired-capacity", "0")
        aws("autoscaling", "set-desired-capacity", *words)

    def leave(self) -> None:
        """Let the group terminate this instance, which a lifecycle hook keeps; wait until it does."""
        end = time.monotonic() + LAST_FILES_S
        while not self.metadata.leaving and time.monotonic() < end:
            time.sleep(POLL_S)
        words = ("--auto-scaling-group-name", self.group, "--lifecycle-hook-name", HOOK)
        with suppress(subprocess.CalledProcessError):
            # The hook's time may be over, or another call may have ended it.
            which = ("--instance-id", self.instance, "--lifecycle-action-result", "CONTINUE")
            aws("autoscaling", "complete-lifecycle-action", *words, *which, tries=2)

    def be_replaced(self) -> None:
        """Let the group replace this instance now, and not only after EC2 has taken it back."""
        words = ("--instance-id", self.instance, "--no-should-decrement-desired-capacity")
        aws("autoscaling", "terminate-instance-in-auto-scaling-group", *words)

    def retries(self) -> int:
        """`run.retries` of the job; the agents count them in the store, which this instance may not reach."""
        return int(json.loads((self.folder / "job.json").read_text(encoding="utf-8")).get("retries") or 0)

    def reason(self) -> str:
        """Why the job failed, from the newest event of this node's agent that has a reason."""
        found = ""
        for path in sorted(self.folder.glob("events*.jsonl")):
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                with suppress(ValueError):
                    event = json.loads(line)
                    if event.get("event") in ("failed", "stopped") and event.get("reason"):
                        found = str(event["reason"])
        return found


class LogShipper(threading.Thread):
    """Copies the log of this boot, from its first line, to CloudWatch."""

    def __init__(self, group: str, stream: str, path: Path) -> None:
        super().__init__(name="log", daemon=True)
        self.place = ("--log-group-name", group, "--log-stream-name", stream)
        self.path, self.offset, self.made, self.over = path, 0, False, threading.Event()

    def run(self) -> None:
        """Copy new lines at intervals; a failure is retried with the next lines."""
        while not self.over.wait(SHIP_S):
            self.ship()

    def ship(self) -> None:
        """Copy the complete lines that are new."""
        with self.path.open("rb") as stream:
            stream.seek(self.offset)
            data = stream.read(LARGEST_BATCH)
        # A line without an end waits, unless it fills a batch alone.
        whole = data[: data.rfind(b"\n") + 1] or (data if len(data) == LARGEST_BATCH else b"")
        lines = [line.decode(errors="replace") for line in whole.splitlines() if line.strip()]
        moment = int(time.time() * 1000)
        events = json.dumps([{"timestamp": moment, "message": line} for line in lines])
        with suppress(subprocess.CalledProcessError):
            if not self.made:
                self.made = True
                aws("logs", "create-log-stream", *self.place)
            if lines:
                aws("logs", "put-log-events", *self.place, "--log-events", events)
            self.offset += len(whole)

    def end(self) -> None:
        """Copy the last lines."""
        self.over.set()
        self.ship()


@contextmanager
def ship_logs(environment: Mapping[str, str]) -> Iterator[None]:
    """Copy the log of this boot during the block."""
    stream = f"{environment['SLIPWAY_JOB_NAME']}/{environment['SLIPWAY_INSTANCE']}"
    shipper = LogShipper(environment["SLIPWAY_LOG_GROUP"], stream, Path(environment["SLIPWAY_ROOT"]) / "boot.log")
    shipper.start()
    try:
        yield
    finally:
        shipper.end()


def run_job(job: Job) -> None:
    """Run the job on this instance to its end, or until the instance must go."""
    failures, allowed = 0, job.retries() + MORE_FAILURES
    for number in range(MAX_STARTS):
        members = job.gather_members()
        if members is None and job.metadata.reclaimed:
            job.be_replaced()
        if members is None:
            break
        code = job.run(members)
        if job.metadata.leaving:
            break
        if code in FINAL:
            job.finish(code, "" if code == COMPLETED else job.reason())
            break
        if job.metadata.reclaimed:
            print("slipway: EC2 takes this instance back: the group replaces it")
            job.be_replaced()
            break
        print(f"slipway: attempt ended with exit code {code} (start {number + 1})")
        failures = 0 if code == INTERRUPTED else failures + 1
        if failures > allowed:
            job.finish(code, f"{failures} failures in a row: {job.reason() or f'the agent ended with {code}'}")
            break
        time.sleep(PAUSE_S)
    else:
        job.finish(INTERRUPTED, f"started {MAX_STARTS} times without an end")
    job.leave()


def main() -> int:
    """Prepare this instance, and run the job."""
    given = json.loads((FILES / "environment.json").read_text(encoding="utf-8"))
    environment = {**given, **os.environ}
    folder = Path(environment["SLIPWAY_ROOT"]) / "job"
    environment["SLIPWAY_FOLDER"] = str(folder)
    try:
        unpack(FILES / "job.tar.gz", folder)
        s3 = s3_client(folder / "slipway-agent.pyz")
        with ship_logs(environment):
            make_scratch(Path(environment.setdefault("SLIPWAY_SCRATCH", "/scratch")))
            check_chips(environment)
            use_software(environment)
            write_session(environment, folder)
            fetch = [sys.executable, str(folder / "fetch_work.py")]
            fetched = subprocess.run(fetch, cwd=folder, env=environment, check=False)
            if fetched.returncode:
                return fetched.returncode
            run_job(Job(environment, s3, Metadata()))
    except (OSError, tarfile.TarError, ValueError, UnfitError, subprocess.CalledProcessError) as problem:
        print(f"slipway: this instance cannot run the job: {problem}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
