"""A deployed EKS cluster: its description, and the commands to access it."""

from collections.abc import Mapping
from types import MappingProxyType

from launcher.aws import instances, node_groups
from launcher.aws.session import Session
from launcher.model.cluster_nodes import ClusterNode, NodeAction
from launcher.model.eks import WORKERS
from launcher.model.enums import PREPAID, PurchaseOption
from launcher.model.errors import ImpossibleError
from launcher.model.plan import Plan
from launcher.records.submission import EKS, HeadNode
from launcher.rendering.cluster import cluster_name
from launcher.rendering.device_plugins import PLUGINS_FILE
from launcher.rendering.kubernetes_job import MANIFEST_FILE, NAMESPACE_FILE
from launcher.submit.kubernetes.connection import require_client
from launcher.targets.eks import readback
from launcher.workflow.cluster.cluster_access import ClusterAccess
from launcher.workflow.cluster.deployed import Outputs
from launcher.workflow.cluster.pods import PodCluster
from launcher.workflow.cluster.readback.training import stack_readers


def forwarding(region: str, target: str, outputs: Mapping[str, str]) -> str:
    """The command that forwards a local port to an API, through an instance of the API's network."""
    host = outputs["ClusterEndpoint"].removeprefix("https://")
    return (
        f"aws ssm start-session --region {region} --target {target}"
        " --document-name AWS-StartPortForwardingSessionToRemoteHost"
        f" --parameters host={host},portNumber=443,localPortNumber=8443"
    )


def through_tunnel(outputs: Mapping[str, str]) -> str:
    """The command that routes kubectl's current context through the tunnel, and verifies the API's own host name."""
    host = outputs["ClusterEndpoint"].removeprefix("https://")
    current = "$(kubectl config view --minify -o 'jsonpath={.contexts[0].context.cluster}')"
    return f'kubectl config set-cluster "{current}" --server=https://localhost:8443 --tls-server-name={host}'


class EksCluster(PodCluster):
    """A deployed EKS cluster with node groups."""

    rebooted = "EC2 reboots its instance, which keeps its disks and its host"
    replaced = "its instance ends with its disks, and the node group's Auto Scaling group starts another one"
    readers = stack_readers(
        *readback.CONTROL_PLANE,
        (readback.groups, ("AWS::EKS::Nodegroup",)),
        (readback.templates, ("AWS::EC2::LaunchTemplate",)),
    )
    instances = MappingProxyType({"AWS::EKS::Nodegroup": readback.group_instances})

    def describe(self, plan: Plan, head: str, node_text: str) -> str:
        """One line that describes the cluster to be deployed."""
        when = "up once the block has started" if plan.place.option in PREPAID else "up from the start"
        return f"EKS cluster {plan.cluster_name}: control plane, system node {head}, nodes {node_text}, {when}"

    def refuse_job(self, plan: Plan, environment: Mapping[str, str]) -> None:
        """Accept a job only if the API of its cluster will be reachable from this computer.

        Raises:
            ImpossibleError: only a new private network could reach the API, or the Kubernetes client is not
                installed; the hint names the remedy.
        """
        require_client()
        if plan.request.target.cluster is not None:
            return
        network = plan.request.network
        if network.vpc_id is None and network.name is None and not network.api_cidrs:
            message = (
                f"network.api_cidrs: the API of {plan.cluster_name} is private in a new network: nothing can reach it"
            )
            hint = (
                "name the addresses that reach it: network: {api_cidrs: [YOUR.ADDRESS/32]}, as"
                " curl https://checkip.amazonaws.com shows it where no VPN is in between; or slipway deploy FILE and"
                f" then, by hand, through the tunnel that it prints: {self.by_hand(plan)}"
            )
            raise ImpossibleError(message, hint=hint)

    def head_node(self, plan: Plan, outputs: Outputs, session: Session) -> HeadNode:
        """The Kubernetes API that accepts the cluster's jobs, from the outputs of its training stack."""
        return HeadNode(via=EKS, host=outputs["ClusterName"], region=session.region, role=outputs["AccessRoleArn"])

    def start_nodes(self, plan: Plan, session: Session, cluster: str) -> bool:
        """Let the jobs' node group start its nodes again."""
        return node_groups.start(session, cluster, WORKERS)

    def reach_hint(self, plan: Plan, outputs: Outputs) -> str:
        """The addresses from which the API answers: the plan's ranges, or only its network, with the tunnel to it."""
        if plan.request.network.api_cidrs:
            ranges = ", ".join(plan.request.network.api_cidrs)
            return (
                f"network.api_cidrs ({ranges}) must contain this computer's address: curl https://checkip.amazonaws.com"
            )
        return (
            "its API is private: launch from within its network, or by hand:"
            f" {self.tunnel(plan, outputs)}, then {self.by_hand(plan)}"
        )

    def access_commands(self, plan: Plan, outputs: Outputs) -> list[tuple[str, str]]:
        """Commands to access the cluster, each with its purpose; a private API is reachable only from its network."""
        commands = [("kubectl", outputs["Connect"])]
        if not plan.request.network.api_cidrs:
            commands.append(("tunnel to the private API, keep it open", self.tunnel(plan, outputs)))
            commands.append(("kubectl through the tunnel, once", through_tunnel(outputs)))
        if plan.request.workload.train is not None:
            commands.append(("submit the job", f"{self.by_hand(plan)}   (slipway render FILE -o DIR writes them)"))
        if plan.place.option is PurchaseOption.CAPACITY_BLOCK:
            commands.append((f"start the {WORKERS} after the block has begun, as a launch does", outputs["StartFleet"]))
        elif plan.place.option not in PREPAID:
            commands.append((f"start the {WORKERS} after a stop", outputs["StartFleet"]))
        return commands

    def by_hand(self, plan: Plan) -> str:
        """The commands that submit a plan's job to its cluster; an existing cluster already has its device plugins."""
        plugins = "" if plan.request.target.cluster is not None else f"-f {PLUGINS_FILE} "
        return f"kubectl apply {plugins}-f {NAMESPACE_FILE}, then kubectl create -f {MANIFEST_FILE}"

    def tunnel(self, plan: Plan, outputs: Outputs) -> str:
        """The command that forwards a local port to a private API, through the system node."""
        region, name = plan.place.region, cluster_name(plan)
        system = (
            f"aws ec2 describe-instances --region {region} --filters Name=tag:eks:cluster-name,Values={name}"
            " Name=tag:eks:nodegroup-name,Values=system --query 'Reservations[0].Instances[0].InstanceId' --output text"
        )
        return forwarding(region, f"$({system})", outputs)

    def change_instance(self, action: NodeAction, node: ClusterNode, access: ClusterAccess) -> None:
        """Reboot or end the EC2 instance of a drained node.

        Raises:
            ImpossibleError: the cluster is not one of Slipway's, or Kubernetes names no instance.
        """
        if node.instance is None or not access.outputs:
            raise ImpossibleError(
                f"{node.name} is drained; its instance is not changed: {access.cluster} was not deployed by Slipway",
                hint="reboot or end the instance with the tools that made the cluster",
            )
        (instances.reboot if action is NodeAction.REBOOT else instances.terminate)(access.session, node.instance)

    def boot_output(self, access: ClusterAccess, node: ClusterNode) -> str:
        """The console output of its instance in EC2."""
        return "" if node.instance is None else instances.console_output(access.session, node.instance)
