"""One table of targets: every layer has what builds a target in one place, and nothing else asks which kind it is."""

import ast
from pathlib import Path

import pytest

import launcher
from launcher import plan_file
from launcher.catalog.catalog import COMPONENTS
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.target import TARGETS, Runs, serving_targets, taking, training_targets
from launcher.planning.targets import RULES
from launcher.rendering.targets import WRITERS
from launcher.workflow.deploy.targets import CLUSTERS

ROOT = Path(launcher.__file__).parents[1]
ROOMS = ("launcher", "infra")
TABLES = {
    "launcher/model/target.py": set(TargetKind),
    "launcher/planning/targets.py": set(TargetKind),
    "launcher/rendering/targets.py": set(TargetKind),
    "launcher/workflow/deploy/targets.py": set(TargetKind),
    "infra/targets.py": set(TargetKind),
}
"""The table, and the one place of each layer that names what builds a target."""
OWN = {
    "launcher/planning/eks.py": {TargetKind.PARALLELCLUSTER},
    "launcher/planning/hyperpod_eks.py": {TargetKind.HYPERPOD_SLURM},
    "launcher/planning/hyperpod.py": {TargetKind.HYPERPOD_SLURM, TargetKind.PARALLELCLUSTER},
    "launcher/rendering/cluster.py": {TargetKind.PARALLELCLUSTER},
    "launcher/rendering/eks.py": {TargetKind.EKS},
    "launcher/rendering/hyperpod_eks.py": {TargetKind.HYPERPOD_EKS},
    "launcher/rendering/hyperpod.py": {TargetKind.HYPERPOD_SLURM},
    "launcher/model/serving_image.py": {TargetKind.EKS},
}
"""Modules of one target, which know their own kind and the one that they point to as a way out."""


@pytest.mark.parametrize("kind", TargetKind)
class TestRow:
    def test_every_kind_has_a_row_and_a_plan_that_pins_it(self, kind):
        row = TARGETS[kind]
        assert row.kind is kind
        request = plan_file.load(ROOT / "examples" / row.example)
        assert request.target.kind == (kind,)
        assert set(request.purchase.option) <= set(row.trains if request.workload.serve is None else row.serves)

    def test_it_says_what_bills_it(self, kind):
        assert TARGETS[kind].sagemaker is None or TARGETS[kind].sagemaker in COMPONENTS
        assert TARGETS[kind].managed == TARGETS[kind].billed_name("p5.48xlarge").startswith("ml.")

    def test_what_is_deployed_is_guarded_by_a_module_that_exists(self, kind):
        row = TARGETS[kind]
        assert (row.guard is not None) == bool(row.deployed)
        if row.guard is not None:
            assert (ROOT / "templates" / "guard" / f"{row.guard.module}.py").is_file()

    def test_it_takes_ways_of_buying_for_what_it_runs(self, kind):
        row = TARGETS[kind]
        assert bool(row.trains) or Runs.TRAINING not in row.deployed
        assert bool(row.serves) or Runs.SERVING not in row.deployed
        assert PurchaseOption.ON_DEMAND in (*row.trains, *row.serves)


def test_every_target_that_trains_has_its_entry_in_every_layer():
    trained = {kind for kind, row in TARGETS.items() if row.trains}
    assert RULES.keys() == WRITERS.keys() == CLUSTERS.keys() == trained


def test_the_first_that_takes_a_way_of_buying_is_taken():
    assert taking(PurchaseOption.CAPACITY_BLOCK, training_targets()) is TargetKind.PARALLELCLUSTER
    assert taking(PurchaseOption.TRAINING_PLAN, training_targets()) is TargetKind.HYPERPOD_SLURM
    assert taking(PurchaseOption.BEDROCK, serving_targets()) is TargetKind.SAGEMAKER_ENDPOINT


def test_nothing_else_asks_which_kind_a_target_is():
    """The next target is a row and a module a layer: an `if` on a kind elsewhere would be one more place to change."""
    found = []
    for path in sorted(each for room in ROOMS for each in (ROOT / room).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        allowed = TABLES.get(name, OWN.get(name, set()))
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "TargetKind" in source else ():
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
                continue
            kind = TargetKind.__members__.get(node.attr) if node.value.id == "TargetKind" else None
            if kind is not None and kind not in allowed:
                found.append(f"{name}:{node.lineno}: {kind.name}")
    assert not found
