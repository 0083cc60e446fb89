"""The guard's code as Lambda runs it, with moto: what it counts, when it stops nodes, and its notifications."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import boto3
import pytest
from botocore.stub import Stubber

from launcher.aws.stacks import StackState, changed_at
from tests.infra.guard_account import NOW, REGION, STATE, TABLE, client

# It needs no synthesis.
pytestmark = pytest.mark.xdist_group("guard")

SPOT = "EC2 Spot Instance Interruption Warning"


class TestCounting:
    def test_only_running_compute_nodes_of_cluster_count(self, aws, guard_of):
        running, stopped = aws.nodes(3), aws.nodes(2)
        aws.ec2.terminate_instances(InstanceIds=stopped)
        aws.nodes(1, cluster="slipway-other")
        aws.nodes(1, node_type="HeadNode")
        assert {node["InstanceId"] for node in guard_of().nodes()} == set(running)

    def test_node_hours_add_five_minutes_per_sample(self, aws, guard_of):
        aws.nodes(2)
        for step in range(7):
            ago = 5 * (6 - step)
            guard_of(age_h=3 - ago / 60, now=NOW - timedelta(minutes=ago), USD_PER_NODE_HOUR="12.5").watch()
        assert aws.metric("RunningNodes") == [2]
        assert aws.metric("NodeHours") == pytest.approx([2 * 7 * 5 / 60])
        assert aws.metric("EstimatedSpend") == pytest.approx([2 * 7 * 5 / 60 * 12.5])

    def test_guard_without_rate_reports_no_spending_estimate(self, aws, guard_of):
        guard_of().watch()
        assert (aws.metric("RunningNodes"), aws.metric("EstimatedSpend")) == ([0], [])

    def test_deployment_time_is_stack_creation_time(self, aws, module, guard_of):
        (stack,) = client("cloudformation").describe_stacks(StackName=aws.stack)["Stacks"]
        assert module.Guard.deployed_at(guard_of()) == stack["CreationTime"]

    def test_deployment_time_is_last_stack_update(self, module, guard_of):
        """moto knows no time of an update."""
        guard, updated = guard_of(), NOW - timedelta(minutes=5)
        guard.cloudformation = boto3.client("cloudformation")
        stack = {"StackName": "x", "StackStatus": "UPDATE_COMPLETE", "CreationTime": NOW - timedelta(days=9)}
        with Stubber(guard.cloudformation) as stub:
            stub.add_response("describe_stacks", {"Stacks": [{**stack, "LastUpdatedTime": updated}]})
            assert module.Guard.deployed_at(guard) == updated

    ROLLED_BACK = (("UPDATE_ROLLBACK_COMPLETE", 1), ("UPDATE_ROLLBACK_IN_PROGRESS", 2), ("UPDATE_IN_PROGRESS", 3))
    CHANGED = (("UPDATE_COMPLETE", 50), ("UPDATE_IN_PROGRESS", 52))
    MADE = (("CREATE_COMPLETE", 100), ("CREATE_IN_PROGRESS", 101))

    @pytest.mark.parametrize(
        "status, events, hours",
        [
            ("UPDATE_ROLLBACK_COMPLETE", (*ROLLED_BACK, *CHANGED, *MADE), 52),
            ("UPDATE_ROLLBACK_COMPLETE", (*ROLLED_BACK, *MADE), 101),
            ("UPDATE_IN_PROGRESS", (("UPDATE_IN_PROGRESS", 3), *CHANGED, *MADE), 52),
            ("UPDATE_ROLLBACK_FAILED", ROLLED_BACK, 101),
        ],
    )
    def test_deployment_time_ignores_rolled_back_update(self, module, guard_of, status, events, hours):
        guard, hour, stack_id = guard_of(), timedelta(hours=1), "arn:aws:cloudformation:x:1:stack/x/1"
        guard.cloudformation = boto3.client("cloudformation")
        stack = {"StackName": "x", "StackStatus": status, "CreationTime": NOW - 101 * hour, "LastUpdatedTime": NOW}
        stack_events = [("CREATE_COMPLETE", 0, "other"), *((status, ago, stack_id) for status, ago in events)]
        listed = [
            {
                "StackId": stack_id,
                "EventId": str(number),
                "StackName": "x",
                "PhysicalResourceId": about,
                "Timestamp": NOW - ago * hour,
                "ResourceStatus": event_status,
            }
            for number, (event_status, ago, about) in enumerate(stack_events)
        ]
        with Stubber(guard.cloudformation) as stub:
            stub.add_response("describe_stacks", {"Stacks": [stack]})
            stub.add_response("describe_stack_events", {"StackEvents": listed})
            if status == "UPDATE_ROLLBACK_FAILED":
                stub.add_response("describe_stacks", {"Stacks": [stack]})
            assert module.Guard.deployed_at(guard) == NOW - hours * hour
            # `slipway cost` counts from the same moment.
            state = StackState(
                id=stack_id, name="x", status=status, protected=False, outputs={}, tags={}, deployed_at=NOW
            )
            stub.add_response("describe_stack_events", {"StackEvents": listed})
            session = SimpleNamespace(client=lambda _: guard.cloudformation)
            assert changed_at(session, replace(state, made_at=stack["CreationTime"])) == NOW - hours * hour


class TestTime:
    def test_fleet_stopped_at_end_of_time_to_live_with_one_notification(self, aws, guard_of):
        aws.nodes(2)
        guard_of(age_h=48.1, TTL_HOURS="48").watch()
        assert aws.fleet == "STOP_REQUESTED"
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: compute fleet stopped"
        assert "its 48 hours have ended. Its compute fleet is being stopped with its 2 nodes" in text
        assert "pcluster update-compute-fleet --cluster-name slipway-tiny --region us-east-2" in text
        guard_of(age_h=48.2, TTL_HOURS="48").watch()
        assert aws.messages == []

    def test_restarted_fleet_stopped_again(self, aws, guard_of):
        aws.set_fleet("START_REQUESTED")
        guard_of(age_h=60, TTL_HOURS="48").watch()
        assert aws.fleet == "STOP_REQUESTED"

    @pytest.mark.parametrize("status", ["STOPPED", "STOPPING", "STOP_REQUESTED"])
    def test_stopping_fleet_is_unchanged(self, aws, guard_of, status):
        aws.set_fleet(status)
        guard_of(age_h=60, TTL_HOURS="48").watch()
        assert (aws.fleet, aws.messages) == (status, [])

    def test_nodes_remaining_after_stop_terminated_and_reported_hourly(self, aws, guard_of):
        stop_requested_at = NOW - timedelta(minutes=20)
        aws.set_fleet("STOPPING", str(stop_requested_at))
        instances = aws.nodes(2)
        aws.nodes(1, node_type="HeadNode")
        guard_of(age_h=60, now=stop_requested_at + timedelta(minutes=14), TTL_HOURS="48").watch()
        assert aws.messages == []
        guard = guard_of(age_h=60, TTL_HOURS="48")
        guard.watch()
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: nodes still run after the stop"
        assert f"its fleet has been STOPPING since {stop_requested_at} and still had 2 nodes" in text
        assert all(instance in text for instance in instances)
        assert guard.nodes() == []
        for step, count in ((1, 0), (11, 0), (13, 1)):
            aws.nodes(1)
            guard_of(age_h=60, now=NOW + timedelta(minutes=5 * step), TTL_HOURS="48").watch()
            assert len(aws.messages) == count

    def test_warning_sent_once_half_an_hour_before_end(self, aws, guard_of):
        for age in (47.4, 47.52, 47.62):
            guard_of(age_h=age, TTL_HOURS="48").watch()
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: time to live ends soon"]
        assert aws.fleet == "RUNNING"

    def test_prepaid_nodes_keep_running_after_time_to_live(self, aws, guard_of):
        for instance in aws.nodes(2):
            aws.busy(instance, 0.0)
        guard_of(age_h=60, TTL_HOURS="48", PREPAID="true").watch()
        assert (aws.fleet, aws.messages) == ("RUNNING", [])

    def test_guard_without_limit_stops_no_fleet(self, aws, guard_of):
        guard_of(age_h=10_000).watch()
        assert aws.fleet == "RUNNING"

    def test_cluster_without_fleet_table_is_no_failure(self, aws, guard_of):
        aws.dynamodb.delete_table(TableName=TABLE)
        guard_of(age_h=60, TTL_HOURS="48").watch()
        assert aws.messages == []


CPU = {"CoreCount": 96, "ThreadsPerCore": 2}
"""Of a p5.48xlarge; EC2 describes it, moto does not."""


class TestIdleness:
    """Half a per cent of 192 vCPUs is one."""

    @pytest.fixture
    def watch(self, aws, guard_of, monkeypatch):
        """Watch nodes that were started so many minutes ago."""

        def start(started_minutes_ago=120, **variables):
            guard = guard_of(**variables)
            began = NOW - timedelta(minutes=started_minutes_ago)
            nodes = [{**node, "LaunchTime": began, "CpuOptions": CPU} for node in guard.nodes()]
            guard.nodes = lambda: nodes
            guard.watch()
            return aws.fleet

        return start

    def test_idle_nodes_are_stopped(self, aws, watch):
        for node in aws.nodes(2):
            aws.busy(node, 0.1)
        assert watch() == "STOP_REQUESTED"
        ((_, text),) = aws.messages
        assert "its 2 nodes have been idle for 60 minutes" in text

    def test_one_busy_node_keeps_all_nodes(self, aws, watch):
        first, second = aws.nodes(2)
        aws.busy(first, 0.1)
        aws.busy(second, 0.6)
        assert watch() == "RUNNING"

    def test_network_traffic_counts_as_work(self, aws, watch):
        (only,) = aws.nodes(1)
        aws.busy(only, 0.1, mb=400)
        assert watch() == "RUNNING"

    def test_young_nodes_are_not_idle(self, aws, watch):
        (only,) = aws.nodes(1)
        aws.busy(only, 0.1)
        assert watch(started_minutes_ago=70) == "RUNNING"

    def test_idle_stop_waits_for_slurm_scale_down(self, aws, watch):
        (only,) = aws.nodes(1)
        aws.busy(only, 0.1)
        assert watch(started_minutes_ago=74) == "RUNNING"
        assert watch(started_minutes_ago=76) == "STOP_REQUESTED"

    def test_missing_metrics_do_not_count_as_idle(self, aws, watch):
        (only,) = aws.nodes(1)
        aws.busy(only, 0.1, since=timedelta(minutes=30))
        assert watch() == "RUNNING"

    def test_missing_network_metric_does_not_count_as_idle(self, aws, watch):
        (only,) = aws.nodes(1)
        aws.busy(only, 0.1, network=False)
        assert watch() == "RUNNING"

    def test_idle_check_of_large_cluster_uses_several_calls(self, aws, watch, module, monkeypatch):
        monkeypatch.setattr(module, "NODES_A_CALL", 2)
        for node in aws.nodes(5):
            aws.busy(node, 0.1)
        assert watch() == "STOP_REQUESTED"

    def test_empty_cluster_is_not_idle(self, watch):
        assert watch() == "RUNNING"


class TestNotices:
    def notice(self, instance):
        return {"detail-type": SPOT, "detail": {"instance-id": instance, "instance-action": "terminate"}}

    def test_interruption_notices_only_for_own_nodes(self, aws, guard_of):
        (ours,), (other,) = aws.nodes(1), aws.nodes(1, cluster="slipway-other")
        guard = guard_of()
        guard.pass_on(self.notice(other))
        guard.pass_on(self.notice("i-00000000000000000"))
        assert aws.messages == []
        guard.pass_on(self.notice(ours))
        ((subject, text),) = aws.messages
        assert subject == "slipway tiny: interruption notice"
        assert text == f"cluster tiny in us-east-2: AWS reclaims {ours} in 2 minutes"

    def test_lambda_handler_accepts_schedule_and_notices(self, aws, module, monkeypatch):
        settings = {"CLUSTER": "tiny", "PARALLELCLUSTER": "slipway-tiny", "STACK": aws.stack, "TOPICS": aws.topic}
        settings |= {"AWS_REGION": REGION, "PREPAID": "false", "IDLE_MINUTES": "60", "USD_PER_NODE_HOUR": "1"}
        settings |= {"STATE": STATE}
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        (ours,) = aws.nodes(1)
        module.handler({"detail-type": "Scheduled Event"}, None)
        module.handler(self.notice(ours), None)
        assert len(aws.messages) == 1
        metrics = {metric["MetricName"] for metric in aws.cloudwatch.list_metrics(Namespace="Slipway")["Metrics"]}
        assert metrics == {"RunningNodes", "NodeHours", "EstimatedSpend"}


@pytest.mark.parametrize(
    "kind, detail, words",
    [
        (
            "CloudWatch Alarm State Change",
            {"alarmName": "slipway-tiny-HeadNode", "state": {"value": "ALARM", "reason": 'disk "full" {90}'}},
            'the head node is in trouble: disk "full" {90}',
        ),
        (
            "Capacity Block Expiration Warning",
            {"capacity-reservation-id": "cr-1", "end-date": "2026-11-21 11:30:00"},
            "cr-1 ends at 2026-11-21 11:30:00; AWS takes its nodes back from 30 minutes before",
        ),
        (
            "SageMaker HyperPod Cluster Node Health Event",
            {"InstanceId": "i-1", "HealthSummary": {"HealthStatus": "Unhealthy", "HealthStatusReason": "Xid 79"}},
            "i-1 is Unhealthy: Xid 79 Repair: unknown",
        ),
        ("SageMaker HyperPod Cluster State Change", {"ClusterStatus": "Failed"}, "HyperPod says Failed"),
        ("SageMaker Endpoint State Change", {"EndpointStatus": "RollingBack"}, "SageMaker says RollingBack"),
    ],
)
def test_event_notification_has_wording_per_event_kind(aws, module, guard_of, kind, detail, words):  # noqa: PLR0917 - a table
    module.respond(guard_of(), {"detail-type": kind, "detail": detail})
    ((_, message),) = aws.messages
    assert message == f"cluster tiny in us-east-2: {words}"
    assert aws.cloudwatch.list_metrics(Namespace="Slipway")["Metrics"] == []
