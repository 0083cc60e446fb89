"""Uploads and downloads of checkpoints with many small, some medium and a few large files, compared with s5cmd.

    python -m benchmarks.file_sizes [--mixes small,middle,large,mixed] [--scale 1.0] [--rounds 1] [--json]

The server is that of `benchmarks.checkpoint`, on the same host as the clients. Every transfer is a separate process;
the clients run in turn, and the fastest round counts. The time of s5cmd includes its start. The agent hashes everything
and puts small files into packs; s5cmd does neither.

    up, down    mix, files, mib, client, seconds, mib_s, of_s5cmd (seconds over s5cmd's; null without s5cmd), cpu_s (the
                client's processor time, user and system, least of the rounds, with its start), cpu_of_s5cmd
"""

import argparse
import json
import resource
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.checkpoint import BUCKET, PROGRAMS, emptied, moved, server, written
from benchmarks.checkpoint_client import STEP

MAX_RATIO_S5CMD_SMALL = 2.0
MIN_RATE_S5CMD_LARGE = 0.9
DIRECTIONS = ("up", "down")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """A mix of files: the number of files of each size in bytes."""

    name: str
    files: dict[int, int]


MIXES = {
    mix.name: mix
    for mix in (
        Mix(name="small", files={1 << 10: 50_000}),
        Mix(name="middle", files={1 << 20: 2_000}),
        Mix(name="large", files={1 << 30: 3}),
        Mix(name="mixed", files={1 << 10: 20_000, 1 << 20: 500, 1 << 30: 2}),
    )
}


def write_files(mix: Mix, folder: Path, scale: float) -> tuple[int, int]:
    """Write the files of a mix; return their number and their bytes."""
    number, total = 0, 0
    for size, count in mix.files.items():
        for index in range(max(1, round(count * scale))):
            place = folder / f"{size}-{index // 1000}"
            place.mkdir(parents=True, exist_ok=True)
            written(place / f"{index:06}", size)
            number, total = number + 1, total + size
    return number, total


def timed(mix: Mix, work: Path, endpoint: str, *, scale: float, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Upload and download one mix with every client, in turn."""
    source, back = work / f"step-{STEP}", work / "back"
    files, total = write_files(mix, source, scale)
    clients = ["agent", *(["s5cmd"] if PROGRAMS["s5cmd"].exists() else [])]
    best: dict[tuple[str, str], float] = {}
    least: dict[tuple[str, str], float] = {}
    for turn in range(rounds):
        for client in clients:
            uri = f"s3://{BUCKET}/{mix.name}-{client}-{turn}"
            back.mkdir()
            for direction, folder in (("up", source), ("down", back)):
                before = _spent()
                seconds, _ = moved(client, direction, uri, folder, endpoint)
                least[client, direction] = min(_spent() - before, least.get((client, direction), float("inf")))
                best[client, direction] = min(seconds, best.get((client, direction), float("inf")))
            if sum(path.stat().st_size for path in back.rglob("*") if path.is_file()) < total:
                raise RuntimeError(f"{client} did not bring everything back")
            shutil.rmtree(back)
            emptied(uri, endpoint)
    shutil.rmtree(source)
    labels = {"mix": mix.name, "files": files, "mib": round(total / 2**20)}
    found: dict[str, list[dict[str, Any]]] = {direction: [] for direction in DIRECTIONS}
    for direction in DIRECTIONS:
        for client in clients:
            row = labels | _figures(total, client, best[client, direction], best.get(("s5cmd", direction)))
            cpu, of = least[client, direction], least.get(("s5cmd", direction))
            found[direction].append(row | {"cpu_s": round(cpu, 2), "cpu_of_s5cmd": of and round(cpu / of, 2)})
    return found


def _spent() -> float:
    """Processor seconds of all ended child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _figures(total: int, client: str, seconds: float, of: float | None) -> dict[str, Any]:
    return {
        "client": client,
        "seconds": round(seconds, 2),
        "mib_s": round(total / 2**20 / seconds, 1),
        "of_s5cmd": None if of is None else round(seconds / of, 2),
    }


def measure(names: list[str], *, scale: float, rounds: int) -> dict[str, Any]:
    """The figures in the module's docstring."""
    found: dict[str, list[dict[str, Any]]] = {direction: [] for direction in DIRECTIONS}
    with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
        stored = Path(folder) / "stored"
        stored.mkdir()
        with server(stored) as endpoint:
            for name in names:
                rows = timed(MIXES[name], Path(folder), endpoint, scale=scale, rounds=rounds)
                for direction in DIRECTIONS:
                    found[direction] += rows[direction]
    return {"scale": scale, "rounds": rounds, **found}


def aims_met(figures: dict[str, Any]) -> bool:
    """Whether the agent meets its limits relative to s5cmd; always true without s5cmd."""
    rows = [
        (direction, row)
        for direction in DIRECTIONS
        for row in figures[direction]
        if row["client"] == "agent" and row["of_s5cmd"]
    ]
    most = {"large": 1 / MIN_RATE_S5CMD_LARGE}
    return all(row["of_s5cmd"] <= most.get(row["mix"], MAX_RATIO_S5CMD_SMALL) for _, row in rows)


def main() -> int:
    """Measure and print the figures; return the exit code."""
    parser = argparse.ArgumentParser(description="Checkpoints of files of several sizes, beside s5cmd.")
    parser.add_argument("--mixes", default=",".join(MIXES), help="which, with commas between")
    parser.add_argument("--scale", type=float, default=1.0, help="times the number of files")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = measure(options.mixes.split(","), scale=options.scale, rounds=options.rounds)
    print(json.dumps(figures, indent=None if options.json else 2))
    return 0 if aims_met(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
