"""Compares deployed resources with the quote: raw templates and YAML on one side, a quote's JSON on the other.

No code of the project is used here, so that a mistake in it cannot confirm itself. The templates' resources are turned
into billed quantities, for the hours of the quote; every line must then match.
"""

import csv
import math
import re
from pathlib import Path

from tests.infra.counted import hours_up, job_hours, same

PRICES = Path(__file__).resolve().parents[2] / "launcher" / "catalog" / "data" / "prices" / "bill_items.csv"
MONTH_H = 730
IMAGE_GIB, LARGEST_IMAGE_GIB = 45, 100
"""Root volume of ParallelCluster 3.16.1's image, for which login nodes have no setting; and of a custom image."""
HEAD_ALARMS, HEAD_METRICS, HEAD_REPORTS_AN_HOUR = 5, 4, 60
"""Values of ParallelCluster itself; test_agreement_parallelcluster.py counts them in its own template."""
GUARD_METRICS, GUARD_REQUESTS = 2, 1
NODE_METRICS, NODE_REPORTS_AN_HOUR, JOB_REPORTS_AN_HOUR, IDLE_VALUES = 3, 60, 12, 3
CAPACITY_TYPES = {"spot": "SPOT", "capacity-block": "CAPACITY_BLOCK", "on-demand": "ONDEMAND"}
USAGE = {
    "S3 checkpoints",
    "S3 uploads",
    "NAT data",
    "interface endpoint data",
    "data to the NAT's zone and back",
    "heartbeats of the job",
}
"""Lines that no template determines: amounts stored and sent."""
STANDING = {
    "NAT gateway": "NAT gateways",
    "volume of the NAT instance": "NAT GB-months",
    "public IPv4 address of the NAT": "NAT addresses",
    "public IPv4 addresses": "public addresses",
    "interface endpoint": "interface endpoints",
    "interface endpoints": "interface endpoints",
    "load balancer of the login nodes": "load balancers",
    "alarms": "alarms",
    "composite alarm of the head node": "composite alarms",
    "dashboard": "dashboards",
    "guard and its messages": "functions",
    "S3 listings of the guard": "S3 listings",
    "AWS Budget": "budgets",
    "private DNS zone": "DNS zones",
    "custom metrics": "custom metrics",
    "CloudWatch requests": "CloudWatch requests",
    "EBS gp3 root volumes": "gp3 GB-months",
    "CloudWatch logs": "log GB",
    "CloudWatch logs kept": "log GB-months",
    "S3 replaced checkpoints": "replaced GB-months",
    "S3 access log": "access log GB-months",
}
"""Lines that templates determine, with the names of their quantities here."""


def differences(templates, shown, quote):
    """The names of quantities that differ from the quote.

    Args:
        templates: the stacks' templates by file name.
        shown: the cluster configuration in the preview.
        quote: the quote's JSON.
    """
    quoted = check_quote(quote)
    differing = set()
    for configuration in (shown, cluster_of(templates)):
        quantities = deploy(templates, configuration, quote)
        differing |= {
            name for name in quantities.keys() | quoted.keys() if not same(quantities.get(name, 0), quoted.get(name, 0))
        }
    return sorted(differing)


# ------------------------------------------------------------------------------------------------- what is deployed


def deploy(templates, configuration, quote):
    """The billed quantities of templates and a cluster configuration."""
    stands_h, runs_h = hours_up(quote)
    return {
        **check_machines(configuration, quote, stands_h, runs_h),
        **check_storage(templates, configuration, quote, stands_h),
        **check_network(templates, configuration, stands_h, runs_h),
        **check_monitoring(templates, configuration, stands_h, runs_h),
    }


def resources(templates, kind):
    """The properties of every resource of a type."""
    all_resources = [resource for template in templates.values() for resource in template["Resources"].values()]
    return [resource.get("Properties", {}) for resource in all_resources if resource["Type"] == kind]


def cluster_of(templates):
    """The configuration passed to ParallelCluster."""
    (cluster,) = resources(templates, "Custom::PclusterCluster")
    return cluster["ClusterConfiguration"]


def main_queue(configuration):
    """The queue of the plan's own type, with its one resource; the other queues are empty until a job needs them."""
    queue, *others = configuration["Scheduling"]["SlurmQueues"]
    assert sum(compute_resource["MinCount"] for other in others for compute_resource in other["ComputeResources"]) == 0
    (resource,) = queue["ComputeResources"]
    return queue, resource


def check_machines(configuration, quote, stands_h, runs_h):
    """Instances by type and hours, and their root volumes."""
    queue, resource = main_queue(configuration)
    head, pools = configuration["HeadNode"], configuration.get("LoginNodes", {}).get("Pools", [])
    logins = sum(pool["Count"] for pool in pools)
    count = resource["MaxCount"]
    image = LARGEST_IMAGE_GIB if "CustomAmi" in configuration["Image"] else IMAGE_GIB
    volumes = [
        (head["LocalStorage"]["RootVolume"], stands_h),
        (queue["ComputeSettings"]["LocalStorage"]["RootVolume"], count * runs_h),
        ({"VolumeType": "gp3", "Size": image}, logins * stands_h),
    ]
    sizes = {}
    for volume, hours in volumes:
        kind = f"{volume['VolumeType']} GB-months"
        sizes[kind] = sizes.get(kind, 0) + volume["Size"] * hours / MONTH_H
    return {
        "node type": resource["InstanceType"],
        "nodes": count,
        "bought as": queue["CapacityType"],
        "node-hours": count * quote["billed_hours"],
        "head node": head["InstanceType"],
        "head node-hours": stands_h,
        "login node": sorted({pool["InstanceType"] for pool in pools}),
        "login node-hours": logins * stands_h,
        **sizes,
    }


