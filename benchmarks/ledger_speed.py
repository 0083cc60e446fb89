"""Time of `slipway ledger` for 100,000 runs.

    python -m benchmarks.ledger_speed [--count N] [--runs N] [--json]

The benchmark creates run folders with a run's usual files and lists them once to build the index. Then separate
processes list them; the fastest counts. A run is added before the last listings, as in a user's folder. The aim applies
to processor time: on a busy host, wall time also measures other processes.

    count        run folders
    first_s      seconds of the first listing, which reads every folder
    listed_s     seconds of a listing with the index
    grouped_s    the same, summed by month
    one_new_s    the same as listed_s, after one more run
    listed_cpu_s processor seconds of a listing with the index
    index_bytes  size of the index
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

MAX_S = 2.0
NAMES = 50
FIRST = datetime(2024, 1, 1, tzinfo=UTC)
QUOTE = {
    "schema": "slipway.quote/1",
    "target": "parallelcluster",
    "instance_type": "p5.48xlarge",
    "nodes": 2,
    "region": "us-east-2",
    "purchase_option": "spot",
    "usd_per_hour": "40.7264",
    "usd": {"low": "310.5", "mid": "402.1875", "high": "590.25"},
    "serving": None,
}
PLAN = {"slipway": 1, "tags": {"team": "speech", "project": "asr"}}


def measure(count: int, runs: int) -> dict[str, object]:
    """The figures in the module's docstring."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place)
        for number in range(count):
            make(root, number)
        first_s, _ = _listed(root)
        listed = [_listed(root) for _ in range(runs)]
        grouped_s = min(_listed(root, "--by", "month")[0] for _ in range(runs))
        make(root, count)
        one_new_s, _ = _listed(root)
        return {
            "count": count,
            "runs": runs,
            "first_s": round(first_s, 2),
            "listed_s": round(min(wall for wall, _ in listed), 2),
            "listed_cpu_s": round(min(cpu for _, cpu in listed), 2),
            "grouped_s": round(grouped_s, 2),
            "one_new_s": round(one_new_s, 2),
            "index_bytes": (root / ".slipway" / "ledger.index").stat().st_size,
        }


def make(root: Path, number: int) -> None:
    """Write the folder of one run that was interrupted once."""
    begun = FIRST + timedelta(minutes=11 * number)
    name = f"job-{number % NAMES}"
    folder = root / ".slipway" / "runs" / name / f"{begun:%Y%m%dT%H%M%SZ}"
    folder.mkdir(parents=True)
    middle, end = begun + timedelta(hours=4), begun + timedelta(hours=9)
    attempts = [(begun, middle, "spot-interruption", 75), (middle, end, "completed", 0)]
    report = {
        "schema": "slipway.report/1",
        "name": name,
        "status": "succeeded",
        "scheduler": "slurm",
        "simulated": False,
        "attempts": [
            {
                "started_at": start.isoformat(),
                "ended_at": stop.isoformat(),
                "exit_code": code,
                "ended_by": by,
                "resumed_from_step": 0,
                "last_step": 900,
            }
            for start, stop, by, code in attempts
        ],
        "quoted": {"usd": "402.1875", "hours": 8.2, "usd_per_hour": "40.7264", "prices_as_of": "2026-11-20"},
        "stacks": [],
        "verified_resources": [],
        "not_emulated": [],
    }
    for file, document in (("plan.json", PLAN), ("quote.json", QUOTE), ("report.json", report)):
        (folder / file).write_text(json.dumps(document), encoding="utf-8")


def _listed(root: Path, *arguments: str) -> tuple[float, float]:
    """Wall seconds and processor seconds of one process that lists the runs."""
    begun, before = time.perf_counter(), _used()
    command = [sys.executable, "-m", "launcher", "ledger", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "SLIPWAY_LEDGER"}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - begun, _used() - before


def _used() -> float:
    """Processor seconds of all ended child processes."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime


def main() -> int:
    """Measure and print the figures; return 0 if the aim is met."""
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--count", type=int, default=100_000, help="run folders")
    reader.add_argument("--runs", type=int, default=3, help="listings of each kind; the fastest counts")
    reader.add_argument("--json", action="store_true", help="print the figures as JSON")
    options = reader.parse_args()
    figures = measure(options.count, options.runs)
    print(json.dumps(figures, indent=2) if options.json else figures)
    return 0 if float(str(figures["listed_cpu_s"])) < MAX_S else 1


if __name__ == "__main__":
    sys.exit(main())
