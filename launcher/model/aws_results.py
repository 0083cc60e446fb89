"""Results of AWS's calls that are used by layers that know nothing of `launcher.aws`."""

from datetime import datetime

from launcher.model.record import record


@record
class StoredObject:
    """An object in S3; `key` is relative to the prefix below which it was listed."""

    key: str
    bytes: int
    modified: datetime


@record
class Invocation:
    """A command's result on one instance; the service cuts `out` at 24,000 and `err` at 8,000 characters.

    `status` is Pending, InProgress, Delayed, Success, Cancelled, TimedOut, Failed or Cancelling; `details` says more.
    """

    status: str
    details: str
    code: int
    out: str
    err: str
