"""Checkpoint uploads and downloads compared with boto3, the agent's memory, and the agent's cost to the training.

    python -m benchmarks.checkpoint [--mib 4096] [--files 64] [--rounds 3] [--pairs 9] [--steps-s 6] [--json]

All clients use one S3 server on this host (`benchmarks.checkpoint_server`), which shares the processors with them: the
benchmark measures clients, not AWS. Every transfer is a separate process; the clients run in turn, and the fastest
round counts. `aws s3 cp` and s5cmd come from `make setup-bench` and are skipped without it; their times include their
start.

The training is a loop of matrix products in NumPy on all processors. It runs in turn alone and under the agent: once
with an agent that only watches (the checkpoint folder, the metrics, the metadata service), once with a checkpoint of
64 MiB every two seconds, which the run without agent writes too. A ratio is from one pair; the median counts.

    up, down         client, seconds, mib_s, of_boto3 (seconds over boto3's), peak_mib (resident; null for the programs)
    slowdown         the agent's activity, pairs, median, least and most ratio of the training's own time
    capped           the configured max_mb_s, the measured mb_s
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.checkpoint_client import STEP
from launcher.agent.job import CheckpointSpec, JobSpec

ROOT = Path(__file__).resolve().parents[1]
BUCKET = "bench"
MAX_RATIO_BOTO3 = 1.1
MAX_RATIO_S5CMD = 1 / 0.6
MAX_MIB = 300.0
MAX_SLOWDOWN = 1.05
CAP_MB_S = 40.0
CAPPED_BYTES = 200_000_000
PROGRAMS = {"aws s3 cp": ROOT / ".venv-bench/bin/aws", "s5cmd": ROOT / ".venv-bench/bin/s5cmd"}

TRAINING = """
import os, signal, sys, time
from pathlib import Path
import numpy
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
seconds, every, size = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
folder = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"])
one = numpy.random.default_rng(0).standard_normal((768, 768), dtype=numpy.float32)
content = os.urandom(1 << 20) * (size >> 20)

def steps(number):
    begun, saved = time.perf_counter(), time.perf_counter()
    for step in range(number):
        one @ one
        if every and time.perf_counter() - saved >= every:
            saved = time.perf_counter()
            partial = folder / "partial"
            partial.mkdir()
            (partial / "data").write_bytes(content)
            partial.rename(folder / f"step-{step}")
    return time.perf_counter() - begun

number = int(sys.argv[4]) or max(1, int(seconds / (steps(200) / 200)))
print(number, steps(number), flush=True)
"""


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run an S3 server; yield its endpoint."""
    command = [sys.executable, "-m", "benchmarks.checkpoint_server", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        if process.stdout is None or process.stdin is None:
            raise RuntimeError("the server has no pipes")
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()
            process.wait(timeout=30)


def environment(endpoint: str) -> dict[str, str]:
    """The environment of a client of the server."""
    keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    quiet = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.devnull, "PYTHONPATH": str(ROOT)}
    return {**os.environ, **keys, **quiet, "AWS_ENDPOINT_URL": endpoint, "S3_ENDPOINT_URL": endpoint}


# ---------------------------------------------------------------------------------------------------------- transfers


