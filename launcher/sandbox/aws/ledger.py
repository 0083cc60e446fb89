"""The ledger of each resource of each template: the emulated parts and the missing parts."""

import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

MOTO = "moto"
SANDBOX = "sandbox"
NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of one stack."""

    stack: str
    logical_id: str
    type: str
    physical_id: str
    # The emulation: "moto", "sandbox" (a model of this package) or "nothing" (accepted, not created).
    model: str
    # Why nothing was created.
    reason: str = ""
    # The properties of the template that were never read.
    ignored: tuple[str, ...] = ()


class EmulationLedger:
    """All entries, and the requested API calls that the sandbox does not emulate. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], Resource] = {}
        self._actions: dict[str, int] = {}

    def record(self, entry: Resource) -> None:
        """Record a resource; the newest entry replaces an earlier one."""
        with self._lock:
            self._entries[entry.stack, entry.logical_id] = entry

    def remark(self, stack: str, logical_id: str, ignored: str) -> None:
        """Add one ignored part to the entry of a resource."""
        with self._lock:
            entry = self._entries.get((stack, logical_id))
            if entry is not None and ignored not in entry.ignored:
                self._entries[stack, logical_id] = replace(entry, ignored=(*entry.ignored, ignored))

    def missing_action(self, action: str) -> None:
        """Count a call to an API that is not emulated."""
        with self._lock:
            self._actions[action] = self._actions.get(action, 0) + 1

    def document(self) -> dict[str, Any]:
        """The ledger as JSON values: `resources` and `actions`."""
        with self._lock:
            return {"resources": [asdict(entry) for entry in self._entries.values()], "actions": dict(self._actions)}


class Properties(dict[str, Any]):
    """The properties of a resource, which record the names that were read.

    >>> properties = Properties({"CidrBlock": "10.0.0.0/16", "Ipv4IpamPoolId": "pool"})
    >>> properties.get("CidrBlock")
    '10.0.0.0/16'
    >>> properties.unread()
    ('Ipv4IpamPoolId',)
    """

    _read: set[str]

    def __new__(cls, *_: Any) -> Self:
        """Create the set of names; here and not in `__init__`, which copy.deepcopy does not call."""
        handler = super().__new__(cls)
        handler._read = set()
        return handler

    def unread(self) -> tuple[str, ...]:
        """The names that were never read."""
        return tuple(sorted(set(super().keys()) - self._read))

    def __getitem__(self, name: str) -> Any:
        self._read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        """The value or the default, as dict does."""
        self._read.add(name)
        return super().get(name, default)

    def __iter__(self) -> Iterator[str]:
        """All names; an iteration counts as a read of all names."""
        self._read.update(super().keys())
        return super().__iter__()

    def keys(self) -> Any:
        """All names, as dict does."""
        self._read.update(super().keys())
        return super().keys()

    def values(self) -> Any:
        """All values, as dict does."""
        self._read.update(super().keys())
        return super().values()

    def items(self) -> Any:
        """All pairs, as dict does."""
        self._read.update(super().keys())
        return super().items()
