"""A cluster known only by a kubeconfig context: found, inspected, and used for a job."""

import pytest

from launcher.aws.session import Session
from launcher.model.enums import Operator
from launcher.model.errors import ImpossibleError
from launcher.model.job import JobState
from launcher.planning.pin import pinned_plan
from launcher.records.submission import CONTEXT, HeadNode
from launcher.workflow.cluster.kubernetes_cluster import find, inspect_cluster
from launcher.workflow.cluster.reach import jobs_at
from tests.plans import request_of

PLAN = {
    "slipway": 1,
    "name": "tiny",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
    "target": {
        "kind": "eks",
        "region": "us-east-2",
        "cluster": "platform",
        "context": "there",
        "instance_type": "p5.48xlarge",
        "nodes": 1,
    },
    "purchase": {"option": "on-demand"},
    "checkpoint": {"uri": "s3://team-a/checkpoints"},
}


@pytest.fixture
def kubeconfig_environment(cluster, endpoint, tmp_path):
    """An account that knows nothing of the cluster, and a kubeconfig that does."""
    config = tmp_path / "config"
    config.write_text(
        f"""apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{cluster.server.address}"}}}}]
users: [{{name: u, user: {{token: {cluster.tokens.own}}}}}]
contexts: [{{name: there, context: {{cluster: c, user: u}}}}]
"""
    )
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing"}
    return {**keys, "AWS_ENDPOINT_URL": endpoint, "KUBECONFIG": str(config)}


@pytest.fixture
def plan_at_context(catalog):
    return lambda **target: pinned_plan(request_of({**PLAN, "target": {**PLAN["target"], **target}}), catalog)


def test_context_cluster_is_found_without_stack(plan_at_context, kubeconfig_environment):
    located_cluster = find(plan_at_context(), Session(environment=kubeconfig_environment, region="us-east-2"))
    assert (located_cluster.head_node.via, located_cluster.head_node.host) == (CONTEXT, "there")
    assert (located_cluster.by_slipway, located_cluster.eks) == (False, "platform")


def test_context_cluster_is_inspected(cluster, plan_at_context, kubeconfig_environment):
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge"}
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "8"}, labels=labels)
    pinned = plan_at_context()
    located_cluster = find(pinned, Session(environment=kubeconfig_environment, region="us-east-2"))
    inspection = inspect_cluster(pinned, located_cluster, kubeconfig_environment)
    assert [node.name for node in inspection.cluster.nodes] == ["n1"]
    assert (inspection.operator, inspection.missing_rights) == (Operator.PYTORCHJOB, ())
    assert inspection.granted is None, "EKS does not know the cluster here"


def test_job_through_context_is_submitted_followed_and_cancelled(cluster, kubeconfig_environment, pod_job, until):
    cluster.add_node("n1", allocatable={"nvidia.com/gpu": "1"})
    head_node = HeadNode(via=CONTEXT, host="there", region="us-east-2", kind="Job")
    connection, jobs = jobs_at(
        head_node, kubeconfig_environment, place="default/train", checkpoints="s3://team-a/checkpoints", key="k"
    )
    submitted = jobs.submit([pod_job("sleep 60")], "k")
    until(lambda: jobs.facts(submitted).state is JobState.RUNNING)
    jobs.cancel(submitted)
    until(lambda: jobs.pods("train") == [])
    connection.close()


def test_unknown_context_refused(plan_at_context, kubeconfig_environment):
    pinned = plan_at_context(context="elsewhere")
    located_cluster = find(pinned, Session(environment=kubeconfig_environment, region="us-east-2"))
    with pytest.raises(ImpossibleError, match=r"target\.context: elsewhere"):
        inspect_cluster(pinned, located_cluster, kubeconfig_environment)
