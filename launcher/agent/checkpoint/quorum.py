"""A checkpoint of several nodes is complete when every node that writes checkpoints has sent its part.

Some trainers write only on the first rank, others on every node, and nothing announces which. Slipway assumes that a
node writes none only with proof: in this attempt nothing ever appeared in the node's checkpoint folder, and

- the first node has finished a later checkpoint (ranks train in step, so this node has passed the step too), or
- its command has ended with exit code 0, or
- an earlier checkpoint of the run already proved it.

The first node waits for all other nodes. A node whose command has ended announces its last checkpoint; the first
node does not wait for newer ones.
"""

import time
from collections.abc import Iterable

from launcher.agent.checkpoint.commit import assemble, missing_parts
from launcher.agent.checkpoint.confirmation import Question
from launcher.agent.errors import ManifestError, MixedVersionsError
from launcher.agent.manifest import Manifest
from launcher.agent.node.gathering import Gathered
from launcher.agent.node.peers import BEAT_S, Peers
from launcher.agent.node.placement import Placement
from launcher.agent.store.objects import Store

_BEATS = 2
"""A node's report counts if it was sent this many heartbeats after the later checkpoint was finished."""


class Quorum:
    """Assembles the parts of checkpoints, on the first node."""

    def __init__(self, store: Store, peers: Peers, writer: Placement, *, newest: Manifest | None) -> None:
        self._store = store
        self._peers = peers
        self._session = writer.session
        self._question = Question(peers)
        self._passed_at: dict[int, float] = {}
        self._silent: set[int] = set()
        if newest is not None and (newest.run, newest.parts) == (writer.run, writer.parts):
            self._silent = set(range(writer.parts)) - {file.part for file in newest.files}

    def assemble_parts(self, first: Manifest, *, newest: int, no_more: bool) -> Manifest | None:
        """The complete checkpoint of the first node's part `first`; None while a part or answer is missing.

        `newest` is the newest finished step. `no_more`: the first node's command has ended; lost nodes count as ended.

        Raises:
            ManifestError: the checkpoint can never be complete.
        """
        if first.parts == 1:
            return assemble(self._store, first, session=self._session)
        # First: parts that a node announced before it ended exist by then.
        gathered = self._peers.gather()
        missing = set(missing_parts(self._store, first, session=self._session))
        empty = {part for part in missing if self._writes_none(part, gathered, first.step, newest)}
        missing -= empty
        ended = {part for part in missing if gathered.ended >> part & 1}
        if no_more:
            ended |= set(gathered.silent)
        if never := missing & ended:
            raise ManifestError(f"node {min(never)} ended without uploading its part")
        senders = set(range(1, first.parts)) - empty
        if missing or not self._question.is_confirmed(first.step, senders, gathered):
            return None
        over = no_more and all(gathered.clean >> node & 1 for node in senders)
        try:
            return assemble(self._store, first, session=self._session, empty=empty, last=over)
        except MixedVersionsError:
            return None  # a node is still writing it again

    def withdraw(self, step: int) -> None:
        """Drop a step: no node is requested to confirm it any more."""
        self._question.withdraw(step)

    def beyond(self, steps: Iterable[int]) -> list[int]:
        """The given steps that another node's command ended without: they can never be complete."""
        last = self._peers.gather().last
        return [] if last is None else [step for step in steps if step > last]

    def _writes_none(self, part: int, gathered: Gathered, step: int, newest: int) -> bool:
        """Whether a node provably has no part of a step."""
        if not gathered.wrote_none >> part & 1:
            return False
        if newest > step:
            now = time.monotonic()
            if now - self._passed_at.setdefault(step, now) - gathered.age_s >= _BEATS * BEAT_S:
                self._silent.add(part)
        return part in self._silent or bool(gathered.clean >> part & 1)
