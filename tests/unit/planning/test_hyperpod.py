"""HyperPod's subnet requirements, and the remarks for a plan."""

from launcher.catalog.training import load_training
from launcher.model.enums import Level, TargetKind
from launcher.planning.addresses import addresses
from launcher.planning.pin import pinned_plan
from launcher.planning.resolve import resolve_training
from tests import plans


def request_of(**changes):
    base = {
        "slipway": 1,
        "name": "pod",
        "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
        "target": {"kind": "hyperpod-slurm", "region": "us-east-2", "instance_type": "p5.48xlarge", "nodes": 2},
        "purchase": {"option": "on-demand"},
    }
    for key, value in changes.items():
        base[key] = {**base.get(key, {}), **value}
    return plans.request_of(base)


def take(request, catalog):
    return addresses(request, pinned_plan(request, catalog).place, catalog.instance_types)


def test_every_card_and_file_system_count_addresses(catalog):
    pod = take(request_of(), catalog)
    assert pod == 2 * 32 + 1 + 3
    assert take(request_of(storage={"login_nodes": 2}), catalog) == pod + 2
    assert take(request_of(target={"kind": "parallelcluster"}), catalog) == 2 + 1


def test_hyperpod_remarks_only_with_hyperpod_target(catalog):
    facts = load_training()
    resolution = resolve_training(request_of(), catalog, facts)
    assert {group.target for group in resolution.groups} == {TargetKind.HYPERPOD_SLURM}
    assert [finding.code for finding in resolution.findings] == ["hyperpod-shared-folder", "hyperpod-health-checks"]
    lustre_resolution = resolve_training(request_of(storage={"lustre_gib": 2400}), catalog, facts)
    assert [finding.code for finding in lustre_resolution.findings] == ["hyperpod-health-checks"]
    plain = resolve_training(request_of(target={"kind": "any"}), catalog, facts)
    assert [finding.code for finding in plain.findings] == []


def test_training_plan_without_end_is_reported(catalog):
    arn = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/p5"
    facts, ends = load_training(), "2026-12-08T11:30:00Z"
    open_ended = {"option": "training-plan", "training_plan": {"arn": arn}}
    (finding,) = [
        finding
        for finding in resolve_training(request_of(purchase=open_ended), catalog, facts).findings
        if finding.code == "training-plan-end"
    ]
    assert (finding.level, finding.path) == (Level.WARNING, "purchase.training_plan.ends_at")
    known = {"option": "training-plan", "training_plan": {"arn": arn, "ends_at": ends}}
    assert "training-plan-end" not in {
        finding.code for finding in resolve_training(request_of(purchase=known), catalog, facts).findings
    }


def test_pinning_selects_first_target_allowing_purchase_option(catalog):
    assert pinned_plan(request_of(), catalog).place.target is TargetKind.HYPERPOD_SLURM
    assert pinned_plan(request_of(target={"kind": "any"}), catalog).place.target is TargetKind.PARALLELCLUSTER
    arn = "arn:aws:sagemaker:us-east-2:123456789012:training-plan/p5"
    bought = {"option": "training-plan", "training_plan": {"arn": arn}}
    assert pinned_plan(request_of(target={"kind": "any"}, purchase=bought), catalog).place.target == "hyperpod-slurm"
