"""An endpoint's guard as Lambda runs it: the Stubber emulates SageMaker, moto the rest of AWS."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.infra.guard_account import ACCOUNT, NOW, REGION, STATE, ManagedAccount

pytestmark = pytest.mark.xdist_group("guard")

NAME = "slipway-tiny"
ARN = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}"


class Account(ManagedAccount):
    """SageMaker's answers of an endpoint."""

    def __init__(self):
        super().__init__("slipway-tiny-serving")

    def describes(self, *counts, status="InService", times=1, desired=None, shared=False, **more):
        answer = {
            "EndpointName": NAME,
            "EndpointArn": f"{ARN}:endpoint/{NAME}",
            "EndpointStatus": status,
            "CreationTime": NOW,
            "LastModifiedTime": NOW,
            "ProductionVariants": [
                {
                    "VariantName": f"v{i}",
                    "CurrentInstanceCount": n,
                    "DesiredInstanceCount": n if desired is None else desired,
                    **({"ManagedInstanceScaling": {"Status": "ENABLED"}} if shared else {}),
                }
                for i, n in enumerate(counts)
            ],
            **more,
        }
        for _ in range(times):
            self.stub.add_response("describe_endpoint", answer, {"EndpointName": NAME})

    def lists(self, *statuses):
        components = [
            {
                "CreationTime": NOW,
                "InferenceComponentArn": f"{ARN}:inference-component/{NAME}",
                "InferenceComponentName": NAME,
                "EndpointArn": f"{ARN}:endpoint/{NAME}",
                "EndpointName": NAME,
                "VariantName": "main",
                "InferenceComponentStatus": status,
                "LastModifiedTime": NOW,
            }
            for status in statuses
        ]
        answer = {"InferenceComponents": components}
        self.stub.add_response("list_inference_components", answer, {"EndpointNameEquals": NAME})

    def component(self, status, *, current, desired, **more):
        answer = {
            "InferenceComponentName": NAME,
            "InferenceComponentArn": f"{ARN}:inference-component/{NAME}",
            "EndpointName": NAME,
            "EndpointArn": f"{ARN}:endpoint/{NAME}",
            "InferenceComponentStatus": status,
            "RuntimeConfig": {"CurrentCopyCount": current, "DesiredCopyCount": desired},
            "CreationTime": NOW,
            "LastModifiedTime": NOW,
            **more,
        }
        self.stub.add_response("describe_inference_component", answer, {"InferenceComponentName": NAME})


GUARD, ACCOUNT_KIND = "endpoint", Account


@pytest.fixture
def endpoint_guard(aws, module):
    """The guard of an endpoint at a moment; its stack was made just now by moto's clock."""

    def make(*, ttl_h=None, later=timedelta(0), **more):
        variables = {"HYPERPOD": NAME, "IDLE_MINUTES": "60", "USD_PER_NODE_HOUR": "15.58", **more}
        settings = aws.settings(module, **variables, **({"TTL_HOURS": ttl_h} if ttl_h else {}))
        now = datetime.now(UTC) + later if ttl_h else NOW + later
        return module.EndpointGuard(settings, aws.client, now)

    return make


def test_instances_of_all_variants_counted_and_priced(aws, endpoint_guard):
    aws.describes(2, 1)
    endpoint_guard().watch()
    assert aws.metric("RunningNodes") == [3]
    assert aws.metric("EstimatedSpend") == [pytest.approx(3 * 15.58 / 12)]


def test_missing_endpoint_counts_zero_nodes(aws, endpoint_guard):
    aws.stub.add_client_error("describe_endpoint", "ValidationException", "Could not find endpoint")
    endpoint_guard().watch()
    assert aws.metric("RunningNodes") == [0]


def test_access_denied_on_describe_endpoint_raises_without_metric(aws, endpoint_guard):
    aws.stub.add_client_error("describe_endpoint", "AccessDeniedException", "no")
    with pytest.raises(Exception, match="AccessDenied"):
        endpoint_guard().watch()
    assert aws.metric("RunningNodes") == []


def test_idle_endpoint_is_never_deleted(aws, endpoint_guard):
    aws.describes(1)
    endpoint_guard(ttl_h="24", later=timedelta(hours=10)).watch()
    assert aws.messages == []


def test_notification_sent_before_time_to_live_ends(aws, endpoint_guard):
    aws.describes(1)
    endpoint_guard(ttl_h="24", later=timedelta(hours=23, minutes=33)).watch()
    ((subject, _),) = aws.messages
    assert subject == "slipway tiny: time to live ends soon"


