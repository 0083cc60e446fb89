"""One agent at a time writes the checkpoints of a prefix; `claim.json` names the owner.

An agent can outlive its attempt (a node that the scheduler lost), and two jobs can have the same prefix by mistake. One
could then tag as superseded what the other refers to, or resume from the other's weights.

- A later attempt of the same run takes over at once; the earlier one notices before its next commit and ends.
- Another run is refused while the owner beats (once a minute). It takes over after three minutes without a beat, or
  when the owner has released the claim.

Conditional writes decide between agents that come at the same instant.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from launcher.agent import safe_json
from launcher.agent.errors import JobSpecError, StoreError, TakenOverError
from launcher.agent.events import EventLog
from launcher.agent.shape import read
from launcher.agent.store.objects import Store, StoredText

KEY = "claim.json"
SCHEMA = "slipway.claim/1"
BEAT_S = 60.0
STALE_S = 180.0
SETTLE_S = 120.0
"""After a take-over from an agent that may still live nothing is tagged for this long: a commit that it has begun
before it can see the take-over (three tries of a request) must still find its objects untagged."""

_LOOK_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An entry of `claim.json`.

    Attributes:
        attempt: Of that run, from 1.
        token: Names this agent and no other.
        beat: Grows while it lives.
        released: It has ended in good order.
    """

    run: str
    attempt: int
    node: str
    token: str
    beat: int = 0
    released: bool = False

    def to_json(self) -> str:
        """The text of `claim.json`."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, sort_keys=True) + "\n"


def parse_owner(text: str) -> Owner | None:
    """The owner in `claim.json`; None for what cannot be read, which binds nobody."""
    try:
        document = safe_json.loads(text)
        owner = read(Owner, document, exact=True)
        return owner if document.get("schema") == SCHEMA else None
    except ValueError:
        return None


def _owner_in(stored: StoredText | None) -> Owner | None:
    return parse_owner(stored.text) if stored is not None else None


class Claim(threading.Thread):
    """The claim of one agent. Its thread beats."""

    def __init__(self, store: Store, log: EventLog, *, run: str, attempt: int, node: str) -> None:
        super().__init__(name="claim", daemon=True)
        self._store = store
        self._log = log
        self._own = Owner(run=run, attempt=attempt, node=node, token=secrets.token_hex(8))
        self._written: StoredText | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.may_tag_at = 0.0
        """Monotonic seconds from which objects may be tagged."""

    @property
    def token(self) -> str:
        """What names this agent and no other."""
        return self._own.token

    def take(self, *, over: Callable[[], bool]) -> None:
        """Become the owner; an owner of another run that gives no sign of life is waited for until it is stale.

        Raises:
            JobSpecError: Another run writes here and is alive.
            TakenOverError: A later attempt of this run is the owner.
        """
        first: Owner | None = None
        while not over():
            owner = self._try_to_take()
            if owner is None:
                return
            if first is None:
                self._log.append("claim-held", by_run=owner.run, by_node=owner.node)
                first = owner
            elif owner != first:
                raise JobSpecError([self._refusal(owner)])
            time.sleep(_LOOK_S)

    def check(self) -> None:
        """Make sure that this agent is the owner; a claim that could not be made at the start is made now.

        Raises:
            TakenOverError: Another agent is the owner.
        """
        if self._written is None:
            other = self._try_to_take()
        else:
            owner = _owner_in(self._store.find_text(KEY))
            other = owner if owner is not None and owner.token != self._own.token else None
        if other is not None:
            raise TakenOverError(f"attempt {other.attempt} of run {other.run} on {other.node} now owns the checkpoints")

    def check_holder(self, token: str) -> None:
        """Make sure that another agent of this job, which told this one to do something, still is the owner.

        Raises:
            TakenOverError: It is not, or it has ended.
        """
        owner = _owner_in(self._store.find_text(KEY))
        if owner is None or owner.token != token or owner.released:
            raise TakenOverError("the agent that requested this no longer owns the checkpoints")

    def _try_to_take(self) -> Owner | None:
        """Become the owner, or say who is and stays it for now."""
        while True:
            stored = self._store.find_text(KEY)
            owner = _owner_in(stored)
            if owner is not None and owner.token == self._own.token:
                self._written = stored  # written, and the answer was lost on its way
                return None
            if owner is not None and not self._is_free(owner, stored):
                return owner
            alive = owner is not None and not owner.released
            self.may_tag_at = time.monotonic() + (SETTLE_S if alive else 0.0)
            self._written = self._store.swap_text(KEY, self._own.to_json(), before=stored)
            if self._written is not None:
                return None

    def release(self) -> None:
        """Say that this agent is done, and stop beating."""
        self._over.set()
        if self._written is None:
            return
        try:
            with self._lock:
                self._write(replace(self._own, released=True))
        except StoreError as error:
            self._log.append("claim-trouble", error=f"cannot release the claim on the checkpoints: {error}")

    def run(self) -> None:
        """Beat until it is over or the claim is lost; who commits finds out by itself."""
        reported = False
        while not self._over.wait(BEAT_S):
            try:
                with self._lock:
                    if not self._over.is_set() and self._written is not None:
                        self._write(replace(self._own, beat=self._own.beat + 1))
            except StoreError as error:
                if not reported:
                    self._log.append("claim-trouble", error=str(error))
                reported = True

    def _write(self, owner: Owner) -> None:
        """Write the entry over this agent's own last one, if that is still there; else somebody has taken over."""
        before = self._written
        for _ in range(2):
            if before is None:
                return
            written = self._store.swap_text(KEY, owner.to_json(), before=before)
            if written is not None:
                self._own, self._written = owner, written
                return
            before = self._store.find_text(KEY)  # an earlier write of ours may have arrived, and its answer not
            holder = _owner_in(before)
            if holder is None or holder.token != self._own.token:
                return

    def _is_free(self, owner: Owner, stored: StoredText | None) -> bool:
        """Whether this agent may take over from an owner."""
        if owner.run == self._own.run:
            if owner.attempt > self._own.attempt and not owner.released:
                raise TakenOverError(f"attempt {owner.attempt} on {owner.node} already owns the checkpoints")
            return True
        return owner.released or (stored is not None and stored.age_s >= STALE_S)

    def _refusal(self, owner: Owner) -> str:
        return (
            f"checkpoint.uri: run {owner.run} writes to {self._store.uri} and still runs on {owner.node}; "
            "cancel that run, or set another name or another checkpoint.uri for this job"
        )
