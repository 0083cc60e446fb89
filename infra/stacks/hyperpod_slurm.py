"""A training cluster on HyperPod with Slurm: network rules, file system, scripts, role, and guardrails."""

import functools
from collections.abc import Mapping
from dataclasses import fields

from infra.cluster_network import ClusterNetwork, cluster_findings
from infra.parts import hyperpod_guard
from infra.parts.dashboard import hyperpod_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.hyperpod_cluster import HyperPodCluster
from infra.parts.hyperpod_lifecycle import HyperPodLifecycle
from infra.parts.hyperpod_lustre import HyperPodLustre
from infra.parts.hyperpod_role import HyperPodRole
from infra.parts.node_policy import OWN_PATH, NodePolicy
from infra.parts.outputs import add_output
from infra.parts.session_log import session_log
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from launcher.catalog import safe_yaml
from launcher.model.instance_type import InstanceType
from launcher.model.monitoring import nodes_namespace
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import HYPERPOD_OUTPUTS, OUTPUTS, ClusterNames
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.targets.hyperpod_slurm.files import cluster_text, lifecycle_files


class HyperPodStack(ClusterStack):
    """A HyperPod cluster with Slurm.

    Attributes:
        cluster: the cluster.
    """

    KIND = "HyperPod cluster"

    def _make(self) -> None:
        plan, instances, network = self._plan, self._catalog.instance_types, self._network
        # HyperPod's instances have no other group that allows outbound traffic.
        group = NodeSecurityGroup(self, "NodeSecurityGroup", vpc_id=network.vpc_id, allows_outbound=True)
        group_id = group.group.attr_group_id
        lustre = HyperPodLustre(self, "Lustre", plan=plan, subnet_id=network.subnet_id, security_group_id=group_id)
        self.session_log = session_log(self, plan)
        names, role, lifecycle = self._names(plan, instances, network, group_id, lustre)
        request = safe_yaml.loads(cluster_text(plan, instances=instances, names=names))
        self.cluster = HyperPodCluster(self, "HyperPod", request=request)
        # Named by their keys, the scripts of a cluster that exists are no garbage to `cdk gc`.
        self.cluster.resource.add_metadata("slipway:lifecycle", list(lifecycle.keys))
        # New instances fetch their scripts through the group and mount the file system.
        lustre.file_system.node.add_dependency(*group.rules)
        self.cluster.resource.node.add_dependency(*group.rules, lustre, role)
        document = None if self.session_log is None else self.session_log.document
        connect = self.cluster.connect_command(plan.place.region, document)
        self._outputs(plan, names, connect)
        widgets = hyperpod_widgets(plan, self.cluster.cluster_id, connect)
        self._watch(hyperpod_guard.rights(plan, self), widgets, hyperpod_guard.announce)

    def _names(
        self,
        plan: Plan,
        instances: Mapping[str, InstanceType],
        network: ClusterNetwork,
        group_id: str,
        lustre: HyperPodLustre,
    ) -> tuple[ClusterNames, HyperPodRole, HyperPodLifecycle]:
        """The names in the cluster's configuration, as tokens, with the cluster's new role and new scripts."""
        self.own_synthesizer.bind(self)
        files = lifecycle_files(plan, instances)
        lifecycle = HyperPodLifecycle(self, "Lifecycle", files=files, synthesizer=self.own_synthesizer)
        policy = NodePolicy(
            self,
            "NodePolicy",
            store=network.store,
            kms_key_arn=plan.request.storage.kms_key_arn,
            fetched=(),
            secrets=tuple(plan.request.run.secrets.values()),
            compile_cache=keeps_compiled_programs(instances[plan.place.instance_type]),
            image=plan.request.run.image,
            path=OWN_PATH,
            reached=reached_locations(plan.request),
        )
        role = HyperPodRole(
            self,
            "ExecutionRole",
            cluster=plan.cluster_name,
            lifecycle=lifecycle,
            node_policy=policy.resource,
            subnet_id=network.subnet_id,
            security_group_ids=[group_id, *plan.request.network.security_group_ids],
            namespace=nodes_namespace(plan.cluster_name),
            session_log_arn=None if self.session_log is None else self.session_log.policy_arn,
            named_arn=plan.request.security.roles.nodes,
            kms_key_arn=plan.request.storage.kms_key_arn,
        )
        names = ClusterNames(
            subnet_id=network.subnet_id,
            security_group_id=group_id,
            node_policy_arn=policy.arn,
            store_uri=network.store_uri,
            role_arn=role.arn,
            lifecycle_uri=lifecycle.uri,
            lustre_dns_name=lustre.dns_name,
            lustre_mount_name=lustre.mount_name,
        )
        return names, role, lifecycle

    def _outputs(self, plan: Plan, names: ClusterNames, connect: str) -> None:
        for field in fields(ClusterNames):
            value = getattr(names, field.name)
            if value is not None:
                add_output(self, {**OUTPUTS, **HYPERPOD_OUTPUTS}[field.name], value)
        region, name = plan.place.region, cluster_name(plan)
        add_output(self, "ClusterName", name)
        add_output(self, "ClusterArn", self.cluster.resource.attr_cluster_arn)
        add_output(self, "ClusterId", self.cluster.cluster_id)
        add_output(self, "Region", region)
        add_output(self, "Connect", connect)
        if self.session_log is not None:
            self.session_log.outputs()
        groups = self.to_json_string([self.cluster.workers])
        add_output(
            self,
            "StartFleet",
            f"aws sagemaker update-cluster --region {region} --cluster-name {name} --instance-groups '{groups}'",
        )
        add_output(self, "PlanDigest", plan.digest)


findings = cluster_findings
build = functools.partial(add_cluster, HyperPodStack)
