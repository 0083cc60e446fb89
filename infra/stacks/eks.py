"""A training cluster on EKS: control plane, node groups, permissions of pods, and guardrails."""

import functools
from collections.abc import Mapping

from constructs import Construct

from infra.cluster_network import ClusterNetwork, cluster_findings
from infra.parts.dashboard import eks_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.eks_cluster import EksCluster, create_control_subnets
from infra.parts.eks_guard import rights as guard_rights
from infra.parts.eks_nodes import NodeGroup, node_role, report_statements
from infra.parts.eks_pods import pod_counter, pod_statements
from infra.parts.guard_folder import guard_folder
from infra.parts.node_policy import OWN_PATH, NodePolicy
from infra.parts.outputs import add_output
from infra.parts.pod_role import grant, pod_role
from infra.parts.session_log import session_log
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from launcher.catalog.load import Catalog
from launcher.model.eks import NAMESPACES, SYSTEM, WORKERS
from launcher.model.kubernetes import ACCOUNT_KEY
from launcher.model.plan import Plan
from launcher.model.reach import reached_locations
from launcher.model.tags import DIGEST_TAG, PLAN_TAG
from launcher.planning.addresses import control_ranges, ranges
from launcher.planning.networks import control_zones
from launcher.planning.pin import zone
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import OUTPUTS
from launcher.rendering.neuron import keeps_compiled_programs
from launcher.rendering.node import boots_uri
from launcher.targets.eks.files import EksContext, eks_context


class EksStack(ClusterStack):
    """An EKS cluster.

    Attributes:
        cluster: the control plane.
        workers: the nodes of the jobs.
    """

    KIND = "EKS cluster"

    def _make(self) -> None:
        plan, catalog, network = self._plan, self._catalog, self._network
        context = eks_context(plan, catalog.instance_types)
        group = NodeSecurityGroup(self, "NodeSecurityGroup", vpc_id=network.vpc_id, allows_outbound=True)
        group_id = group.group.attr_group_id
        self.cluster = EksCluster(
            self,
            "Eks",
            context=context,
            subnet_ids=control_subnets(self, plan, catalog, network),
            security_group_id=group_id,
            key_arn=plan.request.storage.kms_key_arn,
            role_arn=plan.request.security.roles.control_plane,
            access_arns=plan.request.security.kubernetes_access,
        )
        self.session_log = session_log(self, plan)
        groups = self._groups(plan, context, network, group, self._plan_tags)
        self.workers = groups[WORKERS]
        addons = self.cluster.add_ons([groups[SYSTEM]])
        before = [addon for addon in addons if not addon.node.dependencies]
        for node_group in groups.values():
            node_group.node.add_dependency(*group.rules, *before)
        policy, role_arn = pods_policy(self, plan, catalog, network)
        grant(self, cluster=self.cluster.resource, role_arn=role_arn, namespaces=NAMESPACES, account=plan.name)
        self.cluster.lets_grant(role_arn)
        self._outputs(plan, network, group_id=group_id, policy=policy.arn, pods_role=role_arn)
        counter = pod_counter(
            self, "Pods", cluster=self.cluster, subnet_id=network.subnet_id, security_group_id=group_id
        )
        counter.node.add_dependency(*group.rules)
        self._watch(guard_rights(plan, self, counter.attr_arn), eks_widgets(plan))

    def _groups(
        self,
        plan: Plan,
        context: EksContext,
        network: ClusterNetwork,
        group: NodeSecurityGroup,
        tags: Mapping[str, str],
    ) -> dict[str, NodeGroup]:
        logged = self.session_log.policy_arn if self.session_log is not None else None
        folder, key_arn = guard_folder(network.store_uri, network.store), plan.request.storage.kms_key_arn
        role_arn = plan.request.security.roles.nodes
        if role_arn is None:
            role_arn = node_role(
                self,
                "NodeRole",
                cluster=plan.cluster_name,
                session_log_arn=logged,
                reports=report_statements(folder, key_arn),
            ).role_arn
        # A new version of a launch template replaces the nodes: what changes with every plan is no part of it.
        stable_tags = {key: value for key, value in tags.items() if key not in (PLAN_TAG, DIGEST_TAG)}
        return {
            node_group_context.name: NodeGroup(
                self,
                f"{node_group_context.name.capitalize()}Nodes",
                context=node_group_context,
                cluster=self.cluster.resource,
                role_arn=role_arn,
                subnet_id=network.subnet_id,
                security_group_ids=[self.cluster.security_group_id, group.group.attr_group_id],
                tags=stable_tags,
                # The system node is no try of the jobs' nodes.
                reports=boots_uri(folder.message_uri) if node_group_context.name == WORKERS else None,
            )
            for node_group_context in context.groups
        }

    def _outputs(self, plan: Plan, network: ClusterNetwork, *, group_id: str, policy: str, pods_role: str) -> None:
        region, name = plan.place.region, cluster_name(plan)
        values = {
            "subnet_id": network.subnet_id,
            "security_group_id": group_id,
            "node_policy_arn": policy,
            "store_uri": network.store_uri,
        }
        for key, value in values.items():
            add_output(self, OUTPUTS[key], value)
        add_output(self, "ClusterName", self.cluster.resource.ref)
        add_output(self, "ClusterArn", self.cluster.resource.attr_arn)
        add_output(self, "ClusterEndpoint", self.cluster.resource.attr_endpoint)
        add_output(self, "AccessRoleArn", self.cluster.access_role.role_arn)
        add_output(self, "PodRoleArn", pods_role)
        add_output(self, "Region", region)
        add_output(
            self,
            "Connect",
            f"aws eks update-kubeconfig --region {region} --name {name} --role-arn {self.cluster.access_role.role_arn}",
        )
        add_output(
            self,
            "StartFleet",
            f"aws eks update-nodegroup-config --region {region} --cluster-name {name}"
            f" --nodegroup-name {WORKERS} --scaling-config desiredSize={plan.place.nodes}",
        )
        if self.session_log is not None:
            self.session_log.outputs(region)
        add_output(self, "PlanDigest", plan.digest)


