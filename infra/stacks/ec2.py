"""A job on plain EC2 instances: launch template, Auto Scaling group, role, logs, and guardrails."""

import functools

from aws_cdk import CfnParameter, RemovalPolicy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.cluster_network import cluster_findings
from infra.parts.dashboard import instance_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.entered_policy import entered_policy
from infra.parts.guard_folder import guard_folder
from infra.parts.guard_function import Rights
from infra.parts.instance_group import InstanceGroup, InstanceProfile, group_arn
from infra.parts.node_policy import OWN_PATH, NodePolicy, store_statements
from infra.parts.node_termination import terminate_nodes
from infra.parts.outputs import add_output
from infra.parts.session_log import session_log
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from launcher.model.ec2 import GROUP_OUTPUT
from launcher.model.machine_image import IMAGE_INPUT
from launcher.model.monitoring import JOURNAL_FOLDER
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.model.sizing import LOG_RETENTION_DAYS
from launcher.model.tags import DIGEST_TAG, PLAN_TAG
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import OUTPUTS, ClusterNames
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.targets.ec2.files import fleet_context, log_group, user_data


def guard_rights(plan: Plan, scope: Construct) -> Rights:
    """The guard's permissions: describe instances and groups, set one group to zero, terminate what remains."""
    stop = iam.PolicyStatement(
        sid="StopInstances",
        actions=["autoscaling:SetDesiredCapacity"],
        resources=[group_arn(scope, cluster_name(plan))],
    )
    end = terminate_nodes(plan, "TerminateRemainingNodes")
    reads = (
        *("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"),
        *("cloudwatch:GetMetricData", "ec2:DescribeInstances"),
    )
    return Rights(reads=reads, stop=(stop, end))


class InstancesStack(ClusterStack):
    """The instances of a plan's job.

    Attributes:
        group: their Auto Scaling group.
    """

    KIND = "EC2 instances of"

    def _make(self) -> None:
        plan, network = self._plan, self._network
        security = NodeSecurityGroup(
            self, "NodeSecurityGroup", vpc_id=network.vpc_id, allows_outbound=True, nat=network.behind_gateway
        )
        self.session_log = session_log(self, plan)
        names = self._names(security.group.attr_group_id)
        context = fleet_context(plan, self._catalog.instance_types, names, self._subnets())
        log = logs.CfnLogGroup(self, "Log", log_group_name=log_group(plan), retention_in_days=LOG_RETENTION_DAYS)
        log.apply_removal_policy(RemovalPolicy.DESTROY)
        profile = self._profile(names, log.ref)
        # A new version of the launch template for every plan would be noise in its history.
        stable_tags = {key: value for key, value in self._plan_tags.items() if key not in (PLAN_TAG, DIGEST_TAG)}
        self.group = InstanceGroup(
            self,
            "Instances",
            context=context,
            image=context.image or self._image(context.image_parameter),
            profile=profile,
            user_data=user_data(plan, names),
            public=network.public,
            tags=stable_tags,
        )
        self.group.resource.node.add_dependency(*security.rules, profile)
        self._outputs(names)
        self._watch(guard_rights(plan, self), instance_widgets(plan))

    def _subnets(self) -> tuple[str, ...]:
        """The subnets of several zones for a job on one node; several nodes need one zone for EFA and for the bill."""
        plan, network = self._plan, self._network
        if plan.place.nodes > 1 or plan.place.az_id is not None or plan.request.purchase.reservation is not None:
            return ()
        return tuple(network.zone_subnets.values()) or plan.request.network.subnet_ids

    def _names(self, security_group_id: str) -> ClusterNames:
        """The names in the instances' configuration, as tokens; also creates the permissions of jobs."""
        plan, network = self._plan, self._network
        store, types = network.store, (plan.place.instance_type, *plan.request.target.fallback_types)
        compiles = any(keeps_compiled_programs(self._catalog.instance_types[name]) for name in types)
        journal = JOURNAL_FOLDER if plan.request.checkpoint.store_uri is not None else f"{plan.name}/{JOURNAL_FOLDER}"
        tidy = iam.PolicyStatement(sid="DeleteJournal", actions=["s3:DeleteObject"], resources=[store.objects(journal)])
        policy = NodePolicy(
            self,
            "NodePolicy",
            store=store,
            kms_key_arn=plan.request.storage.kms_key_arn,
            fetched=(),
            secrets=tuple(plan.request.run.secrets.values()),
            compile_cache=compiles,
            image=plan.request.run.image,
            path=OWN_PATH,
            in_store=[*store_statements(store, compile_cache=compiles), tidy],
            reached=reached_locations(plan.request),
        )
        return ClusterNames(
            subnet_id=network.subnet_id,
            security_group_id=security_group_id,
            node_policy_arn=policy.arn,
            store_uri=network.store_uri,
            message_uri=guard_folder(network.store_uri, store).message_uri,
            entered_policy_arn=entered_policy(self, "EnteredPolicy", path=OWN_PATH),
            session_log_policy_arn=None if self.session_log is None else self.session_log.policy_arn,
        )

    def _profile(self, names: ClusterNames, log: str) -> InstanceProfile:
        arns = (names.node_policy_arn, names.entered_policy_arn, names.session_log_policy_arn)
        return InstanceProfile(
            self,
            "Profile",
            group=cluster_name(self._plan),
            log_group=log,
            policy_arns=[arn for arn in arns if arn is not None],
            named_arn=self._plan.request.security.roles.nodes,
        )

    def _image(self, parameter: str | None) -> str:
        """The image as a parameter of the stack: an update retains the id that the stack was created with."""
        return CfnParameter(
            self,
            IMAGE_INPUT,
            type="AWS::EC2::Image::Id",
            description=f"The AMI of the instances, such as the one that {parameter} names",
        ).value_as_string

    def _outputs(self, names: ClusterNames) -> None:
        plan = self._plan
        values = {
            OUTPUTS[name]: getattr(names, name)
            for name in ("subnet_id", "security_group_id", "node_policy_arn", "store_uri", "entered_policy_arn")
        }
        if names.session_log_policy_arn is not None:
            values[OUTPUTS["session_log_policy_arn"]] = names.session_log_policy_arn
        values |= {"ClusterName": cluster_name(plan), "Region": plan.place.region, "PlanDigest": plan.digest}
        values[GROUP_OUTPUT] = self.group.resource.ref
        for name, value in values.items():
            add_output(self, name, value)
        if self.session_log is not None:
            self.session_log.outputs()


findings = cluster_findings
build = functools.partial(add_cluster, InstancesStack)
