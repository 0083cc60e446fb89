"""Why a cluster's guard stopped nodes, by the object that it leaves in the store.

Every guard leaves one for nodes that do not boot, and that of plain instances for every stop.
"""

from collections.abc import Mapping

from launcher.agent import safe_json
from launcher.aws import stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.model.errors import SlipwayError
from launcher.model.monitoring import FAILED_BOOTS, SENT_FOLDER, WORD_FOLDER
from launcher.records.submission import API, EKS, SANDBOX, Submission
from launcher.rendering.names import OUTPUTS, TRAINING_STACK
from launcher.workflow.cluster.reach import environment_of

LINES = 5
REPORT_BYTES = 64 * 1024
"""More than a node reports of its boot; a larger object in the store is not read to its end."""
FAILED_BOOT = "-failed.txt"
"""The end of the keys of failed boots (templates/slurm/report_boot.sh)."""


def last_lines(boots: Objects) -> list[str]:
    """The last lines of the newest failed boot among the reports of nodes; empty without one.

    Raises:
        AwsError: the store does not answer.
    """
    failed = [report for report in boots.list_objects() if report.key.endswith(FAILED_BOOT)]
    if not failed:
        return []
    text = boots.read(max(failed, key=lambda report: report.key).key, REPORT_BYTES).decode(errors="replace")
    return [line for line in text.splitlines() if line.strip()][-LINES:]


def failed_boots(submission: Submission, environment: Mapping[str, str]) -> str:
    """What the guard wrote since the job was submitted; empty if it stopped none, or nothing is known."""
    try:
        return guard_verdict(submission, environment_of(submission, environment))
    except SlipwayError:
        return ""


def guard_verdict(submission: Submission, environment: Mapping[str, str]) -> str:
    """As `failed_boots`, in the environment of the AWS calls of the cluster's account or sandbox."""
    head_node = submission.head_node
    if head_node.via not in (SANDBOX, EKS, API, "ssm", "session"):
        return ""
    try:
        session = Session(environment=environment, region=str(head_node.region))
        stack = stacks.find(session, f"slipway-{submission.cluster}-{TRAINING_STACK}")
        uri = None if stack is None else stack.outputs.get(OUTPUTS["word_uri"])
        if uri is None:
            return ""
        store = Objects.at(session, f"{uri.removesuffix(WORD_FOLDER)}{SENT_FOLDER}")
        found = store.find(FAILED_BOOTS)
        if found is None or found.modified < submission.asked_at:
            return ""
        return _text(store.read(FAILED_BOOTS))
    except SlipwayError:
        return ""


def _text(body: bytes) -> str:
    try:
        return str(safe_json.loads(body)["text"])
    except (ValueError, TypeError, KeyError):
        return ""
