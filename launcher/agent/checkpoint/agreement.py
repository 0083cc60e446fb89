"""All nodes of a job go on from the same checkpoint.

Every node looks for the newest whole checkpoint by itself. Should one of them not be able to use it (an object damaged
on its way, a commit that came between two looks), all take the newest that every node can use. The first node collects
what each has restored and says when all are alike; the others listen to it alone, so that a job of many nodes does not
read the same files many times over.
"""

import time
from collections.abc import Callable
from typing import Any

from launcher.agent import exits
from launcher.agent.errors import AgentError, EndedNodeError, LostNodeError
from launcher.agent.node.peers import Peers

NONE = -1
"""Said in place of a step where nothing was restored."""

_LOOK_S = 0.5
_SILENCE_S = 180.0
"""An agent that has not begun to beat by then will not come; a restore may take longer, it beats meanwhile."""


def agree(peers: Peers, restore: Callable[[int | None], int | None], *, over: Callable[[], bool]) -> None:
    """Restore until every node has the same step.

    Args:
        peers: The other nodes.
        restore: Restores the newest whole checkpoint of at most a step (None: of any) and returns its step, or None.
        over: Whether the attempt has ended meanwhile; then nothing more is done.

    Raises:
        LostNodeError: Another node is gone.
        AgentError: Some nodes have restored a checkpoint and others cannot use any.
    """
    own = _spoken(restore(None))
    if peers.alone or over():
        return
    peers.say(restored=own)
    heard = _Ear(peers)
    while not over():
        go, lowest = _collected(peers, heard, own) if peers.part == 0 else heard.first()
        if go == own:
            return
        if lowest is None or lowest >= own:
            time.sleep(_LOOK_S)
            continue
        own = _spoken(restore(lowest))
        if not over():
            peers.say(restored=own)


def _collected(peers: Peers, heard: "_Ear", own: int) -> tuple[int | None, int | None]:
    """On the first node: the step that all have, and the lowest that one has, both said to all; None while not known.

    Raises:
        AgentError: Some nodes have a checkpoint and others cannot use any.
    """
    steps = [own, *heard.everybody()]
    if len(steps) <= len(peers.others):
        return None, None
    lowest = min(steps)
    if lowest == max(steps):
        peers.say(go=lowest)
        return lowest, lowest
    if lowest < 0:
        raise AgentError(f"some nodes cannot use any checkpoint, others have restored one: steps {sorted(steps)}")
    peers.say(lowest=lowest)
    return None, lowest


def _spoken(step: int | None) -> int:
    return NONE if step is None else step


class _Ear:
    """Reads what nodes say, and notices when one has fallen silent."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._last: dict[int, dict[str, Any]] = {}
        self._changed_at: dict[int, float] = {}

    def everybody(self) -> list[int]:
        """What all others have restored, as far as they have spoken."""
        said = [state.get("restored") for state in self._listen(self._peers.others).values()]
        return [step for step in said if isinstance(step, int)]

    def first(self) -> tuple[int | None, int | None]:
        """What the first node has said: the step that all have, and the lowest that one has."""
        state = self._listen((0,)).get(0, {})
        return state.get("go"), state.get("lowest")

    def _listen(self, parts: tuple[int, ...]) -> dict[int, dict[str, Any]]:
        now = time.monotonic()
        states = self._peers.states(parts)
        for part in parts:
            state = states.get(part, {})
            if part not in self._changed_at or self._last.get(part) != state:
                self._last[part], self._changed_at[part] = state, now
            node = state.get("node", f"number {part}")
            if state.get("ended") and "go" not in state:  # a short command may have ended by the time one looks
                code = state.get("exit_code")
                message = f"the agent on {node} ended before the command was started"
                raise EndedNodeError(message, exit_code=code if isinstance(code, int) and code else exits.INTERNAL)
            if now - self._changed_at[part] > _SILENCE_S:
                raise LostNodeError(f"node {node} is gone before the command was started")
        return states
