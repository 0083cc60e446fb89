"""The connection to the scheduler or API that runs a recorded job."""

from collections.abc import Mapping

from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.records.submission import Submission
from launcher.submit.shell import Shell
from launcher.targets.clusters import cluster_at
from launcher.workflow.cluster.deployed import JobConnection
from launcher.workflow.cluster.reach import connect
from launcher.workflow.cluster.run_environment import environment_of


def connect_job(submission: Submission, environment: Mapping[str, str]) -> JobConnection:
    """The connection to the scheduler or API that runs a submission's job.

    Raises:
        SchedulerEndedError: the sandbox of the submission has ended.
        SchedulerError: the scheduler is unreachable from this computer.
    """
    variables, head_node = environment_of(submission, environment), submission.head_node

    def shell() -> Shell:
        store = Objects.at(Session(environment=variables, region=str(head_node.region)), submission.store_uri)
        return connect(head_node, environment, key=submission.key, store=store)

    return cluster_at(submission.target).reach(submission, variables, shell)