def test_endpoint_deleted_after_time_to_live(aws, endpoint_guard):
    aws.describes(2, times=2)
    aws.lists()
    aws.stub.add_response("delete_endpoint", {}, {"EndpointName": NAME})
    endpoint_guard(ttl_h="24", later=timedelta(hours=25)).watch()
    ((subject, message),) = aws.messages
    assert subject == "slipway tiny: endpoint deleted"
    assert "its 24 hours have ended" in message
    assert "slipway down tiny" in message
    state = json.loads(aws.client("ssm").get_parameter(Name=STATE)["Parameter"]["Value"])
    assert state["stop_reason"] == "its 24 hours have ended"
    assert datetime.fromisoformat(state["stopped_at"]) > NOW


def test_components_deleted_before_endpoint(aws, endpoint_guard):
    aws.describes(2, times=2)
    aws.lists("InService")
    aws.stub.add_response("delete_inference_component", {}, {"InferenceComponentName": NAME})
    endpoint_guard(ttl_h="24", later=timedelta(hours=25)).watch()
    assert aws.messages == []
    aws.describes(2, times=2)
    aws.lists("Deleting")
    endpoint_guard(ttl_h="24", later=timedelta(hours=25, minutes=5)).watch()
    assert aws.messages == []


SUM = {
    "STOP_AT_USD": "10",
    "STOP_SETTLE_MINUTES": "5",
    "STOP_RESERVE_MINUTES": "15",
    "STOP_ENDING_MINUTES": "5",
    "NODES": "2",
    "OTHER_USD_PER_HOUR": "0",
}
"""Two instances at $15.58 an hour are $2.60 a look; the reserve is three looks, $7.79."""


