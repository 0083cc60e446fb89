"""EKS's guard as Lambda runs it: the Stubber emulates EKS, moto the rest of AWS."""

import importlib
import io
import json
import sys
from datetime import UTC, datetime, timedelta

import boto3
import pytest
from botocore.response import StreamingBody
from botocore.stub import Stubber

from launcher.model.monitoring import IDLE_METRICS
from tests.infra.guard_account import NOW, REGION, ManagedAccount, client, launch_as, started

pytestmark = pytest.mark.xdist_group("guard")

NAME = "slipway-tiny"
GROUP = {"clusterName": NAME, "nodegroupName": "workers"}


class EksAccount(ManagedAccount):
    service = "eks"


GUARD, ACCOUNT_KIND = "eks", EksAccount
OF_TIME = {"PREPAID": "false", "TTL_HOURS": "2"}
UNTIL = (NOW - timedelta(minutes=15)).isoformat()
BLOCK = {"PREPAID": "true", "RESERVED_NODES": "4", "RESERVED_UNTIL": UNTIL}


@pytest.fixture
def eks_guard(request, module, aws):
    """A guard of a cluster whose time is over; its node group has `desired` of 4 nodes."""
    limits = {"EKS": NAME, "IDLE_MINUTES": "5", "HUNG_MINUTES": "30", **getattr(request, "param", OF_TIME)}
    return module.EksGuard(aws.settings(module, **limits), aws.client, NOW), aws.stub


def group(*, desired, status="ACTIVE"):
    sizes = {"minSize": 0, "maxSize": 4, "desiredSize": desired}
    return {"nodegroup": {**GROUP, "status": status, "scalingConfig": sizes}}


def machine(*, name=NAME, of="workers"):
    return started(**{"eks:cluster-name": name, "eks:nodegroup-name": of})[0]


class TestNodes:
    def test_only_worker_instances_count_as_nodes(self, eks_guard):
        guard, _ = eks_guard
        instance = machine()
        machine(of="system")
        machine(name="slipway-other")
        assert [node["InstanceId"] for node in guard.nodes()] == [instance]

    def test_interruption_notices_only_for_own_nodes(self, eks_guard, monkeypatch):
        guard, _ = eks_guard
        messages = []
        monkeypatch.setattr(guard, "notify", lambda subject, _text: messages.append(subject))
        for name in (NAME, "slipway-other"):
            event = {
                "detail-type": "EC2 Spot Instance Interruption Warning",
                "detail": {"instance-id": machine(name=name)},
            }
            guard.pass_on(event)
        assert messages == ["interruption notice"]


class TestStop:
    def test_stop_scales_node_group_to_zero(self, eks_guard):
        guard, stub = eks_guard
        stub.add_response("describe_nodegroup", group(desired=4), GROUP)
        expected = {**GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 0}}
        stub.add_response("update_nodegroup_config", {"update": {}}, expected)
        guard.watch_time(NOW - timedelta(hours=3), 4)

    @pytest.mark.parametrize("eks_guard", [BLOCK], indirect=True)
    def test_capacity_block_node_group_scaled_to_zero_after_block(self, eks_guard):
        guard, stub = eks_guard
        guard.now = NOW - timedelta(minutes=1)
        guard.watch_time(NOW - timedelta(days=9), 0)
        guard.now = NOW
        stub.add_response("describe_nodegroup", group(desired=4), GROUP)
        expected = {**GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 0}}
        stub.add_response("update_nodegroup_config", {"update": {}}, expected)
        guard.watch_time(NOW - timedelta(days=9), 0)

    @pytest.mark.parametrize("state", [group(desired=0), group(desired=4, status="DELETING")])
    def test_stopped_or_deleting_node_group_is_not_scaled_again(self, eks_guard, state):
        guard, stub = eks_guard
        stub.add_response("describe_nodegroup", state, GROUP)
        guard.stop("its time is over", 4)

    def test_stop_without_node_group_makes_no_update(self, eks_guard):
        guard, stub = eks_guard
        stub.add_client_error("describe_nodegroup", "ResourceNotFoundException", http_status_code=404)
        guard.stop("its time is over", 4)


class TestRemainingInstances:
    def test_remaining_instances_of_empty_node_group_reported_hourly(self, eks_guard, monkeypatch):
        guard, stub = eks_guard
        guard.state = sys.modules["state"].State()
        messages = []
        monkeypatch.setattr(guard, "notify", lambda subject, text: messages.append((subject, text)))
        instance = machine()
        for step, count in ((0, 0), (3, 1), (5, 1), (16, 2)):
            guard.now = NOW + timedelta(minutes=5 * step)
            state = group(desired=0, status="DEGRADED")
            issue = {"code": "NodeTerminationFailure", "message": "a pod cannot be evicted"}
            state["nodegroup"] |= {"modifiedAt": NOW, "health": {"issues": [issue]}}
            stub.add_response("describe_nodegroup", state, GROUP)
            guard.stop("its time is over", 1)
            assert len(messages) == count
        subject, text = messages[0]
        assert subject == "nodes still run after the stop"
        assert instance in text
        assert "a pod cannot be evicted" in text


