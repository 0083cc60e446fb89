"""The way to what runs a job: Slurm behind a head node, or a Kubernetes API; asked the same from there on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from launcher.aws import eks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import ImpossibleError
from launcher.records.submission import CONTEXT, SANDBOX, HeadNode, Submission
from launcher.rendering.names import journal_uri
from launcher.submit.jobs import JobSource
from launcher.submit.kubernetes.connection import Connection, Endpoint, to_context, to_endpoint
from launcher.submit.kubernetes.jobs import KubernetesJobs
from launcher.submit.shell import Shell
from launcher.submit.slurm import Slurm
from launcher.workflow.run.submission import connect, sandbox_of

LOOK_S, LOOK_HERE_S = 5.0, 0.5
"""Seconds between two looks at an API: pods keep what they write every few seconds; on this machine it is free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """What runs a job, reached: `look_s` are the seconds between two looks at it, `close` lets go of it."""

    source: JobSource
    look_s: float
    close: Callable[[], None]


def through(shell: Shell) -> Reached:
    """The Slurm behind a shell."""
    return Reached(source=Slurm(shell=shell), look_s=shell.look_s, close=shell.close)


def connection_to(head_node: HeadNode, environment: Mapping[str, str]) -> Connection:
    """The API of a cluster: as the role that its stack has made for that, or as a context of the kubeconfig says.

    Args:
        head_node: where it is.
        environment: with AWS credentials, a sandbox's in a sandbox.

    Raises:
        ImpossibleError: there is no such cluster any more, or the client is not installed.
        AwsError: a call failed.
    """
    if head_node.via == CONTEXT:
        return to_context(str(head_node.host), environment.get("KUBECONFIG"))
    name, session = str(head_node.host), Session(environment=environment, region=str(head_node.region))
    found = eks.describe(session, name)
    if found is None:
        raise ImpossibleError(
            f"there is no EKS cluster {name} in {session.region} any more",
            hint="slipway report NAME tells what its run left",
        )

    def token() -> str:
        signs = session if head_node.role is None else eks.assumed(session, head_node.role)
        return eks.token(signs, name)

    authority = found.authority or None
    return to_endpoint(Endpoint(name=f"EKS cluster {name}", address=found.endpoint, authority=authority, token=token))


def jobs_at(
    head_node: HeadNode, environment: Mapping[str, str], *, place: str, checkpoints: str, key: str
) -> tuple[Connection, KubernetesJobs]:
    """The jobs of a namespace, and the connection to be closed.

    Args:
        head_node: where the API is.
        environment: with AWS credentials, a sandbox's in a sandbox.
        place: `namespace/name` of the job.
        checkpoints: where the job's checkpoints go, among which pods keep what they write.
        key: the submission's.

    Raises:
        SlipwayError: the API cannot be spoken to.
    """
    connection = connection_to(head_node, environment)
    session = Session(environment=environment, region=str(head_node.region))
    kept = Objects.at(session, journal_uri(checkpoints, key))
    namespace = place.partition("/")[0]
    return connection, KubernetesJobs(connection=connection, namespace=namespace, kind=str(head_node.kind), kept=kept)


def reached(submission: Submission, environment: Mapping[str, str]) -> Reached:
    """The way to what runs the job of a submission.

    Raises:
        GoneError: its sandbox has ended.
        SchedulerError: the way cannot be taken from here.
    """
    own = environment_of(submission, environment)
    if submission.head_node.kind is not None:
        return reached_api(submission, own)
    session = Session(environment=own, region=str(submission.head_node.region))
    store = Objects.at(session, submission.store_uri)
    return through(connect(submission.head_node, environment, key=submission.key, store=store))


def reached_api(submission: Submission, environment: Mapping[str, str]) -> Reached:
    """The way to a job on Kubernetes, with the environment whose AWS it is in."""
    head_node = submission.head_node
    connection, jobs = jobs_at(
        head_node, environment, place=submission.folder, checkpoints=submission.checkpoint_uri, key=submission.key
    )
    look_s = LOOK_HERE_S if head_node.via == SANDBOX else LOOK_S
    return Reached(source=jobs, look_s=look_s, close=connection.close)


def environment_of(submission: Submission, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment whose AWS a submission is in: that of its sandbox, for one in a sandbox that stays.

    Raises:
        GoneError: that sandbox has ended.
    """
    if submission.head_node.via != SANDBOX:
        return environment
    return sandbox_of(submission.head_node, environment).process_environment(environment)
