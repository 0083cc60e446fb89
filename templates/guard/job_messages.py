# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""A guard's own folder in the store: messages of jobs for users, nodes that run a job, and sent notifications.

Nodes may not publish to the topic. Below `messages/` they leave one object for each message to users
(launcher/agent/store/guard_messages.py), which the guard sends and removes. Below `messages/running/` each node of a
job writes a heartbeat every five minutes (launcher/agent/store/heartbeat.py). Below `sent/` the guard marks every
notification that it must not repeat; the mark is a conditional write, so two concurrent calls send it only once.

Nodes may write any number of objects: a check lists and reads a bounded number of them, and stops when Lambda's time
runs out. What it has not read waits for the next check, and an unread heartbeat counts as a working node.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

THERE = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
"""S3's error codes for a failed condition."""
MOST = 20
"""Maximum messages of jobs sent per check; the rest waits for the next check."""
MOST_BEATS = 200
"""Maximum heartbeats read per check: the first working node ends the reading, so that only hung jobs have as many."""
PAGES = 5
"""Maximum pages of 1,000 keys that a check lists of heartbeats; of messages it lists one page."""
LONGEST = 4096
"""Maximum bytes read from one object: nodes may write anything."""
MAX_CHARACTERS = 300
KEYS_A_CALL = 1000
RUNNING = "running/"
FRESH = timedelta(minutes=15)
"""A node of a job writes every five minutes: after this time without a heartbeat, it runs no job."""
OLD = timedelta(days=1)
"""The age from which the guard removes a heartbeat."""
SUBJECTS = {
    "checkpoint-dropped": ("checkpoint dropped", "checkpoints are not in the store"),
    "checkpoint-removed": ("files removed", "files were removed from a node with a full disk"),
    "checkpoints-not-recognised": ("checkpoints not recognised", "the files that jobs write are not stored"),
    "forecast": ("cost forecast", "the cost of jobs will differ from the quote"),
    "no-checkpoint-yet": ("no checkpoint yet", "jobs have written no checkpoint"),
    "signal-not-handled": ("signal not handled", "trainers do not save when they are interrupted"),
    "start-failed": ("instances stopped", "a job could not be started, and its instances are stopped"),
    "straggler": ("slow node", "a node slows a job down; slipway status NAME shows what replacing it costs"),
}
"""Subject and first line for each event of a job's agent."""
OTHERWISE = ("report of a job", "a job reports a problem")


class Message(NamedTuple):
    """One message of a job for users."""

    key: str
    event: str
    words: str


class Beat(NamedTuple):
    """A node's heartbeat for its job: the job's name, and the number of seconds without activity."""

    job: str
    still_s: float


AT_WORK = Beat("", 0.0)
"""A working node without a name."""


