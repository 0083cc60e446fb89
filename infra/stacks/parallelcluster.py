"""A training cluster: its security group, the permissions of its nodes, ParallelCluster itself, and guardrails."""

import functools
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from aws_cdk import CfnStack, CustomResource
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

from infra.cluster_network import ClusterNetwork, cluster_findings
from infra.parts import parallelcluster_guard
from infra.parts.dashboard import parallelcluster_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.entered_policy import entered_policy
from infra.parts.guard_folder import guard_folder
from infra.parts.node_policy import PATH, NodePolicy
from infra.parts.outputs import add_output
from infra.parts.provider_access import provider_parameters
from infra.parts.published import published_template
from infra.parts.session_log import session_log
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from launcher.catalog.load import Catalog
from launcher.model.finding import Finding
from launcher.model.instance_type import InstanceType
from launcher.model.named_role import named_roles
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import OUTPUTS, ClusterNames
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.rendering.node import metrics_script, node_script
from launcher.targets.parallelcluster.files import METRICS_FILE, NODE_FILE, agent_findings, cluster_configuration
from launcher.targets.registry import target_of


class ParallelCluster(Construct):
    """The provider (a stack that AWS publishes in every region), and the cluster as the provider's custom resource.

    The cluster is a separate stack next to this one. An update alone stops no running nodes; the configuration's
    QueueUpdateStrategy decides what happens to them.

    Attributes:
        resource: the custom resource; its attributes are those of `pcluster describe-cluster`, and an unknown attribute
            fails the deployment.
    """

    def __init__(
        self,
        scope: Construct,
        id_: str,
        *,
        name: str,
        configuration: Mapping[str, Any],
        provider_parameters: Mapping[str, str],
    ) -> None:
        """`name` must differ from the stack's name and can never change; `configuration` may contain tokens."""
        super().__init__(scope, id_)
        self.provider = CfnStack(
            self,
            "Provider",
            template_url=published_template(self, "custom_resource/cluster.yaml"),
            parameters=dict(provider_parameters) or None,
        )
        self.resource = CustomResource(
            self,
            "Cluster",
            resource_type="Custom::PclusterCluster",
            service_token=self.provider.get_att("Outputs.ServiceToken").to_string(),
            properties={"ClusterName": name, "ClusterConfiguration": configuration},
        )


def findings(plan: Plan, catalog: Catalog) -> tuple[Finding, ...]:
    """Every reason why a plan's cluster cannot be built; empty if it can."""
    return (*cluster_findings(plan, catalog), *agent_findings(plan))


class TrainingStack(ClusterStack):
    """A ParallelCluster.

    Attributes:
        cluster: the cluster.
    """

    KIND = "cluster"

    def _make(self) -> None:
        plan, instances, network = self._plan, self._catalog.instance_types, self._network
        group = NodeSecurityGroup(self, "NodeSecurityGroup", vpc_id=network.vpc_id)
        self.session_log = session_log(self, plan, PATH)
        names = self._names(plan, instances, network, group)
        storage, train = plan.request.storage, plan.request.workload.train
        provider = provider_parameters(
            self,
            "ProviderAccess",
            boundary_arn=plan.request.security.permissions_boundary_arn,
            data_uri=train.data.uri if train is not None and storage.lustre_gib else None,
            key_arn=plan.request.storage.kms_key_arn,
            role_arns=sorted({role.arn for role in named_roles(plan.request, target_of(plan.place.target))}),
        )
        self.cluster = ParallelCluster(
            self,
            "ParallelCluster",
            name=cluster_name(plan),
            configuration=cluster_configuration(plan, instances=instances, names=names),
            provider_parameters=provider,
        )
        # Nodes that started without the rules would have no EFA until a user restarts them.
        self.cluster.resource.node.add_dependency(*group.rules)
        head_node = self.cluster.resource.get_att_string("headNode.instanceId")
        connect = self._connect(plan, head_node)
        self._outputs(plan, names, connect)
        widgets = parallelcluster_widgets(plan, connect, head_node)
        self._watch(parallelcluster_guard.rights(plan, self), widgets, parallelcluster_guard.announce)

    def _names(
        self,
        plan: Plan,
        instances: Mapping[str, InstanceType],
        network: ClusterNetwork,
        group: NodeSecurityGroup,
    ) -> ClusterNames:
        """The names in the cluster's configuration, as tokens; also creates the nodes' scripts and permissions."""
        types = [instances[type_name] for type_name in (plan.place.instance_type, *plan.request.target.fallback_types)]
        script = self._script("NodeScript", NODE_FILE, node_script())
        metrics = self._script("NodeMetrics", METRICS_FILE, metrics_script())
        policy = NodePolicy(
            self,
            "NodePolicy",
            store=network.store,
            kms_key_arn=plan.request.storage.kms_key_arn,
            fetched=(script, metrics),
            secrets=tuple(plan.request.run.secrets.values()),
            compile_cache=any(keeps_compiled_programs(type_) for type_ in types),
            image=plan.request.run.image,
            starts_nodes=True,
            reached=reached_locations(plan.request),
            reports_as=plan.cluster_name,
        )
        return ClusterNames(
            subnet_id=network.subnet_id,
            security_group_id=group.group.attr_group_id,
            node_policy_arn=policy.arn,
            store_uri=network.store_uri,
            node_setup_uri=script.s3_object_url,
            node_metrics_uri=metrics.s3_object_url,
            message_uri=guard_folder(network.store_uri, network.store).message_uri,
            entered_policy_arn=entered_policy(self, "EnteredPolicy", path=PATH),
            session_log_policy_arn=self.session_log.policy_arn if self.session_log is not None else None,
        )

    def _connect(self, plan: Plan, head_node: str) -> str:
        command = f"aws ssm start-session --region {plan.place.region} --target {head_node}"
        return command if self.session_log is None else f"{command} --document-name {self.session_log.document}"

    def _script(self, id_: str, file: str, text: str) -> assets.Asset:
        """A script of the nodes as an S3 asset: two files joined, copied into the assembly."""
        with TemporaryDirectory() as folder:
            path = Path(folder) / file
            path.write_text(text, encoding="utf-8", newline="\n")
            return assets.Asset(self, id_, path=str(path))

    def _outputs(self, plan: Plan, names: ClusterNames, connect: str) -> None:
        for field in fields(ClusterNames):
            value = getattr(names, field.name)
            # The guard's part has the output of its folder.
            if value is not None and field.name != "message_uri":
                add_output(self, OUTPUTS[field.name], value)
        head_node = self.cluster.resource.get_att_string("headNode.instanceId")
        add_output(self, "ClusterName", cluster_name(plan))
        add_output(self, "HeadNodeInstanceId", head_node)
        add_output(self, "Region", plan.place.region)
        add_output(self, "Connect", connect)
        if self.session_log is not None:
            self.session_log.outputs()
        add_output(self, "PlanDigest", plan.digest)
        add_output(
            self,
            "StartFleet",
            f"pcluster update-compute-fleet --cluster-name {cluster_name(plan)} --region {plan.place.region}"
            " --status START_REQUESTED",
        )


build = functools.partial(add_cluster, TrainingStack)
