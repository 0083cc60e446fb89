# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of SageMaker training jobs: its differences from a cluster's guard.

Their nodes start and end with a job, so nothing is ever idle: the guard stops jobs if their time or budget is used up.
SageMaker bills from Downloading on; a job that waits for capacity has no nodes. The guard also sets the retention of
the log group that all training jobs of the account write to.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from guard import Guard, Node, Settings, aws, its, respond
from idleness import STATISTICS

TAG = "slipway:cluster"
UNBILLED = {"Starting", "Pending", "LaunchingMLInstances", "PreparingTrainingStack", "Interrupted"}
"""Secondary states (botocore 1.44.5, SecondaryStatus) in which a job has no instances yet, or no longer."""
RUNNING = "InProgress"
METRICS = "/aws/sagemaker/TrainingJobs"
"""SageMaker's own metrics of training jobs, one series for each `Host`, such as `job/algo-1` (developer guide,
SageMaker AI job metrics): CPUUtilization is the sum over the cores, 100 for one that is busy."""
ONE_VCPU = {"CoreCount": 1, "ThreadsPerCore": 1}
"""With it 100 percent of CPUUtilization count as one busy vCPU."""


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    settings = Settings.of({**os.environ, "HYPERPOD": os.environ["TRAINING_JOBS"]})
    respond(TrainingJobGuard(settings, aws, datetime.now(UTC)), event, context)


class TrainingJobGuard(Guard):
    """One call of the guard of a plan's training jobs."""

    slurm = False
    boots_watched = False
    jobs_wait = False
    prepaid = "the instances of a training plan are left"
    measures = (METRICS, "Host")
    statistics: Mapping[str, str] = {"CPUUtilization": STATISTICS["CPUUtilization"]}

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        super().__init__(settings, client, now)
        self.sagemaker, self.logs = client("sagemaker"), client("logs")

    def watch(self) -> None:
        """Set the retention of the log group, then check the jobs.

        Raises:
            GuardError: a step failed; the other steps were done.
        """
        self.attempt("set the retention of its log group", self.set_retention)
        super().watch()

    def set_retention(self) -> None:
        """Set a retention if the log group has none, and only while no event in it is older than that retention.

        Other teams write to the same group: an existing retention is not changed, and no event is deleted immediately.

        Raises:
            ClientError: CloudWatch Logs refuses.
        """
        name, days = os.environ["LOG_GROUP"], int(os.environ["LOG_RETENTION_DAYS"])
        groups = self.logs.describe_log_groups(logGroupNamePrefix=name)["logGroups"]
        for group in groups:
            age = self.now - datetime.fromtimestamp(group["creationTime"] / 1000, UTC)
            unset = group["logGroupName"] == name and "retentionInDays" not in group
            if unset and age < timedelta(days=days):
                self.logs.put_retention_policy(logGroupName=name, retentionInDays=days)

    def jobs(self) -> list[Mapping[str, Any]]:
        """The plan's running jobs, by their tag."""
        pages = self.sagemaker.get_paginator("list_training_jobs").paginate(StatusEquals=RUNNING)
        jobs = []
        for summary in (listed for page in pages for listed in page["TrainingJobSummaries"]):
            tags = self.sagemaker.get_paginator("list_tags").paginate(ResourceArn=summary["TrainingJobArn"])
            if {"Key": TAG, "Value": self.settings.cluster} in [tag for page in tags for tag in page["Tags"]]:
                jobs.append(self.sagemaker.describe_training_job(TrainingJobName=summary["TrainingJobName"]))
        return jobs

    def nodes(self) -> list[Node]:
        """One entry for each billed instance, with the time from which SageMaker bills it."""
        billed = [job for job in self.jobs() if job["SecondaryStatus"] not in UNBILLED]
        return [
            {
                "InstanceId": f"{job['TrainingJobName']}/algo-{number}",
                "LaunchTime": job.get("TrainingStartTime", job["CreationTime"]),
                "CpuOptions": ONE_VCPU,
            }
            for job in billed
            for number in range(1, job["ResourceConfig"]["InstanceCount"] + 1)
        ]

    def has_measured(self, nodes: list[Node]) -> bool:
        """Whether SageMaker's metrics of a node exist: a role may lack the right to write them."""
        return any(self.values(nodes)[node["InstanceId"]]["CPUUtilization"] for node in nodes)

    def all_idle(self, _nodes: list[Node]) -> bool:
        """Never: the nodes end with their job."""
        return False

    def stop(self, reason: str, count: int | None) -> None:
        """Stop every job: SageMaker sends SIGTERM, and ends the containers 120 seconds later.

        Raises:
            ClientError: SageMaker refuses.
        """
        names = [job["TrainingJobName"] for job in self.jobs()]
        for name in names:
            self.sagemaker.stop_training_job(TrainingJobName=name)
        if names:
            self.notify_of_stop(
                "training job stopped",
                reason,
                f"{', '.join(names)} is being stopped with {its(count, 'instances')}: it saves and "
                "ends. Launch the plan again to resume.",
            )
