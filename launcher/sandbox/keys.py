"""The access keys of one sandbox: the owner's random key, and temporary keys that the sandbox issues."""

import secrets
import string
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_LETTERS = string.ascii_uppercase + string.digits
_ID_LETTERS, _SECRET_BYTES = 13, 30
"""Lengths of the random parts: an id has 20 characters and a secret 40, as in AWS."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessKey:
    """An access key. `token` is the session token, empty for a permanent key; `ends` is None for a permanent key."""

    id: str
    secret: str
    token: str = ""
    ends: datetime | None = None

    @classmethod
    def random(cls, *, lasts: timedelta | None = None) -> "AccessKey":
        """A new key, with a session token if `lasts` limits its lifetime."""
        key = cls(
            id="SANDBOX" + "".join(secrets.choice(_LETTERS) for _ in range(_ID_LETTERS)),
            secret=secrets.token_urlsafe(_SECRET_BYTES),
        )
        if lasts is None:
            return key
        return cls(id=key.id, secret=key.secret, token=secrets.token_urlsafe(64), ends=datetime.now(UTC) + lasts)


Issuer = Callable[[str], AccessKey | None]
"""Finds a key by its id if another component than the ring has issued it."""


class KeyRing:
    """The keys that a sandbox accepts. Thread-safe."""

    def __init__(self, issuer: Issuer = lambda _: None) -> None:
        self.owner = AccessKey.random()
        self._issuer = issuer
        self._granted: dict[str, AccessKey] = {}
        self._lock = threading.Lock()

    def grant(self, lasts: timedelta) -> AccessKey:
        """Issue a temporary key for the owner's processes."""
        granted = AccessKey.random(lasts=lasts)
        now = datetime.now(UTC)
        with self._lock:
            self._granted = {id_: key for id_, key in self._granted.items() if key.ends is None or key.ends > now}
            self._granted[granted.id] = granted
        return granted

    def find(self, key_id: str) -> AccessKey | None:
        """A key by its id, also an expired key; None if it was never issued."""
        if key_id == self.owner.id:
            return self.owner
        with self._lock:
            granted = self._granted.get(key_id)
        return granted or self._issuer(key_id)
