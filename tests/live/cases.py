"""The cases of the live proof: one small, priced plan a target, and the row of docs/validated.md that it stands for."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANS = Path(__file__).parent / "plans"
PAGE = ROOT / "docs" / "validated.md"


@dataclass(frozen=True)
class Case:
    """One plan; `most_usd` is given to --max-usd, for the whole of it; `thing` is the first cell of its row."""

    plan: str
    most_usd: str
    thing: str

    @property
    def path(self):
        return PLANS / f"{self.plan}.yaml"

    @property
    def name(self):
        return re.search(r"(?m)^name: (\S+)$", self.path.read_text(encoding="utf-8"))[1]

    @property
    def serves(self):
        return "serve:" in self.path.read_text(encoding="utf-8")


CASES = (
    Case("ec2-g5", "5", "live case: a job on one plain g5.xlarge"),
    Case("parallelcluster-cpu", "5", "live case: ParallelCluster with two CPU nodes, a job from launch to report"),
    Case("endpoint-inf2", "720", "live case: an endpoint on inf2.xlarge that answers a request"),
    Case("parallelcluster-g5", "8", "live case: a job on two g5.xlarge"),
    Case("sagemaker-training-g5", "5", "live case: a SageMaker training job on ml.g5.xlarge"),
    Case("pcs-cpu", "15", "live case: a PCS cluster with one CPU node"),
    Case("hyperpod-cpu", "10", "live case: HyperPod with Slurm on ml.c5"),
)
"""The cheapest first. A serving plan's limit is on its month; it runs for less than an hour."""


def recorded(text, thing, result):
    """A page with what came of a case in the last cell of its row.

    >>> print(recorded("| a | yes | no |", "a", "2026-11-22: done, $1.20"))
    | a | yes | 2026-11-22: done, $1.20 |
    """
    lines = text.splitlines()
    (number,) = [index for index, line in enumerate(lines) if line.startswith(f"| {thing} |")]
    cells = lines[number].strip("|").split("|")
    lines[number] = f"|{'|'.join([*cells[:-1], f' {result} '])}|"
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")