def check_storage(templates, configuration, quote, stands_h):
    """File systems, and the retention times of the store."""
    systems = [
        [system["FsxLustreSettings"]["StorageCapacity"], system["FsxLustreSettings"]["PerUnitStorageThroughput"]]
        for system in configuration.get("SharedStorage", [])
        if system["StorageType"] == "FsxLustre"
    ]
    storage = {
        "file systems": systems,
        "file system GB-months": sum(gib for gib, _ in systems) * stands_h / MONTH_H,
        "file system price": [list_names(f"fsx.lustre-persistent-{speed}", quote["region"]) for _, speed in systems],
    }
    rules = [
        (bool(rule.get("TagFilters")), rule["ExpirationInDays"])
        for bucket in resources(templates, "AWS::S3::Bucket")
        for rule in bucket["LifecycleConfiguration"]["Rules"]
        # Archives on their way are the job's folder, a line of nobody: they expire below a prefix of their own.
        if "ExpirationInDays" in rule and "Prefix" not in rule
    ]
    uploads = quantity(quote, "S3 uploads")
    logged = sum(days for tagged, days in rules if not tagged) * 24 / MONTH_H
    storage["access log GB-months"] = uploads * 0.0005 * logged
    # A bucket of the plan's own has its own rules; the quote says which one it needs.
    for days in [days for tagged, days in rules if tagged] or [1]:
        storage["replaced GB-months"] = replaced_gb(quote) * (days + 0.5) * 24 / MONTH_H
    return storage


def replaced_gb(quote):
    """GB of superseded checkpoints, from the quote's saves, their size and the number retained."""
    retention = next(
        (assumption for assumption in quote["assumptions"] if assumption["name"].endswith("kept checkpoints")),
        None,
    )
    if retention is None:
        return 0.0
    keep = int(re.search(r"\d+", retention["name"])[0])
    hours, every_s = job_hours(quote), interval_s(quote)
    size = quantity(quote, "S3 checkpoints") / keep / (1 + hours / MONTH_H)
    return size * max(0.0, hours * 3600 / every_s - keep) if every_s else 0.0


def interval_s(quote):
    """Seconds between checkpoints: from the number of uploads, each of a checkpoint's parts of 64 MB."""
    retention = next(
        assumption for assumption in quote["assumptions"] if assumption["name"].endswith("kept checkpoints")
    )
    keep = int(re.search(r"\d+", retention["name"])[0])
    hours, uploads = job_hours(quote), quantity(quote, "S3 uploads")
    size = quantity(quote, "S3 checkpoints") / keep / (1 + hours / MONTH_H)
    return hours * 3600 * max(2.0, size * 2**30 / 64e6) / 1000 / uploads if uploads else None


def check_network(templates, configuration, stands_h, runs_h):
    """NAT gateways and instances, public addresses, endpoints, DNS zones, load balancers."""
    queue, resource = main_queue(configuration)
    nodes_h = resource["MaxCount"] * runs_h * queue["Networking"]["AssignPublicIp"]
    endpoints = [
        resource
        for resource in resources(templates, "AWS::EC2::VPCEndpoint")
        if resource["VpcEndpointType"] != "Gateway"
    ]
    pools = configuration.get("LoginNodes", {}).get("Pools", [])
    nats = resources(templates, "AWS::EC2::Instance")
    addressed = [nat for nat in nats if nat["NetworkInterfaces"][0]["AssociatePublicIpAddress"]]
    volumes_gib = sum(volume["Ebs"]["VolumeSize"] for nat in nats for volume in nat["BlockDeviceMappings"])
    return {
        **{f"NAT instance {nat['InstanceType']}": stands_h for nat in nats},
        "NAT GB-months": volumes_gib * stands_h / MONTH_H,
        "NAT gateways": len(resources(templates, "AWS::EC2::NatGateway")) * stands_h,
        "NAT addresses": (len(resources(templates, "AWS::EC2::EIP")) + len(addressed)) * stands_h,
        "public addresses": nodes_h + stands_h * configuration["HeadNode"]["Networking"].get("ElasticIp", False),
        "interface endpoints": sum(len(endpoint["SubnetIds"]) for endpoint in endpoints) * stands_h,
        "load balancers": len(pools) * stands_h,
        "DNS zones": math.ceil(stands_h / MONTH_H) if stands_h > 12 else 0,
    }


