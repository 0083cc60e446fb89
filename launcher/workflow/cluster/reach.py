"""The connection to a job's scheduler: Slurm behind a head node, or a Kubernetes API, with one interface."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from launcher.aws import eks, stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.ssm import InstanceCommands
from launcher.emulation import runs_elsewhere
from launcher.model.errors import AwsError, ImpossibleError, SlipwayError
from launcher.model.hyperpod import SHARED_HOME
from launcher.model.monitoring import STAGED_FOLDER
from launcher.model.plan import Plan
from launcher.model.stages import Notify, stage
from launcher.records.submission import (
    API,
    CONTEXT,
    EKS,
    SANDBOX,
    HeadNode,
    Submission,
)
from launcher.rendering.names import TRAINING_STACK, journal_uri
from launcher.submit.jobs import SchedulerEndedError, SchedulerError
from launcher.submit.kubernetes.connection import ApiEndpoint, ApiRefusedError, Connection, to_context, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs
from launcher.submit.session import SessionShell, UserSession
from launcher.submit.shell import LocalShell, Shell
from launcher.submit.ssh import SshShell
from launcher.submit.ssm import SsmShell
from launcher.workflow.cluster.deployed import DeployedCluster
from launcher.workflow.cluster.run_environment import environment_of, sandbox_of

ASKED_TIMES, ASK_AGAIN_S = 19, 10.0
"""Number of attempts for a new API, and the seconds between them: three minutes in total."""
_REMOVAL = "DELETE_"
"""The beginning of the states of a stack from the start of its removal on."""


def connection_to(head_node: HeadNode, environment: Mapping[str, str]) -> Connection:
    """The API of a cluster: with the role that its stack has for this, or by a context of the kubeconfig.

    Raises:
        ImpossibleError: the cluster no longer exists, or the client is not installed.
    """
    if head_node.via == CONTEXT:
        return to_context(str(head_node.host), environment.get("KUBECONFIG"))
    name, session = str(head_node.host), Session(environment=environment, region=str(head_node.region))
    cluster = eks.describe(session, name)
    if cluster is None:
        raise ImpossibleError(
            f"EKS cluster {name} in {session.region} no longer exists",
            hint="slipway report NAME shows the run",
        )

    def token() -> str:
        signs = session if head_node.role is None else eks.assume_role(session, head_node.role)
        return eks.token(signs, name)

    authority = cluster.authority or None
    return to_endpoint(
        ApiEndpoint(name=f"EKS cluster {name}", address=cluster.endpoint, authority=authority, token=token)
    )


def refuse_unless_answered(
    plan: Plan,
    outputs: Mapping[str, str],
    environment: Mapping[str, str],
    notify: Notify,
    *,
    deployed: DeployedCluster,
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the API of a plan's own cluster answers this computer, before its nodes cost money.

    DNS needs time for a new name, and EKS for a new role: the call is retried meanwhile.

    Raises:
        ImpossibleError: it does not answer; the control plane exists, and no node.
    """
    region = plan.place.region
    head_node = HeadNode(via=EKS, host=outputs["ClusterName"], region=region, role=outputs["AccessRoleArn"])
    with stage(notify, f"requesting the API of {head_node.host} before any node starts"):
        for remaining in reversed(range(ASKED_TIMES)):
            try:
                with closing(connection_to(head_node, environment)) as connection:
                    connection.ask("GET", "/version")
                break
            except (AwsError, SchedulerError) as problem:
                if remaining:
                    wait(ASK_AGAIN_S)
                    continue
                hint = problem.hint if isinstance(problem, ApiRefusedError) else deployed.reach_hint(plan, outputs)
                message = f"{problem.message}; no node was started, and nothing was submitted"
                after = f"fix it and launch again, or slipway down {plan.cluster_name}"
                raise ImpossibleError(message, hint=f"{hint}; {after}") from problem


