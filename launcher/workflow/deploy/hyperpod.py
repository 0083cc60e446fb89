"""What HyperPod asks of the workflow: its training plan is looked at first, and its controller is found for jobs."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from launcher.aws import hyperpod
from launcher.aws.calls import forbidden
from launcher.aws.hyperpod import TrainingPlanState
from launcher.aws.session import Session
from launcher.aws.training_plans import TARGET
from launcher.model.enums import PurchaseOption
from launcher.model.errors import AwsError, DeploymentFailedError, ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import CONTROLLER, is_prepaid, ml_name
from launcher.model.plan import Plan
from launcher.records.submission import HeadNode
from launcher.rendering.cluster import cluster_name, queue_name
from launcher.rendering.hyperpod import SHARED_HOME, USER
from launcher.rendering.slurm_job import BATCH_FILE
from launcher.submit.session import connect_command, missing_program

SAME_MOMENT = timedelta(minutes=1)
USABLE = ("Scheduled", "Active")
"""States of a training plan that instances can be taken from, now or later."""


def refuse_job(plan: Plan, environment: Mapping[str, str]) -> None:
    """Go on only with a plan whose job can be submitted from here: before anything is deployed.

    Raises:
        ImpossibleError: the job is for HyperPod, and no way leads there; the hint says how to do it by hand.
    """
    if plan.request.target.ssh_host is not None:
        return
    if plan.request.target.cluster is not None:
        message = f"target.cluster: jobs for a HyperPod cluster of another plan are not sent, got {plan.cluster_name}"
        raise ImpossibleError(message, hint="launch with the cluster's own plan, or name its login node in ssh_host")
    lacking = missing_program(environment)
    if lacking is not None:
        name, region = cluster_name(plan), plan.place.region
        target = f"sagemaker-cluster:ID_{CONTROLLER}-INSTANCE"
        by_hand = f"{connect_command(target, region)}; sbatch job.sbatch"
        hint = f"install it; or slipway deploy FILE, and by hand on {name}: {by_hand}"
        message = f"{lacking} is not installed, and jobs reach HyperPod through sessions of Systems Manager alone"
        raise ImpossibleError(message, hint=hint)


def controller(_plan: Plan, outputs: Mapping[str, str], session: Session) -> HeadNode:
    """The controller of a cluster that was deployed, by the outputs of its training stack.

    Raises:
        DeploymentFailedError: no controller runs.
        AwsError: it cannot be asked for.
    """
    found = hyperpod.instances(session, outputs["ClusterName"], CONTROLLER)
    if not found:
        raise DeploymentFailedError(f"no controller of {outputs['ClusterName']} runs")
    target = f"sagemaker-cluster:{outputs['ClusterId']}_{CONTROLLER}-{found[0]}"
    return HeadNode(via="session", instance=target, region=outputs["Region"], user=USER)


def words(plan: Plan, head: str, machines: str) -> str:
    """What a deployment makes of the cluster, in a line."""
    return f"HyperPod cluster {plan.cluster_name}: controller ml.{head}, workers {machines}, up from the start"


def ways_in(plan: Plan, outputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Commands into the cluster, each with what it is for: its machines are reached by sessions alone."""
    found = [
        ("shell on the controller", f"{outputs['Connect']}, there: sudo su - {USER}"),
        ("a shell on a worker, there", f"srun --partition {queue_name(plan.place.instance_type)} --nodes 1 --pty bash"),
    ]
    if plan.request.workload.train is not None:
        found.append(
            (
                "the job, there",
                f"sbatch {BATCH_FILE}   (in a folder of {SHARED_HOME}; slipway render FILE -o DIR writes it)",
            )
        )
    if not is_prepaid(plan.place.option):
        found.append(("workers again, after a stop", "the command in StartFleet, above"))
    return found


