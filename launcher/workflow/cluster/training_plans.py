"""A purchased training plan, compared with the plan file."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from launcher.aws import training_plan_state
from launcher.aws.session import Session
from launcher.aws.training_plan_state import TrainingPlanState
from launcher.model.endpoint import most_instances
from launcher.model.enums import PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.finding import Finding, error
from launcher.model.hyperpod import ml_name
from launcher.model.plan import Plan
from launcher.model.units import number_of
from launcher.targets.registry import target_of

SAME_MOMENT = timedelta(minutes=1)


def refuse_unless_training_plan_fits(plan: Plan, session: Session, now: datetime) -> None:
    """Refuse unless the training plan is as the plan file says, which only AWS knows.

    Raises:
        ImpossibleError: it is not; the error lists all reasons.
        AwsError: it cannot be read.
    """
    bought = plan.request.purchase.training_plan
    if plan.place.option is not PurchaseOption.TRAINING_PLAN or bought is None:
        return
    findings = tuple(training_plan_findings(plan, training_plan_state.describe_training_plan(session, bought.arn), now))
    if findings:
        raise ImpossibleError(f"{bought.arn} does not fit {plan.name}", findings=findings)


def training_plan_findings(plan: Plan, state: TrainingPlanState, now: datetime) -> Iterator[Finding]:
    """What a training plan lacks for its job."""
    path, place = "purchase.training_plan", plan.place
    target_facts = target_of(place.target)
    if state.status not in target_facts.plan_states:
        message = f"the training plan is {state.status}, allowed: {', '.join(target_facts.plan_states)}"
        hint = "set the ARN of a training plan that is paid for and has not ended"
        if state.status == "Scheduled" and state.starts_at is not None:
            hint = f"deploy from {state.starts_at:%Y-%m-%dT%H:%M:%SZ} on, when it is Active"
        yield error("training-plan-status", f"{path}.arn", message, hint)
    target = target_facts.planned_for
    if state.targets and target not in state.targets:
        message = f"the training plan is for {', '.join(sorted(state.targets))}, not for {target}"
        yield error(
            "training-plan-for",
            f"{path}.arn",
            message,
            f"buy a training plan with target {target}: the target cannot be changed",
        )
    instance_type = ml_name(place.instance_type)
    if state.types and instance_type not in state.types:
        message = f"the training plan has {', '.join(sorted(state.types))}, the plan file asks for {instance_type}"
        yield error(
            "training-plan-type", "target.instance_type", message, "set target.instance_type to the purchased type"
        )
    serve = plan.request.workload.serve
    wanted = place.nodes if serve is None else most_instances(serve, place.nodes)
    if wanted > state.instances:
        key = "target.nodes" if serve is None else "workload.serve.max_instances"
        message = f"{number_of(wanted, 'instance')} requested, but the training plan has {state.instances}"
        yield error("training-plan-count", key, message, f"set {key} to at most {state.instances}")
    if state.zones and place.az_id not in state.zones and target_facts.trains:
        got, zones = place.az_id or "any zone", ", ".join(sorted(state.zones))
        message = f"the training plan is in {zones}, the plan file is for {got}"
        yield error("training-plan-zone", "target.az_id", message, f"set target.az_id to {zones}")
    if state.ends_at is not None and state.ends_at <= now:
        yield error(
            "training-plan-over", f"{path}.ends_at", f"the training plan ended at {state.ends_at:%Y-%m-%d %H:%M}"
        )
    yield from _window_findings(plan, state)


def _window_findings(plan: Plan, state: TrainingPlanState) -> Iterator[Finding]:
    """A time window in the plan file that differs from the training plan's; price and last checkpoint depend on it."""
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
