"""What a ParallelCluster is in the stories of a deployment: its line, its head node, and the ways into it."""

from collections.abc import Mapping

from launcher.aws.session import Session
from launcher.model.enums import OperatingSystem
from launcher.model.plan import Plan
from launcher.records.submission import HeadNode
from launcher.rendering.cluster import queue_name
from launcher.rendering.slurm_job import BATCH_FILE

USERS = {
    OperatingSystem.ALINUX2023: "ec2-user",
    OperatingSystem.UBUNTU2204: "ubuntu",
    OperatingSystem.UBUNTU2404: "ubuntu",
    OperatingSystem.RHEL8: "ec2-user",
    OperatingSystem.RHEL9: "ec2-user",
    OperatingSystem.ROCKY8: "rocky",
    OperatingSystem.ROCKY9: "rocky",
}
"""The user whose home all nodes share (OS_MAPPING in pcluster/constants.py of ParallelCluster 3.16.1)."""


def words(plan: Plan, head: str, machines: str) -> str:
    """What a deployment makes of the cluster, in a line."""
    return f"cluster {plan.cluster_name}: head node {head}, at most {machines}"


def head_node(plan: Plan, outputs: Mapping[str, str], _session: Session) -> HeadNode:
    """The head node of a cluster that was deployed, by the outputs of its training stack."""
    user = USERS[plan.request.target.os]
    return HeadNode(via="ssm", instance=outputs["HeadNodeInstanceId"], region=outputs["Region"], user=user)


def ways_in(plan: Plan, outputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Commands into the cluster, each with what it is for.

    The head node has no key pair and no open port: a session of Systems Manager is the way in, and ssh goes through
    one. EC2 Instance Connect lends a public key to the login for a minute; it is part of Amazon Linux and Ubuntu.
    """
    login, region = USERS[plan.request.target.os], outputs["Region"]
    head = outputs["HeadNodeInstanceId"]
    session = f"aws ssm start-session --region {region} --target %h --document-name AWS-StartSSHSession"
    lend = f"aws ec2-instance-connect send-ssh-public-key --region {region} --instance-id {head}"
    shell = ("shell", f"{outputs['Connect']}, there: sudo su - {login}")
    # Session Manager logs no ssh that goes through a session.
    ssh = [
        ("ssh, a key first", f"{lend} --instance-os-user {login} --ssh-public-key file://$HOME/.ssh/id_ed25519.pub"),
        ("ssh, within a minute", f"ssh -o ProxyCommand='{session} --parameters portNumber=%p' {login}@{head}"),
    ]
    found = [
        shell,
        *(() if "SessionDocument" in outputs else ssh),
        ("a shell on a node, there", f"srun --partition {queue_name(plan.place.instance_type)} --nodes 1 --pty bash"),
    ]
    if plan.request.workload.train is not None:
        found.append(
            ("the job, there", f"sbatch {BATCH_FILE}   (slipway render FILE -o DIR writes it with all it needs)")
        )
    return found
