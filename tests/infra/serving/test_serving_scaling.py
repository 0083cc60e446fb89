"""Scaling of endpoints with traffic, notifications, and automatic ends."""

import json
from dataclasses import replace

import pytest

from launcher.model.errors import ImpossibleError
from tests.checks import some
from tests.infra.serving.conftest import CONFIG, POLICY, TARGET, alarms, only, statements, variant


def policies(assembly):
    return {resource["PolicyType"]: resource for resource in assembly.resources("serving", POLICY).values()}


def tracking(assembly):
    return policies(assembly)["TargetTrackingScaling"]["TargetTrackingScalingPolicyConfiguration"]


class TestScaling:
    def test_copies_scale_by_concurrent_requests_per_copy(self, endpoint_stack):
        endpoint = endpoint_stack("llama31-8b-inf2")
        target = only(endpoint, TARGET)
        assert target["ResourceId"] == "inference-component/slipway-llama31-8b-inf2"
        assert (target["MinCapacity"], target["MaxCapacity"]) == (3, 15)
        metric = "SageMakerInferenceComponentConcurrentRequestsPerCopyHighResolution"
        assert tracking(endpoint)["PredefinedMetricSpecification"] == {"PredefinedMetricType": metric}
        assert tracking(endpoint)["TargetValue"] == pytest.approx(0.7 * 32, abs=0.1)

    def test_instances_scale_by_concurrent_requests(self, endpoint_stack):
        endpoint = endpoint_stack("llama33-70b-inf2")
        assert only(endpoint, TARGET)["ScalableDimension"] == "sagemaker:variant:DesiredInstanceCount"
        assert tracking(endpoint)["TargetValue"] == pytest.approx(0.7 * 8, abs=0.1)

    def test_scale_out_cooldown_is_shorter_than_scale_in(self, endpoint_stack):
        for name in ("llama31-8b-inf2", "llama33-70b-inf2", "asynchronous-inf2"):
            policy = tracking(endpoint_stack(name))
            assert 60 <= policy["ScaleOutCooldown"] < policy["ScaleInCooldown"] <= 3600

    def test_scalable_target_depends_on_component(self, endpoint_stack):
        resources = endpoint_stack("llama31-8b-inf2").template("serving")["Resources"]
        (waits,) = [resource["DependsOn"] for resource in resources.values() if resource["Type"] == TARGET]
        assert "AWS::SageMaker::InferenceComponent" in {resources[wait]["Type"] for wait in waits}

    def test_scheduled_actions_change_range_in_copies(self, endpoint_stack):
        first, second = only(endpoint_stack("llama31-8b-inf2"), TARGET)["ScheduledActions"]
        assert (first["Schedule"], first["Timezone"]) == ("cron(30 5 ? * MON-FRI *)", "Europe/Berlin")
        assert first["ScalableTargetAction"] == {"MinCapacity": 6, "MaxCapacity": 15}
        assert second["ScalableTargetAction"] == {"MinCapacity": 3, "MaxCapacity": 15}

    def test_fixed_size_endpoint_has_no_scalable_target(self, endpoint_stack):
        assert endpoint_stack("llama31-8b-g6e").resources("serving", TARGET) == {}