class Folder:
    """The folder of one guard, `s3://bucket/prefix`."""

    def __init__(self, s3: Any, uri: str, in_time: Callable[[], bool] = lambda: True) -> None:
        """Set up the folder; no request is sent yet. `in_time` returns False when the check must end."""
        self.s3 = s3
        self.bucket, _, self.prefix = uri.removeprefix("s3://").partition("/")
        self.in_time = in_time

    def pass_on(self, now: datetime, notify: Callable[[str, str], None]) -> None:
        """Send the messages of jobs to users.

        Raises:
            ClientError: the store does not respond, or no notification could be sent.
        """
        messages = self.messages()
        for event in sorted({word.event for word in messages}):
            self.notify_all([word for word in messages if word.event == event], now, notify)

    def notify_all(self, messages: list[Message], now: datetime, notify: Callable[[str, str], None]) -> None:
        """Send messages of one kind in one notification, and remove them.

        Raises:
            ClientError: the store does not respond, or no notification could be sent.
        """
        subject, begin = SUBJECTS.get(messages[0].event, OTHERWISE)
        text = "\n".join((f"{begin}:", *(word.words for word in messages)))
        # If the bucket deletes nothing, only the mark prevents a message at every check.
        name = sha256("\n".join(word.key for word in messages).encode()).hexdigest()
        self.once(name, now, lambda: notify(subject, text))
        for word in messages:
            self.s3.delete_object(Bucket=self.bucket, Key=word.key)

    def notify_of_idle(
        self, now: datetime, notify: Callable[[str, str], None], idle: str, usd_per_hour: float | None, cluster: str
    ) -> None:
        """Notify of unused reserved nodes, once a day.

        Args:
            now: the moment.
            notify: receives a subject and a text.
            idle: idle nodes and since when, in words.
            usd_per_hour: their quoted cost; None if unknown.
            cluster: the name for target.cluster in plans that use them.

        Raises:
            ClientError: S3 refused the mark, or SNS the message.
        """
        costs = "at a rate that the guard does not know" if usd_per_hour is None else f"${usd_per_hour:,.2f} an hour"
        text = f"{idle}: {costs}, billed even when idle. A plan with target.cluster: {cluster} uses them."
        self.once(f"idle-{now:%Y-%m-%d}", now, lambda: notify("reserved nodes idle", text))

    def messages(self) -> list[Message]:
        """The messages of jobs, oldest first; of more than 1,000, the first 1,000 by key.

        Raises:
            ClientError: the store does not respond.
        """
        page = self.s3.list_objects_v2(Bucket=self.bucket, Prefix=f"{self.prefix}/messages/", Delimiter="/")
        oldest = sorted(page.get("Contents", []), key=lambda entry: entry["LastModified"])[:MOST]
        return [Message(entry["Key"], *parse_message(self.text(entry["Key"]))) for entry in oldest if self.in_time()]

    def beats(self, now: datetime, hung_s: float = 0.0) -> list[Beat]:
        """The heartbeats of the nodes that run a job, up to the first that is working.

        An unreadable heartbeat counts as working; so do those that were not listed or read.

        Args:
            now: the moment.
            hung_s: seconds without activity from which a job hangs; 0: never.

        Raises:
            ClientError: the store does not respond.
        """
        listed, complete = self.listed_beats()
        self.remove([entry["Key"] for entry in listed if now - entry["LastModified"] >= OLD])
        fresh = [entry for entry in listed if now - entry["LastModified"] < FRESH]
        beats: list[Beat] = []
        for read, entry in enumerate(fresh):
            if read == MOST_BEATS or not self.in_time():
                return [*beats, AT_WORK]
            beat = beat_of(self.text(entry["Key"]))
            if beat is None:
                continue
            beats.append(beat)
            if beat.still_s < hung_s or not hung_s:
                return beats
        return beats if complete else [*beats, AT_WORK]

    def listed_beats(self) -> tuple[list[dict[str, Any]], bool]:
        """The objects of heartbeats, and whether these are all."""
        pages = self.s3.get_paginator("list_objects_v2").paginate(
            Bucket=self.bucket, Prefix=f"{self.prefix}/messages/{RUNNING}"
        )
        listed: list[dict[str, Any]] = []
        for number, page in enumerate(pages, start=1):
            listed += page.get("Contents", [])
            if page["IsTruncated"] and (number == PAGES or not self.in_time()):
                return listed, False
        return listed, True

    def remove(self, keys: list[str]) -> None:
        """Remove old heartbeats, at most 1,000 per check; a bucket that deletes nothing keeps them."""
        if keys:
            objects = [{"Key": key} for key in keys[:KEYS_A_CALL]]
            self.s3.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})

    def text(self, key: str) -> str:
        """The beginning of an object, as text."""
        body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        return str(body.read(LONGEST).decode(errors="replace"))

    def once(self, name: str, now: datetime, notify: Callable[[], None]) -> bool:
        """Send a notification unless this name is marked; return whether it was sent now. A failed one is not marked.

        Raises:
            ClientError: the store rejects the mark, and nothing was sent; or the error of `notify`.
        """
        key = f"{self.prefix}/sent/{name}.json"
        body = json.dumps({"schema": "slipway.sent/1", "at": now.isoformat()}).encode()
        try:
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, ContentType="application/json", IfNoneMatch="*")
        except ClientError as refusal:
            if refusal.response["Error"]["Code"] not in THERE:
                raise
            return False
        try:
            notify()
        except Exception:
            self.s3.delete_object(Bucket=self.bucket, Key=key)
            raise
        return True


def parse_message(text: str) -> tuple[str, str]:
    """The event of an object, and its message in one line.

    >>> parse_message(
    ...     '{"event": "forecast", "job": "tiny", "attempt": 2, "what": null, "reason": "too dear", "at": "noon"}'
    ... )
    ('forecast', 'job tiny, attempt 2: too dear (noon)')
    """
    try:
        document = json.loads(text)
        event, job, attempt, reason, at = (plain(document[key]) for key in ("event", "job", "attempt", "reason", "at"))
        detail = f", {plain(document['what'])}" if document["what"] is not None else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", f"not a report of a job's agent: {plain(text)}"
    return event, f"job {job}, attempt {attempt}{detail}: {reason} ({at})"


def beat_of(text: str) -> Beat | None:
    """A node's heartbeat; None if its job has ended.

    >>> beat_of('{"job": "tiny", "still_s": 60, "over": false}'), beat_of('{"job": "tiny", "still_s": 0, "over": true}')
    (Beat(job='tiny', still_s=60.0), None)
    >>> beat_of("what?")
    Beat(job='?', still_s=0.0)
    """
    try:
        document = json.loads(text)
        return None if document["over"] is True else Beat(plain(document["job"]), float(document["still_s"]))
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        return Beat("?", 0.0)


_OF_ONE = {"are": "is", "have": "has", "end": "ends", "copies": "copy"}
"""Verbs after a plural, each with its form after a singular, and the nouns whose singular is not without an s."""


def its(count: float | None, noun: str, verb: str = "") -> str:
    """A count of a cluster's resources, as text, with its verb.

    >>> its(2, "nodes"), its(None, "nodes"), its(2, "nodes", "are"), its(1, "nodes", "are"), its(1, "copies")
    ('its 2 nodes', 'its nodes', 'its 2 nodes are', 'its 1 node is', 'its 1 copy')
    """
    number = () if count is None else (f"{count:g}",)
    if count == 1:
        noun, verb = _OF_ONE.get(noun, noun.removesuffix("s")), _OF_ONE.get(verb, verb)
    return " ".join(filter(None, ("its", *number, noun, verb)))


def plain(value: Any) -> str:
    """A value without characters that could break a line of an email, and of limited length."""
    return "".join(_printable(str(value)))[:MAX_CHARACTERS]


def _printable(text: str) -> Iterator[str]:
    return (character if character.isprintable() else " " for character in text)
