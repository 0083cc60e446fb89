"""The guard's policies in a quote, for a new cluster and an existing one."""

import pytest

from launcher.model.enums import TargetKind
from launcher.pricing.policies import OF_THE_CLUSTER, policies
from tests.plans import request_of


def ends(target, names=("TTL", "idle stop", "warm pool"), **rails):
    """The policies that end nodes, by some names."""
    job = {"train": {"model": "llama-3.1-8b", "hours": 2}}
    target_section = {"instance_type": "p5.48xlarge", "nodes": 1, **target}
    request = request_of({"slipway": 1, "name": "tiny", "workload": job, "target": target_section, "guardrails": rails})
    kind = TargetKind(target.get("kind", "parallelcluster"))
    return {
        policy.name: (policy.value, policy.on) for policy in policies(request, None, 0, kind) if policy.name in names
    }


def test_new_cluster_has_the_stops_of_the_guard():
    assert ends({"kind": "eks"}, ttl_h=8) == {"TTL": ("8 h", True), "idle stop": ("5 min", True)}


@pytest.mark.parametrize("target", [{"kind": "eks", "cluster": "theirs"}, {"ssh_host": "head"}])
def test_existing_cluster_has_no_promised_stops(target):
    assert ends(target, ttl_h=8) == {"TTL": (OF_THE_CLUSTER, False), "idle stop": (OF_THE_CLUSTER, False)}


def test_training_jobs_have_no_idle_stop_and_a_warm_pool_only_when_asked():
    target = {"kind": "sagemaker-training"}
    assert ends(target) == {"TTL": ("off", False), "warm pool": ("off", False)}
    assert ends(target, idle_minutes=20)["warm pool"] == ("20 min, billed in full", True)


@pytest.mark.parametrize(
    "target, stop",
    [
        ({"kind": "ec2"}, "45 min without a step, or without activity"),
        ({"kind": "eks", "cluster": "theirs"}, "45 min without a step, if the trainer reports steps"),
        ({"ssh_host": "head"}, "45 min without a step, if the trainer reports steps"),
    ],
)
def test_hung_job_stop_names_what_is_watched(target, stop):
    assert ends(target, ("hung-job stop",), hung_minutes=45) == {"hung-job stop": (stop, True)}
    assert ends(target, ("hung-job stop",), hung_minutes=0) == {"hung-job stop": ("off", False)}