def control_subnets(scope: Construct, plan: Plan, catalog: Catalog, network: ClusterNetwork) -> list[str]:
    """Subnets of the control plane in two zones: new small ones in the cluster's own network, else existing ones."""
    network_request = plan.request.network
    if network_request.vpc_id is not None:
        return list(network_request.subnet_ids)
    if network_request.name is not None:
        return list(network.zone_subnets.values())
    cidrs = [str(control_range) for control_range in control_ranges(ranges(network_request.cidr))]
    zones = control_zones(zone(plan.place, catalog))
    return create_control_subnets(scope, "ControlSubnets", vpc_id=network.vpc_id, cidrs=cidrs, zones=zones)


def pods_policy(scope: Construct, plan: Plan, catalog: Catalog, network: ClusterNetwork) -> tuple[NodePolicy, str]:
    """The permissions of jobs, and the ARN of the role that EKS grants their pods: the plan's role or a new one."""
    compiles = keeps_compiled_programs(catalog.instance_types[plan.place.instance_type])
    owner = plan.name if plan.request.checkpoint.store_uri is not None else None
    policy = NodePolicy(
        scope,
        "NodePolicy",
        store=network.store,
        kms_key_arn=plan.request.storage.kms_key_arn,
        fetched=(),
        secrets=tuple(plan.request.run.secrets.values()),
        compile_cache=compiles,
        image=None,
        path=OWN_PATH,
        in_store=pod_statements(network.store, compile_cache=compiles, owner=owner),
        reached=reached_locations(plan.request),
        conditions={"StringEquals": {ACCOUNT_KEY: plan.name}},
    )
    named = plan.request.security.roles.pods
    return policy, named or pod_role(scope, "PodRole", cluster=plan.cluster_name, policy=policy.resource).role_arn


findings = cluster_findings
build = functools.partial(add_cluster, EksStack)
