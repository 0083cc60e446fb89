"""Compares templates of clusters without ParallelCluster with a quote, line by line: the part common to all targets.

As in agreement.py, no code of the project is used here, so that a mistake in it cannot confirm itself.
"""

import math
import re

MONTH_H, OVERHEAD_H, START_UP_H = 730, 0.5, 0.15
AROUND_MINUTES = (
    "start-up of the nodes, billed before the first step",
    "nodes stay after the job, idle and billed, for",
)
MOST_STRETCH = 1.12
"""The most by which the lines of a short job exceed its median."""
HEALTH_H = 1.0
"""Assumed hours of deep health checks in the quote; AWS's guide gives 53 to 112 minutes."""
GUARD_METRICS, GUARD_CALLS_AN_HOUR, GUARD_REQUESTS = 3, 12, 1


def same(one, other):
    """Whether two quantities are equal; hours may differ by the rounding of the start-up, shown with three digits."""
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=1e-9 if isinstance(one, int) else 1e-3, abs_tol=1e-12)
    return one == other


def job_hours(quote):
    """Hours of the job in its lines: on spot of the mean run, of a short job with the median of its start-up."""
    compute = [line["quantity"] for line in quote["components"] if re.fullmatch(r"\d+ x \S+ \S+", line["name"])]
    middle = quote["hours"]["mid"]
    if not compute or quote["purchase_option"] not in {"spot", "on-demand"}:
        return middle
    hours = compute[0] / quote["nodes"]
    if quote["purchase_option"] == "on-demand":
        assert middle * (1 - 1e-9) <= hours <= middle * MOST_STRETCH
    return hours


def stretch(quote):
    """The factor by which the lines of job and start-up exceed their medians."""
    return max(1.0, job_hours(quote) / quote["hours"]["mid"])


def start_h(quote):
    """Billed hours from the launch to the first step: as the quote states them, longer with the job's line."""
    stated = next(float(line["value"]) for line in quote["assumptions"] if line["name"] == AROUND_MINUTES[0])
    return stated / 60 * stretch(quote)


def hours_up(quote):
    """Hours that a cluster runs, and that each node runs: the quote's job, start-up and idle tail."""
    values = {assumption["name"]: assumption["value"] for assumption in quote["assumptions"]}
    start, tail = (float(values.get(name, 0)) / 60 for name in AROUND_MINUTES)
    start += float(values.get("data on their way to the nodes", 0))
    start_and_tail_h = start * stretch(quote) + tail
    hours = job_hours(quote)
    # Of prepaid nodes no quote says it: their start is in what was paid for.
    return hours + max(OVERHEAD_H, start_and_tail_h), hours + max(START_UP_H, start_and_tail_h)


def named(templates, kind):
    """The properties of every resource of a type, by its name in its template."""
    items = [item for template in templates.values() for item in template["Resources"].items()]
    return {key: resource.get("Properties", {}) for key, resource in items if resource["Type"] == kind}


def resources(templates, kind):
    return list(named(templates, kind).values())


def groups_of(templates):
    """The instance groups of the only HyperPod cluster."""
    (cluster,) = resources(templates, "AWS::SageMaker::Cluster")
    return {group["InstanceGroupName"]: group for group in cluster["InstanceGroups"]}


def by_the_hour(templates, up_h):
    """Quantities that are billed while a cluster of any kind is up."""
    quantities = {"public IPv4 address of the NAT": len(resources(templates, "AWS::EC2::EIP")) * up_h}
    if gateways := len(resources(templates, "AWS::EC2::NatGateway")):
        quantities["NAT gateway"] = gateways * up_h
    for nat in resources(templates, "AWS::EC2::Instance"):
        quantities[f"NAT instance {nat['InstanceType']}"] = up_h
        volumes = sum(volume["Ebs"]["VolumeSize"] for volume in nat["BlockDeviceMappings"])
        quantities["volume of the NAT instance"] = volumes * up_h / MONTH_H
        addresses = [interface for interface in nat["NetworkInterfaces"] if interface["AssociatePublicIpAddress"]]
        quantities["public IPv4 address of the NAT"] = len(addresses) * up_h
    endpoints = [
        endpoint
        for endpoint in resources(templates, "AWS::EC2::VPCEndpoint")
        if endpoint["VpcEndpointType"] == "Interface"
    ]
    if endpoints:
        zones = sum(len(endpoint["SubnetIds"]) for endpoint in endpoints)
        quantities[f"{len(endpoints)} interface endpoint{'s' * (len(endpoints) > 1)}"] = zones * up_h
    months, alarms = up_h / MONTH_H, len(resources(templates, "AWS::CloudWatch::Alarm"))
    quantities[f"{alarms} alarm{'s' * (alarms > 1)}"] = alarms * months
    quantities["dashboard"] = len(resources(templates, "AWS::CloudWatch::Dashboard")) * months
    # What installs a chart runs once, for a minute.
    functions = named(templates, "AWS::Lambda::Function").items()
    guards = [function for key, function in functions if key.startswith("Guardrails")]
    quantities["guard and its messages"] = len(guards) * months
    listing = sum("FOLDER_URI" in guard["Environment"]["Variables"] for guard in guards)
    quantities["S3 listings of the guard"] = listing * GUARD_CALLS_AN_HOUR * up_h / 1000
    if budgets := len(resources(templates, "AWS::Budgets::Budget")):
        quantities["AWS Budget"] = budgets * months
    return quantities


ALWAYS = (
    r"\d+ x |NAT (gateway|instance)|volume of the NAT|\d+ interface endpoint|\d+ alarm|dashboard|guard|S3 listings"
    r"|AWS Budget|FSx"
)
"""Lines that the templates of every target determine."""


def differences(deployed, quote, decided):
    """Names of lines whose quantity differs from the deployment, and of lines of `decided` that only one side has.

    Args:
        deployed: quantities by the quote's names of the lines; None: the quote must have the line, with any quantity.
        quote: the quote's JSON.
        decided: a pattern of the lines that the target's templates determine in addition to those of every target.
    """
    quantities = {component["name"]: component["quantity"] for component in quote["components"]}
    names = {name for name in deployed if name not in quantities}
    names |= {
        name
        for name, value in deployed.items()
        if value is not None and name in quantities and not same(value, quantities[name])
    }
    return names | {name for name in quantities if re.match(f"{ALWAYS}|{decided}", name) and name not in deployed}


def change_group(name, key, value):
    """A change that sets another value in a group of a HyperPod cluster."""

    def change(templates):
        groups_of(templates)[name][key] = value

    return change


def drop(kind):
    """A change that removes all resources of a type."""

    def change(templates):
        for template in templates.values():
            items = template["Resources"].items()
            template["Resources"] = {key: resource for key, resource in items if resource["Type"] != kind}

    return change
