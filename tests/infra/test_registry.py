"""Regions whose CloudFormation registry lacks a type of the stacks: the shipped table, and plans for such regions."""

import pytest

from benchmarks import registry as writer
from launcher.catalog.registry import EVERY_TYPE, REGISTRY, missing_types, regions_with
from launcher.catalog.tables import SNAPSHOT, read_cells
from launcher.model.enums import TargetKind
from launcher.model.hyperpod import GOVERNANCE_TYPES
from launcher.planning.registry import BUDGET, budget_findings
from launcher.rendering.policies import TARGET_POLICIES
from launcher.targets.registry import TARGETS, target_of
from tests.infra.deployer import PERMISSIONS
from tests.infra.guarded_plans import KINDS, RATE, guarded_plan
from tests.infra.region_check import OPTIONAL, check_every_region
from tests.infra.registry import types_in

LACKING = {
    row["resource_type"] for row in read_cells(REGISTRY) if row["lacking"] and row["resource_type"] != EVERY_TYPE
}


def test_registry_table_equals_locked_cfn_lint():
    assert (SNAPSHOT / REGISTRY).read_text(encoding="utf-8") == writer.text(), "python -m benchmarks.registry"


@pytest.mark.parametrize("kind", [kind for kind, target in TARGETS.items() if target.deployed])
def test_types_missing_in_some_region_belong_to_target_or_rule(kind):
    policies = set(TARGET_POLICIES[kind])
    own = {type_ for name in policies for type_ in PERMISSIONS.policy(name).types}
    assert LACKING & own - OPTIONAL == set(target_of(kind).registry_types)


def test_clusters_in_every_region_are_deployable_or_refused(example_of_kind, catalog):
    kind, assembly = example_of_kind
    refused = check_every_region(assembly, catalog)
    assert not refused or target_of(TargetKind(kind)).registry_types


@pytest.mark.parametrize("kind", KINDS)
def test_guarded_stacks_in_every_region_are_deployable_or_refused(kind, synthesised, catalog):
    check_every_region(synthesised(guarded_plan(kind, catalog), **RATE), catalog)


def test_budget_omitted_in_region_without_resource_type(synthesised, catalog):
    text = (
        "slipway: 1\nname: north\nworkload: {train: {hours: 10}}\n"
        "target: {kind: parallelcluster, region: REGION, instance_type: p5.48xlarge, nodes: 1}\n"
        "purchase: {option: on-demand}\nbudget: {max_usd: 3000}\nrun: {command: [python3, train.py]}\n"
    )
    for region, expected in (("eu-north-1", 0), ("us-east-2", 1)):
        assembly = synthesised(text.replace("REGION", region), usd_per_hour="55")
        assert len(assembly.resources("training", BUDGET)) == expected
        summary = assembly.template("training")["Outputs"]["GuardrailSummary"]["Value"]
        assert ("no AWS Budget: CloudFormation in eu-north-1 has none" in summary) == (not expected)
        # The guard's own estimate and its alarm stay.
        assert "alarm at an estimated $3000" in summary
        metrics = {alarm["MetricName"] for alarm in assembly.resources("training", "AWS::CloudWatch::Alarm").values()}
        assert "EstimatedSpend" in metrics
        assert bool(list(budget_findings(assembly.plan.request, region))) == (not expected)


def test_task_governance_regions_have_both_resource_types(catalog):
    having = set(regions_with(GOVERNANCE_TYPES, catalog.regions))
    assert having == {
        name for name in catalog.regions if name != "me-south-1" and set(GOVERNANCE_TYPES) <= types_in(name)
    }
    assert "us-east-2" not in having
    assert missing_types(GOVERNANCE_TYPES, "us-east-2")


def test_region_with_unknown_registry_never_suggested():
    assert missing_types((BUDGET,), "me-south-1") == ()
    assert regions_with(("AWS::S3::Bucket",), ("me-south-1", "us-east-1")) == ("us-east-1",)
