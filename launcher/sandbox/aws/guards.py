"""The resources that watch a cluster, which moto ignores: alarms, topics, budgets, retries of failed calls.

Judged by: cfn-lint 1.58.0's copy of CloudFormation's registry, which judges every synthesised template
(tests/infra/linting.py); an alarm and a missing topic or function by answers recorded from AWS
(tests/sandbox/aws/test_recorded_answers.py: localstack@8b9a79f, tests/aws/services).

Emulated: CloudWatch, SNS, Budgets and Lambda return the settings of the template, and delete them with the stack.
Not emulated: the firing of alarms, and the delivery of messages.
"""

import json
from typing import Any

from moto.awslambda.models import lambda_backends
from moto.budgets.models import BudgetsBackend, budgets_backends
from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends
from moto.sns.models import SNSBackend, Topic, sns_backends
from moto.utilities.utils import get_partition

from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError, nothing


def _cloudwatch(requested: Requested) -> CloudWatchBackend:
    return cloudwatch_backends[requested.account_id][requested.region_name]


def _alarm(requested: Requested, before: Any = None) -> Created:
    name = before.physical_resource_id if before is not None else requested.get("AlarmName") or requested.name
    existing = _cloudwatch(requested).alarms.get(name)
    created = _cloudwatch(requested).put_metric_alarm(
        name=name,
        namespace=requested.need("Namespace"),
        metric_name=requested.need("MetricName"),
        comparison_operator=requested.need("ComparisonOperator"),
        evaluation_periods=int(requested.need("EvaluationPeriods")),
        period=int(requested.need("Period")),
        threshold=float(requested.need("Threshold")),
        statistic=requested.need("Statistic") if requested.get("ExtendedStatistic") is None else None,  # type: ignore[arg-type]
        extended_statistic=requested.get("ExtendedStatistic"),
        datapoints_to_alarm=requested.get("DatapointsToAlarm"),
        description=requested.get("AlarmDescription", ""),
        dimensions=requested.get("Dimensions", []),
        alarm_actions=requested.get("AlarmActions", []),
        treat_missing_data=requested.get("TreatMissingData"),
        tags=requested.get("Tags", []),
    )
    if existing is not None:
        # An alarm that is changed stays in its state (API reference, PutMetricAlarm).
        created.update_state(existing.state_reason, existing.state_reason_data, existing.state_value)
    return Created(physical_resource_id=name, attributes={"Arn": created.alarm_arn})


def _topic(requested: Requested) -> Topic:
    name = requested.get("TopicName") or requested.name
    definition = {"Type": requested.type, "Properties": requested.properties}
    topic: Topic = Topic.create_from_cloudformation_json(name, definition, requested.account_id, requested.region_name)
    return _change_topic(requested, topic)


def _change_topic(requested: Requested, topic: Topic) -> Topic:
    """Change a topic in place: moto would create another, without the policy and the subscribers of this topic."""
    topic.display_name = requested.get("DisplayName", "")
    topic._tags = {tag["Key"]: tag["Value"] for tag in requested.get("Tags", [])}  # noqa: SLF001  moto has no setter
    return topic


def _sns(requested: Requested) -> SNSBackend:
    return sns_backends[requested.account_id][requested.region_name]


def _topic_policy(requested: Requested, before: Any = None) -> Created:
    del before
    document = json.dumps(requested.need("PolicyDocument"))
    for arn in requested.need("Topics"):
        _sns(requested).set_topic_attribute(arn, "policy", document)
    return Created(physical_resource_id=requested.name, attributes={"Id": requested.name})


def _subscription(requested: Requested) -> Created:
    created = _sns(requested).subscribe(
        requested.need("TopicArn"), requested.need("Endpoint"), requested.need("Protocol")
    )
    return Created(physical_resource_id=created.arn, attributes={"Arn": created.arn})


def _budgets(requested: Requested) -> BudgetsBackend:
    return budgets_backends[requested.account_id][get_partition(requested.region_name)]


def _budget(requested: Requested, before: Created | None = None) -> Created:
    if before is not None:
        _remove_budget(requested, before)
    specified = requested.need("Budget")
    limit = specified.get("BudgetLimit")
    if limit is None:
        raise ResourceRefusedError("Budget: missing; the sandbox needs a fixed BudgetLimit")
    budget = {
        **specified,
        "BudgetName": specified.get("BudgetName") or requested.name,
        "BudgetLimit": {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]},
    }
    _budgets(requested).create_budget(requested.account_id, budget, requested.get("NotificationsWithSubscribers", []))
    return Created(physical_resource_id=budget["BudgetName"])


def _remove_budget(requested: Requested, budget: Created) -> None:
    _budgets(requested).delete_budget(requested.account_id, budget.physical_resource_id)


def _repeats(requested: Requested, before: Any = None) -> Created:
    """Set how Lambda handles asynchronous calls of a function (CloudFormation, AWS::Lambda::EventInvokeConfig)."""
    function, qualifier = requested.need("FunctionName"), requested.need("Qualifier")
    if before is not None:
        _remove_repeats(requested, before)
    lambda_backends[requested.account_id][requested.region_name].put_function_event_invoke_config(
        function, dict(requested.properties)
    )
    return Created(physical_resource_id=f"{function}|{qualifier}")


def _remove_repeats(requested: Requested, config: Created) -> None:
    function, _, _ = config.physical_resource_id.partition("|")
    lambda_backends[requested.account_id][requested.region_name].delete_function_event_invoke_config(function)


MODELS = (
    Model(type="AWS::Lambda::EventInvokeConfig", make=_repeats, change=_repeats, remove=_remove_repeats),
    Model(
        type="AWS::CloudWatch::Alarm",
        make=_alarm,
        change=_alarm,
        remove=lambda requested, alarm: _cloudwatch(requested).delete_alarms([alarm.physical_resource_id]),
    ),
    Model(
        type="AWS::SNS::Topic",
        make=_topic,
        change=_change_topic,
        remove=lambda requested, topic: _sns(requested).delete_topic(topic.arn),
    ),
    Model(type="AWS::SNS::TopicPolicy", make=_topic_policy, change=_topic_policy, remove=nothing),
    Model(
        type="AWS::SNS::Subscription",
        make=_subscription,
        remove=lambda requested, created: _sns(requested).unsubscribe(created.physical_resource_id),
    ),
    Model(type="AWS::Budgets::Budget", make=_budget, change=_budget, remove=_remove_budget),
)
