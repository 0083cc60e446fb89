"""The jobs that run on a cluster that is about to be removed, by the heartbeats of its nodes."""

from collections import defaultdict
from datetime import datetime, timedelta

from launcher.agent import safe_json
from launcher.agent.attempt_state import HEARTBEAT_FOLDER, HEARTBEAT_S
from launcher.aws.objects import Objects
from launcher.aws.session import Session
from launcher.aws.stacks import StackState
from launcher.model.errors import SlipwayError
from launcher.model.units import number_of
from launcher.rendering.names import OUTPUTS

FRESH = timedelta(seconds=3 * HEARTBEAT_S)
"""A node of a job writes every five minutes; the guard allows as much (templates/guard/job_messages.py)."""
MAX_READ = 64
"""Heartbeats read, the newest first: a job of thousands of nodes needs one to be named."""
MAX_BYTES, MAX_NAME = 4096, 100
"""A heartbeat of an agent has fewer; a node can write any object."""


def running_jobs(session: Session, cluster: StackState | None, now: datetime) -> tuple[tuple[str, str], ...]:
    """The jobs whose nodes have written in the last minutes, each with its attempt and number of nodes.

    If the heartbeats cannot be read, one entry gives the reason.
    """
    uri = None if cluster is None else cluster.outputs.get(OUTPUTS["message_uri"])
    if uri is None:
        return ()
    store = Objects.at(session, f"{uri}/{HEARTBEAT_FOLDER}")
    nodes: defaultdict[tuple[str, int], int] = defaultdict(int)
    try:
        fresh = [beat for beat in store.list_objects() if now - beat.modified <= FRESH and beat.bytes <= MAX_BYTES]
        fresh.sort(key=lambda beat: beat.modified, reverse=True)
        for beat in fresh[:MAX_READ]:
            job = _job(store.read(beat.key))
            if job is not None:
                nodes[job] += 1
    except SlipwayError as problem:
        return (("jobs not known", problem.message),)
    at_least = "at least " if len(fresh) > MAX_READ else ""
    return tuple(
        (name, f"running, attempt {attempt}, on {at_least}{number_of(count, 'node')}")
        for (name, attempt), count in sorted(nodes.items())
    )


def _job(text: bytes) -> tuple[str, int] | None:
    """The job and attempt of a heartbeat; None if it has ended, or if the text is no heartbeat."""
    try:
        document = safe_json.loads(text)
        job, attempt = document["job"], document["attempt"]
        is_one = not document["over"] and type(job) is str and type(attempt) is int
    except (ValueError, TypeError, KeyError):
        return None
    return (job[:MAX_NAME], attempt) if is_one else None
