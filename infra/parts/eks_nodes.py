"""Managed node groups: their role, their launch templates, and the groups themselves."""

from collections.abc import Mapping, Sequence

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.guard_folder import GuardFolder
from infra.parts.launch_capacity import launch_capacity, root_volume, tag_specifications, template_tags
from launcher.model.monitoring import BOOTS_FOLDER, MESSAGE_FOLDER
from launcher.targets.eks.files import NodeGroupContext, user_data

_POLICIES = (
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
)
"""AWS's policies to join the cluster, assign pod addresses, pull images, and open sessions (EKS user guide, node
role)."""


def node_role(
    scope: Construct,
    id_: str,
    *,
    cluster: str,
    session_log_arn: str | None,
    reports: Sequence[iam.PolicyStatement] = (),
) -> iam.Role:
    """The role of a cluster's nodes; pods have their own role, and only pods on the host's network reach this one.

    `session_log_arn` is the policy for nodes that write the log of their sessions, None without such a log. `reports`
    let them report their boots (report_statements).
    """
    policies = [iam.ManagedPolicy.from_aws_managed_policy_name(policy) for policy in _POLICIES]
    if session_log_arn is not None:
        policies.append(iam.ManagedPolicy.from_managed_policy_arn(scope, "SessionLogPolicy", session_log_arn))
    return iam.Role(
        scope,
        id_,
        assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
        description=f"Nodes of {cluster}",
        managed_policies=policies,
        inline_policies={"ReportBoots": iam.PolicyDocument(statements=list(reports))} if reports else None,
    )


def report_statements(folder: GuardFolder, key_arn: str | None) -> list[iam.PolicyStatement]:
    """The permissions to report boots to the guard; `key_arn` encrypts the store, None: S3's own key."""
    place = [f"{folder.objects_arn.removesuffix('*')}{MESSAGE_FOLDER}/{BOOTS_FOLDER}/*"]
    key = [] if key_arn is None else [iam.PolicyStatement(actions=["kms:GenerateDataKey"], resources=[key_arn])]
    return [iam.PolicyStatement(actions=["s3:PutObject"], resources=place), *key]


class NodeGroup(Construct):
    """A managed node group and its launch template.

    Attributes:
        resource: the group.
        template: the launch template.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        context: NodeGroupContext,
        cluster: eks.CfnCluster,
        role_arn: str,
        subnet_id: str,
        security_group_ids: list[str],
        tags: Mapping[str, str],
        reports: str | None = None,
    ) -> None:
        """The group has one subnet, because EFA does not cross zones.

        Nodes report their boots to `reports`, an S3 URI; None: they report nothing. `security_group_ids` must include
        the cluster's own group: EKS adds none to a launch template. `tags` are for nodes and volumes, which do not
        inherit the stack's tags.
        """
        super().__init__(scope, id_)
        self._context = context
        self._user_data = user_data(local_storage=context.local_storage, reports=reports)
        self.template = ec2.CfnLaunchTemplate(
            self,
            "Template",
            launch_template_data=self._template([*security_group_ids, *context.group_ids], tags),
            tag_specifications=template_tags(tags),
        )
        self.resource = eks.CfnNodegroup(
            self,
            "Group",
            cluster_name=cluster.ref,
            nodegroup_name=context.name,
            node_role=role_arn,
            subnets=[subnet_id],
            ami_type=context.ami_type,
            capacity_type=context.capacity_type,
            launch_template=eks.CfnNodegroup.LaunchTemplateSpecificationProperty(
                id=self.template.ref, version=self.template.attr_latest_version_number
            ),
            scaling_config=eks.CfnNodegroup.ScalingConfigProperty(
                min_size=context.minimum, max_size=context.count, desired_size=context.desired
            ),
            node_repair_config=eks.CfnNodegroup.NodeRepairConfigProperty(enabled=context.repair),
            labels={"slipway/group": context.name},
            taints=_taints(context.taint),
        )

    def _template(self, groups: list[str], tags: Mapping[str, str]) -> ec2.CfnLaunchTemplate.LaunchTemplateDataProperty:
        """The launch template of the group's nodes; it may repeat no setting of the group itself."""
        context = self._context
        together = ec2.CfnPlacementGroup(self, "Placement", strategy="cluster") if context.placement_group else None
        return ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
            instance_type=context.instance_type,
            # The device is Amazon Linux 2023's. EC2 Auto Scaling starts the instances, and uses a key of the account's
            # own only where the key's policy allows it (docs/security.md; the doctor reads it).
            block_device_mappings=[root_volume("/dev/xvda", context.volume_gib, context.volume_key_arn)],
            # Pods that are not on the host's network do not reach it: the hop limit.
            metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(
                http_tokens="required", http_put_response_hop_limit=1
            ),
            security_group_ids=None if context.interfaces else groups,
            network_interfaces=self._interfaces(groups),
            placement=None if together is None else ec2.CfnLaunchTemplate.PlacementProperty(group_name=together.ref),
            user_data=None if self._user_data is None else Fn.base64(self._user_data),
            tag_specifications=tag_specifications(tags, spot=context.capacity_type == "SPOT"),
            **launch_capacity(self._context.reservation_id, block=self._context.capacity_type == "CAPACITY_BLOCK"),
        )

    def _interfaces(self, groups: list[str]) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty] | None:
        interfaces = [
            ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                network_card_index=interface.card,
                device_index=interface.device,
                interface_type=interface.kind,
                groups=groups,
                delete_on_termination=True,
            )
            for interface in self._context.interfaces
        ]
        return interfaces or None


def _taints(key: str | None) -> list[eks.CfnNodegroup.TaintProperty] | None:
    """The taint that keeps other pods off the group while other nodes have room; None without a key."""
    if key is None:
        return None
    return [eks.CfnNodegroup.TaintProperty(key=key, value="present", effect="PREFER_NO_SCHEDULE")]
