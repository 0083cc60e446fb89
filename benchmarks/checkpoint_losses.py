"""Work lost at interruptions, without and with a notice.

    python -m benchmarks.checkpoint_losses [--interruptions 20] [--interval-s 2] [--mib 64] [--seed 1] [--json]

A job is interrupted repeatedly at random times, in turn by `kill -9` of the agent and its command and by a notice
(SIGUSR1). The node is lost with all its files, and the next attempt resumes from the store, which is the server of
`benchmarks.checkpoint_server`. The trainer writes a checkpoint of the given MiB at every interval, and immediately
after a notice. The trainer logs when each step ended, so the loss is measured outside the agent.

    killed     lost_s: from the end of the restored step to the end of the last one. Bound: an interval and the longest
               observed write, from the end of a step until its checkpoint is complete in the store
    notice     lost_steps: from the restored step to the last one. Bound: the steps that ended after the signal
"""

import argparse
import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import BUCKET, ROOT, environment, job, server
from launcher.agent.job import CheckpointSpec

PATIENCE_S = 120.0
MAX_AFTER_S = (1.0, 6.0)
"""Range of the random delay in seconds between an attempt's first complete checkpoint and its interruption."""
STEP_S = 0.02
TRAINER = """
import os, signal, sys, time
from pathlib import Path
size, pause, log = int(sys.argv[1]), float(sys.argv[2]), open(sys.argv[3], "a", buffering=1)
stop = []
signal.signal(signal.SIGUSR1, lambda *_: stop.append(1))
folder, resume = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SLIPWAY_RESUME_DIR"]
interval = float(os.environ["SLIPWAY_CHECKPOINT_INTERVAL_S"])
step, content = int(resume.rpartition("-")[2]) if resume else 0, os.urandom(size)
saved = time.monotonic()
while True:
    time.sleep(pause)
    step += 1
    log.write(f"{step} {time.time()}\\n")
    if stop or time.monotonic() - saved >= interval:
        saved = time.monotonic()
        partial = folder / "partial"
        partial.mkdir()
        (partial / "data").write_bytes(content)
        partial.rename(folder / f"step-{step}")
    if stop:
        sys.exit(0)
"""


class Training:
    """One job and the files that it writes."""

    def __init__(self, work: Path, endpoint: str, *, interval_s: float, mib: int) -> None:
        """Write the job's file.

        Args:
            work: an empty folder.
            endpoint: the endpoint of the S3 server.
            interval_s: seconds between two checkpoints.
            mib: size of a checkpoint.
        """
        self.work = work
        self.environment = environment(endpoint)
        self.steps_log = work / "steps"
        self.steps_log.touch()
        command = (sys.executable, "-c", TRAINER, str(mib << 20), str(STEP_S), str(self.steps_log))
        policy = CheckpointSpec(uri=f"s3://{BUCKET}/losses", interval_s=interval_s)
        spec = replace(job(work), command=command, checkpoint=policy, imds=False)
        (work / "job.json").write_text(spec.to_json(), encoding="utf-8")

    def events(self, name: str, attempt: int | None = None) -> list[dict[str, Any]]:
        """The agents' events of one kind, of one attempt or of all."""
        path = self.work / "events.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        found = [json.loads(line) for line in lines]
        return [event for event in found if event["event"] == name and attempt in (None, event["attempt"])]

    def ended_at(self) -> dict[int, float]:
        """When each step ended in its latest run."""
        lines = (line.split() for line in self.steps_log.read_text(encoding="utf-8").splitlines())
        return {int(step): float(moment) for step, moment in lines}

    def writes_s(self) -> list[float]:
        """For each checkpoint that became complete, the seconds from the end of its step until then."""
        ended = self.ended_at()
        uploads = self.events("checkpoint-uploaded")
        return [datetime.fromisoformat(upload["time"]).timestamp() - ended[upload["step"]] for upload in uploads]

    def interrupted(self, attempt: int, after_s: float, how: Callable[["Training", Any, int], None]) -> float:
        """Run an attempt, interrupt it `after_s` after its first checkpoint, lose its node; return the time."""
        with (self.work / "agent.log").open("a", encoding="utf-8") as log:
            agent = subprocess.Popen(
                [sys.executable, "-m", "launcher.agent", "run", "--config", str(self.work / "job.json")],
                cwd=ROOT,
                env=self.environment | {"SLIPWAY_ATTEMPT": str(attempt)},
                stdout=log,
                stderr=log,
            )
        patience = time.monotonic() + PATIENCE_S
        while not self.events("checkpoint-uploaded", attempt):
            if agent.poll() is not None or time.monotonic() > patience:
                raise RuntimeError(f"attempt {attempt} wrote no checkpoint: {self.work / 'agent.log'}")
            time.sleep(STEP_S)
        time.sleep(after_s)
        moment = time.time()
        how(self, agent, attempt)
        shutil.rmtree(self.work / "scratch", ignore_errors=True)
        return moment


