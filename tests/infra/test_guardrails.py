"""Monitoring of a cluster in the account: notifications, stops, and the budget."""

import json

import pytest

from launcher.catalog.assets import asset
from launcher.model.sizing import LOG_RETENTION_DAYS
from tests.infra.reading import alarms, rules, variables


@pytest.fixture
def team(synthesised):
    """Spot, a budget, three recipients, and the quoted rate of both nodes."""
    return synthesised("shared-network", usd_per_hour="50.00")


@pytest.fixture
def trn2_block(synthesised):
    return synthesised("trn2-capacity-block")


def topic_of(assembly):
    (key,) = assembly.resources("training", "AWS::SNS::Topic")
    return {"Ref": key}


class TestGuard:
    def test_guard_variables_equal_plan_limits(self, team):
        guard_variables = variables(team)
        assert (guard_variables["CLUSTER"], guard_variables["PARALLELCLUSTER"], guard_variables["PREPAID"]) == (
            "team-a",
            "slipway-team-a",
            "false",
        )
        assert (guard_variables["TTL_HOURS"], guard_variables["IDLE_MINUTES"], guard_variables["HUNG_MINUTES"]) == (
            "24",
            "30",
            "30",
        )
        assert guard_variables["USD_PER_NODE_HOUR"] == "25.000000"

    def test_guard_variables_omit_unset_limits(self, trn2_block):
        guard_variables = variables(trn2_block)
        assert guard_variables["PREPAID"] == "true"
        assert not {"TTL_HOURS", "USD_PER_NODE_HOUR"} & set(guard_variables)

    def test_guard_of_capacity_block_gets_nodes_and_window(self, team, trn2_block):
        assert "RESERVED_NODES" not in variables(team)
        guard_variables = variables(trn2_block)
        assert guard_variables["RESERVED_NODES"] == "2"
        assert guard_variables["RESERVED_FROM"] == "2026-12-01T11:30:00+00:00"
        assert guard_variables["RESERVED_UNTIL"] == "2026-12-03T11:00:00+00:00", "EC2 ends them half an hour before"

    def test_guard_scheduled_every_five_minutes_and_on_spot_notices(self, team, trn2_block):
        (function,) = team.resources("training", "AWS::Lambda::Function")
        target = {"Arn": {"Fn::GetAtt": [function, "Arn"]}, "Id": "Guard"}
        assert rules(team)["Schedule"]["ScheduleExpression"] == "rate(5 minutes)"
        assert rules(team)["Notices"]["EventPattern"]["detail-type"] == [
            "EC2 Spot Instance Interruption Warning",
            "EC2 Instance Rebalance Recommendation",
        ]
        assert rules(team)["Schedule"]["Targets"] == rules(team)["Notices"]["Targets"] == [target]
        permissions = team.resources("training", "AWS::Lambda::Permission").values()
        sources = {permission["SourceArn"]["Fn::GetAtt"][0] for permission in permissions}
        assert set(team.resources("training", "AWS::Events::Rule")) == sources
        assert "Notices" not in rules(trn2_block)

    def test_failed_guard_invocation_is_not_retried_by_lambda(self, assembly):
        """The schedule repeats it: Lambda's own two retries would count a look three times."""
        (function,) = assembly.resources("training", "AWS::Lambda::Function")
        config = assembly.only("training", "AWS::Lambda::EventInvokeConfig")
        assert config == {"FunctionName": {"Ref": function}, "MaximumRetryAttempts": 0, "Qualifier": "$LATEST"}

    def test_guard_role_star_resources_have_reason(self, team):
        (role,) = team.resources("training", "AWS::IAM::Role").values()
        (policy,) = role["Policies"]
        starred = {
            statement["Sid"]: statement
            for statement in policy["PolicyDocument"]["Statement"]
            if statement["Resource"] == "*"
        }
        assert set(starred) == {"Describe", "PutMetrics"}
        assert starred["Describe"]["Action"] == [
            "cloudwatch:GetMetricData",
            "cloudwatch:GetMetricStatistics",
            "ec2:DescribeInstances",
            "ec2:DescribeSpotPriceHistory",
        ]
        assert starred["PutMetrics"]["Condition"] == {"StringEquals": {"cloudwatch:namespace": "Slipway"}}

    def test_guard_role_stops_only_fleet_of_cluster(self, team):
        (role,) = team.resources("training", "AWS::IAM::Role").values()
        statements = {statement["Sid"]: statement for statement in role["Policies"][0]["PolicyDocument"]["Statement"]}
        stop = statements["StopFleet"]
        assert stop["Resource"]["Fn::Join"][1][-1] == ":table/parallelcluster-slipway-team-a"
        assert stop["Condition"]["ForAllValues:StringEquals"] == {"dynamodb:LeadingKeys": ["COMPUTE_FLEET"]}
        actions = {action for statement in statements.values() for action in statement["Action"]}
        assert not [action for action in actions if action.startswith(("ec2:Stop", "iam:"))]
        assert statements["TerminateRetainedNodes"]["Action"] == "ec2:TerminateInstances"
        assert statements["TerminateRetainedNodes"]["Condition"]["StringEquals"] == {
            "aws:ResourceTag/parallelcluster:cluster-name": "slipway-team-a",
            "aws:ResourceTag/parallelcluster:node-type": "Compute",
        }

    def test_guard_log_retention_is_set(self, team):
        (log,) = team.resources("training", "AWS::Logs::LogGroup").values()
        assert log["RetentionInDays"] == LOG_RETENTION_DAYS


