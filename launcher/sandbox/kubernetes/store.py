"""The objects of one cluster with their resource versions, and the changes for watches."""

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from launcher.sandbox.kubernetes.kinds import Kind
from launcher.sandbox.kubernetes.statuses import RefusedError, not_found

Object = dict[str, Any]
_HISTORY = 4096
"""Number of changes from which a watch can resume; a real etcd is compacted every five minutes."""


def update_condition(status: Object, kind: str, *, is_true: bool = True, **fields: str) -> Object:
    """A status with a condition, which replaces an earlier one of its type."""
    row = {"type": kind, "status": str(is_true), **fields, "lastTransitionTime": now()}
    others = [condition for condition in status.get("conditions", ()) if condition["type"] != kind]
    return {**status, "conditions": [*others, row]}


def copy_json(value: Any) -> Any:
    """A copy of a JSON value, five times as fast as copy.deepcopy."""
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    return [copy_json(item) for item in value] if isinstance(value, list) else value


def now() -> str:
    """The current time in the format of objects."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectChange:
    """One change: `before` is None for a new object, `after` for a deleted object."""

    version: int
    kind: Kind
    before: Object | None
    after: Object | None

    @property
    def newest(self) -> Object:
        """The current object, or its last version."""
        document = self.after if self.after is not None else self.before
        assert document is not None  # noqa: S101 - one of the two is there
        return document


class ObjectStore:
    """The stored objects. Objects that go in and out are copies; `changed` is notified of every change."""

    def __init__(self) -> None:
        self._objects: dict[tuple[Kind, str, str], Object] = {}
        self._version = 1
        self._history: deque[ObjectChange] = deque(maxlen=_HISTORY)
        self._compacted = 0
        self.changed = threading.Condition(threading.RLock())

    @property
    def version(self) -> int:
        """The number of the last change."""
        with self.changed:
            return self._version

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """An object."""
        with self.changed:
            stored = self._objects.get((kind, namespace, name))
            if stored is None:
                raise not_found(kind.plural, kind.group, name)
            document: Object = copy_json(stored)
            return document

    def find(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """An object; None if it does not exist."""
        try:
            return self.get(kind, namespace, name)
        except RefusedError:
            return None

    def every(
        self, kind: Kind, namespace: str = "", match: Callable[[Mapping[str, Any]], bool] = lambda _: True
    ) -> tuple[list[Object], int]:
        """All matching objects of a kind, sorted by namespace and name, and the number of the last change."""
        with self.changed:
            listed = [
                copy_json(document)
                for (of, where, _), document in self._objects.items()
                if of == kind and namespace in ("", where) and match(document)
            ]
            listed.sort(key=lambda document: (document["metadata"].get("namespace", ""), document["metadata"]["name"]))
            return listed, self._version

    def headers(self) -> list[tuple[Kind, Object]]:
        """Kind and metadata of every object of the cluster."""
        with self.changed:
            return [
                (kind, {"metadata": copy_json(stored["metadata"])}) for (kind, _, _), stored in self._objects.items()
            ]

    def create(self, kind: Kind, namespace: str, document: Object) -> Object:
        """Store a new object.

        Raises:
            RefusedError: an object of that name exists.
        """
        with self.changed:
            metadata = document["metadata"]
            name = metadata["name"]
            if (kind, namespace, name) in self._objects:
                resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
                raise RefusedError("AlreadyExists", f'{resource} "{name}" already exists')
            assigned = {"uid": _uid(), "creationTimestamp": now(), "generation": 1}
            created = {
                **document,
                "metadata": {**metadata, **({"namespace": namespace} if namespace else {}), **assigned},
            }
            return self._put(kind, namespace, None, created)

    def update(self, kind: Kind, namespace: str, change: Callable[[Object], Object | None], name: str) -> Object:
        """Change an object; an unchanged object gets no new version.

        `change` returns the new object, or None for no change.

        Raises:
            RefusedError: the object does not exist, or `change` refuses it.
        """
        with self.changed:
            before = self.get(kind, namespace, name)
            after = change(copy_json(before))
            if after is None or after == before:
                return before
            if after.get("spec") != before.get("spec"):
                after["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
            deleted = "deletionTimestamp" in after["metadata"] and not after["metadata"].get("finalizers")
            if deleted and not after["metadata"].get("deletionGracePeriodSeconds"):
                self._remove(kind, namespace, before)
                return after
            return self._put(kind, namespace, before, after)

    def remove(self, kind: Kind, namespace: str, name: str) -> Object:
        """Remove an object immediately."""
        with self.changed:
            before = self.get(kind, namespace, name)
            self._remove(kind, namespace, before)
            return before

    def since(self, version: int, kind: Kind) -> tuple[list[ObjectChange], int]:
        """The changes of a kind after a version, and the number of the last change of all kinds.

        Raises:
            RefusedError: the version is older than the retained history.
        """
        with self.changed:
            if version < self._compacted:
                raise RefusedError("Expired", f"too old resource version: {version} ({self._compacted})")
            return [
                change for change in self._history if change.version > version and change.kind == kind
            ], self._version

    def compact(self) -> None:
        """Delete the history: a client that resumes an older watch must list again."""
        with self.changed:
            self._history.clear()
            self._compacted = self._version

    def wait(self, version: int, seconds: float) -> None:
        """Wait for a change after a version, or until the time is over."""
        deadline = time.monotonic() + seconds
        with self.changed:
            while self._version <= version and (remaining_s := deadline - time.monotonic()) > 0:
                self.changed.wait(remaining_s)

    def wake(self) -> None:
        """Wake all waiting threads."""
        with self.changed:
            self.changed.notify_all()

    def _put(self, kind: Kind, namespace: str, before: Object | None, after: Object) -> Object:
        self._version += 1
        after["metadata"]["resourceVersion"] = str(self._version)
        stored = copy_json(after)
        self._objects[kind, namespace, after["metadata"]["name"]] = stored
        self._note(ObjectChange(version=self._version, kind=kind, before=before, after=stored))
        return after

    def _remove(self, kind: Kind, namespace: str, before: Object) -> None:
        self._version += 1
        last = {**before, "metadata": {**before["metadata"], "resourceVersion": str(self._version)}}
        del self._objects[kind, namespace, before["metadata"]["name"]]
        self._note(ObjectChange(version=self._version, kind=kind, before=last, after=None))

    def _note(self, change: ObjectChange) -> None:
        if len(self._history) == _HISTORY:
            self._compacted = self._history[0].version
        self._history.append(change)
        self.changed.notify_all()


def owner_uids(document: Mapping[str, Any]) -> Iterator[str]:
    """The uids of an object's owners."""
    return (reference["uid"] for reference in document["metadata"].get("ownerReferences", ()))


def _uid() -> str:
    digits = secrets.token_hex(16)
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"
