"""The head node of an existing cluster: it retains its type, even if a new cluster would get another one."""

from launcher.aws import stacks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.errors import AwsError
from launcher.model.plan import Plan
from launcher.model.target import Runs, target_of
from launcher.model.update import Updates
from launcher.rendering.names import stack_name
from launcher.targets.load import part


def existing_head_type(plan: Plan, session: Session) -> str | None:
    """The type of the existing head node, controller or system group of a plan's cluster; None if it has none.

    Raises:
        AwsError: a call failed, and missing permissions are not the reason.
    """
    target = plan.request.target
    if plan.request.storage.head_node is not None or target.cluster is not None or target.ssh_host is not None:
        return None
    if Runs.TRAINING not in target_of(plan.place.target).deployed:
        return None
    readers = part(plan.place.target, "updates", Updates).head_type
    try:
        name = stack_name(plan, Runs.TRAINING)
        if not readers or stacks.find(session, name) is None:
            return None
        resources = stacks.template(session, name).get("Resources", {}).values()
    except AwsError as problem:
        if forbidden(problem):
            return None
        raise
    heads = (readers[resource["Type"]](resource["Properties"]) for resource in resources if resource["Type"] in readers)
    return next((head for head in heads if head is not None), None)
