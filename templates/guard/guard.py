# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of one cluster: counts its nodes, adds up what they cost, stops them in time, and says so.

`Guard` is that of a ParallelCluster; hyperpod.py holds what HyperPod does in another way.

A Lambda function, called every five minutes, for every interruption notice of the account, and for the events of this
cluster that people are told of. It works without anybody being there, and it keeps nothing: the number of running nodes
is a CloudWatch metric, and node-hours are its looks added up since the last deployment of the stack (looks.py).
budget.py holds the sum at which it ends a job. It stops before it reports, each step on its own; what a step could not
do is told once a day (failures.py) and fails the call. Standard library and boto3 alone; infra/parts/guardrails.py sets
the environment variables that `Settings` reads.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from budget import DOLLARS, DOLLARS_BEFORE, GO_ON, Sum, said_at
from failures import Failure, GuardError, failure_of, first_within
from looks import EVERY, HOUR, NAMESPACE, counted, scheduled_at
from quiet import STATISTICS, Node, Reserved, Values, is_idle, query
from trouble import FRESH, Beat, Folder

T = TypeVar("T")
CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})
"""A service that does not answer leaves time for the others: Lambda ends a call after two minutes."""
WARNING = timedelta(minutes=30)
"""How long before the end of a cluster's time people are told."""
AFTER_SLURM = timedelta(minutes=15)
"""ParallelCluster stops nodes without a job after the plan's idle time; only what it leaves is for the guard."""
NODES_A_CALL = 150
"""GetMetricData takes 500 queries; a node needs three."""
STOPPED = {"STOPPED", "STOPPING", "STOP_REQUESTED"}
SETTLED = timedelta(minutes=15)
"""After a stop the machines are gone by then: ParallelCluster's own daemons end them in a minute or two, and the nodes
themselves where the head node is silent for ten (computemgtd)."""
DEPLOYED = {"UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"}
BEGAN, WENT_WELL = {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"}, {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
"""Of the events of a stack (CloudFormation API reference, StackEvent)."""
INSTANCES_A_CALL = 500
JOB_STILL = "JobStillMinutes"
"""For how long a node with a job of Slurm's shows no CPU and no network (templates/parallelcluster/metrics.py)."""
SERVICES = ("HYPERPOD", "HYPERPOD_EKS", "EKS", "PARALLELCLUSTER", "PCS")
"""What names the cluster in the service that runs it."""
NOTICES = {
    "EC2 Spot Instance Interruption Warning": "AWS reclaims {instance} in 2 minutes",
    "EC2 Instance Rebalance Recommendation": "{instance} has a higher risk of interruption",
}
FIELD = re.compile(r"\{([^}]+)\}")
BLOCK_ENDS = (
    "Capacity Block ends",
    "{capacity-reservation-id} ends at {end-date}; AWS takes its nodes back from 30 minutes before",
)
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
    "SageMaker Training Job State Change": ("training job failed", "{TrainingJobName} failed: {FailureReason}"),
    "SageMaker Endpoint State Change": ("endpoint in trouble", "SageMaker says {EndpointStatus}"),
}
"""Subject and words of each kind of event, with what is filled in from its detail; infra/parts/guardrails.py has the
rules, which let only this cluster's through."""


