"""A deployed HyperPod cluster with EKS: its description, the commands to access it, and the return of its nodes."""

from collections.abc import Mapping

from launcher.aws import hyperpod
from launcher.aws.session import Session
from launcher.model.eks import SYSTEM, WORKERS
from launcher.model.plan import Plan
from launcher.rendering.cluster import cluster_name
from launcher.rendering.kubernetes_job import MANIFEST_FILE, NAMESPACE_FILE
from launcher.targets.eks import deploy as eks
from launcher.workflow.cluster.pods import submit_pods
from launcher.workflow.cluster.reach import reach_pods
from launcher.workflow.cluster.targets import Cluster


def describe(plan: Plan, head: str, node_text: str) -> str:
    """One line that describes the cluster to be deployed."""
    return (
        f"HyperPod cluster with EKS {plan.cluster_name}: control plane, HyperPod's chart, system node ml.{head},"
        f" workers {node_text}, requested from the start"
    )


def by_hand() -> str:
    """The commands that submit a plan's job to its cluster; the cluster's chart has the device plugins."""
    return f"kubectl apply -f {NAMESPACE_FILE}, then kubectl create -f {MANIFEST_FILE}"


def tunnel(plan: Plan, outputs: Mapping[str, str]) -> str:
    """The command that forwards a local port to a private API, through the system node."""
    region, name = plan.place.region, cluster_name(plan)
    system = (
        f"aws sagemaker list-cluster-nodes --region {region} --cluster-name {name}"
        f" --instance-group-name-contains {SYSTEM} --query 'ClusterNodeSummaries[0].InstanceId' --output text"
    )
    return eks.forwarding(region, f'"sagemaker-cluster:{outputs["ClusterId"]}_{SYSTEM}-$({system})"', outputs)


def unreached(plan: Plan, outputs: Mapping[str, str]) -> str:
    """The remedy if the API does not answer from this computer."""
    return eks.where_it_answers(plan, tunnel(plan, outputs), by_hand())


def access_commands(plan: Plan, outputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Commands to access the cluster, each with its purpose."""
    return eks.build_access_commands(plan, outputs, tunnel(plan, outputs), by_hand())


def start_nodes(plan: Plan, session: Session, cluster: str) -> bool:
    """Let HyperPod create the workers again."""
    return hyperpod.start(session, cluster, WORKERS, plan.place.nodes)


DEPLOY = Cluster(
    describe=describe,
    head_node=eks.api,
    access_commands=access_commands,
    submit=submit_pods,
    reach=reach_pods,
    refuse_job=eks.refuse_job,
    unreached=unreached,
    start_nodes=start_nodes,
    instance_counts=hyperpod.instances_of,
)