def transfers(work: Path, endpoint: str, *, mib: int, files: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Upload and download with every client, in turn."""
    source = work / f"step-{STEP}"
    source.mkdir()
    for number in range(files):
        written(source / f"shard-{number:03}", (mib << 20) // files)
    clients = ["boto3", "agent", *(name for name, program in PROGRAMS.items() if program.exists())]
    best: dict[tuple[str, str], tuple[float, float | None]] = {}
    for turn in range(rounds):
        for client in clients:
            uri = f"s3://{BUCKET}/{client.replace(' ', '-')}-{turn}"
            back = work / "back"
            back.mkdir()
            for direction, folder in (("up", source), ("down", back)):
                seconds, peak = moved(client, direction, uri, folder, endpoint)
                known = best.get((client, direction), (float("inf"), None))
                best[client, direction] = (
                    min(seconds, known[0]),
                    max(peak, known[1] or 0.0) if peak is not None else None,
                )
            if sum(path.stat().st_size for path in back.rglob("*") if path.is_file()) < mib << 20:
                raise RuntimeError(f"{client} did not bring everything back")
            shutil.rmtree(back)
            emptied(uri, endpoint)
    shutil.rmtree(source)
    return {
        direction: [_row(client, best[client, direction], best["boto3", direction][0], mib) for client in clients]
        for direction in DIRECTIONS
    }


DIRECTIONS = ("up", "down")


def _row(client: str, measured: tuple[float, float | None], of: float, mib: int) -> dict[str, Any]:
    seconds, peak = measured
    return {
        "client": client,
        "seconds": round(seconds, 2),
        "mib_s": round(mib / seconds),
        "of_boto3": round(seconds / of, 2),
        "peak_mib": None if peak is None else round(peak),
    }


def moved(client: str, direction: str, uri: str, folder: Path, endpoint: str) -> tuple[float, float | None]:
    """Seconds and peak memory of one transfer; a program's time includes its start, its memory is not measured."""
    if client in PROGRAMS:
        here, there, program = str(folder), uri, str(PROGRAMS[client])
        recursive = ["--recursive", "--only-show-errors"]
        command = {
            ("aws s3 cp", "up"): [program, "s3", "cp", *recursive, here, there],
            ("aws s3 cp", "down"): [program, "s3", "cp", *recursive, there, here],
            ("s5cmd", "up"): [program, "--log", "error", "cp", f"{here}/", f"{there}/"],
            ("s5cmd", "down"): [program, "--log", "error", "cp", f"{there}/*", f"{here}/"],
        }[client, direction]
    else:
        command = [sys.executable, "-m", "benchmarks.checkpoint_client", client, direction, uri, str(folder)]
    begun = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment(endpoint), capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-2000:]}")
    if client in PROGRAMS:
        return seconds, None
    result = json.loads(done.stdout)
    return result["seconds"], result["mib"]


def emptied(uri: str, endpoint: str) -> None:
    """Remove the objects that a client stored below a URI."""
    connection = HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    connection.request("DELETE", f"/{uri.removeprefix('s3://')}/")
    if connection.getresponse().status != HTTPStatus.NO_CONTENT:
        raise RuntimeError(f"{uri} was not emptied")
    connection.close()


def written(path: Path, size: int) -> None:
    """Write a file of random bytes, which do not repeat within a part."""
    block = os.urandom(min(size, 8 << 20))
    with path.open("wb") as file:
        for begin in range(0, size, len(block) or 1):
            file.write(block[: size - begin])


# ----------------------------------------------------------------------------------------------------------- training


def job(work: Path, **policy: Any) -> JobSpec:
    """A job of the agent with all its paths below one folder."""
    return JobSpec(
        run="bench",
        name="bench",
        command=("true",),
        workdir=str(work),
        checkpoint=CheckpointSpec(uri=f"s3://{BUCKET}/training", **policy),
        scratch=str(work / "scratch"),
        events=str(work / "events.jsonl"),
        metrics=str(work / "metrics.jsonl"),
    )


