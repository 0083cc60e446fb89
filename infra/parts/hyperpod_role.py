"""The role of HyperPod's nodes: the service's own permissions, their scripts, and their jobs' part of S3."""

from collections.abc import Sequence

from aws_cdk import Aws, Stack
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.hyperpod_lifecycle import HyperPodLifecycle
from infra.parts.node_policy import key_grant_statement
from infra.parts.vpc_access import describe_network

SERVICE_POLICY = "AmazonSageMakerClusterInstanceRolePolicy"
"""AWS's policy for HyperPod's instances: logs, metrics, sessions of Systems Manager."""


def _report(namespace: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid="PutMetrics",
        actions=["cloudwatch:PutMetricData"],
        resources=["*"],
        conditions={"StringEquals": {"cloudwatch:namespace": namespace}},
    )


def _key_statements(key_arn: str) -> list[iam.PolicyStatement]:
    """Permissions to grant the key of the root volumes to SageMaker, for the start of every further instance.

    Developer guide, "Customer managed AWS KMS key encryption for SageMaker HyperPod": UpdateCluster,
    BatchAddClusterNodes and UpdateClusterSoftware use the execution role's permissions.
    """
    found = iam.PolicyStatement(sid="DescribeKey", actions=["kms:DescribeKey"], resources=[key_arn])
    return [key_grant_statement(key_arn), found]


