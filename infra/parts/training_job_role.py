"""The role that training jobs run as: the containers' own, and what SageMaker needs to start them."""

from collections.abc import Iterator, Sequence

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from launcher.model.training_job import LOG_GROUP


class TrainingJobRole(Construct):
    """The execution role (developer guide, "CreateTrainingJob API: Execution Role Permissions").

    Attributes:
        arn: of the role: the plan's own, or that of one that is made.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        policy: iam.CfnManagedPolicy,
        in_vpc: bool,
        named_arn: str | None,
    ) -> None:
        """Make the role.

        Args:
            scope: the stack.
            id_: construct id.
            cluster: the plan's cluster name, for the description.
            policy: what jobs may do in their store.
            in_vpc: whether jobs get interfaces in a VPC.
            named_arn: a role that the plan names, which then is used unchanged; None: one is made.
        """
        super().__init__(scope, id_)
        if named_arn is not None:
            self.arn = named_arn
            return
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal(
                "sagemaker.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}}
            ),
            description=f"Training jobs of {cluster}",
            managed_policies=[iam.ManagedPolicy.from_managed_policy_arn(self, "Jobs", policy.ref)],
            inline_policies={"Machines": iam.PolicyDocument(statements=[*self._logs(), *_network(in_vpc=in_vpc)])},
        )
        self.arn = role.role_arn

    def _logs(self) -> Sequence[iam.PolicyStatement]:
        """The log of every node, and the metrics that SageMaker reports of it."""
        group = f"arn:{Aws.PARTITION}:logs:{Stack.of(self).region}:{Aws.ACCOUNT_ID}:log-group:{LOG_GROUP}"
        return (
            iam.PolicyStatement(
                sid="Log",
                actions=[
                    "logs:CreateLogGroup",
                    "logs:CreateLogStream",
                    "logs:DescribeLogStreams",
                    "logs:PutLogEvents",
                ],
                resources=[group, f"{group}:*"],
            ),
            iam.PolicyStatement(
                sid="Report",
                actions=["cloudwatch:PutMetricData"],
                resources=["*"],
                conditions={"StringLike": {"cloudwatch:namespace": ["/aws/sagemaker/*", "Slipway"]}},
            ),
        )


def _network(*, in_vpc: bool) -> Iterator[iam.PolicyStatement]:
    """Interfaces in the plan's VPC. EC2 allows none of its descriptions by resource."""
    if not in_vpc:
        return
    yield iam.PolicyStatement(
        sid="LookAtNetwork",
        actions=[
            "ec2:DescribeDhcpOptions",
            "ec2:DescribeNetworkInterfaces",
            "ec2:DescribeSecurityGroups",
            "ec2:DescribeSubnets",
            "ec2:DescribeVpcs",
        ],
        resources=["*"],
    )
    parts = ("network-interface", "security-group", "subnet")
    yield iam.PolicyStatement(
        sid="Interfaces",
        actions=[
            "ec2:CreateNetworkInterface",
            "ec2:CreateNetworkInterfacePermission",
            "ec2:DeleteNetworkInterface",
            "ec2:DeleteNetworkInterfacePermission",
        ],
        resources=[f"arn:{Aws.PARTITION}:ec2:*:*:{part}/*" for part in parts],
    )
