"""The builders of the targets: one for each deployed target, and a plan loads only its own CDK modules."""

import subprocess
import sys

import pytest

from infra.targets import builder_of
from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.targets.eks.target import Eks
from launcher.targets.registry import TARGETS

LOADED = """
import sys
from infra.targets import builder_of
from launcher.model.enums import TargetKind
builder_of(TargetKind({kind!r}))
print(*sorted(name for name in sys.modules if name.startswith("infra.stacks.")))
"""


@pytest.mark.parametrize("kind", [kind for kind, facts in TARGETS.items() if facts.deployed])
def test_every_deployed_target_has_builder(kind):
    assert {"findings", "build"} <= set(vars(builder_of(kind)))


class UndeployedEks(Eks):
    deployed = ()


def test_undeployed_target_refused_naming_deployed_targets(monkeypatch):
    targets = {**TARGETS, TargetKind.EKS: UndeployedEks()}
    monkeypatch.setattr("infra.targets.TARGETS", targets)
    monkeypatch.setattr("infra.targets.target_of", targets.__getitem__)
    with pytest.raises(ImpossibleError) as refusal:
        builder_of(TargetKind.EKS)
    (finding,) = refusal.value.findings
    assert "parallelcluster, hyperpod-slurm, sagemaker-endpoint" in finding.message


@pytest.mark.parametrize(
    "kind, other",
    [
        ("parallelcluster", "hyperpod_slurm"),
        ("hyperpod-slurm", "parallelcluster"),
        ("sagemaker-endpoint", "network"),
        ("eks", "parallelcluster"),
        ("hyperpod-eks", "parallelcluster"),
        ("sagemaker-training", "parallelcluster"),
    ],
)
def test_plan_loads_only_stacks_of_target(kind: str, other: str):
    command = [sys.executable, "-c", LOADED.format(kind=kind)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    assert f"infra.stacks.{other}" not in answer.stdout.split()
