"""The network of a cluster, on its own: taking it down ends the NAT gateway's bill."""

from collections.abc import Mapping

from aws_cdk import CfnOutput
from constructs import Construct

from infra.parts.network import Network
from infra.stacks.plan_stack import PlanStack
from launcher.model.plan import Plan
from launcher.planning.addresses import ranges


class NetworkStack(PlanStack):
    """A VPC with one private subnet in the zone of the plan's capacity.

    Attributes:
        network: the network.
    """

    def __init__(
        self, scope: Construct, *, plan: Plan, account: str | None, tags: Mapping[str, str], zone: str | None
    ) -> None:
        """Lay out a plan's network; `zone` is the availability zone id, None for the region's first."""
        super().__init__(
            scope,
            "network",
            plan=plan,
            account=account,
            tags=tags,
            description=f"Slipway: network of {plan.cluster_name}",
        )
        self.network = Network(self, "Network", ranges=ranges(plan.request.network.cidr), zone=zone)
        CfnOutput(self, "VpcId", value=self.network.vpc.ref, description="The VPC")
        CfnOutput(self, "PrivateSubnetId", value=self.network.private_subnet.ref, description="Every machine's subnet")
