"""Facts read from an existing cluster, and those that refuse a job or cause a warning."""

from dataclasses import replace

import pytest

from launcher.model.diagnosis import Outcome
from launcher.model.enums import Operator
from launcher.planning.pin import pinned_plan
from launcher.records.submission import HeadNode
from launcher.rendering.names import symbolic_names
from launcher.submit.kubernetes import existing as read
from launcher.submit.kubernetes.jobs import KubernetesJobs
from launcher.targets.registry import billed_name
from launcher.workflow.cluster.kubernetes_checks import checks
from launcher.workflow.cluster.kubernetes_cluster import ExistingCluster, Inspection, choose_operator
from launcher.workflow.cluster.pod_identity import PodIdentity
from tests.plans import request_of

PLAN = {
    "slipway": 1,
    "name": "tiny",
    "workload": {"train": {"model": "llama-3.1-8b", "tokens_b": 1.0}},
    "checkpoint": {"uri": "s3://team-a/checkpoints"},
}
STORE = "s3://slipway-platform-checkpoints/jobs"
TARGET = {"kind": "eks", "region": "us-east-2", "cluster": "platform", "instance_type": "p5.48xlarge", "nodes": 2}
ROOM = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "32", "hugepages-2Mi": "5128Mi"}
GROUP = {"eks.amazonaws.com/nodegroup": "gpu", "eks.amazonaws.com/capacityType": "ON_DEMAND"}
POOL = {"group": "karpenter.sh", "plural": "nodepools", "kind": "NodePool", "scope": "Cluster"}


@pytest.fixture
def add_node(cluster):
    """A node as EKS labels it."""

    def make(name, *, room=None, labels=None, taints=(), **bare):
        node_labels = {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.k8s.aws/zone-id": "use2-az1"}
        node_labels |= GROUP if labels is None else labels
        cluster.add_node(name, allocatable=ROOM if room is None else room, labels=node_labels | bare, taints=taints)

    return make


@pytest.fixture
def examined_cluster(connection, catalog):
    """The checks of a plan on the cluster, by their names, where something is not well; `pods` is what EKS grants."""

    def make(*, owned=False, granted=True, pod_identity=None, **sections):
        target = {**TARGET, **sections.pop("target", {})}
        sections_of_plan = {**PLAN, "purchase": {"option": "on-demand"}, "target": target, **sections}
        plan = pinned_plan(request_of(sections_of_plan), catalog)
        description = read.describe(
            connection,
            instance_type=billed_name(plan.place),
            namespace="slipway",
            priority=plan.request.target.priority,
            account="slipway-jobs",
        )
        names = symbolic_names(plan) if pod_identity is None else replace(symbolic_names(plan), store_uri=STORE)
        where = ExistingCluster(
            head_node=HeadNode(via="eks", host="platform"),
            names=names,
            by_slipway=owned,
            eks="platform",
            pod_identity=pod_identity,
        )
        operator = choose_operator(plan, description.operators)
        rights = read.missing_rights(connection, "slipway", operator, "slipway-jobs")
        inspection = Inspection(
            existing=where, cluster=description, operator=operator, missing_rights=rights, granted=granted
        )
        every = checks(plan, catalog.instance_types[plan.place.instance_type], inspection)
        return {check.name: (check.result, check.got) for check in every if check.result is not Outcome.OK}

    return make


def define(cluster, connection, **names):
    """Have the cluster serve a kind of somebody else's."""
    spec = {
        "group": names["group"],
        "scope": names["scope"],
        "names": {"plural": names["plural"], "kind": names["kind"]},
        "versions": [
            {
                "name": names.get("version", "v1"),
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
                    }
                },
            }
        ],
    }
    document = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    document["metadata"] = {"name": f"{names['plural']}.{names['group']}"}
    connection.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=document)


def test_complete_cluster_passes_examination(add_node, examined_cluster):
    add_node("n1")
    add_node("n2")
    assert examined_cluster() == {}


def test_cluster_without_matching_nodes_lists_available_nodes(add_node, examined_cluster):
    add_node("n1", **{"node.kubernetes.io/instance-type": "g5.xlarge"})
    (result, got) = examined_cluster()["cluster nodes"]
    assert (result, got) == (Outcome.FAILED, "0 found; the cluster has 1 x g5.xlarge")


@pytest.mark.parametrize("labels,option", [({"topology.k8s.aws/zone-id": "use2-az3"}, "on-demand"), ({}, "spot")])
def test_nodes_of_other_zone_or_purchase_option_do_not_count(add_node, examined_cluster, labels, option):
    add_node("n1", **labels)
    add_node("n2", **labels)
    diagnosis = examined_cluster(target={"az_id": "use2-az1"}, purchase={"option": option})
    assert diagnosis["cluster nodes"][0] is Outcome.FAILED


def test_tainted_or_cordoned_nodes_do_not_count(add_node, examined_cluster, cluster):
    add_node("n1", taints=({"key": "team", "value": "b", "effect": "NoSchedule"},))
    add_node("n2")
    cluster.cordon("n2")
    assert "none of the 2 nodes accepts the job's pods" in examined_cluster()["cluster nodes"][1]


