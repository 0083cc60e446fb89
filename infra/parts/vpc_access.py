"""The permissions with which SageMaker gives containers interfaces in a VPC of the account."""

from aws_cdk import Aws
from aws_cdk import aws_iam as iam


def describe_network() -> iam.PolicyStatement:
    """What SageMaker reads of a VPC; EC2's Describe actions support no resources."""
    return iam.PolicyStatement(
        sid="DescribeNetwork",
        actions=[
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ],
        resources=["*"],
    )


def vpc_statements() -> tuple[iam.PolicyStatement, ...]:
    """The statements for the execution role of a training job or a model with VpcConfig (SageMaker developer guide)."""
    parts = ("network-interface", "security-group", "subnet")
    return (
        describe_network(),
        iam.PolicyStatement(
            sid="Interfaces",
            actions=[
                "ec2:CreateNetworkInterface",
                "ec2:CreateNetworkInterfacePermission",
                "ec2:DeleteNetworkInterface",
                "ec2:DeleteNetworkInterfacePermission",
            ],
            resources=[f"arn:{Aws.PARTITION}:ec2:*:*:{part}/*" for part in parts],
        ),
    )
