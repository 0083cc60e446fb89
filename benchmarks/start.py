"""The time of `slipway --help`, `--version` and a shell's Tab, compared with the import of their output library.

    python -m benchmarks.start [--runs N] [--json]

Every command is a separate process. The commands run in turn with `python -c "import typer"`, and the fastest run of
each counts, so that the ratio is also valid on a busy host.

    base_s       seconds of the import
    runs         runs of each command
    commands     name, seconds, ratio to base_s, most (the maximum ratio)
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import ratios

ROOT = Path(__file__).resolve().parents[1]
BASE = ("-c", "import typer")
COMMANDS = ("--help", "--version")
TABS = ("slipway la", "slipway plan ", "slipway launch plan.yaml --region us-", "slipway prices show --type trn")
"""Command lines that bash completes."""
TAB = ("-c", "import sys; sys.argv = ['slipway']; from launcher.cli.app import main; main()")
MAX_RATIO = 2.0


def measure(runs: int) -> dict[str, Any]:
    """The figures in the module's docstring."""
    invocations: list[tuple[Sequence[str], str]] = [(BASE, ""), *((("-m", "launcher", word), "") for word in COMMANDS)]
    invocations += [(TAB, line) for line in TABS]
    best = [float("inf")] * len(invocations)
    for _ in range(runs):
        best = [min(known, _seconds(*invocation)) for known, invocation in zip(best, invocations, strict=True)]
    names = [*(f"slipway {word}" for word in COMMANDS), *(f"{line}<Tab>" for line in TABS)]
    commands = [
        {"name": name, "seconds": round(seconds, 3), "ratio": round(seconds / best[0], 2), "most": MAX_RATIO}
        for name, seconds in zip(names, best[1:], strict=True)
    ]
    return {"base_s": round(best[0], 3), "runs": runs, "commands": commands}


def _seconds(arguments: Sequence[str], line: str) -> float:
    """Seconds of one process, or of the completion of a line if `line` is not empty."""
    shell = {"_SLIPWAY_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
    environment = {**os.environ, **(shell if line else {})}
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun


def main() -> int:
    """Measure and print the figures; return 0 if the aim is met."""
    return ratios.told(
        __doc__,
        measure,
        "import of typer",
        lambda command: f"{command['ratio']} x, aim {command['most']:g}",
        lambda command: bool(command["ratio"] <= command["most"]),
    )


if __name__ == "__main__":
    sys.exit(main())