CPUS = {"CoreCount": 96, "ThreadsPerCore": 2}
BUSY, QUIET = 50.0, 0.1
"""Percent of a machine's processors."""
NONE, OTHERS, OURS = (0, 0), (2, 2), (2, 0)
"""Pods that the function counts, and how many of them are no job of Slipway's."""


class TestPods:
    """What keeps machines that EC2's metrics call idle, and how long."""

    @pytest.fixture
    def look(self, eks_guard, monkeypatch):
        """Look at one machine that has been quiet for so long, with so many pods on it; what people hear."""
        guard, stub = eks_guard
        read, messages, function, make_client = [], [], boto3.client("lambda", region_name=REGION), guard.client
        monkeypatch.setattr(guard, "notify", lambda _subject, text: messages.append(text))
        guard.client = lambda service: function if service == "lambda" else make_client(service)
        guard.counter, guard.wanted = "counter", 1
        guard.cloudwatch.meta.events.register(
            "provide-client-params.cloudwatch.GetMetricData",
            lambda params, **_: read.extend(params["MetricDataQueries"]),
        )
        instance, steps = machine(), 24
        client("s3").create_bucket(Bucket="words", CreateBucketConfiguration={"LocationConstraint": REGION})

        def once(*, quiet_minutes, counted, stops, still=None, stuck=()):
            for step in range(1, steps + 1):
                cpu = BUSY if 5 * step > quiet_minutes else QUIET
                for name, amount in (("CPUUtilization", cpu), ("NetworkIn", 0.0), ("NetworkOut", 0.0)):
                    datum = {"MetricName": name, "Dimensions": [{"Name": "InstanceId", "Value": instance}]}
                    datum |= {"Timestamp": NOW - timedelta(minutes=5 * step), "Value": amount}
                    guard.cloudwatch.put_metric_data(Namespace="AWS/EC2", MetricData=[datum])
            if still is not None:
                heartbeat = {"schema": "slipway.heartbeat/1", "job": "tiny", "still_s": still * 60, "over": False}
                client("s3").put_object(
                    Bucket="words", Key="f/messages/running/run-0.json", Body=json.dumps(heartbeat).encode()
                )
            if stops:
                stub.add_response("describe_nodegroup", group(desired=4), GROUP)
                expected = {**GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 0}}
                stub.add_response("update_nodegroup_config", {"update": {}}, expected)
            nodes = [{**node, "LaunchTime": NOW - timedelta(hours=5), "CpuOptions": CPUS} for node in guard.nodes()]
            with Stubber(function) as answers:
                if counted is not None:
                    heartbeat = json.dumps({"pods": counted[0], "others": counted[1], "stuck": stuck}).encode()
                    payload = {"hung_minutes": 30.0, "whole": True, "hosts": [nodes[0]["PrivateIpAddress"]]}
                    answer = {"StatusCode": 200, "Payload": StreamingBody(io.BytesIO(heartbeat), len(heartbeat))}
                    expected = {"FunctionName": "counter", "Payload": json.dumps(payload).encode()}
                    answers.add_response("invoke", answer, expected)
                folder = importlib.import_module("job_messages").Folder(client("s3"), "s3://words/f")
                guard.watch_idle(nodes, None, folder)
                answers.assert_no_pending_responses()
            # The quote bills so many values of a node at each look.
            assert len(read) <= IDLE_METRICS
            return "\n".join(messages)

        return once

    @pytest.mark.parametrize(
        "quiet_minutes, counted, stops",
        [
            (120, NONE, True),
            (25, NONE, True),
            (25, OTHERS, False),
            (25, OURS, False),
            (120, OTHERS, True),
            (0, None, False),
        ],
    )
    def test_nodes_with_pods_stop_only_after_hang_limit(self, look, quiet_minutes, counted, stops):
        text = look(quiet_minutes=quiet_minutes, counted=counted, stops=stops)
        hung = "its job in pods shows no CPU, no network and no step for 30 minutes"
        assert (hung in text) == (stops and counted != NONE)
        assert ("has been idle for 5 minutes" in text) == (counted == NONE)

    @pytest.mark.parametrize(
        "still, quiet_minutes, counted, stops",
        [(0, 120, OURS, False), (30, 120, None, True), (30, 0, OTHERS, False), (30, 0, OURS, False)],
    )
    def test_hung_job_does_not_stop_nodes_with_other_pods(self, look, still, quiet_minutes, counted, stops):
        text = look(quiet_minutes=quiet_minutes, counted=counted, stops=stops, still=still)
        assert ("its job tiny shows no CPU" in text) == stops

    @pytest.mark.parametrize(
        "quiet_minutes, counted, stuck, stops",
        [
            (120, NONE, (), True),
            # A job of Slipway's, a pod of someone else's, or a job with one pod that cannot start.
            (120, OURS, (), False),
            (120, OTHERS, (), False),
            (120, NONE, ("default/train-0: ImagePullBackOff",), False),
            (0, None, (), False),
        ],
    )
    def test_heartbeats_without_a_pod_keep_no_idle_nodes(self, look, quiet_minutes, counted, stuck, stops):
        text = look(quiet_minutes=quiet_minutes, counted=counted, stops=stops, still=0, stuck=stuck)
        assert ("have been idle for 5 minutes" in text or "has been idle for 5 minutes" in text) == stops

    def test_unstartable_pods_are_reported_and_do_not_keep_nodes(self, look):
        reason = "default/train-0: ImagePullBackOff: container c: not found"
        assert reason in look(quiet_minutes=120, counted=NONE, stops=True, stuck=[reason])


