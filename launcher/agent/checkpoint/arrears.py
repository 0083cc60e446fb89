"""The checkpoint that every node of a job has finished and none of them could store: it is stored before the restore.

The first node asks, in its own state: a number, the step, and the life in which it was finished. A node that holds that
very one sends its part and answers yes, by way of the tree; any other answers no. When all have said yes the first node
commits, and all restore the newest checkpoint as ever, most of it from their own disks. A step of the same number that
was finished in another life, or by a job of another size, is not the same checkpoint: nobody mixes two. In any doubt
nothing is committed, and what each node has stays there and is named.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from launcher.agent.checkpoint.claim import Claim
from launcher.agent.checkpoint.commit import announce, assemble, commit
from launcher.agent.checkpoint.confirmation import next_number
from launcher.agent.checkpoint.delivery import figures
from launcher.agent.checkpoint.scratch import Scratch
from launcher.agent.checkpoint.upload import Identity, Sender, hold
from launcher.agent.checkpoint.watch import FinishedFolder
from launcher.agent.errors import ManifestError, StoreError, UnusableCheckpointError
from launcher.agent.events import EventLog
from launcher.agent.manifest import Manifest, commit_keys, step_of_folder
from launcher.agent.node.peers import Peers
from launcher.agent.store.objects import Store

_ANSWER_LOOK_S = 0.5
_SILENCE_S = 180.0
"""As in `agreement`: an agent that has not begun to beat by then will not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrears:
    """One node's side of it.

    Attributes:
        store: Where checkpoints are.
        claim: The first node's, taken.
        scratch: The agent's folder on the node.
        peers: The job's other nodes.
        identity: This node; of a job in which the first node alone writes, one of one.
        log: Where everything is written.
        over: Whether the attempt has ended meanwhile.
    """

    store: Store
    claim: Claim
    scratch: Scratch
    peers: Peers
    identity: Identity
    log: EventLog
    over: Callable[[], bool]

    def settle(self) -> None:
        """Store what all have, if they do; returns when that is decided.

        Raises:
            TakenOverError: Another agent writes there now.
        """
        held = self.scratch.newest_finished()
        if self.peers.part > 0:
            self._follow(held)
            return
        try:
            if held is not None:
                self._lead(held)
        except (StoreError, ManifestError, UnusableCheckpointError, OSError) as error:
            self._say_why_not(held, error)
        finally:
            self.peers.say(settled=True)

    # -------------------------------------------------------------------------------------------------- the first node

    def _lead(self, held: FinishedFolder) -> None:
        life = self.scratch.life_of(held)
        several = self.identity.parts > 1
        if (several and not life) or not self._is_newest(held.step):
            return
        number = next_number()
        if several:
            self.peers.say(arrears=[number, held.step, life])
        part, sent_bytes = self._sent(held)
        if several and not self._all_have_sent(number):
            return
        whole = assemble(self.store, part, session=self.identity.session)
        hold(held)
        self.claim.check()
        replaced = commit(self.store, whole, session=self.identity.session)
        if replaced:
            self.log.append("checkpoint-replaced", step=whole.step, reason=replaced)
        self.log.append("checkpoint-uploaded", **figures(whole, sent_bytes))

    def _is_newest(self, step: int) -> bool:
        """Whether the store has no commit of that step, or of a newer one, in whatever state."""
        for name in self.store.folders():
            there = step_of_folder(name)
            if there is not None and there >= step and commit_keys(there, self.store.sizes(f"{name}/")):
                return False
        return True

    def _all_have_sent(self, number: int) -> bool:
        """Wait for all answers; whether every other node has sent its part."""
        others = (1 << self.peers.parts) - 2
        while not self.over():
            found = self.peers.gathered()
            answered = found.asked == number
            if found.stopped is not None or found.silent_s > _SILENCE_S or (answered and found.denied):
                return False
            if answered and found.confirmed & others == others:
                return True
            time.sleep(_ANSWER_LOOK_S)
        return False

    # ------------------------------------------------------------------------------------------------------ the others

    def _follow(self, held: FinishedFolder | None) -> None:
        """Answer the first node, and wait until it has decided."""
        answered = False
        while not self.over():
            first = self.peers.first()
            if first.get("settled") or first.get("ended") or self.peers.first_silent_s() > _SILENCE_S:
                return
            match first.get("arrears"):
                case [int(number), int(step), str(life)] if not answered:
                    answered = True
                    self.peers.say(answer=[number, self._gives(held, step, life)])
            time.sleep(_ANSWER_LOOK_S)

    def _gives(self, held: FinishedFolder | None, step: int, life: str) -> bool:
        """Whether this node has that checkpoint and has sent its part."""
        if held is None or held.step != step or self.scratch.life_of(held) != life:
            return False
        try:
            part, sent_bytes = self._sent(held)
        except (StoreError, UnusableCheckpointError, OSError) as error:
            self._say_why_not(held, error)
            return False
        self.log.append("checkpoint-part-uploaded", **figures(part, sent_bytes))
        return True

    # ------------------------------------------------------------------------------------------------------------ both

    def _sent(self, held: FinishedFolder) -> tuple[Manifest, int]:
        """Send this node's part, held against what was read when it was finished."""
        part, sent_bytes = Sender(self.store, self.identity).send(held)
        for file in part.files:
            if held.hashes.get(file.path) != file.sha256:
                raise UnusableCheckpointError(f"{file.path} is not what it was when it was finished")
        if self.identity.parts > 1:
            announce(self.store, part, session=self.identity.session)
        return part, sent_bytes

    def _say_why_not(self, held: FinishedFolder | None, error: Exception) -> None:
        step = held.step if held is not None else None
        self.log.append("restore-skipped", step=step, reason=f"it cannot be stored from this node: {error}")