def test_karpenter_pool_with_instance_type_counts_as_nodes(cluster, connection, examined_cluster):
    define(cluster, connection, **POOL)

    def pool(name, types):
        requirements = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]
        spec = {"template": {"spec": {"requirements": requirements}}}
        body = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec}
        connection.ask("POST", "/apis/karpenter.sh/v1/nodepools", body=body)

    pool("small", ["g5.xlarge"])
    assert examined_cluster()["cluster nodes"][0] is Outcome.FAILED
    pool("large", ["p5.48xlarge"])
    assert "cluster nodes" not in examined_cluster()


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "vpc.amazonaws.com/efa"])
def test_nodes_without_advertised_devices_refused(add_node, examined_cluster, name):
    room = {**ROOM, name: "1"}
    add_node("n1", room=room)
    add_node("n2", room=room)
    result, got = examined_cluster()["node devices"]
    assert (result, "n1, n2 show fewer" in got) == (Outcome.FAILED, True)
    assert ("use TCP" in got) is ("efa" in name)


def test_cluster_of_slipway_gets_device_plugins_with_job(add_node, examined_cluster):
    for name in ("n1", "n2"):
        add_node(name, room={"hugepages-2Mi": "5128Mi"})
    assert examined_cluster(owned=True) == {}


def test_one_usable_node_too_few_fails_and_spare_bad_node_is_advice(add_node, examined_cluster):
    add_node("n1")
    add_node("n2", room={**ROOM, "vpc.amazonaws.com/efa": "0"})
    assert examined_cluster()["node devices"][0] is Outcome.FAILED
    add_node("n3")
    assert examined_cluster()["node devices"][0] is Outcome.ADVICE


def test_missing_operator_refused_and_available_operator_chosen(catalog, cluster, connection, add_node):
    plan = pinned_plan(request_of({**PLAN, "purchase": {"option": "on-demand"}, "target": TARGET}), catalog)
    served = (Operator.HYPERPOD_PYTORCHJOB, Operator.PYTORCHJOB, Operator.JOB)
    assert choose_operator(plan, served) is Operator.PYTORCHJOB
    assert choose_operator(plan, (Operator.JOB,)) is Operator.JOB
    speaks = replace(plan.request.run, command=("hyperpodrun", "train.py"))
    assert (
        choose_operator(replace(plan, request=replace(plan.request, run=speaks)), served)
        is Operator.HYPERPOD_PYTORCHJOB
    )
    named = replace(plan.request.run, operator=Operator.JOB)
    assert choose_operator(replace(plan, request=replace(plan.request, run=named)), served) is Operator.JOB


def test_missing_rights_of_caller_are_named(cluster, add_node, examined_cluster):
    add_node("n1")
    add_node("n2")
    cluster.server.rights.denied |= {("create", "pytorchjobs"), ("create", "namespaces")}
    result, got = examined_cluster()["cluster rights"]
    assert result is Outcome.FAILED
    assert "create pytorchjobs.kubeflow.org in slipway" in got
    assert "create namespaces in slipway" in got


def test_nodes_without_list_right_are_unknown(cluster, add_node, examined_cluster):
    add_node("n1")
    cluster.server.rights.denied.add(("list", "nodes"))
    assert examined_cluster()["cluster nodes"][0] is Outcome.UNKNOWN


def test_job_with_rights_in_one_namespace_is_submitted(cluster, connection, pod_job):
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "slipway"}}
    connection.ask("POST", "/api/v1/namespaces", body=space)
    cluster.server.rights.denied.add(("create", "namespaces"))
    jobs = KubernetesJobs(connection=connection, namespace="slipway", kind="Job")
    job = pod_job("true")
    assert jobs.submit([space, job], "k").folder == "slipway/train"


def test_spot_nodes_without_termination_handler_give_advice(cluster, connection, add_node, examined_cluster):
    spot = {"purchase": {"option": "spot"}}
    for name in ("n1", "n2"):
        add_node(name, labels={"karpenter.sh/capacity-type": "spot"})
    result, got = examined_cluster(**spot)["spot notices"]
    assert (result, "2 nodes are not managed (n1, n2)" in got) == (Outcome.ADVICE, True)
    plugin = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nth", "labels": {"app.kubernetes.io/name": "aws-node-termination-handler"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "n", "image": "i"}]}},
        },
    }
    connection.ask("POST", "/apis/apps/v1/namespaces/kube-system/daemonsets", body=plugin)
    assert "spot notices" not in examined_cluster(**spot)


def test_pod_role_grant_depends_on_launch_and_checkpoint_folder(add_node, examined_cluster):
    add_node("n1")
    add_node("n2")
    pod_identity = PodIdentity(cluster="platform", pods_role="arn:aws:iam::123456789012:role/pods", access_role="arn")
    assert "pods' role" not in examined_cluster(pod_identity=pod_identity, granted=False, checkpoint={}), (
        "the launch grants it"
    )
    for uri, expected in (
        (f"{STORE}/{PLAN['name']}/again", None),
        (f"{STORE}/{PLAN['name']}-2", Outcome.FAILED),
        (f"{STORE}/other", Outcome.FAILED),
        ("s3://elsewhere/runs", Outcome.ADVICE),
    ):
        result, got = examined_cluster(pod_identity=pod_identity, checkpoint={"uri": uri}).get(
            "pods' role", (None, uri)
        )
        assert (result, uri in got) == (expected, True)


def test_pods_without_role_give_advice(add_node, examined_cluster):
    add_node("n1")
    add_node("n2")
    assert examined_cluster(granted=False)["pods' role"][0] is Outcome.ADVICE
    assert examined_cluster(granted=None)["pods' role"][0] is Outcome.UNKNOWN
