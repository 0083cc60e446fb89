"""What changes in a cluster, without asking again and again: a watch that is resumed whenever it breaks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.agent import safe_json
from launcher.submit.jobs import UnreachableError
from launcher.submit.kubernetes.connection import Connection, RefusedError

_EXPIRED = 410
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0


@dataclass(slots=True, kw_only=True)
class Watch:
    """The objects of one path that fit a selector, as they come, change and go.

    The server ends every watch after a while, and may be gone for longer: the watch goes on from the last version that
    it has seen, bookmarks included. Where that is too old, everything is listed anew, and what is gone meanwhile is
    told as deleted.
    """

    connection: Connection
    path: str
    query: Mapping[str, str]
    sleep: Callable[[float], None]
    say: Callable[[str], None] = lambda _: None
    known: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: str = ""

    def changes(self, *, over: Callable[[], bool]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each change: ADDED, MODIFIED or DELETED, and the object.

        Args:
            over: whether it is enough; asked after every change and whenever the watch has broken.

        Raises:
            RefusedError: the cluster refuses.
        """
        pause = _FIRST_PAUSE_S
        while not over():
            try:
                if not self.version:
                    yield from self._listed()
                for found in self._watched():
                    pause = _FIRST_PAUSE_S
                    yield found
                    if over():
                        return
            except UnreachableError as problem:
                self.say(f"{problem.message}; trying again")
                self.sleep(pause)
                pause = min(_LONGEST_PAUSE_S, 2 * pause)
            except RefusedError as refused:
                if refused.code != _EXPIRED:
                    raise
                self.version = ""

    def _listed(self) -> Iterator[tuple[str, dict[str, Any]]]:
        answer = self.connection.ask("GET", self.path, query=self.query)
        there = {str(each["metadata"]["uid"]): each for each in answer["items"]}
        before, self.known = self.known, there
        self.version = str(answer["metadata"]["resourceVersion"])
        for uid, each in before.items():
            if uid not in there:
                yield "DELETED", each
        for uid, each in there.items():
            if uid not in before:
                yield "ADDED", each
            elif each["metadata"]["resourceVersion"] != before[uid]["metadata"]["resourceVersion"]:
                yield "MODIFIED", each

    def _watched(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What changes until the server ends the watch."""
        asked = {**self.query, "watch": "true", "allowWatchBookmarks": "true", "resourceVersion": self.version}
        for line in self.connection.stream(self.path, asked):
            told = safe_json.loads(line)
            kind, found = str(told["type"]), told["object"]
            if kind == "ERROR":
                raise RefusedError(str(found.get("message")), code=int(found.get("code", 500)))
            self.version = str(found["metadata"]["resourceVersion"])
            if kind == "BOOKMARK":
                continue
            uid = str(found["metadata"]["uid"])
            if kind == "DELETED":
                self.known.pop(uid, None)
            else:
                self.known[uid] = found
            yield kind, found
