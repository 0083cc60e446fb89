"""The plain instances of a job: their instance profile, their launch template, and their Auto Scaling group."""

from collections.abc import Mapping, Sequence

from aws_cdk import Aws, Fn, Stack
from aws_cdk import aws_autoscaling as autoscaling
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parts.launch_capacity import launch_capacity, root_volume, tag_specifications, template_tags
from launcher.model.tags import PURPOSE_TAG
from launcher.targets.ec2.files import FleetContext


def group_arn(scope: Construct, name: str) -> str:
    """The ARN of an Auto Scaling group by its name; a group's id is known only when it exists."""
    region = Stack.of(scope).region
    return f"arn:{Aws.PARTITION}:autoscaling:{region}:{Aws.ACCOUNT_ID}:autoScalingGroup:*:autoScalingGroupName/{name}"


class InstanceProfile(Construct):
    """The instance profile of all instances.

    Attributes:
        arn: the ARN of the profile.
        resource: the profile.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        group: str,
        log_group: str,
        policy_arns: Sequence[str],
        named_arn: str | None,
    ) -> None:
        """`policy_arns` extend the permissions to find and end the instances; `named_arn`: an own role."""
        super().__init__(scope, id_)
        name = self._role(group, log_group, policy_arns) if named_arn is None else named_arn.rpartition("/")[2]
        self.resource = iam.CfnInstanceProfile(self, "Profile", roles=[name])
        self.arn = self.resource.attr_arn

    def _role(self, group: str, log_group: str, policy_arns: Sequence[str]) -> str:
        policies = [
            iam.ManagedPolicy.from_managed_policy_arn(self, f"Own{n}", arn) for n, arn in enumerate(policy_arns)
        ]
        streams = f"arn:{Aws.PARTITION}:logs:{Stack.of(self).region}:{Aws.ACCOUNT_ID}:log-group:{log_group}:*"
        statements = [
            # EC2 supports no resource for this action.
            iam.PolicyStatement(sid="DescribeInstances", actions=["ec2:DescribeInstances"], resources=["*"]),
            iam.PolicyStatement(
                sid="TerminateInstances",
                actions=[
                    "autoscaling:CompleteLifecycleAction",
                    "autoscaling:SetDesiredCapacity",
                    "autoscaling:TerminateInstanceInAutoScalingGroup",
                ],
                resources=[group_arn(self, group)],
            ),
            iam.PolicyStatement(
                sid="WriteLog", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[streams]
            ),
        ]
        return iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            description=f"Instances of {group}",
            managed_policies=policies,
            inline_policies={"Instances": iam.PolicyDocument(statements=statements)},
        ).role_name


class InstanceGroup(Construct):
    """A launch template and the Auto Scaling group of its instances, empty until a launch sets its size.

    Attributes:
        resource: the group.
        template: the launch template.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        context: FleetContext,
        image: str,
        profile: InstanceProfile,
        user_data: str,
        public: bool,
        tags: Mapping[str, str],
    ) -> None:
        """`image` is the id of an AMI; `tags` are for instances and volumes, which do not inherit the stack's tags."""
        super().__init__(scope, id_)
        self._context, self._public = context, public
        self.template = ec2.CfnLaunchTemplate(
            self,
            "Template",
            launch_template_data=self._instances(image, profile, user_data, tags),
            tag_specifications=template_tags(tags),
        )
        specification = autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty(
            launch_template_id=self.template.ref, version=self.template.attr_latest_version_number
        )
        self.resource = autoscaling.CfnAutoScalingGroup(
            self,
            "Group",
            auto_scaling_group_name=context.name,
            # Without a desired size, an update of the stack leaves the size that a launch has set.
            min_size="0",
            max_size=str(context.nodes),
            vpc_zone_identifier=list(context.subnet_ids),
            health_check_type="EC2",
            launch_template=None if context.mixed else specification,
            mixed_instances_policy=self._mixed_policy(specification) if context.mixed else None,
            lifecycle_hook_specification_list=[
                autoscaling.CfnAutoScalingGroup.LifecycleHookSpecificationProperty(
                    lifecycle_hook_name=context.hook,
                    lifecycle_transition="autoscaling:EC2_INSTANCE_TERMINATING",
                    heartbeat_timeout=context.hook_s,
                    default_result="CONTINUE",
                )
            ],
        )

    def _mixed_policy(
        self, specification: autoscaling.CfnAutoScalingGroup.LaunchTemplateSpecificationProperty
    ) -> autoscaling.CfnAutoScalingGroup.MixedInstancesPolicyProperty:
        context, kind = self._context, autoscaling.CfnAutoScalingGroup
        return kind.MixedInstancesPolicyProperty(
            instances_distribution=kind.InstancesDistributionProperty(
                on_demand_base_capacity=0,
                on_demand_percentage_above_base_capacity=0 if context.spot else 100,
                spot_allocation_strategy="price-capacity-optimized" if context.spot else None,
                on_demand_allocation_strategy=None if context.spot else "prioritized",
            ),
            launch_template=kind.LaunchTemplateProperty(
                launch_template_specification=specification,
                overrides=[kind.LaunchTemplateOverridesProperty(instance_type=name) for name in context.instance_types],
            ),
        )

    def _instances(
        self, image: str, profile: InstanceProfile, user_data: str, tags: Mapping[str, str]
    ) -> ec2.CfnLaunchTemplate.LaunchTemplateDataProperty:
        context, groups = self._context, list(self._context.group_ids)
        together = ec2.CfnPlacementGroup(self, "Placement", strategy="cluster") if context.placement_group else None
        own = {**tags, PURPOSE_TAG: "node", "Name": context.name}
        return ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
            image_id=image,
            instance_type=context.instance_type,
            iam_instance_profile=ec2.CfnLaunchTemplate.IamInstanceProfileProperty(arn=profile.arn),
            # The program on the instance would otherwise leave a stopped instance behind.
            instance_initiated_shutdown_behavior="terminate",
            block_device_mappings=[root_volume(context.root_device, context.volume_gib, context.volume_key_arn)],
            metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(
                http_endpoint="enabled",
                http_tokens="required",
                http_put_response_hop_limit=context.metadata_hops,
                instance_metadata_tags="enabled",
            ),
            security_group_ids=None if context.interfaces else groups,
            network_interfaces=self._interfaces(groups),
            placement=None if together is None else ec2.CfnLaunchTemplate.PlacementProperty(group_name=together.ref),
            user_data=Fn.base64(user_data),
            tag_specifications=tag_specifications(own, spot=False),
            **launch_capacity(context.reservation_id, block=context.block),
        )

    def _interfaces(self, groups: list[str]) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty] | None:
        interfaces = [
            ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                network_card_index=interface.card,
                device_index=interface.device,
                interface_type=interface.kind,
                groups=groups,
                associate_public_ip_address=True if self._public else None,
                delete_on_termination=True,
            )
            for interface in self._context.interfaces
        ]
        return interfaces or None
