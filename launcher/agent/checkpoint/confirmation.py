"""Before the commit, every node checks that its part is unchanged since it was finished.

When all parts are in the store, the first node publishes a question: a number and the step. Every other node compares
the folder that it sent with its record and answers yes or no through the tree. After a no the first node asks again,
until that node has sent the checkpoint as it is now. The first node does not wait for nodes that have ended or are
lost. It waits 30 seconds for a node that sends heartbeats but no answer.
"""

import itertools
import threading
import time
from collections.abc import Callable, Collection

from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.checkpoint.upload import check_unchanged
from launcher.agent.errors import UnusableCheckpointError
from launcher.agent.node.gathering import Gathered
from launcher.agent.node.peers import Peers

_POLL_S = 0.5
_PATIENCE_S = 30.0
_numbers = itertools.count(1)
"""Numbers of this process's questions: an answer to an earlier question must not count for a later one."""


def next_number() -> int:
    """The number of a new question."""
    return next(_numbers)


class Question:
    """The first node's question about one step at a time."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._number = 0
        self._step: int | None = None
        self._asked_at = 0.0

    def is_confirmed(self, step: int, nodes: Collection[int], gathered: Gathered) -> bool:
        """Whether all nodes that sent a part confirm it as unchanged; publish the question if not yet done."""
        if self._step is not None and step < self._step:
            return False  # the requested step is newer, and comes first
        if self._step != step:
            self._number, self._step, self._asked_at = next_number(), step, time.monotonic()
            self._peers.publish_state(question=[self._number, step])
            return not nodes
        confirmed, denied = (gathered.confirmed, gathered.denied) if gathered.question == self._number else (0, 0)
        if denied:
            self._step = None  # it is written again there, and comes as a new version
            return False
        missing = {node for node in nodes if not (confirmed | gathered.ended) >> node & 1} - gathered.silent.keys()
        return not missing or time.monotonic() - self._asked_at >= _PATIENCE_S

    def withdraw(self, step: int) -> None:
        """Stop the question about a step that will not be committed."""
        if self._step == step:
            self._step = None


class Answers(threading.Thread):
    """The thread that answers the first node's questions on the other nodes, during and after the uploads."""

    def __init__(self, peers: Peers, sent: Callable[[int], FinishedFolder | None]) -> None:
        super().__init__(name="answers", daemon=True)
        self._peers = peers
        self._sent = sent
        self._answered = 0

    def run(self) -> None:
        """Answer until the process ends: the first node may ask after the last upload."""
        while True:
            time.sleep(_POLL_S)
            question = self._peers.first().get("question")
            if isinstance(question, list) and [type(number) for number in question] == [int, int]:
                self._answer(*question)

    def _answer(self, number: int, step: int) -> None:
        if number == self._answered:
            return
        folder = self._sent(step)
        try:
            if folder is not None:
                check_unchanged(folder, parts=self._peers.parts)
        except (UnusableCheckpointError, OSError):
            self._peers.publish_state(answer=[number, False])
        else:
            self._peers.publish_state(answer=[number, True])
        self._answered = number