STORE, FOLDER = "slipway-tiny-checkpoints", "jobs/.guard/stack"


@pytest.fixture
def report(aws, module):
    """A guard of `workers` nodes whose first ones failed to join, and the group's stub."""

    def run(workers, *nodes, prepaid="false", known=True):
        store = client("s3")
        store.create_bucket(Bucket=STORE, CreateBucketConfiguration={"LocationConstraint": REGION})
        for node in nodes:
            if known:
                tags = {"eks:cluster-name": NAME, "eks:nodegroup-name": "workers"}
                launch_as(node, datetime.now(UTC) - timedelta(minutes=12), ended=False, **tags)
            key = f"{FOLDER}/messages/boots/{NOW:%Y%m%dT%H%M%SZ}-{node}-failed.txt"
            store.put_object(Bucket=STORE, Key=key, Body=b"nodeadm: failed to call DescribeCluster: AccessDenied\n")
        limits = {"EKS": NAME, "IDLE_MINUTES": "5", "FOLDER_URI": f"s3://{STORE}/{FOLDER}", "PREPAID": prepaid}
        guard = module.EksGuard(aws.settings(module, **limits), aws.client, NOW, workers=workers)
        folder = importlib.import_module("job_messages").Folder(store, guard.settings.folder, guard.in_time)
        return guard, lambda: guard.watch_boots(folder, NOW - timedelta(hours=3), len(nodes))

    return run


@pytest.mark.parametrize("workers,failed", [(8, 3), (2, 2), (1, 1)])
def test_failed_boots_of_most_nodes_stop_node_group_with_log_lines(aws, report, workers, failed):
    guard, check = report(workers, *(f"i-{n}" for n in range(failed)))
    aws.stub.add_response("describe_nodegroup", group(desired=workers), GROUP)
    expected = {**GROUP, "scalingConfig": {"minSize": 0, "desiredSize": 0}}
    aws.stub.add_response("update_nodegroup_config", {"update": {}}, expected)
    check()
    assert guard.failures == []
    ((subject, text),) = aws.messages
    assert subject == "slipway tiny: nodes stopped"
    assert "failed to call DescribeCluster: AccessDenied" in text
    assert ("the only node failed to boot (i-0)" in text) == (workers == 1)
    verdict = client("s3").get_object(Bucket=STORE, Key=f"{FOLDER}/sent/stopped.json")["Body"].read()
    assert "AccessDenied" in json.loads(verdict)["text"]


@pytest.mark.parametrize("workers,failed", [(8, 2), (3, 2), (2, 1)])
def test_failed_boots_of_few_nodes_stop_no_node_group(aws, report, workers, failed):
    _, check = report(workers, *(f"i-{n}" for n in range(failed)))
    check()
    assert aws.messages == []


@pytest.mark.parametrize("workers", [1, 8])
def test_forged_failed_boots_stop_no_node_group(aws, report, workers):
    """A node writes them for instances that EC2 does not list as its cluster's."""
    guard, check = report(workers, *(f"i-{n}" for n in range(4)), known=False)
    check()
    assert (guard.failures, aws.messages) == ([], [])


def test_failed_boots_of_prepaid_nodes_reported_without_stop(aws, report):
    _, check = report(2, "i-0", "i-1", prepaid="true")
    check()
    assert [subject for subject, _ in aws.messages] == ["slipway tiny: nodes do not boot"]
