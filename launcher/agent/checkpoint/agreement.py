"""All nodes of a job resume from the same checkpoint.

Each node searches for the newest complete checkpoint. If one node cannot use that checkpoint (a damaged object, a
commit between two searches), all nodes restore the newest checkpoint that every node can use. The first node collects
the restored steps through the tree of `gathering` and announces when all steps are equal.
"""

import time
from collections.abc import Callable

from launcher.agent import exits
from launcher.agent.errors import AgentError, LostNodeError
from launcher.agent.node.gathering import name_of, node_state
from launcher.agent.node.peers import Peers

NONE = -1
"""The value that a node reports instead of a step if it restored nothing."""

_POLL_S = 0.5
_SILENCE_S = 180.0
"""An agent without a heartbeat after this time counts as lost; heartbeats continue during a longer restore."""


def agree(peers: Peers, restore: Callable[[int | None], int | None], *, over: Callable[[], bool]) -> None:
    """Restore until every node has the same step.

    `restore` restores the newest complete checkpoint of at most a step (None: any) and returns its step, or None.

    Raises:
        LostNodeError: another node stopped responding.
        AgentError: some nodes restored a checkpoint and other nodes have no usable one.
    """
    restored = _step_number(restore(None))
    if peers.alone or over():
        return
    peers.publish_state(restored=restored)
    while not over():
        go, lowest = _collect_steps(peers) if peers.part == 0 else _heard_from_first(peers)
        if go == restored:
            return
        if lowest is None or lowest >= restored:
            time.sleep(_POLL_S)
            continue
        restored = _step_number(restore(lowest))
        if not over():
            peers.publish_state(restored=restored)


def _collect_steps(peers: Peers) -> tuple[int | None, int | None]:
    """On the first node: announce and return the common step and the lowest step of all nodes; None while unknown."""
    gathered = peers.gather()
    _refuse_one_that_ended(gathered.stopped)
    if gathered.silent_s > _SILENCE_S:
        raise LostNodeError(f"node {', '.join(gathered.silent.values())} stopped responding before the command started")
    if gathered.reported < peers.parts or gathered.lowest is None:
        return None, None
    if gathered.lowest == gathered.highest:
        peers.publish_state(go=gathered.lowest)
        return gathered.lowest, gathered.lowest
    if gathered.lowest < 0:
        steps = [gathered.lowest, gathered.highest]
        raise AgentError(f"some nodes found no usable checkpoint, others restored one: steps {steps}")
    peers.publish_state(lowest=gathered.lowest)
    return None, gathered.lowest


def _heard_from_first(peers: Peers) -> tuple[int | None, int | None]:
    """On other nodes: return the common step and the lowest step that the first node announced; None if unknown."""
    state = peers.first()
    go, lowest = state.get("go"), state.get("lowest")
    if go is None:
        _refuse_one_that_ended(node_state(0, state).stopped)
        if peers.first_silent_s() > _SILENCE_S:
            raise LostNodeError(f"node {name_of(0, state)} stopped responding before the command started")
    return go, lowest


def _refuse_one_that_ended(stopped: tuple[str, int] | None) -> None:
    if stopped is not None:
        name, code = stopped
        message = f"the agent on {name} ended before the command started"
        ended = AgentError(message)
        # This agent ends with the same code.
        ended.exit_code = code or exits.INTERNAL
        raise ended


def _step_number(step: int | None) -> int:
    return NONE if step is None else step