class TestZero:
    @pytest.fixture
    def sleeping(self, endpoint_stack):
        return endpoint_stack(min_instances=0, max_instances=2)

    def test_components_scale_down_to_zero(self, sleeping):
        assert variant(sleeping)["ManagedInstanceScaling"]["MinInstanceCount"] == 0
        assert only(sleeping, TARGET)["MinCapacity"] == 0
        assert only(sleeping, "AWS::SageMaker::InferenceComponent")["RuntimeConfig"] == {"CopyCount": 1}

    def test_request_without_capacity_scales_out_by_one(self, sleeping):
        step = policies(sleeping)["StepScaling"]["StepScalingPolicyConfiguration"]
        assert step["StepAdjustments"] == [{"MetricIntervalLowerBound": 0, "ScalingAdjustment": 1}]
        wake = alarms(sleeping)["Wake"]
        assert wake["MetricName"] == "NoCapacityInvocationFailures"
        assert wake["Dimensions"] == [{"Name": "InferenceComponentName", "Value": "slipway-small"}]
        (action,) = wake["AlarmActions"]
        assert sleeping.template("serving")["Resources"][action["Ref"]]["Type"] == POLICY

    def test_asynchronous_endpoint_scales_by_backlog(self, endpoint_stack):
        endpoint = endpoint_stack("asynchronous-inf2")
        assert (only(endpoint, TARGET)["MinCapacity"], variant(endpoint)["InitialInstanceCount"]) == (0, 1)
        assert alarms(endpoint)["Wake"]["MetricName"] == "HasBacklogWithoutCapacity"
        backlog = tracking(endpoint)["CustomizedMetricSpecification"]
        assert backlog["MetricName"] == "ApproximateBacklogSizePerInstance"
        assert tracking(endpoint)["TargetValue"] == 16

    def test_asynchronous_concurrency_equals_decoding_batch(self, endpoint_stack):
        queue = only(endpoint_stack("asynchronous-inf2"), CONFIG)["AsyncInferenceConfig"]
        assert queue["ClientConfig"] == {"MaxConcurrentInvocationsPerInstance": 16}
        assert json.dumps(queue["OutputConfig"]["S3OutputPath"]).endswith('"/answers"]]}')


class TestAlarms:
    def test_alarms_of_endpoint_equal_billed_alarms(self, endpoint_stack):
        set_up = {"Errors", "Refused", "Latency", "Overhead", "Idle"}
        assert set_up <= alarms(endpoint_stack("llama31-8b-inf2")).keys()
        assert {"Errors", "Wake"} <= alarms(endpoint_stack("asynchronous-inf2")).keys()

    def test_alarm_dimensions_and_statistics_equal_published_metrics(self, endpoint_stack):
        """Dimensions and statistics of the developer guide; an alarm on any others never has data."""
        variant_of = {"EndpointName", "VariantName"}
        queue = alarms(endpoint_stack("asynchronous-inf2"))
        assert {dimension["Name"] for dimension in queue["Errors"]["Dimensions"]} == variant_of
        assert {dimension["Name"] for dimension in queue["Wake"]["Dimensions"]} == {"EndpointName"}
        set_up = alarms(endpoint_stack("llama33-70b-inf2"))
        for name in ("Errors", "Refused", "Latency", "Overhead", "Idle"):
            assert {dimension["Name"] for dimension in set_up[name]["Dimensions"]} == variant_of
            component = alarms(endpoint_stack("llama31-8b-inf2"))[name]
            assert [dimension["Name"] for dimension in component["Dimensions"]] == ["InferenceComponentName"]
        assert set_up["Overhead"]["Statistic"] == "Average"
        assert set_up["Latency"]["ExtendedStatistic"] == "p90"

    def test_idle_alarm_of_asynchronous_endpoint_watches_backlog(self, endpoint_stack):
        idle = alarms(endpoint_stack(asynchronous=True, tensor_parallel=2))["Idle"]
        assert (idle["MetricName"], idle["Statistic"]) == ("ApproximateBacklogSize", "Maximum")
        assert [dimension["Name"] for dimension in idle["Dimensions"]] == ["EndpointName"]

    def test_every_alarm_except_wake_notifies_topic(self, serving_example):
        (topic,) = serving_example.resources("serving", "AWS::SNS::Topic")
        for name, alarm in some(alarms(serving_example).items()):
            notifies = {"Ref": topic} in alarm["AlarmActions"]
            assert notifies != (name == "Wake")

    def test_plan_topic_is_notified_by_alarms(self, endpoint_stack):
        arn = "arn:aws:sns:us-east-1:123456789012:ml-platform"
        assert arn in alarms(endpoint_stack("llama33-70b-inf2"))["Errors"]["AlarmActions"]

    def test_latency_alarm_threshold_follows_sagemaker_timeout(self, endpoint_stack):
        assert alarms(endpoint_stack("llama33-70b-inf2"))["Latency"]["Threshold"] == 420e6
        assert alarms(endpoint_stack("embedding-inf2"))["Latency"]["Threshold"] == 50e6

    def test_idle_alarm_period_equals_plan_idle_minutes(self, endpoint_stack):
        idle = alarms(endpoint_stack("llama31-8b-g6e"))["Idle"]
        assert (idle["Period"] * idle["EvaluationPeriods"], idle["TreatMissingData"]) == (3600, "breaching")
        most = alarms(endpoint_stack(rest={"guardrails": {"idle_minutes": 10_000}}))["Idle"]
        assert most["Period"] * most["EvaluationPeriods"] == 86_400