def start(outputs: Mapping[str, str], session: Session, tell: Callable[[str], None]) -> None:
    """Have the workers come again where the guard has deleted them, as the output StartFleet says.

    Raises:
        AwsError: a call failed for another reason than that these credentials may not make it.
    """
    words = shlex.split(outputs["StartFleet"])
    given = dict(zip(words[3::2], words[4::2], strict=True))
    cluster, groups = given["--cluster-name"], json.loads(given["--instance-groups"])
    try:
        if hyperpod.start_workers(session, cluster, groups):
            tell(f"the workers of {cluster} were stopped: starting them, billed from now on")
    except AwsError as problem:
        if not forbidden(problem):
            raise
        tell(f"whether the workers of {cluster} are stopped cannot be seen with these credentials")


def refuse_unless_training_plan_fits(plan: Plan, session: Session, now: datetime) -> None:
    """Go on only with a training plan that holds what the plan file says of it: only AWS can tell.

    Raises:
        ImpossibleError: it does not, with all reasons.
        AwsError: it cannot be described.
    """
    bought = plan.request.purchase.training_plan
    if plan.place.option is not PurchaseOption.TRAINING_PLAN or bought is None:
        return
    found = tuple(training_plan_findings(plan, hyperpod.describe_training_plan(session, bought.arn), now))
    if found:
        raise ImpossibleError(f"{bought.arn} does not fit {plan.name}", findings=found)


def training_plan_findings(plan: Plan, state: TrainingPlanState, now: datetime) -> Iterator[Finding]:
    """What a training plan lacks of what is to run on it."""
    path, place = "purchase.training_plan", plan.place
    if state.status not in USABLE:
        message = f"the training plan is {state.status}, allowed: {', '.join(USABLE)}"
        yield error("training-plan-status", f"{path}.arn", message, "name one that is paid for and not over")
    if state.targets and TARGET not in state.targets:
        message = f"the training plan is for {', '.join(sorted(state.targets))}, not for {TARGET}"
        yield error("training-plan-for", f"{path}.arn", message, f"buy one with target {TARGET}: they do not change")
    wanted = ml_name(place.instance_type)
    if state.types and wanted not in state.types:
        message = f"the training plan has {', '.join(sorted(state.types))}, the plan file asks for {wanted}"
        yield error("training-plan-type", "target.instance_type", message, "take the type that was bought")
    if place.nodes > state.instances:
        message = f"{place.nodes} nodes, but the training plan has {state.instances}"
        yield error("training-plan-count", "target.nodes", message, f"take at most {state.instances}")
    if state.zones and place.az_id not in state.zones:
        got, zones = place.az_id or "any zone", ", ".join(sorted(state.zones))
        message = f"the training plan is in {zones}, the plan file is for {got}"
        yield error("training-plan-zone", "target.az_id", message, f"set target.az_id to {zones}")
    if state.ends_at is not None and state.ends_at <= now:
        yield error(
            "training-plan-over", f"{path}.ends_at", f"the training plan ended at {state.ends_at:%Y-%m-%d %H:%M}"
        )
    yield from _window_findings(plan, state)


def _window_findings(plan: Plan, state: TrainingPlanState) -> Iterator[Finding]:
    """A window in the plan file that is not the training plan's: the price and the jobs' last save rest on it."""
    bought = plan.request.purchase.training_plan
    pairs = (
        ("starts_at", None if bought is None else bought.starts_at, state.starts_at),
        ("ends_at", None if bought is None else bought.ends_at, state.ends_at),
    )
    for name, planned, known in pairs:
        if planned is not None and known is not None and abs(planned - known) >= SAME_MOMENT:
            message = f"the training plan's {name} is {known:%Y-%m-%dT%H:%MZ}, got {planned:%Y-%m-%dT%H:%MZ}"
            path, fix = f"purchase.training_plan.{name}", f"set it to {known:%Y-%m-%dT%H:%M:%SZ}"
            yield error("training-plan-window", path, message, fix)
