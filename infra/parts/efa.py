"""The security group that allows EFA traffic between nodes, and no other inbound traffic."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

_ALL = "-1"


class NodeSecurityGroup(Construct):
    """A security group that allows all traffic between its members, in both directions, and nothing else.

    EFA is not IP: a rule for 0.0.0.0/0 does not cover EFA, only inbound and outbound rules that name the group itself.
    The L2 SecurityGroup drops such an egress rule if all other egress is allowed, hence L1. ParallelCluster attaches
    the group in addition to its own group, which allows access to the internet.

    Attributes:
        group: the security group.
        rules: its rules; nodes must not start before they exist.
    """

    def __init__(
        self, scope: Construct, id_: str, *, vpc_id: str, allows_outbound: bool = False, nat: bool = True
    ) -> None:
        """`allows_outbound`: members may reach the internet; for nodes without another group that allows it.

        `nat`: they reach it through a NAT gateway, and have no public addresses.
        """
        super().__init__(scope, id_)
        # Inline: EC2 gives a group without a rule of its own this very rule, and refuses it a second time.
        out = ec2.CfnSecurityGroup.EgressProperty(
            ip_protocol=_ALL,
            cidr_ip="0.0.0.0/0",
            description="To AWS's services and package repositories, through the NAT gateway"
            if nat
            else "To AWS's services and package repositories",
        )
        self.group = ec2.CfnSecurityGroup(
            self,
            "Group",
            vpc_id=vpc_id,
            group_description="Slipway nodes: all traffic among themselves (EFA)",
            security_group_egress=[out] if allows_outbound else None,
        )
        self.rules = (
            ec2.CfnSecurityGroupIngress(
                self,
                "FromItself",
                group_id=self.group.attr_group_id,
                source_security_group_id=self.group.attr_group_id,
                ip_protocol=_ALL,
                description="EFA and everything else from members of the group",
            ),
            ec2.CfnSecurityGroupEgress(
                self,
                "ToItself",
                group_id=self.group.attr_group_id,
                destination_security_group_id=self.group.attr_group_id,
                ip_protocol=_ALL,
                description="EFA and everything else to members of the group",
            ),
        )
