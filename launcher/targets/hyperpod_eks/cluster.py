"""A deployed HyperPod cluster with EKS: its description, the commands to access it, and the return of its nodes."""

from collections.abc import Container, Mapping
from types import MappingProxyType

from launcher.aws import hyperpod
from launcher.aws.session import Session
from launcher.model.cluster_nodes import ClusterNode, NodeAction, NodeEffect, NodeFacts, NodeInstance
from launcher.model.eks import SYSTEM, WORKERS
from launcher.model.plan import Plan
from launcher.model.service_updates import HYPERPOD_TYPE
from launcher.rendering.cluster import cluster_name
from launcher.rendering.kubernetes_job import MANIFEST_FILE, NAMESPACE_FILE
from launcher.targets.eks.cluster import EksCluster, forwarding
from launcher.targets.eks.readback import CONTROL_PLANE
from launcher.targets.hyperpod_slurm import readback
from launcher.workflow.cluster import hyperpod_nodes
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.deployed import Outputs
from launcher.workflow.cluster.readback.training import stack_readers


class HyperPodEksCluster(EksCluster):
    """A deployed HyperPod cluster with EKS."""

    rebooted = hyperpod_nodes.REBOOTED
    replaced = hyperpod_nodes.REPLACED
    readers = stack_readers(
        (readback.cluster, (HYPERPOD_TYPE,)), (readback.quotas, ("AWS::SageMaker::ComputeQuota",)), *CONTROL_PLANE
    )
    instances = MappingProxyType({HYPERPOD_TYPE: readback.group_instances})

    def refuse_busy(self, session: Session, cluster: str, changed: Container[str], rate: str) -> None:
        """Refuse changes of the cluster while deep health checks run."""
        hyperpod_nodes.refuse_during_checks(session, cluster, changed, rate)

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the cluster to be deployed."""
        return (
            f"HyperPod cluster with EKS {plan.cluster_name}: control plane, HyperPod's chart, system node ml.{head},"
            f" workers {node_text}, requested from the start"
        )

    def start_nodes(self, plan: Plan, session: Session, cluster: str) -> bool:
        """Let HyperPod create the workers again."""
        return hyperpod.start(session, cluster, WORKERS, plan.place.nodes)

    def instance_counts(self, session: Session, outputs: Outputs) -> Mapping[str, int]:
        """The running instances of its groups, by type."""
        return hyperpod.instances_of(session, outputs)

    def by_hand(self, plan: Plan) -> str:
        """The commands that submit a plan's job to its cluster; the cluster's chart has the device plugins."""
        return f"kubectl apply -f {NAMESPACE_FILE}, then kubectl create -f {MANIFEST_FILE}"

    def tunnel(self, plan: Plan, outputs: Outputs) -> str:
        """The command that forwards a local port to a private API, through the system node."""
        region, name = plan.place.region, cluster_name(plan)
        system = (
            f"aws sagemaker list-cluster-nodes --region {region} --cluster-name {name}"
            f" --instance-group-name-contains {SYSTEM} --query 'ClusterNodeSummaries[0].InstanceId' --output text"
        )
        return forwarding(region, f'"sagemaker-cluster:{outputs["ClusterId"]}_{SYSTEM}-$({system})"', outputs)

    def node_instances(self, access: ClusterAccess) -> tuple[NodeInstance, ...]:
        """The instances of its nodes, as SageMaker lists them."""
        return hyperpod_nodes.node_instances(access)

    def node_effect(self, action: NodeAction, facts: NodeFacts) -> NodeEffect:
        """What an action on a node does: pods are evicted, and save, before their node goes."""
        hyperpod_nodes.refuse_checked(action, facts.node)
        return hyperpod_nodes.check_effect(facts) if action is NodeAction.CHECK else super().node_effect(action, facts)

    def change_node(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Drain the node, and then reboot or replace its instance; a check is of an idle node, and evicts nothing."""
        if action is NodeAction.CHECK:
            hyperpod_nodes.change(action, node, access)
        else:
            super().change_node(action, node, access)

    def change_instance(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Let SageMaker reboot or replace the instance of a drained node."""
        hyperpod_nodes.change(action, node, access)

    def boot_output(self, access: ClusterAccess, node: ClusterNode) -> str:
        """The output of the scripts at the start of its instance."""
        return hyperpod_nodes.boot_output(access, node)
