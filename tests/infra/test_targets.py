"""The builders of the targets: one for each that is deployed, and a plan loads no other's part of the CDK."""

import subprocess
import sys

import pytest

from infra.targets import BUILDERS, builder_of
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.model.target import TARGETS

LOADED = """
import sys
from infra.targets import builder_of
from launcher.model.enums import TargetKind
builder_of(TargetKind({kind!r}))
print(*sorted(name for name in sys.modules if name.startswith("infra.stacks.")))
"""


def test_what_is_deployed_has_a_builder():
    assert BUILDERS.keys() == {kind for kind, row in TARGETS.items() if row.deployed}


def test_what_is_not_deployed_is_refused_with_what_is(monkeypatch):
    monkeypatch.setattr("infra.targets.BUILDERS", {kind: made for kind, made in BUILDERS.items() if kind != "eks"})
    with pytest.raises(ImpossibleError) as refusal:
        builder_of(TargetKind.EKS)
    (found,) = refusal.value.findings
    assert "parallelcluster, hyperpod-slurm, sagemaker-endpoint" in found.message


@pytest.mark.parametrize(
    "kind, other",
    [
        ("parallelcluster", "hyperpod"),
        ("hyperpod-slurm", "training"),
        ("sagemaker-endpoint", "network"),
        ("eks", "training"),
        ("hyperpod-eks", "training"),
    ],
)
def test_a_plan_loads_its_own_stacks_alone(kind: str, other: str):
    command = [sys.executable, "-c", LOADED.format(kind=kind)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"infra.stacks.{other}" not in answer.stdout.split()
