"""A target is a folder: its facts are consistent, it has every part, and no other code checks the target's kind."""

import ast
from pathlib import Path

import pytest

import launcher
from launcher import plan_file
from launcher.catalog.catalog import COMPONENTS
from launcher.model.enums import PurchaseOption, TargetKind
from launcher.model.target import Runs
from launcher.rendering.target_files import TargetFiles
from launcher.targets.clusters import cluster_at, stacks_of
from launcher.targets.files import files_of
from launcher.targets.registry import TARGETS, serving_targets, taking, training_targets
from launcher.workflow.cluster.deployed import DeployedCluster

ROOT = Path(launcher.__file__).parents[1]
ROOMS = ("launcher", "infra")


@pytest.mark.parametrize("kind", TargetKind)
class TestRow:
    def test_every_kind_has_row_and_pinning_example(self, kind):
        row = TARGETS[kind]
        assert row.kind is kind
        request = plan_file.load(ROOT / "examples" / row.example)
        assert request.target.kind == (kind,)
        assert set(request.purchase.option) <= set(row.trains if request.workload.serve is None else row.serves)

    def test_target_billing_matches_sagemaker_component(self, kind):
        assert TARGETS[kind].sagemaker is None or TARGETS[kind].sagemaker in COMPONENTS
        assert TARGETS[kind].is_managed == TARGETS[kind].billed_name("p5.48xlarge").startswith("ml.")

    def test_deployed_target_has_existing_guard_module(self, kind):
        row = TARGETS[kind]
        assert (row.guard is not None) == bool(row.deployed)
        if row.guard is not None:
            assert (ROOT / "templates" / "guard" / f"{row.guard.module}.py").is_file()

    def test_target_row_has_purchase_options_for_workloads(self, kind):
        row = TARGETS[kind]
        assert bool(row.trains) or Runs.TRAINING not in row.deployed
        assert bool(row.serves) or Runs.SERVING not in row.deployed
        assert PurchaseOption.ON_DEMAND in (*row.trains, *row.serves)


def test_every_training_target_implements_every_required_method():
    trained = training_targets()
    assert trained
    for base, found in ((TargetFiles, files_of), (DeployedCluster, cluster_at)):
        required = [name for name, method in vars(base).items() if "NotImplementedError" in names_in(method)]
        assert required
        for kind in trained:
            missing = [name for name in required if "NotImplementedError" in names_in(getattr(type(found(kind)), name))]
            assert not missing, kind


def test_every_target_compares_stacks_with_plan():
    assert all(stacks_of(kind).readers for kind in TargetKind)


def names_in(method):
    """The global names that a function uses; none for anything else."""
    return getattr(getattr(method, "__code__", None), "co_names", ())


def test_purchase_option_selects_first_target_allowing_option():
    assert taking(PurchaseOption.CAPACITY_BLOCK, training_targets()) is TargetKind.PARALLELCLUSTER
    assert taking(PurchaseOption.TRAINING_PLAN, training_targets()) is TargetKind.HYPERPOD_SLURM
    assert taking(PurchaseOption.BEDROCK, serving_targets()) is TargetKind.SAGEMAKER_ENDPOINT


def test_target_kinds_are_compared_only_in_target_modules():
    """The next target is a folder: an `if` on a kind elsewhere would be one more place to change."""
    comparisons = []
    for path in sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py")):
        name = str(path.relative_to(ROOT))
        if name.startswith("launcher/targets/") or name == "infra/targets.py":
            # A target knows its own kind, and the one that it points to as a way out; registries find each kind.
            continue
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "TargetKind" in source else ():
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
                continue
            kind = TargetKind.__members__.get(node.attr) if node.value.id == "TargetKind" else None
            if kind is not None:
                comparisons.append(f"{name}:{node.lineno}: {kind.name}")
    assert not comparisons
