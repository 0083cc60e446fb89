# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of one cluster: counts its nodes, adds up their cost, stops them in time, and reports.

`Guard` is the guard of a ParallelCluster; hyperpod.py has HyperPod's differences.

A Lambda function, called every five minutes, for every interruption notice of the account, and for the cluster's
events that users are notified of. It needs no user. What it has counted is in its own state (state.py), which no node
can write. budget.py has the spending limit at which it ends a job. A check counts and reports the money first, then
stops nodes, and reads what nodes have left last; each step on its own, and a failed step causes one notification a day
(failures.py) and fails the call. Uses only the standard library and boto3; infra/parts/guardrails.py sets the
environment variables that `Settings` reads (settings.py).
"""

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import boto3
from announced import ANNOUNCED, NOTICES, event_text
from boots import IN_A_ROW, confirmed_boots, failed_boots, record_stop
from botocore.config import Config
from budget import DOLLARS, GO_ON, Sum, request_stop, usd_at_least
from failures import Failure, GuardError, failure_of
from idleness import STATISTICS, Node, Values, is_active, is_idle, query
from job_messages import FRESH, Beat, Folder, its
from schedule import EVERY, HOUR, NAMESPACE, moment_of, nodes_namespace, scheduled_at
from settings import Settings
from spot import usd_per_node_hour
from state import State

T = TypeVar("T")
CONFIG = Config(connect_timeout=5, read_timeout=30, retries={"mode": "standard", "total_max_attempts": 3})
"""A service that does not respond leaves time for the others: Lambda ends a call after two minutes."""
WARNING = timedelta(minutes=30)
"""How long before the end of a cluster's time to live users are notified."""
AGAIN = timedelta(days=1)
"""Time between two notifications about the same failure."""
AFTER_SLURM = timedelta(minutes=15)
"""ParallelCluster stops nodes without a job after the plan's idle time; the guard only stops the remaining ones."""
NODES_A_CALL = 150
"""GetMetricData accepts 500 queries; a node needs three."""
BUDGET, TIME_LIMIT, FAILURE = "budget", "time-limit", "failure"
"""Causes of a stop, as reports name the end of an attempt (launcher/model/report.py: EndedBy)."""
STOPPED = {"STOPPED", "STOPPING", "STOP_REQUESTED"}
SETTLED = timedelta(minutes=15)
"""After a stop the nodes are gone by then: ParallelCluster's own daemons end them in a minute or two, and the nodes
end themselves if the head node is silent for ten minutes (computemgtd)."""
DEPLOYED = {"UPDATE_COMPLETE", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"}
BEGAN, WENT_WELL = {"CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"}, {"CREATE_COMPLETE", "UPDATE_COMPLETE"}
"""States in the events of a stack (CloudFormation API reference, StackEvent)."""
INSTANCES_A_CALL = 500
MARGIN_S = 40.0
"""Seconds of Lambda's time limit that a check keeps for its notifications: it then reads nothing more of the nodes."""
JOB_STILL = "JobStillMinutes"
"""How long a node with a job of Slurm shows no CPU and no network (templates/parallelcluster/metrics.py)."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    respond(Guard(Settings.of(os.environ), aws, datetime.now(UTC)), event, context)


def aws(service: str) -> Any:
    """A client with short timeouts."""
    return boto3.client(service, config=CONFIG)


def respond(guard: "Guard", event: Mapping[str, Any], context: Any = None) -> None:
    """Handle a call: forward an interruption notice, announce an event, or check the nodes."""
    kind = event.get("detail-type")
    if context is not None:
        guard.in_time = lambda: context.get_remaining_time_in_millis() / 1000 > MARGIN_S
    if kind in NOTICES:
        guard.pass_on(event)
    elif kind in ANNOUNCED:
        guard.announce(event)
    else:
        guard.scheduled = scheduled_at(event, guard.now)
        guard.watch()


class Guard:
    """One call of the guard of a ParallelCluster, at the time `now`."""

    prepaid = "the nodes of a Capacity Block are left"
    slurm = True
    """Whether the cluster's nodes report the jobs that Slurm runs on them."""
    measures = ("AWS/EC2", "InstanceId")
    """The namespace of AWS's metrics of a node, and the dimension that names the node."""
    statistics: Mapping[str, str] = STATISTICS
    """Those metrics."""
    own_templates = False
    """Whether the nodes come from launch templates of the plan's stack, which tag them (infra/parts)."""
    others = "in Slurm"
    """The name in messages for jobs without an agent of Slipway."""
    stopped = "its fleet has been"
    """What a stop has changed, for the message about nodes that run after it."""
    boots_watched, boots_in_a_row = True, IN_A_ROW
    """Whether the service replaces nodes that fail to boot without end."""
    failed_boots_end_nodes = True
    """Whether that service terminates such a node."""
    jobs_wait = True
    """Whether the jobs of stopped nodes wait for new ones."""
    why_nodes_stay = (
        " ParallelCluster's daemon on the head node may hang: look at /var/log/parallelcluster/clustermgtd there."
    )

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS; `scheduled` is when this check was due, if not `now`."""
        self.settings = settings
        self.now = self.scheduled = now
        self.client = client
        self.in_time: Callable[[], bool] = lambda: True
        self.state: State | None = None
        self.stored = True
        self.least_usd = 0.0
        # What a node costs: the quoted rate, or the current spot price if that is higher.
        self.rate = settings.usd_per_node_hour or 0.0
        self.failures: list[Failure] = []
        self.notified: set[str] = set()
        self.ended = False
        # How the report names this check's stop (launcher/model/report.py: EndedBy); empty: it ends no attempt.
        self.cause = ""
        # Whether the reason of this check's stop is in the store.
        self.recorded = False
        self.samples: Values | None = None
        self.ec2, self.cloudwatch, self.dynamodb, self.cloudformation, self.sns, self.ssm = (
            client(service) for service in ("ec2", "cloudwatch", "dynamodb", "cloudformation", "sns", "ssm")
        )

    def watch(self) -> None:
        """Stop the nodes if their time or budget is used up or they are idle; then notify and report.

        Raises:
            GuardError: a step failed; the other steps were done.
        """
        nodes = self.attempt("count its nodes", self.nodes)
        self.state = self.attempt("read its state", lambda: State.read(self.ssm, self.settings.parameter))
        began = self.attempt("read when it was deployed", self.deployed_at)
        self.least_usd = usd_at_least(self.settings, nodes or [], began, self.now)
        count = None if nodes is None else len(nodes)
        rate = None
        if nodes and self.settings.spot:
            rate = self.attempt("read the current spot prices", lambda: self.price_nodes(nodes))
        self.attempt("report its metrics", lambda: self.report(self.figures(count, began)))
        if began is not None:
            self.attempt("watch its time", lambda: self.watch_time(began, count))
        self.attempt("watch its budget", lambda: self.watch_sum(count))
        if nodes and rate is not None and not self.ended:
            self.attempt("price its new nodes", lambda: self.watch_new_nodes(nodes))
        folder = None
        if self.settings.folder is not None:
            folder = Folder(self.client("s3"), self.settings.folder, self.in_time)
        if folder is not None and began is not None and self.boots_watched and not self.ended:
            self.attempt("check for failed boots", lambda: self.watch_boots(folder, began, count))
        if nodes is not None and not self.ended:
            self.attempt("check for idle nodes", lambda: self.watch_idle(nodes, began, folder))
        self.notify_of_failures()
        if folder is not None:
            self.attempt("forward reports of jobs", lambda: folder.pass_on(self.now, self.notify))
            self.notify_of_failures()
        self.raise_failures()

    def raise_failures(self) -> None:
        """Fail the call if a step has failed: an alarm watches the function's errors."""
        if self.failures:
            raise GuardError("; ".join(failure.words for failure in self.failures))

    def price_nodes(self, nodes: list[Node]) -> float:
        """Count nodes at the higher of the quoted rate and the current spot price, which is returned."""
        self.rate = usd_per_node_hour(self.ec2, nodes, self.rate, self.now)
        return self.rate

    def watch_new_nodes(self, nodes: list[Node]) -> None:
        """Refuse nodes that the service has started at a price beyond the budget, for targets where it starts them."""

    def attempt(self, step: str, act: Callable[[], T]) -> T | None:
        """Do one step of a check; None if it fails. A failure is recorded for users, and the other steps still run.

        Args:
            step: the step, such as "count its nodes".
            act: does the step.
        """
        try:
            return act()
        except Exception as problem:  # noqa: BLE001 - told, and raised again as a GuardError at the end
            self.failures.append(failure_of(step, problem))
            print(self.failures[-1].words)  # noqa: T201 - the function's log
            return None

    def notify_of_failures(self) -> None:
        """Notify users of this check's failures: each call once a day, because every check tries it again."""
        fresh = [failure for failure in self.failures if failure.call not in self.notified]
        self.notified |= {failure.call for failure in fresh}
        messages = [failure.words for failure in fresh if self.first(failure.call)]
        if messages:
            text = "\n".join(
                (*messages, f"It is tried again every {EVERY // timedelta(minutes=1)} minutes.", self.by_hand)
            )
            self.attempt("send the message", lambda: self.notify("the guard could not act", text))

    def first(self, name: str, again: timedelta = AGAIN) -> bool:
        """Whether to notify now: nothing of that name was sent within `again`; once an hour if no state is stored."""
        if self.state is None or not self.stored:
            return timedelta(minutes=self.now.minute, seconds=self.now.second) < EVERY
        if not self.state.first(name, self.now, again):
            return False
        self.attempt("store its state", self.store)
        return True

    def store(self) -> None:
        """Store the guard's state."""
        if self.state is not None:
            self.stored = False
            self.state.write(self.ssm, self.settings.parameter)
            self.stored = True

    @property
    def by_hand(self) -> str:
        """The user's options if the guard cannot act."""
        rate, cluster = self.rate, self.settings.cluster
        costs = f" at ${rate:,.2f} an hour for each node" if rate else ""
        return f"Until then, nothing else may stop the nodes{costs}. By hand: slipway down {cluster}"

    def end(self, reason: str, count: int | None, cause: str = "") -> None:
        """Stop the nodes, once per check: a refusal causes a notification, and the next check tries again."""
        if not self.ended:
            self.ended, self.cause = True, cause
            self.attempt("stop its nodes", lambda: self.stop(reason, count))

    def watch_boots(self, folder: Folder, began: datetime, count: int | None) -> None:
        """Stop nodes that do not boot and would be replaced without end; if they are billed anyway, notify users."""
        handled = None if self.state is None else self.state.boots_until
        since = max(began, handled or began)
        failed = failed_boots(folder, self.now, since, self.boots_in_a_row, lambda row: confirmed_boots(self, row))
        if failed is None:
            return
        self.record_stop(folder, failed.words, jobs_wait=False)
        failures = len(self.failures)
        if self.settings.prepaid:
            self.notify("nodes do not boot", failed.words)
        else:
            self.end(failed.words, count)
        if self.state is not None and len(self.failures) == failures:
            self.state.boots_until = failed.boots[-1].at
            self.store()

    def watch_idle(self, nodes: list[Node], began: datetime | None, folder: Folder | None) -> None:
        """Stop idle nodes; if they are billed anyway, notify users instead."""
        reserved, beats = self.settings.reserved, []
        if folder is not None:
            beats = folder.beats(self.now, self.settings.hung.total_seconds())
        in_store = len(beats)
        if nodes:
            beats = self.with_others(nodes, beats)
        if nodes and beats:
            self.watch_job(beats, nodes, folder, confirmed=len(beats) > in_store)
        elif self.all_idle(nodes):
            minutes = round(self.settings.idle.total_seconds() / 60)
            idle = f"{its(len(nodes), 'nodes', 'have')} been idle for {minutes} minutes"
            if not self.settings.prepaid:
                self.end(idle, len(nodes))
            elif folder is not None:
                self.notify_of_idle(folder, idle, len(nodes))
        elif folder is not None and reserved is not None and not nodes and self.settings.idle and began is not None:
            ran_until = None if self.state is None else self.state.ran_until
            unused = reserved.unused(max(began, ran_until or began), self.now, self.settings.idle + AFTER_SLURM)
            if unused:
                self.notify_of_idle(folder, unused, reserved.nodes)

    def watch_job(self, beats: list[Beat], nodes: list[Node], folder: Folder | None, *, confirmed: bool) -> None:
        """Keep the nodes of a working job; if it hangs on all of them, stop the nodes or notify users.

        Args:
            beats: the heartbeats of all jobs on the nodes.
            nodes: the running nodes.
            folder: the guard's folder; None without jobs of Slipway.
            confirmed: whether one of the heartbeats is not from the store.
        """
        hung, count = self.settings.hung, len(nodes)
        if not hung or any(beat.still_s < hung.total_seconds() for beat in beats):
            return
        # Other jobs can write heartbeats for this one: EC2's own metrics must not show the opposite.
        if self.active(nodes, hung):
            return
        jobs = ", ".join(sorted({beat.job for beat in beats if beat.job})) or self.others
        reason = f"its job {jobs} shows no CPU, no network and no step for {hung / timedelta(minutes=1):g} minutes"
        if self.settings.prepaid:
            if folder is not None:
                self.notify_of_idle(folder, reason, count)
        elif self.settings.shared and not confirmed and not self.has_measured(nodes):
            if self.first(f"hung {jobs}"):
                self.notify("job may hang", f"{reason}, by its heartbeats alone. {self.not_stopped}")
        else:
            self.end(reason, count, FAILURE)

    @property
    def not_stopped(self) -> str:
        """Why the guard does not stop a job that hangs by its heartbeats alone, and how a user stops it."""
        return (
            "It is not stopped: other plans with the same checkpoint.uri may write such heartbeats, and no metric of "
            f"AWS confirms them. If it hangs: slipway cancel {self.settings.cluster}"
        )

    def with_others(self, nodes: list[Node], beats: list[Beat]) -> list[Beat]:  # noqa: ARG002 - other guards do
        """Heartbeats of Slipway's jobs, and of all other work on the nodes."""
        return beats + self.slurm_beats() if self.slurm else beats

    def slurm_beats(self) -> list[Beat]:
        """The recent reports of nodes about Slurm's jobs on them, of any user: the shortest time without activity.

        Raises:
            ClientError: CloudWatch does not respond.
        """
        answer = self.cloudwatch.get_metric_statistics(
            Namespace=nodes_namespace(self.settings.cluster),
            MetricName=JOB_STILL,
            Dimensions=[{"Name": "Cluster", "Value": self.settings.cluster}],
            StartTime=self.now - FRESH,
            EndTime=self.now,
            Period=int(FRESH.total_seconds()),
            Statistics=["Minimum"],
        )
        return [Beat("", timedelta(minutes=datapoint["Minimum"]).total_seconds()) for datapoint in answer["Datapoints"]]

    def notify_of_idle(self, folder: Folder, idle: str, count: int) -> None:
        """Notify users of nodes that are billed but idle, with their cost per hour, once a day."""
        usd_per_hour = None if self.settings.usd_per_node_hour is None else self.rate * count
        folder.notify_of_idle(self.now, self.notify, idle, usd_per_hour, self.settings.cluster)

    @property
    def node_tags(self) -> Mapping[str, str]:
        """The tags by which the guard finds the compute nodes."""
        if self.own_templates:
            return {"slipway:cluster": self.settings.cluster, "slipway:machine": "node"}
        return {"parallelcluster:cluster-name": self.settings.name, "parallelcluster:node-type": "Compute"}

    def nodes(self) -> list[Node]:
        """The running compute nodes."""
        return self.instances("running")

    def instances(self, *states: str, tags: Mapping[str, str] | None = None) -> list[Node]:
        """The compute nodes in these states, or instances with other tags, as EC2 describes them."""
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in (tags or self.node_tags).items()]
        filters.append({"Name": "instance-state-name", "Values": list(states)})
        pages = self.ec2.get_paginator("describe_instances").paginate(Filters=filters)
        return [node for page in pages for group in page["Reservations"] for node in group["Instances"]]

    def deployed_at(self) -> datetime:
        """When the stack was last changed: the time to live and the estimated spend count from there.

        A change that was rolled back or is still in progress does not count.
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
        """When the stack was created: the spending limit counts from there."""
        created: datetime = self.stack()["CreationTime"]
        return created

    def stack(self) -> Mapping[str, Any]:
        """The cluster's stack as CloudFormation describes it."""
        (stack,) = self.cloudformation.describe_stacks(StackName=self.settings.stack)["Stacks"]
        description: Mapping[str, Any] = stack
        return description

    def figures(self, count: int | None, began: datetime | None) -> dict[str, float]:
        """Count this check, and return its metrics: nodes, node-hours, and their cost if the rate is known.

        If nodes cannot be counted, the spend towards the limit counts all nodes of the plan.
        """
        limit, quoted, state = self.settings.sum, self.settings.usd_per_node_hour, self.state
        values = {} if count is None else {"RunningNodes": float(count)}
        usd = 0.0
        if limit is not None:
            usd = values[DOLLARS] = self.usd_per_check(limit.nodes if count is None else count)
        if state is not None:
            if limit is not None and began is not None and not state.checks:
                self.attempt("date its first count", lambda: self.notify_of_first_count(limit, began))
            above = (count or 0) * (self.rate - (quoted or 0.0)) * (EVERY / HOUR)
            job = self.settings.job
            job_usd = 0.0 if job is None else job.cost((count or 0) * (EVERY / HOUR), self.rate)
            dollars = {"usd": usd, "above_usd": above, "job_usd": job_usd}
            state.count(self.scheduled, nodes=count, hours=EVERY / HOUR, began=began, **dollars)
            self.attempt("store its state", self.store)
            if count is not None and began is not None:
                values["NodeHours"] = state.node_hours
                if quoted is not None:
                    values["EstimatedSpend"] = state.node_hours * quoted + state.above_usd
        return values

    def notify_of_first_count(self, limit: Sum, began: datetime) -> None:
        """Notify users if the cluster is older than the count of its cost, which nothing continues."""
        if began - self.made_at() >= HOUR:
            self.notify("the spending limit counts from now", limit.first_words(self.made_at(), self.settings.cluster))

    @property
    def spent(self) -> float:
        """The cost that counts towards the limit: without an up-to-date state at least what runs has cost."""
        counted = 0.0 if self.state is None else self.state.spent_usd
        return counted if self.state is not None and self.stored else max(counted, self.least_usd)

    def report(self, values: Mapping[str, float]) -> None:
        """Record this check's values under its scheduled time, as the guard's heartbeat."""
        dimensions = [{"Name": "Cluster", "Value": self.settings.cluster}]
        data = [
            {"MetricName": name, "Dimensions": dimensions, "Timestamp": self.scheduled, "Value": value}
            for name, value in values.items()
        ]
        if data:
            self.cloudwatch.put_metric_data(Namespace=NAMESPACE, MetricData=data)
        print(json.dumps({"cluster": self.settings.cluster, **values}))  # noqa: T201 - the function's log

    def usd_per_check(self, count: int) -> float:
        """The cluster's cost between two checks: nodes at `rate`, everything else as quoted."""
        limit = self.settings.sum
        an_hour = count * self.rate + (limit.other_usd_per_hour if limit is not None else 0.0)
        return an_hour * (EVERY / HOUR)

    def watch_sum(self, count: int | None) -> None:
        """Notify the job to save and exit while the limit still pays for that, and end its nodes after that time."""
        limit = self.settings.sum
        if limit is None:
            return
        spent, rate = self.spent, self.rate
        if not limit.is_reached(spent, rate, count or 0):
            return
        words = limit.words(spent, 0.0 if self.state is None else self.state.above_usd)
        reason = f"{words}. {GO_ON}"
        if limit.uri is None:
            self.attempt("end what serves requests", lambda: self.end_service(reason, count))
            return
        word = self.attempt("tell the job to stop", lambda: request_stop(self.client("s3"), limit, spent, self.now))
        if word is None:
            # The job gets no request to stop. Its nodes end when the budget left covers only their end.
            if limit.is_reached(spent, rate, count or 0, late=True):
                why = self.failures[-1].words.partition("\n")[0]
                self.end(f"{words}; the guard {why}. {GO_ON}", count, BUDGET)
            return
        notified_at, first = word
        if first:
            minutes = round(limit.settle.total_seconds() / 60)
            self.notify(
                "stopped at the budget",
                f"{reason}: it can resume from its last checkpoint.\nIts job is asked to save and end, and does "
                f"not restart; {its(count, 'nodes', 'end')} in {minutes} minutes.",
            )
        elif self.now >= notified_at + limit.settle and count != 0:
            self.end(reason, count, BUDGET)

    def end_service(self, reason: str, count: int | None) -> None:
        """End the service that handles requests, for targets that have one."""
        self.end(reason, count)

    def watch_time(self, began: datetime, count: int | None) -> None:
        """Warn before the end of the cluster's time to live, and stop it from then on after every new start."""
        if self.settings.ttl is None:
            return
        end = began + self.settings.ttl
        hours = self.settings.ttl / timedelta(hours=1)
        if end - WARNING <= self.now < end - WARNING + EVERY:
            consequence = self.prepaid if self.settings.prepaid else "its nodes are stopped then"
            self.notify(
                "time to live ends soon", f"{its(hours, 'hours', 'end')} at {end:%Y-%m-%d %H:%M} UTC; {consequence}"
            )
        if self.now >= end and not self.settings.prepaid:
            self.end(f"{its(hours, 'hours', 'have')} ended", count, TIME_LIMIT)

    def all_idle(self, nodes: list[Node]) -> bool:
        """Whether every node was inactive for the idle time, if one is set; False while a node is too new to judge."""
        if not self.settings.idle:
            return False
        return self.are_idle(nodes, self.settings.idle + AFTER_SLURM)

    def are_idle(self, nodes: list[Node], window: timedelta) -> bool:
        """Whether EC2's metrics show no activity on any node for that window."""
        if not nodes or any(self.now - node["LaunchTime"] < window for node in nodes):
            return False
        since, values = self.now - window, self.values(nodes)
        return all(is_idle(node, values.get(node["InstanceId"], {}), since, self.now) for node in nodes)

    def has_measured(self, nodes: list[Node]) -> bool:
        """Whether metrics that no job of another cluster can write would contradict false heartbeats."""
        return any("CpuOptions" in node for node in nodes)

    def active(self, nodes: list[Node], window: timedelta) -> bool:
        """Whether AWS's metrics show activity on a node in that window, except its first minutes.

        AWS has no metrics of HyperPod's instances: False.
        """
        nodes = [node for node in nodes if "CpuOptions" in node]
        values, since = self.values(nodes), self.now - window + EVERY
        return any(is_active(node, values.get(node["InstanceId"], {}), since) for node in nodes)

    def values(self, nodes: list[Node]) -> Values:
        """AWS's metrics of each node over the longest window in use, read once per check because each one is billed."""
        if self.samples is None:
            since = self.now - max(self.settings.idle + AFTER_SLURM, self.settings.hung)
            chunks = (nodes[start : start + NODES_A_CALL] for start in range(0, len(nodes), NODES_A_CALL))
            self.samples = {key: series for chunk in chunks for key, series in self.chunk(chunk, since).items()}
        return self.samples

    def chunk(self, nodes: list[Node], since: datetime) -> Values:
        """AWS's metrics of as many nodes as one call accepts."""
        queries = [
            query(f"m{index}_{metric}", metric, statistic, node["InstanceId"], *self.measures)
            for index, node in enumerate(nodes)
            for metric, statistic in self.statistics.items()
        ]
        pages = self.cloudwatch.get_paginator("get_metric_data").paginate(
            MetricDataQueries=queries, StartTime=since, EndTime=self.now
        )
        values: Values = {node["InstanceId"]: {metric: [] for metric in self.statistics} for node in nodes}
        for page in pages:
            for result in page["MetricDataResults"]:
                index, _, metric = result["Id"][1:].partition("_")
                times = zip(result["Timestamps"], result["Values"], strict=True)
                values[nodes[int(index)]["InstanceId"]][metric].extend(times)
        return values

    def stop(self, reason: str, count: int | None) -> None:
        """Request a stop of the compute fleet from ParallelCluster, as `pcluster update-compute-fleet` does; once."""
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
            self.end_remaining(status, moment_of(item["Data"]["M"].get("lastStatusUpdatedTime", {}).get("S")))
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
        self.notify_of_stop(
            "compute fleet stopped",
            reason,
            f"Its compute fleet is being stopped with {its(count, 'nodes')}; jobs return to the queue "
            "and wait.\n"
            f"Start it again: pcluster update-compute-fleet --cluster-name {self.settings.name}"
            f" --region {self.settings.region} --status START_REQUESTED\n"
            f"Head node, file systems and network are still billed: slipway down {self.settings.cluster}",
        )

    def end_remaining(self, status: str, since: datetime | None) -> None:
        """Terminate the remaining nodes of a stopped fleet by their tags, and notify every hour."""
        if since is not None and self.now - since < SETTLED:
            return
        ids = [node["InstanceId"] for node in self.nodes()]
        if not ids:
            return
        for start in range(0, len(ids), INSTANCES_A_CALL):
            self.ec2.terminate_instances(InstanceIds=ids[start : start + INSTANCES_A_CALL])
        if self.first("nodes stay", HOUR):
            self.notify(
                "nodes still run after the stop",
                f"{self.stopped} {status} since {since or 'an unknown time'} and still had {len(ids)} nodes:"
                f" {', '.join(ids[:10])}{' and more' if len(ids) > len(ids[:10]) else ''}. The guard terminates them"
                f" itself.{self.why_nodes_stay}",
            )

    def pass_on(self, event: Mapping[str, Any]) -> None:
        """Notify users of a notice for one of this cluster's nodes; notices come for every instance of the account."""
        instance = event["detail"]["instance-id"]
        answer = self.ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [instance]}])
        nodes = [node for group in answer["Reservations"] for node in group["Instances"]]
        tags = {tag["Key"]: tag["Value"] for node in nodes for tag in node.get("Tags", [])}
        if self.is_own(tags):
            self.notify("interruption notice", NOTICES[event["detail-type"]].format(instance=instance))

    def is_own(self, tags: Mapping[str, str]) -> bool:
        """Whether an instance with these tags belongs to the cluster."""
        if self.own_templates:
            return self.node_tags.items() <= tags.items()
        return tags.get("parallelcluster:cluster-name") == self.settings.name

    def announce(self, event: Mapping[str, Any]) -> None:
        """Notify users of an event."""
        self.notify(*event_text(event["detail-type"], event["detail"]))

    def notify_of_stop(self, subject: str, reason: str, text: str) -> None:
        """Notify users of stopped nodes, and record why for launches and `slipway status`."""
        if self.settings.folder is not None and not self.recorded:
            folder = Folder(self.client("s3"), self.settings.folder)
            self.attempt(
                "record why it stopped the nodes", lambda: self.record_stop(folder, reason, jobs_wait=self.jobs_wait)
            )
        # A reason with the lines of a node ends with a line of them.
        ends = "\n" if "\n" in reason else ". "
        self.notify(subject, f"{reason}{ends}{text}")

    def record_stop(self, folder: Folder, reason: str, *, jobs_wait: bool) -> None:
        """Record why nodes are stopped, once per check.

        Raises:
            ClientError: the store rejects it.
        """
        record_stop(folder, self.now, reason, self.cause, jobs_wait=jobs_wait)
        self.recorded = True

    def notify(self, subject: str, text: str) -> None:
        """Send a message to every topic."""
        message = f"cluster {self.settings.cluster} in {self.settings.region}: {text}"
        for topic in self.settings.topics:
            self.sns.publish(
                TopicArn=topic, Subject=f"slipway {self.settings.cluster}: {subject}"[:100], Message=message
            )
