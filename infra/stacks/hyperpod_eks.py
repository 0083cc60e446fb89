"""A training cluster on HyperPod with EKS: control plane, HyperPod's chart, nodes, operators, and guardrails.

The order follows AWS (awslabs/awsome-distributed-ai@95b939c): first the control plane with the add-ons that every
node needs; then the chart, without which HyperPod neither monitors nor replaces nodes; then the nodes; then their pods.
"""

import functools
from dataclasses import fields

from aws_cdk import Acknowledgment, CfnResource, Tags, Validations
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.cluster_network import cluster_findings
from infra.parts import hyperpod_guard
from infra.parts.dashboard import hyperpod_eks_widgets
from infra.parts.efa import NodeSecurityGroup
from infra.parts.eks_cluster import EksCluster
from infra.parts.eks_guard import count_pods
from infra.parts.guard_function import Rights
from infra.parts.hyperpod_chart import HyperPodChart
from infra.parts.hyperpod_cluster import HyperPodCluster
from infra.parts.hyperpod_lifecycle import HyperPodLifecycle
from infra.parts.hyperpod_role import HyperPodRole
from infra.parts.outputs import add_output
from infra.parts.pinned_asset import pinned_asset
from infra.parts.pod_role import grant, grant_to, trusted_by_pods
from infra.parts.session_log import session_log
from infra.stacks.cluster_stack import ClusterStack, add_cluster
from infra.stacks.eks import control_subnets, pods_policy
from launcher.catalog import safe_yaml
from launcher.catalog.hyperpod_chart import chart_pins
from launcher.model.eks import CERTIFICATES, GOVERNANCE, OPERATOR, OPERATOR_ACCOUNT, OPERATOR_NAMESPACE, WORKERS
from launcher.model.hyperpod import ADDED_A_CALL
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name
from launcher.rendering.names import HYPERPOD_OUTPUTS, OUTPUTS, ClusterNames
from launcher.targets.hyperpod_eks.files import (
    FOR_THE_OPERATOR,
    chart_values,
    control_context,
    governance_text,
    namespaces_of,
    node_script,
    nodes_text,
)
from launcher.targets.hyperpod_slurm.files import ENTRY_POINT

_UNKNOWN_TYPE = "CloudFormation-Validate::F3006"
_WHY_UNKNOWN = (
    "aws-cdk-lib 2.275 carries a registry without AWS::SageMaker::ComputeQuota, which 2.276 has; a plan is refused"
    " where CloudFormation is not known to have both types"
)


def guard_rights(plan: Plan, scope: Construct, counter_arn: str) -> Rights:
    """The guard's permissions: delete workers, and call the function in the cluster's network that counts pods."""
    base = hyperpod_guard.rights(plan, scope)
    call, variables = count_pods(counter_arn, plan)
    return Rights(reads=base.reads, stop=(*base.stop, call), variables={**base.variables, **variables})


def add_task_governance(
    stack: Construct, id_: str, *, requests: str, cluster: HyperPodCluster, addon: eks.CfnAddon
) -> None:
    """The cluster's policy and the team's quota, as in their rendered requests.

    The add-on installs only Kueue; the policy creates the priority classes, and the quota creates a namespace with its
    queue. SageMaker writes both through its access entry in the cluster.

    `requests` is YAML; `addon` installs Kueue, which must exist first.
    """
    scope, sections = Construct(stack, id_), safe_yaml.loads(requests)

    def resource(kind: str) -> CfnResource:
        # aws-cdk-lib 2.275 has no construct for quotas, 2.276 has one.
        properties = {**sections[kind], "ClusterArn": cluster.resource.attr_cluster_arn}
        made = CfnResource(scope, kind, type=f"AWS::SageMaker::{kind}", properties=properties)
        Validations.of(made).acknowledge(Acknowledgment(id=_UNKNOWN_TYPE, reason=_WHY_UNKNOWN))
        return made

    policy, quota = resource("ClusterSchedulerConfig"), resource("ComputeQuota")
    policy.node.add_dependency(addon)
    # The classes exist before the first job can request one.
    quota.node.add_dependency(policy)


