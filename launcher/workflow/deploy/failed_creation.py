"""What a creation that failed has left: CloudFormation gives such a stack no outputs, and may not empty it itself.

PCS refuses to delete a cluster that has queues or node groups, for a while also after CloudFormation has deleted them
(awsome-distributed-ai, aws-pcs/docs/DEPLOY-TESTING.md): the rollback of a first deployment ends in ROLLBACK_FAILED, a
deletion in DELETE_FAILED.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from launcher.aws import stacks
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.rendering.names import TRAINING_STACK, stack_name
from launcher.targets.clusters import cluster_at
from launcher.targets.registry import TARGETS


def with_left_resources(session: Session, stack: StackState | None) -> StackState | None:
    """A stack; one without outputs gets those by which a removal recognizes it, by the resources that it still has."""
    if stack is None or stack.outputs:
        return stack
    by_type = {type_: output for target in TARGETS.values() for type_, output in target.left_resources.items()}
    left = {
        by_type[resource.type]: resource.physical_id.rpartition("/")[2]
        for resource in stacks.resources(session, stack.name)
        if resource.type in by_type and resource.physical_id and resource.status != stacks.REMOVED
    }
    return replace(stack, outputs=left)


def empty_failed_creation(
    plan: Plan, session: Session, notify: Notify, pause: Callable[[float], None] = time.sleep
) -> None:
    """Empty the stack of a first deployment that failed, which the CDK deletes before it creates it again.

    Raises:
        DeploymentFailedError: a resource remains.
    """
    if not TARGETS[plan.place.target].left_resources:
        return
    stack = stacks.find(session, stack_name(plan, TRAINING_STACK))
    if stack is None or stack.status not in stacks.NOT_MADE:
        return
    left = with_left_resources(session, stack)
    if left is not None and left.outputs:
        cluster_at(plan.place.target).empty(session, left.outputs, notify, pause)
