"""What watches a cluster and moto passes over: alarms, topics, budgets, how often a failed call is repeated.

Emulated: what a template says of them can be read back from CloudWatch, SNS, Budgets and Lambda, and goes away with its
stack.
Not emulated: that anything sets them off or reaches anybody.
"""

import json
from typing import Any

from moto.awslambda.models import LambdaBackend, lambda_backends
from moto.budgets.models import BudgetsBackend, budgets_backends
from moto.cloudwatch.models import CloudWatchBackend, cloudwatch_backends
from moto.sns.models import Topic, sns_backends
from moto.utilities.utils import get_partition

from launcher.sandbox.aws.model import Created, Model, Requested, ResourceRefusedError


def _cloudwatch(wanted: Requested) -> CloudWatchBackend:
    return cloudwatch_backends[wanted.account_id][wanted.region_name]


def _alarm(wanted: Requested, before: Any = None) -> Created:
    name = before.physical_resource_id if before is not None else wanted.get("AlarmName") or wanted.name
    known = _cloudwatch(wanted).alarms.get(name)
    made = _cloudwatch(wanted).put_metric_alarm(
        name=name,
        namespace=wanted.need("Namespace"),
        metric_name=wanted.need("MetricName"),
        comparison_operator=wanted.need("ComparisonOperator"),
        evaluation_periods=int(wanted.need("EvaluationPeriods")),
        period=int(wanted.need("Period")),
        threshold=float(wanted.need("Threshold")),
        statistic=wanted.need("Statistic") if wanted.get("ExtendedStatistic") is None else None,  # type: ignore[arg-type]
        extended_statistic=wanted.get("ExtendedStatistic"),
        datapoints_to_alarm=wanted.get("DatapointsToAlarm"),
        description=wanted.get("AlarmDescription", ""),
        dimensions=wanted.get("Dimensions", []),
        alarm_actions=wanted.get("AlarmActions", []),
        treat_missing_data=wanted.get("TreatMissingData"),
        tags=wanted.get("Tags", []),
    )
    if known is not None:
        # An alarm that is changed stays in its state (API reference, PutMetricAlarm).
        made.update_state(known.state_reason, known.state_reason_data, known.state_value)
    return Created(physical_resource_id=name, attributes={"Arn": made.alarm_arn})


def _remove_alarm(wanted: Requested, alarm: Created) -> None:
    _cloudwatch(wanted).delete_alarms([alarm.physical_resource_id])


def _topic(wanted: Requested) -> Topic:
    name = wanted.get("TopicName") or wanted.name
    definition = {"Type": wanted.type, "Properties": wanted.properties}
    topic: Topic = Topic.create_from_cloudformation_json(name, definition, wanted.account_id, wanted.region_name)
    return _change_topic(wanted, topic)


def _change_topic(wanted: Requested, topic: Topic) -> Topic:
    """In place: moto would make another, without the policy and the subscribers of this one."""
    topic.display_name = wanted.get("DisplayName", "")
    topic._tags = {tag["Key"]: tag["Value"] for tag in wanted.get("Tags", [])}  # noqa: SLF001  moto has no setter
    return topic


def _remove_topic(wanted: Requested, topic: Topic) -> None:
    sns_backends[wanted.account_id][wanted.region_name].delete_topic(topic.arn)


def _topic_policy(wanted: Requested, before: Any = None) -> Created:
    del before
    document = json.dumps(wanted.need("PolicyDocument"))
    for arn in wanted.need("Topics"):
        sns_backends[wanted.account_id][wanted.region_name].set_topic_attribute(arn, "policy", document)
    return Created(physical_resource_id=wanted.name, attributes={"Id": wanted.name})


def _remove_topic_policy(wanted: Requested, policy: Created) -> None:
    """A topic without a policy of its own has the default one again; here it goes away with the same stack."""


def _subscription(wanted: Requested) -> Created:
    topics = sns_backends[wanted.account_id][wanted.region_name]
    made = topics.subscribe(wanted.need("TopicArn"), wanted.need("Endpoint"), wanted.need("Protocol"))
    return Created(physical_resource_id=made.arn, attributes={"Arn": made.arn})


def _unsubscribe(wanted: Requested, subscription: Created) -> None:
    sns_backends[wanted.account_id][wanted.region_name].unsubscribe(subscription.physical_resource_id)


def _budgets(wanted: Requested) -> BudgetsBackend:
    return budgets_backends[wanted.account_id][get_partition(wanted.region_name)]


def _budget(wanted: Requested) -> Created:
    given = wanted.need("Budget")
    limit = given.get("BudgetLimit")
    if limit is None:
        raise ResourceRefusedError("Budget: the sandbox takes a fixed BudgetLimit, got none")
    budget = {
        **given,
        "BudgetName": given.get("BudgetName") or wanted.name,
        "BudgetLimit": {"Amount": str(limit["Amount"]), "Unit": limit["Unit"]},
    }
    _budgets(wanted).create_budget(wanted.account_id, budget, wanted.get("NotificationsWithSubscribers", []))
    return Created(physical_resource_id=budget["BudgetName"])


def _change_budget(wanted: Requested, before: Created) -> Created:
    _remove_budget(wanted, before)
    return _budget(wanted)


def _remove_budget(wanted: Requested, budget: Created) -> None:
    _budgets(wanted).delete_budget(wanted.account_id, budget.physical_resource_id)


def _lambda(wanted: Requested) -> LambdaBackend:
    return lambda_backends[wanted.account_id][wanted.region_name]


def _repeats(wanted: Requested, before: Any = None) -> Created:
    """How Lambda takes a function's asynchronous calls (CloudFormation reference, AWS::Lambda::EventInvokeConfig)."""
    function, qualifier = wanted.need("FunctionName"), wanted.need("Qualifier")
    if before is not None:
        _remove_repeats(wanted, before)
    _lambda(wanted).put_function_event_invoke_config(function, dict(wanted.properties))
    return Created(physical_resource_id=f"{function}|{qualifier}")


def _remove_repeats(wanted: Requested, config: Created) -> None:
    function, _, _ = config.physical_resource_id.partition("|")
    _lambda(wanted).delete_function_event_invoke_config(function)


MODELS = (
    Model(type="AWS::Lambda::EventInvokeConfig", make=_repeats, change=_repeats, remove=_remove_repeats),
    Model(type="AWS::CloudWatch::Alarm", make=_alarm, change=_alarm, remove=_remove_alarm),
    Model(type="AWS::SNS::Topic", make=_topic, change=_change_topic, remove=_remove_topic),
    Model(type="AWS::SNS::TopicPolicy", make=_topic_policy, change=_topic_policy, remove=_remove_topic_policy),
    Model(type="AWS::SNS::Subscription", make=_subscription, remove=_unsubscribe),
    Model(type="AWS::Budgets::Budget", make=_budget, change=_change_budget, remove=_remove_budget),
)