class TestSum:
    """budget.stop_at_usd of an endpoint: no job is told, the service ends as its plan says."""

    def test_endpoint_within_spending_limit_keeps_running(self, aws, endpoint_guard):
        aws.describes(2)
        endpoint_guard(**SUM | {"STOP_AT_USD": "11"}).watch()
        assert aws.messages == []

    def test_endpoint_without_scale_to_zero_deleted_at_spending_limit(self, aws, endpoint_guard):
        aws.describes(2, times=2)
        aws.lists()
        aws.stub.add_response("delete_endpoint", {}, {"EndpointName": NAME})
        endpoint_guard(**SUM).watch()
        ((subject, message),) = aws.messages
        assert subject == "slipway tiny: endpoint deleted"
        assert "$2.60 of the $10 of budget.stop_at_usd are spent" in message
        assert "raise budget.stop_at_usd" in message

    def test_endpoint_with_scale_to_zero_scaled_to_zero_at_spending_limit(self, aws, endpoint_guard):
        scaling = aws.client("application-autoscaling")
        target = {
            "ServiceNamespace": "sagemaker",
            "ResourceId": f"endpoint/{NAME}/variant/v0",
            "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
        }
        scaling.register_scalable_target(**target, MinCapacity=0, MaxCapacity=4)
        aws.describes(2)
        endpoint_guard(**SUM, STOP_TO_ZERO="true").watch()
        (scalable_target,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
        assert (scalable_target["MinCapacity"], scalable_target["MaxCapacity"]) == (0, 0)
        assert scalable_target["SuspendedState"]["DynamicScalingOutSuspended"] is True
        ((subject, message),) = aws.messages
        assert subject == "slipway tiny: endpoint scaled to zero"
        assert "slipway deploy" in message
        state = json.loads(aws.client("ssm").get_parameter(Name=STATE)["Parameter"]["Value"])
        assert message.startswith(f"cluster tiny in {REGION}: {state['stop_reason']}. The endpoint")
        # It exists already: nobody is told again.
        aws.describes(0)
        endpoint_guard(**SUM, STOP_TO_ZERO="true").watch()
        assert aws.messages == []

    @pytest.mark.parametrize(
        "instances, later_h, ends",
        [((2, 2), 1.0, True), ((1, 3), 1.0, True), ((1, 3), 0.1, False), ((0, 3), 100.0, False)],
    )
    def test_unreadable_state_counts_minimum_instances_since_deployment(
        self, aws, endpoint_guard, instances, later_h, ends
    ):
        """SageMaker does not say since when instances above the range's lower end run: they count nothing."""
        least, running = instances
        aws.client("ssm").put_parameter(Name=STATE, Value="x", Type="String", Overwrite=True)
        aws.describes(running, times=1 + ends)
        if ends:
            aws.lists()
            aws.stub.add_response("delete_endpoint", {}, {"EndpointName": NAME})
        guard = endpoint_guard(**SUM | {"STOP_AT_USD": "25", "NODES": "1", "LEAST_NODES": str(least)})
        guard.now = guard.scheduled = NOW.replace(minute=2) + timedelta(hours=later_h)
        with pytest.raises(Exception, match="does not contain the guard's state"):
            guard.watch()
        assert ("slipway tiny: endpoint deleted" in dict(aws.messages)) is ends
        aws.stub.assert_no_pending_responses()


def test_deleting_endpoint_is_not_deleted_again(aws, endpoint_guard):
    aws.describes(2, status="Deleting", times=2)
    endpoint_guard(ttl_h="24", later=timedelta(hours=26)).watch()
    assert aws.messages == []


GROUPS = (f"/aws/sagemaker/Endpoints/{NAME}", f"/aws/sagemaker/InferenceComponents/{NAME}")


@pytest.fixture(params=GROUPS)
def container_log(aws, request):
    """The log group of the endpoint's containers, with six lines of the newest."""
    logs, at = aws.client("logs"), int(NOW.timestamp() * 1000)
    logs.create_log_group(logGroupName=request.param)
    for stream, lines in (("old", ["of yesterday"]), ("main/i-1", [f"line {number}" for number in range(6)])):
        logs.create_log_stream(logGroupName=request.param, logStreamName=stream)
        moment = at - (86_400_000 if stream == "old" else 0)
        events = [{"timestamp": moment, "message": line} for line in lines]
        logs.put_log_events(logGroupName=request.param, logStreamName=stream, logEvents=events)


LINES = "\n  ".join(("the last lines of its containers:", *(f"line {number}" for number in range(1, 6))))
EVENT = {"detail-type": "SageMaker Endpoint State Change", "detail": {"EndpointStatus": "FAILED"}}
WHY = "The primary container did not pass the ping health check."


class TestFailedStarts:
    """Instances, copies and whole endpoints that do not start."""

    @pytest.mark.usefixtures("container_log")
    def test_failed_first_deployment_notified_with_reason_and_last_lines(self, aws, module, endpoint_guard):
        aws.describes(0, status="Failed", FailureReason=WHY)
        module.respond(endpoint_guard(), EVENT)
        ((subject, message),) = aws.messages
        assert subject == "slipway tiny: endpoint in trouble"
        assert message == f"cluster tiny in us-east-2: SageMaker says FAILED: {WHY}\n  {LINES}"

    def test_event_call_leaves_the_counted_state_unchanged(self, aws, module, endpoint_guard):
        aws.describes(2, times=2, FailureReason=WHY)
        endpoint_guard().watch()
        before = aws.client("ssm").get_parameter(Name=STATE)["Parameter"]
        module.respond(endpoint_guard(later=timedelta(minutes=1)), EVENT)
        assert aws.client("ssm").get_parameter(Name=STATE)["Parameter"] == before

    def test_events_and_checks_of_one_failure_send_one_notification(self, aws, module, endpoint_guard):
        for minutes, status in ((0, "ROLLING_BACK"), (1, "FAILED")):
            aws.describes(1, desired=2, FailureReason=WHY)
            event = {**EVENT, "detail": {"EndpointStatus": status}}
            module.respond(endpoint_guard(later=timedelta(minutes=minutes)), event)
        for minutes in (5, 10):
            aws.describes(1, desired=2, FailureReason=WHY)
            endpoint_guard(later=timedelta(minutes=minutes)).watch()
        ((_, message),) = aws.messages
        assert message == f"cluster tiny in us-east-2: SageMaker says ROLLING_BACK: {WHY}"

    def test_later_failure_for_the_same_reason_is_notified_again(self, aws, module, endpoint_guard):
        for hours in (0, 2):
            aws.describes(0, status="Failed", FailureReason=WHY)
            module.respond(endpoint_guard(later=timedelta(hours=hours)), EVENT)
            assert len(aws.messages) == 1

    def test_reason_and_missing_instance_of_one_check_are_one_notification(self, aws, endpoint_guard):
        for minutes in (0, 5):
            aws.describes(1, desired=2, FailureReason=WHY)
            endpoint_guard(later=timedelta(minutes=minutes)).watch()
        ((subject, message),) = aws.messages
        assert subject == "slipway tiny: endpoint in trouble"
        assert message.endswith(f"SageMaker says: {WHY}\n  variant v0 runs 1 of its 2 instances")

    def test_instance_that_stays_missing_is_notified_an_hour_after_the_failure(self, aws, module, endpoint_guard):
        aws.describes(1, desired=2, FailureReason=WHY)
        module.respond(endpoint_guard(), EVENT)
        assert len(aws.messages) == 1
        aws.describes(1, desired=2, FailureReason=WHY)
        endpoint_guard(later=timedelta(hours=1)).watch()
        assert [subject for subject, _ in aws.messages] == ["slipway tiny: instances missing"]

    def test_event_call_keeps_what_a_check_counts_meanwhile(self, aws, module, endpoint_guard):
        aws.describes(2)
        endpoint_guard().watch()
        ssm, store = aws.client("ssm"), aws.client("ssm").put_parameter
        counted = json.loads(ssm.get_parameter(Name=STATE)["Parameter"]["Value"])

        def late(**request):
            ssm.put_parameter = store
            store(Name=STATE, Value=json.dumps({**counted, "spent_usd": 77.0}), Overwrite=True)
            return store(**request)

        ssm.put_parameter = late
        aws.describes(0, status="Failed", FailureReason=WHY)
        module.respond(endpoint_guard(later=timedelta(minutes=5)), EVENT)
        stored = json.loads(ssm.get_parameter(Name=STATE)["Parameter"]["Value"])
        assert stored["spent_usd"] == 77.0
        assert len(stored["sent"]) == len(counted["sent"]) + 1

    def test_event_of_a_removed_endpoint_is_notified_without_reason(self, aws, module, endpoint_guard):
        aws.stub.add_client_error("describe_endpoint", "ValidationException", "Could not find endpoint")
        module.respond(endpoint_guard(), EVENT)
        ((_, message),) = aws.messages
        assert message == "cluster tiny in us-east-2: SageMaker says FAILED"

    def test_event_with_refused_description_is_notified_and_fails_the_call(self, aws, module, endpoint_guard):
        aws.stub.add_client_error("describe_endpoint", "AccessDeniedException", "no")
        with pytest.raises(Exception, match="read why the endpoint fails"):
            module.respond(endpoint_guard(), EVENT)
        assert [message for _, message in aws.messages] == ["cluster tiny in us-east-2: SageMaker says FAILED"]

    @pytest.mark.usefixtures("container_log")
    def test_failed_update_of_a_running_endpoint_notified_once(self, aws, endpoint_guard):
        for minutes in (0, 5):
            aws.describes(2, FailureReason=WHY)
            endpoint_guard(later=timedelta(minutes=minutes)).watch()
        ((_, message),) = aws.messages
        assert message == f"cluster tiny in us-east-2: SageMaker says: {WHY}\n  {LINES}"

    @pytest.mark.usefixtures("container_log")
    def test_missing_instance_of_a_running_endpoint_notified_with_last_lines(self, aws, endpoint_guard):
        aws.describes(1, desired=2)
        endpoint_guard().watch()
        ((subject, message),) = aws.messages
        assert subject == "slipway tiny: instances missing"
        assert message == f"cluster tiny in us-east-2: variant v0 runs 1 of its 2 instances\n  {LINES}"

    def test_starting_instance_is_not_notified(self, aws, endpoint_guard):
        aws.describes(1, desired=2, status="Updating")
        endpoint_guard().watch()
        assert aws.messages == []

    @pytest.mark.parametrize(
        "status, words", [("InService", f"component {NAME} runs 1 of its 3 copies"), ("Updating", None)]
    )
    def test_missing_copy_of_a_running_component_notified(self, aws, endpoint_guard, status, words):
        aws.describes(1, shared=True)
        aws.lists(status)
        aws.component(status, current=1, desired=3)
        endpoint_guard().watch()
        assert [message for _, message in aws.messages] == ([f"cluster tiny in us-east-2: {words}"] if words else [])

    def test_failed_component_notified_with_reason(self, aws, endpoint_guard):
        aws.describes(1, shared=True)
        aws.lists("Failed")
        aws.component("Failed", current=0, desired=1, FailureReason=WHY)
        endpoint_guard().watch()
        assert [message for _, message in aws.messages] == [f"cluster tiny in us-east-2: SageMaker says: {WHY}"]


def test_lambda_handler_builds_endpoint_guard_from_environment(aws, module, monkeypatch):
    monkeypatch.setattr(module, "aws", aws.client)
    variables = {"CLUSTER": "tiny", "ENDPOINT": NAME, "STACK": aws.stack, "TOPICS": aws.topic, "PREPAID": "false"}
    for name, value in {**variables, "AWS_REGION": REGION, "STATE": STATE, "IDLE_MINUTES": "60"}.items():
        monkeypatch.setenv(name, value)
    aws.describes(1)
    module.handler({}, None)
