"""A cluster's guard in the sandbox: the guard's own code, called on an accelerated clock.

One second represents five minutes, so that a spending limit is reached while a user watches. The clock starts at the
newest call of an earlier run, and the first call waits for the job's first heartbeat. Objects in S3 are as old on it as
in real time: a heartbeat of the last minutes is fresh. After the guard has requested the job to save, the clock waits
until the job has left, because saving takes real time. One more call, after the guard's grace time, then ends the
nodes. Nodes that fail to boot are no matter of this clock: the guard is called for them in real time. Emulated: the
scheduled calls, with the deployed function's variables. Not emulated: Lambda, idle nodes, and calls for events.
"""

import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from launcher.catalog.assets import asset
from launcher.model.errors import AwsError

FOLDER_VARIABLE = "FOLDER_URI"
"""The variable of a guard's function with the S3 place of its messages."""
POLL_S = 1.0
PERIOD = timedelta(minutes=5)
"""The time between two checks of the guard: its schedule."""
_READY, _FAILED, _WAITING, _WATCHED, _STOPPED = "ready", "failed", "waiting", "watched", "stopping"
_PROGRAM = """
import importlib, os, sys, traceback
from datetime import UTC, datetime, timedelta
import boto3
from botocore.exceptions import ClientError

guard = importlib.import_module(sys.argv[1])
from job_messages import Folder

moment, working = datetime.now(UTC), False
bucket, _, key = os.environ["STOP_URI"].removeprefix("s3://").partition("/")

def stop_requested():
    try:
        boto3.client("s3").head_object(Bucket=bucket, Key=key)
    except ClientError:
        return False
    return True

def newest():
    now = datetime.now(UTC)
    found = boto3.client("cloudwatch").get_metric_statistics(
        Namespace="Slipway", MetricName="RunningNodes",
        Dimensions=[{"Name": "Cluster", "Value": os.environ["CLUSTER"]}],
        StartTime=now, EndTime=now + timedelta(days=60), Period=300, Statistics=["SampleCount"],
    )["Datapoints"]
    return max([now, *(each["Timestamp"] + timedelta(minutes=5) for each in found)])

def age(parsed, **_):
    ahead = moment - datetime.now(UTC)
    for entry in parsed.get("Contents", ()):
        entry["LastModified"] += ahead

def works():
    folder = os.environ.get("FOLDER_URI")
    return not folder or bool(Folder(boto3.client("s3"), folder).beats(moment))

boto3.setup_default_session()
boto3.DEFAULT_SESSION.events.register("after-call.s3.ListObjectsV2", age)
print("ready", newest().isoformat(), flush=True)
for line in sys.stdin:
    moment = datetime.fromisoformat(line.strip())
    clock = type("Clock", (datetime,), {"now": classmethod(lambda _, zone=None: moment)})
    guard.datetime = clock
    try:
        working = working or works()
        if not working:
            print("waiting", flush=True)
            continue
        guard.handler({"detail-type": "Scheduled Event"}, None)
        print("stopping" if stop_requested() else "watched", flush=True)
    except Exception as problem:
        place = traceback.extract_tb(problem.__traceback__)[-1]
        text = f"{type(problem).__name__}: {problem} ({os.path.basename(place.filename)}, line {place.lineno})"
        print("failed " + " ".join(text.split()), flush=True)
"""


_ONCE = """
import importlib, sys
importlib.import_module(sys.argv[1]).handler({"detail-type": "Scheduled Event"}, None)
"""
_NOT_HERE = {"IDLE_MINUTES": "0"}
"""The sandbox's calls play the spending limit in minutes; its nodes have no metrics, queue or function that counts pods
by which the guard could judge idleness."""


@dataclass(slots=True, kw_only=True)
class GuardSchedule:
    """Calls the guard of one cluster until it has requested the job to stop, and once more after the job has left."""

    # The guard's file in templates/guard.
    module: str
    # Those of the deployed function.
    variables: Mapping[str, str]
    # That of a process which uses the sandbox as AWS.
    environment: Mapping[str, str]
    poll_s: float = POLL_S
    called: bool = False
    stop_requested: bool = False
    failure: str = ""
    _moment: datetime = field(default_factory=lambda: datetime.now(UTC))
    _process: "subprocess.Popen[str] | None" = None
    _thread: threading.Thread | None = None
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Start the calls."""
        self._thread = threading.Thread(target=self._play, name="guard", daemon=True)
        self._thread.start()

    def call_now(self) -> None:
        """Call the guard once, in real time.

        Raises:
            AwsError: the guard failed.
        """
        done = subprocess.run(
            [sys.executable, "-c", _ONCE, self.module],
            cwd=asset("templates/guard"),
            env=self._guard_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            reason = (done.stderr.splitlines() or ["its process ended"])[-1]
            raise AwsError(f"the guard failed in the sandbox: {reason}")

    def _guard_environment(self) -> Mapping[str, str]:
        return {**self.environment, **self.variables, **_NOT_HERE, "PYTHONDONTWRITEBYTECODE": "1"}

    def finish(self) -> None:
        """Handle the job's end: make a last call if the guard has requested a stop; then end the calls."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        if self.stop_requested and not self.failure:
            self._moment += timedelta(minutes=float(self.variables["STOP_SETTLE_MINUTES"]))
            self._call()
        self.end()
        if self.failure:
            raise AwsError(f"the guard failed in the sandbox: {self.failure}")

    def end(self) -> None:
        """End the calls, even after a stop request."""
        self._over.set()
        if self._process is not None:
            self._process.kill()
        if self._thread is not None:
            self._thread.join()
        if self._process is not None:
            with self._process:
                self._process.wait()

    def _play(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, self.module],
            cwd=asset("templates/guard"),
            env=self._guard_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        began = self._answer((_READY,))
        if began is None:
            return
        self._moment = datetime.fromisoformat(began)
        while not (self.stop_requested or self.failure or self._over.wait(self.poll_s)):
            self._call()

    def _call(self) -> None:
        """Call the guard once, five minutes after the last call."""
        if self._process is None or self._process.stdin is None:
            return
        moment = self._moment + PERIOD
        try:
            self._process.stdin.write(f"{moment.isoformat()}\n")
            self._process.stdin.flush()
        except OSError as problem:
            self.failure = str(problem)
            return
        answer = self._answer((_STOPPED, _WATCHED, _WAITING))
        if answer != _WAITING:
            self._moment, self.called = moment, True
        self.stop_requested = answer == _STOPPED or self.stop_requested

    def _answer(self, answers: tuple[str, ...]) -> str | None:
        """The text after the first expected word of the process's output, or the word; None if it fails or ends."""
        stream = self._process.stdout if self._process is not None else None
        for line in stream or ():
            word, _, rest = line.strip().partition(" ")
            if word == _FAILED:
                self.failure = rest
                return None
            if word in answers:
                return rest or word
        self.failure = self.failure or "its process ended"
        return None
