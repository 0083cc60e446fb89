"""How a person gets into a cluster that stands, and a job onto it."""

from collections.abc import Mapping

from launcher.model.hyperpod import is_prepaid
from launcher.model.plan import Plan
from launcher.rendering.cluster import queue_name
from launcher.rendering.hyperpod import SHARED_HOME, USER
from launcher.rendering.slurm_job import BATCH_FILE
from launcher.workflow.deploy.hyperpod import is_hyperpod
from launcher.workflow.run.submission import USERS


def ways_in(plan: Plan, outputs: Mapping[str, str]) -> list[tuple[str, str]]:
    """Commands in the order in which they are used, each with what it is for.

    The head node has no key pair and no open port: a session of Systems Manager is the way in, and ssh goes through
    one. EC2 Instance Connect lends a public key to the login for a minute; it is part of Amazon Linux and Ubuntu.

    Args:
        plan: the plan that was deployed.
        outputs: of its training stack.
    """
    partition = queue_name(plan.place.instance_type)
    if is_hyperpod(plan):
        return _into_hyperpod(plan, outputs, partition)
    login, region = USERS[plan.request.target.os], outputs["Region"]
    head = outputs["HeadNodeInstanceId"]
    session = f"aws ssm start-session --region {region} --target %h --document-name AWS-StartSSHSession"
    lend = f"aws ec2-instance-connect send-ssh-public-key --region {region} --instance-id {head}"
    found = [
        ("shell", f"{outputs['Connect']}, there: sudo su - {login}"),
        ("ssh, a key first", f"{lend} --instance-os-user {login} --ssh-public-key file://$HOME/.ssh/id_ed25519.pub"),
        ("ssh, within a minute", f"ssh -o ProxyCommand='{session} --parameters portNumber=%p' {login}@{head}"),
        ("a shell on a node, there", f"srun --partition {partition} --nodes 1 --pty bash"),
    ]
    if plan.request.workload.train is not None:
        found.append(("the job, there", f"sbatch {BATCH_FILE}   (slipway render writes it with all it needs)"))
    return found


def _into_hyperpod(plan: Plan, outputs: Mapping[str, str], partition: str) -> list[tuple[str, str]]:
    """The same for HyperPod, whose machines are reached by sessions alone."""
    found = [
        ("shell on the controller", f"{outputs['Connect']}, there: sudo su - {USER}"),
        ("a shell on a worker, there", f"srun --partition {partition} --nodes 1 --pty bash"),
    ]
    if plan.request.workload.train is not None:
        found.append(
            ("the job, there", f"sbatch {BATCH_FILE}   (in a folder of {SHARED_HOME}; slipway render writes it)")
        )
    if not is_prepaid(plan.place.option):
        found.append(("workers again, after a stop", "the command in StartFleet, above"))
    return found