class TestNotificationTargets:
    def test_addresses_subscribed_and_topics_notified_directly(self, team):
        subscribed = {
            (e["Protocol"], e["Endpoint"]) for e in team.resources("training", "AWS::SNS::Subscription").values()
        }
        assert subscribed == {("email", "team@example.com"), ("https", "https://hooks.example.com/slipway")}
        operations = "arn:aws:sns:us-east-2:123456789012:operations"
        for alarm in alarms(team).values():
            assert alarm["AlarmActions"] == [topic_of(team), operations]
        assert variables(team)["TOPICS"]["Fn::Join"][1] == [topic_of(team), f" {operations}"]

    def test_topic_policy_allows_account_services_over_tls(self, team):
        allowed, denied = team.only("training", "AWS::SNS::TopicPolicy")["PolicyDocument"]["Statement"]
        # AWS's guides contradict each other about a condition for events.amazonaws.com: rules call the guard instead.
        assert allowed["Principal"] == {"Service": ["budgets.amazonaws.com", "cloudwatch.amazonaws.com"]}
        assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
        assert (denied["Effect"], denied["Condition"]) == ("Deny", {"Bool": {"aws:SecureTransport": "false"}})

    def test_head_node_alarm_event_triggers_guard(self, team):
        pattern = rules(team)["HeadNode"]["EventPattern"]
        assert pattern["detail"] == {"alarmName": ["slipway-team-a-HeadNode"], "state": {"value": ["ALARM"]}}

    def test_block_expiration_rule_matches_both_event_names(self, trn2_block, team):
        pattern = rules(trn2_block)["BlockEnds"]["EventPattern"]
        assert pattern["detail-type"] == [
            "Capacity Block Expiration Warning",
            "Capacity Block Reservation Expiration Warning",
        ]
        assert pattern["detail"] == {"capacity-reservation-id": ["cr-0a1b2c3d4e5f67890"]}
        assert "BlockEnds" not in rules(team)

    def test_every_rule_targets_guard_with_permission_and_message(self, assembly):
        (function,) = assembly.resources("training", "AWS::Lambda::Function")
        for rule in rules(assembly).values():
            (target,) = rule["Targets"]
            assert target == {"Arn": {"Fn::GetAtt": [function, "Arn"]}, "Id": "Guard"}
        allowed = [
            resource["SourceArn"] for resource in assembly.resources("training", "AWS::Lambda::Permission").values()
        ]
        assert len(allowed) == len(rules(assembly))
        guard = asset("templates/guard/announced.py").read_text()
        patterns = [rule.get("EventPattern", {}) for rule in rules(assembly).values()]
        for kind in (one for pattern in patterns for one in pattern.get("detail-type", ())):
            assert f'"{kind}": ' in guard

    def test_missing_running_nodes_metric_raises_alarm(self, assembly):
        alarm = alarms(assembly)["RunningNodes"]
        assert (alarm["TreatMissingData"], alarm["Statistic"], alarm["Threshold"]) == ("breaching", "SampleCount", 1)

    def test_guard_errors_raise_alarm_on_topic(self, assembly):
        (function,) = assembly.resources("training", "AWS::Lambda::Function")
        alarm = alarms(assembly)["Errors"]
        assert alarm["Namespace"] == "AWS/Lambda"
        assert alarm["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": function}}]
        assert (alarm["Statistic"], alarm["Threshold"], alarm["TreatMissingData"]) == ("Sum", 1, "notBreaching")
        assert topic_of(assembly) in alarm["AlarmActions"]


