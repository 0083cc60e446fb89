"""The log group of an EKS control plane that was left: EKS writes once more after its cluster, and makes it anew.

CloudFormation makes the group of a cluster under a fixed name, and fails where there is one (terraform-aws-eks, issues
2763 and 2446: EKS's service-linked role makes it; not seen here on AWS).
"""

from launcher.aws import eks, log_groups, stacks
from launcher.aws.session import Session
from launcher.model.errors import AwsError, ImpossibleError
from launcher.model.plan import Plan
from launcher.model.stages import Tell
from launcher.model.target import target_of
from launcher.rendering.names import stack_name

GIB = 2**30


def remove_left_log(plan: Plan, session: Session, tell: Tell) -> None:
    """Remove what an earlier cluster of a plan has left of its control plane's log, before a new one is deployed.

    The group of a stack or of a cluster that stands is left alone.

    Raises:
        ImpossibleError: it is in the way, and these credentials may not remove it.
        AwsError: a call failed.
    """
    if not target_of(plan.place.target).pods or plan.request.target.cluster is not None:
        return
    cluster = f"slipway-{plan.cluster_name}"
    name = log_groups.of_control_plane(cluster)
    left = next((each for each in log_groups.log_groups(session, name) if each.name == name), None)
    if left is None or stacks.find(session, stack_name(plan, "training")) or eks.describe(session, cluster):
        return
    try:
        log_groups.delete(session, name)
    except AwsError as problem:
        fix = f"aws logs delete-log-group --region {plan.place.region} --log-group-name {name}"
        message = f"log group {name} of an earlier cluster is in the way, and cannot be removed: {problem.message}"
        raise ImpossibleError(message, hint=fix) from problem
    size = f"{left.stored_bytes / GIB:.3f} GiB"
    tell(f"removed log group {name}, which EKS wrote after an earlier cluster was gone ({size})")
