"""Only one agent at a time writes the checkpoints of a prefix; `claim.json` names the owner.

An agent can outlive its attempt (a node that the scheduler lost), and two jobs can have the same prefix by mistake. One
agent could then tag objects as superseded that the other still references, or resume from the other job's weights.

- A later attempt of the same run takes over immediately; the earlier agent detects it before its next commit and ends.
- Another run is refused while the owner sends heartbeats (once a minute). The other run takes over after three minutes
  without a heartbeat, or when the owner has released the claim.

Conditional writes decide between agents that write at the same instant.
"""

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from launcher.agent import safe_json
from launcher.agent.attempt_state import CLAIM
from launcher.agent.errors import JobSpecError, StoreError, TakenOverError
from launcher.agent.events import EventLog, report_lost
from launcher.agent.shape import read
from launcher.agent.store.objects import Store, StoredText

SCHEMA = "slipway.claim/1"
BEAT_S = 60.0
STALE_S = 180.0
SETTLE_S = 120.0
"""Slipway tags nothing for this time after a takeover from an agent that may still run. A commit that the old agent
started before it could detect the takeover (three tries of a request) must still find its objects untagged."""

_POLL_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An entry of `claim.json`.

    Attributes:
        attempt: Attempt number within the run, from 1.
        token: Identifies this agent uniquely.
        beat: Heartbeat counter; increases while the agent runs.
        released: The agent ended normally and released the claim.
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
    """The owner in `claim.json`; None if the text is unreadable, in which case no agent owns the prefix."""
    try:
        document = safe_json.loads(text)
        owner = read(Owner, document, exact=True)
        return owner if document.get("schema") == SCHEMA else None
    except ValueError:
        return None


def _owner_in(stored: StoredText | None) -> Owner | None:
    return parse_owner(stored.text) if stored is not None else None


class Claim(threading.Thread):
    """The claim of one agent; its thread sends the heartbeats."""

    def __init__(self, store: Store, log: EventLog, *, run: str, attempt: int, node: str) -> None:
        super().__init__(name="claim", daemon=True)
        self.store = store
        self._log = log
        self._own = Owner(run=run, attempt=attempt, node=node, token=secrets.token_hex(8))
        self._written: StoredText | None = None
        self._over = threading.Event()
        self._lock = threading.Lock()
        self.may_tag_at = 0.0
        """Monotonic seconds from which objects may be tagged."""

    @property
    def token(self) -> str:
        """The unique token of this agent."""
        return self._own.token

    def take(self, *, over: Callable[[], bool]) -> None:
        """Become the owner; wait for an owner of another run that sends no heartbeat until its claim is stale.

        Raises:
            JobSpecError: another run writes to this prefix and still sends heartbeats.
            TakenOverError: a later attempt of this run is the owner.
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
            time.sleep(_POLL_S)

    def check(self) -> None:
        """Verify that this agent is the owner; retry now if the claim failed at the start.

        Raises:
            TakenOverError: another agent is the owner.
        """
        if self._written is None:
            other = self._try_to_take()
        else:
            owner = _owner_in(self.store.find_text(CLAIM))
            other = owner if owner is not None and owner.token != self._own.token else None
        if other is not None:
            raise TakenOverError(f"attempt {other.attempt} of run {other.run} on {other.node} now owns the checkpoints")

    def check_holder(self, token: str) -> None:
        """Verify that another agent of this job, which requested work from this agent, is still the owner.

        Raises:
            TakenOverError: the other agent is no longer the owner, or has ended.
        """
        owner = _owner_in(self.store.find_text(CLAIM))
        if owner is None or owner.token != token or owner.released:
            raise TakenOverError("the agent that requested this no longer owns the checkpoints")

    def _try_to_take(self) -> Owner | None:
        """Become the owner, or return the current owner that keeps the claim for now."""
        while True:
            stored = self.store.find_text(CLAIM)
            owner = _owner_in(stored)
            if owner is not None and owner.token == self._own.token:
                self._written = stored  # written, and the answer was lost on its way
                return None
            if owner is not None and not self.is_free(owner, stored):
                return owner
            alive = owner is not None and not owner.released
            self.may_tag_at = time.monotonic() + (SETTLE_S if alive else 0.0)
            self._written = self.store.swap_text(CLAIM, self._own.to_json(), before=stored)
            if self._written is not None:
                if alive and stored is not None and owner is not None and owner.run == self._own.run:
                    report_lost(self._log, owner.attempt, self._own.attempt, stored.written_s)
                return None

    def release(self) -> None:
        """Mark the claim as released, and stop the heartbeat."""
        self._over.set()
        if self._written is None:
            return
        try:
            with self._lock:
                self._write(replace(self._own, released=True))
        except StoreError as error:
            self._log.append("claim-error", error=f"cannot release the claim on the checkpoints: {error}")

    def run(self) -> None:
        """Renew the heartbeat until the job ends or the claim is lost; the committing thread detects a loss itself."""
        reported = False
        while not self._over.wait(BEAT_S):
            try:
                with self._lock:
                    if not self._over.is_set() and self._written is not None:
                        self._write(replace(self._own, beat=self._own.beat + 1))
            except StoreError as error:
                if not reported:
                    self._log.append("claim-error", error=str(error))
                reported = True

    def _write(self, owner: Owner) -> None:
        """Overwrite this agent's last entry if the entry is unchanged; otherwise another agent has taken over."""
        before = self._written
        for _ in range(2):
            if before is None:
                return
            written = self.store.swap_text(CLAIM, owner.to_json(), before=before)
            if written is not None:
                self._own, self._written = owner, written
                return
            before = self.store.find_text(CLAIM)  # an earlier write of ours may have arrived, and its answer not
            holder = _owner_in(before)
            if holder is None or holder.token != self._own.token:
                return

    def is_free(self, owner: Owner, stored: StoredText | None) -> bool:
        """Whether this agent may take over from an owner."""
        if owner.run == self._own.run:
            if owner.attempt > self._own.attempt and not owner.released:
                raise TakenOverError(f"attempt {owner.attempt} on {owner.node} already owns the checkpoints")
            return True
        return owner.released or (stored is not None and stored.age_s >= STALE_S)

    def _refusal(self, owner: Owner) -> str:
        return (
            f"checkpoint.uri: run {owner.run} writes to {self.store.uri} and still runs on {owner.node}; "
            "cancel that run, or set another name or another checkpoint.uri for this job"
        )