def check_monitoring(templates, configuration, stands_h, runs_h):
    """Alarms, metrics and other monitoring of the cluster."""
    queue, resource = main_queue(configuration)
    (function,) = resources(templates, "AWS::Lambda::Function")
    (schedule,) = [
        resource for resource in resources(templates, "AWS::Events::Rule") if "ScheduleExpression" in resource
    ]
    calls = 60 / int(re.fullmatch(r"rate\((\d+) minutes\)", schedule["ScheduleExpression"])[1])
    monitoring = configuration["Monitoring"]
    alarmed = monitoring["Alarms"]["Enabled"]
    metrics = GUARD_METRICS + ("USD_PER_NODE_HOUR" in function["Environment"]["Variables"]) + HEAD_METRICS * alarmed
    arguments = queue.get("CustomActions", {}).get("OnNodeConfigured", {}).get("Args", [])
    # In a template an argument may be a join of words and tokens.
    reporting, jobs = (any(option in str(argument) for argument in arguments) for option in ("--chips=", "--metrics="))
    watched = function["Environment"]["Variables"]["IDLE_MINUTES"] != "0"
    node_calls = NODE_REPORTS_AN_HOUR * reporting + JOB_REPORTS_AN_HOUR * jobs + calls * IDLE_VALUES * watched
    node_h = resource["MaxCount"] * runs_h
    cluster_calls = calls * GUARD_REQUESTS + HEAD_REPORTS_AN_HOUR
    months = stands_h / MONTH_H
    log_gb = 0.05 * (node_h + stands_h)
    kept_days = {resource["RetentionInDays"] for resource in resources(templates, "AWS::Logs::LogGroup")}
    (days,) = kept_days | {monitoring["Logs"]["CloudWatch"]["RetentionInDays"]}
    shown = monitoring["Dashboards"]["CloudWatch"]["Enabled"]
    return {
        "alarms": (len(resources(templates, "AWS::CloudWatch::Alarm")) + HEAD_ALARMS * alarmed) * months,
        "composite alarms": (len(resources(templates, "AWS::CloudWatch::CompositeAlarm")) + alarmed) * months,
        "dashboards": (len(resources(templates, "AWS::CloudWatch::Dashboard")) + shown) * months,
        "functions": len(resources(templates, "AWS::Lambda::Function")) * months,
        "function price": function_price(calls, function["MemorySize"]),
        "S3 listings": calls * ("FOLDER_URI" in function["Environment"]["Variables"]) * stands_h / 1000,
        "budgets": len(resources(templates, "AWS::Budgets::Budget")) * months,
        "custom metrics": (metrics * stands_h + NODE_METRICS * reporting * node_h + jobs * runs_h) / MONTH_H,
        "CloudWatch requests": (cluster_calls * stands_h + node_calls * node_h + calls * jobs * runs_h) / 1000,
        "log GB": log_gb,
        "log GB-months": log_gb * days * 24 / MONTH_H,
    }


def function_price(calls, memory_mb, seconds=3, messages=1):
    """Dollars per month of a function, to the hundredth of a cent; the regions of the examples have the same price."""
    of_calls = calls * MONTH_H / 1e6 * list_names("lambda.requests", "us-east-1")
    of_time = calls * MONTH_H * seconds * memory_mb / 1024 * list_names("lambda.duration-x86", "us-east-1")
    return round(of_calls + of_time + messages * MONTH_H / 1e6 * list_names("sns.requests", "us-east-1"), 4)


def list_names(item, region):
    """A price from the price file."""
    with PRICES.open(encoding="utf-8", newline="") as file:
        rows = {row["region"]: row["usd"] for row in csv.DictReader(file) if row["item"] == item}
    return float(rows[region])


# --------------------------------------------------------------------------------------------------- what is quoted


def quantity(quote, name):
    """The quantity of a line; 0 if the line is missing."""
    return sum(component["quantity"] for component in quote["components"] if component["name"] == name)


def check_quote(quote):
    """The same quantities from the quote, including unknown lines."""
    quoted = {"node-hours": 0, "file systems": [], "file system price": [], "login node": []}
    for line in quote["components"]:
        name, amount = line["name"], line["quantity"]
        plain = re.sub(r"^\d+ ", "", name)
        if machines := re.fullmatch(r"(\d+) x (\S+) (\S+)", name):
            quoted |= {"nodes": int(machines[1]), "node type": machines[2], "bought as": CAPACITY_TYPES[machines[3]]}
        if line["group"] == "compute":
            quoted["node-hours"] += amount
        elif host := re.fullmatch(r"(\d+ )?(head|login) nodes? (\S+)", name):
            quoted[f"{host[2]} node"] = host[3] if host[2] == "head" else [host[3]]
            quoted[f"{host[2]} node-hours"] = amount
        elif system := re.fullmatch(r"FSx Lustre (\d+) GiB, (\d+) MB/s/TiB", name):
            quoted["file systems"] = [[int(system[1]), int(system[2])]]
            quoted["file system GB-months"] = amount
            quoted["file system price"] = [float(line["unit_price_usd"])]
        elif plain in STANDING:
            quoted[STANDING[plain]] = amount
            if plain == "guard and its messages":
                quoted["function price"] = float(line["unit_price_usd"])
        elif name not in USAGE:
            quoted[name] = amount
    return quoted
