"""Polls for the object with which the guard in the account reports that the job's budget is used up."""

import threading
from collections.abc import Callable

from launcher.agent import safe_json
from launcher.agent.errors import StoreError
from launcher.agent.store.objects import Store

POLL_S = 5.0
"""Seconds between two polls: 720 requests an hour, $0.0003 at S3's read price; the guard polls every five minutes."""


class StopWatch(threading.Thread):
    """Polls the store until the object exists. A store that does not answer is reported once, and polled again."""

    def __init__(
        self,
        uri: str | None,
        *,
        on_stop: Callable[[str], None],
        on_problem: Callable[[str], None],
        poll_s: float = POLL_S,
        timeout_s: float = 30.0,
    ) -> None:
        """`uri` is the object's; None: no object to wait for."""
        super().__init__(name="stop-watch", daemon=True)
        folder, _, self._key = (uri or "").rpartition("/")
        self._store = Store(folder, timeout_s=timeout_s) if uri is not None else None
        self._on_stop = on_stop
        self._on_problem = on_problem
        self._poll_s = poll_s
        self._problem_reported = False
        self._over = threading.Event()

    def stop(self) -> None:
        """End the thread after the current request."""
        self._over.set()

    def poll(self) -> bool:
        """Poll once; return whether the object exists. If it does, call `on_stop`."""
        if self._store is None:
            return False
        try:
            stored = self._store.find_text(self._key)
        except StoreError as error:
            if not self._problem_reported:
                self._problem_reported = True
                self._on_problem(str(error))
            return False
        if stored is None:
            return False
        self._on_stop(stop_message(stored.text))
        return True

    def run(self) -> None:
        """Poll until the object exists or the attempt is over."""
        while not self._over.wait(self._poll_s):
            if self.poll():
                return


def begin(uri: str | None, *, on_stop: Callable[[str], None], on_problem: Callable[[str], None]) -> StopWatch:
    """Poll now, and continue while the object is missing; the arguments are those of `StopWatch`."""
    watch = StopWatch(uri, on_stop=on_stop, on_problem=on_problem)
    if uri is not None and not watch.poll():
        watch.start()
    return watch


def stop_message(text: str) -> str:
    """The guard's message as text; the existence of the object alone is decisive.

    >>> stop_message('{"spent_usd": "481.20", "stop_at_usd": "500"}')
    '$481.20 of $500 is spent, and the rest reserved for the end'
    """
    try:
        document = safe_json.loads(text)
        spent, limit = (str(document[name])[:20] for name in ("spent_usd", "stop_at_usd"))
    except (ValueError, TypeError, KeyError):
        return "the budget is used up"
    return f"${spent} of ${limit} is spent, and the rest reserved for the end"