class TestMoney:
    def test_spending_alarm_threshold_equals_plan_budget(self, team):
        alarm = alarms(team)["EstimatedSpend"]
        assert (alarm["Namespace"], alarm["Threshold"], alarm["Period"]) == ("Slipway", 800, 300)
        assert alarm["Dimensions"] == [{"Name": "Cluster", "Value": "team-a"}]

    def test_aws_budget_filters_by_cluster_tag(self, team):
        budget = team.only("training", "AWS::Budgets::Budget")
        assert budget["Budget"]["BudgetLimit"] == {"Amount": 800, "Unit": "USD"}
        assert budget["Budget"]["CostFilters"] == {"TagKeyValue": ["user:slipway:cluster$team-a"]}
        steps = [subscriber["Notification"] for subscriber in budget["NotificationsWithSubscribers"]]
        assert [(step["NotificationType"], step["Threshold"]) for step in steps] == [
            ("ACTUAL", 80),
            ("ACTUAL", 100),
            ("FORECASTED", 100),
        ]

    def test_max_usd_context_only_lowers_budget(self, synthesised):
        lower = synthesised("shared-network", usd_per_hour="50", max_usd="100")
        higher = synthesised("shared-network", usd_per_hour="50", max_usd="900")
        assert [alarms(assembly)["EstimatedSpend"]["Threshold"] for assembly in (lower, higher)] == [100, 800]

    def test_spending_alarm_without_rate_absent_and_noted(self, synthesised):
        p5 = synthesised("p5-spot")
        assert "EstimatedSpend" not in alarms(p5)
        assert (
            "no alarm on estimated spend without a rate"
            in p5.template("training")["Outputs"]["GuardrailSummary"]["Value"]
        )

    def test_plan_without_budget_has_no_aws_budget_or_alarm(self, trn2_block):
        assert trn2_block.resources("training", "AWS::Budgets::Budget") == {}
        assert (
            "no spending alarm (budget.max_usd)"
            in trn2_block.template("training")["Outputs"]["GuardrailSummary"]["Value"]
        )


class TestDashboard:
    def test_dashboard_shows_nodes_spending_and_accelerators(self, team):
        dashboard = team.only("training", "AWS::CloudWatch::Dashboard")
        assert dashboard["DashboardName"] == "slipway-team-a-us-east-2"
        text = json.dumps(dashboard["DashboardBody"])
        for metric in (
            "RunningNodes",
            "EstimatedSpend",
            "AcceleratorUtilization",
            "AcceleratorErrors",
            "CPUUtilization",
        ):
            assert metric in text
        outputs = team.template("training")["Outputs"]
        assert outputs["DashboardUrl"]["Value"].endswith("#dashboards/dashboard/slipway-team-a-us-east-2")

    def test_dashboard_widgets_do_not_overlap(self, team):
        parts = team.only("training", "AWS::CloudWatch::Dashboard")["DashboardBody"]["Fn::Join"][1]
        widgets = json.loads("".join(part if isinstance(part, str) else "token" for part in parts))["widgets"]
        assert len({(widget["x"], widget["y"]) for widget in widgets}) == len(widgets)
        assert all(widget["x"] + widget["width"] <= 24 for widget in widgets)
