"""The head node of an existing cluster: it retains its type, even if a new cluster would get another one."""

from launcher.aws import stacks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.errors import AwsError
from launcher.model.plan import Plan
from launcher.model.target import Runs
from launcher.rendering.names import stack_name
from launcher.targets.registry import target_of


def existing_head_type(plan: Plan, session: Session) -> str | None:
    """The type of the existing head node, controller or system group of a plan's cluster; None if it has none.

    Raises:
        AwsError: a call failed, and missing permissions are not the reason.
    """
    target = plan.request.target
    if plan.request.storage.head_node is not None or target.cluster is not None or target.ssh_host is not None:
        return None
    kind = target_of(plan.place.target)
    if Runs.TRAINING not in kind.deployed:
        return None
    try:
        name = stack_name(plan, Runs.TRAINING)
        if stacks.find(session, name) is None:
            return None
        resources = stacks.template(session, name).get("Resources", {}).values()
    except AwsError as problem:
        if forbidden(problem):
            return None
        raise
    heads = (kind.head_type(resource["Type"], resource.get("Properties", {})) for resource in resources)
    return next((head for head in heads if head is not None), None)
