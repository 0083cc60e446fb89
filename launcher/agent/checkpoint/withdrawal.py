"""The agent's view of the checkpoints that a user took out of the running (`launcher.agent.withdrawn`)."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.agent.checkpoint.finished import FinishedFolder
from launcher.agent.errors import AgentError, ManifestError
from launcher.agent.store.objects import Store
from launcher.agent.withdrawn import WITHDRAWN_KEY, withdrawn_manifests

OUT_OF_THE_RUNNING = "launch --from-step took it out of the running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawal:
    """The keys of the withdrawn manifests, and when the last were withdrawn, in seconds by the store's clock."""

    manifests: frozenset[str] = frozenset()
    at_s: float = 0.0

    def without(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """The objects of a store without the withdrawn manifests."""
        return {key: size for key, size in sizes.items() if key not in self.manifests}

    def covers(self, finished: FinishedFolder) -> bool:
        """Whether a copy on the node is older than the withdrawal: the user chose an older step knowing no more."""
        return finished.saved_ns / 1e9 <= self.at_s


def read_withdrawal(store: Store) -> Withdrawal:
    """What the store has withdrawn.

    Raises:
        AgentError: the record is unusable.
        StoreError: the store cannot be read.
    """
    stored = store.find_text(WITHDRAWN_KEY)
    if stored is None:
        return Withdrawal()
    try:
        return Withdrawal(manifests=withdrawn_manifests(stored.text), at_s=stored.written_s)
    except ManifestError as error:
        raise AgentError(
            f"{error}; a launch with --from-step writes it again, and without it the newest checkpoint counts"
        ) from error
