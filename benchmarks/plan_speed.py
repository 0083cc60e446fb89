"""Processor time and memory of `slipway plan`, compared with the import of the two libraries that it prints with.

    python -m benchmarks.plan_speed [--runs N] [--json]

Every command is a separate process. The commands run in turn with `python -c "import typer, rich.console, rich.table"`.
The least processor time of each counts, so that the ratio is also valid on a busy host. The bytecode of Slipway and of
all libraries is compiled before, as in an installation. With every field open, a plan considers tens of thousands of
combinations; the smaller plans show how time grows with their number. With `--all`, the command prints all of them, as
a table and as JSON: the aim is 5 seconds on a host whose import needs 0.085.

    base_s       processor seconds of the import
    imports_s    processor seconds to import every module that the largest plan has loaded at its end
    commands     name, considered, seconds, ratio to base_s, most (the maximum ratio, or null), mib (peak, resident);
                 the largest plan a second time, with its ratio to imports_s
"""

import compileall
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import ratios

ROOT = Path(__file__).resolve().parents[1]
BASE = ("-c", "import typer, rich.console, rich.table")
JOB = "slipway: 1\nname: job\nworkload: {train: {model: llama-3.1-8b, tokens_b: 2.0}}\n"
ONE = "target: {instance_type: p5.48xlarge, nodes: 1, region: us-east-2}\npurchase: {option: on-demand}\n"
FEW = "target: {instance_type: [p5.48xlarge, p5en.48xlarge, trn1.32xlarge, trn2.48xlarge]}\n"
REGION = "target: {region: us-east-1}\n"
PLANS = (
    ("the demo", None, 3.0),
    ("one place", JOB + ONE, None),
    ("one region, all types", JOB + REGION, None),
    ("four types, all regions", JOB + FEW, None),
    ("every field any", JOB, 3.0),
)
"""Name, text of the plan (None: examples/tiny-gpt.yaml) and maximum ratio."""
ON_CLUSTERS = JOB + "target: {kind: parallelcluster}\n"
EVERYTHING = (
    ("ParallelCluster, other fields any, --all --json", ON_CLUSTERS, ("--all", "--json"), 59.0),
    ("every field any, --all", JOB, ("--all",), 59.0),
    ("every field any, --all --json", JOB, ("--all", "--json"), 59.0),
)
"""Name, text of the plan, options and maximum ratio: 5 s against 0.085 s."""
MEMORY_MIB, ALL_MIB = 80, 150
MAX_OF_IMPORTS = 3.0
"""Maximum ratio of the largest plan to the import of its own modules."""
LOADED = """
import sys
from launcher.cli.app import main
sys.argv = ["slipway", "plan", sys.argv[1]]
try:
    main()
except SystemExit:
    print(*sorted(name for name, each in sys.modules.items() if getattr(each, "__spec__", None)), file=sys.stderr)
"""
"""A plan that prints its loaded modules on the last line of standard error."""
MAX_WHOLE = 3
"""Maximum runs of the commands in `EVERYTHING`."""
WITH_BYTECODE = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def measure(runs: int) -> dict[str, Any]:
    """The figures in the module's docstring."""
    with tempfile.TemporaryDirectory() as folder:
        compileall.compile_dir(ROOT / "launcher", quiet=1)
        paths = [_written(Path(folder), number, text) for number, (_, text, _) in enumerate(PLANS)]
        imports = ("-c", f"import {', '.join(_loaded(paths[-1]))}")
        command_lines: list[Sequence[str]] = [BASE, imports, *(("-m", "launcher", "plan", str(path)) for path in paths)]
        for command_line in command_lines:
            _run(command_line)  # compiles what it imports
        best = [(float("inf"), 0.0)] * len(command_lines)
        for _ in range(runs):
            best = [min(known, _run(command_line)) for known, command_line in zip(best, command_lines, strict=True)]
        considered = [_considered(path) for path in paths]
        whole, whole_counts = [], []
        for number, (_, text, options, _) in enumerate(EVERYTHING, len(paths)):
            path = _written(Path(folder), number, text)
            command = ("-m", "launcher", "plan", str(path), *options)
            whole.append(min(_run(command) for _ in range(min(runs, MAX_WHOLE))))
            whole_counts.append(_considered(path))
    (base_s, _), (imports_s, _), *plans = best
    rows = [(name, count, most) for (name, _, most), count in zip(PLANS, considered, strict=True)]
    rows += [(name, count, most) for (name, _, _, most), count in zip(EVERYTHING, whole_counts, strict=True)]
    commands: list[dict[str, Any]] = [
        {
            "name": name,
            "considered": count,
            "seconds": round(seconds, 3),
            "ratio": round(seconds / base_s, 2),
            "most": most,
            "mib": round(mib, 1),
            "most_mib": ALL_MIB if "--all" in name else MEMORY_MIB,
        }
        for (name, count, most), (seconds, mib) in zip(rows, (*plans, *whole), strict=True)
    ]
    largest = commands[len(PLANS) - 1]
    ratio = round(plans[-1][0] / imports_s, 2)
    imports_row = largest | {"name": f"{largest['name']}, to its own imports", "ratio": ratio, "most": MAX_OF_IMPORTS}
    commands.insert(len(PLANS), imports_row)
    return {"base_s": round(base_s, 3), "imports_s": round(imports_s, 3), "runs": runs, "commands": commands}


def _loaded(path: Path) -> list[str]:
    """The modules that a plan of a file has loaded at its end."""
    command = [sys.executable, "-c", LOADED, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1].split()


def _written(folder: Path, number: int, text: str | None) -> Path:
    """The path of a plan, written to a folder if the plan has a text."""
    if text is None:
        return ROOT / "examples" / "tiny-gpt.yaml"
    path = folder / f"{number}.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _run(arguments: Sequence[str]) -> tuple[float, float]:
    """Processor seconds and peak MiB of one process."""
    command, quiet = [sys.executable, *arguments], subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=ROOT, stdout=quiet, stderr=quiet, env=WITH_BYTECODE)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def _considered(path: Path) -> int:
    """The number of combinations that a plan considers, from its own output."""
    done = subprocess.run(
        [sys.executable, "-m", "launcher", "plan", str(path), "--json"], cwd=ROOT, capture_output=True, check=True
    )
    return int(json.loads(done.stdout)["considered"])


def _line(command: dict[str, Any]) -> str:
    """The figures of a command, as text."""
    aim = f", aim {command['most']:g}" if command["most"] else ""
    return f"{command['considered']:,} considered, {command['ratio']} x{aim}, {command['mib']} MiB"


def _met(command: dict[str, Any]) -> bool:
    """Whether a command meets its limits of time and memory."""
    return (command["most"] is None or command["ratio"] <= command["most"]) and command["mib"] <= command["most_mib"]


def main() -> int:
    """Measure and print the figures; return 0 if every aim is met."""
    return ratios.told(__doc__, measure, "import of typer and rich", _line, _met)


if __name__ == "__main__":
    sys.exit(main())
