"""An existing network as EC2 describes it, written into the request, so that synthesis needs no lookup."""

from dataclasses import replace

from launcher.aws import stacks
from launcher.aws.networks import group_vpcs, subnets
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError
from launcher.model.finding import error
from launcher.model.request import PlanRequest, SubnetFacts


def describe_network(request: PlanRequest, session: Session) -> PlanRequest:
    """The request with the facts of its subnets, or with the users of a shared network; unchanged for another one.

    Raises:
        AwsError: the call to EC2 failed, or EC2 has no such subnet.
        ImpossibleError: a subnet or a security group belongs to another VPC.
    """
    network = request.network
    if network.vpc_id is None and network.name is None:
        return request
    if network.vpc_id is None:
        return replace(request, network=replace(network, shared_by=network_importers(request, session)))
    states = subnets(session, network.subnet_ids)
    strangers = [
        error(
            "subnet-outside-vpc",
            "network.subnet_ids",
            f"{state.id} lies in {state.vpc_id}, network.vpc_id is {network.vpc_id}",
            "name subnets of that VPC",
        )
        for state in states
        if state.vpc_id != network.vpc_id
    ]
    groups = group_vpcs(session, network.security_group_ids) if network.security_group_ids else {}
    strangers += [
        error(
            "group-outside-vpc",
            "network.security_group_ids",
            f"{name} belongs to {vpc}, network.vpc_id is {network.vpc_id}",
            "name groups of that VPC",
        )
        for name, vpc in groups.items()
        if vpc != network.vpc_id
    ]
    if strangers:
        raise ImpossibleError("the network cannot be used", findings=strangers)
    known = {state.id: state for state in states}
    facts = tuple(
        SubnetFacts(
            id=name,
            az_id=known[name].az_id,
            free_addresses=known[name].free_addresses,
            public_addresses=known[name].public_addresses,
        )
        for name in network.subnet_ids
        if name in known
    )
    return replace(request, network=replace(network, subnets=facts))


def network_importers(request: PlanRequest, session: Session) -> tuple[str, ...]:
    """The stacks of other clusters that import the plan's shared network, and so pay for its NAT; empty without any.

    Raises:
        AwsError: a call to CloudFormation failed.
    """
    name = request.network.name
    export = f"slipway-{name}-shared-network:VpcId"
    if name is None or export not in stacks.exports(session):
        return ()
    return tuple(
        sorted(user for user in stacks.importers(session, export) if user != f"slipway-{request.name}-training")
    )
