"""How the pods of a job determine their attempt.

Slurm starts all nodes of an attempt together and counts attempts; Kubernetes starts pods one by one and counts nothing
on which they could agree. So the first pod starts an attempt, with the next number, in `life.json`. Every pod claims
its seat, and the attempt starts when all seats are claimed. A pod that finds its seat claimed replaces a lost pod: it
declares the attempt over, the others save and exit as on any notice, and all wait for the next attempt.

Conditional writes of the store decide between pods that arrive at the same instant. Nothing depends on clocks.

A pod that ends leaves its seat. A pod that did not, while its node still exists, was killed (OOMKilled ends the agent
too) and counts as a failure. If its node is gone, the pod was interrupted.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from launcher.agent import exits
from launcher.agent.attempt_state import STATE_FILE, AttemptState, parse_attempt_state
from launcher.agent.errors import StoreError
from launcher.agent.node import shared_notices
from launcher.agent.node.notice import POD_END, Notice
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store, StoredText

OVER, NEWS, SEAT, LEFT = "over.json", "news.json", "seat-", "left-"
_KILLED = 137
"""128 + SIGKILL: the exit code of a container that ran out of memory."""
_POLL_S = 1.0
_MAX_POLL_S = 5.0
_SLOWER = 1.2


def folder_of(number: int) -> str:
    """The folder in which the pods of an attempt exchange messages.

    >>> folder_of(7)
    'lives/000007'
    """
    return f"lives/{number:06d}"


class Rendezvous:
    """One pod that joins an attempt."""

    def __init__(
        self,
        store: Store,
        place: Placement,
        *,
        notify: Callable[[str], None],
        node_id: str = "",
        retries: int | None = None,
    ) -> None:
        """`retries` None: attempts are not counted."""
        self._store = store
        self._place = place
        self._notify = notify
        self._retries = retries
        self._name = f"{secrets.token_hex(8)} {node_id}"
        self._said: set[str] = set()
        self._number = 0
        self._claimed: int | None = None  # the attempt in which this pod has a seat
        self.completed = self.stopped = False
        self.failed: int | None = None

    def join(self, *, over: Callable[[], bool]) -> Placement | None:
        """Claim a seat, and wait until the attempt starts.

        Returns:
            The place with the number of the attempt; None if the pod must exit, or if nothing is left to do because
            the job has `completed`, was `stopped` for good, or has `failed` for good.

        Raises:
            StoreError: the store refuses permanently.
        """
        latest: int | None = None
        while not over():
            try:
                number = self._seat(latest)
                if self.completed:
                    return None
                if number is not None:
                    if self._has_begun(number, over=over):
                        return replace(self._place, attempt=number, session=f"{self._place.session}.l{number}")
                    self._leave_seat(exits.INTERRUPTED)
                    latest = number
            except StoreError as error:
                if error.permanent:
                    raise
                self._once(f"the store does not answer; waiting: {error}")
            time.sleep(_POLL_S)
        self._leave_seat(exits.INTERRUPTED)
        return None

    def complete(self, *, over: Callable[[], bool], stopped: bool = False) -> bool:
        """On the first pod: record that the job is complete. On the others: wait until the first pod has recorded it.

        A pod that ends with 0 is not restarted. If one ended before the job is complete, the others would
        wait for it in the next attempt without end.

        `stopped`: the budget is used up, and a restarted pod ends immediately.

        Returns False if another attempt has started, or if this pod must exit.
        """
        while True:
            try:
                stored = self._store.find_text(STATE_FILE)
                state = None if stored is None else parse_attempt_state(stored.text)
                # Another attempt has begun without this pod: its end decides, not this one.
                if state is None or state.number != self._number or state.completed:
                    return state is not None and state.completed
                done = replace(state, completed=True, stopped=stopped).to_json()
                if self._place.part == 0 and self._store.swap_text(STATE_FILE, done, before=stored) is not None:
                    return True
                if self._place.part > 0:
                    self._once("waiting for the first node to end")
            except StoreError as error:
                self._once(f"cannot write or read whether the job is complete; trying again: {error}")
            if over():
                return False
            time.sleep(_POLL_S)

    def leave(self, code: int, *, over: Callable[[], bool], newest: int | None = None) -> None:
        """Leave the seat, and count the attempt as failed if `code` is the code of a failure.

        `newest` is the step of the newest complete checkpoint, -1 for none; None on a pod that does not know it.

        Raises:
            StoreError: the store permanently refuses to count a failure.
        """
        if self._retries is None:
            return
        if code not in exits.NO_FAILURES:
            self.fail(code, over=over, newest=newest)
        self._leave_seat(code)

    def _leave_seat(self, code: int) -> None:
        """Record that this pod has left its seat, also before the attempt began: its seat may be the last one missing.

        Does nothing without a seat, or if attempts are not counted.
        """
        if self._retries is None or self._claimed is None:
            return
        try:
            self._store.swap_text(f"{folder_of(self._claimed)}/{LEFT}{self._place.part}", f"{code}\n", before=None)
        except StoreError as error:
            self._once(f"cannot record that this pod ended, so its end may count as a failure: {error}")
        self._claimed = None

    def refuse(self, code: int) -> None:
        """Record that the job has failed for good before this pod could claim a seat.

        Raises:
            StoreError: the store refuses, or does not answer.
        """
        while not self.completed:
            stored = self._store.find_text(STATE_FILE)
            state = None if stored is None else parse_attempt_state(stored.text)
            if state is not None and state.completed:
                return
            done = replace(state or AttemptState(number=1), completed=True, failed=code)
            self.completed = self._store.swap_text(STATE_FILE, done.to_json(), before=stored) is not None
            if state is not None and self.completed:
                self._declare_over(state.number)

    def fail(
        self, code: int, *, over: Callable[[], bool], number: int | None = None, newest: int | None = None
    ) -> bool:
        """Count an attempt as failed, once for all its pods.

        `number` None: this pod's own attempt. `newest` is as in `leave`.

        Returns whether the job has failed for good, so that no pod starts another attempt.

        Raises:
            StoreError: the store refuses permanently: this attempt is not counted.
        """
        number = self._number if number is None else number
        while True:
            try:
                stored = self._store.find_text(STATE_FILE)
                state = None if stored is None else parse_attempt_state(stored.text)
                if state is None or state.completed:
                    return state is not None and state.failed is not None
                failures = state.failures + (state.counted < number)
                earlier = state.step if state.step_of < number else None
                # An attempt that stored nothing newer than the one before repeats its work, whatever retries are left.
                stuck = newest is not None and earlier is not None and newest <= earlier
                spent = code in exits.NEVER_AGAIN or failures > (self._retries or 0)
                final = spent or stuck
                # Each pod of the attempt comes here; only the first one that does counts the failure.
                if state.counted >= number and not final and (newest is None or state.step_of >= number):
                    return False
                counted = replace(state, failures=failures, counted=max(number, state.counted))
                if newest is not None:
                    counted = replace(counted, step=newest, step_of=number)
                done = replace(counted, completed=True, failed=code, stuck=not spent) if final else counted
                if self._store.swap_text(STATE_FILE, done.to_json(), before=stored) is not None:
                    return final
            except StoreError as error:
                if error.permanent:
                    raise
                self._once(f"cannot record that the job failed; trying again: {error}")
            if over():
                return False
            time.sleep(_POLL_S)

    def _seat(self, latest: int | None) -> int | None:
        stored = self._store.find_text(STATE_FILE)
        state = None if stored is None else parse_attempt_state(stored.text)
        if state is not None and state.completed:
            self.completed, self.stopped, self.failed = True, state.stopped, state.failed
            return None
        if self._place.part == 0:
            return self._begin(stored, state)
        if state is None:
            self._once("waiting for the first node of the job")
            return None
        # No newer attempt has begun: its pods have not all left, and hear again that it is over.
        if state.number == latest:
            self._declare_over(state.number)
            return None
        seat = f"{folder_of(state.number)}/{SEAT}{self._place.part}"
        # A claimed seat belongs to the pod that this one replaces, unless the answer to an own try was lost.
        if self._store.swap_text(seat, self._name, before=None) is None and not self._owns(seat):
            self._declare_over(state.number)
            return None
        self._claimed = state.number
        return state.number

    def _begin(self, stored: StoredText | None, state: AttemptState | None) -> int | None:
        """Start the next attempt, on the first pod; None if another process changed `life.json` first."""
        self._leave_seat(exits.INTERRUPTED)  # of an attempt that began while the store did not answer this pod
        if state is not None:
            self._declare_over(state.number)
        number = 1 if state is None else state.number + 1
        begun = AttemptState(number=number) if state is None else replace(state, number=number)
        if self._store.swap_text(STATE_FILE, begun.to_json(), before=stored) is None:
            return None
        self._claimed = number
        self._store.swap_text(f"{folder_of(number)}/{SEAT}0", self._name, before=None)
        return number

    def _owns(self, seat: str) -> bool:
        """Whether a seat belongs to this process: the response to an earlier try was lost."""
        stored = self._store.find_text(seat)
        return stored is not None and stored.text == self._name

    def _has_begun(self, number: int, *, over: Callable[[], bool]) -> bool:
        pause = _POLL_S
        while not over():
            keys = self._store.sizes(f"{folder_of(number)}/")
            seats = sum(key.rpartition("/")[2].startswith(SEAT) for key in keys)
            if f"{folder_of(number)}/{OVER}" in keys:
                return False
            if seats >= self._place.parts:
                self._number = number
                return self._place.part > 0 or not self._failed_by_a_kill(number, over)
            self._once(f"attempt {number}: waiting for {self._place.parts - seats} of {self._place.parts} nodes")
            # Until every pod of the last attempt has left: each reads the notice at its own pace.
            if self._place.part == 0 and number > 1:
                self._declare_over(number - 1)
            newest = self._store.find_text(STATE_FILE)
            state = None if newest is None else parse_attempt_state(newest.text)
            if state is not None and (state.number != number or state.completed):
                return False
            time.sleep(pause)
            pause = min(_MAX_POLL_S, pause * _SLOWER)
        return False

    def _failed_by_a_kill(self, number: int, over: Callable[[], bool]) -> bool:
        """Count the last attempt as failed if its pods were killed; return whether the job has now failed for good."""
        if self._retries is None:
            return False
        for before in range(number - 1, 0, -1):
            names = {key.rpartition("/")[2] for key in self._store.sizes(f"{folder_of(before)}/")}
            if sum(name.startswith(SEAT) for name in names) < self._place.parts:
                continue  # it never began
            silent = [part for part in range(self._place.parts) if f"{LEFT}{part}" not in names]
            # A pod whose node is still in the job was killed alone; one whose node is gone was interrupted.
            nodes_now = self._node_names(number, range(self._place.parts)) if silent else set()
            if not nodes_now & self._node_names(before, silent) or not self.fail(_KILLED, over=over, number=before):
                return False
            self._declare_over(number)
            return True
        return False

    def _node_names(self, number: int, parts: Iterable[int]) -> set[str]:
        """The nodes whose pods claimed these seats in an attempt."""
        seats = (self._store.find_text(f"{folder_of(number)}/{SEAT}{part}") for part in parts)
        return {seat.text.partition(" ")[2] for seat in seats if seat is not None} - {""}

    def _declare_over(self, number: int) -> None:
        """Notify the pods that are still in an attempt that it is over; repeat the call until they have left."""
        folder = folder_of(number)
        if self._store.find_text(f"{folder}/{OVER}") is None:
            self._store.swap_text(f"{folder}/{OVER}", json.dumps({"by": self._place.node}) + "\n", before=None)
        stored = self._store.find_text(f"{folder}/{NEWS}")
        try:
            notices = shared_notices.parse_shared_notices(stored.text if stored is not None else "")
        except ValueError:
            notices = {}
        notice = Notice(source=POD_END, detail="a pod of the job was replaced", node=self._place.node)
        more = shared_notices.with_notice(notices, notice)
        if more is not None:
            self._store.swap_text(f"{folder}/{NEWS}", json.dumps(more) + "\n", before=stored)

    def _once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._notify(text)
