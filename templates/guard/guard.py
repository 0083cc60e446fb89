# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of one cluster: counts its nodes, adds up what they cost, stops them in time, and says so.

`Guard` is that of a ParallelCluster; hyperpod.py holds what HyperPod does in another way.

A Lambda function, called every five minutes, for every interruption notice of the account, and for the events of this
cluster that people are told of. It works without anybody
being there, and it keeps nothing: the number of running nodes is a CloudWatch metric, and node-hours are that metric
added up since the last deployment of the stack. budget.py holds the sum at which it ends a job. Standard library and
boto3 alone; infra/parts/guardrails.py sets the environment variables that `Settings` reads.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from botocore.exceptions import ClientError
from budget import DOLLARS, GO_ON, Sum, said_at
from quiet import Node, Reserved, is_idle, query
from trouble import Folder

NAMESPACE = "Slipway"
EVERY = timedelta(minutes=5)
"""Time between two calls: the schedule of infra/parts/guardrails.py."""
WARNING = timedelta(minutes=30)
"""How long before the end of a cluster's time people are told."""
AFTER_SLURM = timedelta(minutes=15)
"""ParallelCluster stops nodes without a job after the plan's idle time; only what it leaves is for the guard."""
NODES_A_CALL = 150
"""GetMetricData takes 500 queries; a node needs three."""
STOPPED = {"STOPPED", "STOPPING", "STOP_REQUESTED"}
SERVICES = ("HYPERPOD", "HYPERPOD_EKS", "EKS", "PARALLELCLUSTER")
"""What names the cluster in the service that runs it."""
NOTICES = {
    "EC2 Spot Instance Interruption Warning": "AWS takes {instance} back in two minutes",
    "EC2 Instance Rebalance Recommendation": "{instance} is at elevated risk of being taken back",
}
FIELD = re.compile(r"\{([^}]+)\}")
BLOCK_ENDS = "Capacity Block ends", "{capacity-reservation-id} ends at {end-date}; its nodes go from 30 minutes before"
ANNOUNCED = {
    "CloudWatch Alarm State Change": ("head node in trouble", "the head node is in trouble: {state.reason}"),
    # AWS's own documentation has both names for the event 40 minutes before a Capacity Block ends.
    "Capacity Block Expiration Warning": BLOCK_ENDS,
    "Capacity Block Reservation Expiration Warning": BLOCK_ENDS,
    "SageMaker HyperPod Cluster Node Health Event": (
        "faulty instance",
        "{InstanceId} is {HealthSummary.HealthStatus}: {HealthSummary.HealthStatusReason}"  # noqa: ISC004 - one text
        " Repair: {HealthSummary.RepairAction}",
    ),
    "SageMaker HyperPod Cluster State Change": ("cluster fails", "HyperPod says {ClusterStatus}"),
    "SageMaker Endpoint State Change": ("endpoint in trouble", "SageMaker says {EndpointStatus}"),
}
"""Subject and words of each kind of event, with what is filled in from its detail; infra/parts/guardrails.py has the
rules, which let only this cluster's through."""


@dataclass(frozen=True)
class Settings:
    """What the guard is told: names, limits (None: no limit), and the quoted rate in dollars per node-hour.

    `name` is the cluster's in its service; `ends` the moment at which the service takes the instances back; `folder`
    where jobs leave word for people, None where there are none.
    """

    cluster: str
    name: str
    stack: str
    topics: tuple[str, ...]
    region: str
    prepaid: bool
    ttl: timedelta | None
    idle: timedelta
    usd_per_node_hour: float | None
    ends: datetime | None
    sum: Sum | None = None
    folder: str | None = None
    reserved: Reserved | None = None

    @classmethod
    def of(cls, variables: Mapping[str, str]) -> "Settings":
        """The settings of a mapping of environment variables."""
        ttl, rate = variables.get("TTL_HOURS"), variables.get("USD_PER_NODE_HOUR")
        ends = variables.get("ENDS_AT")
        return cls(
            cluster=variables["CLUSTER"],
            name=next(variables[each] for each in SERVICES if variables.get(each)),
            stack=variables["STACK"],
            topics=tuple(variables["TOPICS"].split()),
            region=variables["AWS_REGION"],
            prepaid=variables["PREPAID"] == "true",
            ttl=timedelta(hours=float(ttl)) if ttl else None,
            idle=timedelta(minutes=float(variables["IDLE_MINUTES"])),
            usd_per_node_hour=float(rate) if rate else None,
            ends=datetime.fromisoformat(ends) if ends else None,
            sum=Sum.of(variables),
            folder=variables.get("FOLDER_URI"),
            reserved=Reserved.of(variables),
        )