def start_commands(region: str, name: str, nodes: int) -> list[str]:
    """The commands that create `nodes` workers again, split by the API's limit of added nodes per call."""
    counts = [min(ADDED_A_CALL, nodes - done) for done in range(0, nodes, ADDED_A_CALL)]
    return [
        f"aws sagemaker batch-add-cluster-nodes --region {region} --cluster-name {name}"
        f" --nodes-to-add InstanceGroupName={WORKERS},IncrementTargetCountBy={node_count}"
        for node_count in counts
    ]


class HyperPodEksStack(ClusterStack):
    """A HyperPod cluster with EKS.

    Attributes:
        control: the control plane.
        cluster: the nodes.
    """

    KIND = "HyperPod cluster with EKS"

    def _make(self) -> None:
        plan, catalog, network = self._plan, self._catalog, self._network
        self.own_synthesizer.bind(self)
        # HyperPod's instances have no other group that allows outbound traffic.
        group = NodeSecurityGroup(self, "NodeSecurityGroup", vpc_id=network.vpc_id, allows_outbound=True)
        group_id = group.group.attr_group_id
        self.control = EksCluster(
            self,
            "Eks",
            context=control_context(plan),
            subnet_ids=control_subnets(self, plan, catalog, network),
            security_group_id=group_id,
            key_arn=plan.request.storage.kms_key_arn,
            role_arn=plan.request.security.roles.control_plane,
            access_arns=plan.request.security.kubernetes_access,
        )
        chart = self._chart(plan, group_id)
        self.session_log = session_log(self, plan)
        policy, role_arn = pods_policy(self, plan, catalog, network)
        names, lifecycle = self._names(plan, group_id, policy.arn)
        request = safe_yaml.loads(nodes_text(plan, instances=catalog.instance_types, names=names))
        self.cluster = HyperPodCluster(self, "HyperPod", request=request)
        Tags.of(self.cluster.resource).add(FOR_THE_OPERATOR.key, FOR_THE_OPERATOR.value)
        # Named by their keys, the scripts of a cluster that exists are no garbage to `cdk gc`.
        self.cluster.resource.add_metadata("slipway:lifecycle", list(lifecycle.keys))
        self._in_order(group, chart)
        grant(
            self,
            cluster=self.control.resource,
            role_arn=role_arn,
            namespaces=namespaces_of(plan),
            account=plan.name,
        )
        self.control.lets_grant(role_arn)
        self._outputs(plan, names, role_arn)
        rights = guard_rights(plan, self, chart.function.attr_arn)
        self._watch(rights, hyperpod_eks_widgets(plan, self.cluster.cluster_id), hyperpod_guard.announce)

    def _chart(self, plan: Plan, group_id: str) -> HyperPodChart:
        """HyperPod's chart; the launcher copies its files into the assembly before the deployment."""
        pins = chart_pins()
        synthesizer = self.own_synthesizer
        return HyperPodChart(
            self,
            "Chart",
            cluster=self.control,
            pins=pins,
            chart=pinned_asset(synthesizer, file=pins.chart_name, sha256=pins.sha256, title="HyperPod's chart"),
            layer=pinned_asset(synthesizer, file=pins.layer_name, sha256=pins.layer_sha256, title="layer with helm"),
            values=chart_values(plan, self._catalog.instance_types[plan.place.instance_type]),
            subnet_id=self._network.subnet_id,
            security_group_id=group_id,
        )

    def _names(self, plan: Plan, group_id: str, policy_arn: str) -> tuple[ClusterNames, HyperPodLifecycle]:
        """The names in the nodes' configuration, as tokens; also creates the nodes' role and script."""
        lifecycle = HyperPodLifecycle(
            self, "Lifecycle", files={ENTRY_POINT: node_script(plan)}, synthesizer=self.own_synthesizer
        )
        role = HyperPodRole(
            self,
            "ExecutionRole",
            cluster=plan.cluster_name,
            lifecycle=lifecycle,
            subnet_id=self._network.subnet_id,
            security_group_ids=[group_id, *plan.request.network.security_group_ids],
            eks_arn=self.control.resource.attr_arn,
            session_log_arn=None if self.session_log is None else self.session_log.policy_arn,
            named_arn=plan.request.security.roles.nodes,
            kms_key_arn=plan.request.storage.kms_key_arn,
        )
        names = ClusterNames(
            subnet_id=self._network.subnet_id,
            security_group_id=group_id,
            node_policy_arn=policy_arn,
            store_uri=self._network.store_uri,
            role_arn=role.arn,
            lifecycle_uri=lifecycle.uri,
            eks_arn=self.control.resource.attr_arn,
        )
        return names, lifecycle

    def _in_order(self, group: NodeSecurityGroup, chart: HyperPodChart) -> None:
        nodes = self.cluster.resource
        addons = {installed.addon_name: installed for installed in self.control.add_ons([nodes])}
        before = [addon for addon in addons.values() if not addon.node.dependencies]
        chart.resource.node.add_dependency(*group.rules)
        chart.function.node.add_dependency(*group.rules)
        nodes.node.add_dependency(*group.rules, *before, chart.resource)
        addons[OPERATOR[0]].node.add_dependency(addons[CERTIFICATES[0]], self._operator())
        governed = governance_text(self._plan)
        if governed is not None:
            add_task_governance(
                self, "Governance", requests=governed, cluster=self.cluster, addon=addons[GOVERNANCE[0]]
            )

    def _operator(self) -> eks.CfnPodIdentityAssociation:
        """The role of HyperPod's training operator, granted by a separate resource.

        The same role inside the add-on was refused (awslabs/awsome-distributed-ai#1075).
        """
        role = iam.Role(
            self,
            "OperatorRole",
            assumed_by=trusted_by_pods(),
            description="HyperPod's training operator",
            managed_policies=[
                iam.ManagedPolicy.from_aws_managed_policy_name("AmazonSageMakerHyperPodTrainingOperatorAccess")
            ],
        )
        return grant_to(
            self,
            "OperatorAssociation",
            cluster=self.control.resource,
            role_arn=role.role_arn,
            namespace=OPERATOR_NAMESPACE,
            account=OPERATOR_ACCOUNT,
        )

    def _outputs(self, plan: Plan, names: ClusterNames, pods_role: str) -> None:
        for field in fields(ClusterNames):
            value = getattr(names, field.name)
            if value is not None:
                add_output(self, {**OUTPUTS, **HYPERPOD_OUTPUTS}[field.name], value)
        region, name, access = plan.place.region, cluster_name(plan), self.control.access_role.role_arn
        add_output(self, "ClusterName", self.control.resource.ref)
        add_output(self, "ClusterArn", self.cluster.resource.attr_cluster_arn)
        add_output(self, "ClusterId", self.cluster.cluster_id)
        add_output(self, "ClusterEndpoint", self.control.resource.attr_endpoint)
        add_output(self, "AccessRoleArn", access)
        add_output(self, "PodRoleArn", pods_role)
        add_output(self, "Region", region)
        connect = f"aws eks update-kubeconfig --region {region} --name {name} --role-arn {access}"
        add_output(self, "Connect", connect)
        add_output(self, "StartFleet", " && ".join(start_commands(region, name, plan.place.nodes)))
        if self.session_log is not None:
            target = f"sagemaker-cluster:{self.cluster.cluster_id}_{WORKERS}-INSTANCE_ID"
            self.session_log.outputs(region, target)
        add_output(self, "PlanDigest", plan.digest)


findings = cluster_findings
build = functools.partial(add_cluster, HyperPodEksStack)
