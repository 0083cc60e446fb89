"""The nodes of a PCS cluster: their instance profile, their scripts, and node groups with launch templates.

As in AWS's own templates (awsome-distributed-ai 95b939cd, architectures/aws-pcs/assets/add-cng*.yaml): multi-part user
data, since PCS adds its own part; `Groups` on every interface; `efa`, since PCS does not pass `efa-only` on.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from aws_cdk import Fn
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_pcs as pcs
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.parts.launch_capacity import launch_capacity, root_volume, tag_specifications, template_tags
from launcher.model.pcs import LOGIN, ROLE_PATH
from launcher.model.tags import PURPOSE_TAG
from launcher.rendering.node import metrics_script, node_script, script_text
from launcher.targets.pcs.files import (
    MACHINE_FILE,
    METRICS_FILE,
    NODE_FILE,
    USER_DATA,
    GroupContext,
    PcsContext,
    instance_script,
)


class PcsScripts(Construct):
    """The files that nodes fetch at boot: scripts whose digests the cluster pins, and the script that reports metrics.

    Attributes:
        assets: all of them.
        metrics: the script that reports a node's metrics.
    """

    def __init__(self, scope: Construct, id_: str) -> None:
        super().__init__(scope, id_)
        self._texts = {"machine": (MACHINE_FILE, instance_script()), "node": (NODE_FILE, node_script())}
        self._assets = {name: self._asset(name.capitalize(), *file) for name, file in self._texts.items()}
        self.metrics = self._asset("Metrics", METRICS_FILE, metrics_script())
        self.assets = (*self._assets.values(), self.metrics)

    def _asset(self, id_: str, file: str, text: str) -> assets.Asset:
        with TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_text(text, encoding="utf-8", newline="\n")
            return assets.Asset(self, id_, path=str(path))

    def action(
        self, name: str, arguments: Sequence[str], *, every_boot: bool
    ) -> pcs.CfnComputeNodeGroup.NodeLifecycleScriptProperty:
        """A script as a lifecycle action; PCS terminates a node on which it fails."""
        return pcs.CfnComputeNodeGroup.NodeLifecycleScriptProperty(
            name=name,
            script_source=pcs.CfnComputeNodeGroup.ScriptSourceProperty(
                script_location=self._assets[name].s3_object_url,
                checksum=hashlib.sha256(self._texts[name][1].encode()).hexdigest(),
            ),
            arguments=list(arguments),
            on_error="TERMINATE",
            execution_policy="EVERY_BOOT" if every_boot else "FIRST_BOOT_ONLY",
        )


class PcsProfile(Construct):
    """The instance profile of all nodes, below the path that PCS requires.

    Attributes:
        arn: the ARN of the profile.
        role_arn: the ARN of its role: the plan's own or a new one.
        resource: the profile.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: str,
        policy_arns: Sequence[str],
        namespace: str,
        named_arn: str | None,
    ) -> None:
        """`policy_arns` extend the permissions to join the cluster and report; `named_arn` None: a role is created."""
        super().__init__(scope, id_)
        self.role_arn = named_arn or self._role(cluster, policy_arns, namespace)
        self.resource = iam.CfnInstanceProfile(
            self,
            "Profile",
            path=ROLE_PATH,
            roles=[self._made.role_name if named_arn is None else named_arn.rpartition("/")[2]],
        )
        self.arn = self.resource.attr_arn

    def _role(self, cluster: str, policy_arns: Sequence[str], namespace: str) -> str:
        policies = [
            iam.ManagedPolicy.from_managed_policy_arn(self, f"Own{n}", arn) for n, arn in enumerate(policy_arns)
        ]
        report = iam.PolicyStatement(
            sid="PutMetrics",
            actions=["cloudwatch:PutMetricData"],
            resources=["*"],
            conditions={"StringEquals": {"cloudwatch:namespace": namespace}},
        )
        self._made = iam.Role(
            self,
            "Role",
            path=ROLE_PATH,
            assumed_by=iam.ServicePrincipal("ec2.amazonaws.com"),
            description=f"Nodes of PCS cluster {cluster}",
            managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name("AWSPCSComputeNodePolicy"), *policies],
            inline_policies={"Nodes": iam.PolicyDocument(statements=[report])},
        )
        return self._made.role_arn


