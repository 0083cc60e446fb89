"""A training cluster on AWS PCS: controller, login node, node groups with their queues, logs, and guardrails."""

import functools
import shlex
from dataclasses import fields

from aws_cdk import Aws, CfnParameter, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_pcs as pcs
from constructs import Construct

from infra.cluster_network import ClusterNetwork, cluster_findings
from infra.parts.dashboard import pcs_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.entered_policy import entered_policy
from infra.parts.guard_folder import guard_folder
from infra.parts.guard_function import Rights
from infra.parts.hyperpod_lustre import HyperPodLustre
from infra.parts.node_policy import OWN_PATH, NodePolicy
from infra.parts.node_termination import terminate_nodes
from infra.parts.outputs import add_output
from infra.parts.pcs_nodes import PcsGroup, PcsProfile, PcsScripts
from infra.parts.session_log import session_log
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from launcher.model.machine_image import IMAGE_INPUT
from launcher.model.monitoring import nodes_namespace
from launcher.model.pcs import GROUP_TAG, IMAGE_PARAMETER, LOGIN
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.model.sizing import LOG_RETENTION_DAYS
from launcher.model.tags import DIGEST_TAG, PLAN_TAG
from launcher.rendering.names import HYPERPOD_OUTPUTS, OUTPUTS, ClusterNames
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.targets.pcs.files import PcsContext, cluster_context

LOG_TYPES = ("PCS_SCHEDULER_LOGS", "PCS_JOBCOMP_LOGS", "PCS_SCALING_LOGS")


def guard_rights(plan: Plan, scope: Construct, cluster_id: str, role_arn: str) -> Rights:
    """The guard's permissions: describe instances, set node groups to zero, terminate nodes by their tags.

    A group's update needs the permissions of its creation (PCS user guide, minimum permissions), all through PCS.
    """
    region = Stack.of(scope).region
    cluster = f"arn:{Aws.PARTITION}:pcs:{region}:{Aws.ACCOUNT_ID}:cluster/{cluster_id}"
    through = {"ForAnyValue:StringEquals": {"aws:CalledVia": [f"pcs.{Aws.URL_SUFFIX}"]}}
    statements = (
        iam.PolicyStatement(
            sid="StopNodes",
            actions=["pcs:GetComputeNodeGroup", "pcs:ListComputeNodeGroups", "pcs:UpdateComputeNodeGroup"],
            resources=[cluster, f"{cluster}/computenodegroup/*"],
        ),
        iam.PolicyStatement(
            sid="UpdateNodesThroughPcs",
            actions=["ec2:CreateFleet", "ec2:CreateTags", "ec2:RunInstances", "iam:GetInstanceProfile"],
            resources=["*"],
            conditions=through,
        ),
        iam.PolicyStatement(
            sid="PassRole",
            actions=["iam:PassRole"],
            resources=[role_arn],
            conditions={"StringEquals": {"iam:PassedToService": f"ec2.{Aws.URL_SUFFIX}"}},
        ),
        terminate_nodes(plan, "TerminateRetainedNodes"),
    )
    actions = (
        *("ec2:DescribeCapacityBlockStatus", "ec2:DescribeCapacityBlocks", "ec2:DescribeCapacityReservations"),
        *("cloudwatch:GetMetricData", "ec2:DescribeInstanceTypeOfferings", "ec2:DescribeInstanceTypes"),
        *("ec2:DescribeInstances", "ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates"),
        *("ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcs"),
    )
    return Rights(reads=actions, stop=statements)


def deliver_logs(stack: Construct, id_: str, *, cluster: pcs.CfnCluster, name: str) -> None:
    """One delivery per log type (aws-hpc-recipes 009a29a, recipes/pcs/cloudwatch; PCS user guide, "Scaling logs")."""
    scope = Construct(stack, id_)
    for kind in LOG_TYPES:
        part = kind.removeprefix("PCS_").removesuffix("_LOGS").capitalize()
        # The policy with which CloudWatch may write is added when the delivery is made (CloudWatch Logs user guide,
        # "Logs sent to CloudWatch Logs"); below /aws/vendedlogs/ one policy serves every group.
        group = logs.CfnLogGroup(
            scope,
            f"{part}Log",
            log_group_name=f"/aws/vendedlogs/pcs/cluster/{kind}/{name}",
            retention_in_days=LOG_RETENTION_DAYS,
        )
        group.apply_removal_policy(RemovalPolicy.DESTROY)
        source = logs.CfnDeliverySource(
            scope, f"{part}Source", name=f"{name}-{part.lower()}", log_type=kind, resource_arn=cluster.attr_arn
        )
        destination = logs.CfnDeliveryDestination(
            scope,
            f"{part}Destination",
            name=f"{name}-{part.lower()}",
            destination_resource_arn=group.attr_arn,
        )
        delivery = logs.CfnDelivery(
            scope,
            f"{part}Delivery",
            delivery_source_name=source.name,
            delivery_destination_arn=destination.attr_arn,
        )
        delivery.add_resource_dependency(source)


