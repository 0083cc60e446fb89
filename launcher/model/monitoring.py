"""Monitoring of a cluster, counted once: the templates create as many of each as the bill prices."""

from enum import StrEnum

from launcher.model.instance_type import InstanceType
from launcher.model.request import NetworkRequest

GUARD_EVERY_MINUTES = 5
"""Between two calls of the guard, the function that watches a cluster (templates/guard/guard.py)."""
GUARD_AFTER_SLURM_MINUTES = 15
"""That the guard waits past the idle time, since Slurm stops nodes first where it can (templates/guard/guard.py)."""
GUARD_MEMORY_MB = 256
CHART_MEMORY_MB = 1024
"""Of the function that installs HyperPod's chart, and counts pods for the guard."""
COUNTER_MEMORY_MB = 256
"""Of the one that only counts pods, on EKS."""
GUARD_METRICS = ("RunningNodes", "NodeHours")
"""Custom metrics that the guard reports of a cluster."""
SPEND_METRIC = "EstimatedSpend"
"""One more, where the rate of a node-hour is known."""
DOLLARS_METRIC = "DollarsPerLook"
"""And one where it ends the job at a sum (templates/guard/budget.py)."""
FAILED_CALLS = "Errors"
"""Lambda's own metric of the guard's calls that could not do all that they were to do."""
NODE_METRICS = ("AcceleratorUtilization", "AcceleratorMemoryUsed", "AcceleratorErrors")
"""Custom metrics of each node with accelerators (templates/parallelcluster/metrics.py)."""
NODE_REPORTS_PER_HOUR = 60
"""How often a node reports them, all three in one call."""
JOB_METRICS = 1
"""Custom metrics of a cluster that nodes report while Slurm runs a job on them, whoever submitted it."""
JOB_REPORTS_PER_HOUR = 12
IDLE_METRICS = 3
"""Values the guard asks CloudWatch for, of each node at each call: processor, bytes in, bytes out."""
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
"""How long the log of requests to the checkpoint bucket is kept."""
STORE_TAG = "slipway"
"""The tag of stored checkpoints, and its values: what newer ones replace expires, what stays was found again."""
SUPERSEDED, KEPT = "superseded", "kept"
JOBS_PREFIX = "jobs"
"""Where in the bucket of a cluster its jobs write."""
STAGED_FOLDER = ".work"
"""Below the jobs' part of the store: archives of the user's folder and of job folders, on their way to a cluster."""
JOURNAL_FOLDER = ".runs"
"""Among the checkpoints of a plan: what happens to jobs whose nodes share no folder."""
COMPILED_FOLDER = ".compile-cache"
"""Beside the plans' folders: compiled programs, which all jobs of a cluster share."""
BUDGET_FOLDER = ".budget"
"""Beside them: the word of a cluster's guard to its job that the budget is used up."""
GUARD_FOLDER, WORD_FOLDER = ".guard", "trouble"
"""Beside them: each guard's own folder (templates/guard/trouble.py), and in it what jobs want people to hear."""
STAGED_DAYS, RESENT_DAYS = 30, 14
"""Days until such an archive expires, and until one that is there already is sent anew: the difference is the time for
which a job may at least wait in its queue."""
SUPERSEDED_DAYS = 1
"""Days from the writing of a checkpoint to its expiry, once newer ones have replaced it; S3 rounds up to midnight."""


class Alarm(StrEnum):
    """The alarms that a cluster's own stack sets."""

    SILENT = "Silent"
    FAILING = "Failing"
    SPEND = "Spend"


def alarms(*, budgeted: bool, rated: bool) -> tuple[Alarm, ...]:
    """The alarms of a cluster; the one on spending needs a budget and the rate of a node-hour.

    >>> [str(each) for each in alarms(budgeted=True, rated=True)]
    ['Silent', 'Failing', 'Spend']
    """
    always = (Alarm.SILENT, Alarm.FAILING)
    return (*always, Alarm.SPEND) if budgeted and rated else always


def guard_metrics(*, rated: bool, stops: bool = False) -> tuple[str, ...]:
    """The custom metrics that the guard reports; `stops` says that it ends the job at a sum.

    >>> guard_metrics(rated=False)
    ('RunningNodes', 'NodeHours')
    """
    return (*GUARD_METRICS, *((SPEND_METRIC,) if rated else ()), *((DOLLARS_METRIC,) if stops else ()))


def node_metrics(facts: InstanceType) -> tuple[str, ...]:
    """The custom metrics that a node of a type reports: none without accelerators."""
    return NODE_METRICS if facts.accelerator is not None else ()


def nat_zones(network: NetworkRequest, zone: str | None) -> tuple[str | None, ...]:
    """The zone of each NAT gateway of a network that is made; none in one that exists.

    `zone`: that of the cluster's capacity; None where the region's first is used.

    >>> nat_zones(NetworkRequest(name="team", az_ids=("use2-az1", "use2-az3")), "use2-az3")
    ('use2-az1',)
    """
    if network.vpc_id is not None:
        return ()
    return (network.az_ids[0] if network.az_ids else zone,)


def interface_endpoints(network: NetworkRequest) -> tuple[str, ...]:
    """The services with an interface endpoint in a network that is made, each in one zone; none in one that exists."""
    return network.endpoints if network.vpc_id is None else ()