def under_agent(work: Path, endpoint: str, command: list[str], **policy: Any) -> str:
    """The output of a command that runs under the agent."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    spec = json.loads(job(work, **policy).to_json()) | {"command": command}
    (work / "job.json").write_text(json.dumps(spec), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "launcher.agent", "run", "--config", str(work / "job.json")],
        cwd=ROOT,
        # Nobody answers there: a watch that finds no service asks as often as one that does.
        env=environment(endpoint) | {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"the agent ended with {done.returncode}: {done.stderr[-2000:]}")
    emptied(f"s3://{BUCKET}/training", endpoint)
    return done.stdout


def bare(work: Path, command: list[str]) -> str:
    """The output of a command that runs without the agent."""
    shutil.rmtree(work, ignore_errors=True)
    (work / "checkpoints").mkdir(parents=True)
    variables = {"SLIPWAY_CHECKPOINT_DIR": str(work / "checkpoints")}
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, check=True).stdout


def slowdown(work: Path, endpoint: str, *, pairs: int, seconds: float) -> list[dict[str, Any]]:
    """The training's own time under the agent, divided by its time without the agent."""
    rows = []
    for name, every, size in (("watches", 0.0, 0), ("uploads", 2.0, 64 << 20)):
        command = [sys.executable, "-c", TRAINING, str(seconds), str(every), str(size)]
        number = bare(work, [*command, "0"]).split()[0]
        ratios = []
        for _ in range(pairs):
            alone = float(bare(work, [*command, number]).split()[1])
            watched = float(under_agent(work, endpoint, [*command, number]).split()[1])
            ratios.append(watched / alone)
        rows.append(
            {
                "agent": name,
                "pairs": pairs,
                "median": round(statistics.median(ratios), 3),
                "least": round(min(ratios), 3),
                "most": round(max(ratios), 3),
            }
        )
    shutil.rmtree(work, ignore_errors=True)
    return rows


def capped(work: Path, endpoint: str) -> dict[str, float]:
    """The measured rate of an upload with a rate limit."""
    program = "import os, sys; from pathlib import Path; f = Path(os.environ['SLIPWAY_CHECKPOINT_DIR'], 't'); f.mkdir()"
    program += "; Path(f, 'data').write_bytes(os.urandom(int(sys.argv[1]))); f.rename(f.with_name('step-1'))"
    under_agent(work, endpoint, [sys.executable, "-c", program, str(CAPPED_BYTES)], max_mb_s=CAP_MB_S)
    events = [json.loads(line) for line in (work / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    (uploaded,) = [event for event in events if event["event"] == "checkpoint-uploaded"]
    return {"max_mb_s": CAP_MB_S, "mb_s": round(uploaded["bytes"] / 1e6 / uploaded["seconds"], 1)}


# ------------------------------------------------------------------------------------------------------------- report


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The figures in the module's docstring."""
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        work, stored = Path(folder), Path(folder) / "stored"
        stored.mkdir()
        with server(stored) as endpoint:
            found = transfers(work, endpoint, mib=options.mib, files=options.files, rounds=options.rounds)
            rows = slowdown(work / "training", endpoint, pairs=options.pairs, seconds=options.steps_s)
            bound = capped(work / "capped", endpoint)
    return {"mib": options.mib, "files": options.files, "rounds": options.rounds, **found} | {
        "slowdown": rows,
        "capped": [bound],
    }


def aims_met(figures: dict[str, Any]) -> bool:
    """Whether the agent meets its limits."""
    rows_by_direction = [{row["client"]: row for row in figures[direction]} for direction in DIRECTIONS]
    ours = [rows["agent"] for rows in rows_by_direction]
    seconds = [(rows["agent"]["seconds"], rows["s5cmd"]["seconds"]) for rows in rows_by_direction if "s5cmd" in rows]
    watching = figures["slowdown"][0]["median"]
    return (
        all(row["of_boto3"] <= MAX_RATIO_BOTO3 and row["peak_mib"] <= MAX_MIB for row in ours)
        and all(agent <= MAX_RATIO_S5CMD * other for agent, other in seconds)
        and watching <= MAX_SLOWDOWN
    )


def main() -> int:
    """Measure and print the figures; return the exit code."""
    parser = argparse.ArgumentParser(description="Checkpoints up and down, memory, and what the watch costs.")
    parser.add_argument("--mib", type=int, default=4096, help="size of the checkpoint")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3, help="transfers of every client, of which the fastest counts")
    parser.add_argument("--pairs", type=int, default=9, help="paired runs of the training")
    parser.add_argument("--steps-s", type=float, default=6.0, help="seconds of training in one run")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures))
    else:
        print(json.dumps(figures, indent=2))
    return 0 if aims_met(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
