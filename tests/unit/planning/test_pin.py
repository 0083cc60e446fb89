"""Pinning a request to one plan: required keys, filled defaults, and stable resolved plans."""

import pytest

from launcher.model.document import document
from launcher.model.errors import ImpossibleError
from launcher.planning.pin import pinned_plan, zone
from tests.plans import laid_over, request_of

PINNED = {
    "slipway": 1,
    "name": "pinned",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
    "target": {"region": "us-east-2", "instance_type": "p5.48xlarge"},
    "purchase": {"option": "spot"},
}


def plan_of(catalog, **extra):
    return pinned_plan(request_of(laid_over(PINNED, extra)), catalog)


class TestOpen:
    @pytest.mark.parametrize(
        "section, key, value, got",
        [
            ("target", "instance_type", "any", "any"),
            ("target", "instance_type", ["p5.48xlarge", "p4d.24xlarge"], "p5.48xlarge, p4d.24xlarge"),
            ("target", "region", ["us-east-2", "us-west-2"], "us-east-2, us-west-2"),
            ("purchase", "option", "any", "any"),
        ],
    )
    def test_open_type_region_or_option_refused(self, catalog, section, key, value, got):
        with pytest.raises(ImpossibleError) as refusal:
            plan_of(catalog, **{section: {key: value}})
        (finding,) = [finding for finding in refusal.value.findings if finding.code == "not-pinned"]
        assert (finding.path, finding.message) == (f"{section}.{key}", f"must be one value, got {got}")

    def test_every_open_key_is_reported_at_once(self, catalog):
        with pytest.raises(ImpossibleError) as refusal:
            plan_of(catalog, target={"instance_type": "any", "region": "any"}, purchase={"option": "any"})
        assert len(refusal.value.findings) == 3

    def test_undeployable_target_refused(self, catalog):
        with pytest.raises(ImpossibleError) as refusal:
            plan_of(catalog, target={"kind": "sagemaker-endpoint"})
        assert {finding.path for finding in refusal.value.findings} == {"target.kind"}

    def test_pinning_errors_include_other_request_errors(self, catalog):
        with pytest.raises(ImpossibleError) as refusal:
            plan_of(catalog, target={"region": "any"}, checkpoint={"mode": "none"})
        assert {finding.code for finding in refusal.value.findings} == {"not-pinned", "spot-without-checkpoints"}


class TestFilledIn:
    @pytest.mark.parametrize("nodes, expected", [("any", 1), (4, 4), ({"min": 2, "max": 8}, 2)])
    def test_open_node_count_resolves_to_minimum(self, catalog, nodes, expected):
        assert plan_of(catalog, target={"nodes": nodes}).place.nodes == expected

    @pytest.mark.parametrize("kind", ["any", "parallelcluster", ["hyperpod-slurm", "parallelcluster"]])
    def test_parallelcluster_chosen_if_allowed(self, catalog, kind):
        assert plan_of(catalog, target={"kind": kind}).place.target == "parallelcluster"

    def test_open_zone_stays_open_in_plan_and_resolves_for_stacks(self, catalog):
        place = plan_of(catalog).place
        assert place.az_id is None
        assert catalog.region_of_az(zone(place, catalog)) == "us-east-2"


def test_resolved_plan_keeps_digest_when_pinned_again(catalog):
    plan = plan_of(catalog, target={"nodes": {"min": 2, "max": 8}})
    again = pinned_plan(request_of(document(plan.request)), catalog)
    assert (again.digest, again.place) == (plan.digest, plan.place)
