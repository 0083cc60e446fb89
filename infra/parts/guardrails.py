"""The guardrails of a cluster, which run in the account without a user: time, idleness, spend, interruptions."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from aws_cdk import Aws, Stack
from aws_cdk import aws_budgets as budgets
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_sns as sns
from constructs import Construct

from infra.parts.budget_stop import StopPlace, budget_stop, plain_usd
from infra.parts.guard_folder import GuardFolder
from infra.parts.guard_function import GuardFunction, GuardSettings, Rights
from infra.parts.limits import Limits
from infra.parts.outputs import add_output
from launcher.model.budget_stop import exempt
from launcher.model.enums import PREPAID, PurchaseOption
from launcher.model.idle import idle_minutes
from launcher.model.monitoring import (
    FAILED_CALLS,
    GUARD_EVERY_MINUTES,
    GUARD_METRICS,
    NAMESPACE,
    SPEND_METRIC,
    Alarm,
    alarms,
)
from launcher.model.plan import Plan
from launcher.model.target import Guard
from launcher.model.units import number_of
from launcher.planning.registry import has_budget
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import OUTPUTS
from launcher.targets.registry import target_of

_SAMPLE_S = GUARD_EVERY_MINUTES * 60
_SILENT_S = 900
_NOTICES = ("EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation")
_BUDGET_STEPS = (("ACTUAL", 80), ("ACTUAL", 100), ("FORECASTED", 100))


class Guardrails(Construct):
    """A topic, the guard that watches the cluster, and their alarms, rules and budget.

    Budgets lag by about a day, so money is also estimated as node-hours times the quoted rate, every five minutes.

    Attributes:
        topic: the topic of every notification.
        topics: that topic, and the topics in `guardrails.notify`.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        plan: Plan,
        limits: Limits,
        rights: Rights,
        announce: Callable[[Plan, "Guardrails"], None],
        stop: StopPlace | None = None,
        folder: GuardFolder | None = None,
    ) -> None:
        """`rights` are the guard's permissions on the target; `announce` adds rules for the target's own events.

        `stop` notifies a job that its budget is used up, and `folder` is the guard's folder in the store; both are None
        if the target has no job.
        """
        super().__init__(scope, id_)
        self._plan = plan
        self._stop = budget_stop(plan, limits, stop)
        self._folder = folder
        self._dimensions = [cloudwatch.CfnAlarm.DimensionProperty(name="Cluster", value=plan.cluster_name)]
        self.topic = sns.CfnTopic(self, "Topic", display_name=f"slipway {plan.cluster_name}")
        self._topic_policy()
        others = self._subscribe(plan.request.guardrails.notify)
        self.topics = (self.topic.ref, *others)
        self._guard(limits, rights)
        announce(plan, self)
        if stop is not None:
            add_output(Stack.of(self), OUTPUTS["stop_uri"], stop.uri)
        if folder is not None:
            add_output(Stack.of(self), OUTPUTS["message_uri"], folder.message_uri)
        self._alarms(limits)
        if limits.max_usd is not None and has_budget(plan.place.region):
            self._budget(limits.max_usd)

    def _alarms(self, limits: Limits) -> None:
        """The alarms of the plan; the estimate counts them with the same function."""
        for alarm in alarms(budgeted=limits.max_usd is not None, rated=limits.usd_per_node_hour is not None):
            if alarm is Alarm.SILENT:
                self._silence_alarm()
            elif alarm is Alarm.FAILING:
                self._failure_alarm()
            elif limits.max_usd is not None:
                self._spend_alarm(limits.max_usd, limits.max_usd_name)

    def _topic_policy(self) -> None:
        """Services of this account may publish, over TLS; messages name clusters and instances, and contain no secret.

        EventBridge is not among them: its user guide mentions topics whose policy supports no condition for
        EventBridge, but the SNS guide has one. Rules call the guard, which publishes to every topic with its own role.
        """
        services = ("budgets.amazonaws.com", "cloudwatch.amazonaws.com")
        statements: list[dict[str, Any]] = [
            {
                "Sid": "ServicesOfThisAccount",
                "Effect": "Allow",
                "Principal": {"Service": list(services)},
                "Action": "sns:Publish",
                "Resource": self.topic.ref,
                "Condition": {"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
            },
            {
                "Sid": "TlsOnly",
                "Effect": "Deny",
                "Principal": "*",
                "Action": "sns:Publish",
                "Resource": self.topic.ref,
                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
            },
        ]
        document = {"Version": "2012-10-17", "Statement": statements}
        sns.CfnTopicPolicy(self, "TopicPolicy", policy_document=document, topics=[self.topic.ref])

    def _subscribe(self, notify: tuple[str, ...]) -> tuple[str, ...]:
        """Subscribe all addresses in `notify` but topics; return the topics, to which the guard publishes directly."""
        for index, address in enumerate(notify):
            protocol = protocol_of(address)
            if protocol != "sns":
                sns.CfnSubscription(
                    self, f"Subscription{index}", topic_arn=self.topic.ref, protocol=protocol, endpoint=address
                )
        return tuple(topic for topic in notify if protocol_of(topic) == "sns")

    def _guard(self, limits: Limits, rights: Rights) -> None:
        plan, row = self._plan, guard_of(self._plan)
        settings = GuardSettings(
            cluster=plan.cluster_name,
            module=row.module,
            variable=row.variable,
            name=cluster_name(plan),
            topics=self.topics,
            prepaid=plan.place.option in PREPAID,
            ends_at=_reclaimed_at(plan),
            ttl_h=plan.request.guardrails.ttl_h,
            idle_minutes=idle_minutes(plan.request) or 0,
            hung_minutes=plan.request.guardrails.hung_minutes,
            usd_per_node_hour=limits.usd_per_node_hour,
            key_arn=plan.request.storage.kms_key_arn,
            stop=self._stop,
            folder=self._folder,
            shared_store=plan.request.checkpoint.store_uri is not None,
            reserved=_reserved_variables(plan),
            spot=plan.place.option is PurchaseOption.SPOT and row.spot_notices and limits.usd_per_node_hour is not None,
            job=_job_budget(plan, limits),
        )
        self._function = GuardFunction(self, "Guard", settings=settings, rights=rights)
        self._function.call_by(
            self._rule("Schedule", "the schedule of the guard", schedule=f"rate({GUARD_EVERY_MINUTES} minutes)")
        )
        # EC2's notices for instances in SageMaker's account stay there.
        if plan.place.option is PurchaseOption.SPOT and row.spot_notices:
            pattern = {"source": ["aws.ec2"], "detail-type": list(_NOTICES)}
            self._function.call_by(self._rule("Notices", "spot instances that EC2 interrupts", pattern=pattern))

    def _silence_alarm(self) -> None:
        self._alarm(
            Alarm.SILENT,
            description="no report from the guard for 30 minutes: its idle, time and budget stops are not active",
            metric=GUARD_METRICS[0],
            statistic="SampleCount",
            period=_SILENT_S,
            periods=2,
            comparison="LessThanThreshold",
            threshold=1,
            missing="breaching",
        )

    def _failure_alarm(self) -> None:
        """An alarm for an incomplete check of the guard: its function then fails, and its log has the reason."""
        self._alarm(
            Alarm.FAILING,
            description="the guard could not do all of its work: see the log group of its function",
            metric=FAILED_CALLS,
            statistic="Sum",
            period=_SAMPLE_S,
            periods=1,
            comparison="GreaterThanOrEqualToThreshold",
            threshold=1,
            missing="notBreaching",
            of_function=True,
        )

    def _rule(
        self, id_: str, description: str, *, pattern: Mapping[str, Any] | None = None, schedule: str | None = None
    ) -> events.CfnRule:
        return events.CfnRule(
            self,
            id_,
            description=f"Slipway {self._plan.cluster_name}: {description}",
            event_pattern=dict(pattern) if pattern is not None else None,
            schedule_expression=schedule,
            state="ENABLED",
        )

    def notify(self, id_: str, description: str, pattern: Mapping[str, Any]) -> None:
        """Let the guard notify users of matching events; templates/guard/announced.py has the texts."""
        self._function.call_by(self._rule(id_, description, pattern=pattern))

    def _spend_alarm(self, max_usd: Decimal, name: str) -> None:
        self._alarm(
            Alarm.SPEND,
            description=f"node-hours times the quoted rate have reached {name}",
            metric=SPEND_METRIC,
            statistic="Maximum",
            period=_SAMPLE_S,
            periods=1,
            comparison="GreaterThanOrEqualToThreshold",
            threshold=float(max_usd),
            missing="ignore",
        )

    def _alarm(
        self,
        id_: str,
        *,
        description: str,
        metric: str,
        statistic: str,
        period: int,
        periods: int,
        comparison: str,
        threshold: float,
        missing: str,
        of_function: bool = False,
    ) -> None:
        function = cloudwatch.CfnAlarm.DimensionProperty(name="FunctionName", value=self._function.function.ref)
        cloudwatch.CfnAlarm(
            self,
            id_,
            alarm_description=f"Slipway {self._plan.cluster_name}: {description}",
            namespace="AWS/Lambda" if of_function else NAMESPACE,
            metric_name=metric,
            dimensions=[function] if of_function else self._dimensions,
            statistic=statistic,
            period=period,
            evaluation_periods=periods,
            comparison_operator=comparison,
            threshold=threshold,
            treat_missing_data=missing,
            alarm_actions=list(self.topics),
        )

    def _budget(self, max_usd: Decimal) -> None:
        """A budget for AWS's own bill under the cluster's tag this month, about a day late."""
        subscriber = budgets.CfnBudget.SubscriberProperty(subscription_type="SNS", address=self.topic.ref)
        budgets.CfnBudget(
            self,
            "Budget",
            budget=budgets.CfnBudget.BudgetDataProperty(
                budget_name=f"slipway-{self._plan.cluster_name}-{Stack.of(self).region}",
                budget_type="COST",
                time_unit="MONTHLY",
                budget_limit=budgets.CfnBudget.SpendProperty(amount=float(max_usd), unit="USD"),
                cost_filters={"TagKeyValue": [f"user:slipway:cluster${self._plan.cluster_name}"]},
            ),
            notifications_with_subscribers=[
                budgets.CfnBudget.NotificationWithSubscribersProperty(
                    notification=budgets.CfnBudget.NotificationProperty(
                        notification_type=kind,
                        comparison_operator="GREATER_THAN",
                        threshold=percent,
                        threshold_type="PERCENTAGE",
                    ),
                    subscribers=[subscriber],
                )
                for kind, percent in _BUDGET_STEPS
            ],
        )


def _reclaimed_at(plan: Plan) -> datetime | None:
    """When SageMaker reclaims the instances of a training plan; None if the plan file does not say."""
    bought = plan.request.purchase.training_plan
    if plan.place.option is not PurchaseOption.TRAINING_PLAN or bought is None or bought.ends_at is None:
        return None
    return bought.ends_at - timedelta(minutes=target_of(plan.place.target).lost_minutes(plan.place.option))


def _reserved_variables(plan: Plan) -> dict[str, str]:
    """The guard's variables for nodes that are billed even if none runs: their number, and when, as far as known."""
    purchase, option = plan.request.purchase, plan.place.option
    in_plan = option is PurchaseOption.TRAINING_PLAN
    bought = purchase.training_plan if in_plan else purchase.reservation
    if bought is None:
        return {}
    lost = timedelta(minutes=target_of(plan.place.target).lost_minutes(option))
    ends = None if bought.ends_at is None else bought.ends_at - lost
    window = (("RESERVED_FROM", bought.starts_at), ("RESERVED_UNTIL", ends))
    return {
        "RESERVED_NODES": str(max(plan.place.nodes, bought.count or 0)),
        **{name: moment.isoformat() for name, moment in window if moment is not None},
    }


def _job_budget(plan: Plan, limits: Limits) -> dict[str, str]:
    """The guard's variables for the budget of one job (templates/guard/spot.py); empty where it does not price it."""
    usd, hours = limits.max_usd, limits.job_hours
    if usd is None or hours is None or limits.usd_per_node_hour is None:
        return {}
    if not guard_of(plan).reprices or plan.place.option is not PurchaseOption.SPOT:
        return {}
    return {
        "JOB_MAX_USD": format(usd, "f"),
        "JOB_MAX_USD_NAME": limits.max_usd_name,
        "JOB_NODE_HOURS": format(hours * plan.place.nodes, "f"),
        "NODES": str(plan.place.nodes),
        "OTHER_USD_PER_HOUR": format(limits.other_usd_per_hour, "f"),
    }


def protocol_of(address: str) -> str:
    """The protocol for an address of `guardrails.notify`: email, https, or its ARN's service (sqs, lambda, sns).

    >>> protocol_of("team@example.com"), protocol_of("arn:aws:sqs:us-east-2:123456789012:alerts")
    ('email', 'sqs')
    """
    if address.startswith("arn:"):
        return address.split(":")[2]
    return "https" if address.startswith("https://") else "email"


def guard_of(plan: Plan) -> Guard:
    """The guard of a plan's target.

    Raises:
        ValueError: the target has no guard: it is not deployed.
    """
    guard = target_of(plan.place.target).guard
    if guard is None:
        message = f"nothing watches {plan.place.target}"
        raise ValueError(message)
    return guard


def guardrail_text(plan: Plan, limits: Limits) -> list[str]:
    """What the guardrails of a plan's cluster do and do not do, as text."""
    settings, minutes = plan.request.guardrails, idle_minutes(plan.request)
    prepaid = plan.place.option in PREPAID
    guard, serve = guard_of(plan), plan.request.workload.serve
    sentences = _paid_text(plan, minutes)
    if settings.ttl_h is None:
        sentences.append("no time to live (guardrails.ttl_h)")
    elif prepaid:
        sentences.append(f"a warning before {settings.ttl_h:g} h have passed")
    else:
        sentences.append(f"{guard.stops} {settings.ttl_h:g} h after the last deployment")
    if serve is not None and serve.min_instances:
        never = "no alarm on idle time (guardrails.idle_minutes: 0)"
        sentences.append(
            never if minutes is None else f"an alarm after {number_of(minutes, 'minute')} without a request"
        )
    elif guard.idle and not prepaid:
        never = "nothing stops idle nodes (guardrails.idle_minutes: 0)"
        sentences.append(never if minutes is None else f"{guard.idle} for {number_of(minutes, 'minute')} stop")
    elif serve is None and not prepaid:
        sentences.append("idle nodes are not detected")
    sentences += _limit_text(limits, plan.place.region)
    sentences.append(_stop_text(plan))
    if not settings.notify:
        sentences.append("no recipient of notifications (guardrails.notify)")
    return sentences


def _limit_text(limits: Limits, region: str) -> list[str]:
    if limits.max_usd is None:
        return ["no spending alarm (budget.max_usd)"]
    limit, sentences = f"${limits.max_usd:f}", []
    if limits.usd_per_node_hour is None:
        sentences.append("no alarm on estimated spend without a rate (-c usd_per_hour=)")
    else:
        sentences.append(f"alarm at an estimated {limit}")
    budget = (
        f"AWS Budget of {limit} a month"
        if has_budget(region)
        else f"no AWS Budget: CloudFormation in {region} has none"
    )
    return [*sentences, budget]


def _paid_text(plan: Plan, minutes: float | None) -> list[str]:
    if plan.place.option in PREPAID:
        daily = f"; a daily notification while they are idle for {number_of(minutes or 0, 'minute')} or missing"
        bought = "training plan" if plan.place.option is PurchaseOption.TRAINING_PLAN else "Capacity Block"
        return [
            f"the {bought} is prepaid: its nodes are never stopped{daily if minutes and guard_of(plan).idle else ''}"
        ]
    if minutes and _reserved_variables(plan):
        return ["a daily notification while no reserved node runs"]
    return []


def _stop_text(plan: Plan) -> str:
    stop_usd = plan.request.budget.stop_at_usd
    if stop_usd is None:
        return "no spending limit that stops it (budget.stop_at_usd)"
    why = exempt(plan.request, plan.place.option)
    if why is not None:
        return f"no stop at ${plain_usd(stop_usd)}: {why}"
    serve = plan.request.workload.serve
    if serve is not None:
        ends = "scales to zero" if serve.min_instances == 0 else "is deleted"
        return f"the endpoint {ends} before it has cost ${plain_usd(stop_usd)}"
    return f"the job saves and its nodes stop before they have cost ${plain_usd(stop_usd)}"
