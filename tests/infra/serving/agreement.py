"""What an endpoint's template makes against what its quote bills: a raw template against a quote's JSON.

No code of the project is used here, so that a mistake in it cannot agree with itself.
"""

import math
import re
from typing import Any

from tests.infra.agreement import function_price, quantity, same

MONTH_H = 730
GUARD_METRICS, GUARD_REQUESTS = 2, 1
DEPLOYMENTS_A_MONTH, DEPLOYMENT_H = 2, 0.75
USAGE = {"S3 model", "CloudWatch logs", "requests into the endpoint", "answers out of it"}
"""Lines that no template decides: how much is stored, written and sent."""
STANDING = {
    "endpoint volumes": "volume GB-months",
    "old and new version together": "deployment hours",
    "S3 kept requests": "kept GB-months",
    "S3 uploads": "uploads",
    "CloudWatch logs kept": "log GB-months",
    "alarms": "alarms",
    "dashboard": "dashboards",
    "guard and its messages": "functions",
    "AWS Budget": "budgets",
    "custom metrics": "custom metrics",
    "CloudWatch requests": "CloudWatch requests",
}
"""Lines that the template decides, and the name of their quantity here."""
PRICED = {
    "AWS::Budgets::Budget",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::Lambda::Function",
    "AWS::Logs::LogGroup",
    "AWS::S3::Bucket",
    "AWS::SageMaker::Endpoint",
    "AWS::SageMaker::EndpointConfig",
    "AWS::SageMaker::InferenceComponent",
    "AWS::SNS::Topic",
    "AWS::SNS::Subscription",
}
FREE = (
    "AWS::ApplicationAutoScaling::",
    "AWS::CDK::Metadata",
    "AWS::Events::Rule",
    "AWS::IAM::",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Lambda::Permission",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::TopicPolicy",
    "AWS::SSM::Parameter",
    "AWS::SageMaker::Model",
)


def differences(template, quote):
    """The names of quantities that are not what was quoted."""
    quantities, quoted = check_template(template, quote), check_quote(quote)
    return sorted(
        name for name in quantities.keys() | quoted.keys() if not same(quantities.get(name, 0), quoted.get(name, 0))
    )


def unknown(template):
    """Types of resources that are neither priced nor known to cost nothing."""
    kinds = {resource["Type"] for resource in template["Resources"].values()}
    return {kind for kind in kinds - PRICED if not kind.startswith(FREE)}


def resources(template, kind):
    """The properties of every resource of a type."""
    return [resource.get("Properties", {}) for resource in template["Resources"].values() if resource["Type"] == kind]


# ------------------------------------------------------------------------------------------------- what is deployed


def check_template(template, quote):
    """What a template makes, as the quantities of a month's bill."""
    return {**check_instances(template, quote), **check_storage(template, quote), **check_monitoring(template)}


def check_instances(template, quote):
    """The type, the range, the copies, and what runs beside the rest while a version is deployed."""
    (config,) = resources(template, "AWS::SageMaker::EndpointConfig")
    (variant,) = config["ProductionVariants"]
    components = resources(template, "AWS::SageMaker::InferenceComponent")
    copies = quote["serving"]["copies_per_instance"] if components else 1
    ranges = [(target["MinCapacity"], target["MaxCapacity"]) for target in targets(template)]
    initial = variant["InitialInstanceCount"] * copies
    ((least, most),) = ranges or [(initial, initial)]
    managed = variant.get("ManagedInstanceScaling")
    if managed is not None:
        assert (managed["MinInstanceCount"] * copies, managed["MaxInstanceCount"] * copies) == (least, most)
    added = other_instances(template, quote["serving"]["instances"]["most"])
    return {
        "instance type": variant["InstanceType"],
        "instances": [least / copies, most / copies],
        "deployment hours": added * DEPLOYMENTS_A_MONTH * DEPLOYMENT_H,
    }


