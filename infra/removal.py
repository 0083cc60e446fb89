"""What to type to remove a plan's stacks by hand; the app prints it at every synthesis, also for `destroy`."""

from launcher.model.plan import Plan
from launcher.targets.registry import target_of


def removal_note(plan: Plan) -> str | None:
    """The command that the removal by hand needs besides `cdk destroy`; None if it needs none.

    EKS writes its log group again after the cluster is gone, and CloudFormation does not create a group that exists.
    """
    request, target = plan.request, target_of(plan.place.target)
    if request.workload.serve is not None or request.target.cluster is not None:
        return None
    name, region = plan.cluster_name, plan.place.region
    if not target.removed_by_cdk:
        command = f"slipway down {name} --region {region}"
        ends = f"cdk destroy, and the rollback of a first cdk deploy, end in a FAILED state on {target.short}"
        return f"{ends}; remove with: {command}"
    if target.pods:
        group = f"/aws/eks/slipway-{name}/cluster"
        command = f"aws logs delete-log-group --region {region} --log-group-name {group}"
        return f"EKS writes a log group after cdk destroy, which blocks the next cdk deploy of this name: {command}"
    return None
