"""The agent's access to the order of the saves in a store (`save_order`)."""

from launcher.agent.errors import StoreError
from launcher.agent.save_order import ORDER_KEY, SaveOrder, parse_order
from launcher.agent.store.objects import Store, StoredText

_TRIES = 5


def read_order(store: Store) -> SaveOrder:
    """The order that the store has; empty if it has none."""
    return _parsed(store.find_text(ORDER_KEY))


class OrderRecord:
    """Records commits before they are made; only the owner of the claim does."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stored: StoredText | None = None
        self._known = False

    def add(self, step: int, identity: str) -> None:
        """Record that the next commit is the newest one.

        Raises:
            StoreError: the store did not accept the record.
        """
        for _ in range(_TRIES):
            if not self._known:
                self._stored, self._known = self._store.find_text(ORDER_KEY), True
            order = _parsed(self._stored).with_newest(step, identity)
            written = self._store.swap_text(ORDER_KEY, order.to_json(), before=self._stored)
            if written is not None:
                self._stored = written
                return
            self._known = False  # an earlier write of this agent arrived and its answer did not, or another agent wrote
        raise StoreError(f"writing {ORDER_KEY}: another writer was first {_TRIES} times")


def _parsed(stored: StoredText | None) -> SaveOrder:
    return SaveOrder() if stored is None else parse_order(stored.text)
