"""The time to synthesise the largest example, compared with a CDK app of one bucket.

    python -m benchmarks.synth [--runs N] [--json]

Both are separate processes (Python, the CDK's library in Node, the templates on disk), run in turn. The least of all
runs counts for each, in wall time and in processor time of the process and all its children; other work on the host
disturbs processor time least. The largest example is the one whose templates have the most resources, among the
examples without open choices. Without --json, the result is written to benchmarks/synth.json and a line is printed;
with it, nothing is written and one object is printed:

    example, resources            the largest example, and the resources of all its stacks
    cpu_seconds, bucket_cpu       processor time of its best run, and of the best run of the one-bucket app
    ratio                         the first over the second; its maximum is 1.6
    seconds, bucket, clock_ratio  the same in wall time
    runs                          runs of each app
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from launcher import plan_file
from launcher.catalog.load import load
from launcher.cdk import toolchain
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "benchmarks" / "synth.json"
MAX_RATIO = 1.6
"""Maximum ratio."""
ONE_BUCKET = """
from aws_cdk import App, Stack, aws_s3
app = App()
aws_s3.Bucket(Stack(app, "one"), "Bucket")
app.synth()
"""


def main() -> int:
    """Measure, and record or print the figures; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.synth")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measured(options.runs)
    if options.json:
        print(json.dumps(result))
        return 0
    RECORD.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"{result['example']}: {result['cpu_seconds']} s of processor time, one bucket: {result['bucket_cpu']} s")
    print(f"ratio {result['ratio']}, at most {MAX_RATIO}; by the clock {result['clock_ratio']}")
    return 0 if float(str(result["ratio"])) <= MAX_RATIO else 1


def measured(runs: int) -> dict[str, object]:
    """The figures in the module's docstring."""
    paths = [path for path in sorted((ROOT / "examples").glob("*.yaml")) if is_one_plan(path)]
    sizes = {path.name: run(example(path)).resources for path in paths}
    largest = max(sizes, key=lambda name: sizes[name])
    ours, bucket = [], []
    for _ in range(runs):
        bucket.append(run([sys.executable, "-c", ONE_BUCKET]))
        ours.append(run(example(ROOT / "examples" / largest)))
    cpu, cpu_bucket = (min(sample.cpu_s for sample in of) for of in (ours, bucket))
    clock, clock_bucket = (min(sample.clock_s for sample in of) for of in (ours, bucket))
    return {
        "example": largest,
        "resources": sizes[largest],
        "cpu_seconds": round(cpu, 1),
        "bucket_cpu": round(cpu_bucket, 1),
        "ratio": round(cpu / cpu_bucket, 2),
        "seconds": round(clock, 1),
        "bucket": round(clock_bucket, 1),
        "clock_ratio": round(clock / clock_bucket, 2),
        "runs": runs,
    }


def is_one_plan(path: Path) -> bool:
    """Whether a plan file can be synthesised without further choices."""
    try:
        pinned_plan(plan_file.load(path), load())
    except ImpossibleError:
        return False
    return True


def example(path: Path) -> list[str]:
    """The command that synthesises a plan file, as in cdk.json, with its context."""
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    program = (
        "import os, runpy; os.environ['CDK_CONTEXT_JSON'] = {!r}; runpy.run_module('infra.app', run_name='__main__')"
    )
    return [sys.executable, "-c", program.format(json.dumps({**context, "plan": str(path)}))]


class Run(NamedTuple):
    """One run: processor time including children, wall time, and the number of created resources."""

    cpu_s: float
    clock_s: float
    resources: int


def run(command: list[str]) -> Run:
    """Run a program that writes templates."""
    environment = {**os.environ, **toolchain.variables(os.environ), "PYTHONPATH": str(ROOT)}
    # As installed: modules are compiled once, and the runs before the first that counts have done so.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        before, begun = processor_s(), time.perf_counter()
        subprocess.run(command, env={**environment, "CDK_OUTDIR": folder}, cwd=ROOT, check=True, capture_output=True)
        cpu_s, clock_s = processor_s() - before, time.perf_counter() - begun
        templates = [json.loads(path.read_text(encoding="utf-8")) for path in Path(folder).glob("*.template.json")]
    return Run(cpu_s, clock_s, sum(len(template["Resources"]) for template in templates))


def processor_s() -> float:
    """Processor time of all ended children and their children: jsii waits for its Node process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
