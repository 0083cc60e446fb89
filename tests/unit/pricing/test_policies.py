"""What a quote says of the guard: of a cluster that a plan makes, and of one that is there."""

import pytest

from launcher.pricing.policies import OF_THE_CLUSTER, policies
from tests.plans import request_of


def ends(target, **rails):
    """The policies that end nodes."""
    job = {"train": {"model": "llama-3.1-8b", "hours": 2}}
    wanted = {"instance_type": "p5.48xlarge", "nodes": 1, **target}
    request = request_of({"slipway": 1, "name": "tiny", "workload": job, "target": wanted, "guardrails": rails})
    return {
        each.name: (each.value, each.on) for each in policies(request, None, 0) if each.name in ("TTL", "idle stop")
    }


def test_a_cluster_of_the_plans_own_has_its_guard():
    assert ends({"kind": "eks"}, ttl_h=8) == {"TTL": ("8 h", True), "idle stop": ("5 min", True)}


@pytest.mark.parametrize("target", [{"kind": "eks", "cluster": "theirs"}, {"ssh_host": "head"}])
def test_of_one_that_is_there_nothing_is_promised(target):
    assert ends(target, ttl_h=8) == {"TTL": (OF_THE_CLUSTER, False), "idle stop": (OF_THE_CLUSTER, False)}