@dataclass(frozen=True)
class Settings:
    """What the guard is told: names, limits (None: no limit), and the quoted rate in dollars per node-hour.

    `idle` and `hung` are how long nodes, and a job on them, may do nothing (0: for any time).

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
    hung: timedelta
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
            name=next(variables[service] for service in SERVICES if variables.get(service)),
            stack=variables["STACK"],
            topics=tuple(variables["TOPICS"].split()),
            region=variables["AWS_REGION"],
            prepaid=variables["PREPAID"] == "true",
            ttl=timedelta(hours=float(ttl)) if ttl else None,
            idle=timedelta(minutes=float(variables["IDLE_MINUTES"])),
            hung=timedelta(minutes=float(variables.get("HUNG_MINUTES", "0"))),
            usd_per_node_hour=float(rate) if rate else None,
            ends=datetime.fromisoformat(ends) if ends else None,
            sum=Sum.of(variables),
            folder=variables.get("FOLDER_URI"),
            reserved=Reserved.of(variables),
        )


def handler(event: Mapping[str, Any], _context: object) -> None:
    """What Lambda calls."""
    respond(Guard(Settings.of(os.environ), aws, datetime.now(UTC)), event)


def aws(service: str) -> Any:
    """A client that does not wait for long."""
    return boto3.client(service, config=CONFIG)


def respond(guard: "Guard", event: Mapping[str, Any]) -> None:
    """Do what a call is for: pass a notice on, tell of an event, or look after the nodes."""
    kind = event.get("detail-type")
    if kind in NOTICES:
        guard.pass_on(event)
    elif kind in ANNOUNCED:
        guard.announce(event)
    else:
        guard.look = scheduled_at(event, guard.now)
        guard.watch()


class Guard:
    """One call of the guard of a ParallelCluster, at the moment `now`."""

    prepaid = "the nodes of a Capacity Block are left"
    slurm = True
    """Whether its nodes report the jobs that Slurm runs on them."""
    others = "in Slurm"
    """What jobs are called that have no agent of Slipway's."""

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS; `look` is when this look was due, if that is not now."""
        self.settings = settings
        self.now = self.look = now
        self.client = client
        self.spent = 0.0
        self.ran_until: datetime | None = None
        self.failures: list[Failure] = []
        self.told: set[str] = set()
        self.ended = False
        self.samples: Values | None = None
        self.ec2, self.cloudwatch, self.dynamodb, self.cloudformation, self.sns = (
            client(service) for service in ("ec2", "cloudwatch", "dynamodb", "cloudformation", "sns")
        )

    def watch(self) -> None:
        """Stop the nodes when their time or their money is over, or nothing happens on them; then tell and report.

        Raises:
            GuardError: something could not be done; the rest was.
        """
        nodes = self.attempt("count its nodes", self.nodes)
        began = self.attempt("read when it was deployed", self.deployed_at)
        count = None if nodes is None else len(nodes)
        values = self.attempt("calculate its cost", lambda: self.figures(nodes, began)) or {}
        if began is not None:
            self.attempt("watch its time", lambda: self.watch_time(began, count))
        self.attempt("watch its budget", lambda: self.watch_sum(count))
        folder = None if self.settings.folder is None else Folder(self.client("s3"), self.settings.folder)
        if nodes is not None and not self.ended:
            self.attempt("check for idle nodes", lambda: self.watch_idle(nodes, began, folder))
        if folder is not None:
            self.attempt("forward reports of jobs", lambda: folder.pass_on(self.now, self.notify))
        self.notify_of_failures()
        if nodes is not None:
            values["RunningNodes"] = count
        self.attempt("report its metrics", lambda: self.report(values))
        self.notify_of_failures()
        if self.failures:
            raise GuardError("; ".join(failure.words for failure in self.failures))

    def attempt(self, what: str, act: Callable[[], T]) -> T | None:
        """Do one step of a look; None where it fails, which is kept for people and keeps no other step from its turn.

        Args:
            what: the step, as "count its nodes".
            act: does it.
        """
        try:
            return act()
        except Exception as problem:  # noqa: BLE001 - told, and raised again as a GuardError at the end
            self.failures.append(failure_of(what, problem))
            print(self.failures[-1].words)  # noqa: T201 - the function's log
            return None

    def notify_of_failures(self) -> None:
        """Tell people what this look could not do: each call once a day, since it is tried again at every look."""
        fresh = [failure for failure in self.failures if failure.call not in self.told]
        self.told |= {failure.call for failure in fresh}
        words = [
            failure.words
            for failure in fresh
            if first_within(self.cloudwatch, self.settings.cluster, failure.call, self.now)
        ]
        if words:
            text = "\n".join(
                (*words, f"It is tried again every {EVERY // timedelta(minutes=1)} minutes.", self.by_hand)
            )
            self.attempt("send the message", lambda: self.notify("the guard could not act", text))

    @property
    def by_hand(self) -> str:
        """What people can do where the guard cannot."""
        rate, cluster = self.settings.usd_per_node_hour, self.settings.cluster
        costs = "" if rate is None else f" at ${rate:,.2f} an hour for each node"
        return f"Until then, nothing else may stop the nodes{costs}. By hand: slipway down {cluster}"

    def end(self, reason: str, count: int | None) -> None:
        """Stop the nodes, once a look: a refusal is told, and the next look tries again."""
        if not self.ended:
            self.ended = True
            self.attempt("stop its nodes", lambda: self.stop(reason, count))

    def watch_idle(self, nodes: list[Node], began: datetime | None, folder: Folder | None) -> None:
        """Stop idle nodes; of those that are paid for all the same people are told."""
        reserved, beats = self.settings.reserved, [] if folder is None else folder.beats(self.now)
        if nodes:
            beats = self.with_others(nodes, beats)
        if nodes and beats:
            self.watch_job(beats, len(nodes), folder)
        elif self.all_idle(nodes):
            minutes = round(self.settings.idle.total_seconds() / 60)
            idle = f"its {len(nodes)} nodes have been idle for {minutes} minutes"
            if not self.settings.prepaid:
                self.end(idle, len(nodes))
            elif folder is not None:
                self.notify_of_idle(folder, idle, len(nodes))
        elif folder is not None and reserved is not None and not nodes and self.settings.idle and began is not None:
            unused = reserved.unused(self.ran_until or began, self.now, self.settings.idle + AFTER_SLURM)
            if unused:
                self.notify_of_idle(folder, unused, reserved.nodes)

    def watch_job(self, beats: list[Beat], count: int, folder: Folder | None) -> None:
        """Leave the nodes of a job that is at work; one that stands still on all of them is told of and stopped."""
        hung = self.settings.hung
        if not hung or any(beat.still_s < hung.total_seconds() for beat in beats):
            return
        jobs = ", ".join(sorted({beat.job for beat in beats if beat.job})) or self.others
        words = f"its job {jobs} shows no CPU, no network and no step for {hung / timedelta(minutes=1):g} minutes"
        if not self.settings.prepaid:
            self.end(words, count)
        elif folder is not None:
            self.notify_of_idle(folder, words, count)

    def with_others(self, nodes: list[Node], beats: list[Beat]) -> list[Beat]:  # noqa: ARG002 - other guards do
        """Signs of life of Slipway's jobs, and of whatever else runs on the nodes."""
        return beats + self.slurm_beats() if self.slurm else beats

    def slurm_beats(self) -> list[Beat]:
        """What nodes have said of late of the jobs that Slurm runs on them, whoever submitted those: the least still.

        Raises:
            ClientError: CloudWatch does not answer.
        """
        answer = self.cloudwatch.get_metric_statistics(
            Namespace=NAMESPACE,
            MetricName=JOB_STILL,
            Dimensions=[{"Name": "Cluster", "Value": self.settings.cluster}],
            StartTime=self.now - FRESH,
            EndTime=self.now,
            Period=int(FRESH.total_seconds()),
            Statistics=["Minimum"],
        )
        return [Beat("", timedelta(minutes=datapoint["Minimum"]).total_seconds()) for datapoint in answer["Datapoints"]]

    def notify_of_idle(self, folder: Folder, idle: str, count: int) -> None:
        """Tell people of machines that are paid for and do nothing, with what they cost an hour, once a day."""
        rate = self.settings.usd_per_node_hour
        folder.notify_of_idle(
            self.now, self.notify, idle, None if rate is None else rate * count, self.settings.cluster
        )

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
        """When the stack was last changed: time, and the money of the estimate, are counted from there.

        A change that was rolled back, or is still under way, is none.
        """
        stack = self.stack()
        began: datetime = stack.get("LastUpdatedTime", stack["CreationTime"])
        if "LastUpdatedTime" not in stack or stack["StackStatus"] in DEPLOYED:
            return began
        went_well = False
        pages = self.cloudformation.get_paginator("describe_stack_events").paginate(StackName=self.settings.stack)
        for event in (stack_event for page in pages for stack_event in page["StackEvents"]):
            if event["PhysicalResourceId"] == event["StackId"]:
                went_well = went_well or event["ResourceStatus"] in WENT_WELL
                if went_well and event["ResourceStatus"] in BEGAN:
                    moment: datetime = event["Timestamp"]
                    return moment
        return self.made_at()

    def made_at(self) -> datetime:
        """When the stack was made: the sum is counted from there."""
        created: datetime = self.stack()["CreationTime"]
        return created

    def stack(self) -> Mapping[str, Any]:
        """The cluster's stack as CloudFormation describes it."""
        (stack,) = self.cloudformation.describe_stacks(StackName=self.settings.stack)["Stacks"]
        description: Mapping[str, Any] = stack
        return description

    def figures(self, nodes: list[Node] | None, began: datetime | None) -> dict[str, float]:
        """Node-hours so far and, where the rate is known, what they have cost by it; this look is in them.

        Nodes that cannot be counted cost, up to the sum that ends them, what all nodes of the plan do.
        """
        limit, values = self.settings.sum, {}
        if limit is not None:
            values[DOLLARS] = self.dollars_a_look(limit.nodes if nodes is None else len(nodes))
            created = self.made_at()
            self.spent = values[DOLLARS] + self.total(DOLLARS, created) + self.total(DOLLARS_BEFORE, created)
        if nodes is not None and began is not None:
            values["NodeHours"] = self.node_hours(began) + len(nodes) * EVERY / HOUR
            if self.settings.usd_per_node_hour is not None:
                values["EstimatedSpend"] = values["NodeHours"] * self.settings.usd_per_node_hour
        return values

    def report(self, values: Mapping[str, float]) -> None:
        """Record what this look counted, under the time at which it was due: the guard's sign of life."""
        dimensions = [{"Name": "Cluster", "Value": self.settings.cluster}]
        data = [
            {"MetricName": name, "Dimensions": dimensions, "Timestamp": self.look, "Value": value}
            for name, value in values.items()
        ]
        if data:
            self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)
        print(json.dumps({"cluster": self.settings.cluster, **values}))  # noqa: T201 - the function's log

    def node_hours(self, began: datetime) -> float:
        """Node-hours of the looks since the deployment."""
        periods = counted(self.cloudwatch, self.settings.cluster, "RunningNodes", began, self.look)
        self.ran_until = max((period.end for period in periods if period.average > 0), default=None)
        return sum(period.total for period in periods) * (EVERY / HOUR)

    def total(self, metric: str, began: datetime) -> float:
        """A metric of the cluster's, its looks added up since a moment."""
        return sum(count.total for count in counted(self.cloudwatch, self.settings.cluster, metric, began, self.look))

    def dollars_a_look(self, count: int) -> float:
        """What the cluster costs between two looks at the quoted rates."""
        limit = self.settings.sum
        an_hour = count * (self.settings.usd_per_node_hour or 0.0) + (limit.beside if limit is not None else 0.0)
        return an_hour * (EVERY / HOUR)

    def watch_sum(self, count: int | None) -> None:
        """Have the job save and leave while the sum still pays for that, and end its nodes when it had the time."""
        limit = self.settings.sum
        if limit is None:
            return
        spent, rate = self.spent, self.settings.usd_per_node_hour or 0.0
        if not limit.reached(spent, rate, count or 0):
            return
        reason = f"{limit.words(spent)}. {GO_ON}"
        if limit.uri is None:
            self.attempt("end what serves requests", lambda: self.end_service(reason, count))
            return
        word = self.attempt("tell the job to stop", lambda: said_at(self.client("s3"), limit, spent, self.now))
        if word is None:
            # The job is not told. Its nodes go when nothing is left but what that takes.
            if limit.reached(spent, rate, count or 0, late=True):
                why = self.failures[-1].words.partition("\n")[0]
                self.end(f"{limit.words(spent)}; the guard {why}. {GO_ON}", count)
            return
        told_at, first = word
        if first:
            minutes = round(limit.settle.total_seconds() / 60)
            self.notify(
                "stopped at the budget",
                f"{reason}: it can resume from its last checkpoint.\nIts job is asked to save and end, and does "
                f"not restart; {its(count, 'nodes')} end in {minutes} minutes.",
            )
        elif self.now >= told_at + limit.settle and count != 0:
            self.end(reason, count)

    def end_service(self, reason: str, count: int | None) -> None:
        """End what serves requests, where that is what is watched."""
        self.end(reason, count)

    def watch_time(self, began: datetime, count: int | None) -> None:
        """Warn before the end of the cluster's time, and stop it from then on, however often it is started."""
        if self.settings.ttl is None:
            return
        end = began + self.settings.ttl
        hours = f"{self.settings.ttl / timedelta(hours=1):g}"
        if end - WARNING <= self.now < end - WARNING + EVERY:
            what = self.prepaid if self.settings.prepaid else "its nodes are stopped then"
            self.notify("time to live ends soon", f"its {hours} hours end at {end:%Y-%m-%d %H:%M} UTC; {what}")
        if self.now >= end and not self.settings.prepaid:
            self.end(f"its {hours} hours have ended", count)

    def all_idle(self, nodes: list[Node]) -> bool:
        """Whether every node has done nothing for the idle time, where there is one; a young node says nothing."""
        if not self.settings.idle:
            return False
        return self.quiet(nodes, self.settings.idle + AFTER_SLURM)

    def quiet(self, nodes: list[Node], window: timedelta) -> bool:
        """Whether EC2's metrics show nothing on any node for so long."""
        if not nodes or any(self.now - node["LaunchTime"] < window for node in nodes):
            return False
        since, values = self.now - window, self.values(nodes)
        return all(is_idle(node, values.get(node["InstanceId"], {}), since, self.now) for node in nodes)

    def values(self, nodes: list[Node]) -> Values:
        """EC2's metrics of each node over the longest time that is asked for, read once a look: each one is billed."""
        if self.samples is None:
            since = self.now - max(self.settings.idle + AFTER_SLURM, self.settings.hung)
            chunks = (nodes[start : start + NODES_A_CALL] for start in range(0, len(nodes), NODES_A_CALL))
            self.samples = {key: series for chunk in chunks for key, series in self.chunk(chunk, since).items()}
        return self.samples

    def chunk(self, nodes: list[Node], since: datetime) -> Values:
        """The same of as many nodes as one call takes."""
        queries = [
            query(f"m{index}_{metric}", metric, statistic, node["InstanceId"])
            for index, node in enumerate(nodes)
            for metric, statistic in STATISTICS.items()
        ]
        pages = self.cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=queries, StartTime=since, EndTime=self.now
        )
        values: Values = {node["InstanceId"]: {metric: [] for metric in STATISTICS} for node in nodes}
        for page in pages:
            for result in page["MetricDataResults"]:
                index, _, metric = result["Id"][1:].partition("_")
                times = zip(result["Timestamps"], result["Values"], strict=True)
                values[nodes[int(index)]["InstanceId"]][metric].extend(times)
        return values

    def stop(self, reason: str, count: int | None) -> None:
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
            self.end_what_stays(status, moment_of(item["Data"]["M"].get("lastStatusUpdatedTime", {}).get("S")))
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
        self.notify(
            "compute fleet stopped",
            f"{reason}. Its compute fleet is being stopped with {its(count, 'nodes')}; jobs return to the queue "
            "and wait.\n"
            f"Start it again: pcluster update-compute-fleet --cluster-name {self.settings.name}"
            f" --region {self.settings.region} --status START_REQUESTED\n"
            f"Head node, file systems and network are still billed: slipway down {self.settings.cluster}",
        )

    def end_what_stays(self, status: str, since: datetime | None) -> None:
        """End the machines of a fleet that is stopped and has them still, by their tags, and tell it every hour."""
        if since is not None and self.now - since < SETTLED:
            return
        left = [node["InstanceId"] for node in self.nodes()]
        if not left:
            return
        for start in range(0, len(left), INSTANCES_A_CALL):
            self.ec2.terminate_instances(InstanceIds=left[start : start + INSTANCES_A_CALL])
        if first_within(self.cloudwatch, self.settings.cluster, "nodes stay", self.now, HOUR):
            self.notify(
                "nodes still run after the stop",
                f"its fleet is {status} since {since or 'an unknown time'} and had {len(left)} nodes still:"
                f" {', '.join(left[:10])}{' and more' if len(left) > len(left[:10]) else ''}. The guard terminates them"
                " itself. ParallelCluster's daemon on the head node may hang: look at"
                " /var/log/parallelcluster/clustermgtd there.",
            )

    def pass_on(self, event: Mapping[str, Any]) -> None:
        """Tell people of a notice for one of this cluster's nodes; notices come for every instance of the account."""
        instance = event["detail"]["instance-id"]
        answer = self.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance]}])
        nodes = [node for group in answer["Reservations"] for node in group["Instances"]]
        tags = {tag["Key"]: tag["Value"] for node in nodes for tag in node.get("Tags", [])}
        if self.is_own(tags):
            self.notify("interruption notice", NOTICES[event["detail-type"]].format(instance=instance))

    def is_own(self, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these tags is the cluster's."""
        return tags.get("parallelcluster:cluster-name") == self.settings.name

    def announce(self, event: Mapping[str, Any]) -> None:
        """Tell people of an event; what it lacks is told as unknown."""
        subject, words = ANNOUNCED[event["detail-type"]]
        self.notify(subject, FIELD.sub(lambda field: found_at(event["detail"], field[1]), words))

    def notify(self, subject: str, text: str) -> None:
        """Send a message to every topic."""
        message = f"cluster {self.settings.cluster} in {self.settings.region}: {text}"
        for topic in self.settings.topics:
            self.sns.publish(
                TopicArn=topic, Subject=f"slipway {self.settings.cluster}: {subject}"[:100], Message=message
            )


def moment_of(text: str | None) -> datetime | None:
    """A moment as ParallelCluster writes it; None of another text.

    >>> moment_of("2026-11-20 12:02:00+00:00").hour, moment_of("before"), moment_of(None)
    (12, None, None)
    """
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def its(count: int | None, what: str) -> str:
    """So many of a cluster's, in words.

    >>> its(2, "nodes"), its(None, "nodes")
    ('its 2 nodes', 'its nodes')
    """
    return f"its {what}" if count is None else f"its {count} {what}"


def found_at(detail: Mapping[str, Any], path: str) -> str:
    """What an event's detail has at a path of keys."""
    value: Any = detail
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return "unknown" if value is None else str(value)
