"""Compares a cluster's guardrails with the plan: topic, function, rules, alarms, dashboard, budget."""

from decimal import Decimal

from launcher.aws import alarms, budgets, functions, rules, topics
from launcher.model.budget_stop import stops_at
from launcher.model.enums import PREPAID, PurchaseOption
from launcher.model.hyperpod import JOBS_METRIC
from launcher.model.idle import idle_minutes
from launcher.model.monitoring import FAILED_CALLS
from launcher.rendering.names import OUTPUTS
from launcher.targets.registry import target_of
from launcher.workflow.cluster.readback.reading import Reading

PUBLISHERS = frozenset(("budgets.amazonaws.com", "cloudwatch.amazonaws.com"))
GUARD, FUNCTION = "GuardFunction", "AWS::Lambda::Function"
"""The guard among a stack's resources (infra/parts/guard_function.py)."""
FUNCTION_TYPES = (FUNCTION, "AWS::Lambda::Permission", "AWS::Lambda::EventInvokeConfig", "AWS::SSM::Parameter")
"""What the check of the guard reads back."""
RATE_PLACES = Decimal("0.000001")
"""Rounding of the guard's rate (infra/build.py)."""


def notified_topics(reading: Reading) -> frozenset[str]:
    """The topics that receive all notifications: the cluster's own and those of the plan."""
    foreign = {address for address in reading.plan.request.guardrails.notify if _is_topic(address)}
    return frozenset((reading.main.outputs["NotifyTopicArn"], *foreign))


def _is_topic(address: str) -> bool:
    """Whether an address of `guardrails.notify` is a topic: the guard publishes to it without a subscription."""
    return address.split(":")[2:3] == ["sns"]


def topic(reading: Reading) -> None:
    """Check the topic: its name, its publishers, TLS, and its subscribers."""
    checks, plan = reading.checks, reading.plan
    described = topics.describe(reading.session, reading.main.outputs["NotifyTopicArn"])
    statements = described["Policy"].get("Statement", [])
    checks.equal("topic", f"slipway {plan.cluster_name}", described.get("DisplayName"))
    allowed = {
        service
        for statement in statements
        if statement["Effect"] == "Allow" and statement.get("Condition")
        for service in statement.get("Principal", {}).get("Service", [])
    }
    checks.equal("services allowed to publish", PUBLISHERS, frozenset(allowed))
    refused = [
        statement.get("Condition", {}).get("Bool", {}) for statement in statements if statement["Effect"] == "Deny"
    ]
    checks.holds("topic accepts TLS only", {"aws:SecureTransport": "false"} in refused)
    addresses = {address for address in plan.request.guardrails.notify if not _is_topic(address)}
    subscribers = frozenset(subscription["Endpoint"] for subscription in described["Subscriptions"])
    checks.equal("subscribers", frozenset(addresses), subscribers)


def guard(reading: Reading) -> None:
    """The guard's function: its environment, its parameter, and that the rules that name it may call it."""
    checks, plan = reading.checks, reading.plan
    # A cluster's stack may contain other functions.
    (name,) = (
        resource.physical_id
        for resource in reading.resources
        if GUARD in resource.logical_id and resource.type == FUNCTION
    )
    state = functions.describe(reading.session, name)
    limits, stop = plan.request.guardrails, stops_at(plan.request, plan.place.option)
    message_uri = reading.main.outputs.get(OUTPUTS["message_uri"])
    per_node = (reading.usd_per_hour / plan.place.nodes).quantize(RATE_PLACES) if reading.usd_per_hour else None
    expected = {
        "CLUSTER": plan.cluster_name,
        "IDLE_MINUTES": f"{idle_minutes(plan.request) or 0:g}",
        "TTL_HOURS": None if limits.ttl_h is None else f"{limits.ttl_h:g}",
        "PREPAID": "true" if plan.place.option in PREPAID else "false",
        "STOP_AT_USD": None if stop is None else format(stop.normalize(), "f"),
        "STOP_URI": reading.main.outputs.get(OUTPUTS["stop_uri"]),
        "FOLDER_URI": None if message_uri is None else message_uri.rpartition("/")[0],
    }
    if reading.deployed_now:
        expected["USD_PER_NODE_HOUR"] = None if per_node is None else format(per_node, "f")
    checks.equal("guard", expected, {key: state.environment.get(key) for key in expected})
    checks.equal("guard keeps its state in", reading.ids("AWS::SSM::Parameter"), (state.environment.get("STATE"),))
    checks.equal("retries of the guard's failed calls", 0, functions.retries(reading.session, name))
    checks.equal("guard notifies", notified_topics(reading), frozenset(state.environment.get("TOPICS", "").split()))
    callers = {
        rule["Arn"]
        for rule in (rules.describe(reading.session, id_) for id_ in _rules(reading))
        if state.arn in [target["Arn"] for target in rule["Targets"]]
    }
    checks.holds("guard lets its rules invoke it", callers and callers <= state.callers)


