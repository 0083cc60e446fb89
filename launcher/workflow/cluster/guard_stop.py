"""Why a cluster's guard stopped nodes, and when a job's node was last seen, by objects in the store."""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from launcher.agent import safe_json
from launcher.agent.attempt_state import CLAIM, HEARTBEAT_FOLDER
from launcher.agent.shape import moment
from launcher.aws import ssm, stacks
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.errors import SlipwayError
from launcher.model.monitoring import FAILED_BOOT, GUARD_STATES, GUARD_STOP, MESSAGE_FOLDER, SENT_FOLDER
from launcher.records.submission import API, EKS, SANDBOX, Submission
from launcher.rendering.names import OUTPUTS, TRAINING_STACK
from launcher.workflow.cluster.run_environment import environment_of

LINES = 5
REPORT_BYTES = 64 * 1024
"""More than a node reports of its boot; a larger object in the store is not read to its end."""


class GuardStop(NamedTuple):
    """Why the guard stopped nodes, and whether the cluster's jobs wait for new ones; an empty reason: it stopped none.

    `end` has when (`at`), and the report's word for the end of the attempt on the nodes (`ended_by`), if any ran.
    """

    reason: str
    jobs_wait: bool
    end: Mapping[str, str]


NO_STOP = GuardStop("", jobs_wait=False, end={})


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


def waiting_text(job: str, name: str) -> str:
    """What a job does whose nodes the guard has stopped, and what the user can do."""
    return (
        f"job {job} waits until nodes start again: the stack's output StartFleet has the command;"
        f" slipway cancel {name} ends the job"
    )


def guard_stop(submission: Submission, environment: Mapping[str, str], last_start: datetime | None) -> GuardStop:
    """As `read_guard_stop`, in the environment of the user."""
    try:
        return read_guard_stop(submission, environment_of(submission, environment), last_start)
    except SlipwayError:
        return NO_STOP


def read_guard_stop(submission: Submission, environment: Mapping[str, str], last_start: datetime | None) -> GuardStop:
    """Why the guard last stopped nodes, and whether the cluster's jobs wait for new ones.

    Args:
        submission: the job's.
        environment: that of the AWS calls of the cluster's account or sandbox.
        last_start: the start of the job's last attempt: an earlier stop does not concern the job any more.

    Returns:
        An empty reason if the guard stopped none since the job was submitted and began, or nothing is known.
    """
    head_node = submission.head_node
    if head_node.via not in (SANDBOX, EKS, API, "ssm", "session"):
        return NO_STOP
    try:
        session = Session(environment=environment, region=str(head_node.region))
        uri = _messages_uri(submission, session)
        if uri is None:
            return NO_STOP
        store = _sent_objects(session, uri)
        found = store.find(GUARD_STOP)
        if found is None or found.modified < max(submission.asked_at, last_start or submission.asked_at):
            return NO_STOP
        return _parse(store.read(GUARD_STOP), found.modified)
    except SlipwayError:
        return NO_STOP


def read_nodes_stop(session: Session, stack: StackState) -> str:
    """When and why the guard last stopped the nodes of a cluster's stack since its deployment; empty if it did not.

    Also empty if nothing is known: the store is gone, or the caller may not read it.
    """
    uri, deployed_at = stack.outputs.get(OUTPUTS["message_uri"]), stack.deployed_at or stack.made_at
    if uri is None:
        return ""
    try:
        store = _sent_objects(session, uri)
        found = store.find(GUARD_STOP)
        if found is None or (deployed_at is not None and found.modified < deployed_at):
            return ""
        lines = _parse(store.read(GUARD_STOP), found.modified).reason.splitlines()
    except SlipwayError:
        return ""
    return f"{found.modified:%Y-%m-%d %H:%M} UTC: {lines[0]}" if lines else ""


def read_endpoint_stop(session: Session, stack: StackState) -> str:
    """Why the guard ended the endpoint of a stack since its last deployment; empty if it did not, or nothing is known.

    The guard keeps the reason in its state (templates/guard/state.py).
    """
    deployed_at = stack.deployed_at or stack.made_at
    try:
        state = safe_json.loads(ssm.parameter(session, f"{GUARD_STATES}/{stack.name}/guard"))
        stopped_at = state.get("stopped_at")
        if stopped_at is None or (deployed_at is not None and moment(stopped_at) < deployed_at):
            return ""
        return str(state["stop_reason"])
    except (SlipwayError, ValueError, TypeError, KeyError, AttributeError):
        return ""


def last_seen(submission: Submission, environment: Mapping[str, str], attempt: int) -> datetime | None:
    """When a sign of life of an attempt's first node was last stored; None if the store has none of this attempt.

    The claim to the checkpoints is renewed every minute, the heartbeat for the guard every 5 minutes.

    Args:
        submission: the job's.
        environment: that of the AWS calls of the cluster's account or sandbox.
        attempt: the attempt's number.

    Raises:
        AwsError: the store does not answer.
    """
    session = Session(environment=environment, region=str(submission.head_node.region))
    uri = _messages_uri(submission, session)
    places = [(submission.checkpoint_uri, CLAIM)] if submission.checkpoint_uri.startswith("s3://") else []
    places += [] if uri is None else [(f"{uri}/{HEARTBEAT_FOLDER}", f"{submission.key}-0.json")]
    signs = (_sign_of_life(Objects.at(session, place), key, submission.key, attempt) for place, key in places)
    return max((sign for sign in signs if sign is not None), default=None)


def _sign_of_life(store: Objects, key: str, run: str, attempt: int) -> datetime | None:
    """When an object of an attempt was written; None if it is another attempt's, or none."""
    found = store.find(key)
    if found is None:
        return None
    try:
        document = safe_json.loads(store.read(key, REPORT_BYTES))
        return found.modified if (document["run"], document["attempt"]) == (run, attempt) else None
    except (ValueError, TypeError, KeyError):
        return None


def _messages_uri(submission: Submission, session: Session) -> str | None:
    """The place of the messages to the guard; None without a guard."""
    stack = stacks.find(session, f"slipway-{submission.cluster}-{TRAINING_STACK}")
    return None if stack is None else stack.outputs.get(OUTPUTS["message_uri"])


def _sent_objects(session: Session, uri: str) -> Objects:
    """The guard's marks and stop, next to the messages to it."""
    folder, _, name = uri.rpartition("/")
    # A stack that an earlier version deployed has messages below "trouble" and marks below "told".
    return Objects.at(session, f"{folder}/{SENT_FOLDER if name == MESSAGE_FOLDER else 'told'}")


def _parse(body: bytes, at: datetime) -> GuardStop:
    try:
        document = safe_json.loads(body)
        cause = document.get("ended_by")
        end = {} if cause is None else {"at": at.isoformat(), "ended_by": str(cause)}
        return GuardStop(str(document["text"]), jobs_wait=document.get("jobs_wait") is True, end=end)
    except (ValueError, TypeError, KeyError, AttributeError):
        return NO_STOP
