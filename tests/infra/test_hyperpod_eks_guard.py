"""The guard of HyperPod with EKS as Lambda runs it: nodes that no pod needs are idle."""

import io
import json

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import ANY, Stubber

from tests.infra.guard_account import LISTED, NOW, HyperPodAccount
from tests.infra.guard_account import hyperpod_node as node

pytestmark = pytest.mark.xdist_group("guard")
GUARD, ACCOUNT_KIND = "hyperpod_eks", HyperPodAccount
FUNCTION = "arn:aws:lambda:us-east-2:123456789012:function:slipway-tiny-chart"


def guard(module, account, **limits):
    settings = account.settings(module, **{"HYPERPOD_EKS": "slipway-tiny", "IDLE_MINUTES": "5", **limits})
    clients = {"cloudwatch": account.cloudwatch, "lambda": getattr(account, "function", None)}
    make_client = lambda service: clients.get(service) or account.client(service)  # noqa: E731
    return module.HyperPodEksGuard(settings, make_client, NOW, counter=FUNCTION, workers=2)


@pytest.fixture
def counts(aws):
    """Have the function in the cluster's network answer; None: it fails."""
    aws.function = boto3.client("lambda")
    with Stubber(aws.function) as stub:

        def answer(pods, *stuck, expected=ANY):
            payload = json.dumps(
                {"errorMessage": "timed out"} if pods is None else {"pods": pods, "stuck": stuck}
            ).encode()
            invocation = {"StatusCode": 200, "Payload": StreamingBody(io.BytesIO(payload), len(payload))}
            if pods is None:
                invocation["FunctionError"] = "Unhandled"
            stub.add_response("invoke", invocation, {"FunctionName": FUNCTION, "Payload": expected})

        yield answer
        stub.assert_no_pending_responses()


def test_guard_reads_hyperpod_eks_variable_as_name(module, aws):
    assert guard(module, aws).settings.name == LISTED["ClusterName"]


@pytest.mark.parametrize(
    "before, now, idle",
    [
        ((0, 0, 0), 0, True),
        ((0, 0, 0), 1, False),
        ((0, 2, 0), 0, False),
        # Of a window of twenty minutes two values at least: a cluster that did not answer is not idle.
        ((), 0, False),
    ],
)
def test_cluster_is_idle_after_window_without_working_pods(module, aws, counts, before, now, idle):  # noqa: PLR0917
    aws.earlier("WorkingPods", *before, namespace="Slipway")
    counts(now)
    assert guard(module, aws).all_idle([node(1)]) is idle


def test_failed_pod_count_raises_instead_of_zero(module, aws, counts):
    aws.earlier("WorkingPods", 0, 0, 0, namespace="Slipway")
    counts(None)
    with pytest.raises(Exception, match="timed out"):
        guard(module, aws).all_idle([node(1)])


def test_unstartable_pods_are_reported_once(module, aws, counts):
    aws.earlier("WorkingPods", 0, 0, 0, namespace="Slipway")
    reason = "default/train-0: ImagePullBackOff: container fetch: not found"
    counts(0, reason, expected=b'{"hung_minutes": 30.0, "whole": false}')
    assert guard(module, aws, HUNG_MINUTES="30").all_idle([node(1)])
    ((subject, text),) = aws.messages
    assert "pods cannot start" in subject
    assert reason in text
    counts(0, reason, expected=b'{"hung_minutes": 30.0, "whole": true}')
    assert guard(module, aws, HUNG_MINUTES="30").all_idle([node(1), node(2)])
    assert len(aws.messages) == 1


def test_slurm_queue_metric_does_not_make_pods_idle(module, aws, counts):
    aws.earlier("QueuedJobs", *[0] * 12)
    counts(0)
    assert not guard(module, aws).all_idle([node(1)])


def test_young_nodes_are_not_idle(module, aws, counts):
    aws.earlier("WorkingPods", 0, 0, 0, 0, namespace="Slipway")
    counts(0)
    assert not guard(module, aws).all_idle([node(1), node(2, age_h=0.2)])


def test_cluster_without_nodes_or_idle_limit_makes_no_requests(module, aws, counts):
    assert not guard(module, aws).all_idle([])
    assert not guard(module, aws, IDLE_MINUTES="0").all_idle([node(1)])


def test_stop_deletes_workers_and_names_remaining_costs(module, aws):
    aws.answers(node(1), node(2))
    ids = [node(number)["InstanceId"] for number in (1, 2)]
    params = {"ClusterName": "slipway-tiny", "NodeIds": ids}
    aws.stub.add_response("batch_delete_cluster_nodes", {"Successful": ids}, params)
    guard(module, aws).stop("its time is over", 2)
    ((subject, text),) = aws.messages
    assert "workers stopped" in subject
    assert "their pods wait as Pending" in text
    assert "Control plane, system node and network are still billed" in text