def targets(template):
    """What Application Auto Scaling moves."""
    return resources(template, "AWS::ApplicationAutoScaling::ScalableTarget")


def other_instances(template, most):
    """Instances that a deployment adds to so many."""
    (endpoint,) = resources(template, "AWS::SageMaker::Endpoint")
    components = resources(template, "AWS::SageMaker::InferenceComponent")
    rolling = (components[0] if components else endpoint)["DeploymentConfig"].get("RollingUpdatePolicy")
    return most if rolling is None else math.ceil(rolling["MaximumBatchSize"]["Value"] / 100 * most)


def check_storage(template, quote):
    """Volumes, the bucket of what is kept, and the logs."""
    (config,) = resources(template, "AWS::SageMaker::EndpointConfig")
    (variant,) = config["ProductionVariants"]
    buckets = resources(template, "AWS::S3::Bucket")
    days = [rule["ExpirationInDays"] for bucket in buckets for rule in bucket["LifecycleConfiguration"]["Rules"]]
    requests = quote["serving"]["requests_per_month"]
    (log_days,) = {resource["RetentionInDays"] for resource in resources(template, "AWS::Logs::LogGroup")}
    sent = traffic_gb(quote)
    return {
        "volume GB-months": variant.get("VolumeSizeInGB", 0) * quote["serving"]["instances"]["mean"],
        "kept GB-months": sum(sent * day * 24 / MONTH_H for day in days),
        "uploads": 2 * requests / 1000 if "AsyncInferenceConfig" in config else 0,
        "log GB-months": quantity(quote, "CloudWatch logs") * log_days * 24 / MONTH_H,
    }


def traffic_gb(quote):
    """GB of a month's requests and answers."""
    return quantity(quote, "requests into the endpoint") + quantity(quote, "answers out of it")


def check_monitoring(template):
    """Alarms, metrics and what else watches the endpoint."""
    functions = resources(template, "AWS::Lambda::Function")
    function = functions[0]
    (schedule,) = [
        resource for resource in resources(template, "AWS::Events::Rule") if "ScheduleExpression" in resource
    ]
    calls = 60 / int(re.fullmatch(r"rate\((\d+) minutes\)", schedule["ScheduleExpression"])[1])
    return {
        "alarms": len(resources(template, "AWS::CloudWatch::Alarm")),
        "dashboards": len(resources(template, "AWS::CloudWatch::Dashboard")),
        "functions": len(functions),
        "function price": function_price(calls, function["MemorySize"]),
        "budgets": len(resources(template, "AWS::Budgets::Budget")),
        "custom metrics": GUARD_METRICS + ("USD_PER_NODE_HOUR" in function["Environment"]["Variables"]),
        "CloudWatch requests": calls * GUARD_REQUESTS * MONTH_H / 1000,
    }


# --------------------------------------------------------------------------------------------------- what is quoted


def check_quote(quote):
    """The same quantities as the quote has them; a line that nothing is known of is one too."""
    (scaling,) = [policy["value"] for policy in quote["policies"] if policy["name"] == "autoscaling"]
    least, most = re.fullmatch(r"(\d+) to (\d+) instances", scaling).groups()
    quoted: dict[str, Any] = {"instances": [int(least), int(most)]}
    hours = 0.0
    for line in quote["components"]:
        name, amount = line["name"], line["quantity"]
        plain = re.sub(r"^\d+ ", "", name)
        if machine := re.fullmatch(r"(ml\.\S+) on-demand, (busy|idle)", name):
            quoted["instance type"] = machine[1]
            hours += amount
        elif plain in STANDING:
            quoted[STANDING[plain]] = amount
            if plain == "guard and its messages":
                quoted["function price"] = float(line["unit_price_usd"])
        elif name not in USAGE:
            quoted[name] = amount
    if not same(hours, quote["serving"]["instances"]["mean"] * MONTH_H):
        quoted["instance-hours"] = hours
    return quoted
