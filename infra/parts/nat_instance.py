"""A NAT instance: Amazon Linux that forwards the traffic of private subnets, with the set-up of CDK's provider."""

from aws_cdk import Fn, Stack
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from launcher.model import sizing

IMAGE = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
"""The parameter of AWS's newest image of Amazon Linux 2023. CloudFormation reads it when it creates the instance, and
not at an update that leaves the instance alone."""
_ALL = "-1"
_ANYWHERE = "0.0.0.0/0"


class NatInstance(Construct):
    """One instance in a public subnet, and the route of private subnets through it.

    Its set-up is that of CDK's NatInstanceProviderV2, whose VPC cannot have a zone by its id. EC2 recovers an instance
    of this type when its host fails; until then nodes reach S3 and DynamoDB alone.

    Attributes:
        instance: the instance.
    """

    def __init__(self, scope: Construct, id_: str, *, vpc_id: str, cidr: str, subnet: ec2.CfnSubnet) -> None:
        """`cidr` is the range of the VPC, which alone may send traffic to the instance."""
        super().__init__(scope, id_)
        group = ec2.CfnSecurityGroup(
            self,
            "Group",
            vpc_id=vpc_id,
            group_description="Slipway NAT instance: traffic from the VPC",
            security_group_ingress=[
                ec2.CfnSecurityGroup.IngressProperty(
                    ip_protocol=_ALL, cidr_ip=cidr, description="Traffic of the nodes on its way out"
                )
            ],
            security_group_egress=[
                ec2.CfnSecurityGroup.EgressProperty(
                    ip_protocol=_ALL, cidr_ip=_ANYWHERE, description="To whatever the nodes reach"
                )
            ],
        )
        kind = ec2.CfnInstance
        self.instance = kind(
            self,
            "Instance",
            image_id=f"{{{{resolve:ssm:{IMAGE}}}}}",
            instance_type=sizing.NAT_INSTANCE,
            source_dest_check=False,
            metadata_options=kind.MetadataOptionsProperty(http_endpoint="enabled", http_tokens="required"),
            network_interfaces=[
                kind.NetworkInterfaceProperty(
                    device_index="0",
                    subnet_id=subnet.ref,
                    group_set=[group.attr_group_id],
                    associate_public_ip_address=True,
                    delete_on_termination=True,
                )
            ],
            block_device_mappings=[
                kind.BlockDeviceMappingProperty(
                    device_name="/dev/xvda",
                    ebs=kind.EbsProperty(
                        volume_size=sizing.NAT_ROOT_GIB, volume_type="gp3", encrypted=True, delete_on_termination=True
                    ),
                )
            ],
            propagate_tags_to_volume_on_creation=True,
            user_data=Fn.base64("\n".join(("#!/bin/bash", *ec2.NatInstanceProviderV2.DEFAULT_USER_DATA_COMMANDS))),
        )
        self.instance.tags.set_tag("Name", f"{Stack.of(self).stack_name}-nat")
