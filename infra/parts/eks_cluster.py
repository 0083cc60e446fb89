"""An EKS cluster: its control plane, its access entries, and its add-ons."""

from collections.abc import Sequence

from aws_cdk import Aws, Fn, RemovalPolicy
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from launcher.model import sizing
from launcher.model.eks import NEEDS_NODES
from launcher.model.tags import Tag
from launcher.targets.eks.files import EksContext

_ADMIN = "AmazonEKSClusterAdminPolicy"


def create_control_subnets(
    stack: Construct, id_: str, *, vpc_id: str, cidrs: Sequence[str], zones: Sequence[str | None]
) -> list[str]:
    """Two small subnets in two zones, for the interfaces of the control plane alone; return their ids.

    They have no route out of the VPC: the control plane communicates with nodes inside the VPC. None as a zone selects
    one of the region's first zones.
    """
    scope = Construct(stack, id_)
    routes = ec2.CfnRouteTable(scope, "Routes", vpc_id=vpc_id)
    ids = []
    for index, (cidr, zone) in enumerate(zip(cidrs, zones, strict=True)):
        subnet = ec2.CfnSubnet(
            scope,
            f"Subnet{index}",
            vpc_id=vpc_id,
            cidr_block=cidr,
            map_public_ip_on_launch=False,
            availability_zone_id=zone,
            availability_zone=Fn.select(index, Fn.get_azs()) if zone is None else None,
        )
        ec2.CfnSubnetRouteTableAssociation(
            scope, f"Association{index}", route_table_id=routes.ref, subnet_id=subnet.ref
        )
        ids.append(subnet.ref)
    return ids


