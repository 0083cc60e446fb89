# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""The guard of plain instances that run one job: a stop sets their Auto Scaling group to zero.

The instances end themselves after the job. The guard ends them when their time or budget is used up, and if they do
nothing for the idle time: then their program has failed. A lifecycle hook gives the job time to save.

The group replaces an instance that EC2 reclaims. The guard prices the job again at each interruption notice and for
each new instance, and sets the group to zero if the rest of the job no longer fits the budget (spot.py).
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from guard import BUDGET, Guard, Node, Settings, aws, its, respond
from spot import usd_per_node_hour
from state import State

RUN_TAG = "slipway:run"
"""The tag with an instance's job."""
RECLAIMED = "EC2 Spot Instance Interruption Warning"


def handler(event: Mapping[str, Any], context: Any) -> None:
    """The Lambda handler."""
    respond(InstanceGuard(Settings.of(os.environ), aws, datetime.now(UTC)), event, context)


class InstanceGuard(Guard):
    """One call of the guard of a job's instances, at the time `now`."""

    slurm = False
    boots_watched = False
    jobs_wait = False
    others = "on its instances"
    own_templates = True
    stopped = "its group has been"
    why_nodes_stay = ""

    def __init__(self, settings: Settings, client: Callable[[str], Any], now: datetime) -> None:
        """Use `client(service)` to reach AWS."""
        super().__init__(settings, client, now)
        self.scaling = client("autoscaling")

    def price_nodes(self, nodes: list[Node]) -> float:
        """As in `Guard`; also counts the job of these instances."""
        if self.state is not None:
            self.state.start_job(job_of(nodes))
        return super().price_nodes(nodes)

    def watch_new_nodes(self, nodes: list[Node]) -> None:
        """Set the group to zero if it has started an instance at a price at which the job no longer fits its budget.

        A refused instance stays a new one: the next check refuses it again, until it has ended.
        """
        if self.state is None or self.settings.job is None:
            return
        ids = sorted(node["InstanceId"] for node in nodes)
        if set(ids) - set(self.state.job_nodes):
            self.refuse_beyond_budget(self.state, self.rate, len(nodes))
        if not self.ended and ids != self.state.job_nodes:
            self.state.job_nodes = ids
            self.store()

    def pass_on(self, event: Mapping[str, Any]) -> None:
        """As in `Guard`; after a notice of the job's own instance the group may not replace it at every price."""
        super().pass_on(event)
        if event["detail-type"] != RECLAIMED or self.settings.job is None:
            return
        nodes = self.nodes()
        if event["detail"]["instance-id"] not in {node["InstanceId"] for node in nodes}:
            return
        state = State.read(self.ssm, self.settings.parameter)
        state.start_job(job_of(nodes))
        rate = usd_per_node_hour(self.ec2, nodes, self.rate, self.now)
        self.refuse_beyond_budget(state, rate, len(nodes))
        self.raise_failures()

    def refuse_beyond_budget(self, state: State, rate: float, count: int) -> None:
        """Set the group to zero if the rest of the job at this rate of a node does not fit its budget."""
        job, quoted = self.settings.job, self.settings.usd_per_node_hour or 0.0
        refusal = None if job is None else job.refusal(state, quoted, rate)
        if refusal is not None:
            self.end(refusal, count, BUDGET)

    def stop(self, reason: str, count: int | None) -> None:
        """Set the group to zero instances, once; later terminate remaining instances by their tags.

        Raises:
            ClientError: EC2 Auto Scaling refuses.
        """
        name = self.settings.name
        groups = self.scaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
        if not groups:
            return
        if not groups[0]["DesiredCapacity"]:
            self.end_remaining("set to zero", self.stopped_at())
            return
        self.scaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=0, HonorCooldown=False)
        self.notify_of_stop(
            "instances stopped",
            reason,
            f"{its(count, 'instances', 'are').capitalize()} being stopped: the job saves and ends. "
            "Launch the plan again to resume.",
        )

    def stopped_at(self) -> datetime | None:
        """When the group began to end its last instance; None if it did not."""
        answer = self.scaling.describe_scaling_activities(AutoScalingGroupName=self.settings.name, MaxRecords=20)
        begun = [each["StartTime"] for each in answer["Activities"] if each["Description"].startswith("Terminating")]
        moment: datetime | None = max(begun, default=None)
        return moment


def job_of(nodes: list[Node]) -> str:
    """The job of the newest of these instances."""
    newest = max(nodes, key=lambda node: (node["LaunchTime"], node["InstanceId"]))
    return next((tag["Value"] for tag in newest.get("Tags", []) if tag["Key"] == RUN_TAG), "")
