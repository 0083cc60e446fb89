"""The order in which the checkpoints of a store were saved: `order.json`, which the agent writes.

A step tells nothing about the order: a second stage counts from 0 again, a best checkpoint has a lower step than the
last one, and a step may be saved twice. So the agent records every commit here, before it writes the manifest: an entry
whose manifest does not exist was never committed and counts for nothing. Commits without an entry, as earlier versions
wrote them, are older than all entries, in the order of their steps.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from launcher.agent import safe_json
from launcher.agent.shape import check_shape

ORDER_KEY = "order.json"
SCHEMA = "slipway.order/1"
_MAX_ENTRIES = 200
"""Older commits have long been superseded; the record stays small."""
_FIRST_ORDINAL = 10**19
"""Above every step (18 digits): a commit with an entry is newer than any without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """One commit: its number (from 1, ascending), its step, and the identity of its manifest."""

    number: int
    step: int
    identity: str

    @property
    def ordinal(self) -> int:
        """Compares with the ordinals of other commits: the newest has the highest."""
        return _FIRST_ORDINAL + self.number


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveOrder:
    """The commits of a store, newest first, and those that the user took out of the running, by step.

    A withdrawn commit is named by the key of its manifest. It stays in the store, and no attempt resumes from it.
    """

    saves: tuple[Save, ...] = ()
    withdrawn: Mapping[int, tuple[str, ...]] = field(default_factory=dict)

    def with_newest(self, step: int, identity: str) -> "SaveOrder":
        """The order after another commit."""
        number = max((save.number for save in self.saves), default=0) + 1
        newest = Save(number=number, step=step, identity=identity)
        return replace(self, saves=(newest, *self.saves)[:_MAX_ENTRIES])

    def without(self, withdrawn: Mapping[int, Iterable[str]]) -> "SaveOrder":
        """The order without the given commits: keys of manifests, by step."""
        steps = {*self.withdrawn, *withdrawn}
        merged = {step: tuple(sorted({*self.withdrawn.get(step, ()), *withdrawn.get(step, ())})) for step in steps}
        return replace(self, withdrawn=merged)

    def steps(self) -> list[int]:
        """The steps of the recorded commits, the last saved first; each once."""
        return list(dict.fromkeys(save.step for save in self.saves))

    def ranked(self, steps: Iterable[int]) -> list[int]:
        """Steps, the last saved first; steps without a record are older, the highest first."""
        recorded = self.steps()
        present = set(steps)
        return [step for step in recorded if step in present] + sorted(present.difference(recorded), reverse=True)

    def to_json(self) -> str:
        """The text of `order.json`."""
        saves = [[save.number, save.step, save.identity] for save in self.saves]
        withdrawn = {str(step): list(keys) for step, keys in sorted(self.withdrawn.items())}
        return json.dumps({"schema": SCHEMA, "saves": saves, "withdrawn": withdrawn}) + "\n"


def parse_order(text: str) -> SaveOrder:
    """The order in `text`; an unreadable text counts as none."""
    try:
        document = safe_json.loads(text)
        check_shape(document, {"schema": str, "saves": list, "withdrawn": dict})
        if document["schema"] != SCHEMA:
            return SaveOrder()
        saves = [
            Save(number=int(number), step=int(step), identity=str(identity))
            for number, step, identity in document["saves"]
        ]
        withdrawn = {int(step): tuple(map(str, keys)) for step, keys in document["withdrawn"].items()}
    except (ValueError, TypeError):
        return SaveOrder()
    return SaveOrder(saves=tuple(sorted(saves, key=lambda save: save.number, reverse=True)), withdrawn=withdrawn)