class TestGuardrails:
    def test_guard_may_delete_only_planned_endpoint(self, endpoint_stack):
        endpoint = endpoint_stack("embedding-inf2")
        function = only(endpoint, "AWS::Lambda::Function")
        variables = function["Environment"]["Variables"]
        assert function["Handler"] == "endpoint.handler"
        assert (variables["ENDPOINT"], variables["TTL_HOURS"]) == ("slipway-embedding-inf2", "72")
        (stop,) = statements(endpoint, "DeleteEndpoint")
        assert json.dumps(stop["Resource"]).endswith(':endpoint/slipway-embedding-inf2"]]}')

    def test_spending_alarm_and_budget_have_plan_limit(self, endpoint_stack):
        endpoint = endpoint_stack("llama31-8b-inf2", context={"usd_per_hour": "77.90"})
        own_alarms = endpoint.resources("serving", "AWS::CloudWatch::Alarm").values()
        (spend,) = [alarm for alarm in own_alarms if alarm["MetricName"] == "EstimatedSpend"]
        assert spend["Threshold"] == 40_000
        assert only(endpoint, "AWS::Budgets::Budget")["Budget"]["BudgetLimit"]["Amount"] == 40_000

    def test_rollback_event_rule_matches_endpoint(self, endpoint_stack):
        rules = endpoint_stack("llama33-70b-inf2").resources("serving", "AWS::Events::Rule").values()
        (rule,) = [rule for rule in rules if "EventPattern" in rule]
        assert rule["EventPattern"]["detail"]["EndpointName"] == ["slipway-llama33-70b-inf2"]
        assert "RollingBack" in rule["EventPattern"]["detail"]["EndpointStatus"]

    def test_guardrail_summary_describes_active_guards(self, endpoint_stack):
        def describe(name):
            return endpoint_stack(name).template("serving")["Outputs"]["GuardrailSummary"]["Value"]

        assert "the endpoint is deleted 72 h after the last deployment" in describe("embedding-inf2")
        assert "an alarm after 60 minutes without a request" in describe("embedding-inf2")
        assert "idle" not in describe("asynchronous-inf2")

    def test_endpoint_resources_have_cluster_and_digest_tags(self, serving_example):
        for kind in ("AWS::SageMaker::Endpoint", "AWS::SageMaker::Model", CONFIG):
            tags = {tag["Key"]: tag["Value"] for tag in only(serving_example, kind)["Tags"]}
            assert tags["slipway:cluster"] == serving_example.plan.name
            assert tags["slipway:digest"] == serving_example.plan.digest

    def test_dashboard_shows_requests_latency_and_instances(self, serving_example):
        body = json.dumps(only(serving_example, "AWS::CloudWatch::Dashboard")["DashboardBody"])
        for metric in ("Invocations", "Invocation5XXErrors", "ModelLatency", "RunningNodes"):
            assert metric in body


def test_permissions_boundary_and_qualifier_are_applied(endpoint_stack):
    arn = "arn:aws:iam::123456789012:policy/boundary"
    endpoint = endpoint_stack(rest={"security": {"permissions_boundary_arn": arn, "qualifier": "team"}})
    for role in endpoint.resources("serving", "AWS::IAM::Role").values():
        assert role["PermissionsBoundary"] == arn
    assert "/cdk-bootstrap/team/" in json.dumps(endpoint.template("serving"))


def test_unavailable_endpoint_refused_before_synthesis(endpoint_stack, tmp_path):
    from infra.build import build_app

    plan = endpoint_stack("llama33-70b-inf2").plan
    with pytest.raises(ImpossibleError) as refusal:
        build_app(replace(plan, place=replace(plan.place, region="eu-north-1")), outdir=tmp_path)
    assert [finding.code for finding in refusal.value.findings] == ["image-not-in-region"]
    assert list(tmp_path.iterdir()) == []