def kill(training: Training, agent: "subprocess.Popen[bytes]", attempt: int) -> None:
    """Kill the agent and its command without notice."""
    (started,) = training.events("command-started", attempt)
    agent.kill()
    os.killpg(started["pid"], signal.SIGKILL)
    agent.wait()


def give_notice(training: Training, agent: "subprocess.Popen[bytes]", attempt: int) -> None:
    """Send the agent a notice, and wait until the job has used it."""
    del training, attempt
    agent.send_signal(signal.SIGUSR1)
    agent.wait(timeout=PATIENCE_S)


def losses(training: Training, number: int, rng: random.Random) -> dict[str, list[dict[str, float]]]:
    """The loss of each interruption."""
    rows: dict[str, list[dict[str, float]]] = {"killed": [], "notice": []}
    stored_steps: list[int] = []
    for attempt in range(1, number + 1):
        name, how = ("killed", kill) if attempt % 2 else ("notice", give_notice)
        moment = training.interrupted(attempt, rng.uniform(*MAX_AFTER_S), how)
        ended = training.ended_at()
        last = max(ended)
        whole = max(event["step"] for event in training.events("checkpoint-uploaded"))
        since = sum(at > moment for at in ended.values())
        rows[name].append({"lost_s": ended[last] - ended[whole], "lost_steps": last - whole, "since": since})
        stored_steps.append(whole)
        lines = [f"{step} {at}\n" for step, at in ended.items() if step <= whole]
        training.steps_log.write_text("".join(lines), encoding="utf-8")
    restored = [event["step"] for event in training.events("restored")]
    if restored != stored_steps[:-1]:
        raise RuntimeError(f"whole in the store were {stored_steps}, restored {restored}")
    return rows


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The figures in the module's docstring."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        work, stored = Path(folder) / "job", Path(folder) / "stored"
        work.mkdir()
        stored.mkdir()
        with server(stored) as endpoint:
            training = Training(work, endpoint, interval_s=options.interval_s, mib=options.mib)
            rows = losses(training, options.interruptions, random.Random(options.seed))  # noqa: S311 - no secret
            write_s = max(training.writes_s())
    lost = [row["lost_s"] for row in rows["killed"]]
    notices = rows["notice"]
    return {
        "interruptions": options.interruptions,
        "interval_s": options.interval_s,
        "mib": options.mib,
        "longest_write_s": round(write_s, 2),
        "killed": [
            {
                "interruptions": len(lost),
                "mean_lost_s": round(statistics.mean(lost), 2),
                "most_lost_s": round(max(lost), 2),
                "of_interval_and_write": round(max(lost) / (options.interval_s + write_s), 2),
            }
        ],
        "notice": [
            {
                "interruptions": len(notices),
                "most_lost_steps": max(row["lost_steps"] for row in notices),
                "most_steps_since_signal": max(row["since"] for row in notices),
                "lost_more_than_since": sum(row["lost_steps"] > row["since"] for row in notices),
            }
        ],
    }


def main() -> int:
    """Measure and print the figures; return the exit code."""
    parser = argparse.ArgumentParser(description="Work lost at interruptions.")
    parser.add_argument("--interruptions", type=int, default=20)
    parser.add_argument("--interval-s", type=float, default=2.0)
    parser.add_argument("--mib", type=int, default=64, help="size of a checkpoint")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options)
    print(json.dumps(figures, indent=None if options.json else 2))
    passed = figures["killed"][0]["of_interval_and_write"] <= 1 and not figures["notice"][0]["lost_more_than_since"]
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
