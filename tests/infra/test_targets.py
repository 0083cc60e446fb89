"""The builders of the targets: one for each deployed target, and a plan loads only its own CDK modules."""

import json
import subprocess
import sys

import pytest

from launcher.model.enums import TargetKind
from launcher.model.errors import ImpossibleError
from launcher.targets.eks.target import Eks
from launcher.targets.registry import TARGETS

LOADED = """
import json, sys
from launcher.model.enums import TargetKind
loaded = {}
for kind in sys.argv[1:]:
    from infra.targets import builder_of
    builder_of(TargetKind(kind))
    own = [name for name in sys.modules if name.partition(".")[0] == "infra"]
    loaded[kind] = own
    for name in own:
        del sys.modules[name]
print(json.dumps(loaded))
"""
"""For each kind the modules of infra that its builder loads; aws-cdk-lib, the most expensive, is loaded once."""
OTHERS = {
    "parallelcluster": "hyperpod_slurm",
    "hyperpod-slurm": "parallelcluster",
    "sagemaker-endpoint": "network",
    "eks": "parallelcluster",
    "hyperpod-eks": "parallelcluster",
    "sagemaker-training": "parallelcluster",
}
"""For each kind a stack of another one."""


@pytest.mark.parametrize("kind", [kind for kind, facts in TARGETS.items() if facts.deployed])
def test_every_deployed_target_has_builder(kind):
    from infra.targets import builder_of

    assert {"findings", "build"} <= set(vars(builder_of(kind)))


class UndeployedEks(Eks):
    deployed = ()


def test_undeployed_target_refused_naming_deployed_targets(monkeypatch):
    from infra.targets import builder_of

    targets = {**TARGETS, TargetKind.EKS: UndeployedEks()}
    monkeypatch.setattr("infra.targets.TARGETS", targets)
    monkeypatch.setattr("infra.targets.target_of", targets.__getitem__)
    with pytest.raises(ImpossibleError) as refusal:
        builder_of(TargetKind.EKS)
    (finding,) = refusal.value.findings
    assert "parallelcluster, hyperpod-slurm, sagemaker-endpoint" in finding.message


def test_plan_loads_only_stacks_of_target():
    answer = subprocess.run([sys.executable, "-c", LOADED, *OTHERS], check=True, capture_output=True, text=True)
    loaded = json.loads(answer.stdout)
    assert list(loaded) == list(OTHERS)
    for kind, other in OTHERS.items():
        assert any(name.startswith("infra.stacks.") for name in loaded[kind])
        assert f"infra.stacks.{other}" not in loaded[kind]