class PcsStack(ClusterStack):
    """A PCS cluster.

    Attributes:
        cluster: the controller.
        groups: the node groups, by name.
    """

    KIND = "PCS cluster"

    def _make(self) -> None:
        plan, network = self._plan, self._network
        group = NodeSecurityGroup(
            self, "NodeSecurityGroup", vpc_id=network.vpc_id, allows_outbound=True, nat=network.behind_gateway
        )
        group_id = group.group.attr_group_id
        lustre = HyperPodLustre(self, "Lustre", plan=plan, subnet_id=network.subnet_id, security_group_id=group_id)
        lustre.file_system.node.add_dependency(*group.rules)
        self.session_log = session_log(self, plan)
        scripts = PcsScripts(self, "Scripts")
        names = self._names(plan, network, group_id, lustre, scripts)
        context = cluster_context(plan, instances=self._catalog.instance_types, names=names)
        profile = self._profile(plan, context, names)
        self.cluster = self._controller(context)
        # EC2 knows a new profile only after a while: the controller takes minutes.
        self.cluster.node.add_dependency(*group.rules, lustre, profile)
        deliver_logs(self, "Logs", cluster=self.cluster, name=context.name)
        self.groups = self._groups(context, profile, scripts)
        connect = self._connect(plan)
        self._outputs(plan, context, names, connect)
        rights = guard_rights(plan, self, self.cluster.attr_id, profile.role_arn)
        self._watch(rights, pcs_widgets(plan, connect))

    def _names(
        self,
        plan: Plan,
        network: ClusterNetwork,
        group_id: str,
        lustre: HyperPodLustre,
        scripts: PcsScripts,
    ) -> ClusterNames:
        """The names in the cluster's configuration, as tokens; also creates the nodes' permissions."""
        types = [
            self._catalog.instance_types[type_name]
            for type_name in (plan.place.instance_type, *plan.request.target.fallback_types)
        ]
        policy = NodePolicy(
            self,
            "NodePolicy",
            store=network.store,
            kms_key_arn=plan.request.storage.kms_key_arn,
            fetched=scripts.assets,
            secrets=tuple(plan.request.run.secrets.values()),
            compile_cache=any(keeps_compiled_programs(type_) for type_ in types),
            image=plan.request.run.image,
            path=OWN_PATH,
            reached=reached_locations(plan.request),
        )
        return ClusterNames(
            subnet_id=network.subnet_id,
            security_group_id=group_id,
            node_policy_arn=policy.arn,
            store_uri=network.store_uri,
            node_metrics_uri=scripts.metrics.s3_object_url,
            message_uri=guard_folder(network.store_uri, network.store).message_uri,
            entered_policy_arn=entered_policy(self, "EnteredPolicy", path=OWN_PATH),
            session_log_policy_arn=None if self.session_log is None else self.session_log.policy_arn,
            lustre_dns_name=lustre.dns_name,
            lustre_mount_name=lustre.mount_name,
        )

    def _profile(self, plan: Plan, context: PcsContext, names: ClusterNames) -> PcsProfile:
        arns = (names.node_policy_arn, names.entered_policy_arn, names.session_log_policy_arn)
        return PcsProfile(
            self,
            "Profile",
            cluster=context.name,
            policy_arns=[arn for arn in arns if arn is not None],
            namespace=nodes_namespace(plan.cluster_name),
            named_arn=plan.request.security.roles.nodes,
        )

    def _controller(self, context: PcsContext) -> pcs.CfnCluster:
        return pcs.CfnCluster(
            self,
            "Cluster",
            name=context.name,
            size=context.size,
            scheduler=pcs.CfnCluster.SchedulerProperty(type="SLURM", version=context.slurm_version),
            networking=pcs.CfnCluster.NetworkingProperty(
                subnet_ids=[context.subnet_id], security_group_ids=list(context.group_ids)
            ),
            slurm_configuration=pcs.CfnCluster.SlurmConfigurationProperty(
                accounting=pcs.CfnCluster.AccountingProperty(
                    mode="STANDARD", default_purge_time_in_days=context.purge_days
                ),
                scale_down_idle_time_in_seconds=context.idle_s,
                slurm_custom_settings=[
                    pcs.CfnCluster.SlurmCustomSettingProperty(parameter_name=setting.key, parameter_value=setting.value)
                    for setting in context.settings
                ],
            ),
        )

    def _groups(self, context: PcsContext, profile: PcsProfile, scripts: PcsScripts) -> dict[str, PcsGroup]:
        image = context.image or self._image()
        # A new version of a launch template replaces the nodes: what changes with every plan is no part of it.
        stable_tags = {key: value for key, value in self._plan_tags.items() if key not in (PLAN_TAG, DIGEST_TAG)}
        groups = {}
        for number, group in enumerate(context.groups):
            groups[group.name] = PcsGroup(
                self,
                "Login" if group.name == LOGIN else f"Nodes{number}",
                cluster=self.cluster,
                context=context,
                group=group,
                image=image,
                profile=profile,
                scripts=scripts,
                tags=stable_tags,
            )
            if group.queue is not None:
                pcs.CfnQueue(
                    self,
                    f"Queue{number}",
                    cluster_id=self.cluster.attr_id,
                    name=group.queue,
                    compute_node_group_configurations=[
                        pcs.CfnQueue.ComputeNodeGroupConfigurationProperty(
                            compute_node_group_id=groups[group.name].resource.attr_id
                        )
                    ],
                )
        return groups

    def _image(self) -> str:
        """The image as a parameter of the stack: an update retains the image id that the cluster was created with."""
        return CfnParameter(
            self,
            IMAGE_INPUT,
            type="String",
            allowed_pattern="ami-[0-9a-f]{8,17}",
            description=f"A PCS-ready AMI, such as the one that {IMAGE_PARAMETER} names",
        ).value_as_string

    def _connect(self, plan: Plan) -> str:
        """The command that opens a shell on the login node, even after PCS replaced that node."""
        region, group = plan.place.region, self.groups[LOGIN].resource.attr_id
        instance_query = (
            f"aws ec2 describe-instances --region {region} --filters Name=tag:{GROUP_TAG},Values={group}"
            " Name=instance-state-name,Values=running --query Reservations[0].Instances[0].InstanceId --output text"
        )
        command = f"aws ssm start-session --region {region} --target $({instance_query})"
        return command if self.session_log is None else f"{command} --document-name {self.session_log.document}"

    def _outputs(self, plan: Plan, context: PcsContext, names: ClusterNames, connect: str) -> None:
        named = {**OUTPUTS, **HYPERPOD_OUTPUTS}
        for field in fields(ClusterNames):
            value = getattr(names, field.name)
            # The guard's part has the output of its folder.
            if value is not None and field.name != "message_uri":
                add_output(self, named[field.name], value)
        add_output(self, "ClusterName", context.name)
        add_output(self, "PcsClusterId", self.cluster.attr_id)
        add_output(self, "LoginGroupId", self.groups[LOGIN].resource.attr_id)
        add_output(self, "Region", plan.place.region)
        add_output(self, "Connect", connect)
        if self.session_log is not None:
            self.session_log.outputs()
        add_output(self, "StartFleet", self._start(context))
        add_output(self, "PlanDigest", plan.digest)

    def _start(self, context: PcsContext) -> str:
        """The commands that undo the guard's stop."""
        return " && ".join(
            f"aws pcs update-compute-node-group --region {self.region} --cluster-identifier {context.name}"
            f" --compute-node-group-identifier {shlex.quote(group.name)} --scaling-configuration"
            f" minInstanceCount={group.minimum},maxInstanceCount={group.maximum}"
            for group in context.groups
            if group.name != LOGIN
        )


findings = cluster_findings
build = functools.partial(add_cluster, PcsStack)
