# ruff: noqa: INP001 - one file that is shipped as it is; the folder is the function's code
"""A guard's own folder in the store: what jobs want people to hear, which nodes run one, what was told already.

Nodes have no right to publish. Below `trouble/` they leave one object for each thing that people must hear of
(launcher/agent/store/guard_messages.py); the guard tells it and removes it. Below `trouble/running/` each node of a job
writes a heartbeat every five minutes (launcher/agent/store/heartbeat.py). Below `told/` the guard leaves a mark of what
it must not tell twice, written under the condition that there is none, so that two calls at once tell it once.
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

THERE = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409"}
"""What S3 answers to a condition that does not hold."""
MOST = 20
"""Of what jobs say, told at one look; the rest waits for the next."""
LONGEST = 4096
"""Bytes of one object: nodes may write anything."""
WORDS = 300
RUNNING = "running/"
FRESH = timedelta(minutes=15)
"""A node of a job writes every five minutes: one that has not for so long runs none."""
SUBJECTS = {
    "checkpoint-dropped": ("checkpoint dropped", "checkpoints are not in the store"),
    "checkpoint-removed": ("files removed", "files were removed from a node with a full disk"),
    "checkpoints-not-recognised": ("checkpoints not recognised", "the files that jobs write are not stored"),
    "forecast": ("cost forecast", "the cost of jobs will differ from the quote"),
    "no-checkpoint-yet": ("no checkpoint yet", "jobs have written no checkpoint"),
    "signal-not-handled": ("signal not handled", "trainers do not save when they are interrupted"),
}
"""Subject and first line for each event of a job's agent."""
OTHERWISE = ("report of a job", "a job reports a problem")


class Said(NamedTuple):
    """One thing that a job wants people to hear."""

    key: str
    event: str
    words: str


class Beat(NamedTuple):
    """What a node that runs a job says of itself: whose it is, and for how many seconds it has done nothing."""

    job: str
    still_s: float


class Folder:
    """The folder of one guard, `s3://bucket/prefix`."""

    def __init__(self, s3: Any, uri: str) -> None:
        """Nothing is asked yet."""
        self.s3 = s3
        self.bucket, _, self.prefix = uri.removeprefix("s3://").partition("/")
        self.listed: list[dict[str, Any]] | None = None

    def pass_on(self, now: datetime, notify: Callable[[str, str], None]) -> None:
        """Tell people what jobs have left for them.

        Raises:
            ClientError: the store does not answer, or nobody could be told.
        """
        words = self.said()
        for event in sorted({word.event for word in words}):
            self.notify_all([word for word in words if word.event == event], now, notify)

    def notify_all(self, words: list[Said], now: datetime, notify: Callable[[str, str], None]) -> None:
        """Tell things of one kind in one message, and remove them.

        Raises:
            ClientError: the store does not answer, or nobody could be told.
        """
        subject, begin = SUBJECTS.get(words[0].event, OTHERWISE)
        text = "\n".join((f"{begin}:", *(word.words for word in words)))
        # Where the store removes nothing, the mark alone keeps it from being told at every look.
        name = sha256("\n".join(word.key for word in words).encode()).hexdigest()
        self.once(name, now, lambda: notify(subject, text))
        for word in words:
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

    def said(self) -> list[Said]:
        """What jobs have left, oldest first.

        Raises:
            ClientError: the store does not answer.
        """
        listed = (entry for entry in self.left() if not self.is_beat(entry["Key"]))
        oldest = sorted(listed, key=lambda entry: entry["LastModified"])[:MOST]
        return [Said(entry["Key"], *parsed(self.text(entry["Key"]))) for entry in oldest]

    def beats(self, now: datetime) -> list[Beat]:
        """What the nodes that run a job say of themselves; one that cannot be read is at work.

        Raises:
            ClientError: the store does not answer.
        """
        fresh = (entry for entry in self.left() if self.is_beat(entry["Key"]) and now - entry["LastModified"] < FRESH)
        beats = (beat_of(self.text(entry["Key"])) for entry in fresh)
        return [beat for beat in beats if beat is not None]

    def left(self) -> list[dict[str, Any]]:
        """All that nodes have left, listed once a look."""
        if self.listed is None:
            pages = self.s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=f"{self.prefix}/trouble/"
            )
            self.listed = [content for page in pages for content in page.get("Contents", [])]
        return self.listed

    def is_beat(self, key: str) -> bool:
        """Whether an object is a sign of life."""
        return key.startswith(f"{self.prefix}/trouble/{RUNNING}")

    def text(self, key: str) -> str:
        """The beginning of an object."""
        body = self.s3.get_object(Bucket=self.bucket, Key=key)["Body"]
        return str(body.read(LONGEST).decode(errors="replace"))

    def once(self, name: str, now: datetime, notify: Callable[[], None]) -> bool:
        """Tell what was not told under this name; whether it was told now. What could not be told is not marked.

        Raises:
            ClientError: the store takes no mark, and nothing was told; or what `tell` raises.
        """
        key = f"{self.prefix}/told/{name}.json"
        body = json.dumps({"schema": "slipway.told/1", "at": now.isoformat()}).encode()
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


def parsed(text: str) -> tuple[str, str]:
    """The event of an object, and what it says in a line.

    >>> parsed('{"event": "forecast", "job": "tiny", "attempt": 2, "what": null, "reason": "too dear", "at": "noon"}')
    ('forecast', 'job tiny, attempt 2: too dear (noon)')
    """
    try:
        document = json.loads(text)
        event, job, attempt, reason, at = (plain(document[key]) for key in ("event", "job", "attempt", "reason", "at"))
        what = f", {plain(document['what'])}" if document["what"] is not None else ""
    except (ValueError, TypeError, KeyError, RecursionError):
        return "", f"not a report of a job's agent: {plain(text)}"
    return event, f"job {job}, attempt {attempt}{what}: {reason} ({at})"


def beat_of(text: str) -> Beat | None:
    """What a node says of itself; None where its job is over.

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


def plain(value: Any) -> str:
    """A value without what could break a line of mail, and not too long."""
    return "".join(_printable(str(value)))[:WORDS]


def _printable(text: str) -> Iterator[str]:
    return (character if character.isprintable() else " " for character in text)