class PcsGroup(Construct):
    """A compute node group with its launch template.

    Attributes:
        resource: the group.
        template: the launch template.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        cluster: pcs.CfnCluster,
        context: PcsContext,
        group: GroupContext,
        image: str,
        profile: PcsProfile,
        scripts: PcsScripts,
        tags: Mapping[str, str],
    ) -> None:
        """`image` is the id of an AMI.

        `scripts` run at boot; `tags` are for nodes and volumes, which do not inherit the stack's tags.
        """
        super().__init__(scope, id_)
        self._context, self._group = context, group
        self.template = ec2.CfnLaunchTemplate(
            self, "Template", launch_template_data=self._template(tags), tag_specifications=template_tags(tags)
        )
        bootstrapped = [scripts.action("machine", group.instance_arguments, every_boot=True)]
        if group.node_arguments:
            bootstrapped.append(scripts.action("node", group.node_arguments, every_boot=False))
        self.resource = pcs.CfnComputeNodeGroup(
            self,
            "Group",
            cluster_id=cluster.attr_id,
            name=group.name,
            ami_id=image,
            iam_instance_profile_arn=profile.arn,
            instance_configs=[pcs.CfnComputeNodeGroup.InstanceConfigProperty(instance_type=group.instance_type)],
            purchase_option=group.purchase,
            scaling_configuration=pcs.CfnComputeNodeGroup.ScalingConfigurationProperty(
                min_instance_count=group.minimum, max_instance_count=group.maximum
            ),
            subnet_ids=[context.subnet_id],
            # A fixed version would keep later versions of the template from the instances.
            custom_launch_template=pcs.CfnComputeNodeGroup.CustomLaunchTemplateProperty(
                template_id=self.template.ref, version=self.template.attr_latest_version_number
            ),
            node_lifecycle_actions=pcs.CfnComputeNodeGroup.NodeLifecycleActionsProperty(
                script_caching_policy="CACHE_ONCE",
                stages=pcs.CfnComputeNodeGroup.NodeLifecycleStagesProperty(node_bootstrapped=bootstrapped),
            ),
        )

    def _template(self, tags: Mapping[str, str]) -> ec2.CfnLaunchTemplate.LaunchTemplateDataProperty:
        context, group = self._context, self._group
        together = ec2.CfnPlacementGroup(self, "Placement", strategy="cluster") if group.placement_group else None
        instance_tags = {
            **tags,
            PURPOSE_TAG: "login" if group.name == LOGIN else "node",
            "Name": f"{context.name}-{group.name}",
        }
        return ec2.CfnLaunchTemplate.LaunchTemplateDataProperty(
            instance_type=group.instance_type,
            block_device_mappings=[root_volume(context.root_device, group.volume_gib, context.volume_key_arn)],
            metadata_options=ec2.CfnLaunchTemplate.MetadataOptionsProperty(
                http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=context.metadata_hops
            ),
            security_group_ids=None if group.interfaces else list(context.group_ids),
            network_interfaces=self._interfaces(),
            placement=None if together is None else ec2.CfnLaunchTemplate.PlacementProperty(group_name=together.ref),
            user_data=Fn.base64(script_text(USER_DATA)),
            tag_specifications=tag_specifications(instance_tags, spot=group.purchase == "SPOT"),
            **launch_capacity(self._group.reservation_id, block=self._group.purchase == "CAPACITY_BLOCK"),
        )

    def _interfaces(self) -> list[ec2.CfnLaunchTemplate.NetworkInterfaceProperty] | None:
        interfaces = [
            ec2.CfnLaunchTemplate.NetworkInterfaceProperty(
                network_card_index=interface.card,
                device_index=interface.device,
                interface_type="efa" if interface.kind == "efa" else None,
                subnet_id=self._context.subnet_id,
                groups=list(self._context.group_ids),
                delete_on_termination=True,
            )
            for interface in self._group.interfaces
        ]
        return interfaces or None
