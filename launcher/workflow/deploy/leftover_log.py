"""The leftover log group of an EKS control plane: EKS writes after its cluster is gone, and creates it again.

CloudFormation makes the group of a cluster under a fixed name, and fails where there is one (terraform-aws-eks,
issues 2763 and 2446: EKS's service-linked role makes it; not seen here on AWS).
"""

from launcher.aws import eks, log_groups, stacks
from launcher.aws.session import Session
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.plan import Plan
from launcher.model.stages import Notify
from launcher.rendering.names import stack_name
from launcher.targets.registry import target_of

GIB = 2**30


def remove_leftover_log(plan: Plan, session: Session, notify: Notify) -> None:
    """Remove the control plane's log group of an earlier cluster of a plan, before a new cluster is deployed.

    The log group of an existing stack or cluster is left alone.

    Raises:
        ImpossibleError: the log group exists, and these credentials may not remove it.
    """
    if not target_of(plan.place.target).pods or plan.request.target.cluster is not None:
        return
    cluster = f"slipway-{plan.cluster_name}"
    name = log_groups.control_plane_group(cluster)
    log_group = next((group for group in log_groups.log_groups(session, name) if group.name == name), None)
    if log_group is None or stacks.find(session, stack_name(plan, "training")) or eks.describe(session, cluster):
        return
    try:
        log_groups.delete(session, name)
    except AwsError as problem:
        fix = f"aws logs delete-log-group --region {plan.place.region} --log-group-name {name}"
        message = (
            f"log group {name} of an earlier cluster blocks the deployment, and Slipway cannot remove it: "
            f"{problem.message}"
        )
        raise ImpossibleError(message, hint=fix) from problem
    size = f"{log_group.stored_bytes / GIB:.3f} GiB"
    notify(f"removed log group {name}, which EKS wrote after an earlier cluster was deleted ({size})")
