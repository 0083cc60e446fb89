"""What to type to deploy and remove a plan's stacks by hand; the app prints it at every synthesis."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aws_cdk import Stack

from infra.stacks.network import NetworkStack
from launcher.model.instance_type import InstanceType
from launcher.model.machine_image import IMAGE_INPUT
from launcher.model.plan import Plan
from launcher.targets.registry import target_of


def image_note(plan: Plan, stacks: Sequence[Stack], path: Path, instances: Mapping[str, InstanceType]) -> list[str]:
    """The command of a deployment by hand whose stacks take the id of the nodes' image; empty if none takes it.

    `instances` are the facts of every instance type, by name.
    """
    stack = next((stack for stack in stacks if stack.node.try_find_child(IMAGE_INPUT) is not None), None)
    if stack is None:
        return []
    parameter = target_of(plan.place.target).image_parameter(instances[plan.place.instance_type])
    query = f"--region {plan.place.region} --name {parameter} --query Parameter.Value --output text"
    given = f"--parameters {stack.stack_name}:{IMAGE_INPUT}=$(aws ssm get-parameter {query})"
    command = f"slipway cdk -- deploy --all -c {shlex.quote(f'plan={path}')} {given}"
    return ["deploy by hand with the newest image (later deployments keep it without --parameters):", f"  {command}"]


def removal_note(plan: Plan, stacks: Sequence[Stack], path: Path) -> list[str]:
    """The commands that the removal by hand needs besides `cdk destroy --all`, each on its line; empty for none.

    `stacks` are those of the plan's app, in the order of their deployment; `path` is the plan's file.
    """
    request, target = plan.request, target_of(plan.place.target)
    if request.target.cluster is not None:
        return []
    name, region = plan.cluster_name, plan.place.region
    if request.workload.serve is None and not target.removed_by_cdk:
        ends = f"cdk destroy, and the rollback of a first cdk deploy, end in a FAILED state on {target.short}"
        return [f"{ends}; remove with:", f"  slipway down {name} --region {region}"]
    return [line for why, command in _commands(plan, stacks, path) for line in (f"{why}:", f"  {command}")]


def _commands(plan: Plan, stacks: Sequence[Stack], path: Path) -> Iterator[tuple[str, str]]:
    """What each command is for, and the command."""
    # The CDK stops at a stack that may not be deleted.
    stay = [stack for stack in stacks if stack.termination_protection]
    stay += [stack for stack in stacks if isinstance(stack, NetworkStack) and stack.shared]
    if stay:
        go = " ".join(stack.stack_name for stack in reversed(stacks) if stack not in stay)
        names = ", ".join(stack.stack_name for stack in stay)
        command = f"slipway cdk -- destroy -c {shlex.quote(f'plan={path}')} {go}"
        yield f"remove by hand (--all stops at {names})", command
    if any(isinstance(stack, NetworkStack) for stack in stacks if stack not in stay):
        why = "if others hold the network (an endpoint of GuardDuty, an interface of the VPC CNI), name them"
        yield why, f"slipway down {plan.cluster_name} --region {plan.place.region}"
    if plan.request.workload.serve is None and target_of(plan.place.target).pods:
        # CloudFormation does not create a log group that exists.
        group = f"/aws/eks/slipway-{plan.cluster_name}/cluster"
        why = "before the next cdk deploy of this name, delete the log group that EKS writes after cdk destroy"
        yield why, f"aws logs delete-log-group --region {plan.place.region} --log-group-name {group}"