def jobs_at(
    head_node: HeadNode, environment: Mapping[str, str], *, place: str, checkpoints: str, key: str
) -> tuple[Connection, KubernetesJobs]:
    """The jobs of a namespace, and the connection, which the caller closes.

    `place` is the job's `namespace/name`; `checkpoints` is the URI below which pods save their files.

    Raises:
        SlipwayError: the API is unreachable.
    """
    connection = connection_to(head_node, environment)
    session = Session(environment=environment, region=str(head_node.region))
    journal = Objects.at(session, journal_uri(checkpoints, key))
    namespace = place.partition("/")[0]
    return connection, KubernetesJobs(
        connection=connection, namespace=namespace, kind=str(head_node.kind), pod_files=journal
    )


@contextmanager
def gone_if_removed(submission: Submission, environment: Mapping[str, str]) -> Iterator[None]:
    """A block that calls a cluster; a failure because the cluster was removed becomes a SchedulerEndedError.

    Raises:
        SchedulerEndedError: the cluster no longer exists.
    """
    try:
        yield
    except SchedulerEndedError:
        raise
    except SlipwayError as problem:
        removal = removal_of(submission, environment)
        if not removal:
            raise
        message = f"{removal}: this is the last known state"
        raise SchedulerEndedError(message, hint="slipway report NAME and slipway logs NAME show the run") from problem


def removal_of(submission: Submission, environment: Mapping[str, str]) -> str:
    """What is known of the removal of a job's cluster; empty if it is not removed, or nothing is known."""
    head_node = submission.head_node
    if head_node.via not in (SANDBOX, EKS, API, "ssm", "session"):
        return ""
    cluster = f"cluster {submission.cluster}"
    try:
        variables = environment_of(submission, environment)
        session = Session(environment=variables, region=str(head_node.region))
        stack = stacks.find(session, f"slipway-{submission.cluster}-{TRAINING_STACK}")
        pods = head_node.kind is not None
        exists = eks.describe(session, str(head_node.host)) is not None if pods else stack is not None
    except SchedulerEndedError:
        # The sandbox of a launch has no mark, and ends with the launch.
        ended = head_node.instance and not runs_elsewhere(environment, head_node.instance)
        return f"the sandbox of {cluster} has ended" if ended else ""
    except SlipwayError:
        return ""
    if stack is not None and stack.status.startswith(_REMOVAL):
        since = f" since {stack.deleted_at:%Y-%m-%d %H:%M} UTC" if stack.deleted_at is not None else ""
        return f"{cluster} is being removed{since} ({stack.status}; CloudTrail's event DeleteStack names who did it)"
    return "" if exists else f"{cluster} is gone"


def connect(head_node: HeadNode, environment: Mapping[str, str], *, key: str, store: Objects | None) -> Shell:
    """The shell of a head node.

    `store`: the place in S3 for files to a node that accepts only commands; None if the caller sends no file.

    Raises:
        SchedulerError: the head node is unreachable from this computer.
    """
    if head_node.via == SANDBOX:
        return sandbox_of(head_node, environment).head_node(str(head_node.host), environment)
    if head_node.via == "local":
        return LocalShell(environment)
    if head_node.via == "ssh":
        return SshShell(str(head_node.host), environment)
    session = Session(environment=environment, region=str(head_node.region))

    def stage(path: Path) -> str:
        if store is None:
            raise ImpossibleError("no S3 location for the job folder")
        staged = f"{STAGED_FOLDER}/{key}.tar.gz"
        store.send(path, staged)
        return f"{store.uri}/{staged}"

    if head_node.via == "session":
        return SessionShell(
            name=f"session {head_node.instance}",
            target=str(head_node.instance),
            region=session.region,
            user=str(head_node.user),
            home=SHARED_HOME,
            environment=environment,
            stage=stage,
        )
    return SsmShell(
        name=f"ssm {head_node.instance}",
        commands=InstanceCommands(session=session, instance=str(head_node.instance)),
        user=str(head_node.user),
        stage=stage,
        sessions=UserSession(target=str(head_node.instance), region=session.region, environment=environment),
        environment=environment,
    )
