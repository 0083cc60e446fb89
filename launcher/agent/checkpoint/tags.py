"""Setting the tag of superseded objects: several requests at once, and none after a stop."""

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store

WORKERS = 8
"""Requests at once. S3 takes 3,500 writes a second below one prefix (S3 User Guide, "Best practices design patterns:
optimizing Amazon S3 performance", read 2026-11-20); eight stay far below it and leave the uploads their connections."""
BATCH = 500
"""Objects between two looks whether they still may be tagged."""


class Tags:
    """Sets tags until it is stopped."""

    def __init__(self, store: Store) -> None:
        """Nothing is tagged yet.

        Args:
            store: Where the objects are.
        """
        self._store = store
        self.stopped = threading.Event()

    def put(self, keys: Iterable[str], *, check: Callable[[], None]) -> Iterator[str]:
        """Tag objects as superseded.

        Args:
            keys: Which.
            check: Asked before every batch; it raises where no more may be tagged.

        Yields:
            The keys that carry the tag; fewer than were asked for when it was stopped.
        """
        left = iter(keys)
        with ThreadPoolExecutor(WORKERS) as pool:
            while (batch := list(islice(left, BATCH))) and not self.stopped.is_set():
                check()
                yield from (key for key in pool.map(self._tag, batch) if key is not None)

    def _tag(self, key: str) -> str | None:
        """Tag one object; None: it was not, because everything is to stop."""
        if self.stopped.is_set():
            return None
        try:
            self._store.set_superseded(key, superseded=True)
        except StoreError as error:
            if not error.missing:  # it has expired, as it was to
                raise
        return key
