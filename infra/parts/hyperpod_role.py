"""The role of HyperPod's machines: the service's own needs, their scripts, and their jobs' part of S3."""

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.hyperpod_lifecycle import HyperPodLifecycle

SERVICE_POLICY = "AmazonSageMakerClusterInstanceRolePolicy"
"""AWS's own policy for HyperPod's instances: logs, metrics, sessions of Systems Manager."""


class HyperPodRole(Construct):
    """The execution role of every instance group, one statement a purpose.

    Attributes:
        role: the role.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        lifecycle: HyperPodLifecycle,
        node_policy: iam.CfnManagedPolicy,
        subnet_id: str,
        security_group_id: str,
        namespace: str,
    ) -> None:
        """Make the role.

        Args:
            scope: the stack.
            id_: construct id.
            cluster: the cluster's name, for the description.
            lifecycle: the scripts.
            node_policy: what jobs may do.
            subnet_id: the machines' subnet.
            security_group_id: the machines' group.
            namespace: of the metrics that machines report.
        """
        super().__init__(scope, id_)
        self._region = Stack.of(self).region
        self.role = iam.Role(
            self,
            "Role",
            # Without the account SageMaker could be sent here from anybody's (IAM user guide, the confused deputy).
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
            description=f"Machines of HyperPod cluster {cluster}",
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name(SERVICE_POLICY),
                iam.ManagedPolicy.from_managed_policy_arn(self, "Jobs", node_policy.ref),
            ],
            inline_policies={
                "Machines": iam.PolicyDocument(
                    statements=[
                        *self._scripts(lifecycle),
                        *self._interfaces(subnet_id, security_group_id),
                        # Metrics can be allowed by namespace, not by resource.
                        iam.PolicyStatement(
                            sid="Report",
                            actions=["cloudwatch:PutMetricData"],
                            resources=["*"],
                            conditions={"StringEquals": {"cloudwatch:namespace": namespace}},
                        ),
                    ]
                )
            },
        )

    @staticmethod
    def _scripts(lifecycle: HyperPodLifecycle) -> list[iam.PolicyStatement]:
        """HyperPod lists the folder and fetches it with the machine's role."""
        return [
            iam.PolicyStatement(
                sid="FindScripts",
                actions=["s3:ListBucket"],
                resources=[lifecycle.bucket_arn],
                conditions={"StringLike": {"s3:prefix": [f"{lifecycle.prefix}*"]}},
            ),
            iam.PolicyStatement(
                sid="FetchScripts",
                actions=["s3:GetObject"],
                resources=[f"{lifecycle.bucket_arn}/{lifecycle.prefix}/*"],
            ),
        ]

    def _interfaces(self, subnet_id: str, security_group_id: str) -> list[iam.PolicyStatement]:
        """The machines run in SageMaker's account; their network interfaces in this one (developer guide, HyperPod).

        EC2 can allow none of its descriptions by resource. An interface has no name before it is made, but it knows its
        subnet: what is lent, tagged and deleted has to be in the cluster's (service authorization reference, EC2:
        `ec2:Subnet` holds for each of these actions on an interface, and not on an instance).
        """
        interfaces, subnet = self._arn("network-interface/*"), self._arn(f"subnet/{subnet_id}")
        in_subnet = {"ArnLike": {"ec2:Subnet": subnet}}
        return [
            iam.PolicyStatement(
                sid="LookAtNetwork",
                actions=[
                    "ec2:DescribeDhcpOptions",
                    "ec2:DescribeNetworkInterfaces",
                    "ec2:DescribeSecurityGroups",
                    "ec2:DescribeSubnets",
                    "ec2:DescribeVpcs",
                ],
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="MakeInterfaces",
                actions=["ec2:CreateNetworkInterface"],
                resources=[interfaces, subnet, self._arn(f"security-group/{security_group_id}")],
            ),
            iam.PolicyStatement(
                sid="LendInterfaces",
                actions=[
                    "ec2:CreateNetworkInterfacePermission",
                    "ec2:CreateTags",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DeleteNetworkInterfacePermission",
                    "ec2:DetachNetworkInterface",
                ],
                resources=[interfaces],
                conditions=in_subnet,
            ),
            # The other resource of a detachment: a machine of SageMaker's own.
            iam.PolicyStatement(
                sid="FreeMachines", actions=["ec2:DetachNetworkInterface"], resources=[self._arn("instance/*")]
            ),
        ]

    def _arn(self, resource: str) -> str:
        """A resource of EC2 in the stack's region, of any account: instances are SageMaker's, subnets can be shared."""
        return f"arn:{Aws.PARTITION}:ec2:{self._region}:*:{resource}"
