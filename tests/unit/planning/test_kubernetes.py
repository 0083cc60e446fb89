"""Kubernetes keys are refused on targets that do not use them."""

import pytest

from launcher.planning.kubernetes import key_findings
from tests.plans import request_of


def codes_and_paths(**sections):
    request = request_of({"slipway": 1, "name": "x", **sections})
    return [(finding.code, finding.path) for finding in key_findings(request)]


class TestKeys:
    @pytest.mark.parametrize(
        "sections,path",
        [
            ({"target": {"cluster": "c", "context": "x"}}, "target.context"),
            ({"target": {"queue": "team/gpus"}}, "target.queue"),
            ({"network": {"api_cidrs": ["52.94.76.0/24"]}}, "network.api_cidrs"),
            (
                {"security": {"kubernetes_access": ["arn:aws:iam::123456789012:role/trains"]}},
                "security.kubernetes_access",
            ),
            ({"run": {"operator": "job"}}, "run.operator"),
            ({"run": {"volumes": [{"claim": "data", "path": "/data"}]}}, "run.volumes"),
        ],
    )
    def test_kubernetes_keys_refused_on_other_targets(self, sections, path):
        of_slurm = {**sections, "target": {**sections.get("target", {}), "kind": "parallelcluster"}}
        assert codes_and_paths(**of_slurm) == [("kubernetes-key", path)]
        assert (
            codes_and_paths(**{**of_slurm, "target": {**of_slurm["target"], "kind": ["parallelcluster", "eks"]}}) == []
        )
        assert codes_and_paths(**sections) == []

    def test_priority_requires_queue_and_context_requires_cluster(self):
        assert codes_and_paths(target={"priority": "high"}) == [("priority-without-queue", "target.priority")]
        assert codes_and_paths(target={"context": "x"}) == [("context-without-cluster", "target.context")]

    @pytest.mark.parametrize("path", ["/slipway", "/slipway/job/x", "/dev", "/data/deep"])
    def test_volume_on_taken_path_refused(self, path):
        volumes = [{"claim": "a", "path": "/data"}, {"claim": "b", "path": path}]
        assert codes_and_paths(run={"volumes": volumes}) == [("path-taken", "run.volumes[1].path")]

    @pytest.mark.parametrize(
        "range_,code",
        [
            ("52.94.76.7/24", "bad-range"),
            ("198.51.100.0/24", "documentation-range"),
            ("203.0.113.7/32", "documentation-range"),
            ("10.0.0.0/8", "private-range"),
            ("100.64.0.0/10", "private-range"),
            ("0.0.0.0/0", "wide-range"),
            ("52.94.0.0/15", "wide-range"),
            ("52.94.0.0/16", None),
        ],
    )
    def test_invalid_or_documentation_api_range_refused(self, range_, code):
        expected = [(code, "network.api_cidrs")] if code else []
        assert codes_and_paths(network={"api_cidrs": [range_]}) == expected
