"""The network of one or several clusters in a separate stack: its removal ends the cost of the NAT gateway."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Fn
from constructs import Construct

from infra.parts.network import Network
from infra.stacks.plan_stack import PlanStack
from launcher.model.enums import Egress
from launcher.model.monitoring import nat_zones
from launcher.model.plan import Plan
from launcher.planning.addresses import ranges
from launcher.planning.nat import interface_endpoints
from launcher.targets.registry import target_of


class NetworkStack(PlanStack):
    """A VPC with a subnet of the nodes in the zone of the plan's capacity, or in every zone of a shared network.

    The template of a shared network depends on the plan's `network` alone, so every cluster's deployment finds it
    unchanged. The stack exports its ids by name, and CloudFormation refuses to remove an export that a cluster uses.

    Attributes:
        network: the network.
        egress: how nodes reach what is outside the network.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        plan: Plan,
        account: str | None,
        tags: Mapping[str, str],
        zone: str | None,
        egress: Egress,
    ) -> None:
        """Create a plan's network; `zone` is the zone id of the capacity, None for the region's first zone.

        `egress` is how its nodes reach what is outside it.
        """
        request = plan.request.network
        super().__init__(
            scope,
            "network",
            plan=plan,
            account=account,
            tags=tags,
            description=f"Slipway: network {request.name or f'of {plan.cluster_name}'}",
        )
        self._zone, self.egress = zone, egress
        self.shared = request.name is not None
        self.network = Network(
            self,
            "Network",
            ranges=ranges(request.cidr),
            zone=zone,
            egress=egress,
            nat_zone=nat_zones(request, zone)[0],
            shared_zones=request.az_ids if self.shared else (),
            endpoints=interface_endpoints(plan.request, target_of(plan.place.target), egress),
        )
        CfnOutput(
            self,
            "VpcId",
            value=self.network.vpc.ref,
            description="The VPC",
            export_name=self._export("VpcId") if self.shared else None,
        )
        for az_id, subnet in self.network.node_subnets.items():
            CfnOutput(
                self,
                f"PrivateSubnetId{subnet.node.id.removesuffix('Subnet')}" if self.shared else "PrivateSubnetId",
                value=subnet.ref,
                description=f"Subnet of all nodes in {az_id}" if self.shared else "Subnet of all nodes",
                export_name=self._export(f"PrivateSubnetId:{az_id}") if self.shared else None,
            )

    def _export(self, name: str) -> str:
        return f"{self.stack_name}:{name}"

    @property
    def vpc_id(self) -> str:
        """The VPC's id, for another stack."""
        return Fn.import_value(self._export("VpcId")) if self.shared else self.network.vpc.ref

    @property
    def subnet_id(self) -> str:
        """The id of the subnet in the zone of the plan's capacity, for another stack."""
        if self.shared:
            return Fn.import_value(self._export(f"PrivateSubnetId:{self._zone}"))
        return self.network.node_subnets[self._zone].ref

    @property
    def subnets_by_zone(self) -> dict[str, str]:
        """The ids of a shared network's subnets by zone, for another stack; empty for a cluster's own network."""
        if not self.shared:
            return {}
        zones = [subnet for subnet in self.network.node_subnets if subnet is not None]
        return {zone: Fn.import_value(self._export(f"PrivateSubnetId:{zone}")) for zone in zones}
