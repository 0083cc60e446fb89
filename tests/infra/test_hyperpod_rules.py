"""Monitoring of HyperPod's stacks."""

import json

import pytest

from tests.infra.reading import alarms, rules, variables

KIND = "hyperpod-slurm"


@pytest.fixture
def trn2(named):
    """On demand, with a budget, limits and the quoted rate of all four nodes."""
    return named("trn2-on-demand", usd_per_hour="200")


@pytest.fixture
def p5_planned(named):
    return named("p5-training-plan")


class TestGuard:
    def test_guard_rate_is_dollars_of_one_node(self, trn2):
        assert variables(trn2)["USD_PER_NODE_HOUR"] == "50.000000"

    def test_guard_is_hyperpod_handler_with_plan_limits(self, trn2):
        function, guard_variables = trn2.only("training", "AWS::Lambda::Function"), variables(trn2)
        assert function["Handler"] == "hyperpod.handler"
        assert (guard_variables["CLUSTER"], guard_variables["HYPERPOD"], guard_variables["PREPAID"]) == (
            "trn2-pod",
            "slipway-trn2-pod",
            "false",
        )
        assert (guard_variables["TTL_HOURS"], guard_variables["IDLE_MINUTES"]) == ("72", "30")
        assert "PARALLELCLUSTER" not in guard_variables

    def test_training_plan_is_prepaid_and_ends_half_an_hour_early(self, p5_planned):
        guard_variables = variables(p5_planned)
        assert (guard_variables["PREPAID"], guard_variables["ENDS_AT"]) == ("true", "2026-12-08T10:30:00+00:00")
        description = p5_planned.template("training")["Outputs"]["GuardrailSummary"]["Value"]
        assert "the training plan is prepaid: its nodes are never stopped" in description

    def test_guard_deletes_only_workers_of_cluster(self, trn2):
        roles = trn2.resources("training", "AWS::IAM::Role").values()
        (guard,) = (role for role in roles if "lambda.amazonaws.com" in json.dumps(role["AssumeRolePolicyDocument"]))
        statements = {statement["Sid"]: statement for statement in guard["Policies"][0]["PolicyDocument"]["Statement"]}
        stop = statements["StopWorkers"]
        calls = ("BatchDeleteClusterNodes", "DescribeCluster", "ListClusterNodes")
        assert stop["Action"] == [f"sagemaker:{call}" for call in calls]
        assert stop["Condition"] == {"StringEquals": {"aws:ResourceTag/slipway:cluster": "trn2-pod"}}
        assert statements["Describe"]["Action"] == "cloudwatch:GetMetricStatistics"
        assert "StopFleet" not in statements
        tags = {tag["Key"]: tag["Value"] for tag in trn2.only("training", "AWS::SageMaker::Cluster")["Tags"]}
        assert tags["slipway:cluster"] == "trn2-pod"

    def test_node_health_and_cluster_state_events_trigger_guard(self, example):
        event_rules = rules(example)
        assert set(event_rules) == {"Schedule", "NodeHealth", "State"}
        name = f"slipway-{example.plan.cluster_name}"
        for rule in ("NodeHealth", "State"):
            assert event_rules[rule]["EventPattern"]["detail"]["ClusterName"] == [name]
            assert [target["Id"] for target in event_rules[rule]["Targets"]] == ["Guard"]
        assert event_rules["NodeHealth"]["EventPattern"]["detail-type"] == [
            "SageMaker HyperPod Cluster Node Health Event"
        ]

    def test_spending_and_missing_metric_have_alarms(self, trn2):
        assert alarms(trn2)["EstimatedSpend"]["Threshold"] == 20_000
        assert alarms(trn2)["RunningNodes"]["TreatMissingData"] == "breaching"
        assert trn2.only("training", "AWS::Budgets::Budget")["Budget"]["BudgetLimit"]["Amount"] == 20_000

    def test_dashboard_shows_slurm_queue(self, trn2):
        text = json.dumps(trn2.only("training", "AWS::CloudWatch::Dashboard")["DashboardBody"])
        for metric in ("RunningNodes", "EstimatedSpend", "AcceleratorUtilization", "QueuedJobs"):
            assert metric in text
        assert "AWS/EC2" not in text
        assert "pcluster" not in text
