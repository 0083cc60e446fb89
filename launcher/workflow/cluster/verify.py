"""Reads a deployment back through each service's API and compares it with the plan."""

from collections.abc import Callable, Iterable
from decimal import Decimal

from launcher.aws import stacks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.endpoint import Endpoint
from launcher.model.errors import AwsError, DeploymentFailedError
from launcher.model.plan import Plan
from launcher.rendering.names import SERVING_STACK, TRAINING_STACK
from launcher.targets.clusters import stacks_of
from launcher.workflow.cluster.readback import training
from launcher.workflow.cluster.readback.reading import QueueState, Reading, StackVerification
from launcher.workflow.cluster.readback.training import COMPLETE


def verify(
    plan: Plan,
    session: Session,
    names: Iterable[str],
    *,
    queues: Callable[[str], tuple[QueueState, ...]] | None,
    zone: str | None,
    usd_per_hour: Decimal | None,
    deployed_now: bool = True,
    endpoint: Endpoint | None = None,
    max_usd: Decimal | None = None,
) -> StackVerification:
    """Compare deployed stacks with the plan, every resource of them.

    Args:
        plan: the deployed plan.
        session: of AWS or the sandbox.
        names: the stacks' names.
        queues: reads the queues of a cluster from its scheduler; None if nothing answers.
        zone: the availability zone id of the plan's nodes.
        usd_per_hour: the quoted rate of all nodes that the stacks were deployed with.
        deployed_now: whether this plan was deployed just now; a cluster that existed before may carry another's digest.
        endpoint: the resolved endpoint of a serving plan; None for a cluster.
        max_usd: a limit below the plan's budget.max_usd that the stacks were deployed with; None without one.

    Raises:
        DeploymentFailedError: a resource is not as planned; the error lists every difference.
        AwsError: a call failed for another reason than a missing permission.
    """
    states = tuple(stacks.describe(session, name) for name in names)
    resources = tuple(resource for state in states for resource in stacks.resources(session, state.name))
    reading = Reading(
        plan=plan,
        session=session,
        zone=zone,
        usd_per_hour=usd_per_hour,
        deployed_now=deployed_now,
        main=next(stack for stack in states if stack.name.endswith((TRAINING_STACK, SERVING_STACK))),
        resources=resources,
        queues=queues,
        endpoint=endpoint,
        lower_usd=max_usd,
    )
    for state in states:
        reading.checks.holds(f"stack {state.name}", state.status in COMPLETE)
    if deployed_now:
        reading.checks.equal("plan digest", plan.digest, reading.main.outputs.get("PlanDigest"))
    unread = read_back(reading)
    _refuse(reading)
    return StackVerification(stacks=states, verified=tuple(reading.checks.agreed), unread=unread)


def verify_joined(plan: Plan, session: Session, stack: StackState) -> StackVerification:
    """Requirements of a job on a cluster that other plans deployed: complete, with open traffic among its nodes.

    Raises:
        DeploymentFailedError: a requirement is not met; the error lists every difference.
    """
    reading = Reading(
        plan=plan,
        session=session,
        zone=None,
        usd_per_hour=None,
        deployed_now=False,
        main=stack,
        resources=(),
        queues=None,
    )
    reading.checks.holds(f"stack {stack.name}", stack.status in COMPLETE)
    training.node_group(reading)
    _refuse(reading)
    return StackVerification(stacks=(stack,), verified=tuple(reading.checks.agreed), unread={})


def _refuse(reading: Reading) -> None:
    if reading.checks.wrong:
        listed = "\n".join(f"  {check}" for check in reading.checks.wrong)
        raise DeploymentFailedError(f"the deployment differs from the plan:\n{listed}")


def read_back(reading: Reading) -> dict[str, str]:
    """Run every reader whose types exist; return the types that no reader could read, with the reason."""
    created_types = {resource.type for resource in reading.resources} - {"AWS::CDK::Metadata"}
    unread = dict.fromkeys(created_types, "created, but Slipway has no check for it")
    for read, types in stacks_of(reading.plan.place.target).readers:
        if created_types.isdisjoint(types):
            continue
        try:
            read(reading)
        except AwsError as problem:
            if not forbidden(problem):
                raise
            unread.update(dict.fromkeys(created_types.intersection(types), f"not read back: {problem.message}"))
        else:
            for type_ in types:
                unread.pop(type_, None)
    return dict(sorted(unread.items()))
