"""Runs all benchmarks, one after another, and writes the page of their figures.

    python -m benchmarks          (make bench)

Each benchmark is a separate module that also runs alone. The figures are written to docs/benchmarks.md, the accuracy of
estimates to docs/accuracy.md. The exit code is 0 if every aim is met.
"""

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "benchmarks.md"
TITLES = {
    "checkpoint": "Checkpoint upload and download, and the agent's overhead",
    "file_sizes": "Checkpoints with small, medium and large files",
    "many_nodes": "Requests of a job with many nodes to its folder and to S3",
    "checkpoint_losses": "Work lost at interruptions",
    "plan_speed": "Time of `slipway plan`",
    "ledger_speed": "Time of `slipway ledger` for 100,000 runs",
    "kubernetes_status": "Time to read the state of one job on a large Kubernetes cluster",
    "price_file": "Time and memory to read the price file of a large region",
    "recompute": "Quotes recalculated by an independent program",
    "scaling": "Estimates for many nodes from a measurement on few",
    "joint_simulation": "Hours and dollars compared with a simulation",
    "spot_simulation": "Spot cost formula compared with a simulation",
    "spot_interval": "Automatic checkpoint interval compared with the optimum",
    "start": "Time of `slipway --help` and `--version`",
    "synth": "Time to synthesise the stacks",
}
AIMS = {
    "checkpoint": (
        "Aims: at most 1.1 times boto3's time, at least 0.6 times the rate of s5cmd, at most 300 MiB, and at most 5 %"
        " slower training while the agent watches. All clients share two processors with one local S3 server, so the "
        "results do not apply to AWS."
    ),
    "file_sizes": "Aims: at most twice the time of s5cmd, and for large files at least 0.9 times its rate.",
    "many_nodes": (
        "Aim: on the busiest node, at most 25 operations per second on the shared folder, in every phase, for any "
        "number of nodes."
    ),
    "checkpoint_losses": (
        "Aims: a kill without notice loses at most 1 interval and 1 write; a notice loses only the steps that ended "
        "after it."
    ),
    "plan_speed": (
        "Aims, in processor time: for the demo and with every field `any`, at most 3 times the import of typer and "
        "rich, and at most 80 MiB; with `--all`, at most 59 times that import (5 s if the import takes 0.085 s) and "
        "150 MiB. With every field `any`, the ratio misses the aim, and with `--all` time and memory do."
    ),
    "ledger_speed": "Aim: list 100,000 runs in less than 2 s.",
    "kubernetes_status": "Aim: less than 1 s on a cluster of 500 nodes and 2,000 pods.",
    "price_file": (
        "Aims: at most 120 MiB of additional memory; per MiB, at most 1.5 times the time of a file of a tenth of the "
        "size; at most 1.05 times the file's bytes if the connection is cut; no bytes for an unchanged file."
    ),
    "recompute": (
        "Aim: low, middle and high within 0.5 % of a program that reads only the plan file and the price files."
    ),
    "scaling": (
        "Aim: at least as many of the larger node counts within 25 % as without the measurement, and as with a "
        "constant rate per chip."
    ),
    "joint_simulation": (
        "Aim: the 10th, 50th and 90th percentile of hours and dollars of every random job, spot and not,"
        " within 2 % of an event-by-event simulation with separate code, beyond four standard errors of the"
        " simulation. With 100,000 runs a job (`--runs`) and the plan data of 2026-11-29, all of 500 jobs"
        " hold, and so do all of another 500 (`--seed 11`); beyond the noise no percentile is more than 1.2"
        " % off. Without the allowance 99.0 to 100 % of the jobs are within 2 % at each percentile"
        " (`hours_p90_within` and its like); the farthest is 7 % off. The mean is within 5 %, except for new"
        " commitments, whose sets of nodes are bought in steps, and LoRA on Trainium, whose range is so wide"
        " that the simulated mean is uncertain. `middles_within_3_percent`: the total with every factor at"
        " its own median is within 3 %"
        " of the median of the total."
    ),
    "spot_simulation": (
        "Aims: an expected cost within 2 %, and a standard deviation within 5 % if at least 3 interruptions are "
        "expected, each beyond the noise of the simulation."
    ),
    "spot_interval": "Aim: at most 1 % more expensive than the best interval that a search finds.",
    "start": "Aim: at most twice the import of typer.",
    "synth": (
        "Aim: for the largest example, at most 1.6 times the processor time of an app with one bucket. The result is "
        "1.6 without other work, up to 2.0 with other work, and 1.8 to 2.0 in wall time. Of the processor time beyond"
        " the bucket app, a quarter is Python (1.0 s, compared with 0.35 s: the CDK's classes, jsii's type checks, "
        "the plan and its catalog). The rest is Node: 303 requests from Python, compared with 9, and the modules and "
        "resources behind them. Half of the bucket app's own time is the template validator, which aws-cdk-lib builds"
        " in every app. Running without jsii's checks (python -O) makes no measurable difference."
    ),
}
WRITE_THEMSELVES = ("accuracy", "serving_accuracy")
"""Benchmarks with their own page, which they write unless --json is given."""


def main() -> int:
    """Run all benchmarks; return the exit code."""
    failed = []
    sections = []
    for name, title in TITLES.items():
        code, figures = _figures(name)
        if code:
            failed.append(name)
        if figures:
            sections += [
                "",
                f"## {title}",
                "",
                AIMS[name],
                "",
                f"`python -m benchmarks.{name}`",
                "",
                *figures_table(figures),
            ]
    PAGE.write_text("\n".join([*_head(), *sections, ""]), encoding="utf-8")
    standalone = [name for name in WRITE_THEMSELVES if (ROOT / "benchmarks" / f"{name}.py").exists()]
    failed += [name for name in standalone if _run(name).returncode]
    print(f"written: {PAGE.relative_to(ROOT)}" + (f"; aims not met: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


def _head() -> Iterator[str]:
    """The beginning of the page."""
    yield "# Benchmarks"
    yield ""
    yield f"Written by `make bench` on {datetime.now(UTC):%Y-%m-%d} with Python {platform.python_version()} on"
    yield f"{platform.system()} {platform.machine()}. Times are ratios to a reference program on the same machine, so"
    yield "the machine has little influence; no test asserts them. [accuracy.md](accuracy.md) has the accuracy of"
    yield "estimates."


def _run(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run one benchmark as a separate process."""
    print(f"{name} ...", flush=True)
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def _figures(name: str) -> tuple[int, dict[str, Any]]:
    """The exit code of one benchmark and its figures; no figures if it could not run."""
    if not (ROOT / "benchmarks" / f"{name}.py").exists():
        return 0, {}
    done = _run(name, "--json")
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        print(done.stderr, file=sys.stderr)
        return done.returncode or 1, {}


def figures_table(figures: dict[str, Any]) -> Iterator[str]:
    """Figures as tables: first the single figures, then each list."""
    single = {key: value for key, value in figures.items() if not isinstance(value, list)}
    yield "| figure | value |"
    yield "|---|---|"
    yield from (f"| {key} | {value} |" for key, value in single.items())
    for key, rows in figures.items():
        if isinstance(rows, list) and rows:
            yield ""
            yield f"{key}:"
            yield ""
            yield "| " + " | ".join(rows[0]) + " |"
            yield "|" + "---|" * len(rows[0])
            yield from (
                "| " + " | ".join("" if cell is None else str(cell) for cell in row.values()) + " |" for row in rows
            )


if __name__ == "__main__":
    sys.exit(main())
