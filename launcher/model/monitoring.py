"""Monitoring of a cluster, counted in one place: the templates create as many of each item as the bill prices."""

from enum import StrEnum

from launcher.model.instance_type import InstanceType
from launcher.model.request import NetworkRequest

GUARD_EVERY_MINUTES = 5
"""Minutes between two calls of the guard, the function that monitors a cluster (templates/guard/guard.py)."""
GUARD_AFTER_SLURM_MINUTES = 15
"""Minutes the guard waits past the idle time, since Slurm stops nodes first if it can (templates/guard/guard.py)."""
GUARD_MEMORY_MB = 256
CHART_MEMORY_MB = 1024
"""Memory of the function that installs HyperPod's chart, and counts pods for the guard."""
COUNTER_MEMORY_MB = 256
"""Memory of the function that only counts pods, on EKS."""
NAMESPACE = "Slipway"
"""The CloudWatch namespace of the guards' metrics (templates/guard/schedule.py). Roles of nodes may not write to it."""
GUARD_METRICS = ("RunningNodes", "NodeHours")
"""Custom metrics that the guard reports of a cluster."""
SPEND_METRIC = "EstimatedSpend"
"""An additional metric, if the rate of a node-hour is known."""
DOLLARS_METRIC = "DollarsPerLook"
"""An additional metric if the guard ends the job at a spending limit (templates/guard/budget.py)."""
FAILED_CALLS = "Errors"
"""Lambda's own metric of guard calls that could not complete their work."""
NODE_METRICS = ("AcceleratorUtilization", "AcceleratorMemoryUsed", "AcceleratorErrors")
"""Custom metrics of each node with accelerators (templates/parallelcluster/metrics.py)."""
NODE_REPORTS_PER_HOUR = 60
"""Reports of a node an hour; one call carries all three metrics."""
JOB_METRICS = 1
"""Custom metrics of a cluster that nodes report while Slurm runs a job on them, from any submitter."""
JOB_REPORTS_PER_HOUR = 12
IDLE_METRICS = 3
"""Values that the guard requests from CloudWatch, for each node at each call: processor, bytes in, bytes out."""
HEAD_NODE_ALARMS = ("Health", "Cpu", "Mem", "Disk", "ClustermgtdHeartbeat")
"""Alarms that ParallelCluster sets on its head node, joined by one composite alarm (aws-parallelcluster 3.16.1,
templates/cluster_stack.py)."""
HEAD_NODE_METRICS = 4
"""Custom metrics of the head node: memory, and disk under two sets of dimensions, by the CloudWatch agent
(aws-parallelcluster-cookbook, pull request 1732), and the heartbeat of the scheduler's daemon (cluster_stack.py)."""
HEAD_NODE_REPORTS_PER_HOUR = 60
DASHBOARDS = 1
DNS_ZONES = 1
"""Private hosted zones of ParallelCluster, for the names of the nodes."""
ACCESS_LOG_DAYS = 90
"""Days for which the access log of the checkpoint bucket is retained."""
STORE_TAG = "slipway"
"""The tag of stored checkpoints, and its values: superseded checkpoints expire, kept ones stay."""
SUPERSEDED, KEPT = "superseded", "kept"
JOBS_PREFIX = "jobs"
"""The prefix of jobs in a cluster's bucket."""
STAGED_FOLDER = ".work"
"""Below the jobs' prefix: archives of the user's folder and of job folders, on their way to a cluster."""
JOURNAL_FOLDER = ".runs"
"""Among the checkpoints of a plan: the event log of jobs whose nodes share no folder."""
COMPILED_FOLDER = ".compile-cache"
"""Next to the plans' folders: compiled programs, which all jobs of a cluster share."""
BUDGET_FOLDER = ".budget"
"""Next to the plans' folders: the guard's notification to its job that the budget is used up."""
GUARD_FOLDER, MESSAGE_FOLDER, SENT_FOLDER = ".guard", "messages", "sent"
"""Next to them: each guard's own folder (templates/guard/job_messages.py), and in it the messages of jobs for users,
and the guard's marks of sent notifications."""
GUARD_STATES = "/slipway"
"""Begins the names of the guards' parameters in Systems Manager; the stack's name follows."""
BOOTS_FOLDER, GUARD_STOP = "boots", "stopped.json"
FAILED_BOOT = "-failed.txt"
"""The end of the keys of failed boots (templates/slurm/report_boot.sh)."""
"""Below the messages: how the boots of nodes ended. Among the marks: why the guard stopped nodes
(templates/guard/boots.py)."""
STAGED_DAYS, RESENT_DAYS = 30, 14
"""Days until such an archive expires, and until Slipway uploads an existing archive again: the difference is the
minimum time for which a job may wait in its queue."""
SUPERSEDED_DAYS = 1
"""Days from the writing of a checkpoint to its expiry, once superseded by newer ones; S3 rounds up to midnight."""


class Alarm(StrEnum):
    """The alarms that a cluster's own stack sets."""

    SILENT = "Silent"
    FAILING = "Failing"
    SPEND = "Spend"


def nodes_namespace(cluster: str) -> str:
    """The namespace of the metrics of a cluster's nodes: IAM allows metrics by namespace only, hence one per cluster.

    >>> nodes_namespace("tiny")
    'Slipway/Nodes/tiny'
    """
    return f"{NAMESPACE}/Nodes/{cluster}"


def alarms(*, budgeted: bool, rated: bool) -> tuple[Alarm, ...]:
    """The alarms of a cluster; the one on spending needs a budget and the rate of a node-hour.

    >>> [str(each) for each in alarms(budgeted=True, rated=True)]
    ['Silent', 'Failing', 'Spend']
    """
    always = (Alarm.SILENT, Alarm.FAILING)
    return (*always, Alarm.SPEND) if budgeted and rated else always


def guard_metrics(*, rated: bool, stops: bool = False) -> tuple[str, ...]:
    """The custom metrics that the guard reports; `stops` means that the guard ends the job at a spending limit.

    >>> guard_metrics(rated=False)
    ('RunningNodes', 'NodeHours')
    """
    return (*GUARD_METRICS, *((SPEND_METRIC,) if rated else ()), *((DOLLARS_METRIC,) if stops else ()))


def node_metrics(facts: InstanceType) -> tuple[str, ...]:
    """The custom metrics that a node of a type reports: none without accelerators."""
    return NODE_METRICS if facts.accelerator is not None else ()


def nat_zones(network: NetworkRequest, zone: str | None) -> tuple[str | None, ...]:
    """The zone of each NAT gateway or NAT instance of a new network; empty for an existing network.

    `zone`: that of the cluster's capacity; None if the region's first is used.

    >>> nat_zones(NetworkRequest(name="team", az_ids=("use2-az1", "use2-az3")), "use2-az3")
    ('use2-az1',)
    """
    if network.vpc_id is not None:
        return ()
    return (network.az_ids[0] if network.az_ids else zone,)
