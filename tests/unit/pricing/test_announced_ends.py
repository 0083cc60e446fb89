"""Announced ends of support that a plan depends on; those of Bedrock's models are in test_bedrock_terms.py."""

from dataclasses import replace
from datetime import UTC, date, datetime

import pytest

from launcher.catalog.load import load
from launcher.catalog.pinned_images import pinned_image
from launcher.catalog.serving_images import load_images
from launcher.model.announced_end import AnnouncedEnd
from launcher.model.eks import VERSION
from launcher.model.enums import Basis, OperatingSystem
from launcher.pricing.ages import expiry
from launcher.pricing.announced_ends import end_flips, until
from launcher.rendering.image import PARALLELCLUSTER_VERSION
from launcher.targets.parallelcluster.target import ParallelCluster
from launcher.targets.registry import serving_targets, target_of, training_targets
from launcher.workflow.quote.compare import compare
from launcher.workflow.quote.options import PriceOptions
from tests.unit.pricing.conftest import price_over

GONE = AnnouncedEnd(
    key="instance-type/p5.48xlarge",
    what="p5.48xlarge",
    ends=date(2027, 3, 30),
    then="AWS sells no p5.48xlarge",
    withdrawn=True,
    path="target.instance_type",
    hint="another type",
    basis=Basis.LISTED,
    source="a test",
    as_of=date(2026, 11, 1),
)


def ends_of(changes, now="2026-11-23"):
    """Level, path and message of the findings of a quote that are of announced ends, by key."""
    quoted = price_over(changes, now=datetime.fromisoformat(now).replace(tzinfo=UTC)).quote(1)
    findings = [finding for finding in quoted.findings if finding.code == "announced-end"]
    assert len(findings) == len(quoted.ends)
    return {
        end.key: (finding.level.value, finding.path, finding.message)
        for end, finding in zip(quoted.ends, findings, strict=True)
    }


def test_every_announced_end_names_an_item_a_plan_can_use():
    """A version that is raised without its row, or a row that nothing asks for, fails here."""
    catalog = load()
    usable = {f"instance-type/{name}" for name in catalog.instance_types}
    usable |= {f"os/{system.value}" for system in OperatingSystem}
    usable |= {key for kind in training_targets() + serving_targets() for key in target_of(kind).software}
    for facts in catalog.instance_types.values():
        usable |= {f"image/{pinned_image(facts, service)}" for service in ("ec2", "sagemaker")}
        usable.add(f"stack/{facts.chip.training_stack.name}" if facts.chip and facts.chip.training_stack else "")
    for image in load_images().images:
        usable |= {f"image/{image.repository.rpartition('/')[2]}:{image.tag}", f"ami/{image.ami}"}
    assert set(catalog.announced_ends) <= usable
    assert {f"kubernetes/{VERSION}", "parallelcluster/3.16", "slurm/25.11", "stack/xla"} <= set(catalog.announced_ends)
    assert f"parallelcluster/{PARALLELCLUSTER_VERSION.rpartition('.')[0]}" in ParallelCluster.software


@pytest.mark.parametrize("now, reported", [("2026-03-20", False), ("2026-11-23", True), ("2027-04-01", True)])
def test_the_end_of_a_kubernetes_version_is_a_dated_finding_from_a_year_before(now, reported):
    ends = ends_of({"target": {"kind": "eks"}, "purchase": {"price_overrides": {"p5.48xlarge/on-demand": "60"}}}, now)
    assert ("kubernetes/1.35" in ends) is reported
    if reported:
        _, path, message = ends["kubernetes/1.35"]
        assert path == "target.kind"
        assert "2027-03-27" in message


def test_an_end_within_the_plans_runs_is_a_warning_and_a_later_one_is_information():
    once = ends_of({"target": {"kind": "eks"}})
    monthly = ends_of({"target": {"kind": "eks"}, "workload": {"train": {"runs": 24, "runs_per_month": 1}}})
    assert {end[0] for end in once.values()} == {"info"}
    assert {end[0] for end in monthly.values()} == {"warning"}
    assert set(once) == {"kubernetes/1.35", "image/pytorch:2.13.0-cu133-amzn2023"}


