"""A function in an EKS cluster's network that counts its pods for the guard, whose calls come from outside."""

from aws_cdk import RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.parts.eks_cluster import EksCluster
from infra.parts.hyperpod_chart import INTERFACES, function_in
from launcher.model.monitoring import COUNTER_MEMORY_MB
from launcher.model.sizing import LOG_RETENTION_DAYS

_SECONDS = 60


class PodCounter(Construct):
    """The function that counts pods (templates/chart/pods.py): it reads the cluster, and changes nothing.

    Attributes:
        function: what the guard asks.
    """

    def __init__(
        self, scope: Construct, id_: str, *, cluster: EksCluster, subnet_id: str, security_group_id: str
    ) -> None:
        """Make the function, its role and its log.

        Args:
            scope: the stack.
            id_: construct id.
            cluster: whose pods it counts.
            subnet_id: of the function.
            security_group_id: of the function: one that the control plane lets in.
        """
        super().__init__(scope, id_)
        log = logs.CfnLogGroup(self, "Log", retention_in_days=LOG_RETENTION_DAYS)
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        role = _role(self, log)
        cluster.admit(self, "Entry", role, policy="AmazonEKSViewPolicy")
        place = lambda_.CfnFunction.VpcConfigProperty(subnet_ids=[subnet_id], security_group_ids=[security_group_id])
        does = f"counts the pods of {cluster.name} for the guard"
        self.function = function_in(
            self, cluster, role, log, place, does=does, seconds=_SECONDS, memory_mb=COUNTER_MEMORY_MB
        )
        # Lambda makes and removes the function's interfaces with the role.
        self.function.node.add_dependency(role)


def _role(scope: Construct, log: logs.CfnLogGroup) -> iam.Role:
    """What the function needs in AWS: what it may do in the cluster is in its access entry."""
    statements = [
        # Lambda refuses a function in a subnet whose role is limited to interfaces that exist.
        iam.PolicyStatement(sid="StandInSubnet", actions=list(INTERFACES), resources=["*"]),
        iam.PolicyStatement(sid="Log", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log.attr_arn]),
    ]
    return iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        description="Counts the pods of a cluster",
        inline_policies={"Count": iam.PolicyDocument(statements=statements)},
    )