def _rules(reading: Reading) -> tuple[str, ...]:
    return reading.ids("AWS::Events::Rule")


def event_rules(reading: Reading) -> None:
    """Check that every rule is enabled, and that the rules cover the schedule, AWS's notices and head node failures."""
    checks, plan = reading.checks, reading.plan
    described_rules = [rules.describe(reading.session, rule) for rule in _rules(reading)]
    enabled = all(rule["State"] == "ENABLED" and rule["Targets"] for rule in described_rules)
    checks.holds("event rules are enabled", enabled)
    schedules = {rule["ScheduleExpression"] for rule in described_rules if rule.get("ScheduleExpression")}
    checks.equal("guard is called at", {"rate(5 minutes)"}, schedules)
    row = target_of(plan.place.target).guard
    events = set() if row is None else set(row.events)
    if plan.place.option is PurchaseOption.SPOT and row is not None and row.spot_notices:
        events |= {"EC2 Spot Instance Interruption Warning", "EC2 Instance Rebalance Recommendation"}
    reservation = plan.request.purchase.reservation
    if plan.place.option is PurchaseOption.CAPACITY_BLOCK and reservation is not None:
        events |= {"Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning"}
        ids = {
            reservation_id
            for rule in described_rules
            for reservation_id in rule["EventPattern"].get("detail", {}).get("capacity-reservation-id", [])
        }
        checks.equal("block with an end notice", {reservation.id}, ids)
    checks.equal(
        "events of the subscription",
        events,
        {event for rule in described_rules for event in rule["EventPattern"].get("detail-type", [])},
    )


def metric_alarms(reading: Reading) -> None:
    """Check the alarms on missing metrics and failed calls, and with a budget and a rate on the estimated spend."""
    checks, plan = reading.checks, reading.plan
    described = alarms.metric_alarms(reading.session, reading.ids("AWS::CloudWatch::Alarm"))
    by_metric = {alarm["MetricName"]: alarm for alarm in described}
    limit = reading.limit_usd
    expected = {"RunningNodes", FAILED_CALLS} | (
        {"EstimatedSpend"} if limit is not None and reading.usd_per_hour else set()
    )
    checks.equal("alarms on", expected, set(by_metric))
    notified = {frozenset(alarm.get("AlarmActions", ())) for alarm in by_metric.values()}
    checks.equal("alarms notify", {notified_topics(reading)}, notified)
    watched = {alarms.dimension(alarm, "Cluster") for metric, alarm in by_metric.items() if metric != FAILED_CALLS}
    checks.equal("alarms watch", {plan.cluster_name}, watched)
    if "EstimatedSpend" in by_metric and limit is not None:
        checks.equal("alarm on spend at $", float(limit), by_metric["EstimatedSpend"]["Threshold"])


def overview(reading: Reading) -> None:
    """Check that the dashboard shows the cluster's head node, its controller's job counts, or only its nodes."""
    (name,) = reading.ids("AWS::CloudWatch::Dashboard")
    body = alarms.dashboard(reading.session, name)
    texts = [str(widget["properties"]) for widget in body.get("widgets", [])]
    head, row = reading.main.outputs.get("HeadNodeInstanceId"), target_of(reading.plan.place.target).head
    if head is not None:
        reading.checks.holds("dashboard shows the head node", any(head in text for text in texts))
    elif row is not None and row.metrics:
        reading.checks.holds("dashboard shows the queue", any(JOBS_METRIC in text for text in texts))
    else:
        cluster = reading.plan.cluster_name
        reading.checks.holds("dashboard shows the nodes", any(cluster in text for text in texts))


def budget(reading: Reading) -> None:
    """Check the limit and the tag of the cluster's budget."""
    (name,) = reading.ids("AWS::Budgets::Budget")
    got, tags = budgets.describe(reading.session, reading.account, name)
    limit = reading.limit_usd
    reading.checks.equal("monthly budget, $", None if limit is None else limit.normalize(), got.normalize())
    tag = f"user:slipway:cluster${reading.plan.cluster_name}"
    reading.checks.equal("budget counts the tag", frozenset((tag,)), tags)
