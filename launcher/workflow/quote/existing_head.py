"""What an existing cluster keeps, even if a new one would get another: the type of its head node, its way out."""

from collections.abc import Mapping
from typing import Any

from launcher.aws import stacks
from launcher.aws.calls import forbidden
from launcher.aws.session import Session
from launcher.model.enums import NatMode
from launcher.model.errors import AwsError
from launcher.model.plan import Plan
from launcher.model.target import Runs
from launcher.rendering.names import NETWORK_STACK, stack_name
from launcher.targets.registry import target_of

_NAT_MODES = {"AWS::EC2::NatGateway": NatMode.GATEWAY, "AWS::EC2::Instance": NatMode.INSTANCE}
"""The resource of a network's stack by which nodes reach the internet."""


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
    resources = _resources(stack_name(plan, Runs.TRAINING), session)
    heads = (kind.head_type(resource["Type"], resource.get("Properties", {})) for resource in resources.values())
    return next((head for head in heads if head is not None), None)


def existing_nat_mode(plan: Plan, session: Session) -> NatMode | None:
    """How the nodes of a plan's existing network, its own or a shared one, reach the internet; None without one.

    Raises:
        AwsError: a call failed, and missing permissions are not the reason.
    """
    network, target = plan.request.network, plan.request.target
    named = network.vpc_id or target.cluster or target.ssh_host
    if named or plan.request.workload.serve is not None or target_of(plan.place.target).in_service_network:
        return None
    types = {resource["Type"] for resource in _resources(stack_name(plan, NETWORK_STACK), session).values()}
    if "AWS::EC2::Subnet" not in types:
        return None
    return next((mode for kind, mode in _NAT_MODES.items() if kind in types), NatMode.NONE)


def _resources(name: str, session: Session) -> Mapping[str, Any]:
    """The resources in the template of a stack; empty if no stack has that name, or the caller may not read it."""
    try:
        if stacks.find(session, name) is None:
            return {}
        resources: Mapping[str, Any] = stacks.template(session, name).get("Resources", {})
    except AwsError as problem:
        if forbidden(problem):
            return {}
        raise
    return resources