def handler(event: Mapping[str, Any], _context: object) -> None:
    """What Lambda calls."""
    respond(Guard(Settings.of(os.environ), boto3.client, datetime.now(UTC)), event)


def respond(guard: "Guard", event: Mapping[str, Any]) -> None:
    """Do what a call is for: pass a notice on, tell of an event, or look after the nodes."""
    kind = event.get("detail-type")
    if kind in NOTICES:
        guard.pass_on(event)
    elif kind in ANNOUNCED:
        guard.announce(event)
    else:
        guard.watch()


class Guard:
    """One call of the guard of a ParallelCluster, at the moment `now`."""

    prepaid = "the nodes of a Capacity Block are left"

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        self.settings = settings
        self.now = now
        self.client = client
        self.spent = 0.0
        self.ran_until: datetime | None = None
        self.ec2, self.cloudwatch, self.dynamodb, self.cloudformation, self.sns = (
            client(service) for service in ("ec2", "cloudwatch", "dynamodb", "cloudformation", "sns")
        )

    def watch(self) -> None:
        """Count, add up, and stop the fleet when its time or its money is over, or nothing happens on it."""
        nodes = self.nodes()
        began = self.deployed_at()
        self.measure(len(nodes), began)
        self.watch_sum(len(nodes))
        self.watch_time(began, len(nodes))
        folder = None if self.settings.folder is None else Folder(self.client("s3"), self.settings.folder)
        if self.all_idle(nodes):
            minutes = round(self.settings.idle.total_seconds() / 60)
            idle = f"its {len(nodes)} nodes have done nothing for {minutes} minutes"
            if not self.settings.prepaid:
                self.stop(idle, len(nodes))
            elif folder is not None:
                self.tell_idle(folder, idle, len(nodes))
        elif folder is not None and self.settings.reserved is not None and not nodes and self.settings.idle:
            window = self.settings.idle + AFTER_SLURM
            unused = self.settings.reserved.unused(self.ran_until or began, self.now, window)
            if unused:
                self.tell_idle(folder, unused, self.settings.reserved.nodes)
        if folder is not None:
            folder.pass_on(self.now, self.tell)

    def tell_idle(self, folder: Folder, idle: str, count: int) -> None:
        """Tell people of machines that are paid for and do nothing, with what they cost an hour, once a day."""
        rate = self.settings.usd_per_node_hour
        folder.tell_idle(self.now, self.tell, idle, None if rate is None else rate * count, self.settings.cluster)

    def nodes(self) -> list[Node]:
        """The running compute nodes, as EC2 describes them."""
        filters = [
            {"Name": "tag:parallelcluster:cluster-name", "Values": [self.settings.name]},
            {"Name": "tag:parallelcluster:node-type", "Values": ["Compute"]},
            {"Name": "instance-state-name", "Values": ["running"]},
        ]
        pages = self.ec2.get_paginator("describe_instances").paginate(Filters=filters)
        return [node for page in pages for group in page["Reservations"] for node in group["Instances"]]

    def deployed_at(self) -> datetime:
        """When the stack was last changed: time, and the money of the estimate, are counted from there."""
        stack = self.stack()
        began: datetime = stack.get("LastUpdatedTime", stack["CreationTime"])
        return began

    def made_at(self) -> datetime:
        """When the stack was made: the sum is counted from there."""
        made: datetime = self.stack()["CreationTime"]
        return made

    def stack(self) -> Mapping[str, Any]:
        """The cluster's stack as CloudFormation describes it."""
        (stack,) = self.cloudformation.describe_stacks(StackName=self.settings.stack)["Stacks"]
        found: Mapping[str, Any] = stack
        return found

    def measure(self, count: int, began: datetime) -> None:
        """Report the number of nodes and, where the rate is known, what they have cost by it."""
        hours = self.node_hours(began) + count * EVERY / timedelta(hours=1)
        values = {"RunningNodes": count, "NodeHours": hours}
        if self.settings.usd_per_node_hour is not None:
            values["EstimatedSpend"] = hours * self.settings.usd_per_node_hour
        if self.settings.sum is not None:
            values[DOLLARS] = self.dollars_a_look(count)
            self.spent = self.total(DOLLARS, self.made_at()) + values[DOLLARS]
        dimensions = [{"Name": "Cluster", "Value": self.settings.cluster}]
        data = [
            {"MetricName": name, "Dimensions": dimensions, "Timestamp": self.now, "Value": value}
            for name, value in values.items()
        ]
        self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)
        print(json.dumps({"cluster": self.settings.cluster, **values}))  # noqa: T201 - the function's log

    def node_hours(self, began: datetime) -> float:
        """Node-hours since the deployment, from the samples so far; the first hour (day) is counted whole."""
        samples = self.samples("RunningNodes", began)
        self.ran_until = max((end for end, nodes in samples if nodes > 0), default=None)
        return sum(nodes for _, nodes in samples) * (EVERY / timedelta(hours=1))

    def total(self, metric: str, began: datetime) -> float:
        """A metric of the cluster's, added up since a moment."""
        return sum(value for _, value in self.samples(metric, began))

    def samples(self, metric: str, began: datetime) -> list[tuple[datetime, float]]:
        """A metric of the cluster's added up by the hour (day) since a moment, each with the end of the hour."""
        days = (self.now - began) / timedelta(days=1)
        # An answer holds 1,440 values: 60 days of hours.
        period = timedelta(hours=1) if days < 50 else timedelta(days=1)  # noqa: PLR2004 - see above
        answer = self.cloudwatch.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=metric,
            Dimensions=[{"Name": "Cluster", "Value": self.settings.cluster}],
            # A deployment may have ended just now, by another clock.
            StartTime=min(began, self.now - EVERY),
            EndTime=self.now,
            Period=int(period.total_seconds()),
            Statistics=["Sum"],
        )
        return [(each["Timestamp"] + period, each["Sum"]) for each in answer["Datapoints"]]

    def dollars_a_look(self, count: int) -> float:
        """What the cluster costs between two looks at the quoted rates."""
        limit = self.settings.sum
        an_hour = count * (self.settings.usd_per_node_hour or 0.0) + (limit.beside if limit is not None else 0.0)
        return an_hour * (EVERY / timedelta(hours=1))

    def watch_sum(self, count: int) -> None:
        """Have the job save and leave while the sum still pays for that, and end its nodes when it had the time."""
        limit = self.settings.sum
        if limit is None:
            return
        spent, rate = self.spent, self.settings.usd_per_node_hour or 0.0
        if not limit.reached(spent, rate, count):
            return
        reason = f"{limit.words(spent)}. {GO_ON}"
        if limit.uri is None:
            self.end_service(reason, count)
            return
        try:
            told_at, first = said_at(self.client("s3"), limit, spent, self.now)
        except ClientError as refusal:
            # The job is not told. Its nodes go when nothing is left but what that takes.
            print(f"the job cannot be told to stop: {refusal}")  # noqa: T201 - the function's log
            if limit.reached(spent, rate, count, late=True):
                self.stop(f"{limit.words(spent)}, and its job could not be told: {refusal}. {GO_ON}", count)
            return
        if first:
            minutes = round(limit.settle.total_seconds() / 60)
            self.tell(
                "stopped at the budget",
                f"{reason}: it resumes from its last checkpoint.\nIts job is told to save and leave, and does not come"
                f" back; its {count} nodes end in {minutes} minutes.",
            )
        elif self.now >= told_at + limit.settle and count:
            self.stop(reason, count)

    def end_service(self, reason: str, count: int) -> None:
        """End what serves requests, where that is what is watched."""
        self.stop(reason, count)

    def watch_time(self, began: datetime, count: int) -> None:
        """Warn before the end of the cluster's time, and stop it from then on, however often it is started."""
        if self.settings.ttl is None:
            return
        end = began + self.settings.ttl
        hours = f"{self.settings.ttl / timedelta(hours=1):g}"
        if end - WARNING <= self.now < end - WARNING + EVERY:
            what = self.prepaid if self.settings.prepaid else "its nodes are stopped then"
            self.tell("time is nearly over", f"its {hours} hours end at {end:%Y-%m-%d %H:%M} UTC; {what}")
        if self.now >= end and not self.settings.prepaid:
            self.stop(f"its {hours} hours are over", count)

    def all_idle(self, nodes: list[Node]) -> bool:
        """Whether every node has done nothing for the idle time, where there is one; a young node says nothing."""
        if not self.settings.idle:
            return False
        window = self.settings.idle + AFTER_SLURM
        if not nodes or any(self.now - node["LaunchTime"] < window for node in nodes):
            return False
        chunks = (nodes[start : start + NODES_A_CALL] for start in range(0, len(nodes), NODES_A_CALL))
        return all(self.chunk_idle(chunk, window) for chunk in chunks)

    def chunk_idle(self, nodes: list[Node], window: timedelta) -> bool:
        """The same for as many nodes as one call takes."""
        queries = [
            query(f"m{index}_{short}", name, statistic, node["InstanceId"])
            for index, node in enumerate(nodes)
            for short, name, statistic in (
                ("cpu", "CPUUtilization", "Average"),
                ("in", "NetworkIn", "Sum"),
                ("out", "NetworkOut", "Sum"),
            )
        ]
        pages = self.cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=queries, StartTime=self.now - window, EndTime=self.now
        )
        values: dict[str, list[float]] = {}
        for page in pages:
            for result in page["MetricDataResults"]:
                values.setdefault(result["Id"], []).extend(result["Values"])
        return all(is_idle(node, index, values, window) for index, node in enumerate(nodes))

    def stop(self, reason: str, count: int) -> None:
        """Ask ParallelCluster to stop the compute fleet, as `pcluster update-compute-fleet` does; once."""
        table = f"parallelcluster-{self.settings.name}"
        key = {"Id": {"S": "COMPUTE_FLEET"}}
        try:
            item = self.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")
        except self.dynamodb.exceptions.ResourceNotFoundException:
            item = None
        if item is None:
            print(f"no fleet to stop: {table} has none yet, or no longer")  # noqa: T201 - the function's log
            return
        status = item["Data"]["M"]["status"]["S"]
        if status in STOPPED:
            return
        self.dynamodb.update_item(
            TableName=table,
            Key=key,
            UpdateExpression="set #data.#status = :wanted, #data.#time = :now",
            ConditionExpression="#data.#status = :found",
            ExpressionAttributeNames={"#data": "Data", "#status": "status", "#time": "lastStatusUpdatedTime"},
            ExpressionAttributeValues={
                ":wanted": {"S": "STOP_REQUESTED"},
                ":found": {"S": status},
                ":now": {"S": str(self.now)},
            },
        )
        self.tell(
            "compute fleet stopped",
            f"{reason}. Its compute fleet ({count} nodes) is being stopped; jobs go back into the queue and wait.\n"
            f"Start it again: pcluster update-compute-fleet --cluster-name {self.settings.name}"
            f" --region {self.settings.region} --status START_REQUESTED\n"
            f"Head node, file systems and network cost on: slipway down {self.settings.cluster}",
        )

    def pass_on(self, event: Mapping[str, Any]) -> None:
        """Tell people of a notice for one of this cluster's nodes; notices come for every instance of the account."""
        instance = event["detail"]["instance-id"]
        answer = self.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance]}])
        found = [node for group in answer["Reservations"] for node in group["Instances"]]
        tags = {tag["Key"]: tag["Value"] for node in found for tag in node.get("Tags", [])}
        if self.is_own(tags):
            self.tell("interruption notice", NOTICES[event["detail-type"]].format(instance=instance))

    def is_own(self, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these tags is the cluster's."""
        return tags.get("parallelcluster:cluster-name") == self.settings.name

    def announce(self, event: Mapping[str, Any]) -> None:
        """Tell people of an event; what it lacks is told as unknown."""
        subject, words = ANNOUNCED[event["detail-type"]]
        self.tell(subject, FIELD.sub(lambda field: found_at(event["detail"], field[1]), words))

    def tell(self, subject: str, text: str) -> None:
        """Send a message to every topic."""
        message = f"cluster {self.settings.cluster} in {self.settings.region}: {text}"
        for topic in self.settings.topics:
            self.sns.publish(
                TopicArn=topic, Subject=f"slipway {self.settings.cluster}: {subject}"[:100], Message=message
            )


def found_at(detail: Mapping[str, Any], path: str) -> str:
    """What an event's detail has at a path of keys."""
    value: Any = detail
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return "unknown" if value is None else str(value)