class HyperPodRole(Construct):
    """The execution role of every instance group, one statement per purpose.

    Attributes:
        arn: the ARN of the plan's own role or of a new one.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        lifecycle: HyperPodLifecycle,
        subnet_id: str,
        security_group_ids: Sequence[str],
        node_policy: iam.CfnManagedPolicy | None = None,
        namespace: str | None = None,
        eks_arn: str | None = None,
        session_log_arn: str | None = None,
        named_arn: str | None = None,
        kms_key_arn: str | None = None,
    ) -> None:
        """`node_policy` None: jobs have their own role.

        `namespace` None: nodes report no metrics. `eks_arn` is None with Slurm; `session_log_arn` None: sessions are
        not logged; `named_arn` is used unchanged, None: a role is created; `kms_key_arn` encrypts root volumes, None: a
        key that AWS owns.
        """
        super().__init__(scope, id_)
        if named_arn is not None:
            self.arn = named_arn
            return
        self._region = Stack.of(self).region
        role = iam.Role(
            self,
            "Role",
            # No condition, as in AWS's own samples (awsome-distributed-ai@95b939c, sagemaker_iam_role/main.tf): were
            # aws:SourceAccount not sent, no instance would start.
            assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"),
            description=f"Nodes of HyperPod cluster {cluster}",
            managed_policies=self._policies(node_policy, session_log_arn, nodes=eks_arn is not None),
            inline_policies={
                "Nodes": iam.PolicyDocument(
                    statements=[
                        *self._scripts(lifecycle),
                        *self._interfaces(subnet_id, security_group_ids),
                        *([] if namespace is None else [_report(namespace)]),
                        *([] if eks_arn is None else self._eks_statements(subnet_id, eks_arn)),
                        *([] if kms_key_arn is None else _key_statements(kms_key_arn)),
                    ]
                )
            },
        )
        self.arn = role.role_arn

    def _policies(
        self, node_policy: iam.CfnManagedPolicy | None, session_log_arn: str | None, *, nodes: bool
    ) -> list[iam.IManagedPolicy]:
        names = (SERVICE_POLICY, *(("AmazonEC2ContainerRegistryPullOnly",) if nodes else ()))
        policies = [iam.ManagedPolicy.from_aws_managed_policy_name(name) for name in names]
        if node_policy is not None:
            policies.append(iam.ManagedPolicy.from_managed_policy_arn(self, "Jobs", node_policy.ref))
        if session_log_arn is not None:
            policies.append(iam.ManagedPolicy.from_managed_policy_arn(self, "Sessions", session_log_arn))
        return policies

    def _eks_statements(self, subnet_id: str, eks_arn: str) -> list[iam.PolicyStatement]:
        """Permissions of the network plugin, which assigns pod addresses, and of the agent that gives pods their roles.

        Like the policy of EKS nodes, but limited to the cluster's subnet (developer guide, IAM for HyperPod with EKS).
        """
        in_subnet = {"ArnLike": {"ec2:Subnet": self._arn(f"subnet/{subnet_id}")}}
        return [
            iam.PolicyStatement(
                sid="DescribeInstances",
                actions=["ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeTags"],
                resources=["*"],
            ),
            iam.PolicyStatement(
                sid="PodAddresses",
                actions=[
                    "ec2:AssignPrivateIpAddresses",
                    "ec2:AttachNetworkInterface",
                    "ec2:ModifyNetworkInterfaceAttribute",
                    "ec2:UnassignPrivateIpAddresses",
                ],
                resources=[self._arn("network-interface/*")],
                conditions=in_subnet,
            ),
            # The other resources of an attachment and of a change of groups.
            iam.PolicyStatement(
                sid="AttachPodInterfaces",
                actions=["ec2:AttachNetworkInterface", "ec2:ModifyNetworkInterfaceAttribute"],
                resources=[self._arn("instance/*")],
            ),
            iam.PolicyStatement(
                sid="AssumePodRoles", actions=["eks-auth:AssumeRoleForPodIdentity"], resources=[eks_arn]
            ),
        ]

    @staticmethod
    def _scripts(lifecycle: HyperPodLifecycle) -> list[iam.PolicyStatement]:
        return [
            iam.PolicyStatement(
                sid="ListScripts",
                actions=["s3:ListBucket"],
                resources=[lifecycle.bucket_arn],
                conditions={"StringLike": {"s3:prefix": [f"{lifecycle.prefix}*"]}},
            ),
            iam.PolicyStatement(
                sid="GetScripts",
                actions=["s3:GetObject"],
                resources=[f"{lifecycle.bucket_arn}/{lifecycle.prefix}/*"],
            ),
        ]

    def _interfaces(self, subnet_id: str, security_group_ids: Sequence[str]) -> list[iam.PolicyStatement]:
        """Permissions for the nodes' interfaces: nodes run in SageMaker's account, interfaces in this one.

        See the developer guide, HyperPod. EC2's Describe actions support no resources. An interface has no id before
        its creation, but its subnet is known: permissions and deletions are limited to interfaces in the cluster's
        subnet (service authorization reference, EC2: `ec2:Subnet` applies to each of these actions on an interface, and
        not on an instance).
        """
        interfaces, subnet = self._arn("network-interface/*"), self._arn(f"subnet/{subnet_id}")
        in_subnet = {"ArnLike": {"ec2:Subnet": subnet}}
        return [
            describe_network(),
            iam.PolicyStatement(
                sid="CreateInterfaces",
                actions=["ec2:CreateNetworkInterface"],
                resources=[
                    interfaces,
                    subnet,
                    *(self._arn(f"security-group/{group_id}") for group_id in security_group_ids),
                ],
            ),
            iam.PolicyStatement(
                sid="ManageInterfaces",
                actions=[
                    "ec2:CreateNetworkInterfacePermission",
                    "ec2:DeleteNetworkInterface",
                    "ec2:DeleteNetworkInterfacePermission",
                    "ec2:DetachNetworkInterface",
                ],
                resources=[interfaces],
                conditions=in_subnet,
            ),
            # What is tagged while it is made may have no subnet yet; AWS's samples have no condition either.
            iam.PolicyStatement(sid="TagInterfaces", actions=["ec2:CreateTags"], resources=[interfaces]),
            # The other resource of a detachment: an instance of SageMaker's own account.
            iam.PolicyStatement(
                sid="DetachNetworkInterfaces",
                actions=["ec2:DetachNetworkInterface"],
                resources=[self._arn("instance/*")],
            ),
        ]

    def _arn(self, resource: str) -> str:
        """An EC2 resource in the stack's region, of any account: SageMaker owns instances; subnets can be shared."""
        return f"arn:{Aws.PARTITION}:ec2:{self._region}:*:{resource}"