def test_software_versions_of_an_existing_cluster_are_not_reported():
    changes = {"target": {"kind": "parallelcluster", "os": "ubuntu2204"}}
    assert set(ends_of(changes)) == {"slurm/25.11", "os/ubuntu2204"}
    assert ends_of({"target": {**changes["target"], "cluster": "shared"}}) == {}


def test_past_end_is_reported_with_the_date():
    changes = {"target": {"kind": "parallelcluster", "instance_type": "trn1.32xlarge"}}
    level, path, message = ends_of(changes)["stack/xla"]
    assert (level, path) == ("warning", "target.instance_type")
    assert "ended on 2026-05-20" in message


def test_an_image_of_the_plans_own_does_not_end_with_the_catalogs():
    ends = ends_of({"target": {"kind": "eks"}, "run": {"image": "registry.example.com/mine:1"}})
    assert set(ends) == {"kubernetes/1.35"}


def test_quote_expires_at_the_first_future_end():
    quoted = price_over({"target": {"kind": "eks"}}, now=datetime(2027, 2, 20, tzinfo=UTC)).quote(1)
    price = replace(quoted.price, as_of=date(2027, 2, 1))
    now = datetime(2027, 2, 20, tzinfo=UTC)
    assert expiry(price, "on-demand", now, quoted.ends) == datetime(2027, 3, 27, tzinfo=UTC)
    assert expiry(price, "on-demand", datetime(2027, 3, 28, tzinfo=UTC), quoted.ends[:1]).date() > date(2027, 7, 1)


def test_verdict_is_limited_by_the_end_of_the_chosen_instance_type(tmp_path, monkeypatch):
    path = tmp_path / "plan.yaml"
    path.write_text(
        "slipway: 1\nname: job\nworkload: {train: {model: llama-3.1-8b, method: full, tokens_b: 2, custom_kernels: "
        "heavy}}\ntarget: {kind: parallelcluster, region: us-east-1, instance_type: p5.48xlarge, nodes: 2}\n"
        "purchase: {option: on-demand}\n"
    )
    now = datetime(2026, 11, 23, tzinfo=UTC)
    comparison = compare(path, now, PriceOptions())
    assert comparison.verdict.text.startswith("Train on GPUs")
    # GPUs and Trainium have the same Slurm: its end changes nothing between them.
    assert "Slurm" in " ".join(end.what for end in comparison.gpu.ends)
    assert "Slurm" not in " ".join(comparison.verdict.flips)
    comparison = compare(path, now, PriceOptions())
    # Other tests of the process have the same catalog.
    monkeypatch.setitem(vars(comparison.pinned.catalog), "announced_ends", {GONE.key: GONE})
    assert comparison.verdict.text.endswith(", until 2027-03-30, when AWS sells no p5.48xlarge.")


def test_only_withdrawn_types_limit_a_verdict():
    dearer = replace(GONE, withdrawn=False)
    assert until("Train on GPUs.", (dearer,)) == "Train on GPUs."
    flip = "2027-03-30: p5.48xlarge ends, and AWS sells no p5.48xlarge"
    assert end_flips((dearer, GONE), date(2027, 3, 29), chips_only=True) == (flip,)
    assert end_flips((dearer, GONE), date(2027, 3, 30), chips_only=True) == ()


def test_end_of_shared_software_is_a_flip_of_endpoints_alone():
    slurm = replace(GONE, key="slurm/25.11", what="Slurm 25.11", withdrawn=False)
    assert end_flips((slurm,), date(2027, 1, 1), chips_only=True) == ()
    assert len(end_flips((slurm,), date(2027, 1, 1), chips_only=False)) == 1