class EksCluster(Construct):
    """The control plane. Only principals with an access entry can use its API.

    Secrets and all other data in its store are encrypted: with the plan's key if it names one, else with EKS's own key.

    Attributes:
        name: of the cluster, as text.
        resource: the cluster.
        access_role: the role that the launcher assumes to submit jobs.
        security_group_id: the group that EKS creates for control plane and nodes.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        context: EksContext,
        subnet_ids: Sequence[str],
        security_group_id: str,
        key_arn: str | None,
        role_arn: str | None = None,
        access_arns: Sequence[str] = (),
    ) -> None:
        """`subnet_ids` span at least two zones.

        `security_group_id` is the nodes' group, whose members reach the control plane. `key_arn` encrypts secrets
        (None: EKS's own key). `role_arn` None: a role is created. `access_arns` may assume the access role (empty:
        every principal that IAM allows).
        """
        super().__init__(scope, id_)
        self._context = context
        self.name = context.name
        role_arn = role_arn or self._role().role_arn
        log = logs.CfnLogGroup(
            self,
            "Log",
            log_group_name=f"/aws/eks/{context.name}/cluster",
            retention_in_days=sizing.LOG_RETENTION_DAYS,
        )
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        self.resource = eks.CfnCluster(
            self,
            "Cluster",
            name=context.name,
            version=context.version,
            role_arn=role_arn,
            resources_vpc_config=_network(context, subnet_ids, security_group_id),
            access_config=eks.CfnCluster.AccessConfigProperty(
                authentication_mode="API", bootstrap_cluster_creator_admin_permissions=False
            ),
            bootstrap_self_managed_addons=False,
            upgrade_policy=eks.CfnCluster.UpgradePolicyProperty(support_type="STANDARD"),
            logging=eks.CfnCluster.LoggingProperty(
                cluster_logging=eks.CfnCluster.ClusterLoggingProperty(
                    enabled_types=[
                        eks.CfnCluster.LoggingTypeConfigProperty(type=log_type) for log_type in context.log_types
                    ]
                )
            ),
            encryption_config=None if key_arn is None else [_secrets_with(key_arn)],
        )
        # EKS would make the group without an end to what it keeps.
        self.resource.add_resource_dependency(log)
        self.security_group_id = self.resource.attr_cluster_security_group_id
        self.access_role = self._access(access_arns)

    def _role(self) -> iam.Role:
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("eks.amazonaws.com"),
            description=f"The control plane of {self._context.name}",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AmazonEKSClusterPolicy")],
        )

    def _access(self, arns: Sequence[str]) -> iam.Role:
        """The role with which principals of this account submit jobs to the cluster."""
        named = iam.CompositePrincipal(*map(iam.ArnPrincipal, arns)) if arns else None
        role = iam.Role(
            self,
            "Access",
            assumed_by=named or iam.AccountPrincipal(Aws.ACCOUNT_ID),
            description=f"Submission of jobs to {self._context.name}: EKS access entry and pod identity associations",
        )
        self.admit(self, "AccessEntry", role)
        return role

    def lets_grant(self, role_arn: str) -> None:
        """Let the access role grant a role to the jobs' pods, in this cluster alone.

        The policy of the granted role limits each job's permissions, by the service account that it is granted to.
        """
        arn = self.resource.attr_arn
        associations = f"arn:{Aws.PARTITION}:eks:{Aws.REGION}:{Aws.ACCOUNT_ID}:podidentityassociation/{self.name}/*"
        policy = iam.Policy(self, "PodAssociations", roles=[self.access_role])
        policy.add_statements(
            iam.PolicyStatement(
                sid="AssociatePods",
                actions=["eks:CreatePodIdentityAssociation", "eks:ListPodIdentityAssociations"],
                resources=[arn],
            ),
            iam.PolicyStatement(
                sid="DisassociatePods", actions=["eks:DeletePodIdentityAssociation"], resources=[associations]
            ),
            iam.PolicyStatement(sid="GetRole", actions=["iam:GetRole"], resources=[role_arn]),
            iam.PolicyStatement(
                sid="PassRole",
                actions=["iam:PassRole"],
                resources=[role_arn],
                conditions={"StringEquals": {"iam:PassedToService": "pods.eks.amazonaws.com"}},
            ),
        )

    @property
    def variables(self) -> dict[str, str]:
        """The cluster's name, API endpoint and CA certificate, as environment variables for templates/chart."""
        return {
            "CLUSTER_NAME": self.resource.ref,
            "CLUSTER_ENDPOINT": self.resource.attr_endpoint,
            "CLUSTER_AUTHORITY": self.resource.attr_certificate_authority_data,
        }

    def admit(self, scope: Construct, id_: str, role: iam.Role, *, policy: str = _ADMIN) -> eks.CfnAccessEntry:
        """Grant a role access to this cluster, with one of EKS's access policies."""
        return eks.CfnAccessEntry(
            scope,
            id_,
            cluster_name=self.resource.ref,
            principal_arn=role.role_arn,
            access_policies=[
                eks.CfnAccessEntry.AccessPolicyProperty(
                    access_scope=eks.CfnAccessEntry.AccessScopeProperty(type="cluster"),
                    policy_arn=f"arn:{Aws.PARTITION}:eks::aws:cluster-access-policy/{policy}",
                )
            ],
        )

    def add_ons(self, nodes: Sequence[Construct]) -> list[eks.CfnAddon]:
        """Every add-on in its pinned version; add-ons that run on nodes depend on `nodes`."""
        add_ons = []
        for tag in self._context.addons:
            addon = self._add_on(tag)
            if tag.key in NEEDS_NODES:
                addon.node.add_dependency(*nodes)
            add_ons.append(addon)
        return add_ons

    def _add_on(self, tag: Tag) -> eks.CfnAddon:
        return eks.CfnAddon(
            self,
            "".join(part.capitalize() for part in tag.key.split("-")),
            addon_name=tag.key,
            addon_version=tag.value,
            cluster_name=self.resource.ref,
            configuration_values=self._context.settings.get(tag.key),
            resolve_conflicts="OVERWRITE",
        )


def _network(
    context: EksContext, subnet_ids: Sequence[str], security_group_id: str
) -> eks.CfnCluster.ResourcesVpcConfigProperty:
    """The subnets and security group of the control plane's interfaces, and the sources that may reach its API."""
    public = bool(context.public_cidrs)
    return eks.CfnCluster.ResourcesVpcConfigProperty(
        subnet_ids=list(subnet_ids),
        security_group_ids=[security_group_id],
        endpoint_private_access=True,
        endpoint_public_access=public,
        public_access_cidrs=list(context.public_cidrs) if public else None,
    )


def _secrets_with(key_arn: str) -> eks.CfnCluster.EncryptionConfigProperty:
    return eks.CfnCluster.EncryptionConfigProperty(
        provider=eks.CfnCluster.ProviderProperty(key_arn=key_arn), resources=["secrets"]
    )
