"""Keys of Kubernetes are refused where nothing would read them."""

import pytest

from launcher.planning.kubernetes import key_findings
from tests.plans import request_of


def found(**sections):
    request = request_of({"slipway": 1, "name": "x", **sections})
    return [(each.code, each.path) for each in key_findings(request)]


class TestKeys:
    @pytest.mark.parametrize(
        "sections,path",
        [
            ({"target": {"cluster": "c", "context": "x"}}, "target.context"),
            ({"target": {"queue": "team/gpus"}}, "target.queue"),
            ({"network": {"api_cidrs": ["198.51.100.0/24"]}}, "network.api_cidrs"),
            ({"run": {"operator": "job"}}, "run.operator"),
        ],
    )
    def test_they_are_for_targets_with_pods(self, sections, path):
        of_slurm = {**sections, "target": {**sections.get("target", {}), "kind": "parallelcluster"}}
        assert found(**of_slurm) == [("kubernetes-key", path)]
        assert found(**{**of_slurm, "target": {**of_slurm["target"], "kind": ["parallelcluster", "eks"]}}) == []
        assert found(**sections) == []

    def test_a_priority_is_of_a_queue_and_a_context_of_a_cluster(self):
        assert found(target={"priority": "high"}) == [("priority-without-queue", "target.priority")]
        assert found(target={"context": "x"}) == [("context-without-cluster", "target.context")]

    def test_a_range_is_one(self):
        assert found(network={"api_cidrs": ["198.51.100.7/24"]}) == [("bad-range", "network.api_cidrs")]
